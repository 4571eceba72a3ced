"""The scores of a user's own mechanism under the two datasets."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from audit.numerics.number_format import count, share
from audit.report.document import Picture
from audit.report.figures import style
from audit.results import ScoreHistograms


def draw(scores: ScoreHistograms, trials: int, stem: str) -> Picture:
    """Draw the two histograms over each other."""
    edges = np.array(scores.edges)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        for heights, name, colour, line in (
            (np.array(scores.first), "dataset 0", style.FIRST, "-"),
            (np.array(scores.second), "dataset 1", style.SECOND, "--"),
        ):
            axes.stairs(
                heights, edges, fill=True, alpha=0.25, color=colour, lw=0,
                hatch="////" if line == "--" else None,
            )  # fmt: skip
            axes.stairs(heights, edges, color=colour, ls=line, label=name)
        axes.set_xlabel("score")
        axes.set_ylabel("share of the runs")
        style.legend_below(figure, axes)

    title = "The scores under the two datasets"
    return style.picture(f"{stem}-scores", title, caption(scores, trials), on, 2.9)


def caption(scores: ScoreHistograms, trials: int) -> str:
    """Say how much the two histograms have in common."""
    common = float(np.sum(np.minimum(scores.first, scores.second)))
    return (
        f"Shares of {count(trials)} runs on each dataset. The two histograms have "
        f"{share(common, 1.0)} of their area in common; the less, the easier the datasets are to "
        "tell apart."
    )

"""The scores of a user's own mechanism under the two datasets."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from audit.report import stored
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.number_format import count, share
from audit.report.stored import Node

_LAWS = (("share", "dataset 0", style.FIRST, "-"), ("share_prime", "dataset 1", style.SECOND, "--"))


def draw(setting: Node) -> Picture:
    """Draw the two histograms over each other."""
    scores = setting["scores"]
    edges = np.asarray(scores["edges"], dtype=np.float64)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        for key, name, colour, line in _LAWS:
            heights = np.asarray(scores[key], dtype=np.float64)
            axes.stairs(
                heights, edges, fill=True, alpha=0.25, color=colour, lw=0,
                hatch="////" if line == "--" else None,
            )  # fmt: skip
            axes.stairs(heights, edges, color=colour, ls=line, label=name)
        axes.set_xlabel("score")
        axes.set_ylabel("share of the runs")
        style.legend_below(figure, axes)

    name = f"{stored.stem(setting)}-scores"
    return style.picture(name, "The scores under the two datasets", caption(setting), on, 2.9)


def caption(setting: Node) -> str:
    """Say how much the two histograms have in common."""
    shares = [np.asarray(setting["scores"][key], dtype=np.float64) for key, *_ in _LAWS]
    common = float(np.sum(np.minimum(*shares)))
    return (
        f"Shares of {count(int(setting['trials']))} runs on each dataset. The two histograms have "
        f"{share(common, 1.0)} of their area in common; the less, the easier the datasets are to "
        "tell apart."
    )

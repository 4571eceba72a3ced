"""Laws of one run: densities over sampled histograms with the atoms, or histograms of scores."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.numerics.arrays import Array
from audit.numerics.number_format import count, number, share
from audit.report.document import Picture
from audit.report.figures import style
from audit.results import LawCurves, Laws, ScoreHistograms

_MIN_OVERLAP = 0.02  # with less in common, or peaks farther apart, densities are drawn in log
_MAX_PEAK_RATIO = 20.0
_MIN_END_MASS = 1e-5  # an end of the domain that holds less of either law has no panel
_MIN_EXPECTED = 20  # expected samples in a bin that is compared
_ENDS = ("left", "right")
_STYLES = ((style.FIRST, "-", None), (style.SECOND, "--", "////"))  # colour, line, hatch


def _both(laws: Laws) -> tuple[tuple[LawCurves, str], tuple[LawCurves, str]]:
    return (laws.first, "X"), (laws.second, "X'")


def draw(laws: Laws, trials: int, stem: str) -> Picture:
    """Draw both laws between two narrow panels for the atoms at the ends of the domain."""
    densities = np.array(laws.first.density), np.array(laws.second.density)
    common = float(np.trapezoid(np.minimum(*densities), laws.grid))
    least, most = sorted(float(density.max()) for density in densities)
    logarithmic = common < _MIN_OVERLAP or most > _MAX_PEAK_RATIO * max(least, 1e-300)
    ends = [i for i in (0, 1) if max(laws.first.atoms[i], laws.second.atoms[i]) > _MIN_END_MASS]
    masses = [
        mass
        for law, _ in _both(laws)
        for end in ends
        for mass in (law.atoms[end], law.atom_frequencies[end])
    ]

    def on(figure: Figure) -> None:
        widths = [1.0] * (0 in ends) + [5.2] + [1.0] * (1 in ends)
        panels = list(figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0])
        middle = panels.pop(1 if 0 in ends else 0)
        _densities(middle, laws, logarithmic)
        for end, axes in zip(ends, panels, strict=True):
            _atoms(axes, laws, end, max(masses))

    words = caption(laws, trials, logarithmic=logarithmic)
    return style.picture(f"{stem}-laws", "The laws of the last iterate", words, on, 3.1)


def _densities(axes: Axes, laws: Laws, logarithmic: bool) -> None:
    floor = _floor(laws) if logarithmic else 0.0
    for (law, name), (colour, line, hatch) in zip(_both(laws), _STYLES, strict=True):
        density = np.array(law.density)
        axes.stairs(
            np.maximum(law.histogram, floor), np.array(laws.edges), baseline=floor, fill=True,
            alpha=0.25, color=colour, lw=0, hatch=hatch, label=f"{name}, sampled",
        )  # fmt: skip
        shown = np.where(density > floor, density, np.nan) if logarithmic else density
        axes.plot(laws.grid, shown, color=colour, ls=line, label=f"{name}, exact")
    if logarithmic:
        style.logarithmic(axes, "y")
    axes.set_ylim(bottom=floor)
    axes.set_xlim(laws.grid[0], laws.grid[-1])
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("last iterate")
    axes.set_title("density" + (", logarithmic" if logarithmic else ""), loc="left")


def _floor(laws: Laws) -> float:
    """Return a density somewhat below the lightest bin that was hit."""
    heights = np.concatenate([laws.first.histogram, laws.second.histogram])
    peak = max(*laws.first.density, *laws.second.density)
    lowest = float(heights[heights > 0].min(initial=math.inf)) / 10
    return float(10 ** math.floor(math.log10(lowest if lowest < math.inf else peak * 1e-7)))


def _atoms(axes: Axes, laws: Laws, end: int, top: float) -> None:
    for at, ((law, _), (colour, _, hatch)) in enumerate(zip(_both(laws), _STYLES, strict=True)):
        exact = law.atoms[end]
        axes.bar(at, law.atom_frequencies[end], 0.8, color=colour, alpha=0.25, lw=0, hatch=hatch)
        axes.plot([at - 0.4, at + 0.4], [exact, exact], color=colour, lw=2.5, solid_capstyle="butt")
        axes.annotate(
            number(exact, 2), (at, max(exact, 0)), (0, 4), textcoords="offset points", ha="center",
            va="bottom", rotation=90, fontsize=9,
        )  # fmt: skip
    axes.set_xlim(-0.7, 1.7)
    axes.set_ylim(0, top * 1.45)
    axes.set_xticks([0, 1], ["X", "X'"])
    axes.grid(axis="x", visible=False)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_title(f"{_ENDS[end]} end", loc="center")
    axes.set_xlabel("mass")


def caption(laws: Laws, trials: int, *, logarithmic: bool) -> str:
    """Say how far samples and computation agree, and what sits at the ends."""
    parts = ["Lines are computed, filled steps are sampled."]
    if logarithmic:
        parts.append("Densities are drawn logarithmically because the laws hardly overlap.")
    parts += _agreement(laws, trials)
    mass, name, end = max((law.atoms[i], name, i) for law, name in _both(laws) for i in (0, 1))
    if mass > 0:
        (law, _), (other, other_name) = sorted(_both(laws), key=lambda one: one[1] != name)
        parts.append(
            f"At the {_ENDS[end]} end of the domain sits {number(mass, 3)} of the mass of "
            f"{name} (sampled: {number(law.atom_frequencies[end], 3)}), and "
            f"{number(other.atoms[end], 3)} of that of {other_name}."
        )
    return " ".join(parts)


def _agreement(laws: Laws, trials: int) -> list[str]:
    """Compare bins with the exact law; silent where the grid is too coarse to tell."""
    inside = compared = 0
    for law, _ in _both(laws):
        masses = _bin_masses(laws, law)
        if masses is None:
            return []
        seen = np.array(law.histogram) * np.diff(laws.edges)
        enough = masses * trials >= _MIN_EXPECTED
        error = np.sqrt(masses * (1 - np.minimum(masses, 1)) / trials)
        inside += int(np.sum(np.abs(seen - masses)[enough] <= 3 * error[enough]))
        compared += int(np.sum(enough))
    if not compared:
        return []
    agree = "agree" if inside >= 0.97 * compared else "differ"
    return [
        f"Samples and computation {agree}: {count(inside)} of {count(compared)} bins are within "
        "three standard errors."
    ]


def _bin_masses(laws: Laws, law: LawCurves) -> Array | None:
    """Integrate the density over each bin, log-linearly between the points of the grid."""
    grid, edges = np.array(laws.grid), np.array(laws.edges)
    points = np.union1d(grid, edges)
    logs = np.interp(points, grid, np.log(np.maximum(law.density, 1e-300)))
    left, change = np.exp(logs[:-1]), np.diff(logs)
    growth = np.where(change == 0, 1, np.expm1(change) / np.where(change == 0, 1, change))
    sums = np.concatenate([[0], np.cumsum(np.diff(points) * left * growth)])
    masses: Array = np.diff(np.interp(edges, points, sums))
    total = float(masses.sum() + sum(law.atoms))
    return masses if abs(total - 1) < 1e-3 else None


def draw_scores(scores: ScoreHistograms, trials: int, stem: str) -> Picture:
    """Draw the scores of a user's own mechanism under the two datasets over each other."""
    edges = np.array(scores.edges)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        for i, heights in enumerate((np.array(scores.first), np.array(scores.second))):
            colour, line, hatch = _STYLES[i]
            axes.stairs(heights, edges, fill=True, alpha=0.25, color=colour, lw=0, hatch=hatch)
            axes.stairs(heights, edges, color=colour, ls=line, label=f"dataset {i}")
        axes.set_xlabel("score")
        axes.set_ylabel("share of the runs")

    title = "The scores under the two datasets"
    return style.picture(f"{stem}-scores", title, scores_caption(scores, trials), on, 2.9)


def scores_caption(scores: ScoreHistograms, trials: int) -> str:
    """Say how much the two histograms have in common."""
    common = float(np.sum(np.minimum(scores.first, scores.second)))
    return (
        f"Shares of {count(trials)} runs on each dataset. The two histograms have "
        f"{share(common, 1.0)} of their area in common; the less, the easier the datasets are to "
        "tell apart."
    )

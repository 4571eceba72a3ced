"""The two laws of the last iterate: computed densities over sampled histograms, and the atoms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from audit.numerics.number_format import count, number
from audit.report.document import Picture
from audit.report.figures import style
from audit.results import LawCurves, Laws

Array = NDArray[np.float64]

_LITTLE_OVERLAP = 0.02  # with less in common, or peaks farther apart, densities are drawn in log
_UNEQUAL_PEAKS = 20.0
_LIGHTEST = 1e-5  # an end of the domain that holds less of either law has no panel
_FEWEST = 20  # expected samples in a bin that is compared
_ENDS = ("left", "right")


@dataclass(frozen=True)
class _Law:
    """One of the two laws, and how it is drawn."""

    curves: LawCurves
    name: str
    colour: str
    line: str
    hatch: str | None

    @property
    def density(self) -> Array:
        return np.array(self.curves.density)

    @property
    def histogram(self) -> Array:
        return np.array(self.curves.histogram)


def draw(laws: Laws, trials: int, stem: str) -> Picture:
    """Draw both laws between two narrow panels for the atoms at the ends of the domain."""
    logarithmic = _needs_log(laws)
    ends = [side for side in (0, 1) if _has_atom(laws, side)]

    def on(figure: Figure) -> None:
        widths = [1.0 if 0 in ends else 0, 5.2, 1.0 if 1 in ends else 0]
        shown = [w for w in widths if w]
        panels = list(figure.subplots(1, len(shown), width_ratios=shown, squeeze=False)[0])
        middle = panels.pop(1 if 0 in ends else 0)
        _densities(middle, laws, logarithmic)
        masses = [
            mass
            for law in _both(laws)
            for side in ends
            for mass in (law.curves.atoms[side], law.curves.atom_frequencies[side])
        ]
        top = max(masses, default=0.0)
        for side, axes in zip(ends, panels, strict=True):
            _atoms(axes, laws, side, top)
        style.legend_below(figure, middle)

    words = caption(laws, trials, logarithmic=logarithmic)
    return style.picture(f"{stem}-laws", "The laws of the last iterate", words, on, 3.1)


def _both(laws: Laws) -> tuple[_Law, _Law]:
    return (
        _Law(laws.first, "X", style.FIRST, "-", None),
        _Law(laws.second, "X'", style.SECOND, "--", "////"),
    )


def _has_atom(laws: Laws, side: int) -> bool:
    return max(laws.first.atoms[side], laws.second.atoms[side]) > _LIGHTEST


def _needs_log(laws: Laws) -> bool:
    first, second = np.array(laws.first.density), np.array(laws.second.density)
    common = float(np.trapezoid(np.minimum(first, second), laws.grid))
    peaks = float(first.max()), float(second.max())
    return common < _LITTLE_OVERLAP or max(peaks) > _UNEQUAL_PEAKS * max(min(peaks), 1e-300)


def _densities(axes: Axes, laws: Laws, logarithmic: bool) -> None:
    x, floor = np.array(laws.grid), _floor(laws)
    for law in _both(laws):
        heights, density = law.histogram, law.density
        axes.stairs(
            np.maximum(heights, floor) if logarithmic else heights, np.array(laws.edges),
            baseline=floor if logarithmic else 0, fill=True, alpha=0.25, color=law.colour,
            lw=0, hatch=law.hatch, label=f"{law.name}, sampled",
        )  # fmt: skip
        shown = np.where(density > floor, density, np.nan) if logarithmic else density
        axes.plot(x, shown, color=law.colour, ls=law.line, label=f"{law.name}, exact")
    if logarithmic:
        style.logarithmic(axes, "y")
        axes.set_ylim(bottom=floor)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(x[0], x[-1])
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("last iterate")
    axes.set_title("density" + (", logarithmic" if logarithmic else ""), loc="left")


def _floor(laws: Laws) -> float:
    """Return a density somewhat below the lightest bin that was hit."""
    seen = [law.histogram for law in _both(laws)]
    positive = [float(h[h > 0].min()) for h in seen if np.any(h > 0)]
    peak = max(*laws.first.density, *laws.second.density)
    lowest = min(positive, default=peak * 1e-6) / 10
    return float(10 ** math.floor(math.log10(lowest)))


def _atoms(axes: Axes, laws: Laws, side: int, top: float) -> None:
    for at, law in enumerate(_both(laws)):
        exact, sampled = law.curves.atoms[side], law.curves.atom_frequencies[side]
        axes.bar(at, sampled, 0.8, color=law.colour, alpha=0.25, lw=0, hatch=law.hatch)
        axes.plot(
            [at - 0.4, at + 0.4], [exact, exact], color=law.colour, lw=2.5, solid_capstyle="butt"
        )
        axes.annotate(
            number(exact, 2), (at, max(exact, 0)), (0, 4), textcoords="offset points", ha="center",
            va="bottom", rotation=90, fontsize=9,
        )  # fmt: skip
    axes.set_xlim(-0.7, 1.7)
    axes.set_ylim(0, top * 1.45 if top > 0 else 1)
    axes.set_xticks([0, 1], ["X", "X'"])
    axes.grid(axis="x", visible=False)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_title("left end" if side == 0 else "right end", loc="center")
    axes.set_xlabel("mass")


def caption(laws: Laws, trials: int, *, logarithmic: bool) -> str:
    """Say how far samples and computation agree, and what sits at the ends."""
    parts = ["Lines are computed, filled steps are sampled."]
    if logarithmic:
        parts.append("Densities are drawn logarithmically because the laws hardly overlap.")
    agreement = _agreement(laws, trials)
    if agreement:
        parts.append(agreement)
    first, second = _both(laws)
    places = [
        (law, other, side) for law, other in ((first, second), (second, first)) for side in (0, 1)
    ]
    law, other, side = max(places, key=lambda at: (at[0].curves.atoms[at[2]], at[0].name, at[2]))
    mass = law.curves.atoms[side]
    if mass > 0:
        parts.append(
            f"At the {_ENDS[side]} end of the domain sits {number(mass, 3)} of the mass of "
            f"{law.name} (sampled: {number(law.curves.atom_frequencies[side], 3)}), and "
            f"{number(other.curves.atoms[side], 3)} of that of {other.name}."
        )
    return " ".join(parts)


def _agreement(laws: Laws, trials: int) -> str:
    """Compare bins with the exact law; silent where the grid is too coarse to tell."""
    inside = compared = 0
    for law in _both(laws):
        masses = _bin_masses(laws, law)
        if masses is None:
            return ""
        seen = law.histogram * np.diff(laws.edges)
        enough = masses * trials >= _FEWEST
        error = np.sqrt(masses * (1 - np.minimum(masses, 1)) / trials)
        inside += int(np.sum(np.abs(seen - masses)[enough] <= 3 * error[enough]))
        compared += int(np.sum(enough))
    if not compared:
        return ""
    agree = "agree" if inside >= 0.97 * compared else "differ"
    return (
        f"Samples and computation {agree}: {count(inside)} of {count(compared)} bins are within "
        "three standard errors."
    )


def _bin_masses(laws: Laws, law: _Law) -> Array | None:
    """Integrate the density over each bin, log-linearly between the points of the grid."""
    grid, edges = np.array(laws.grid), np.array(laws.edges)
    points = np.union1d(grid, edges)
    logs = np.interp(points, grid, np.log(np.maximum(law.density, 1e-300)))
    left, change = np.exp(logs[:-1]), np.diff(logs)
    pieces = np.diff(points) * left * np.where(change == 0, 1, np.expm1(change) / _nonzero(change))
    masses: Array = np.diff(np.interp(edges, points, np.concatenate([[0], np.cumsum(pieces)])))
    total = float(masses.sum() + sum(law.curves.atoms))
    return masses if abs(total - 1) < 1e-3 else None


def _nonzero(values: Array) -> Array:
    return np.where(values == 0, 1.0, values)

"""The two laws of the last iterate: computed densities over sampled histograms, and the atoms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from audit.report import stored
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.number_format import count, number
from audit.report.stored import Node

Array = NDArray[np.float64]

_LITTLE_OVERLAP = 0.02  # with less in common, or peaks farther apart, densities are drawn in log
_UNEQUAL_PEAKS = 20.0
_LIGHTEST = 1e-5  # an end of the domain that holds less of either law has no panel
_FEWEST = 20  # expected samples in a bin that is compared
_LAWS = (("", "X", style.FIRST, "-"), ("_prime", "X'", style.SECOND, "--"))


def draw(setting: Node) -> Picture:
    """Draw both laws between two narrow panels for the atoms at the ends of the domain."""
    laws = {key: np.asarray(value, float) for key, value in setting["laws"].items() if _full(value)}
    logarithmic = _needs_log(laws)
    ends = [side for side in (0, 1) if _has_atom(laws, side)]

    def on(figure: Figure) -> None:
        widths = [1.0 if 0 in ends else 0, 5.2, 1.0 if 1 in ends else 0]
        shown = [w for w in widths if w]
        panels = list(figure.subplots(1, len(shown), width_ratios=shown, squeeze=False)[0])
        middle = panels.pop(1 if 0 in ends else 0)
        _densities(middle, laws, logarithmic)
        kinds = ("atoms", "atom_frequencies")
        masses = [laws[f"{k}{s}"] for k in kinds for s, *_ in _LAWS if f"{k}{s}" in laws]
        top = max((float(m[side]) for m in masses for side in ends), default=0.0)
        for side, axes in zip(ends, panels, strict=True):
            _atoms(axes, laws, side, top)
        style.legend_below(figure, middle)

    name = f"{stored.stem(setting)}-laws"
    words = caption(setting, laws, logarithmic)
    return style.picture(name, "The laws of the last iterate", words, on, 3.1)


def _full(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and None not in value


def _has_atom(laws: dict[str, Array], side: int) -> bool:
    return any(f"atoms{s}" in laws and laws[f"atoms{s}"][side] > _LIGHTEST for s, *_ in _LAWS)


def _needs_log(laws: dict[str, Array]) -> bool:
    first, second = laws["density"], laws["density_prime"]
    common = float(np.trapezoid(np.minimum(first, second), laws["x"]))
    peaks = float(first.max()), float(second.max())
    return common < _LITTLE_OVERLAP or max(peaks) > _UNEQUAL_PEAKS * max(min(peaks), 1e-300)


def _densities(axes: Axes, laws: dict[str, Array], logarithmic: bool) -> None:
    x, floor = laws["x"], _floor(laws)
    for suffix, name, colour, line in _LAWS:
        if f"histogram{suffix}" in laws and "edges" in laws:
            heights = laws[f"histogram{suffix}"]
            axes.stairs(
                np.maximum(heights, floor) if logarithmic else heights, laws["edges"],
                baseline=floor if logarithmic else 0, fill=True, alpha=0.25, color=colour,
                lw=0, hatch="////" if suffix else None, label=f"{name}, sampled",
            )  # fmt: skip
        density = laws[f"density{suffix}"]
        shown = np.where(density > floor, density, np.nan) if logarithmic else density
        axes.plot(x, shown, color=colour, ls=line, label=f"{name}, exact")
    if logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(bottom=floor)
        style.logarithmic(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(x[0], x[-1])
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("last iterate")
    axes.set_title("density" + (", logarithmic" if logarithmic else ""), loc="left")


def _floor(laws: dict[str, Array]) -> float:
    """Return a density somewhat below the lightest bin that was hit."""
    seen = [laws[f"histogram{s}"] for s, *_ in _LAWS if f"histogram{s}" in laws]
    positive = [float(h[h > 0].min()) for h in seen if np.any(h > 0)]
    peak = max(float(laws["density"].max()), float(laws["density_prime"].max()))
    lowest = min(positive, default=peak * 1e-6) / 10
    return float(10 ** math.floor(math.log10(lowest)))


def _atoms(axes: Axes, laws: dict[str, Array], side: int, top: float) -> None:
    for at, (suffix, _, colour, _line) in enumerate(_LAWS):
        exact = float(laws[f"atoms{suffix}"][side])
        if f"atom_frequencies{suffix}" in laws:
            sampled = float(laws[f"atom_frequencies{suffix}"][side])
            axes.bar(
                at, sampled, 0.8, color=colour, alpha=0.25, lw=0, hatch="////" if suffix else None
            )
        axes.plot([at - 0.4, at + 0.4], [exact, exact], color=colour, lw=2.5, solid_capstyle="butt")
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


def caption(setting: Node, laws: dict[str, Array], logarithmic: bool) -> str:
    """Say how far samples and computation agree, and what sits at the ends."""
    parts = ["Lines are computed, filled steps are sampled."]
    if logarithmic:
        parts.append("Densities are drawn logarithmically because the laws hardly overlap.")
    agreement = _agreement(laws, setting.get("trials"))
    if agreement:
        parts.append(agreement)
    heaviest = [
        (float(laws[f"atoms{suffix}"][side]), name, ("left", "right")[side])
        for suffix, name, *_ in _LAWS
        if f"atoms{suffix}" in laws
        for side in (0, 1)
    ]
    mass, name, end = max(heaviest, default=(0.0, "", ""))
    if mass > 0:
        other = next(m for m, n, e in heaviest if e == end and n != name)
        rival = "X'" if name == "X" else "X"
        parts.append(
            f"At the {end} end of the domain sits {number(mass, 3)} of the mass of {name}"
            f"{_seen(laws, name, end)}, and {number(other, 3)} of that of {rival}."
        )
    return " ".join(parts)


def _seen(laws: dict[str, Array], name: str, end: str) -> str:
    frequencies = laws.get("atom_frequencies" + ("_prime" if name == "X'" else ""))
    if frequencies is None:
        return ""
    return f" (sampled: {number(float(frequencies[0 if end == 'left' else 1]), 3)})"


def _agreement(laws: dict[str, Array], trials: int | None) -> str:
    """Compare bins with the exact law; silent where the grid is too coarse to tell."""
    if not trials or "edges" not in laws:
        return ""
    inside = compared = 0
    for suffix, *_ in _LAWS:
        if f"histogram{suffix}" not in laws:
            return ""
        masses = _bin_masses(laws, suffix)
        if masses is None:
            return ""
        seen = laws[f"histogram{suffix}"] * np.diff(laws["edges"])
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


def _bin_masses(laws: dict[str, Array], suffix: str) -> Array | None:
    """Integrate the density over each bin, log-linearly between the stored points."""
    edges = laws["edges"]
    points = np.union1d(laws["x"], edges)
    logs = np.interp(points, laws["x"], np.log(np.maximum(laws[f"density{suffix}"], 1e-300)))
    left, change = np.exp(logs[:-1]), np.diff(logs)
    pieces = np.diff(points) * left * np.where(change == 0, 1, np.expm1(change) / _nonzero(change))
    masses: Array = np.diff(np.interp(edges, points, np.concatenate([[0], np.cumsum(pieces)])))
    total = float(masses.sum() + laws[f"atoms{suffix}"].sum())
    return masses if abs(total - 1) < 1e-3 else None


def _nonzero(values: Array) -> Array:
    return np.where(values == 0, 1.0, values)

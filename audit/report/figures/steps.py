"""Epsilon against the number of steps: does the exact value level off, and do the claims."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from audit.numerics.number_format import MISSING, Rounding, bracket, number, plain, ratio
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.results import EpsilonAgainstSteps

Array = NDArray[np.float64]

_LEVEL = 1.05  # a curve that grows by less than this over its last half has levelled off
_WIDE = 20.0  # numbers of steps spread further than this are drawn on a logarithmic axis
_LINE = 0.064  # of the axes' height: the distance of two labels


def has_curve(data: EpsilonAgainstSteps) -> bool:
    """Tell whether there is something to draw: more than one step, and a finite number."""
    numbers = [_exact(data).ravel(), *_bounds(data).values()]
    return len(data.steps) > 1 and bool(np.any(np.isfinite(np.concatenate(numbers))))


def draw(
    data: EpsilonAgainstSteps, stem: str, looks: dict[str, Look], unsound: Collection[str]
) -> Picture:
    """Draw the exact value and every bound, each labelled at its end."""
    steps, exact, bounds = _steps(data), _exact(data), _bounds(data)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        wide = len(steps) > 1 and steps[-1] > _WIDE * steps[0]
        style.logarithmic(axes, "xy" if wide else "y")
        axes.set_ylim(*_range(exact, list(bounds.values())))
        if data.burn_in is not None:
            _burn_in(axes, data.burn_in.steps, steps)
        axes.fill_between(steps, exact[:, 0], exact[:, 1], color="#CFCFCF", lw=0)
        axes.plot(steps, exact[:, 0], color=style.EXACT, lw=2.4, marker="|", ms=8, mew=1.6)
        ends = [("exact", style.EXACT, *_last(steps, exact[:, 0]))]
        for name, values in bounds.items():
            look = looks[name]
            look.plot(axes, steps, values)
            ends.append((name, look.colour, *_last(steps, values)))
        _label(axes, ends)
        axes.set_xlabel("number of steps T")
        axes.set_ylabel(f"epsilon at δ = {plain(data.delta)}")

    title = "Epsilon against the number of steps"
    return style.picture(f"{stem}-steps", title, caption(data, unsound), on, 3.7)


def _steps(data: EpsilonAgainstSteps) -> Array:
    return np.array(data.steps, dtype=np.float64)


def _exact(data: EpsilonAgainstSteps) -> Array:
    """Return brackets, shape (steps, 2); NaN where an end is infinite."""
    ends = np.array([value.bracket for value in data.exact])
    return np.where(np.isfinite(ends), ends, np.nan)


def _bounds(data: EpsilonAgainstSteps) -> dict[str, Array]:
    """Return the bounds that are finite somewhere; NaN where they are infinite or do not apply."""
    curves = {bound.id: style.finite(bound.values) for bound in data.bounds}
    return {name: values for name, values in curves.items() if np.any(np.isfinite(values))}


def _range(exact: Array, bounds: list[Array]) -> tuple[float, float]:
    values = np.concatenate([exact.ravel(), *bounds])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return 0.1, 10.0
    return float(values.min()) / 1.6, float(values.max()) * 1.6


def _last(steps: Array, values: Array) -> tuple[float, float]:
    known = np.flatnonzero(np.isfinite(values) & (values > 0))
    return (float(steps[known[-1]]), float(values[known[-1]])) if len(known) else (np.nan, np.nan)


def _burn_in(axes: Axes, burn_in: float, steps: Array) -> None:
    words = f"burn-in at T = {plain(burn_in)}"
    if steps[0] <= burn_in <= steps[-1]:
        axes.axvline(burn_in, color=style.QUIET, lw=1.2, ls=(0, (2, 2)))
        words = f"dotted line: {words}"
    else:
        words = f"{words}, outside the axis"
    axes.set_title(words, loc="left", color="#444444")


def _label(axes: Axes, ends: list[tuple[str, str, float, float]]) -> None:
    """Write each curve's name right of the axes, moved apart where they would overlap."""
    known = [end for end in ends if np.isfinite(end[3])]
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((x, y))[1]) for _, _, x, y in known]
    places = style.spaced(heights, _LINE, _LINE / 2, 1 - _LINE / 2)
    for (name, colour, x, y), height in zip(known, places, strict=True):
        axes.annotate(
            name, (x, y), (1.04, height), textcoords="axes fraction", color=colour, va="center",
            fontsize=9, weight="bold" if name == "exact" else "normal", annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": colour, "lw": 0.7, "shrinkA": 1, "shrinkB": 3,
                "relpos": (0.0, 0.5),
            },
        )  # fmt: skip


def caption(data: EpsilonAgainstSteps, unsound: Collection[str]) -> str:
    """Say whether the exact value and the bounds level off, and how far apart they end.

    ``unsound`` bounds are never called the tightest, nor are those refuted at another step.
    """
    steps, exact, bounds = _steps(data), _exact(data), _bounds(data)
    if not np.isfinite(exact[-1, 0]):
        return "The exact value is infinite."
    end = f"{bracket(data.exact[-1].bracket, 4)} at T = {plain(int(steps[-1]))}"
    parts = [f"{_growth('The exact value', steps, exact[:, 0])}: {end}."]
    wrong = sorted(name for name, v in bounds.items() if np.any(v < exact[:, 0]))
    standing = {
        name: float(v[-1])
        for name, v in bounds.items()
        if np.isfinite(v[-1]) and name not in {*wrong, *unsound}
    }
    if standing:
        name = min(standing, key=lambda key: (standing[key], key))
        times = ratio(standing[name] / exact[-1, 0]) if exact[-1, 0] > 0 else MISSING
        parts.append(
            f"The tightest claim that stands there is {name} with "
            f"{number(standing[name], 4, Rounding.UP)}, {times} times the exact value of this pair."
        )
    if wrong:
        parts.append(f"Below the exact curve somewhere, hence refuted there: {', '.join(wrong)}.")
    growing = [name for name in sorted(standing) if not _level(steps, bounds[name])]
    level = [name for name in sorted(standing) if name not in growing]
    if level:
        parts.append(f"Levelled off: {', '.join(level)}.")
    if growing:
        parts.append(f"Still growing: {', '.join(growing)}.")
    if data.burn_in is not None:
        burn_in = data.burn_in
        parts.append(f"The burn-in time of {burn_in.theorem} is {plain(burn_in.steps)} steps.")
    return " ".join(parts)


def _level(steps: Array, values: Array) -> bool:
    """Whether the second half of the steps added less than 5%."""
    if len(steps) < 2 or steps[0] > steps[-1] / 2:
        return False
    middle = float(np.interp(steps[-1] / 2, steps, values))
    return bool(values[-1] <= _LEVEL * middle)


def _growth(what: str, steps: Array, values: Array) -> str:
    if not _level(steps, values):
        return f"{what} still grows at the last step shown"
    within = steps[np.flatnonzero(values >= values[-1] / _LEVEL)[0]]
    return f"{what} levels off: from T = {plain(int(within))} on it is within 5% of its last value"

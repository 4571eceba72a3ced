"""Tradeoff functions: the least type II error that a test of each type I error can have."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from audit.numerics.number_format import Rounding, number, plain
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.results import TradeoffCurves

Array = NDArray[np.float64]

_SQUASHED = 0.15  # a curve that comes this near the corner is drawn on logarithmic axes
_SMALLEST = 1e-300
_SHOWN_ALPHA = 0.05
_EXCESS = 1e-6  # of a claimed curve above the exact one, before it is called so


def draw(
    curves: TradeoffCurves, stem: str, looks: dict[str, Look], unsound: Collection[str]
) -> Picture:
    """Draw the exact curve between what samples certify and what is claimed."""
    alpha, exact, upper = (
        np.array(values) for values in (curves.alpha, curves.exact, curves.sampled_upper)
    )
    bounds = claimed(curves)
    logarithmic = float(np.min(alpha + exact)) < _SQUASHED
    floor = _floor(alpha, exact) if logarithmic else 0.0

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        _region(axes, alpha, upper, list(bounds.values()), floor)
        if logarithmic:
            _logarithmic(axes, alpha, floor)
        else:
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
        axes.plot(alpha, 1 - alpha, color=style.QUIET, lw=1, label="nothing leaks")
        axes.plot(
            alpha, upper, color=style.SAMPLED, marker="v", markevery=_every(alpha, 0, 12), ms=5,
            label="at most, say the samples",
        )  # fmt: skip
        axes.plot(alpha, exact, color=style.EXACT, lw=2.4, label="exact value of the pair")
        for i, (name, beta) in enumerate(bounds.items()):
            look = looks[name]
            below = logarithmic and not np.any(beta > floor)
            look.plot(
                axes,
                alpha,
                np.where(beta > 0, beta, _SMALLEST if logarithmic else 0),
                label=f"claimed: {name}" + (" (off the axis)" if below else ""),
                markevery=_every(alpha, i + 1, 9),
            )
        axes.set_xlabel("type I error α")
        axes.set_ylabel("least type II error β")

    words = caption(curves, unsound, logarithmic=logarithmic)
    return style.picture(f"{stem}-tradeoff", "The tradeoff function", words, on, 3.3)


def claimed(curves: TradeoffCurves) -> dict[str, Array]:
    """Return the claimed tradeoff functions by the ids of their bounds; NaN where there is none."""
    return {bound.id: style.finite(bound.values) for bound in curves.bounds}


def _every(alpha: Array, offset: int, step: int) -> slice:
    return slice(min(2 * offset + 1, len(alpha) - 1), None, max(1, min(step, len(alpha) // 4)))


def _floor(alpha: Array, exact: Array) -> float:
    """Half a decade or so under the exact curve at even odds."""
    middle = float(np.interp(0.5, alpha, np.log10(np.maximum(exact, _SMALLEST))))
    return float(max(10 ** (1.15 * np.floor(middle) - 1), _SMALLEST))


def _region(axes: Axes, alpha: Array, upper: Array, bounds: list[Array], floor: float) -> None:
    """Shade what samples and claims leave open."""
    lower = np.max(bounds, axis=0) if bounds else np.zeros_like(alpha)
    lower = np.clip(lower, floor, upper)
    axes.fill_between(alpha, lower, upper, color="#DCEAF5", lw=0, label="left open by both sides")


def _logarithmic(axes: Axes, alpha: Array, floor: float) -> None:
    style.logarithmic(axes, "xy")
    axes.set_xlim(float(alpha[alpha > 0].min()), 1)
    axes.set_ylim(floor, 3)


def caption(curves: TradeoffCurves, unsound: Collection[str], *, logarithmic: bool) -> str:
    """Say what a test at 5% has, is certified to have at most, and is claimed to have at least.

    ``unsound`` bounds are never called the tightest.
    """
    exact, bounds = np.array(curves.exact), claimed(curves)
    at = int(np.argmin(np.abs(np.array(curves.alpha) - _SHOWN_ALPHA)))
    text = (
        f"At type I error {plain(float(f'{curves.alpha[at]:.2g}'))} the best test misses with "
        f"probability {number(curves.exact[at], 3)}; samples certify at most "
        f"{number(curves.sampled_upper[at], 3, Rounding.UP)}"
    )
    above = {
        name: float(np.max(beta - exact))
        for name, beta in bounds.items()
        if np.any(beta - exact > _EXCESS)
    }
    standing = [float(beta[at]) for name, beta in bounds.items() if name not in {*above, *unsound}]
    if standing:
        least = number(max(standing), 3, Rounding.DOWN) if max(standing) > 0 else "less than 1e-300"
        text += f", and the tightest claim that stands allows {least}"
    parts = [text + "."]
    if above:
        named = ", ".join(f"{name} (by up to {number(gap, 2)})" for name, gap in above.items())
        parts.append(f"Above the exact curve, hence contradicted by the pair: {named}.")
    elif bounds:
        parts.append("No claimed curve rises above the exact one.")
    if logarithmic:
        parts.append("Both axes are logarithmic, since the curves lie close to the corner.")
    return " ".join(parts)

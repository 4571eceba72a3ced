"""Renyi divergences against their order: exact in both orders of the pair, sampled, claimed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from audit.numerics.number_format import plain, ratio
from audit.report import queries
from audit.report.conclusion import capitalized
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.results import AtOrder

Array = NDArray[np.float64]

_FEWEST = 3  # orders; fewer are no curve
_SAME = 1e-3  # lines nearer to each other cannot be told apart


def has_curve(rows: Sequence[AtOrder]) -> bool:
    """Whether there are enough orders to draw."""
    return len(rows) >= _FEWEST


def draw(rows: Sequence[AtOrder], stem: str, looks: dict[str, Look]) -> Picture:
    """Draw the divergences over the orders that were computed."""
    rows = sorted(rows, key=lambda row: row.order)
    orders = np.array([row.order for row in rows])

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        style.logarithmic(axes, "xy")
        axes.xaxis.set_major_locator(FixedLocator(list(orders)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(float(value))))
        for words, values, line in _exact(rows):
            axes.plot(
                orders, values, color=style.EXACT, ls=line, lw=2.4, marker="|", ms=8,
                label=f"exact: {words}",
            )  # fmt: skip
        sampled = np.array([row.sampled_lower for row in rows])
        if np.any(sampled > 0):
            axes.plot(
                orders, np.where(sampled > 0, sampled, np.nan), color=style.SAMPLED, marker="v",
                ms=5, label="certified by samples",
            )  # fmt: skip
        for name, values in style.claimed(rows).items():
            if np.any(np.isfinite(values)):
                looks[name].plot(axes, orders, values, label=f"claimed: {name}")
        axes.set_xlabel("order α")
        axes.set_ylabel("Renyi divergence")
        style.legend_below(figure, axes)

    return style.picture(f"{stem}-renyi", "Renyi divergences", caption(rows), on, 3.3)


def _exact(rows: Sequence[AtOrder]) -> list[tuple[str, Array, str]]:
    """Return the exact divergences in both orders, or one of them where they are the same."""
    forward = style.finite(row.exact.forward.low for row in rows)
    reverse = style.finite(row.exact.reverse.low for row in rows)
    if np.allclose(forward, reverse, rtol=_SAME, atol=0.0, equal_nan=True):
        return [("either order", forward, "-")]
    return [("X from X'", forward, "-"), ("X' from X", reverse, "--")]


def caption(rows: Sequence[AtOrder]) -> str:
    """Say how close the tightest claim that stands comes at the first and the last order."""
    wrong = sorted({bound.id for row in rows for bound in queries.refuted(row.bounds)})
    parts = []
    for row in (rows[0], rows[-1]):
        best = queries.tightest(row.bounds)
        low = max(row.exact.forward.low, row.exact.reverse.low)
        if best is not None and best.value is not None and 0 < low < math.inf:
            parts.append(
                f"at order {plain(row.order)} the tightest claim that stands is "
                f"{ratio(best.value / low)} times the exact value"
            )
    text = "The setting's own pair in both orders."
    if parts:
        text += f" {capitalized('; '.join(parts))}."
    if wrong:
        text += f" Below an exact value somewhere, hence refuted: {', '.join(wrong)}."
    return text

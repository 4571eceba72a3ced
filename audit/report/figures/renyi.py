"""Renyi divergences against their order: exact in both orders of the pair, sampled, claimed."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from audit.report import stored
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.report.number_format import plain, ratio
from audit.report.stored import Node

Array = NDArray[np.float64]

_FEWEST = 3  # orders; fewer are no curve
_SAME = 1e-3  # lines nearer to each other cannot be told apart


def has_curve(setting: Node) -> bool:
    """Whether there are enough orders to draw."""
    return len(setting.get("renyi") or ()) >= _FEWEST


def draw(setting: Node, looks: dict[str, Look]) -> Picture:
    """Draw the divergences over the orders that were computed."""
    rows = sorted(setting["renyi"], key=lambda row: float(row["order"]))
    orders = np.array([row["order"] for row in rows], dtype=np.float64)
    bounds = _bounds(rows)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        style.logarithmic(axes.yaxis)
        axes.xaxis.set_major_locator(FixedLocator(list(orders)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(float(value))))
        for words, values, line in _exact(rows):
            axes.plot(
                orders, values, color=style.EXACT, ls=line, lw=2.4, marker="|", ms=8,
                label=f"exact: {words}",
            )  # fmt: skip
        sampled = _values(row.get("sampled_lower") for row in rows)
        if np.any(sampled > 0):
            axes.plot(
                orders, np.where(sampled > 0, sampled, np.nan), color=style.SAMPLED, marker="v",
                ms=5, label="certified by samples",
            )  # fmt: skip
        for name, values in bounds.items():
            look = looks[name]
            axes.plot(orders, values, label=f"claimed: {name}", **look.curve)
        axes.set_xlabel("order α")
        axes.set_ylabel("Renyi divergence")
        style.legend_below(figure, axes)

    name = f"{stored.stem(setting)}-renyi"
    return style.picture(name, "Renyi divergences", caption(rows), on, 3.3)


def _exact(rows: list[Node]) -> list[tuple[str, Array, str]]:
    """Return the exact divergences in both orders, or one of them where they are the same."""
    forward, reverse = (_values(row[key][0] for row in rows) for key in ("forward", "reverse"))
    if np.allclose(forward, reverse, rtol=_SAME, atol=0.0, equal_nan=True):
        return [("either order", forward, "-")]
    return [("X from X'", forward, "-"), ("X' from X", reverse, "--")]


def _values(numbers: Iterable[float | None]) -> Array:
    return np.array([np.nan if v is None else float(v) for v in numbers])


def _bounds(rows: list[Node]) -> dict[str, Array]:
    names = sorted({b["id"] for row in rows for b in row.get("bounds", ())})
    found = {}
    for name in names:
        by_row = [{b["id"]: b.get("value") for b in row.get("bounds", ())} for row in rows]
        values = _values([row.get(name) for row in by_row])
        if np.any(np.isfinite(values)):
            found[name] = values
    return found


def caption(rows: list[Node]) -> str:
    """Say how close the tightest claim that stands comes at the first and the last order."""
    wrong = sorted(
        {b["id"] for r in rows for b in r.get("bounds", ()) if b.get("verdict") == stored.REFUTED}
    )
    parts = []
    for row in (rows[0], rows[-1]):
        standing = [
            float(b["value"])
            for b in row.get("bounds", ())
            if stored.stands(b, str(b.get("verdict"))) and b.get("value") is not None
        ]
        low = max(stored.infinite(row[order][0]) for order in ("forward", "reverse"))
        if standing and 0 < low < math.inf:
            parts.append(
                f"at order {plain(row['order'])} the tightest claim that stands is "
                f"{ratio(min(standing) / low)} times the exact value"
            )
    text = "The setting's own pair in both orders."
    if parts:
        text += " " + "; ".join(parts)[0].upper() + "; ".join(parts)[1:] + "."
    if wrong:
        text += f" Below an exact value somewhere, hence refuted: {', '.join(wrong)}."
    return text

"""Curves of exact and claimed values: Renyi divergences by order, epsilons by record."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from audit.numerics.number_format import Rounding, number, plain, ratio
from audit.report import queries
from audit.report.conclusion import capitalized
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look, finite
from audit.results import AtOrder, AtPosition, PositionAtDelta

Array = NDArray[np.float64]

_FEWEST = 3  # orders; fewer are no curve
_SAME = 1e-3  # lines nearer to each other cannot be told apart
_MOST_TICKS, _CROWDED = 12, 0.04  # records that have ticks of their own, and how near they may be
_PAIR_LINES = ("-", "--", "-.", ":")


def has_renyi(rows: Sequence[AtOrder]) -> bool:
    """Whether there are enough orders to draw."""
    return len(rows) >= _FEWEST


def draw_renyi(rows: Sequence[AtOrder], stem: str, looks: dict[str, Look]) -> Picture:
    """Draw the divergences of both orders of the pair over the Renyi orders."""
    rows = sorted(rows, key=lambda row: row.order)
    orders = np.array([row.order for row in rows])
    forward = finite(row.exact.forward.low for row in rows)
    reverse = finite(row.exact.reverse.low for row in rows)
    exact = [("X from X'", forward, "-"), ("X' from X", reverse, "--")]
    if np.allclose(forward, reverse, rtol=_SAME, atol=0.0, equal_nan=True):
        exact = [("either order", forward, "-")]
    sampled = np.array([row.sampled_lower for row in rows])

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        style.logarithmic(axes, "xy")
        axes.xaxis.set_major_locator(FixedLocator(list(orders)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(float(value))))
        for words, values, line in exact:
            axes.plot(
                orders, values, color=style.EXACT, ls=line, lw=2.4, marker="|", ms=8,
                label=f"exact: {words}",
            )  # fmt: skip
        if np.any(sampled > 0):
            axes.plot(
                orders, np.where(sampled > 0, sampled, np.nan), color=style.SAMPLED, marker="v",
                ms=5, label="certified by samples",
            )  # fmt: skip
        for name, values in _claimed(rows).items():
            if np.any(np.isfinite(values)):
                looks[name].plot(axes, orders, values, label=f"claimed: {name}")
        axes.set_xlabel("order α")
        axes.set_ylabel("Renyi divergence")

    return style.picture(f"{stem}-renyi", "Renyi divergences", renyi_caption(rows), on, 3.3)


def _claimed(rows: Sequence[AtOrder] | Sequence[PositionAtDelta]) -> dict[str, Array]:
    """Return the claims of rows as curves by the ids of their bounds, sorted."""
    by_row = [{bound.id: bound.value for bound in row.bounds} for row in rows]
    names = sorted({name for row in by_row for name in row})
    return {name: finite(row.get(name) for row in by_row) for name in names}


def renyi_caption(rows: Sequence[AtOrder]) -> str:
    """Say how close the tightest claim that stands comes at the first and the last order."""
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
    if wrong := queries.refuted_ids(rows):
        text += f" Below an exact value somewhere, hence refuted: {', '.join(wrong)}."
    return text


def draw_positions(places: Sequence[AtPosition], stem: str, looks: dict[str, Look]) -> Picture:
    """Draw epsilon of every pair and bound against the record's index, at the last delta."""
    places = sorted(places, key=lambda place: place.index)
    rows = [place.deltas[-1] for place in places]
    index = np.array([place.index for place in places], dtype=np.float64)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        style.logarithmic(axes, "y")
        for i, (name, values) in enumerate(_pairs(rows).items()):
            axes.plot(
                index, values, color=style.EXACT, ls=_PAIR_LINES[i % 4], lw=2.2,
                marker="|", ms=8, label=f"exact: {name}",
            )  # fmt: skip
        for name, values in _claimed(rows).items():
            looks[name].plot(axes, index, values, label=f"claimed: {name}")
        if len(index) <= _MOST_TICKS and np.all(np.diff(index) > _CROWDED * np.ptp(index)):
            axes.set_xticks(index)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("index of the record, in the order in which records are used")
        axes.set_ylabel(f"epsilon at δ = {plain(rows[-1].delta)}")

    title = "The leak of each record"
    return style.picture(f"{stem}-positions", title, positions_caption(places), on, 3.3)


def _pairs(rows: Sequence[PositionAtDelta]) -> dict[str, Array]:
    """Lower ends by pair; two pairs of one kind are told apart by a number."""
    found: dict[str, Array] = {}
    for i, pair in enumerate(rows[0].pairs):
        values = np.array([row.pairs[i].epsilon.low for row in rows])
        found[pair.pair if pair.pair not in found else f"{pair.pair}, {i + 1}"] = values
    return found


def positions_caption(places: Sequence[AtPosition]) -> str:
    """Say which record leaks most and least, and how close the tightest claim is at either."""
    known = [(place.deltas[-1].certified, place) for place in places]
    least = min(known, key=lambda pair: pair[0])
    most = max(known, key=lambda pair: pair[0])
    parts = [
        f"Record {most[1].index} leaks most, at least {number(most[0], 4, Rounding.DOWN)}; record "
        f"{least[1].index} least, {number(least[0], 4, Rounding.DOWN)}."
    ]
    gaps = [
        (best.value / certified, place.index)
        for certified, place in known
        if (best := queries.tightest(place.deltas[-1].bounds)) is not None
        and best.value is not None
        and certified > 0
    ]
    if gaps:
        tight, wide = min(gaps), max(gaps)
        parts.append(
            f"The tightest claim that stands is {ratio(tight[0])} times the strongest pair's exact "
            f"value at record {tight[1]} and {ratio(wide[0])} times at record {wide[1]}."
        )
    if wrong := queries.refuted_ids(row for place in places for row in place.deltas):
        parts.append(f"Refuted at some record: {', '.join(wrong)}.")
    return " ".join(parts)

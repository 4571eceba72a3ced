"""Epsilon of the last iterate by batch of the record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from audit.numerics.number_format import Rounding, number, plain, ratio
from audit.report import queries
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.results import AtPosition, PositionAtDelta

Array = NDArray[np.float64]

_MOST_TICKS, _CROWDED = 12, 0.04  # records that have ticks of their own, and how near they may be
_PAIR_LINES = ("-", "--", "-.", ":")


def draw(places: Sequence[AtPosition], stem: str, looks: dict[str, Look]) -> Picture:
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
        for name, values in style.claimed(rows).items():
            looks[name].plot(axes, index, values, label=f"claimed: {name}")
        if len(index) <= _MOST_TICKS and np.all(np.diff(index) > _CROWDED * np.ptp(index)):
            axes.set_xticks(index)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("index of the record, in the order in which records are used")
        axes.set_ylabel(f"epsilon at δ = {plain(rows[-1].delta)}")
        style.legend_below(figure, axes)

    title = "The leak of each record"
    return style.picture(f"{stem}-positions", title, caption(places), on, 3.3)


def _pairs(rows: Sequence[PositionAtDelta]) -> dict[str, Array]:
    """Lower ends by pair; two pairs of one kind are told apart by a number."""
    found: dict[str, Array] = {}
    for i, pair in enumerate(rows[0].pairs):
        values = np.array([row.pairs[i].epsilon.low for row in rows])
        found[pair.pair if pair.pair not in found else f"{pair.pair}, {i + 1}"] = values
    return found


def caption(places: Sequence[AtPosition]) -> str:
    """Say which record leaks most and least, and how close the tightest claim is at either."""
    certified = [place.deltas[-1].certified for place in places]
    least, most = int(np.argmin(certified)), int(np.argmax(certified))
    parts = [
        f"Record {places[most].index} leaks most, at least "
        f"{number(certified[most], 4, Rounding.DOWN)}; record {places[least].index} least, "
        f"{number(certified[least], 4, Rounding.DOWN)}."
    ]
    gaps = []
    for place, value in zip(places, certified, strict=True):
        best = queries.tightest(place.deltas[-1].bounds)
        if best is not None and best.value is not None and value > 0:
            gaps.append((best.value / value, place.index))
    if gaps:
        tight, wide = min(gaps), max(gaps)
        parts.append(
            f"The tightest claim that stands is {ratio(tight[0])} times the strongest pair's exact "
            f"value at record {tight[1]} and {ratio(wide[0])} times at record {wide[1]}."
        )
    rows = [row for place in places for row in place.deltas]
    wrong = sorted({bound.id for row in rows for bound in queries.refuted(row.bounds)})
    if wrong:
        parts.append(f"Refuted at some record: {', '.join(wrong)}.")
    return " ".join(parts)

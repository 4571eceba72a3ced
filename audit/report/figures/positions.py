"""What the last iterate tells of each record, by its place in the run."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from audit.report import stored
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.report.number_format import Rounding, number, plain, ratio
from audit.report.stored import Node

Array = NDArray[np.float64]

_MOST_TICKS, _CROWDED = 12, 0.04  # records that have ticks of their own, and how near they may be
_PAIR_LINES = ("-", "--", "-.", ":")


def draw(setting: Node, looks: dict[str, Look]) -> Picture:
    """Draw epsilon of every pair and bound against the record's index, at the last delta."""
    rows = sorted(setting["positions"], key=lambda row: int(row["index"]))
    index = np.array([row["index"] for row in rows], dtype=np.float64)
    delta = setting["deltas"][-1]["delta"]

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_yscale("log")
        style.logarithmic(axes.yaxis)
        for i, (name, values) in enumerate(_pairs(rows).items()):
            axes.plot(
                index, values, color=style.EXACT, ls=_PAIR_LINES[i % 4], lw=2.2,
                marker="|", ms=8, label=f"exact: {name}",
            )  # fmt: skip
        for name, values in _bounds(rows).items():
            look = looks[name]
            axes.plot(index, values, label=f"claimed: {name}", **look.curve)
        if len(index) <= _MOST_TICKS and np.all(np.diff(index) > _CROWDED * np.ptp(index)):
            axes.set_xticks(index)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("index of the record, in the order in which records are used")
        axes.set_ylabel(f"epsilon at δ = {plain(delta)}")
        style.legend_below(figure, axes)

    name = f"{stored.stem(setting)}-positions"
    return style.picture(name, "The leak of each record", caption(rows), on, 3.3)


def _pairs(rows: list[Node]) -> dict[str, Array]:
    """Lower ends by pair; two pairs of one kind are told apart by a number."""
    found: dict[str, Array] = {}
    for i, pair in enumerate(rows[0]["pairs"]):
        values = [row["pairs"][i]["epsilon"][-1][0] for row in rows]
        name = str(pair["name"])
        found[name if name not in found else f"{name}, {i + 1}"] = np.array(values, float)
    return found


def _bounds(rows: list[Node]) -> dict[str, Array]:
    names = sorted({bound["id"] for row in rows for bound in row["bounds"]})
    return {name: np.array([_claimed(row, name) for row in rows]) for name in names}


def _claimed(row: Node, name: str) -> float:
    values = [bound["epsilon"][-1] for bound in row["bounds"] if bound["id"] == name]
    return np.nan if not values or values[0] is None else float(values[0])


def caption(rows: list[Node]) -> str:
    """Say which record leaks most and least, and how close the tightest claim is at either."""
    certified = [float(row["certified"][-1]) for row in rows]
    least, most = int(np.argmin(certified)), int(np.argmax(certified))
    parts = [
        f"Record {rows[most]['index']} leaks most, at least "
        f"{number(certified[most], 4, Rounding.DOWN)}; record {rows[least]['index']} least, "
        f"{number(certified[least], 4, Rounding.DOWN)}."
    ]
    gaps = []
    for row, value in zip(rows, certified, strict=True):
        standing = [
            float(b["epsilon"][-1])
            for b in row["bounds"]
            if stored.stands(b, b["verdict"][-1]) and b["epsilon"][-1] is not None
        ]
        if standing and value > 0:
            gaps.append((min(standing) / value, row["index"]))
    if gaps:
        tight, wide = min(gaps), max(gaps)
        parts.append(
            f"The tightest claim that stands is {ratio(tight[0])} times the strongest pair's exact "
            f"value at record {tight[1]} and {ratio(wide[0])} times at record {wide[1]}."
        )
    wrong = sorted({b["id"] for r in rows for b in r["bounds"] if stored.REFUTED in b["verdict"]})
    if wrong:
        parts.append(f"Refuted at some record: {', '.join(wrong)}.")
    return " ".join(parts)

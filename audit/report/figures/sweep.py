"""Claimed over exact across many runs: every row as a mark, and maps over what was varied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from audit.numerics.arrays import Array
from audit.numerics.number_format import number, plain, ratio
from audit.report import queries
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.joined_rows import JoinedRow
from audit.report.mechanism_line import SYMBOLS
from audit.report.queries import ComparedResult
from audit.report.runs import Run
from audit.results import PairResult, Verdict

_MAX_NAMED_LINES, _MIN_NAMED_LINES = 28, 4  # more lines have no names
_ROW_HEIGHT = 0.2  # inches
_LEAST_RATIO = 1e-12  # smaller ones stand at the end of the axis
MAX_NAME = 34  # letters
_MAX_TICKS, _MAX_NUMBER_COLUMNS = 12, 14  # columns with room for numbers
_MAX_LEVEL_LETTERS = 30  # letters of all labels below a map that stand level


def draw(rows: Sequence[JoinedRow]) -> Picture | None:
    """Draw claimed over certain of every row, on one line for each setting and delta.

    None if no row has a claim.
    """
    known = [(value, row) for row in rows if (value := _ratio(row)) is not None]
    if not known:
        return None
    known.sort(key=lambda pair: pair[0])
    values = np.array([value for value, _ in known])
    low = min(0.9, float(values.min(where=values > _LEAST_RATIO, initial=1.0)) / 1.1)
    shown = np.maximum(values, low)
    refuted = np.array([row.verdict is Verdict.REFUTED for _, row in known])
    keys = [(row.scenario, row.setting, row.delta) for _, row in known]
    lines = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    names = {lines[key]: line_name(row) for key, (_, row) in zip(keys, known, strict=True)}
    height = 1.1 + _ROW_HEIGHT * max(_MIN_NAMED_LINES, min(len(lines), _MAX_NAMED_LINES))

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        places = np.array([lines[key] for key in keys], dtype=np.float64)
        axes.axvline(1.0, color=style.EXACT, lw=2)
        axes.plot(
            shown[~refuted], places[~refuted], "o", ms=5, color=style.SAMPLED,
            label="claim that is not refuted",
        )  # fmt: skip
        if np.any(refuted):
            axes.plot(
                shown[refuted], places[refuted], "X", ms=7, color="#B00020", label="refuted claim"
            )
        style.logarithmic(axes, "x")
        axes.set_xlim(low, max(2.0, float(values.max()) * 1.1))
        axes.set_xlabel("claimed / certain epsilon")
        axes.set_ylim(-0.8, len(lines) - 0.2)
        if len(lines) <= _MAX_NAMED_LINES:
            axes.set_yticks(list(names), list(names.values()), fontsize=7.5)
        else:
            axes.set_ylabel("settings and deltas, sorted")
            axes.set_yticks([])

    middle = ratio(float(np.median(values)))
    words = (
        f"{len(known)} comparisons. Right of the line a claim is looser than what is certain, left "
        f"of it it is refuted: {int(refuted.sum())} of them. The median is {middle}."
    )
    return style.picture("ratios", "Claimed over certain epsilon", words, on, height)


def _ratio(row: JoinedRow) -> float | None:
    """Return claimed over certain, of a refuted claim too; None if no axis holds it."""
    value = row.ratio
    if row.verdict is Verdict.REFUTED and row.claimed is not None and row.certified:
        value = row.claimed / row.certified
    return value if value is not None and value < style.LARGEST else None


def line_name(row: JoinedRow) -> str:
    """Name the setting and delta, shortened in the middle: what tells two rows apart comes last."""
    first, last = f"{row.scenario}: {row.setting}", f", δ = {plain(row.delta)}"
    room = MAX_NAME - len(last)
    return (first if len(first) <= room else first[: room - 1] + "…") + last


@dataclass(frozen=True)
class _Point:
    """One setting of one run: its parameters, numbers and others, and the ratio."""

    parameters: dict[str, float]
    others: dict[str, Any]
    ratio: float
    refuted: bool


def maps(runs: Sequence[Run]) -> tuple[Picture, ...]:
    """Draw, for each setting and last delta, the ratio over the one or two numbers that differ."""
    groups: dict[tuple[str, str, float], list[_Point]] = {}
    for run in runs:
        if run.result is not None:
            for setting in queries.compared(run.result.settings):
                row = setting.deltas[-1]
                best = queries.tightest(row.bounds, row.best)
                point = _Point(
                    *_parameters(setting),
                    math.nan if best is None or best.ratio is None else best.ratio,
                    bool(queries.refuted(row.bounds)),
                )
                key = (run.result.scenario.name, setting.name, row.delta)
                groups.setdefault(key, []).append(point)
    drawn: dict[str, Picture | None] = {}
    for (*of, delta), points in groups.items():
        names = queries.file_names("-".join(["map", *of]))
        name = next(name for name in names if name not in drawn)
        drawn[name] = _map(name, ", ".join(of), delta, points)
    return tuple(picture for picture in drawn.values() if picture is not None)


def _parameters(setting: ComparedResult) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the numbers of a pair and of its mechanism, and the rest of them but schedules."""
    if not isinstance(setting, PairResult):
        return {}, {}
    parts = (setting.pair, setting.mechanism)
    values = {field.name: getattr(one, field.name) for one in parts for field in fields(one)}
    others = {**values, "mechanism": type(setting.pair)}
    numbers = {
        name: float(others.pop(name))
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return numbers, {name: one for name, one in others.items() if not isinstance(one, tuple)}


def _varied(points: Sequence[_Point]) -> list[str]:
    names = set.intersection(*(set(point.parameters) for point in points))
    varied = sorted(n for n in names if len({p.parameters[n] for p in points}) > 1)
    # what only follows another number (n = b for full batches) is no axis of its own
    kept: list[str] = []
    for name in varied:
        follows = any(
            len({(p.parameters[name], p.parameters[other]) for p in points})
            == len({p.parameters[other] for p in points})
            == len({p.parameters[name] for p in points})
            for other in kept
        )
        if not follows:
            kept.append(name)
    return kept


@dataclass(frozen=True)
class _Map:
    """Ratios by the one or two numbers that were varied."""

    values: Array
    refuted: NDArray[np.bool_]
    levels: dict[str, list[float]]  # the values of each number; the last one runs across

    def place(self, at: tuple[np.intp, ...]) -> str:
        """Return the numbers of a cell in words."""
        found = zip(self.levels.items(), at, strict=True)
        words = [f"{_label(name)} = {plain(values[int(i)])}" for (name, values), i in found]
        return ", ".join(reversed(words))


def _map(name: str, of: str, delta: float, points: Sequence[_Point]) -> Picture | None:
    """Draw a map; None where what is no number differs, too, or runs of one cell disagree."""
    varied = _varied(points)[::-1]
    if len(varied) not in (1, 2) or any(one.others != points[0].others for one in points):
        return None
    levels = {name: sorted({p.parameters[name] for p in points}) for name in varied}
    values = np.full([len(known) for known in levels.values()], np.nan)
    refuted = np.zeros(values.shape, dtype=np.bool_)
    shown: dict[tuple[int, ...], str] = {}
    for point in points:
        at = tuple(known.index(point.parameters[name]) for name, known in levels.items())
        if shown.setdefault(at, ratio(point.ratio)) != ratio(point.ratio):
            return None
        values[at] = point.ratio
        refuted[at] |= point.refuted
    if not np.any(np.isfinite(values)):
        return None
    found = _Map(values, refuted, levels)
    two = len(varied) == 2
    return style.picture(
        name,
        f"{of}: the tightest claim that stands over what is certain",
        f"At δ = {plain(delta)}. {_caption(found)}",
        lambda figure: (_cells if two else _line)(figure, found),
        1.5 + min(0.34 * len(values), 3.5) if two else 3.0,
    )


def _cells(figure: Figure, data: _Map) -> None:
    axes, values = figure.add_subplot(), data.values
    (down, lines), (across, columns) = data.levels.items()
    logs = np.log10(np.ma.masked_invalid(values))
    top = max(float(logs.max()), 0.05)
    axes.imshow(logs, cmap="cividis_r", vmin=0.0, vmax=top, aspect="auto", origin="lower")
    axes.grid(visible=False)
    shown, listed = _ticks(len(columns)), _ticks(len(lines))
    below = [plain(columns[i]) for i in shown]
    level = sum(map(len, below)) <= _MAX_LEVEL_LETTERS
    axes.set_xticks(shown, below, rotation=0 if level else 45, ha="center" if level else "right")
    axes.set_yticks(listed, [plain(lines[i]) for i in listed])
    axes.set_xlabel(_label(across))
    axes.set_ylabel(_label(down))
    if len(columns) > _MAX_NUMBER_COLUMNS:
        bar = figure.colorbar(axes.images[0], ax=axes)
        bar.set_label("claimed / certain, powers of ten")
        return
    size = min(8.5, 62 / max(1, len(columns)))
    for i, j in np.ndindex(values.shape):
        known = math.isfinite(values[i, j])
        text = number(float(values[i, j]), 3) if known else "–"
        dark = known and math.log10(max(float(values[i, j]), 1.0)) > 0.5 * top
        axes.text(
            j, i, text + "*" * bool(data.refuted[i, j]), ha="center", va="center", fontsize=size,
            color="white" if dark else "#1a1a1a",
        )  # fmt: skip


def _line(figure: Figure, data: _Map) -> None:
    """Draw the ratio against the one number that was varied."""
    axes = figure.add_subplot()
    ((across, columns),) = data.levels.items()
    places, heights, refuted = np.asarray(columns), data.values, data.refuted
    axes.axhline(1.0, color=style.EXACT, lw=1.6)
    axes.plot(places, heights, "o-", ms=4, color=style.SAMPLED, label="tightest claim that stands")
    if np.any(refuted):
        axes.plot(
            places[refuted], np.ones(int(refuted.sum())), "X", ms=7, color="#B00020",
            label="another claim is refuted here",
        )  # fmt: skip
    known = heights[np.isfinite(heights)]
    axes.set_ylim(min(0.9, float(known.min())), max(2.0, 1.1 * float(known.max())))
    axes.set_xlabel(_label(across))
    axes.set_ylabel("claimed / certain")


def _ticks(size: int) -> list[int]:
    return list(range(0, size, -(-size // _MAX_TICKS)))


def _label(name: str) -> str:
    return SYMBOLS.get(name, name.replace("_", " "))


def _caption(data: _Map) -> str:
    values = data.values
    least = np.unravel_index(np.nanargmin(values), values.shape)
    most = np.unravel_index(np.nanargmax(values), values.shape)
    low, high = ratio(float(values[least])), ratio(float(values[most]))
    text = (
        f"The ratio is least, {low}, at {data.place(least)}, and largest, {high}, at "
        f"{data.place(most)}."
    )
    if low == high:
        text = f"The ratio is {low} everywhere."
    text += " A ratio of 1 is tight."
    if np.any(data.refuted):
        text += " Another claim is refuted where there is a star, or a cross."
    if np.any(~np.isfinite(values)):
        text += " Where there is no number, no claim stands or no run has stored one."
    return text

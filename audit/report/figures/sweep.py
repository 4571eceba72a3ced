"""Claimed over exact across many runs: every row as a mark, and maps over what was varied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from audit.report import stored
from audit.report.figures import style
from audit.report.numbers import plain, ratio
from audit.report.parts import Picture
from audit.report.runs import Run

Array = NDArray[np.float64]

_MOST_NAMED = 28  # rows beyond this are drawn without their names
_ROW, _LETTERS = 0.2, 34
_MOST_TICKS, _MOST_WRITTEN = 12, 14  # of a map's axis; columns whose cells have room for a number
_LABELS = {"steps": "T", "noise_std": "σ", "step_size": "η", "batch_size": "b", "diameter": "D",
           "dataset_size": "n", "lipschitz": "L"}  # fmt: skip


def draw(rows: Sequence[dict[str, Any]]) -> Picture | None:
    """Draw the ratio of every row; None where no claim has one."""
    known = [row for row in rows if row["ratio"] is not None]
    if not known:
        return None
    known.sort(key=lambda row: float(row["ratio"]))
    values = np.array([row["ratio"] for row in known], dtype=np.float64)
    refuted = np.array([row["verdict"] == stored.REFUTED for row in known])
    height = 1.1 + _ROW * min(len(known), _MOST_NAMED)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        places = np.arange(len(known), dtype=np.float64)
        axes.axvline(1.0, color=style.EXACT, lw=2)
        axes.plot(
            values[~refuted], places[~refuted], "o", ms=5, color=style.SAMPLED,
            label="claim that stands",
        )  # fmt: skip
        if np.any(refuted):
            axes.plot(
                values[refuted], places[refuted], "X", ms=7, color="#B00020", label="refuted claim"
            )
        axes.set_xscale("log")
        axes.set_xlim(min(0.9, float(values.min()) / 1.1), max(2.0, float(values.max()) * 1.1))
        style.logarithmic(axes.xaxis)
        axes.set_xlabel("claimed epsilon / certain epsilon (1 is tight, below 1 is refuted)")
        axes.set_ylim(-0.8, len(known) - 0.2)
        if len(known) <= _MOST_NAMED:
            axes.set_yticks(places, [_name(row) for row in known], fontsize=7.5)
        else:
            axes.set_ylabel("claims, sorted")
        style.legend_below(figure, axes)

    middle = ratio(float(np.median(values)))
    words = (
        f"{len(known)} comparisons. Right of the line a claim is looser than what is certain, left "
        f"of it it is refuted: {int(refuted.sum())} of them. The median is {middle}."
    )
    return style.picture("ratios", "Claimed over certain epsilon", words, on, height)


def _name(row: dict[str, Any]) -> str:
    text = f"{row['scenario']}: {row['setting']}, δ = {plain(row['delta'])}"
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


@dataclass(frozen=True)
class _Point:
    """One setting of one run: the parameters that are numbers, and the ratio at its last delta."""

    parameters: dict[str, float]
    ratio: float | None
    refuted: bool


def maps(runs: Sequence[Run]) -> tuple[Picture, ...]:
    """Draw, for each setting whose runs differ in one or two numbers, the ratio over them."""
    groups: dict[tuple[str, str], list[_Point]] = {}
    for run in runs:
        for setting in (run.result or {}).get("settings", ()):
            assert run.result is not None  # it has settings
            if not setting["deltas"]:  # a study has no ratio
                continue
            key = (str(run.result["scenario"]["name"]), str(setting["name"]))
            groups.setdefault(key, []).append(_point(setting))
    drawn = [_map(key, points) for key, points in groups.items()]
    return tuple(picture for picture in drawn if picture is not None)


def _point(setting: dict[str, Any]) -> _Point:
    pair = (setting.get("construction") or {}).get("parameters") or {}
    fields = {**pair, **setting["mechanism"]}
    parameters = {
        name: float(value)
        for name, value in fields.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    row = setting["deltas"][-1]
    best = stored.tightest(row)
    value = None if best is None or best.get("ratio") is None else float(best["ratio"])
    return _Point(parameters, value, bool(stored.refuted(row)))


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


def _map(key: tuple[str, str], points: Sequence[_Point]) -> Picture | None:
    if len(points) < 2:
        return None
    varied = _varied(points)
    if len(varied) not in (1, 2):
        return None
    across = varied[0]
    down = varied[1] if len(varied) == 2 else None
    columns = sorted({p.parameters[across] for p in points})
    lines = sorted({p.parameters[down] for p in points}) if down else [0.0]
    values = np.full((len(lines), len(columns)), np.nan)
    refuted = np.zeros(values.shape, dtype=np.bool_)
    for point in points:
        i = lines.index(point.parameters[down]) if down else 0
        j = columns.index(point.parameters[across])
        values[i, j] = np.nan if point.ratio is None else point.ratio
        refuted[i, j] |= point.refuted
    if not np.any(np.isfinite(values)):
        return None
    name = f"map-{'-'.join(key)}"
    title = f"{key[0]}, {key[1]}: the tightest claim that stands over what is certain"
    height = 1.5 + min(0.34 * len(lines), 3.5) if down else 3.0
    draw_on = _cells if down else _line
    return style.picture(
        name, title, _words(values, refuted, across, down, columns, lines),
        lambda figure: draw_on(figure, values, refuted, across, down, columns, lines), height,
    )  # fmt: skip


def _cells(
    figure: Figure, values: Array, refuted: NDArray[np.bool_], across: str, down: str | None,
    columns: Sequence[float], lines: Sequence[float],
) -> None:  # fmt: skip
    axes = figure.add_subplot()
    logs = np.log10(np.ma.masked_invalid(values))
    top = max(float(logs.max()), 0.05)
    axes.imshow(logs, cmap="cividis_r", vmin=0.0, vmax=top, aspect="auto", origin="lower")
    axes.grid(visible=False)
    shown, listed = _ticks(len(columns)), _ticks(len(lines))
    axes.set_xticks(shown, [plain(columns[i]) for i in shown], rotation=45, ha="right")
    axes.set_yticks(listed, [plain(lines[i]) for i in listed])
    axes.set_xlabel(_label(across))
    axes.set_ylabel(_label(str(down)))
    if len(columns) > _MOST_WRITTEN:
        bar = figure.colorbar(axes.images[0], ax=axes)
        bar.set_label("claimed / certain, powers of ten")
        return
    size = min(8.5, 62 / max(1, len(columns)))
    for i, j in np.ndindex(values.shape):
        known = math.isfinite(values[i, j])
        text = f"{values[i, j]:.3g}" if known else "–"
        dark = known and math.log10(max(float(values[i, j]), 1.0)) > 0.5 * top
        axes.text(
            j, i, text + ("*" if refuted[i, j] else ""), ha="center", va="center", fontsize=size,
            color="white" if dark else "#1a1a1a",
        )  # fmt: skip


def _line(
    figure: Figure, values: Array, refuted: NDArray[np.bool_], across: str, down: str | None,
    columns: Sequence[float], lines: Sequence[float],
) -> None:  # fmt: skip
    """Draw the ratio against the one number that was varied."""
    axes = figure.add_subplot()
    places, heights = np.asarray(columns), values[0]
    axes.axhline(1.0, color=style.EXACT, lw=1.6)
    axes.plot(places, heights, "o-", ms=4, color=style.SAMPLED, label="tightest claim that stands")
    if np.any(refuted):
        axes.plot(
            places[refuted[0]], np.ones(int(refuted.sum())), "X", ms=7, color="#B00020",
            label="another claim is refuted here",
        )  # fmt: skip
    known = heights[np.isfinite(heights)]
    axes.set_ylim(min(0.9, float(known.min())), max(2.0, 1.1 * float(known.max())))
    axes.set_xlabel(_label(across))
    axes.set_ylabel("claimed / certain")
    style.legend_below(figure, axes)


def _ticks(size: int) -> list[int]:
    return list(range(0, size, -(-size // _MOST_TICKS)))


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " "))


def _words(
    values: Array, refuted: NDArray[np.bool_], across: str, down: str | None,
    columns: Sequence[float], lines: Sequence[float],
) -> str:  # fmt: skip
    least = np.unravel_index(np.nanargmin(values), values.shape)
    most = np.unravel_index(np.nanargmax(values), values.shape)

    def place(at: Any) -> str:
        words = f"{_label(across)} = {plain(columns[int(at[1])])}"
        if down is None:
            return words
        return f"{words}, {_label(down)} = {plain(lines[int(at[0])])}"

    low, high = ratio(float(values[least])), ratio(float(values[most]))
    text = f"The ratio is least, {low}, at {place(least)}, and largest, {high}, at {place(most)}."
    if low == high:
        text = f"The ratio is {low} everywhere."
    if np.any(refuted):
        text += " Another claim is refuted where there is a star, or a cross."
    if np.any(~np.isfinite(values)):
        text += " Where there is no number, no claim stands or no run has stored one."
    return text

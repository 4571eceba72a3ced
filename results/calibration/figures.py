"""Figures of coverage and power, drawn from stored cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from results.calibration.power import ORACLE
from results.calibration.tables import Row, allowed, figure_parts, power_rows, rate

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#000000")
_MARKS = "os^Dv<>P"  # with the colours: all methods of a figure differ
_FLOOR = 2e-5  # where 0 is shown
_TICKS = (_FLOOR, 1e-4, 1e-3, 1e-2, 1e-1, 1)
_LABELS = ("0", "1e-4", ".001", ".01", ".1", "1")


def draw(coverage: Sequence[Row], power: Sequence[Row], out: Path) -> None:
    """Write ``coverage``, ``mistakes``, ``others`` and ``power`` as PNG."""
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in figure_parts(coverage).items():
        if rows:
            _save(_coverage(rows), out / name)
    if power:
        _save(_power(power_rows(power)), out / "power")


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(path.with_suffix(".png"), dpi=150)


def _coverage(rows: Sequence[Row]) -> Figure:
    """One panel a confidence; a mark left of the line is as honest as it says."""
    confidences = sorted({row["confidence"] for row in rows})
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    methods = list(dict.fromkeys(row["estimator"] for row in rows))
    figure = Figure(
        figsize=(10.5, 1.9 + 0.35 * len(names) + 0.2 * len(methods)), layout="constrained"
    )
    panels = figure.subplots(1, len(confidences), sharey=True, squeeze=False)[0]
    for axes, confidence in zip(panels, confidences, strict=True):
        for number, method in enumerate(methods):
            mine = [r for r in rows if r["estimator"] == method and r["confidence"] == confidence]
            shift = 0.7 * (number / (len(methods) - 1) - 0.5) if len(methods) > 1 else 0.0
            axes.plot(
                [max(rate(row), _FLOOR) for row in mine],
                [names.index(row["mechanism"]) + shift for row in mine],
                linestyle="",
                marker=_MARKS[number % len(_MARKS)],
                markersize=4.5,
                color=_COLOURS[number % len(_COLOURS)],
                label=method,
            )
        most = max((allowed(r) for r in rows if r["confidence"] == confidence), default=1.0)
        axes.axvline(most, color="black", linewidth=1)
        axes.axvline(1 - confidence, color="black", linewidth=1, linestyle=":")
        axes.set_xscale("log")
        axes.set_xlim(_FLOOR / 1.6, 1.4)
        axes.set_xticks(_TICKS, _LABELS)
        axes.tick_params(labelsize=8)
        axes.set_title(f"confidence {confidence:g}", fontsize=10)
        axes.grid(axis="x", color="0.9")
        for row in range(1, len(names)):
            axes.axhline(row - 0.5, color="0.8", linewidth=0.6)
        axes.set_axisbelow(True)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel(
        "rate of wrong audits; dotted: the stated error; line: that and three standard errors",
        fontsize=9,
    )
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=8, frameon=False)
    return figure


def _power(rows: Sequence[Row]) -> Figure:
    """Medians as a share of the oracle's, one panel a delta and pair, against the scores a side."""
    pairs = list(dict.fromkeys(row["mechanism"] for row in rows))
    deltas = sorted({row["delta"] for row in rows})
    figure = Figure(figsize=(2.6 * len(pairs), 2.4 * len(deltas) + 1), layout="constrained")
    panels = figure.subplots(len(deltas), len(pairs), sharex=True, sharey=True, squeeze=False)
    for line, delta in zip(panels, deltas, strict=True):
        for axes, pair in zip(line, pairs, strict=True):
            _shares(axes, [r for r in rows if (r["mechanism"], r["delta"]) == (pair, delta)])
            axes.set_title(f"{pair}, delta {delta:g}", fontsize=9)
        line[0].set_ylabel("of the oracle's median", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("scores a side", fontsize=9)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _shares(axes: Axes, rows: Sequence[Row]) -> None:
    oracle = {row["size"]: row["median"] for row in rows if row["estimator"] == ORACLE}
    sizes = [size for size in sorted(oracle) if oracle[size] > 0]
    names = [name for name in dict.fromkeys(row["estimator"] for row in rows) if name != ORACLE]
    for number, name in enumerate(names):
        mine = {row["size"]: row["median"] for row in rows if row["estimator"] == name}
        shown = [size for size in sizes if size in mine]
        axes.plot(
            shown,
            [mine[size] / oracle[size] for size in shown],
            marker=_MARKS[number % len(_MARKS)],
            markersize=4,
            linewidth=1,
            color=_COLOURS[number % len(_COLOURS)],
            label=name,
        )
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.3)
    axes.tick_params(labelsize=8)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)

"""Figures of coverage and power, drawn from stored cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from results.calibration.tables import Row, allowed, figure_parts, power_rows, rate

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#000000")
_MARKS = "os^Dv<>P"  # with the colours: all methods of a figure differ
_FLOOR = 2e-5  # where 0 is shown
_TICKS = (_FLOOR, 1e-4, 1e-3, 1e-2, 1e-1, 1)
_LABELS = ("0", "1e-4", ".001", ".01", ".1", "1")


def draw(coverage: Sequence[Row], power: Sequence[Row], out: Path) -> None:
    """Write ``coverage``, ``mistakes``, ``others`` and ``power`` as PNG and SVG."""
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in figure_parts(coverage).items():
        if rows:
            _save(_coverage(rows), out / name)
    if power:
        _save(_power(power_rows(power)), out / "power")


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


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
    """Certified epsilon against the number of scores, one panel a mechanism and delta."""
    pairs = list(dict.fromkeys((row["mechanism"], row["delta"]) for row in rows))
    figure = Figure(figsize=(3.6 * len(pairs), 3.8), layout="constrained")
    panels = figure.subplots(1, len(pairs), squeeze=False)[0]
    for axes, (mechanism, delta) in zip(panels, pairs, strict=True):
        here = [row for row in rows if (row["mechanism"], row["delta"]) == (mechanism, delta)]
        _curves(axes, here)
        axes.set_title(f"{mechanism}, delta {delta:g}", fontsize=10)
    panels[0].set_ylabel("certified epsilon, confidence .95")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _curves(axes: Axes, rows: Sequence[Row]) -> None:
    for number, name in enumerate(dict.fromkeys(row["estimator"] for row in rows)):
        mine = sorted((r for r in rows if r["estimator"] == name), key=lambda r: r["size"])
        sizes = np.array([row["size"] for row in mine])
        colour = _COLOURS[number]
        axes.plot(
            sizes,
            [row["median"] for row in mine],
            marker=_MARKS[number],
            markersize=4.5,
            color=colour,
            label=f"{name}, median",
        )
        low, high = ([row[end] for row in mine] for end in ("low", "high"))
        axes.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    goals = [row for row in rows if row["promised"] is not None]
    axes.plot(
        [row["size"] for row in goals],
        [row["promised"] for row in goals],
        linestyle="",
        marker="_",
        markersize=14,
        color="black",
        zorder=5,
        label="promised for the pilot split",
    )
    axes.axhline(rows[0]["truth"], color="black", linewidth=1, linestyle="--")
    axes.text(
        0.02,
        rows[0]["truth"],
        "truth",
        va="bottom",
        fontsize=8,
        transform=axes.get_yaxis_transform(),
    )
    axes.set_xscale("log")
    axes.set_ylim(0, rows[0]["truth"] * 1.08)
    axes.set_xlabel("scores a side")
    axes.grid(color="0.9")
    axes.set_axisbelow(True)

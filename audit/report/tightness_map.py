"""The page of the tightness map, from its stored rows alone: a table, heat maps, and words."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from audit.report.figures.style import picture
from audit.report.parts import Picture

Row = dict[str, Any]

_TIGHT = 1.1
_BURN_IN = 1.0
_COLUMNS = (
    "kind",
    "A",
    "x",
    "noise",
    "steps",
    "lower",
    "published",
    "published_theorem",
    "upper",
    "theorem",
    "pair",
    "drift",
    "start",
    "curvature",
    "evaluations",
    "seconds",
)


def write(rows: Sequence[Row], folder: Path) -> None:
    """Write ``points.csv``, the heat maps and ``README.md`` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "points.csv").write_text(table(rows), encoding="utf-8")
    pictures = heat_maps(rows)
    for drawn in pictures:
        (folder / f"{drawn.name}.png").write_bytes(drawn.png)
        (folder / f"{drawn.name}.svg").write_bytes(drawn.svg)
    (folder / "README.md").write_text(page(rows, pictures), encoding="utf-8")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as CSV, numbers in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def heat_maps(rows: Sequence[Row]) -> list[Picture]:
    """Return one picture a kind of mechanism: upper over lower bound, one panel a noise."""
    return [
        _heat_map([row for row in rows if row["kind"] == kind], kind)
        for kind in dict.fromkeys(row["kind"] for row in rows)
    ]


def ratio(row: Row, side: str = "upper") -> float:
    """Return an upper bound of a row over its certified lower bound."""
    return float(row[side] / row["lower"]) if row["lower"] > 0 else math.inf


def _heat_map(rows: Sequence[Row], kind: str) -> Picture:
    noises = sorted({row["noise"] for row in rows})
    times = sorted({row["x"] for row in rows})
    strengths = sorted({row["A"] for row in rows})

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(noises), 1, sharex=True, squeeze=False)
        image = None
        for axes, noise in zip(panels[:, 0], noises, strict=True):
            found = {(row["A"], row["x"]): ratio(row) for row in rows if row["noise"] == noise}
            cells = [[found.get((a, x), math.nan) for x in times] for a in strengths]
            image = axes.imshow(
                [[math.log10(max(c, 1.0)) for c in line] for line in cells],
                cmap="cividis_r",
                vmin=0,
                vmax=2,
                aspect="auto",
                origin="lower",
            )
            for i, line in enumerate(cells):
                for j, cell in enumerate(line):
                    dark = math.log10(max(cell, 1.0)) > 1
                    axes.text(
                        j,
                        i,
                        _short(cell),
                        ha="center",
                        va="center",
                        fontsize=7.5,
                        color="white" if dark else "black",
                    )
            axes.set_yticks(range(len(strengths)), [f"{a:g}" for a in strengths])
            axes.set_ylabel("A = v D / s²")
            axes.set_title(f"noise s = {noise:g} D", loc="left")
            axes.grid(visible=False)
        panels[-1, 0].set_xticks(range(len(times)), [f"{x:g}" for x in times])
        panels[-1, 0].set_xlabel("steps over burn-in time, x = T v / D")
        if image is not None:
            bar = figure.colorbar(image, ax=panels[:, 0].tolist(), shrink=0.4)
            bar.set_ticks([0, 1, 2], labels=["1", "10", "100"])
            bar.set_label("upper / lower")

    worst = max(rows, key=ratio)
    tight = sum(ratio(row) <= _TIGHT for row in rows)
    caption = (
        f"Tightest sound bound over best certified lower bound for {kind} "
        f"(delta 1e-05): {tight} of {len(rows)} points within 10 %, the widest gap "
        f"{_short(ratio(worst))} at {_place(worst)}."
    )
    name = "ratio_" + "_".join(kind.replace(",", "").split())
    return picture(name, f"Tightness: {kind}", caption, draw, 2.6 * len(noises) + 0.6)


def page(rows: Sequence[Row], pictures: Sequence[Picture]) -> str:
    """Return the page in Markdown: in words where the bounds are tight and where they are loose."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    parts = [_INTRODUCTION.format(count=len(rows)), _summary(rows, kinds)]
    for kind, drawn in zip(kinds, pictures, strict=True):
        chosen = [row for row in rows if row["kind"] == kind]
        parts.append(f"## {kind[0].upper()}{kind[1:]}\n\n{_words(chosen)}")
        parts.append(f"![{drawn.caption}]({drawn.name}.png)\n\n*{drawn.caption}*")
    parts.append(_own(rows))
    parts.append(_worst(rows))
    return "\n\n".join(part for part in parts if part) + "\n"


_INTRODUCTION = """# How tight the literature is

At {count} mechanisms this map sets the best certified lower bound that a search has found (exact
laws of an admissible pair, with their error brackets) beside the tightest sound upper bound that
the engine holds, both as epsilon at delta = 1e-5. The truth lies between the two: a ratio near 1
says that both are right to that much, a large one that somebody can still improve something.

The mechanisms have diameter D = 1, step size 1, smoothness 1 and 1000 records. With v the mean
distance by which one step moves the two datasets apart and s the noise of a step, A = v D/s^2 is
how strongly the record pushes against the noise over the width of the domain, and T = x D/v counts
the steps in burn-in times. All numbers are in [points.csv](points.csv)."""


def _summary(rows: Sequence[Row], kinds: Sequence[str]) -> str:
    lines = [
        "| mechanism | points | within 10 % | median ratio | before burn-in (x < 1) "
        "| from burn-in on | largest |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in kinds:
        chosen = [row for row in rows if row["kind"] == kind]
        early = [ratio(row) for row in chosen if row["x"] < _BURN_IN]
        late = [ratio(row) for row in chosen if row["x"] >= _BURN_IN]
        tight = sum(ratio(row) <= _TIGHT for row in chosen)
        lines.append(
            f"| {kind} | {len(chosen)} | {tight} | {_median(chosen)} | "
            f"{_short(statistics.median(early))} | {_short(statistics.median(late))} | "
            f"{_short(max(map(ratio, chosen)))} |"
        )
    return "\n".join(lines)


def _words(rows: Sequence[Row]) -> str:
    regimes: tuple[tuple[str, Callable[[Row], bool]], ...] = (
        ("Weak pushes (A at most 0.1)", lambda row: row["A"] <= 0.1),
        ("Moderate pushes (A from 0.3 to 3)", lambda row: 0.1 < row["A"] <= 3),
        ("Strong pushes (A from 10)", lambda row: row["A"] > 3),
    )
    sentences = []
    for name, chosen_by in regimes:
        chosen = [row for row in rows if chosen_by(row)]
        early = [row for row in chosen if row["x"] < _BURN_IN]
        late = [row for row in chosen if row["x"] >= _BURN_IN]
        if early and late:
            sentences.append(
                f"- {name}: before burn-in the ratio is {_range(early)}, from burn-in on "
                f"{_range(late)}; the tightest bound is most often `{_mode(chosen, 'theorem')}`."
            )
    return "\n".join(sentences)


def _own(rows: Sequence[Row]) -> str:
    """Say how much of the gap of the published bounds this package's own ones closed."""
    better = [row for row in rows if row["upper"] < row["published"] * (1 - 1e-9)]
    if not better:
        return ""
    closed = [
        math.log(row["published"] / row["upper"]) / math.log(row["published"] / row["lower"])
        for row in better
        if row["lower"] > 0
    ]
    most = max(better, key=lambda row: row["published"] / row["upper"])
    lines = [
        "## What this package's own bounds add",
        "",
        f"At {len(better)} of {len(rows)} points a bound of this package (`own.`) is below every "
        f"published one. There it closes {statistics.median(closed):.0%} of the gap (median, on a "
        f"logarithmic scale), at most a factor {most['published'] / most['upper']:.3g} "
        f"({most['kind']}, {_place(most)}). `own.coupling`, which takes seconds a point and is "
        "tighter still, is not part of the map.",
        "",
        "| mechanism | points improved | median ratio, published | median ratio, with own |",
        "|---|---|---|---|",
    ]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        chosen = [row for row in better if row["kind"] == kind]
        if chosen:
            lines.append(
                f"| {kind} | {len(chosen)} | {_median(chosen, 'published')} | {_median(chosen)} |"
            )
    return "\n".join(lines)


def _worst(rows: Sequence[Row]) -> str:
    lines = [
        "## The widest gaps",
        "",
        "| mechanism | A | x | s/D | steps | lower | upper | theorem | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=ratio, reverse=True)[:12]:
        lines.append(
            f"| {row['kind']} | {row['A']:g} | {row['x']:g} | {row['noise']:g} | {row['steps']:,} "
            f"| {row['lower']:.4g} | {row['upper']:.4g} | `{row['theorem']}` "
            f"| {_short(ratio(row))} |"
        )
    return "\n".join(lines)


def _place(row: Row) -> str:
    return f"A = {row['A']:g}, x = {row['x']:g}, s = {row['noise']:g} D"


def _median(rows: Sequence[Row], side: str = "upper") -> str:
    return _short(statistics.median(ratio(row, side) for row in rows))


def _range(rows: Sequence[Row]) -> str:
    values = sorted(map(ratio, rows))
    return f"{_short(values[0])} to {_short(values[-1])} (median {_median(rows)})"


def _mode(rows: Sequence[Row], key: str) -> str:
    return str(statistics.mode(row[key] for row in rows))


def _short(value: float) -> str:
    """Write a ratio in as few digits as tell it from 1."""
    if not math.isfinite(value):
        return "inf"
    if value < 1.0005:
        return "1.00"
    return f"{value:.3f}" if value < 1.1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"

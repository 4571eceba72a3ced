"""The page of the tightness map, made from its rows alone: a table, heat maps and text."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure

from audit.report.document import Picture
from audit.report.figures.style import picture
from results.map.grid import Row

Side = Literal["published", "upper"]

_TIGHT = 1.1
_LOOSE = 1.05
_TICKS = (1, 3, 10, 30)
_DARKEST = 30
_SEEN = 1e-3  # relative; a bound that is lower by less is not counted as lower
_BURN_IN = 1.0
_REGIMES: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("weak pushes (A at most 0.1)", lambda row: row.strength <= 0.1),
    ("moderate pushes (A from 0.3 to 3)", lambda row: 0.1 < row.strength <= 3),
    ("strong pushes (A from 10)", lambda row: row.strength > 3),
)
# of points.csv, by the fields of a row
_HEADINGS = {"strength": "A", "time": "x"}
_LEFT_OUT = ("lower_high", "construction")


def write(rows: Sequence[Row], folder: Path) -> None:
    """Write ``points.csv``, ``pairs.json``, the heat maps and ``README.md`` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "points.csv").write_text(table(rows), encoding="utf-8")
    (folder / "pairs.json").write_text(pairs(rows), encoding="utf-8")
    pictures = heat_maps(rows)
    for drawn in pictures:
        (folder / f"{drawn.name}.png").write_bytes(drawn.png)
    (folder / "README.md").write_text(page(rows, pictures), encoding="utf-8")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as CSV, numbers in full."""
    names = [field.name for field in dataclasses.fields(Row) if field.name not in _LEFT_OUT]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_HEADINGS.get(name, name) for name in names])
    writer.writerows([getattr(row, name) for name in names] for row in rows)
    return text.getvalue()


def pairs(rows: Sequence[Row]) -> str:
    """Return the pairs of the lower sides as JSON, by the names of their points, a line each."""
    lines = (
        f"{json.dumps(row.point.name)}: {json.dumps(row.construction, allow_nan=False)}"
        for row in rows
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def known_pairs(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return the pairs that a map stored, by the names of their points."""
    path = folder / "pairs.json"
    if not path.exists():
        return {}
    stored: dict[str, Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return stored


def heat_maps(rows: Sequence[Row]) -> list[Picture]:
    """Return one picture a kind of mechanism: upper over lower bound, one panel a noise."""
    return [
        _heat_map([row for row in rows if row.kind == kind], kind)
        for kind in dict.fromkeys(row.kind for row in rows)
    ]


def ratio(row: Row, side: Side = "upper") -> float:
    """Return an upper bound of a row over its certified lower bound."""
    return getattr(row, side) / row.lower if row.lower > 0 else math.inf


def _heat_map(rows: Sequence[Row], kind: str) -> Picture:
    noises = sorted({row.noise for row in rows})
    times = sorted({row.time for row in rows})
    strengths = sorted({row.strength for row in rows})

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(noises), 1, sharex=True, squeeze=False)
        image = None
        for axes, noise in zip(panels[:, 0], noises, strict=True):
            found = {(row.strength, row.time): ratio(row) for row in rows if row.noise == noise}
            cells = [[found.get((a, x), math.nan) for x in times] for a in strengths]
            image = axes.imshow(
                [[math.log10(max(c, 1.0)) for c in line] for line in cells],
                cmap="cividis_r",
                vmin=0,
                vmax=math.log10(_DARKEST),
                aspect="auto",
                origin="lower",
            )
            for i, line in enumerate(cells):
                for j, cell in enumerate(line):
                    dark = cell > math.sqrt(_DARKEST)
                    axes.text(
                        j,
                        i,
                        "" if math.isnan(cell) else _short(cell),  # no such point
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
            bar.set_ticks([math.log10(t) for t in _TICKS], labels=[str(t) for t in _TICKS])
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
    """Return the page in Markdown: where the bounds are tight, and where they are loose."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    coupled = sum(row.coupling is not None for row in rows)
    parts = [_INTRODUCTION.format(count=len(rows), coupled=coupled), _summary(rows, kinds)]
    for kind, drawn in zip(kinds, pictures, strict=True):
        chosen = [row for row in rows if row.kind == kind]
        parts.append(f"## {kind[0].upper()}{kind[1:]}\n\n{_words(chosen)}")
        parts.append(f"![{drawn.caption}]({drawn.name}.png)\n\n*{drawn.caption}*")
        parts.append(_many(chosen))
    parts.append(_own(rows))
    parts.append(_worst(rows))
    return "\n\n".join(part for part in parts if part) + "\n"


_INTRODUCTION = """# How tight the literature is

At {count} mechanisms, this map compares the best certified lower bound that a search found (the
exact law of an admissible pair, with its error bracket) with the tightest sound upper bound of the
catalogue, both as epsilon at delta = 1e-5. The true value lies between the two. Where the ratio is
near 1, both bounds are nearly tight; where it is large, at least one of them can be improved.

The mechanisms have diameter D = 1, step size 1, smoothness 1 and 1000 records. Let v be the mean
distance by which one step moves the two datasets apart, and s the standard deviation of the noise
of a step. Then A = v D/s^2 measures how strongly the record pushes against the noise over the width
of the domain, and T = x D/v counts the steps in burn-in times. All numbers are in
[points.csv](points.csv). Blank cells are mechanisms for which one step distinguishes the datasets
with near certainty. Searches try 150 pairs a point, and for batches without replacement
150 more in many dimensions; at s = 0.01 D they begin with the best pair of s = 0.05 D. A pair of an
earlier map is kept where no search finds a better one: all pairs are in
[pairs.json](pairs.json), and `audit.constructions.decode_pair` reads them.
`own.coupling` takes seconds a point. It was computed at the {coupled} points where the
best other bound is more than half a percent above the lower bound."""


def _summary(rows: Sequence[Row], kinds: Sequence[str]) -> str:
    lines = [
        "| mechanism | points | within 10 % | median ratio | before burn-in (x < 1) "
        "| from burn-in on | largest |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in kinds:
        chosen = [row for row in rows if row.kind == kind]
        early = [ratio(row) for row in chosen if row.time < _BURN_IN]
        late = [ratio(row) for row in chosen if row.time >= _BURN_IN]
        tight = sum(ratio(row) <= _TIGHT for row in chosen)
        lines.append(
            f"| {kind} | {len(chosen)} | {tight} | {_median(chosen)} | "
            f"{_short(statistics.median(early))} | {_short(statistics.median(late))} | "
            f"{_short(max(map(ratio, chosen)))} |"
        )
    return "\n".join(lines)


def _words(rows: Sequence[Row]) -> str:
    sentences = []
    for name, chosen_by in _REGIMES:
        chosen = [row for row in rows if chosen_by(row)]
        early = [row for row in chosen if row.time < _BURN_IN]
        late = [row for row in chosen if row.time >= _BURN_IN]
        if early and late:
            sentences.append(
                f"- {name[0].upper()}{name[1:]}: before burn-in the ratio is {_range(early)}, "
                f"from burn-in on {_range(late)}; the tightest bound is most often "
                f"`{_mode(chosen, 'theorem')}`."
            )
    return "\n".join(sentences)


def _many(rows: Sequence[Row]) -> str:
    """Say what pairs in many dimensions add."""
    better = [row for row in rows if row.lower > row.one_dimension * (1 + _SEEN)]
    if not better:
        return ""
    one = [row.upper / row.one_dimension for row in rows if row.one_dimension > 0]
    most = max(better, key=lambda row: row.lower / row.one_dimension)
    return (
        f"At {len(better)} of these points the best pair has many dimensions: the domain is a "
        "narrow cone, which cancels a gradient that all records share "
        "(`audit.constructions.cone`). It raises the lower bound by a factor of at most "
        f"{_short(most.lower / most.one_dimension)} ({_place(most)}). With pairs on an interval "
        f"alone the median ratio is {_short(statistics.median(one))} and the largest "
        f"{_short(max(one))}."
    )


def _own(rows: Sequence[Row]) -> str:
    """Say how much of the gap the bounds of this package close, and where."""
    open_ = [row for row in rows if row.published > _LOOSE * row.lower > 0]
    if not open_:
        return ""
    better = [row for row in rows if row.upper < row.published * (1 - _SEEN)]
    forgot = [row for row in rows if _forgetting(row) < row.published * (1 - _SEEN)]
    beyond = [row for row in rows if row.upper < _forgetting(row) * (1 - _SEEN)]
    smallest = Counter(row.theorem for row in better).most_common()
    ids = ", ".join(f"`{id}` at {count}" for id, count in smallest)
    which = f"; the smallest is {ids} points" if ids else ""
    lines = [
        "## What this package's own bounds add",
        "",
        f"At {len(better)} of {len(rows)} points a bound of this package is below every published "
        f"one{which}. `own.forgetting`, the simplest, is below every published bound at "
        f"{len(forgot)} points, and another bound of this package is below `own.forgetting` and "
        f"every published bound at {len(beyond)}.",
        "",
        f"At {len(open_)} points the best published bound is more than 5 % above the certified "
        "lower bound. On a logarithmic scale and averaged over these points, `own.forgetting` "
        f"closes {_percent([_closed(row)[0] for row in open_])} of that gap, and the others close "
        f"another {_percent([_closed(row)[1] for row in open_])}.",
        "",
        *_farthest(better, forgot, beyond),
        "",
        "| mechanism | pushes | open points | median ratio, published | with `own.forgetting` "
        "| with all | closed by `own.forgetting` | by the others |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(row.kind for row in rows):
        for name, chosen_by in _REGIMES:
            chosen = [row for row in open_ if row.kind == kind and chosen_by(row)]
            if chosen:
                forgets = _short(statistics.median(_forgetting(r) / r.lower for r in chosen))
                lines.append(
                    f"| {kind} | {name} | {len(chosen)} | {_median(chosen, 'published')} "
                    f"| {forgets} | {_median(chosen)} "
                    f"| {_percent([_closed(row)[0] for row in chosen])} "
                    f"| {_percent([_closed(row)[1] for row in chosen])} |"
                )
    lines += ["", *_where(open_)]
    return "\n".join(lines)


def _forgetting(row: Row) -> float:
    """Return the smaller of the best published bound and own.forgetting."""
    own = row.forgetting
    return float(row.published if own is None else min(row.published, own))


def _closed(row: Row) -> tuple[float, float]:
    """Return the shares of a row's log-scale gap that own.forgetting and the others close."""
    gap = math.log(row.published / row.lower)
    before = _forgetting(row)
    return math.log(row.published / before) / gap, math.log(before / row.upper) / gap


def _farthest(better: Sequence[Row], forgot: Sequence[Row], beyond: Sequence[Row]) -> list[str]:
    factors: list[tuple[str, Sequence[Row], Callable[[Row], float]]] = [
        (
            "`own.forgetting` lowers the best published bound",
            forgot,
            lambda row: row.published / _forgetting(row),
        ),
        (
            "The others lower the smaller of these two",
            beyond,
            lambda row: _forgetting(row) / row.upper,
        ),
        (
            "All together lower the best published bound",
            better,
            lambda row: row.published / row.upper,
        ),
    ]
    lines = []
    for words, some, factor in factors:
        if some:
            most = max(some, key=factor)
            lines.append(
                f"- {words} by a factor of at most {_short(factor(most))} "
                f"({most.kind}, {_place(most)})."
            )
    return lines


def _where(rows: Sequence[Row]) -> list[str]:
    """Say for each kind from which run length on the bounds help."""
    lines = []
    for kind in dict.fromkeys(row.kind for row in rows):
        chosen = [row for row in rows if row.kind == kind]
        early = [row for row in chosen if row.time < _BURN_IN]
        late = [row for row in chosen if row.time >= _BURN_IN]
        parts = [
            f"{when} they close {_percent([sum(_closed(row)) for row in some])} of the gap "
            f"(median ratio {_median(some, 'published')} without them, "
            f"{_median(some)} with)"
            for when, some in (("before burn-in", early), ("from burn-in on", late))
            if some
        ]
        lines.append(f"- {kind[0].upper()}{kind[1:]}: {'; '.join(parts)}.")
    return lines


def _percent(shares: Sequence[float]) -> str:
    return f"{statistics.mean(shares):.0%}"


def _worst(rows: Sequence[Row]) -> str:
    lines = [
        "## The widest gaps",
        "",
        "| mechanism | A | x | s/D | steps | lower | upper | theorem | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=ratio, reverse=True)[:12]:
        lines.append(
            f"| {row.kind} | {row.strength:g} | {row.time:g} | {row.noise:g} | {row.steps:,} "
            f"| {row.lower:.4g} | {row.upper:.4g} | `{row.theorem}` "
            f"| {_short(ratio(row))} |"
        )
    return "\n".join(lines)


def _place(row: Row) -> str:
    return f"A = {row.strength:g}, x = {row.time:g}, s = {row.noise:g} D"


def _median(rows: Sequence[Row], side: Side = "upper") -> str:
    return _short(statistics.median(ratio(row, side) for row in rows))


def _range(rows: Sequence[Row]) -> str:
    values = sorted(map(ratio, rows))
    return f"{_short(values[0])} to {_short(values[-1])} (median {_median(rows)})"


def _mode(rows: Sequence[Row], key: str) -> str:
    return str(statistics.mode(getattr(row, key) for row in rows))


def _short(value: float) -> str:
    """Write a ratio in as few digits as tell it from 1."""
    if not math.isfinite(value):
        return "inf"
    if value < 1.0005:
        return "1.00"
    return f"{value:.3f}" if value < 1.1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"

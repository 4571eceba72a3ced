"""The three numbers on one line, for every setting and delta."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from audit.numerics.number_format import plain, ratio
from audit.report import queries
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look
from audit.report.queries import ComparedResult
from audit.results import AtDelta, BoundRow, Verdict

_TITLE_HEIGHT, _ROW_HEIGHT = 0.34, 0.62  # inches of a setting's title and of a row
_TITLE_LINE_HEIGHT, _TITLE_LETTERS = 0.17, 50  # inches and letters of a title's line
_GAP = 0.028  # share of the axis; closer markers are set one below the other
_LEVEL_HEIGHT = 0.115  # inches
_WORD_WIDTH = 0.17  # share of the axis that the word "refuted" takes
_MARGIN_DECADES = 0.25  # decades kept free at either end
_REFUTED = "#B00020"  # the colour of refuted claims
_RING_WIDTH = 1.8  # points, of the ring around one


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float

    def place(self, value: float) -> float:
        """Put what the logarithmic axis cannot hold on its ends."""
        return min(max(value, self.low), self.high)

    def share(self, value: float) -> float:
        """Return where on the axis a value is, from 0 to 1."""
        return math.log(self.place(value) / self.low) / math.log(self.high / self.low)

    def levels(self, values: Sequence[float], above: Sequence[float]) -> list[int]:
        """Return for each of some rising values how far down its marker goes to be seen whole.

        On the highest level stand the markers of ``above``.
        """
        taken = [list(map(self.share, above)), *([] for _ in values)]
        found = []
        for at in map(self.share, values):
            free = (i for i, there in enumerate(taken) if all(abs(at - x) >= _GAP for x in there))
            found.append(next(free))
            taken[found[-1]].append(at)
        return found


def draw(settings: Sequence[ComparedResult], looks: dict[str, Look]) -> Picture:
    """Draw one bar for each delta of each setting."""
    scale = _scale(settings)
    y, titles, bars = 0.0, [], []
    for setting in settings:
        lines = textwrap.wrap(queries.title(setting), _TITLE_LETTERS)
        y -= _TITLE_HEIGHT + _TITLE_LINE_HEIGHT * (len(lines) - 1)
        titles.append((y + 0.05, "\n".join(lines)))
        for row in setting.deltas:
            marks = _marks(scale, row)
            bars.append((row, marks, y - 0.36))
            y -= _ROW_HEIGHT + _LEVEL_HEIGHT * max((mark.level for mark in marks), default=0)

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        style.logarithmic(axes, "x")
        axes.set_xlim(scale.low, scale.high)
        axes.set_ylim(y, 0)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("epsilon")
        for at, words in titles:
            axes.text(
                0, at, words, weight="bold", linespacing=1.15,
                transform=axes.get_yaxis_transform(), va="bottom",
            )  # fmt: skip
        for row, marks, at in bars:
            _bar(axes, scale, row, marks, at, looks)
        _keys(axes, looks, settings)

    return style.picture("sandwich", "The sandwich", caption(settings), on, 0.6 - y)


def _scale(settings: Sequence[ComparedResult]) -> _Scale:
    values = [claim.epsilon for claim in queries.judged(settings)]
    for row in _rows(settings):
        values += [row.sampled.epsilon, *_worst(row), queries.strongest(row)[0]]
    shown = [value for value in values if 1e-12 < value < style.LARGEST] or [0.1, 10.0]
    return _Scale(min(shown) / 10**_MARGIN_DECADES, max(shown) * 10**_MARGIN_DECADES)


def _rows(settings: Sequence[ComparedResult]) -> list[AtDelta]:
    return [row for setting in settings for row in setting.deltas]


def _worst(row: AtDelta) -> tuple[float, float]:
    """Return the exact bracket; where it is not known, what is certified, without an upper end."""
    return (row.certified.epsilon, math.inf) if row.exact is None else row.exact.worst.bracket


@dataclass(frozen=True)
class _Mark:
    """A claim on a bar: its value, and how far below the bar its marker stands."""

    bound: BoundRow
    epsilon: float
    level: int


def _marks(scale: _Scale, row: AtDelta) -> list[_Mark]:
    claims = sorted(queries.applied(row), key=lambda claim: claim[1])
    above = [_worst(row)[0], queries.strongest(row)[0], row.sampled.epsilon]
    levels = scale.levels([value for _, value in claims], above)
    return [_Mark(*claim, level) for claim, level in zip(claims, levels, strict=True)]


def _bar(
    axes: Axes,
    scale: _Scale,
    row: AtDelta,
    marks: Sequence[_Mark],
    y: float,
    looks: dict[str, Look],
) -> None:
    sampled, exact = row.sampled.epsilon, _worst(row)[0]
    strongest, other = queries.strongest(row)
    best = queries.tightest(row.bounds, row.best)
    axes.text(
        0, y + 0.13, f"δ = {plain(row.delta)}", transform=axes.get_yaxis_transform(), va="bottom"
    )
    if best is not None and best.ratio is not None:
        than = "certified" if row.exact is None else "exact"
        words = f"tightest claim = {ratio(best.ratio)} × {than}"
        axes.text(
            1, y + 0.13, words, ha="right", va="bottom", color="#333333",
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip
    axes.plot(
        [scale.low, scale.high], [y, y], color="#EDEDED", lw=7, solid_capstyle="butt", zorder=1
    )
    if best is not None and best.value is not None:
        ends = [scale.place(strongest), scale.place(best.value)]
        axes.plot(ends, [y, y], color="#BDBDBD", lw=7, solid_capstyle="butt", zorder=2)
    ends = [scale.place(sampled), scale.place(exact)]
    axes.plot(ends, [y, y], color="#8FC1E8", lw=7, solid_capstyle="butt", zorder=2)
    axes.plot(
        ends[0], y, marker=">", ms=8, color=style.SAMPLED, mec="white", clip_on=False, zorder=5
    )
    if row.exact is not None:
        axes.plot(
            scale.place(exact), y, marker="|", ms=17, mew=3, color=style.EXACT, clip_on=False,
            zorder=6,
        )  # fmt: skip
    for value in {sampled, exact}:
        _name_end(axes, scale, value, y)
    if other:
        axes.plot(
            [scale.place(exact), scale.place(strongest)], [y, y], color="#8FC1E8", lw=2, zorder=3
        )
        axes.plot(
            scale.place(strongest), y, marker="d", ms=10, mfc="white", mec=style.EXACT, mew=1.6,
            clip_on=False, zorder=6,
        )  # fmt: skip
    for mark in marks:
        _draw_mark(axes, scale, mark, y - _LEVEL_HEIGHT * mark.level, looks[mark.bound.id])
    _call_refuted(axes, scale, marks, y)


def _name_end(axes: Axes, scale: _Scale, value: float, y: float) -> None:
    """Write the value of a marker that stands at an end of the axis: 0, or infinity."""
    if scale.low <= value <= scale.high:
        return
    shift, side = (-8, "right") if value > scale.high else (8, "left")
    axes.annotate(
        plain(value), (scale.place(value), y), (shift, 0), textcoords="offset points", ha=side,
        va="center", fontsize=8,
    )  # fmt: skip


def _draw_mark(axes: Axes, scale: _Scale, mark: _Mark, y: float, look: Look) -> None:
    x = scale.place(mark.epsilon)
    axes.plot(x, y, marker=look.marker, ms=7, color=look.colour, mec="white", mew=0.8,
              clip_on=False, zorder=7)  # fmt: skip
    _name_end(axes, scale, mark.epsilon, y)
    if mark.bound.verdict is Verdict.REFUTED:
        axes.plot(
            x, y, "o", ms=13, mfc="none", mec=_REFUTED, mew=_RING_WIDTH, clip_on=False, zorder=8
        )


def _call_refuted(axes: Axes, scale: _Scale, marks: Sequence[_Mark], y: float) -> None:
    """Write the word below the rings, once for those that stand close together."""
    shares = [scale.share(mark.epsilon) for mark in marks]
    free = -math.inf
    for at, mark in zip(shares, marks, strict=True):
        if mark.bound.verdict is not Verdict.REFUTED or at < free:
            continue
        free = at + _WORD_WIDTH
        right = free > 1
        low, high = (at - _WORD_WIDTH, at + _GAP) if right else (at - _GAP, free)
        below = max(
            other.level for share, other in zip(shares, marks, strict=True) if low <= share <= high
        )
        x = scale.place(mark.epsilon)
        axes.annotate(
            Verdict.REFUTED.value, (x, y - _LEVEL_HEIGHT * below), (7 if right else -7, -8),
            textcoords="offset points", ha="right" if right else "left", va="top",
            color=_REFUTED, weight="bold",
        )  # fmt: skip


def _any_exact(settings: Sequence[ComparedResult]) -> bool:
    return any(row.exact for row in _rows(settings))


def _keys(axes: Axes, looks: dict[str, Look], settings: Sequence[ComparedResult]) -> None:
    """Draw the markers of the legend."""
    key = partial(axes.plot, [], [])
    key(">", label="certified lower bound", ms=8, color=style.SAMPLED)
    if _any_exact(settings):
        key("|", label="exact value of the pair", ms=13, mew=3, color=style.EXACT)
    if queries.any_stronger(settings):
        key("d", label="exact value of the strongest pair", ms=9, mfc="white", mec=style.EXACT)
    for name in sorted({claim.bound.id for claim in queries.judged(settings)}):
        key(looks[name].marker, label=f"claimed: {name}", ms=7, color=looks[name].colour)
    if any(queries.refuted(row.bounds) for row in _rows(settings)):
        key("o", label="refuted claim", ms=10, mfc="none", mec=_REFUTED, mew=_RING_WIDTH)


def caption(settings: Sequence[ComparedResult]) -> str:
    """Say how far apart the sides are, and where the gap is on the samples' side."""
    rows = [(setting, row) for setting in settings for row in setting.deltas]
    wrong = queries.refuted_ids(row for _, row in rows)
    stronger, known = queries.any_stronger(settings), _any_exact(settings)
    of_pair = ", exact value of the pair" if known else ""
    parts = [f"Certified lower bound{of_pair} and claimed upper bounds on epsilon."]
    value = "the strongest pair's exact value" if stronger else "the exact value"
    if not known:
        value = "what samples certify"
    if wrong:
        parts.append(f"Left of {value}, hence refuted: {', '.join(wrong)}.")
    elif queries.judged(settings):
        parts.append(f"Every claim lies to the right of {value}.")
    gaps = [
        (best.ratio, queries.title(setting))
        for setting, row in rows
        if (best := queries.tightest(row.bounds, row.best)) and best.ratio is not None
    ]
    if gaps:
        least, most = min(gaps), max(gaps)
        parts.append(
            f"The grey stretch, from {value} to the tightest claim that stands, is a factor of "
            f"{ratio(least[0])} at best"
            + (f" and {ratio(most[0])} at worst (“{most[1]}”)." if len(gaps) > 1 else ".")
        )
    capped = [queries.title(setting) for setting, row in rows if _at_limit(row)]
    if capped:
        names = ", ".join(f"“{name}”" for name in dict.fromkeys(capped))
        parts.append(
            f"In {names} the blue stretch is wide because of the number of samples: "
            "hardly more can be certified from so many."
        )
    return " ".join(parts)


def _at_limit(row: AtDelta) -> bool:
    value, most = row.sampled.epsilon, row.sampled.largest_certifiable
    high = row.exact.worst.high if row.exact else math.inf
    return value > 0.8 * most and math.inf > high > 1.5 * most

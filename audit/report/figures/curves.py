"""Curves of exact and claimed values: by order, by record, by steps, and tradeoff functions."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from audit.numerics.arrays import Array
from audit.numerics.number_format import MISSING, Rounding, bracket, number, plain, ratio
from audit.report import queries
from audit.report.conclusion import capitalized
from audit.report.document import Picture
from audit.report.figures import style
from audit.report.figures.style import Look, finite
from audit.results import AtOrder, AtPosition, EpsilonAgainstSteps, PositionAtDelta, TradeoffCurves

_MIN_ORDERS = 3  # orders; fewer are no curve
_SAME_LINE = 1e-3  # lines nearer to each other cannot be told apart
_MAX_TICKS, _MIN_TICK_GAP = 12, 0.04  # ticks of records, and their distance
_PAIR_LINES = ("-", "--", "-.", ":")


def draw_renyi(rows: Sequence[AtOrder], stem: str, looks: dict[str, Look]) -> Picture | None:
    """Draw the divergences of both orders of the pair over the Renyi orders, if they are enough."""
    if len(rows) < _MIN_ORDERS:
        return None
    rows = sorted(rows, key=lambda row: row.order)
    orders = np.array([row.order for row in rows])
    forward = finite(row.exact.forward.low for row in rows)
    reverse = finite(row.exact.reverse.low for row in rows)
    exact = [("X from X'", forward, "-"), ("X' from X", reverse, "--")]
    if np.allclose(forward, reverse, rtol=_SAME_LINE, atol=0.0, equal_nan=True):
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


def draw_positions(
    places: Sequence[AtPosition], stem: str, looks: dict[str, Look]
) -> Picture | None:
    """Draw epsilon of every pair and bound against the record's index, at the last delta."""
    if not places:
        return None
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
        if len(index) <= _MAX_TICKS and np.all(np.diff(index) > _MIN_TICK_GAP * np.ptp(index)):
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


_LEVEL_RATIO = 1.05  # a curve that stays this near to its last value has levelled off
_WIDE_RATIO = 20.0  # numbers of steps spread further than this are drawn on a logarithmic axis
_LABEL_GAP = 0.064  # distance of two labels, as a share of the axes' height


def draw_steps(
    data: EpsilonAgainstSteps, stem: str, looks: dict[str, Look], unsound: Collection[str]
) -> Picture | None:
    """Draw the exact value and every bound, each labelled at its end.

    None without a finite number, or a second number of steps.
    """
    steps, exact, bounds = _arrays(data)
    if len(steps) < 2 or not np.any(np.isfinite(np.concatenate([exact.ravel(), *bounds.values()]))):
        return None

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        style.logarithmic(axes, "xy" if steps[-1] > _WIDE_RATIO * steps[0] else "y")
        axes.set_ylim(*_range(exact, list(bounds.values())))
        if data.burn_in is not None:
            _burn_in(axes, data.burn_in.steps, steps)
        axes.fill_between(steps, exact[:, 0], exact[:, 1], color="#CFCFCF", lw=0)
        axes.plot(steps, exact[:, 0], color=style.EXACT, lw=2.4, marker="|", ms=8, mew=1.6)
        ends = [("exact", style.EXACT, *_last(steps, exact[:, 0]))]
        for name, values in bounds.items():
            look = looks[name]
            look.plot(axes, steps, values)
            ends.append((name, look.colour, *_last(steps, values)))
        _label(axes, ends)
        axes.set_xlabel("number of steps T")
        axes.set_ylabel(f"epsilon at δ = {plain(data.delta)}")

    title = "Epsilon against the number of steps"
    return style.picture(f"{stem}-steps", title, steps_caption(data, unsound), on, 3.7)


def _arrays(data: EpsilonAgainstSteps) -> tuple[Array, Array, dict[str, Array]]:
    """Return steps, brackets of shape (steps, 2), NaN where an end is infinite, and bounds."""
    ends = np.array([value.bracket for value in data.exact])
    exact = np.where(np.isfinite(ends), ends, np.nan)
    return np.array(data.steps, dtype=np.float64), exact, _bounds(data)


def _bounds(data: EpsilonAgainstSteps | TradeoffCurves) -> dict[str, Array]:
    """Return the bounds that are finite somewhere; NaN where they are infinite or do not apply."""
    curves = {bound.id: finite(bound.values) for bound in data.bounds}
    return {name: values for name, values in curves.items() if np.any(np.isfinite(values))}


def _range(exact: Array, bounds: list[Array]) -> tuple[float, float]:
    values = np.concatenate([exact.ravel(), *bounds])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return 0.1, 10.0
    return float(values.min()) / 1.6, float(values.max()) * 1.6


def _last(steps: Array, values: Array) -> tuple[float, float]:
    known = np.flatnonzero(np.isfinite(values) & (values > 0))
    return (float(steps[known[-1]]), float(values[known[-1]])) if len(known) else (np.nan, np.nan)


def _burn_in(axes: Axes, burn_in: float, steps: Array) -> None:
    words = f"burn-in at T = {plain(burn_in)}"
    if steps[0] <= burn_in <= steps[-1]:
        axes.axvline(burn_in, color=style.QUIET, lw=1.2, ls=(0, (2, 2)))
        words = f"dotted line: {words}"
    else:
        words = f"{words}, outside the axis"
    axes.set_title(words, loc="left", color="#444444")


def _label(axes: Axes, ends: list[tuple[str, str, float, float]]) -> None:
    """Write each curve's name right of the axes, moved apart where they would overlap."""
    known = [end for end in ends if np.isfinite(end[3])]
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((x, y))[1]) for _, _, x, y in known]
    places = style.spaced(heights, _LABEL_GAP, _LABEL_GAP / 2, 1 - _LABEL_GAP / 2)
    for (name, colour, x, y), height in zip(known, places, strict=True):
        axes.annotate(
            name, (x, y), (1.04, height), textcoords="axes fraction", color=colour, va="center",
            fontsize=9, weight="bold" if name == "exact" else "normal", annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": colour, "lw": 0.7, "shrinkA": 1, "shrinkB": 3,
                "relpos": (0.0, 0.5),
            },
        )  # fmt: skip


def steps_caption(data: EpsilonAgainstSteps, unsound: Collection[str]) -> str:
    """Say whether the exact value and the bounds level off, and how far apart they end.

    ``unsound`` bounds are never called the tightest, nor are those refuted at another step.
    """
    steps, exact, bounds = _arrays(data)
    if not np.isfinite(exact[-1, 0]):
        return "The exact value is infinite."
    end = f"{bracket(data.exact[-1].bracket, 4)} at T = {plain(int(steps[-1]))}"
    how, first = _ending(steps, exact[:, 0])
    parts = [f"The exact value {how.value[1].format(first=plain(int(first)))}: {end}."]
    wrong = sorted(name for name, v in bounds.items() if np.any(v < exact[:, 0]))
    standing = {
        name: float(v[-1])
        for name, v in bounds.items()
        if np.isfinite(v[-1]) and name not in {*wrong, *unsound}
    }
    if standing:
        name = min(standing, key=lambda key: (standing[key], key))
        times = ratio(standing[name] / exact[-1, 0]) if exact[-1, 0] > 0 else MISSING
        parts.append(
            f"The tightest claim that stands there is {name} with "
            f"{number(standing[name], 4, Rounding.UP)}, {times} times the exact value of this pair."
        )
    if wrong:
        parts.append(f"Below the exact curve somewhere, hence refuted there: {', '.join(wrong)}.")
    ends = {name: _ending(steps, bounds[name])[0] for name in sorted(standing)}
    for how in _End:
        if names := [name for name in ends if ends[name] is how]:
            parts.append(f"{how.value[0]}: {', '.join(names)}.")
    if data.burn_in is not None:
        burn_in = data.burn_in
        parts.append(f"The burn-in time of {burn_in.theorem} is {plain(burn_in.steps)} steps.")
    return " ".join(parts)


class _End(enum.Enum):
    """How a curve ends: the words for some bounds, and those for the exact value."""

    LEVEL = "Levelled off", "levels off: from T = {first} on it is within 5% of its last value"
    GROWS = "Still growing", "still grows at the last step shown"
    FALLS = "Still falling", "still falls at the last step shown"
    NEAR = "Near its last value", "is within 5% of its last value from T = {first} on"


def _ending(steps: Array, values: Array) -> tuple[_End, float]:
    """Return how a curve ends, and from which step on it is within 5% of its last value."""
    low, high = np.minimum(values, values[-1]), np.maximum(values, values[-1])
    far = np.flatnonzero(~(high <= _LEVEL_RATIO * low))
    first, moves = float(steps[far[-1] + 1 if far.size else 0]), np.diff(values)
    if first <= steps[-1] / 2:
        return _End.LEVEL, first
    if not far.size or not abs(moves[-1]) > 0:
        return _End.NEAR, first
    return _End.GROWS if moves[-1] > 0 else _End.FALLS, first


_CORNER_SHARE = 0.15  # a curve that comes this near the corner is drawn on logarithmic axes
_MIN_VALUE = 1e-300
_SHOWN_ALPHA = 0.05
# tolerated excess of a claimed curve over the exact one: less where both are small
_EXCESS, _EXCESS_SHARE, _ROUNDING = 1e-6, 1e-3, 1e-12


def draw_tradeoff(
    curves: TradeoffCurves, stem: str, looks: dict[str, Look], unsound: Collection[str]
) -> Picture:
    """Draw the exact curve between what samples certify and what is claimed."""
    alpha, exact, upper = (
        np.array(values) for values in (curves.alpha, curves.exact, curves.sampled_upper)
    )
    bounds = _bounds(curves)
    logarithmic = float(np.min(alpha + exact)) < _CORNER_SHARE
    floor = _floor(alpha, exact) if logarithmic else 0.0

    def on(figure: Figure) -> None:
        axes = figure.add_subplot()
        lower = np.max(list(bounds.values()), axis=0) if bounds else np.zeros_like(alpha)
        axes.fill_between(
            alpha, np.clip(lower, floor, upper), upper, color="#DCEAF5", lw=0,
            label="left open by both sides",
        )  # fmt: skip
        if logarithmic:
            style.logarithmic(axes, "xy")
            axes.set_xlim(float(alpha[alpha > 0].min()), 1)
            axes.set_ylim(floor, 3)
        else:
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
        axes.plot(alpha, 1 - alpha, color=style.QUIET, lw=1, label="nothing leaks")
        axes.plot(
            alpha, upper, color=style.SAMPLED, marker="v", markevery=_every(alpha, 0, 12), ms=5,
            label="at most, say the samples",
        )  # fmt: skip
        axes.plot(alpha, exact, color=style.EXACT, lw=2.4, label="exact value of the pair")
        for i, (name, beta) in enumerate(bounds.items()):
            look = looks[name]
            below = logarithmic and not np.any(beta > floor)
            look.plot(
                axes,
                alpha,
                np.where(beta > 0, beta, _MIN_VALUE if logarithmic else 0),
                label=f"claimed: {name}" + (" (off the axis)" if below else ""),
                markevery=_every(alpha, i + 1, 9),
            )
        axes.set_xlabel("type I error α")
        axes.set_ylabel("least type II error β")

    words = tradeoff_caption(curves, unsound, logarithmic=logarithmic)
    return style.picture(f"{stem}-tradeoff", "The tradeoff function", words, on, 3.3)


def _every(alpha: Array, offset: int, step: int) -> slice:
    return slice(min(2 * offset + 1, len(alpha) - 1), None, max(1, min(step, len(alpha) // 4)))


def _floor(alpha: Array, exact: Array) -> float:
    """Half a decade or so under the exact curve at even odds."""
    middle = float(np.interp(0.5, alpha, np.log10(np.maximum(exact, _MIN_VALUE))))
    return float(max(10 ** (1.15 * np.floor(middle) - 1), _MIN_VALUE))


def tradeoff_caption(curves: TradeoffCurves, unsound: Collection[str], *, logarithmic: bool) -> str:
    """Say what a test at 5% has, is certified to have at most, and is claimed to have at least.

    ``unsound`` bounds are never called the tightest.
    """
    exact, bounds = np.array(curves.exact), _bounds(curves)
    at = int(np.argmin(np.abs(np.array(curves.alpha) - _SHOWN_ALPHA)))
    text = (
        f"At type I error {plain(float(f'{curves.alpha[at]:.2g}'))} the best test misses with "
        f"probability {number(curves.exact[at], 3)}; samples certify at most "
        f"{number(curves.sampled_upper[at], 3, Rounding.UP)}"
    )
    above = {
        name: float(np.max(beta - exact))
        for name, beta in bounds.items()
        if np.any(beta - exact > np.minimum(_EXCESS, _EXCESS_SHARE * exact) + _ROUNDING)
    }
    standing = [float(beta[at]) for name, beta in bounds.items() if name not in {*above, *unsound}]
    if standing:
        least = number(max(standing), 3, Rounding.DOWN) if max(standing) > 0 else "less than 1e-300"
        text += f", and the tightest claim that stands allows {least}"
    parts = [text + "."]
    if above:
        named = ", ".join(f"{name} (by up to {number(gap, 2)})" for name, gap in above.items())
        parts.append(f"Above the exact curve, hence contradicted by the pair: {named}.")
    elif bounds:
        parts.append("No claimed curve rises above the exact one.")
    if logarithmic:
        parts.append("Both axes are logarithmic, since the curves lie close to the corner.")
    return " ".join(parts)

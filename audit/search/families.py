"""Families of pairs, parametrised by the points of a unit cube.

Coordinates come in stages, each of which adds freedom to the previous one: the shared drift and the
start point; then curvature, its centre and the push of the differing record; then free shapes of
all gradients. A point of an earlier stage is a point of the later stages with neutral coordinates
appended. For cyclic batches the drifts of the record's batch, and of the batches next to it, belong
to the first stage.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from audit.constructions import ChangingPair, Construction, GradientPair, Phase, PiecewiseLinear
from audit.constructions.base import both_hold_record, others_range, record_pushes
from audit.constructions.batches import cycle_length, follows_others, record_position
from audit.constructions.gradients import ZERO, refusal
from audit.mechanism import Batching, NoisySGD, Relation
from audit.numerics.arrays import Array

_CELLS = 6  # parts of the domain; the others' gradient has one slope in each
_MAX_DRIFT = 10.0  # drift per step, in standard deviations of its noise
_MAX_KICK = 12.0  # difference of a batch's drift from that of the other batches, likewise
_MIN_KICK = 0.1  # below, kicks are on a linear scale
_KICKS = ("own kick", "kick before", "kick after")
# Cycles that are good where pushes are weak or strong: drift, kick of the record's batch and of the
# one before, in standard deviations of a step's noise, and start in half diameters. The kicks are
# there and back; or all batches drift to a wall, which the record's batch leaves.
_CYCLES = (
    *((d, k, -k, 0.0) for k in (1.0, 2.0, 4.0, 8.0) for d in (0.03, 0.13, 0.5)),
    *((d, -d - k, 0.0, -1.0) for k in (2.0, 8.0) for d in (3.0, 10.0)),
)
_MIN_COORDINATE = 1e-4  # smallest value of a coordinate on a logarithmic scale


def _log_scale(u: float) -> float:
    """Return 0 at 0, then ``_MIN_COORDINATE`` to 1, evenly spaced in the logarithm."""
    return 0.0 if u <= 0 else float(_MIN_COORDINATE ** (1 - u))


def _spread(t: float, end: float, unit: float) -> float:
    """Map [-1, 1] to [-end, end], on a linear scale below ``unit`` and a logarithmic one above."""
    if end <= 0:
        return 0.0
    return math.copysign(min(unit * math.sinh(abs(t) * math.asinh(end / unit)), end), t)


def _gathered(size: float, end: float, unit: float) -> float:
    """Return the inverse of `_spread`, within [-1, 1]."""
    share = math.asinh(abs(size) / unit) / math.asinh(end / unit) if end > 0 else 0.0
    return math.copysign(min(share, 1.0), size)


@dataclass(frozen=True)
class Family:
    """Pairs with one kind of other records; for cyclic batches, with a drift for each batch.

    ``position`` is the batch of the cycle that contains the record. In ``many_dimensions`` the
    domain may cancel a gradient of all records (`audit.constructions.cone`).
    """

    mechanism: NoisySGD
    position: int | None = None
    many_dimensions: bool = False

    @cached_property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Names of the coordinates that each stage adds."""
        m = self.mechanism
        alone = self._alone
        first = [] if alone else ["drift"]
        if m.diameter is not None:
            first.append("start")
            if not alone and self._cycle > 1:
                # kicks of the record's batch and of the batches next to it
                first += _KICKS[: self._cycle]
        if self._leans:
            first.append("lean")
        second = [] if alone else ["curvature", "centre", *(["split"] if not self._leans else [])]
        if m.strong_convexity > 0 or (self._only_sensitivity and both_hold_record(m)):
            second.append("regulariser")
        third = [] if alone or m.diameter is None else [f"slope {k}" for k in range(_CELLS)]
        if m.diameter is not None and m.gradient_sensitivity is None:
            third += ["record tilt", "other tilt"]
        return tuple(first), tuple(second), tuple(third)

    def names(self, stage: int) -> tuple[str, ...]:
        """Return the names of all coordinates up to ``stage``, from 0."""
        return tuple(name for part in self.stages[: stage + 1] for name in part)

    def neutral(self, stage: int) -> Array:
        """Return the coordinates that ``stage`` adds, at the values that change nothing."""
        return np.array([self._neutral(name) for name in self.stages[stage]])

    def _neutral(self, name: str) -> float:
        signed = not self.mechanism.convex and ("curvature" in name or "slope" in name)
        middle = ("drift", "start", "lean", "centre", "split", *_KICKS)
        return 0.5 if signed or name in middle else 0.0

    @cached_property
    def _cycle(self) -> int:
        """Number of batches of a cycle whose other records may differ; 1 for no cycle."""
        return cycle_length(self.mechanism) if self.mechanism.batching is Batching.CYCLIC else 1

    @property
    def has_kicks(self) -> bool:
        """True if batches of a cycle have drifts of their own."""
        return any(name in _KICKS for name in self.names(0))

    def _slope(self, u: dict[str, float], name: str) -> float:
        """Return a share of the steepest slope; non-convex losses may have negative curvature."""
        t = u.get(name, self._neutral(name))
        if self.mechanism.convex:
            return _log_scale(t)
        return math.copysign(_log_scale(abs(2 * t - 1)), 2 * t - 1)

    @property
    def _alone(self) -> bool:
        """True if no other record moves the iterate: there is none, or processes refuse it."""
        m = self.mechanism
        refused = m.batching.cuts and not both_hold_record(m)
        return m.dataset_size == 1 or refused or not follows_others(m)

    @property
    def _leans(self) -> bool:
        """True if the others may pull as one of the record's two gradients does, without a drift.

        It matters where batches are random, and a bounded domain or a bound on gradients would
        stop it: a gradient that is common to all must be free, or cancelled.
        """
        m = self.mechanism
        random = m.batching.is_random and not m.batching.has_random_size
        fits = m.relation is Relation.REPLACE_ONE and random and not self._alone
        return fits and (
            self._only_sensitivity or (self.many_dimensions and m.diameter is not None)
        )

    @property
    def _cancels(self) -> bool:
        return self._leans and not self._only_sensitivity

    @property
    def _only_sensitivity(self) -> bool:
        return self.mechanism.gradient_bound is None

    @cached_property
    def _eta(self) -> float:
        return float(np.max(self.mechanism.step_sizes))

    @cached_property
    def _half(self) -> float:
        """Half the width of the relevant region."""
        m = self.mechanism
        if m.diameter is not None:
            return m.diameter / 2
        spread = self._eta * m.noise_std * math.sqrt(m.steps)
        return 3 * spread + m.steps * self._eta * m.sensitivity * m.sampling_rate

    @cached_property
    def _drifts(self) -> tuple[float, float]:
        """Range of the gradients of all other records that are worth trying."""
        low, high = others_range(self.mechanism)
        m = self.mechanism
        most = _MAX_DRIFT * m.noise_std
        if self._leans:  # the drift may make up for a batch with the record
            most = max(most, m.sensitivity / m.batch_size + 2 * self._half / self._eta)
        return max(-high, -most), min(-low, most)

    @cached_property
    def _steepest(self) -> float:
        """Return the largest curvature worth trying: beyond 1/eta an update overshoots."""
        m = self.mechanism
        steepest = 1 / self._eta if m.smoothness is None else min(m.smoothness, 2 / self._eta)
        if m.holder is None:
            return steepest
        constant, order = m.holder  # the slope of a line over the whole region is limited
        return min(steepest, constant * math.pow(2 * self._half, order - 1))

    def _drift(self, u: float) -> float:
        """Map [0, 1] to the allowed gradients, with a fine resolution near zero."""
        low, high = self._drifts
        return _spread(2 * u - 1, high if u > 0.5 else -low, self._unit)

    def locate(self, gradient: float, start: float, lean: float = 0.0) -> Array:
        """Return the point of the first stage with this gradient of the others, start and lean."""
        low, high = self._drifts
        known = {
            "drift": (1 + _gathered(gradient, high if gradient > 0 else -low, self._unit)) / 2,
            "start": (1 + start / self._half) / 2,
            "lean": (1 + lean) / 2,
        }
        return np.clip([known.get(name, self._neutral(name)) for name in self.names(0)], 0, 1)

    @property
    def _unit(self) -> float:
        """The gradient that moves a step by s^2/D."""
        return self._eta * self.mechanism.noise_std**2 / (2 * self._half)

    def pair(self, point: Array, stage: int) -> Construction:
        """Return the pair at a point of the unit cube of ``stage``."""
        u = dict(zip(self.names(stage), np.clip(point, 0, 1).tolist(), strict=True))
        m = self.mechanism
        centre = (2 * u.get("centre", 0.5) - 1) * self._half
        floor, regulariser = self._regulariser(u)
        record, record_prime, shift = self._records(u, floor)
        start = (2 * u.get("start", 0.5) - 1) * self._half if m.diameter is not None else 0.0

        def others(kick: float) -> PiecewiseLinear:
            return self._others(u, centre, floor, shift, kick)

        kicks = [_spread(2 * u[name] - 1, *self._kicks) for name in _KICKS if name in u]
        kicked = any(kicks)
        return GradientPair(
            m,
            others=ZERO if kicked else others(0.0),
            record=record,
            record_prime=record_prime,
            shared=regulariser,
            start=start,
            position=self.position,
            others_by_batch=self._by_batch(kicks, others) if kicked else (),
            cancelled=-shift if self._cancels else 0.0,
        )

    @cached_property
    def _kicks(self) -> tuple[float, float]:
        """Largest kick that is worth trying, and the scale below which kicks are linear."""
        low, high = self._drifts
        noise = self.mechanism.noise_std
        return min(_MAX_KICK * noise, high - low), _MIN_KICK * noise

    def _by_batch(
        self, kicks: list[float], others: Callable[[float], PiecewiseLinear]
    ) -> tuple[tuple[int, PiecewiseLinear], ...]:
        """Return the others' gradients over a cycle, with numbers of batches."""
        record = record_position(self.mechanism, self.position)
        lines = [others(0.0)] * self._cycle
        for kick, at in zip(kicks, (record, record - 1, record + 1), strict=False):
            lines[at % self._cycle] = others(kick)
        return tuple((len(list(same)), line) for line, same in itertools.groupby(lines))

    def corners(self) -> Array:
        """Return initial points of the first stage.

        The ends and the middle of each coordinate, as optima are often at an end: the strongest
        drift, a start at the wall. The batches of a cycle are alike there. Where they may differ,
        there are also cycles with a strong push before the record's batch and back in it, and a
        push to a wall that the record's batch leaves.
        """
        names = self.names(0)
        plain = [name for name in names if name not in _KICKS]
        points = [
            [at.get(name, 0.5) for name in names]
            for values in itertools.product((0.0, 0.5, 1.0), repeat=len(plain))
            for at in [dict(zip(plain, values, strict=True))]
        ]
        if not self.has_kicks:
            return np.array(points)
        signs = (1.0,) if self.mechanism.relation is Relation.REPLACE_ONE else (1.0, -1.0)
        noise = self.mechanism.noise_std
        for sign, shape in itertools.product(signs, _CYCLES):
            drift, own, before, start = (sign * value for value in shape)
            known = {"own kick": own * noise, "kick before": before * noise}
            kicks = {name: (1 + _gathered(size, *self._kicks)) / 2 for name, size in known.items()}
            base = dict(zip(names, self.locate(drift * noise, start * self._half), strict=True))
            points.append([{**base, **kicks}[name] for name in names])
        # what is beyond the largest drift or kick may come to the same
        return np.array(list(dict.fromkeys(map(tuple, points))))

    def _regulariser(self, u: dict[str, float]) -> tuple[float, PiecewiseLinear]:
        least = self.mechanism.strong_convexity
        most = self._steepest
        if "regulariser" not in u and least == 0:
            return 0.0, ZERO
        slope = least + (most - least) * _log_scale(u.get("regulariser", 0.0))
        return slope, PiecewiseLinear.linear(slope)

    def _others(
        self,
        u: dict[str, float],
        centre: float,
        floor: float,
        shift: float,
        kick: float,
    ) -> PiecewiseLinear:
        if self._alone:
            return ZERO
        cancelled = -shift if self._cancels else 0.0
        low, high = (-end for end in reversed(others_range(self.mechanism, shift, cancelled)))
        constant = min(max(self._drift(u.get("drift", 0.5)) + kick, low), high)
        room = self._steepest - floor
        slope = room * self._slope(u, "curvature")
        more = [room * self._slope(u, f"slope {k}") for k in range(_CELLS)]
        if not any(more):
            reach = slope * np.array([-self._half - centre, self._half - centre]) + constant
            inside = low <= min(reach) and max(reach) <= high
            if slope == 0 or (inside and (self.mechanism.diameter or math.isinf(high - low))):
                return PiecewiseLinear((centre,), (constant,), (slope, slope))
        slopes = [slope + extra for extra in more]
        edges = np.linspace(-self._half, self._half, _CELLS + 1)
        steps = np.clip(slopes, -room, room) * np.diff(edges)
        values = np.concatenate([[0.0], np.cumsum(steps)])
        values += constant - np.interp(centre, edges, values)
        return _capped(edges, values, low, high)

    def _records(
        self, u: dict[str, float], floor: float
    ) -> tuple[PiecewiseLinear, PiecewiseLinear, float]:
        """Return the gradients of the differing record, and the shift of both."""
        m = self.mechanism
        push, push_prime = record_pushes(m)
        bound = m.gradient_bound
        slack = math.inf if bound is None else bound - max(abs(push), abs(push_prime))
        shift = 0.0
        if "lean" in u:
            lean = 2 * u["lean"] - 1
            shift = lean * m.sensitivity / 2 + abs(lean) * self._drift(u.get("drift", 0.5))
        elif m.relation is Relation.REPLACE_ONE and slack > 0:
            widest = min(slack, m.sensitivity / 2)
            shift = (2 * u.get("split", 0.5) - 1) * widest
        first, second = -push + shift, -push_prime + shift
        room = self._steepest - floor
        record = self._tilted(first, room * _log_scale(u.get("record tilt", 0.0)), up=True)
        if m.relation is not Relation.REPLACE_ONE:
            return record, ZERO, shift
        tilt = room * _log_scale(u.get("other tilt", 0.0))
        return record, self._tilted(second, tilt, up=False), shift

    def _tilted(self, value: float, slope: float, *, up: bool) -> PiecewiseLinear:
        """Return an increasing line with ``value`` at the left end (``up``) or at the right end.

        Either brings the two gradients of the record closer to each other, never farther apart.
        """
        if slope == 0:
            return PiecewiseLinear.constant(value)
        edges = np.array([-self._half, self._half])
        reach = min(slope * 2 * self._half, abs(value) or math.inf)
        width = reach / slope
        if up:
            points, values = (edges[0], edges[0] + width), (value, value + reach)
        else:
            points, values = (edges[1] - width, edges[1]), (value - reach, value)
        return PiecewiseLinear(tuple(points), values, (0.0, 0.0))


def _capped(edges: Array, values: Array, low: float, high: float) -> PiecewiseLinear:
    """Return the line through the points, clipped to ``low`` and ``high``."""
    points, kept = list(edges), list(values)
    for a, b, left, right in zip(edges[:-1], edges[1:], values[:-1], values[1:], strict=True):
        for end in (low, high):
            if math.isfinite(end) and min(left, right) < end < max(left, right):
                points.append(a + (b - a) * (end - left) / (right - left))
                kept.append(end)
    order = np.argsort(points, kind="stable")
    x, y = np.array(points)[order], np.clip(np.array(kept)[order], low, high)
    # kinks closer together than this are one kink
    keep = np.concatenate([[True], np.diff(x) > 1e-9 * (edges[-1] - edges[0])])
    return PiecewiseLinear(tuple(x[keep].tolist()), tuple(y[keep].tolist()), (0.0, 0.0))


def families(mechanism: NoisySGD, *, many_dimensions: bool = False) -> Iterator[Family]:
    """Yield the families of a mechanism: one for each batch that may contain the record.

    For a long cycle: the last batch, the first one and a few between.
    """
    if mechanism.batching is not Batching.CYCLIC:
        yield Family(mechanism, many_dimensions=many_dimensions)
        return
    length = cycle_length(mechanism)
    last = (mechanism.steps - 1) % length
    back = [0, 1, 3, length // 3, length // 2, length - 1]
    for steps in dict.fromkeys(b for b in back if b < min(length, mechanism.steps)):
        yield Family(mechanism, (last - steps) % length)


@dataclass(frozen=True)
class ChangingFamily(Family):
    """Pairs of linear losses whose common drift changes at a few fixed times.

    The first stage adds a trend to the drift and the start: the difference of the last phase's
    drift from the first one's, on the scale of the drift. The second stage adds one coordinate for
    each later phase, the difference of its drift from the trend.
    """

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of steps of each phase; on an unbounded domain, times are shares of the run."""
        m = self.mechanism
        steps = m.steps
        crossing = steps if m.diameter is None else (m.diameter / (self._eta * m.noise_std)) ** 2
        marks = {round(share * crossing) for share in ChangingPair.TIMES} | {1}
        ends = sorted({0, steps, *(mark for mark in marks if 0 < mark < steps)}, reverse=True)
        return tuple(a - b for a, b in itertools.pairwise(ends))

    @cached_property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Names of the coordinates that each stage adds."""
        first = tuple(name for name in super().stages[0] if name not in _KICKS)
        later = range(1, len(self.lengths))
        if "drift" not in first or not later:
            return first, (), ()
        return (*first, "trend"), tuple(f"change {k}" for k in later), ()

    @property
    def _leans(self) -> bool:
        return False

    def _neutral(self, name: str) -> float:
        return 0.5 if name == "trend" or name.startswith("change") else super()._neutral(name)

    def pair(self, point: Array, stage: int) -> Construction:
        """Return the pair at a point of the unit cube of ``stage``."""
        u = dict(zip(self.names(stage), np.clip(point, 0, 1).tolist(), strict=True))
        base = super().pair(point, stage)
        assert isinstance(base, GradientPair)
        if "trend" not in u:
            return base
        phases = []
        for k, length in enumerate(self.lengths):
            trend = (2 * u["trend"] - 1) * k / (len(self.lengths) - 1)
            drift = u["drift"] + trend + 2 * u.get(f"change {k}", 0.5) - 1
            moved = {"drift": min(max(drift, 0.0), 1.0)}
            others = self._others(moved, 0.0, 0.0, 0.0, 0.0)
            phases.append(Phase(length, others, base.record, base.record_prime))
        return ChangingPair(
            self.mechanism, tuple(phases), base.shared, base.start, position=base.position
        )


def all_families(mechanism: NoisySGD, *, many_dimensions: bool = False) -> Iterator[Family]:
    """Yield the families of a mechanism, with losses that change if the mechanism allows them.

    For cyclic batches they change in the last batch's family only, beside the fixed ones.
    """
    found = list(families(mechanism, many_dimensions=many_dimensions))
    if refusal(mechanism) is None:
        changing = ChangingFamily(mechanism, found[0].position)
        found = [changing, *found] if mechanism.batching is Batching.CYCLIC else [changing]
    yield from found

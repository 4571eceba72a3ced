"""The general pair in one dimension: losses with piecewise linear gradients."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.constructions.base import Inadmissible
from audit.constructions.batches import (
    SAMPLERS,
    cycle_length,
    last_position,
    random_position,
    random_start,
)
from audit.constructions.cone import check_cancelled
from audit.constructions.gradient_limits import (
    SLACK,
    both_hold_record,
    check_holder,
    check_removable,
    random_curvature,
    random_others,
    record_pushes,
)
from audit.constructions.positioned import PositionedPair
from audit.constructions.registry import construction
from audit.constructions.sampling import BatchUpdate
from audit.constructions.updates import PiecewiseLinear, UpdateMap, gradient_step
from audit.mechanism import Batching, Choice, NoisySGD, Relation

ZERO = PiecewiseLinear.constant(0.0)


def _random_others(mechanism: NoisySGD, rng: np.random.Generator) -> PiecewiseLinear:
    """Return a random constant, or a line that attracts or repels up to a random gradient."""
    most = -random_others(mechanism, rng)
    slope = random_curvature(mechanism, rng) - mechanism.strong_convexity
    if rng.random() < 0.4 or not most or not slope:
        return PiecewiseLinear.constant(most)
    centre, half, end = random_start(mechanism, rng), abs(most / slope), math.copysign(most, slope)
    return PiecewiseLinear((centre - half, centre + half), (-end, end), (0.0, 0.0))


def _random_record(mechanism: NoisySGD, rng: np.random.Generator) -> PiecewiseLinear:
    """Return the farthest constant, or a line that starts there and falls behind the other side."""
    push = -record_pushes(mechanism)[0]
    slope = abs(random_curvature(mechanism, rng)) - mechanism.strong_convexity
    if rng.random() < 0.6 or mechanism.diameter is None or slope <= 0:
        return PiecewiseLinear.constant(push)
    low = -mechanism.diameter / 2
    return PiecewiseLinear((low, low - push / slope), (push, 0.0), (0.0, 0.0))


def _random_record_prime(mechanism: NoisySGD, rng: np.random.Generator) -> PiecewiseLinear:
    return PiecewiseLinear.constant(-record_pushes(mechanism)[1])


def _random_shared(mechanism: NoisySGD, rng: np.random.Generator) -> PiecewiseLinear:
    return PiecewiseLinear.linear(mechanism.strong_convexity)


@construction
@dataclass(frozen=True)
class GradientPair(PositionedPair):
    """Losses with piecewise linear gradients, the same for all other records.

    Every other record has the gradient ``shared + others``; the differing record has ``shared +
    record`` in X and ``shared + record_prime`` in X'. Every other construction with exchangeable
    records is a special case or a limit.

    The slopes of ``shared`` plus any other term lie between the strong convexity and the smoothness
    (from minus the smoothness if losses need not be convex). In batches of random size the other
    terms alone are convex, too. All conditions are checked on the domain.

    Parameters
    ----------
    others, record, record_prime : PiecewiseLinear, optional
        Gradients of the records' own losses, bounded by the Lipschitz constant. Those of the
        differing record differ by at most the sensitivity; ``record_prime`` is zero for
        ``ZERO_OUT`` and ``ADD_REMOVE``.
    shared : PiecewiseLinear, optional
        Gradient of a regulariser of all records, which zeroing out a record keeps. Batches of
        random size have it once, not once per record: it must not tell who is in the batch.
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.
    others_after : PiecewiseLinear, optional
        For cyclic batches, the gradient of other records in batches after the record's; defaults to
        ``others``.
    others_by_batch : tuple of (int, PiecewiseLinear), optional
        For cyclic batches, instead of ``others`` and ``others_after``: gradients of the other
        records, each with the number of consecutive batches that it holds for, in the order of the
        cycle.
    cancelled : float, default: 0.0
        Gradient that every record has in addition, and that the domain cancels: the processes are
        those of the pair in many dimensions, as their number grows, with a narrow cone as the
        domain (`audit.constructions.cone`). Only for ``REPLACE_ONE``, a bounded domain and batches
        of fixed size.

    Raises
    ------
    ValueError
        If a parameter is out of range, or breaks an assumption of the mechanism (`Inadmissible`).
    """

    others: PiecewiseLinear = field(default=ZERO, metadata={"draw": _random_others})
    record: PiecewiseLinear = field(default=ZERO, metadata={"draw": _random_record})
    record_prime: PiecewiseLinear = field(default=ZERO, metadata={"draw": _random_record_prime})
    shared: PiecewiseLinear = field(default=ZERO, metadata={"draw": _random_shared})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})
    others_after: PiecewiseLinear | None = None
    others_by_batch: tuple[tuple[int, PiecewiseLinear], ...] = ()
    cancelled: float = 0.0

    citation: ClassVar[str] = "this package; losses with piecewise linear gradients"
    covers: ClassVar[tuple[Choice, ...]] = (*SAMPLERS, Relation.ADD_REMOVE)
    unsuggested: ClassVar[str] = "its strong special cases are constructions of their own"

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield nothing; `audit.search` looks for members."""
        yield from ()

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.finite(cancelled=self.cancelled)
        if self.cancelled:
            check_cancelled(self.name, self.mechanism)
        check_gradients(self)

    def _records(self) -> tuple[PiecewiseLinear, PiecewiseLinear]:
        return self.record, self.record_prime

    def _updates(self, record: PiecewiseLinear) -> tuple[BatchUpdate, ...]:
        runs = self.others_by_batch or ((1, self.others),)
        if self.others_after is not None:
            m = self.mechanism
            before = 1 + (last_position(m) if self.position is None else self.position)
            runs = (before, self.others), (cycle_length(m) - before, self.others_after)
        return tuple(update for n, others in runs for update in [self._moved(record, others)] * n)

    def _moved(self, record: PiecewiseLinear, others: PiecewiseLinear) -> BatchUpdate:
        b = self.mechanism.batch_size

        @functools.cache  # batches of a cycle are much the same
        def update(eta: float, holds_record: bool, count: int) -> UpdateMap:
            lines = [(-eta, self.shared)]  # once a step, for batches of any size
            if count:
                lines.append((-eta * count / b, others))
            if holds_record:
                lines.append((-eta / b, record))
            return gradient_step(lines)

        return update


def check_gradients(pair: GradientPair) -> None:
    """Raise `Inadmissible` unless the losses satisfy every assumption of the mechanism."""
    m = pair.mechanism
    low, high = (-math.inf, math.inf) if m.diameter is None else (-m.diameter / 2, m.diameter / 2)
    own = {"record": pair.record, "record_prime": pair.record_prime}
    if m.dataset_size > 1:
        if not pair.others_by_batch:
            own["others"] = pair.others
        if pair.others_after is not None:
            own["others_after"] = pair.others_after
        own |= {f"others_by_batch[{i}]": line for i, (_, line) in enumerate(pair.others_by_batch)}
    elif pair.others != ZERO:
        raise Inadmissible(f"{pair.name} needs others to be zero if dataset_size=1")
    _check_cycle(pair)
    check_removable(pair.name, m, pair.shared != ZERO)
    if m.relation is not Relation.REPLACE_ONE and pair.record_prime != ZERO:
        raise Inadmissible(
            f"{pair.name} needs record_prime to be zero for relation={m.relation.value!r}"
        )
    _check_slopes(pair, own, low, high)
    shared = (1.0, pair.shared)
    check_holder(
        pair.name, m, *(PiecewiseLinear.total([shared, (1.0, line)]) for line in own.values())
    )
    _check_own_slopes(pair, own, low, high)
    _check_bounds(pair, own, low, high)
    _check_sensitivity(pair, own, low, high)


def _check_cycle(pair: GradientPair) -> None:
    """Check what is given for the batches of a cycle."""
    m = pair.mechanism
    given = [name for name in ("others_after", "others_by_batch") if getattr(pair, name)]
    for name in given:
        if m.batching is not Batching.CYCLIC:
            raise Inadmissible(
                f"{pair.name} needs batching='cyclic' if {name} is given, "
                f"got batching={m.batching.value!r}"
            )
        if not both_hold_record(m):
            raise Inadmissible(
                f"{pair.name} needs both datasets to hold the record if {name} is given, "
                f"got relation={m.relation.value!r}"
            )
    if "others_by_batch" not in given:
        return
    if pair.others != ZERO or pair.others_after is not None:
        raise ValueError("others and others_after must not be given beside others_by_batch")
    counts = [count for count, _ in pair.others_by_batch]
    validate.integer(1, **{f"others_by_batch[{i}][0]": count for i, count in enumerate(counts)})
    if sum(counts) != cycle_length(m):
        raise ValueError(
            f"others_by_batch must be for the {cycle_length(m)} batches of a cycle, "
            f"got {sum(counts)}"
        )


def _check_slopes(
    pair: GradientPair, own: dict[str, PiecewiseLinear], low: float, high: float
) -> None:
    m = pair.mechanism
    most = math.inf if m.smoothness is None else m.smoothness
    least = m.strong_convexity if m.convex else -most
    allowed = least - (SLACK - 1) * abs(least), most * SLACK
    zeroed = m.relation is not Relation.REPLACE_ONE
    for name, line in own.items():
        if zeroed and name == "record_prime":
            continue  # only the regulariser of that record remains
        total = PiecewiseLinear.total([(1.0, pair.shared), (1.0, line)])
        slopes = _certain_slopes(total, low, high)
        if not (allowed[0] <= slopes[0] and slopes[1] <= allowed[1]):
            raise Inadmissible(
                f"{pair.name} needs slopes of shared + {name} in [{least:g}, {most:g}], which "
                "convexity and smoothness allow, "
                f"got [{slopes[0]:.6g}, {slopes[1]:.6g}]"
            )


def _check_own_slopes(
    pair: GradientPair, own: dict[str, PiecewiseLinear], low: float, high: float
) -> None:
    """Check that losses and regulariser are convex where the latter enters a step only once."""
    if not pair.mechanism.convex or not pair.mechanism.batching.has_random_size:
        return
    most = max(abs(slope) for slope in _certain_slopes(pair.shared, low, high))
    for name, line in {**own, "shared": pair.shared}.items():
        least = _certain_slopes(line, low, high)[0]
        if least < -(SLACK - 1) * most:
            raise Inadmissible(
                f"{pair.name} needs slopes of {name} of at least 0, because batches of random size "
                f"have the regulariser once only, got {least:.6g}"
            )


def _certain_slopes(line: PiecewiseLinear, low: float, high: float) -> tuple[float, float]:
    """Return `slope_range` without what the rounding of values may add to the slope of a piece."""
    rounding = 2.0**-50 * max(abs(v) for v in line.values)
    falling: list[float] = []
    rising: list[float] = []
    for (a, value), (b, after) in itertools.pairwise(zip(line.points, line.values, strict=True)):
        if a < high and b > low:
            falling.append((after - value + rounding) / (b - a))
            rising.append((after - value - rounding) / (b - a))
    for slope, met in zip(line.slopes, (line.points[0] > low, line.points[-1] < high), strict=True):
        if met:
            falling.append(slope)
            rising.append(slope)
    return min(falling), max(rising)


def _check_bounds(
    pair: GradientPair, own: dict[str, PiecewiseLinear], low: float, high: float
) -> None:
    bound = pair.mechanism.gradient_bound
    if bound is None:
        return
    if pair.mechanism.clip_norm is not None and pair.shared != ZERO:
        raise Inadmissible(f"{pair.name} needs shared to be zero if gradients are clipped")
    # a regulariser is assumed, and not counted, only for strongly convex losses
    counted = [pair.mechanism.strong_convexity == 0 and pair.shared != ZERO]
    if counted[0] and pair.mechanism.batching.has_random_size:
        counted.append(False)  # a record in the batch adds its own loss alone
    for (name, line), whole in itertools.product(own.items(), counted):
        total = PiecewiseLinear.total([(1.0, line), (float(whole), pair.shared)])
        least, most = (end + pair.cancelled for end in total.value_range(low, high))
        if max(-least, most) > bound * SLACK:
            plus = "shared + " * whole + "cancelled + " * bool(pair.cancelled)
            raise Inadmissible(
                f"{pair.name} needs {plus}{name} in "
                f"[{-bound:g}, {bound:g}], the Lipschitz constant, got [{least:.6g}, {most:.6g}]"
            )


def _check_sensitivity(
    pair: GradientPair, own: dict[str, PiecewiseLinear], low: float, high: float
) -> None:
    m = pair.mechanism
    compared = [("record", "record_prime")]
    if m.gradient_sensitivity is not None:
        # of any two records of the family (Bok, Su and Altschuler 2024, Definition 2.10)
        others = [name for name in own if name.startswith("others")]
        distinct = list({own[name]: name for name in others}.values())
        compared += [(a, b) for a in ("record", "record_prime") for b in distinct]
        compared += itertools.combinations(distinct, 2)
    for a, b in compared:
        least, most = PiecewiseLinear.total([(1.0, own[a]), (-1.0, own[b])]).value_range(low, high)
        if max(-least, most) > m.sensitivity * SLACK:
            raise Inadmissible(
                f"{pair.name} needs {a} and {b} to differ by at most {m.sensitivity:g}, the "
                f"sensitivity, got {max(-least, most):.6g}"
            )

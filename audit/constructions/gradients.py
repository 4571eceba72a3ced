"""The general pair in one dimension: any losses with piecewise linear gradients."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

from audit.constructions.base import Construction, Inadmissible, checked_start
from audit.constructions.batches import (
    SAMPLERS,
    batched_process,
    check_position,
    cycle_length,
    cyclic_process,
    last_position,
)
from audit.constructions.gradient_limits import SLACK, both_hold_record, check_removable
from audit.constructions.process import Process
from audit.constructions.registry import construction
from audit.constructions.sampling import BatchUpdate
from audit.constructions.updates import PiecewiseLinear, UpdateMap, gradient_step
from audit.mechanism import Batching, Choice, Relation

ZERO = PiecewiseLinear.constant(0.0)


@construction
@dataclass(frozen=True)
class GradientPair(Construction):
    """Two datasets of losses with piecewise linear gradients, one shape for all other records.

    Record i has the gradient ``shared + others`` (what another record adds), and the differing
    record ``shared + record`` in X and ``shared + record_prime`` in X'. Every other construction
    for exchangeable records is one of these or a limit of them.

    Slopes of ``shared`` plus any of the others lie between the strong convexity and the smoothness
    (down to minus the smoothness for losses that need not be convex). All is checked on the domain.

    Parameters
    ----------
    others, record, record_prime : PiecewiseLinear, optional
        Gradients of the records' own losses. Bounded by the Lipschitz constant; the two of the
        differing record differ by at most the sensitivity, and ``record_prime`` is zero for
        ``ZERO_OUT`` and ``ADD_REMOVE``.
    shared : PiecewiseLinear, optional
        The gradient of a regulariser that all records have, also where a record is zeroed out.
    start : float, default: 0.0
        The common start point.
    position : int, optional
        The batch of the cycle that holds the record, for cyclic batches.
    others_after : PiecewiseLinear, optional
        For cyclic batches, what the other records add in batches of the cycle after the record's,
        where that differs from ``others``.
    """

    others: PiecewiseLinear = ZERO
    record: PiecewiseLinear = ZERO
    record_prime: PiecewiseLinear = ZERO
    shared: PiecewiseLinear = ZERO
    start: float = 0.0
    position: int | None = None
    others_after: PiecewiseLinear | None = None

    citation: ClassVar[str] = "this package; losses with piecewise linear gradients"
    covers: ClassVar[tuple[Choice, ...]] = (*SAMPLERS, Relation.ADD_REMOVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gradients(self)
        checked_start(self.mechanism, self.start)
        check_position(self.mechanism, self.position)

    def processes(self) -> tuple[Process, Process]:
        """Return the processes of the first and of the second dataset."""
        present = both_hold_record(self.mechanism)
        return self._process(self.record), self._process(self.record_prime, present)

    def _process(self, record: PiecewiseLinear, present: bool = True) -> Process:
        m = self.mechanism
        update = self._update(record, self.others)
        if self.others_after is None:
            return batched_process(m, self.start, update, self.position, present)
        position = last_position(m) if self.position is None else self.position
        after = self._update(record, self.others_after)
        updates = [update if k <= position else after for k in range(cycle_length(m))]
        return cyclic_process(m, self.start, updates, position)

    def _update(self, record: PiecewiseLinear, others: PiecewiseLinear) -> BatchUpdate:
        b = self.mechanism.batch_size

        def update(eta: float, holds_record: bool, count: int) -> UpdateMap:
            lines = [(-eta * (count + holds_record) / b, self.shared)]
            if count:
                lines.append((-eta * count / b, others))
            if holds_record:
                lines.append((-eta / b, record))
            return gradient_step(lines)

        return update


def check_gradients(pair: GradientPair) -> None:
    """Raise `Inadmissible` unless the losses keep every assumption of the mechanism."""
    m = pair.mechanism
    low, high = (-math.inf, math.inf) if m.diameter is None else (-m.diameter / 2, m.diameter / 2)
    own = {"record": pair.record, "record_prime": pair.record_prime}
    if m.dataset_size > 1:
        own["others"] = pair.others
        if pair.others_after is not None:
            own["others_after"] = pair.others_after
    elif pair.others != ZERO:
        raise Inadmissible(f"{pair.name} needs others to be zero where dataset_size=1")
    if pair.others_after is not None and m.batching is not Batching.CYCLIC:
        raise Inadmissible(
            f"{pair.name} needs batching='cyclic' where others_after is given, "
            f"got batching={m.batching.value!r}"
        )
    if pair.others_after is not None and not both_hold_record(m):
        raise Inadmissible(
            f"{pair.name} needs both datasets to hold the record where others_after is given, "
            f"got relation={m.relation.value!r}"
        )
    check_removable(pair.name, m, pair.shared != ZERO)
    if m.relation is not Relation.REPLACE_ONE and pair.record_prime != ZERO:
        raise Inadmissible(
            f"{pair.name} needs record_prime to be zero for relation={m.relation.value!r}"
        )
    _check_slopes(pair, own, low, high)
    _check_bounds(pair, own, low, high)
    _check_sensitivity(pair, own, low, high)


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
            continue  # what is left of that record is the regulariser
        total = PiecewiseLinear.total([(1.0, pair.shared), (1.0, line)])
        slopes, slack = total.slope_range(low, high), _slope_rounding(total)
        if not (allowed[0] - slack <= slopes[0] and slopes[1] <= allowed[1] + slack):
            raise Inadmissible(
                f"{pair.name} needs slopes of shared + {name} in [{least:g}, {most:g}], where the "
                "losses keep their convexity and smoothness, "
                f"got [{slopes[0]:.6g}, {slopes[1]:.6g}]"
            )


def _slope_rounding(line: PiecewiseLinear) -> float:
    """Bound the rounding error of slopes, which are differences of values over differences."""
    gaps = [b - a for a, b in itertools.pairwise(line.points)]
    return 2.0**-50 * max(abs(v) for v in line.values) / min(gaps) if gaps else 0.0


def _check_bounds(
    pair: GradientPair, own: dict[str, PiecewiseLinear], low: float, high: float
) -> None:
    bound = pair.mechanism.gradient_bound
    if bound is None:
        return
    if pair.mechanism.clip_norm is not None and pair.shared != ZERO:
        raise Inadmissible(f"{pair.name} needs shared to be zero where gradients are clipped")
    # a regulariser is assumed, and left out, only where losses are strongly convex
    whole = pair.mechanism.strong_convexity == 0
    for name, line in own.items():
        total = PiecewiseLinear.total([(1.0, line), (float(whole), pair.shared)])
        least, most = total.value_range(low, high)
        if max(-least, most) > bound * SLACK:
            raise Inadmissible(
                f"{pair.name} needs {name} in [{-bound:g}, {bound:g}], the Lipschitz constant, "
                f"got [{least:.6g}, {most:.6g}]"
            )


def _check_sensitivity(
    pair: GradientPair, own: dict[str, PiecewiseLinear], low: float, high: float
) -> None:
    m = pair.mechanism
    compared = [("record", "record_prime")]
    if m.gradient_sensitivity is not None:
        # of any two records of the family (Bok, Su and Altschuler 2024, Definition 2.10)
        others = [name for name in own if name.startswith("others")]
        compared += [(a, b) for a in ("record", "record_prime") for b in others]
    for a, b in compared:
        least, most = PiecewiseLinear.total([(1.0, own[a]), (-1.0, own[b])]).value_range(low, high)
        if max(-least, most) > m.sensitivity * SLACK:
            raise Inadmissible(
                f"{pair.name} needs {a} and {b} to differ by at most {m.sensitivity:g}, the "
                f"sensitivity, got {max(-least, most):.6g}"
            )

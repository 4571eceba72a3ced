"""The general pair in one dimension: losses with piecewise linear gradients, which may change."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions.base import (
    SLACK,
    Construction,
    Inadmissible,
    PositionedPair,
    both_hold_record,
    check_slopes,
    checked_start,
    others_range,
    random_curvature,
    random_others,
    random_position,
    random_start,
    record_pushes,
)
from audit.constructions.batches import (
    BatchUpdate,
    GradientUpdate,
    check_position,
    cycle_length,
    domain,
    record_position,
)
from audit.constructions.cone import check_cancelled
from audit.constructions.process import Path, Process, Segment
from audit.constructions.registry import construction
from audit.constructions.updates import PiecewiseLinear, UpdateMap, gradient_step
from audit.mechanism import Batching, Choice, Losses, NoisySGD, Relation, Release

ZERO = PiecewiseLinear.constant(0.0)
# Drifts of a step in units of s^2/D, from each of the times in `ChangingPair.TIMES` on; found by a
# search at v D/s^2 = 0.1.
_GROWING = (0.4, 1.3, 3.2, 5.4, 7.8, 9.6)
_COVERED = (Batching.FULL, Batching.CYCLIC, Batching.WITHOUT_REPLACEMENT, Batching.POISSON)


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
    unsuggested: ClassVar[str] = "its strong special cases are constructions of their own"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cancelled:
            check_cancelled(self.name, self.mechanism)
        self._check_cycle()
        self._check_removable(self.shared != ZERO)
        self._check_gradients(self._own_gradients())

    def _records(self) -> tuple[PiecewiseLinear, PiecewiseLinear]:
        return self.record, self.record_prime

    def _updates(self, record: PiecewiseLinear) -> tuple[BatchUpdate, ...]:
        runs = self.others_by_batch or ((1, self.others),)
        if self.others_after is not None:
            before = 1 + record_position(self.mechanism, self.position)
            after = cycle_length(self.mechanism) - before
            runs = (before, self.others), (after, self.others_after)
        return tuple(update for n, others in runs for update in [self._moved(record, others)] * n)

    def _moved(self, record: PiecewiseLinear, others: PiecewiseLinear) -> BatchUpdate:
        b = self.mechanism.batch_size

        @functools.cache  # batches of a cycle are much the same
        def update(eta: float, holds_record: bool, count: int) -> UpdateMap:
            lines = [(-eta, self.shared)]  # once a step, for batches of any size
            if count:
                lines.append((-eta * count / b, others))
            own = [(-eta / b, record)] if holds_record else []
            return gradient_step(lines, own, std=eta * self.mechanism.noise_std)

        return GradientUpdate(update, record, others, self.shared)

    def _own_gradients(self) -> dict[str, PiecewiseLinear]:
        """Return the gradients of the records' own losses by name."""
        own = {"record": self.record, "record_prime": self.record_prime}
        if self.mechanism.dataset_size == 1:
            self._require(self.others == ZERO, "others to be zero if dataset_size=1")
            return own
        if not self.others_by_batch:
            own["others"] = self.others
        if self.others_after is not None:
            own["others_after"] = self.others_after
        by_batch = enumerate(self.others_by_batch)
        return own | {f"others_by_batch[{i}]": line for i, (_, line) in by_batch}

    def _check_cycle(self) -> None:
        """Check what is given for the batches of a cycle."""
        m = self.mechanism
        for name in ("others_after", "others_by_batch"):
            if getattr(self, name):
                self._require_choice(m.batching, Batching.CYCLIC, f" if {name} is given")
                self._require(
                    both_hold_record(m),
                    f"both datasets to hold the record if {name} is given",
                    f"relation={m.relation.value!r}",
                )
        if not self.others_by_batch:
            return
        if self.others != ZERO or self.others_after is not None:
            raise ValueError("others and others_after must not be given beside others_by_batch")
        counts = [count for count, _ in self.others_by_batch]
        validate.integer(1, **{f"others_by_batch[{i}][0]": count for i, count in enumerate(counts)})
        if sum(counts) != cycle_length(m):
            raise ValueError(
                f"others_by_batch must be for the {cycle_length(m)} batches of a cycle, "
                f"got {sum(counts)}"
            )

    def _check_gradients(self, own: dict[str, PiecewiseLinear]) -> None:
        """Refuse losses that violate an assumption of the mechanism."""
        m, ends = self.mechanism, domain(self.mechanism)
        replaced = m.relation is Relation.REPLACE_ONE
        wanted = f"record_prime to be zero for relation={m.relation.value!r}"
        self._require(replaced or self.record_prime == ZERO, wanted)
        whole = {
            name: PiecewiseLinear.total([(1.0, self.shared), (1.0, line)])
            for name, line in own.items()
        }
        for name in whole:
            if replaced or name != "record_prime":  # else only that record's regulariser remains
                slopes = _certain_slopes((self.shared, own[name]), *ends)
                got = f"[{slopes[0]:.6g}, {slopes[1]:.6g}]"
                check_slopes(self.name, m, f"slopes of shared + {name}", slopes, got)
        self._check_holder(*whole.values())
        random_size = m.batching.has_random_size
        if random_size or m.relation is Relation.ZERO_OUT:
            # the regulariser once, and any number of records; that of a zeroed one remains
            alone = replace(m, strong_convexity=0.0)
            slack = (SLACK - 1) * max(abs(slope) for slope in self.shared.slope_range(*ends))
            for name, line in {**(own if random_size else {}), "shared": self.shared}.items():
                least, largest = _certain_slopes((line,), *ends)
                slopes, got = (least + slack, largest - slack), f"[{least:.6g}, {largest:.6g}]"
                check_slopes(self.name, alone, f"slopes of {name}", slopes, got)
        self._check_bounds(own, whole)
        self._check_sensitivity(own)

    def _check_bounds(
        self, own: dict[str, PiecewiseLinear], whole: dict[str, PiecewiseLinear]
    ) -> None:
        m, bound, regularised = self.mechanism, self.mechanism.gradient_bound, self.shared != ZERO
        if bound is None:
            return
        unclipped = m.clip_norm is None or not regularised
        self._require(unclipped, "shared to be zero if gradients are clipped")
        # a regulariser is assumed, and not counted, only for strongly convex losses
        counted = regularised and m.strong_convexity == 0
        for name, line in own.items():
            lines = [("shared + ", whole[name])] if counted else [("", line)]
            if counted and m.batching.has_random_size:
                lines.append(("", line))  # a record in the batch adds its own loss alone
            for plus, total in lines:
                values = total.value_range(*domain(m))
                least, most = (end + self.cancelled for end in values)
                self._require(
                    max(-least, most) <= bound * SLACK,
                    f"{plus}{'cancelled + ' * bool(self.cancelled)}{name} in "
                    f"[{-bound:g}, {bound:g}], the Lipschitz constant",
                    f"[{least:.6g}, {most:.6g}]",
                )


def _certain_slopes(
    lines: Sequence[PiecewiseLinear], low: float, high: float
) -> tuple[float, float]:
    """Return `slope_range` of a sum without what rounding of the values may add."""
    ends = [-math.inf, *sorted({x for line in lines for x in line.points}), math.inf]
    met = [
        np.sum([line.slope_of(a, b) for line in lines], axis=0).tolist()
        for a, b in itertools.pairwise(ends)
        if a < high and b > low
    ]
    least, most = (min(s + r for s, r in met), max(s - r for s, r in met))
    return least, most


@dataclass(frozen=True)
class Phase:
    """Losses of consecutive steps, with gradients as in `GradientPair`."""

    steps: int  #: Number of steps, at least 1.
    others: PiecewiseLinear = ZERO  #: Gradient of the other records' losses.
    record: PiecewiseLinear = ZERO  #: Gradient of the differing record's loss in X.
    record_prime: PiecewiseLinear = ZERO  #: Gradient of its loss in X'.

    def __post_init__(self) -> None:
        validate.integer(1, steps=self.steps)


def _random_phases(mechanism: NoisySGD, rng: np.random.Generator) -> tuple[Phase, ...]:
    """Return up to three phases with random drifts."""
    first, second = (PiecewiseLinear.constant(-push) for push in record_pushes(mechanism))
    cuts = sorted(rng.integers(0, mechanism.steps + 1, 2).tolist())
    return tuple(
        Phase(count, PiecewiseLinear.constant(random_others(mechanism, rng)), first, second)
        for count in np.diff([0, *cuts, mechanism.steps]).tolist()
        if count
    )


@construction
@dataclass(frozen=True)
class ChangingPair(Construction):
    """Losses that change over time: a `GradientPair` in each of several phases.

    Both datasets share the losses of all other records in every step. It is a pair of mechanisms
    with ``losses='changing'`` only: with fixed losses a record has one loss for the whole run, so
    this is no lower bound there.

    Parameters
    ----------
    phases : tuple of Phase
        Consecutive phases, whose numbers of steps sum to those of the mechanism.
    shared : PiecewiseLinear, optional
        Gradient of a regulariser of all records in all phases.
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.

    Raises
    ------
    Inadmissible
        If the losses violate an assumption of the mechanism, or the mechanism's losses are fixed;
        the message names it.
    ValueError
        If a parameter is out of range.

    Examples
    --------
    Others that push to the left more and more, and a record that pushes either way:

    >>> import audit
    >>> from audit.constructions import ChangingPair, Phase, PiecewiseLinear
    >>> line = PiecewiseLinear.constant
    >>> m = audit.NoisySGD(steps=40, dataset_size=1000, batch_size=1000, step_size=1.0,
    ...                    noise_std=0.2, lipschitz=2.0, smoothness=1.0, diameter=1.0,
    ...                    losses=audit.Losses.CHANGING)
    >>> left = [Phase(n, line(push), line(-2.0), line(2.0)) for n, push in ((30, 0.05), (10, 0.2))]
    >>> round(audit.exact.curve(ChangingPair(m, tuple(left))).epsilon(1e-5), 4) > 0
    True
    """

    phases: tuple[Phase, ...] = field(default=(), metadata={"draw": _random_phases, **REQUIRED})
    shared: PiecewiseLinear = ZERO
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "this package; losses that change over time"
    covers: ClassVar[tuple[Choice, ...]] = (Losses.CHANGING, Relation.ADD_REMOVE)
    # before the end of the run, when losses change that are suggested or searched for: shares of
    # the time (D/s)^2 in which the noise of a step crosses the domain
    TIMES: ClassVar[tuple[float, ...]] = (0.64, 0.32, 0.16, 0.08, 0.04, 0.02)

    def __post_init__(self) -> None:
        super().__post_init__()
        m = self.mechanism
        reason = refusal(m)
        if reason is not None:
            raise Inadmissible(f"{self.name} {reason}")
        for i, phase in enumerate(self.phases):
            validate.instance(Phase, **{f"phases[{i}]": phase})
        total = sum(phase.steps for phase in self.phases)
        if total != m.steps:
            raise ValueError(f"phases must have {m.steps} steps together, got {total}")
        checked_start(m, self.start)
        check_position(m, self.position)
        list(self._pairs())  # checks the losses of every phase

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield a drift toward the left end of the domain that grows before the end of the run."""
        m = mechanism
        if m.diameter is None or m.dataset_size == 1 or isinstance(m.step_size, tuple):
            return
        low, high = others_range(m)
        share = (m.dataset_size - 1) / m.dataset_size if m.batching is Batching.FULL else 1.0
        unit = m.step_std**2 / m.diameter / (m.step_size * share)
        pushes = [PiecewiseLinear.constant(-push) for push in record_pushes(m)]
        phases, left = [], m.steps
        ends = [round(time * (m.diameter / m.step_std) ** 2) for time in cls.TIMES]
        for end, drift in zip([*ends, 0], (0.0, *_GROWING), strict=True):
            if end < left:
                others = PiecewiseLinear.constant(min(max(drift * unit, -high), -low))
                phases.append(Phase(left - end, others, *pushes))
                left = end
        yield {"phases": tuple(phases), "start": m.diameter / 2}

    def _pairs(self) -> Iterator[GradientPair]:
        """Yield the pair of each phase, of a mechanism with fixed losses and fewer steps."""
        m, start = self.mechanism, 0
        for phase in self.phases:
            position = None
            if m.batching is Batching.CYCLIC:
                holds = record_position(m, self.position)
                position = (holds - start) % cycle_length(m)
            sizes = m.step_size
            if isinstance(sizes, tuple):
                sizes = sizes[start : start + phase.steps]
            yield GradientPair(
                replace(m, steps=phase.steps, step_size=sizes, losses=Losses.FIXED),
                others=phase.others,
                record=phase.record,
                record_prime=phase.record_prime,
                shared=self.shared,
                start=self.start,
                position=position,
            )
            start += phase.steps

    def processes(self) -> tuple[Process, Process]:
        """Return the processes of the first and the second dataset."""
        first, second = map(_joined, zip(*(p.processes() for p in self._pairs()), strict=True))
        return first, second


def refusal(m: NoisySGD) -> str | None:
    """Return why a mechanism has no pair with losses that change; None if it has."""
    if m.losses is not Losses.CHANGING:
        reason = "needs losses='changing', because fixed losses are the same in every step"
        return f"{reason}, got losses={m.losses.value!r}"
    if m.batching not in _COVERED:
        return f"needs another batching, got batching={m.batching.value!r}"
    if m.release is not Release.LAST_ITERATE:
        return f"needs the release of the last iterate, got release={m.release.value!r}"
    return None


def _joined(runs: Sequence[Process]) -> Process:
    """Return the process that takes the steps of each run in turn."""
    segments: tuple[Segment, ...] = ()
    for run in runs:
        [path] = run.paths
        segments += path.segments
    batches = tuple(part for run in runs for part in run.batches)
    return replace(runs[0], paths=(Path(1.0, segments),), batches=batches)

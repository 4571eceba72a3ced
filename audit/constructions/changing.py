"""Pairs whose losses change over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from audit import validate
from audit.codec.hints import REQUIRED
from audit.constructions.base import Construction, Inadmissible, checked_start
from audit.constructions.batches import (
    check_position,
    cycle_length,
    last_position,
    random_position,
    random_start,
)
from audit.constructions.gradient_limits import others_range, random_others, record_pushes
from audit.constructions.gradients import ZERO, GradientPair
from audit.constructions.process import Path, Process, Segment
from audit.constructions.registry import construction
from audit.constructions.updates import PiecewiseLinear
from audit.mechanism import Batching, Choice, Losses, NoisySGD, Relation, Release

# Drifts of a step in units of s^2/D, from each of the times in `ChangingPair.TIMES` on; found by a
# search at v D/s^2 = 0.1.
_GROWING = (0.4, 1.3, 3.2, 5.4, 7.8, 9.6)
_COVERED = (Batching.FULL, Batching.CYCLIC, Batching.WITHOUT_REPLACEMENT, Batching.POISSON)


@dataclass(frozen=True)
class Phase:
    """Losses of consecutive steps.

    Parameters
    ----------
    steps : int
        Number of steps, at least 1.
    others, record, record_prime : PiecewiseLinear, optional
        Gradients as in `GradientPair`.
    """

    steps: int
    others: PiecewiseLinear = ZERO
    record: PiecewiseLinear = ZERO
    record_prime: PiecewiseLinear = ZERO

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
                holds = last_position(m) if self.position is None else self.position
                position = (holds - start) % cycle_length(m)
            pair = GradientPair(
                _of_phase(m, start, phase.steps),
                others=phase.others,
                record=phase.record,
                record_prime=phase.record_prime,
                shared=self.shared,
                start=self.start,
                position=position,
            )
            yield pair
            start += phase.steps

    def processes(self) -> tuple[Process, Process]:
        """Return the processes of the first and the second dataset."""
        runs = [pair.processes() for pair in self._pairs()]
        first, second = (_joined([run[side] for run in runs]) for side in (0, 1))
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


def _of_phase(m: NoisySGD, start: int, steps: int) -> NoisySGD:
    """Return the mechanism of ``steps`` steps with fixed losses, after ``begun`` steps."""
    sizes = m.step_size
    if isinstance(sizes, tuple):
        sizes = sizes[start : start + steps]
    return replace(m, steps=steps, step_size=sizes, losses=Losses.FIXED)


def _joined(runs: list[Process]) -> Process:
    """Return the process that takes the steps of each run in turn."""
    segments: tuple[Segment, ...] = ()
    for run in runs:
        [path] = run.paths
        segments += path.segments
    batches = tuple(part for run in runs for part in run.batches)
    return replace(runs[0], paths=(Path(1.0, segments),), batches=batches)

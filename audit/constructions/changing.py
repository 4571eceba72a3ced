"""Pairs whose losses change over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from audit import validate
from audit.codec import REQUIRED
from audit.constructions.base import Construction, Inadmissible, checked_start
from audit.constructions.batches import check_position, cycle_length, last_position
from audit.constructions.gradients import ZERO, GradientPair
from audit.constructions.process import Path, Process, Segment
from audit.constructions.registry import construction
from audit.constructions.updates import PiecewiseLinear
from audit.mechanism import Batching, Choice, Losses, NoisySGD, Relation, Release

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

    Raises
    ------
    ValueError
        If ``steps`` is not a positive integer.
    """

    steps: int
    others: PiecewiseLinear = ZERO
    record: PiecewiseLinear = ZERO
    record_prime: PiecewiseLinear = ZERO

    def __post_init__(self) -> None:
        validate.integer(1, steps=self.steps)


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
        Batch of the cycle that holds the record, counted from 0, for cyclic batches. Defaults to
        the batch of the last step.

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

    phases: tuple[Phase, ...] = field(default=(), metadata=REQUIRED)
    shared: PiecewiseLinear = ZERO
    start: float = 0.0
    position: int | None = None

    citation: ClassVar[str] = "this package; losses that change over time"
    covers: ClassVar[tuple[Choice, ...]] = (Losses.CHANGING, Relation.ADD_REMOVE)

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

    def _pairs(self) -> Iterator[GradientPair]:
        """Yield the pair of each phase, of a mechanism with fixed losses and fewer steps."""
        m, begun = self.mechanism, 0
        for phase in self.phases:
            position = None
            if m.batching is Batching.CYCLIC:
                holds = last_position(m) if self.position is None else self.position
                position = (holds - begun) % cycle_length(m)
            pair = GradientPair(
                _of_phase(m, begun, phase.steps),
                others=phase.others,
                record=phase.record,
                record_prime=phase.record_prime,
                shared=self.shared,
                start=self.start,
                position=position,
            )
            yield pair
            begun += phase.steps

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


def _of_phase(m: NoisySGD, begun: int, steps: int) -> NoisySGD:
    """Return the mechanism of ``steps`` steps with fixed losses, after ``begun`` steps."""
    sizes = m.step_size
    if isinstance(sizes, tuple):
        sizes = sizes[begun : begun + steps]
    return replace(m, steps=steps, step_size=sizes, losses=Losses.FIXED)


def _joined(runs: list[Process]) -> Process:
    """Return the process that takes the steps of each run in turn."""
    segments: tuple[Segment, ...] = ()
    for run in runs:
        [path] = run.paths
        segments += path.segments
    return replace(runs[0], paths=(Path(1.0, segments),))

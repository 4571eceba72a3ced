"""Batching schemes: the process of a dataset with given updates.

Batches are drawn independently in every step, repeat in every epoch, or are new in every epoch. In
the last case the position of the record follows a Markov chain: if the other records are
interchangeable, future batches depend on the past only through whether the record has already
occurred in the current epoch. So a run of many epochs needs a memory with a few states instead of a
list of its (n/b)^epochs orders.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from audit import validate
from audit.constructions.process import (
    BatchMaps,
    DependentStep,
    Path,
    Process,
    Segment,
    Step,
    split,
)
from audit.constructions.updates import PiecewiseLinear, UpdateMap
from audit.mechanism import COVERED_BY_DEFAULT, Batching, Losses, NoisySGD, Relation, Release

# (step size, differing record in the batch?, number of other records)
BatchUpdate = Callable[[float, bool, int], UpdateMap]


@dataclass(frozen=True, eq=False)
class GradientUpdate:
    """The update of batches of records with piecewise linear gradients."""

    update: BatchUpdate
    record: PiecewiseLinear
    others: PiecewiseLinear
    shared: PiecewiseLinear  # of all records, once

    def __call__(self, step_size: float, holds_record: bool, others: int) -> UpdateMap:
        """Return the update of a batch."""
        return self.update(step_size, holds_record, others)


# (memory before, record in the batch?, number of other records, memory after, weight)
Move = tuple[int, bool, int, int, float]
StepMaker = Callable[[float], Step]  # takes a step size

# Largest number of tracked other records; each adds two states to the memory.
_MAX_TRACKED = 16


def _fixed_size(mechanism: NoisySGD, present: bool, place: int, moved: bool) -> Iterator[Move]:
    n, b = mechanism.dataset_size, mechanism.batch_size
    if present:  # a full batch is a sample of all n
        yield 0, False, b, 0, mechanism.skipping_rate
        yield 0, True, b - 1, 0, mechanism.sampling_rate
    else:
        yield 0, False, min(b, n - 1), 0, 1.0


def _poisson(mechanism: NoisySGD, present: bool, place: int, moved: bool) -> Iterator[Move]:
    """Draw each record; batches above ``max_batch_size`` are cut to a uniformly random subset."""
    n, most = mechanism.dataset_size, mechanism.max_batch_size or mechanism.dataset_size
    rate, left = mechanism.sampling_rate, mechanism.skipping_rate
    for others, weight in enumerate(binomial(n - 1, rate, left)):
        drawn = rate * weight if present else 0.0
        yield 0, False, min(others, most), 0, left * weight if present else weight
        if others < most:
            yield 0, True, others, 0, drawn
        else:
            kept = most / (others + 1)
            yield 0, True, most - 1, 0, kept * drawn
            yield 0, False, most, 0, (1 - kept) * drawn


def _reshuffled(mechanism: NoisySGD, present: bool, place: int, moved: bool) -> Iterator[Move]:
    """Track whether the record has occurred: if not, it does next with probability b/(n - t b).

    Every batch holds b records: b - 1 others if it holds the record, and b if not.
    """
    b = mechanism.batch_size
    left = mechanism.dataset_size - place * b
    if not present:
        yield 0, False, b, 0, 1.0
        return
    met = 0 if place == mechanism.steps_per_epoch - 1 else 1  # the next epoch starts afresh
    yield 0, False, b, 0, (left - b) / left
    yield 0, True, b - 1, met, b / left
    if place:
        yield 1, False, b, met, 1.0


def _allocated(mechanism: NoisySGD, present: bool, place: int, moved: bool) -> Iterator[Move]:
    """Track the record: with r occurrences left in T - t steps it occurs next at rate r/(T - t).

    The other records do the same, independently, and are tracked if they move the iterate.
    """
    return (_followed if moved else _alone)(mechanism, present, place)


def _alone(mechanism: NoisySGD, present: bool, place: int) -> Iterator[Move]:
    """Track how often the record has occurred in this epoch."""
    most, left = mechanism.participations, mechanism.steps_per_epoch - place
    if not present:
        yield 0, False, 0, 0, 1.0
        return
    for met in range(max(0, most - left), min(place, most) + 1):
        owed = most - met
        yield met, False, 0, 0 if left == 1 else met, (left - owed) / left
        yield met, True, 0, 0 if left == 1 else met + 1, owed / left


def _followed(mechanism: NoisySGD, present: bool, place: int) -> Iterator[Move]:
    """Track whether the record has occurred, and how many others have."""
    if mechanism.dataset_size - 1 > _MAX_TRACKED:
        raise ValueError(
            f"dataset_size must be at most {_MAX_TRACKED + 1} for random allocation if the "
            f"other records move the iterate, got {mechanism.dataset_size}"
        )
    if mechanism.participations > 1:
        raise ValueError(
            "participations must be 1 for random allocation if the other records move the "
            f"iterate, got {mechanism.participations}"
        )
    n, left = mechanism.dataset_size, mechanism.steps_per_epoch - place
    rate, later = 1 / left, (left - 1) / left
    for met in range(2 if place and present else 1):
        for gone in range(n if place else 1):
            own = rate if present and not met else 0.0
            for others, weight in enumerate(binomial(n - 1 - gone, rate, later)):
                for holds, share in ((False, 1 - own), (True, own)):
                    after = 0 if left == 1 else (met + holds) * n + gone + others
                    yield met * n + gone, holds, others, after, weight * share


MOVES: Mapping[Batching, Callable[[NoisySGD, bool, int, bool], Iterator[Move]]] = MappingProxyType(
    {
        Batching.RESHUFFLED: _reshuffled,
        Batching.DROP_LAST: _reshuffled,
        Batching.RANDOM_ALLOCATION: _allocated,
        Batching.FULL: _fixed_size,
        Batching.WITHOUT_REPLACEMENT: _fixed_size,
        Batching.POISSON: _poisson,
        Batching.TRUNCATED_POISSON: _poisson,
    }
)
"""Possible batches of a step, by sampler: the record is in the dataset or not, the step's place in
its epoch, and whether the number of other records in a batch matters where epochs are new."""

# Choices that processes cover in addition to COVERED_BY_DEFAULT.
SAMPLERS = tuple(one for one in MOVES if one not in COVERED_BY_DEFAULT)


def batched_process(
    mechanism: NoisySGD,
    start: float,
    update: BatchUpdate | Sequence[BatchUpdate],
    position: int | None = None,
    present: bool = True,
) -> Process:
    """Return the one-dimensional process of a dataset on [-D/2, D/2].

    Parameters
    ----------
    mechanism : NoisySGD
        Provides batching, steps, step sizes, noise, diameter and release. The random stop and the
        random skip of Feldman et al. 2018 give mixtures over the length of the run.
    start : float
        Start point.
    update : BatchUpdate or sequence of BatchUpdate
        ``update(step_size, holds_record, others)`` returns the noiseless update of a batch that
        holds ``others`` records besides the differing one. All other records are interchangeable;
        with an update for each batch of a cycle, those of a batch.
    position : int, optional
        Batch of the cycle that holds the record, counted from 0, for cyclic batches. Defaults to
        the batch of the last step, after which no noise hides the record.
    present : bool, default: True
        Whether the dataset holds the differing record; False for X' under `Relation.ADD_REMOVE`.

    Returns
    -------
    Process
        The process.

    Raises
    ------
    ValueError
        If ``position`` is not a batch of the cycle, no iterate is released, or the scheme does not
        determine the process: a record cannot be removed from these batches, or too many other
        records would have to be tracked.

    Examples
    --------
    >>> import audit
    >>> from audit.constructions import Affine, batched_process
    >>> m = audit.NoisySGD(steps=5, dataset_size=4, batch_size=4, step_size=1.0, noise_std=1.0,
    ...                    lipschitz=1.0)
    >>> process = batched_process(m, 0.0, lambda eta, holds_record, others: Affine(shift=eta / 4))
    >>> len(process), process.distinct_steps()[0].noise_std
    (5, 1.0)
    """
    m, batching = mechanism, mechanism.batching
    updates = (update,) if callable(update) else tuple(update)
    # the updates define the neighbours
    refusal = m.uncovered((*SAMPLERS, *Relation, Losses.CHANGING))
    if refusal is not None:
        raise ValueError(f"this process {refusal}")
    check_position(m, position)
    if len(updates) != 1 and (batching is not Batching.CYCLIC or len(updates) != cycle_length(m)):
        raise validate.fail("update", "one, or one for each batch of a cycle", len(updates))
    if not present:
        _check_removal(m, updates[0])
    at = record_position(m, position) if batching is Batching.CYCLIC else 0
    if batching.repeats:
        cycle = updates if len(updates) > 1 else updates * cycle_length(m)
        places = (at,) if batching is Batching.CYCLIC else range(len(cycle))
        cycles = [_cycle(m, cycle, place, present) for place in places]
    else:
        cycles = [_drawn(m, updates[0], present)]
    paths = tuple(Path(1.0 / len(cycles), _repeated(m, cycle)) for cycle in cycles)
    maps = (_maps(m, updates, at, present),)
    return Process(start, _released(m, paths), *domain(m), batches=maps)


def _cycle(
    mechanism: NoisySGD, updates: Sequence[BatchUpdate], at: int, present: bool
) -> list[StepMaker]:
    """Return the steps of a cycle whose batch ``at`` holds the record."""
    b = mechanism.batch_size
    return [
        _maker(mechanism, update, [(0, present and k == at, b - (k == at), 0, 1.0)])
        for k, update in enumerate(updates)
    ]


def _drawn(mechanism: NoisySGD, update: BatchUpdate, present: bool) -> list[StepMaker]:
    """Return the steps of an epoch of new batches, or one step where batches are independent."""
    m, renews = mechanism, mechanism.batching.renews
    n, length = m.dataset_size, m.steps_per_epoch if renews else 1
    etas = sorted(set(m.step_sizes.tolist())) if renews else []
    # the gradients of the others add up where the size of a batch is random
    moved = m.batching.has_random_size and any(
        update(eta, holds, 0) != update(eta, holds, n - 1)
        for eta in etas
        for holds in (False, True)
    )
    moves = [list(MOVES[m.batching](m, present, place, moved)) for place in range(length)]
    batches = {(holds, others) for place in moves for _, holds, others, _, _ in place}
    if renews and all(len({update(eta, *batch) for batch in batches}) == 1 for eta in etas):
        # one map for every batch, so that no memory is needed
        moves = [[(0, *next(iter(batches)), 0, 1.0)]] * length
    return [_maker(m, update, place) for place in moves]


def _maker(mechanism: NoisySGD, update: BatchUpdate, moves: list[Move]) -> StepMaker:
    """Return the maker of the mixture over the batches of one step, with equal maps merged."""

    def make(eta: float) -> Step:
        merged: dict[tuple[UpdateMap, tuple[int, int]], float] = {}
        for before, holds, others, after, weight in moves:
            if weight > 0:
                key = update(eta, holds, others), (before, after)
                merged[key] = merged.get(key, 0.0) + weight
        maps, ends = zip(*merged, strict=True)
        std = eta * mechanism.noise_std
        if any(map(any, ends)):
            return DependentStep(maps, tuple(merged.values()), std, ends)
        total = math.fsum(merged.values())
        return Step(maps, tuple(weight / total for weight in merged.values()), std)

    return make


def _repeated(mechanism: NoisySGD, cycle: list[StepMaker]) -> tuple[Segment, ...]:
    """Repeat a cycle of steps until the mechanism's number of steps is reached."""
    steps = mechanism.steps
    if isinstance(mechanism.step_size, tuple):
        by_key: dict[tuple[int, float], Step] = {}
        sequence = []
        for k, eta in enumerate(mechanism.step_size):
            key = (k % len(cycle), eta)
            if key not in by_key:
                by_key[key] = cycle[key[0]](eta)
            sequence.append(by_key[key])
        return (Segment(tuple(sequence)),)
    eta = mechanism.constant_step_size
    whole = tuple(make(eta) for make in cycle)
    times, rest = divmod(steps, len(cycle))
    segments = (Segment(whole, times), Segment(whole[:rest], 1))
    return tuple(segment for segment in segments if len(segment))


def _released(mechanism: NoisySGD, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the mixture of the parts of paths that a release may leave."""
    if mechanism.release is Release.LAST_ITERATE:
        return paths
    if mechanism.release is Release.RANDOM_STOP:
        cuts, kept = range(1, mechanism.steps + 1), 0
    elif mechanism.release is not Release.RANDOM_SKIP:
        raise ValueError(
            "release must be 'last iterate', 'random stop' or 'random skip' for a process, "
            f"got {mechanism.release.value!r}"
        )
    elif mechanism.batching.renews:
        raise ValueError(
            "release must not be 'random skip' for "
            f"{mechanism.batching.value} batches, whose epochs would start midway"
        )
    else:
        cuts, kept = range(mechanism.steps // 2 + 1), 1
    return tuple(
        Path(path.probability / len(cuts), split(path.segments, cut)[kept])
        for path in paths
        for cut in cuts
    )


def _maps(mechanism: NoisySGD, updates: Sequence[BatchUpdate], at: int, present: bool) -> BatchMaps:
    """Return the updates of the batches with and without the record; ``updates`` may be one."""
    m, eta = mechanism, float(mechanism.step_sizes[0])
    own = updates[at if len(updates) > 1 else 0]
    sized = m.batching.has_random_size
    size = 1 if sized else m.batch_size
    runs = [(len(list(same)), same_update) for same_update, same in itertools.groupby(updates)]
    if len(updates) == 1 and m.batching is Batching.CYCLIC:
        runs = [(cycle_length(m), own)]
    others = tuple((count, update(eta, False, size)) for count, update in runs)
    record = own(eta, True, size - 1) if present else None
    gradients: tuple[PiecewiseLinear, ...] = ()
    if isinstance(own, GradientUpdate):
        each = (one.others for _, one in runs if isinstance(one, GradientUpdate))
        gradients = own.shared, own.record, *each
    empty = own(eta, False, 0) if sized else None
    return BatchMaps(m.steps, eta, at, others, record, empty, gradients)


def cycle_length(mechanism: NoisySGD) -> int:
    """Return the number of batches of a cycle."""
    return mechanism.dataset_size // mechanism.batch_size


def kinds_of_batch(mechanism: NoisySGD) -> int:
    """Return the number of different steps or paths of a process."""
    m = mechanism
    if m.batching.is_poisson:
        return m.dataset_size
    if m.batching.renews:
        return m.steps_per_epoch
    if m.batching.repeats:
        return cycle_length(m) ** (2 if m.batching is Batching.SHUFFLED else 1)
    return 1


def record_position(mechanism: NoisySGD, position: int | None) -> int:
    """Return the batch of the cycle that holds the record: by default that of the last step."""
    return (mechanism.steps - 1) % cycle_length(mechanism) if position is None else position


def domain(mechanism: NoisySGD) -> tuple[float, float]:
    """Return the ends of the domain in one dimension."""
    half = math.inf if mechanism.diameter is None else mechanism.diameter / 2
    return -half, half


def check_position(mechanism: NoisySGD, position: int | None) -> None:
    """Raise ``ValueError`` unless ``position`` is a batch of the mechanism's cycle."""
    if position is None:
        return
    if mechanism.batching is not Batching.CYCLIC:
        raise ValueError(
            f"position must be None for {mechanism.batching.value} batches, got {position!r}"
        )
    validate.integer(0, position=position)
    length = cycle_length(mechanism)
    if position >= length:
        raise ValueError(
            f"position must be below dataset_size/batch_size ({length}), got {position!r}"
        )


def _check_removal(mechanism: NoisySGD, update: BatchUpdate) -> None:
    """Refuse removing a record if it is unspecified which batch becomes smaller."""
    b, eta = mechanism.batch_size, float(mechanism.step_sizes[0])
    if mechanism.batching.cuts and update(eta, False, b) != update(eta, False, b - 1):
        raise ValueError(
            "relation must not be 'add remove' for "
            f"{mechanism.batching.value} batches if the other records move the iterate, because "
            "removing a record makes some batch smaller"
        )


def follows_others(mechanism: NoisySGD) -> bool:
    """Return whether processes can track other records that move the iterate."""
    if not (mechanism.batching.renews and mechanism.batching.has_random_size):
        return True
    return mechanism.dataset_size <= _MAX_TRACKED + 1 and mechanism.participations == 1


def binomial(trials: int, rate: float, skipping_rate: float) -> list[float]:
    """Return the binomial probabilities, relatively accurate above 1e-304."""
    if rate == 1:
        return [0.0] * trials + [1.0]
    counts = np.arange(1, trials + 1)
    ratios = (trials - counts + 1) / counts * (rate / skipping_rate)  # of successive probabilities
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    mode = int(np.argmax(logs))
    with np.errstate(under="ignore"):
        above, below = np.cumprod(ratios[mode:]), np.cumprod(1 / ratios[:mode][::-1])[::-1]
        weights = np.concatenate([below, [1.0], above])
    return [float(w) for w in np.where(weights > 1e-304, weights, 0.0) / weights.sum()]

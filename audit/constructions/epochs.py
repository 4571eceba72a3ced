"""Epochs with new batches: the position of the record follows a Markov chain.

If the other records are interchangeable, future batches depend on the past only through whether the
record has already occurred in the current epoch. So a run of many epochs needs a memory with a few
states instead of a list of its (n/b)^epochs orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from audit.constructions.process import DependentStep, Step
from audit.constructions.sampling import BatchUpdate, binomial
from audit.constructions.updates import UpdateMap
from audit.mechanism import Batching, NoisySGD

StepMaker = Callable[[float], Step]  # takes a step size
# (memory before, record in the batch?, number of other records, memory after, weight)
Move = tuple[int, bool, int, int, float]

# Largest number of tracked other records; each adds two states to the memory.
MOST_FOLLOWED = 16


def epoch_steps(mechanism: NoisySGD, update: BatchUpdate, present: bool) -> list[StepMaker]:
    """Return the steps of one epoch of batches that every epoch renews."""
    length, etas = mechanism.steps_per_epoch, sorted(set(mechanism.step_sizes.tolist()))
    moved = mechanism.batching.has_random_size and _others_move(mechanism, update, etas)
    moves = [
        list(MOVES[mechanism.batching](mechanism, present, place, moved)) for place in range(length)
    ]
    batches = {(holds, others) for place in moves for _, holds, others, _, _ in place}
    one_map = all(len({update(eta, *batch) for batch in batches}) == 1 for eta in etas)
    if one_map:  # for every batch, so no memory is needed
        any_batch, std = next(iter(batches)), mechanism.noise_std
        return [lambda eta: Step((update(eta, *any_batch),), (1.0,), eta * std)] * length
    return [_maker(mechanism, update, place) for place in moves]


def _maker(mechanism: NoisySGD, update: BatchUpdate, moves: list[Move]) -> StepMaker:
    def make(eta: float) -> Step:
        merged: dict[tuple[UpdateMap, tuple[int, int]], float] = {}
        for before, holds, others, after, weight in moves:
            if weight > 0:
                key = update(eta, holds, others), (before, after)
                merged[key] = merged.get(key, 0.0) + weight
        maps, ends = zip(*merged, strict=True)
        return DependentStep(maps, tuple(merged.values()), eta * mechanism.noise_std, ends)

    return make


def _reshuffled(mechanism: NoisySGD, present: bool, place: int, moved: bool) -> Iterator[Move]:
    """Track whether the record has occurred: if not, it does next with probability b/(n - t b).

    Every batch holds b records: b - 1 others if it holds the record, and b if not.
    """
    b, left = mechanism.batch_size, mechanism.dataset_size / mechanism.batch_size - place
    if not present:
        yield 0, False, b, 0, 1.0
        return
    met = 0 if place == mechanism.steps_per_epoch - 1 else 1  # the next epoch starts afresh
    yield 0, False, b, 0, 1 - 1 / left
    yield 0, True, b - 1, met, 1 / left
    if place:
        yield 1, False, b, met, 1.0


def _allocated(mechanism: NoisySGD, present: bool, place: int, moved: bool) -> Iterator[Move]:
    """Track the record: with r occurrences left in T - t steps it occurs next at rate r/(T - t).

    The other records do the same, independently, and are tracked if they move the iterate.
    """
    if moved:
        _check_followed(mechanism)
        return _followed(mechanism, present, place)
    return _alone(mechanism, present, place)


def _alone(mechanism: NoisySGD, present: bool, place: int) -> Iterator[Move]:
    """Track how often the record has occurred in this epoch."""
    most, left = mechanism.participations, mechanism.steps_per_epoch - place
    if not present:
        yield 0, False, 0, 0, 1.0
        return
    for met in range(max(0, most - left), min(place, most) + 1):
        rate = (most - met) / left
        yield met, False, 0, 0 if left == 1 else met, 1 - rate
        yield met, True, 0, 0 if left == 1 else met + 1, rate


def _followed(mechanism: NoisySGD, present: bool, place: int) -> Iterator[Move]:
    """Track whether the record has occurred, and how many others have."""
    n, left = mechanism.dataset_size, mechanism.steps_per_epoch - place
    rate = 1 / left
    for met in range(2 if place and present else 1):
        for gone in range(n if place else 1):
            own = rate if present and not met else 0.0
            for others, weight in enumerate(binomial(n - 1 - gone, rate)):
                for holds, share in ((False, 1 - own), (True, own)):
                    after = 0 if left == 1 else (met + holds) * n + gone + others
                    yield met * n + gone, holds, others, after, weight * share


MOVES: Mapping[Batching, Callable[[NoisySGD, bool, int, bool], Iterator[Move]]] = MappingProxyType(
    {
        Batching.RESHUFFLED: _reshuffled,
        Batching.DROP_LAST: _reshuffled,
        Batching.RANDOM_ALLOCATION: _allocated,
    }
)
"""Moves in one step of an epoch, by sampler: the record is in the dataset or not, the step's
place in the epoch, and whether the number of other records in a batch matters."""


def follows_others(mechanism: NoisySGD) -> bool:
    """Return whether processes can track other records that move the iterate."""
    if not (mechanism.batching.renews and mechanism.batching.has_random_size):
        return True
    return mechanism.dataset_size <= MOST_FOLLOWED + 1 and mechanism.participations == 1


def _others_move(mechanism: NoisySGD, update: BatchUpdate, etas: list[float]) -> bool:
    """Return whether the number of other records in a batch matters: their gradients add up."""
    others = mechanism.dataset_size - 1
    return any(
        update(eta, holds, 0) != update(eta, holds, others)
        for eta in etas
        for holds in (False, True)
    )


def _check_followed(mechanism: NoisySGD) -> None:
    others = mechanism.dataset_size - 1
    if others > MOST_FOLLOWED:
        raise ValueError(
            f"dataset_size must be at most {MOST_FOLLOWED + 1} for random allocation if the "
            f"other records move the iterate, got {mechanism.dataset_size}"
        )
    if mechanism.participations > 1:
        raise ValueError(
            "participations must be 1 for random allocation if the other records move the "
            f"iterate, got {mechanism.participations}"
        )

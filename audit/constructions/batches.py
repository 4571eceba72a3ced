"""Batching schemes: the process that a dataset's update maps run under."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from audit import validate
from audit.constructions.process import Path, Process, Segment, Step, Wall, split
from audit.constructions.updates import UpdateMap
from audit.mechanism import Batching, NoisySGD, Relation, Release

# (step size, whether the differing record is in the batch, how many other records are)
BatchUpdate = Callable[[float, bool, int], UpdateMap]


def batched_process(
    mechanism: NoisySGD, start: float, update: BatchUpdate, position: int | None = None
) -> Process:
    """Return the process of a dataset in one dimension, on [-D/2, D/2].

    Parameters
    ----------
    mechanism
        Its batching, steps, step sizes, noise, diameter and release. The random stop and the
        random skip of Feldman et al. 2018 mix over the lengths of the run.
    start
        The start point.
    update
        ``update(step_size, holds_record, others)`` returns the noiseless update of a batch that
        holds ``others`` records besides the differing one. Records other than the differing one
        are interchangeable.
    position
        Which batch of a cycle holds the record, from 0, for cyclic batches. By default the batch
        of the last step, after which nothing hides the record.

    Raises
    ------
    ValueError
        If ``position`` is no batch of the cycle, or what is released is no iterate.
    """
    _check_covered(mechanism)
    check_position(mechanism, position)
    if mechanism.batching in (Batching.CYCLIC, Batching.SHUFFLED):
        paths = _cycles(mechanism, [update] * cycle_length(mechanism), position)
    else:
        steps = [lambda eta: _sampled_step(mechanism, update, eta)]
        paths = (Path(1.0, _repeated(mechanism, steps)),)
    return _released(mechanism, start, paths)


def cyclic_process(
    mechanism: NoisySGD, start: float, updates: Sequence[BatchUpdate], position: int
) -> Process:
    """Return the process of a dataset whose fixed batches hold records of different kinds.

    ``updates[k]`` is the update of batch k of the cycle; batch ``position`` holds the record. All
    else as in `batched_process`.

    Raises
    ------
    ValueError
        If the batches are not cyclic, ``updates`` is not one for each batch of the cycle,
        ``position`` is no batch of it, or what is released is no iterate.
    """
    if mechanism.batching is not Batching.CYCLIC:
        raise ValueError(f"batching must be 'cyclic', got {mechanism.batching.value!r}")
    check_position(mechanism, position)
    if len(updates) != cycle_length(mechanism):
        raise ValueError(
            f"updates must be one for each of the {cycle_length(mechanism)} batches, "
            f"got {len(updates)}"
        )
    return _released(mechanism, start, _cycles(mechanism, updates, position))


def _check_covered(mechanism: NoisySGD) -> None:
    # who the neighbours are is the matter of the updates
    refusal = mechanism.uncovered(tuple(Relation))
    if refusal is not None:
        raise ValueError(f"this process {refusal}")


def cycle_length(mechanism: NoisySGD) -> int:
    """Return how many batches a cycle has."""
    return mechanism.dataset_size // mechanism.batch_size


def last_position(mechanism: NoisySGD) -> int:
    """Return the batch of the cycle that the last step takes."""
    return (mechanism.steps - 1) % cycle_length(mechanism)


def _released(mechanism: NoisySGD, start: float, paths: tuple[Path, ...]) -> Process:
    if mechanism.release is Release.RANDOM_STOP:
        stops = range(1, mechanism.steps + 1)
        paths = tuple(
            Path(path.probability / len(stops), split(path.segments, stop)[0])
            for path in paths
            for stop in stops
        )
    elif mechanism.release is Release.RANDOM_SKIP:
        skips = range(mechanism.steps // 2 + 1)
        paths = tuple(
            Path(path.probability / len(skips), split(path.segments, skip)[1])
            for path in paths
            for skip in skips
        )
    elif mechanism.release is not Release.LAST_ITERATE:
        raise ValueError(
            "release must be 'last iterate', 'random stop' or 'random skip' for a process, "
            f"got {mechanism.release.value!r}"
        )
    half = math.inf if mechanism.diameter is None else mechanism.diameter / 2
    return Process(
        start=start,
        paths=paths,
        lower=-half,
        upper=half,
        lower_wall=Wall.CLAMP,
        upper_wall=Wall.CLAMP,
    )


def check_position(mechanism: NoisySGD, position: int | None) -> None:
    """Raise ``ValueError`` where ``position`` is no batch of the mechanism's cycle."""
    if position is None:
        return
    if mechanism.batching is not Batching.CYCLIC:
        raise ValueError(
            f"position must be left out for {mechanism.batching.value} batches, got {position!r}"
        )
    validate.integer(0, position=position)
    length = cycle_length(mechanism)
    if position >= length:
        raise ValueError(
            f"position must be below dataset_size/batch_size ({length}), got {position!r}"
        )


def _cycles(
    mechanism: NoisySGD, updates: Sequence[BatchUpdate], position: int | None
) -> tuple[Path, ...]:
    b, length = mechanism.batch_size, len(updates)

    def step(update: BatchUpdate, holds: bool) -> Callable[[float], Step]:
        return lambda eta: Step((update(eta, holds, b - holds),), (1.0,), eta * mechanism.noise_std)

    def path(at: int, probability: float) -> Path:
        cycle = [step(update, k == at) for k, update in enumerate(updates)]
        return Path(probability, _repeated(mechanism, cycle))

    if mechanism.batching is Batching.CYCLIC:
        return (path(last_position(mechanism) if position is None else position, 1.0),)
    return tuple(path(at, 1.0 / length) for at in range(length))


def _repeated(mechanism: NoisySGD, cycle: list[Callable[[float], Step]]) -> tuple[Segment, ...]:
    """Run through a cycle of steps as often as the mechanism has steps."""
    steps = mechanism.steps
    if isinstance(mechanism.step_size, tuple):
        made: dict[tuple[int, float], Step] = {}
        sequence = []
        for k, eta in enumerate(mechanism.step_size):
            key = (k % len(cycle), eta)
            if key not in made:
                made[key] = cycle[key[0]](eta)
            sequence.append(made[key])
        return (Segment(tuple(sequence)),)
    eta = mechanism.constant_step_size
    whole = tuple(make(eta) for make in cycle)
    times, rest = divmod(steps, len(cycle))
    segments = (Segment(whole, times), Segment(whole[:rest], 1))
    return tuple(segment for segment in segments if len(segment))


def _sampled_step(mechanism: NoisySGD, update: BatchUpdate, eta: float) -> Step:
    """Mix over the batches of one step, equal maps merged."""
    n, b, rate = mechanism.dataset_size, mechanism.batch_size, mechanism.sampling_rate
    mixture: dict[UpdateMap, float] = {}

    def add(holds: bool, others: int, weight: float) -> None:
        if weight > 0:
            chosen = update(eta, holds, others)
            mixture[chosen] = mixture.get(chosen, 0.0) + weight

    if mechanism.batching is Batching.POISSON:
        for others, weight in enumerate(_binomial(n - 1, rate)):
            add(False, others, (1 - rate) * weight)
            add(True, others, rate * weight)
    else:  # full batches are samples of all n
        add(False, b, 1 - rate)
        add(True, b - 1, rate)
    total = math.fsum(mixture.values())
    weights = tuple(weight / total for weight in mixture.values())
    return Step(tuple(mixture), weights, eta * mechanism.noise_std)


def _binomial(trials: int, rate: float) -> list[float]:
    """Probabilities of 0, ..., trials successes, relatively accurate but for those below 1e-304."""
    if rate == 1:
        return [0.0] * trials + [1.0]
    counts = np.arange(1, trials + 1)
    ratios = (trials - counts + 1) / counts * (rate / (1 - rate))  # of neighbours
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    mode = int(np.argmax(logs))
    with np.errstate(under="ignore"):
        above, below = np.cumprod(ratios[mode:]), np.cumprod(1 / ratios[:mode][::-1])[::-1]
        weights = np.concatenate([below, [1.0], above])
    return [float(w) for w in np.where(weights > 1e-304, weights, 0.0) / weights.sum()]

"""Batching schemes: the process of a dataset with given updates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from audit import validate
from audit.constructions.epochs import MOVES, StepMaker, epoch_steps
from audit.constructions.process import BatchMaps, Path, Process, Segment, Step, Wall, split
from audit.constructions.sampling import DRAWS, BatchUpdate, sampled_step
from audit.mechanism import COVERED_BY_DEFAULT, Batching, Losses, NoisySGD, Relation, Release

# What processes cover in addition to COVERED_BY_DEFAULT.
SAMPLERS = tuple(one for one in (*MOVES, *DRAWS) if one not in COVERED_BY_DEFAULT)


def batched_process(
    mechanism: NoisySGD,
    start: float,
    update: BatchUpdate,
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
    update : BatchUpdate
        ``update(step_size, holds_record, others)`` returns the noiseless update of a batch that
        holds ``others`` records besides the differing one. All other records are interchangeable.
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
        records would have to be tracked (see `audit.constructions.epochs`).

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
    # the updates define the neighbours
    refusal = mechanism.uncovered((*SAMPLERS, *Relation, Losses.CHANGING))
    if refusal is not None:
        raise ValueError(f"this process {refusal}")
    check_position(mechanism, position)
    batching = mechanism.batching
    if not present:
        _check_removal(mechanism, update)
    if batching.repeats:
        updates = [update] * cycle_length(mechanism)
        paths = _cycles(mechanism, updates, position, present)
    elif batching.renews:
        paths = (Path(1.0, _repeated(mechanism, epoch_steps(mechanism, update, present))),)
    else:

        def step(eta: float) -> Step:
            return sampled_step(mechanism, update, eta, present)

        paths = (Path(1.0, _repeated(mechanism, [step])),)
    return _released(mechanism, start, paths, _maps(mechanism, [update], position, present))


def cyclic_process(
    mechanism: NoisySGD, start: float, updates: Sequence[BatchUpdate], position: int
) -> Process:
    """Return the process of a dataset whose fixed batches hold different kinds of records.

    ``updates[k]`` is the update of batch k of the cycle; batch ``position`` holds the record. See
    `batched_process` for the rest.
    """
    if mechanism.batching is not Batching.CYCLIC:
        raise ValueError(f"batching must be 'cyclic', got {mechanism.batching.value!r}")
    check_position(mechanism, position)
    if len(updates) != cycle_length(mechanism):
        raise ValueError(
            f"updates must be one for each of the {cycle_length(mechanism)} batches, "
            f"got {len(updates)}"
        )
    paths = _cycles(mechanism, updates, position)
    return _released(mechanism, start, paths, _maps(mechanism, updates, position, True))


def _maps(
    mechanism: NoisySGD, updates: Sequence[BatchUpdate], position: int | None, present: bool
) -> tuple[BatchMaps, ...]:
    """Return the updates of the batches with and without the record; ``updates`` may be one."""
    m, eta = mechanism, float(mechanism.step_sizes[0])
    cyclic = m.batching is Batching.CYCLIC
    at = (last_position(m) if position is None else position) if cyclic else 0
    own = updates[at if len(updates) > 1 else 0]
    sized = m.batching.has_random_size
    size = 1 if sized else m.batch_size
    runs = [(len(list(same)), same_update) for same_update, same in itertools.groupby(updates)]
    if len(updates) == 1 and cyclic:
        runs = [(cycle_length(m), own)]
    others = tuple((count, update(eta, False, size)) for count, update in runs)
    record = own(eta, True, size - 1) if present else None
    return (BatchMaps(m.steps, eta, at, others, record, own(eta, False, 0) if sized else None),)


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


def suggested_starts(mechanism: NoisySGD) -> tuple[float, ...]:
    """Return the start points worth trying: the middle of the domain and its left end."""
    return (0.0,) if mechanism.diameter is None else (0.0, -mechanism.diameter / 2)


def random_start(mechanism: NoisySGD, rng: np.random.Generator) -> float:
    """Return a random start point, often the middle or an end of the domain."""
    half = 0.0 if mechanism.diameter is None else mechanism.diameter / 2
    return float(rng.choice([0.0, -half, half, rng.uniform(-half, half)]))


def random_position(mechanism: NoisySGD, rng: np.random.Generator) -> int | None:
    """Return a random batch of the cycle, or None."""
    if mechanism.batching is not Batching.CYCLIC or rng.random() < 0.5:
        return None
    return int(rng.integers(cycle_length(mechanism)))


def last_position(mechanism: NoisySGD) -> int:
    """Return the batch of the cycle used by the last step."""
    return (mechanism.steps - 1) % cycle_length(mechanism)


def _released(
    mechanism: NoisySGD, start: float, paths: tuple[Path, ...], batches: tuple[BatchMaps, ...]
) -> Process:
    if mechanism.release is Release.RANDOM_STOP:
        stops = range(1, mechanism.steps + 1)
        paths = tuple(
            Path(path.probability / len(stops), split(path.segments, stop)[0])
            for path in paths
            for stop in stops
        )
    elif mechanism.release is Release.RANDOM_SKIP:
        if mechanism.batching.renews:
            raise ValueError(
                "release must not be 'random skip' for "
                f"{mechanism.batching.value} batches, whose epochs would start midway"
            )
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
        batches=batches,
    )


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


def _cycles(
    mechanism: NoisySGD,
    updates: Sequence[BatchUpdate],
    position: int | None,
    present: bool = True,
) -> tuple[Path, ...]:
    b, length = mechanism.batch_size, len(updates)

    def step(update: BatchUpdate, holds: bool) -> StepMaker:
        uses_record = holds and present
        return lambda eta: Step(
            (update(eta, uses_record, b - holds),), (1.0,), eta * mechanism.noise_std
        )

    def path(at: int, probability: float) -> Path:
        cycle = [step(update, k == at) for k, update in enumerate(updates)]
        return Path(probability, _repeated(mechanism, cycle))

    if mechanism.batching is Batching.CYCLIC:
        return (path(last_position(mechanism) if position is None else position, 1.0),)
    return tuple(path(at, 1.0 / length) for at in range(length))


def _repeated(mechanism: NoisySGD, cycle: list[Callable[[float], Step]]) -> tuple[Segment, ...]:
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

"""From a dataset and a mechanism to flat tables that a compiled loop can walk through."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.mechanism import Batching, NoisySGD, Release
from audit_dimensions.dataset import Dataset
from audit_dimensions.domains import Domain
from audit_dimensions.losses import Loss
from audit_dimensions.losses.base import Family

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# what the compiled loop calls the ways to make batches and to end a run
FIXED, SHUFFLED, WITHOUT_REPLACEMENT, POISSON, RESHUFFLED, ALLOCATED = range(6)
LAST_ITERATE, RANDOM_STOP, RANDOM_SKIP = range(3)

_BATCHES = {
    Batching.FULL: FIXED,
    Batching.CYCLIC: FIXED,
    Batching.SHUFFLED: SHUFFLED,
    Batching.WITHOUT_REPLACEMENT: WITHOUT_REPLACEMENT,
    Batching.POISSON: POISSON,
    Batching.TRUNCATED_POISSON: POISSON,
    Batching.RESHUFFLED: RESHUFFLED,
    Batching.RANDOM_ALLOCATION: ALLOCATED,
}
SAMPLERS = (Batching.TRUNCATED_POISSON, Batching.RESHUFFLED, Batching.RANDOM_ALLOCATION)
_RELEASES = {
    Release.LAST_ITERATE: LAST_ITERATE,
    Release.RANDOM_STOP: RANDOM_STOP,
    Release.RANDOM_SKIP: RANDOM_SKIP,
}


class Shape(NamedTuple):
    """The numbers that all records' gradients share (see `Encoded`)."""

    family: int
    curvature: float
    cap: float
    clip: float


class Rules(NamedTuple):
    """Rules of batches, of the end of a run, and of the walls.

    ``epoch`` is the number of steps of an epoch, ``participations`` how many batches of it hold a
    record where they are allocated, and ``most`` where Poisson batches are cut. ``ordered`` says
    whether batches are drawn from an order of the records that goes on from step to step. Between
    two members of a Poisson batch, floor(-2 log(u) gap_scale) records are left out, for uniform u.
    """

    batches: int
    release: int
    batch_size: int
    epoch: int
    participations: int
    most: int
    gap_scale: float
    ordered: bool
    summed: bool
    radius: float
    half_side: float


class Program(NamedTuple):
    """A dataset's Noisy-SGD as flat arrays, and numbers that pass between loops without cost.

    Equal records are one kind, so that a batch is a count of each kind: n - 1 equal records cost
    as much as one. Record i is of kind ``kind[i]``. A kind that is not ``present`` has l_i = 0.

    Fixed batch p is, for g from ``first[p]`` to ``first[p + 1] - 1``, ``counts[g]`` records of kind
    ``kinds[g]``. Where gradients are affine and not clipped (``summed``), row p of ``sums`` is the
    sum of its l_i's gradients.
    """

    shape: Shape
    rules: Rules
    vectors: Floats  # (kinds, d)
    present: NDArray[np.bool_]  # (kinds,)
    ridge: Floats  # (d,)
    start: Floats  # (d,)
    scales: Floats  # by step: step size over batch size
    noise_stds: Floats  # by step
    kind: Integers  # by record
    first: Integers  # by fixed batch, and one more
    kinds: Integers
    counts: Integers
    sums: Floats  # (fixed batches, d)


def compiled(
    mechanism: NoisySGD, loss: Loss, dataset: Dataset, domain: Domain, start: Floats
) -> Program:
    """Return the tables of one dataset."""
    rows, kind = np.unique(dataset.records, axis=0, return_inverse=True)
    kind = kind.reshape(-1).astype(np.int64)
    present = np.ones(len(rows) + 1, dtype=np.bool_)
    present[-1] = False  # a kind of its own for the record whose loss is zero
    if dataset.zeroed is not None:
        kind[dataset.zeroed] = len(rows)
    encoded = loss.encoded(rows)
    vectors = np.vstack([encoded.vectors, np.zeros(encoded.vectors.shape[1])])
    radius, half_side = domain.radius, domain.half_side
    if vectors.shape[1] == 1:  # an interval: clamped points lie on its ends exactly
        radius, half_side = np.inf, min(radius, half_side)
    batches = _BATCHES[mechanism.batching]
    cut = _cut(kind, mechanism.batch_size) if batches == FIXED else []
    summed = encoded.family is Family.AFFINE and not np.isfinite(encoded.clip)
    summed = summed and batches == FIXED
    sums = [counts @ vectors[kinds] for kinds, counts in cut] if summed else []
    rate = mechanism.batch_size / mechanism.dataset_size
    return Program(
        shape=Shape(int(encoded.family), encoded.curvature, encoded.cap, encoded.clip),
        rules=Rules(
            batches,
            _RELEASES[mechanism.release],
            mechanism.batch_size,
            mechanism.steps_per_epoch,
            mechanism.participations,
            mechanism.max_batch_size or mechanism.dataset_size,
            -0.5 / math.log1p(-rate) if rate < 1 else 0.0,
            batches in (SHUFFLED, WITHOUT_REPLACEMENT, RESHUFFLED),
            summed,
            radius,
            half_side,
        ),
        vectors=np.ascontiguousarray(vectors),
        present=present,
        ridge=encoded.ridge,
        start=np.array(start),
        scales=mechanism.step_sizes / mechanism.batch_size,
        noise_stds=mechanism.step_sizes * mechanism.noise_std,
        kind=kind,
        first=np.cumsum([0, *(len(kinds) for kinds, _ in cut)], dtype=np.int64),
        kinds=np.concatenate([np.zeros(0, np.int64), *(kinds for kinds, _ in cut)]),
        counts=np.concatenate([np.zeros(0, np.int64), *(counts for _, counts in cut)]),
        sums=np.array(sums, dtype=np.float64).reshape(len(sums), vectors.shape[1]),
    )


def _cut(kind: Integers, size: int) -> list[tuple[Integers, Integers]]:
    """Return the kinds in each batch of consecutive records, and how many there are of each."""
    found = []
    for place in range(0, len(kind), size):
        kinds, counts = np.unique(kind[place : place + size], return_counts=True)
        found.append((kinds, counts.astype(np.int64)))
    return found

"""Batches drawn independently in every step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from audit.constructions.process import Step
from audit.constructions.updates import UpdateMap
from audit.mechanism import Batching, NoisySGD

# (step size, differing record in the batch?, number of other records)
BatchUpdate = Callable[[float, bool, int], UpdateMap]
Draw = tuple[bool, int, float]  # record in the batch?, number of other records, probability


def sampled_step(mechanism: NoisySGD, update: BatchUpdate, eta: float, present: bool) -> Step:
    """Return the mixture over the batches of one step, with equal maps merged.

    ``present`` says whether the dataset holds the differing record.
    """
    mixture: dict[UpdateMap, float] = {}
    for holds, others, weight in DRAWS[mechanism.batching](mechanism, present):
        if weight > 0:
            chosen = update(eta, holds, others)
            mixture[chosen] = mixture.get(chosen, 0.0) + weight
    total = math.fsum(mixture.values())
    weights = tuple(weight / total for weight in mixture.values())
    return Step(tuple(mixture), weights, eta * mechanism.noise_std)


def _fixed_size(mechanism: NoisySGD, present: bool) -> Iterator[Draw]:
    n, b, rate = mechanism.dataset_size, mechanism.batch_size, mechanism.sampling_rate
    if present:  # a full batch is a sample of all n
        yield False, b, 1 - rate
        yield True, b - 1, rate
    else:
        yield False, min(b, n - 1), 1.0


def _poisson(mechanism: NoisySGD, present: bool) -> Iterator[Draw]:
    rate = mechanism.sampling_rate
    for others, weight in enumerate(binomial(mechanism.dataset_size - 1, rate)):
        yield False, others, ((1 - rate) if present else 1.0) * weight
        if present:
            yield True, others, rate * weight


def _truncated_poisson(mechanism: NoisySGD, present: bool) -> Iterator[Draw]:
    """Yield as `_poisson`, reducing larger batches to a uniformly random subset."""
    rate, most = mechanism.sampling_rate, mechanism.max_batch_size
    assert most is not None  # checked by the mechanism
    for others, weight in enumerate(binomial(mechanism.dataset_size - 1, rate)):
        drawn = rate * weight if present else 0.0
        yield False, min(others, most), weight - drawn
        if others < most:
            yield True, others, drawn
        else:
            kept = most / (others + 1)
            yield True, most - 1, kept * drawn
            yield False, most, (1 - kept) * drawn


DRAWS: Mapping[Batching, Callable[[NoisySGD, bool], Iterator[Draw]]] = MappingProxyType(
    {
        Batching.FULL: _fixed_size,
        Batching.WITHOUT_REPLACEMENT: _fixed_size,
        Batching.POISSON: _poisson,
        Batching.TRUNCATED_POISSON: _truncated_poisson,
    }
)
"""Possible batches of a step, by sampler, with or without the differing record in the dataset."""


def binomial(trials: int, rate: float) -> list[float]:
    """Return the binomial probabilities, relatively accurate above 1e-304."""
    if rate == 1:
        return [0.0] * trials + [1.0]
    counts = np.arange(1, trials + 1)
    ratios = (trials - counts + 1) / counts * (rate / (1 - rate))  # of successive probabilities
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    mode = int(np.argmax(logs))
    with np.errstate(under="ignore"):
        above, below = np.cumprod(ratios[mode:]), np.cumprod(1 / ratios[:mode][::-1])[::-1]
        weights = np.concatenate([below, [1.0], above])
    return [float(w) for w in np.where(weights > 1e-304, weights, 0.0) / weights.sum()]

"""Mechanisms from the steps that an accountant was told of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from audit import validate
from audit.mechanism import Batching, NoisySGD, Relation, Release

# rate * dataset_size is whole up to the rounding of the rate
_WHOLE = 1e-9


def step(
    noise_multiplier: float,
    sampling_rate: float,
    *,
    dataset_size: int,
    relation: Relation,
    clip_norm: float,
    batching: Batching = Batching.POISSON,
    batch_size: int | None = None,
    max_batch_size: int | None = None,
) -> NoisySGD:
    """Return one step of clipped DP-SGD whose noisy gradient is released, whatever the losses.

    Parameters
    ----------
    noise_multiplier
        The deviation of the noise of a batch's sum over ``clip_norm``, in every relation.
    sampling_rate
        q in (0, 1]. It is kept as it is: where q n is no whole number, as for the 1/235 of 60,000
        records in batches of about 256, the mechanism has it as ``poisson_rate``.
    dataset_size, relation, clip_norm
        n, the neighbours, and the norm to which each record's gradient is clipped.
    batching
        Full, Poisson, truncated Poisson, or without replacement.
    batch_size
        The divisor of Poisson batches, which privacy does not depend on; by default q n, rounded.
    max_batch_size
        For truncated Poisson batches.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    validate.positive(
        noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, clip_norm=clip_norm
    )
    validate.closed_unit(sampling_rate=sampling_rate)
    validate.integer(1, dataset_size=dataset_size)
    validate.instance(Relation, relation=relation)
    expected = sampling_rate * dataset_size
    nearest = max(round(expected), 1)
    whole = abs(expected - nearest) <= _WHOLE * nearest
    if batch_size is None or whole:
        batch_size = nearest
    return NoisySGD(
        steps=1,
        dataset_size=dataset_size,
        batch_size=batch_size,
        step_size=1.0,
        noise_std=noise_multiplier * clip_norm / batch_size,
        clip_norm=clip_norm,
        convex=False,
        batching=batching,
        relation=relation,
        release=Release.ALL_ITERATES,
        max_batch_size=max_batch_size,
        poisson_rate=None if whole else sampling_rate,
    )


def composed(steps: Iterable[tuple[NoisySGD, int]]) -> NoisySGD:
    """Return the mechanism that runs every step so many times, and releases all iterates.

    Steps of one kind are put together, wherever they stand: the dominating pair of each step is the
    same after whatever came before, so that their order does not matter.

    Raises
    ------
    ValueError
        If there is no step, or steps differ.
    """
    counts: dict[NoisySGD, int] = {}
    for one, times in steps:
        counts[one] = counts.get(one, 0) + times
    parts = [replace(one, steps=one.steps * times) for one, times in counts.items() if times]
    if not parts:
        raise ValueError("steps must be at least one, got none")
    if len(parts) > 1:
        raise ValueError(f"steps must all have the same noise and rate, got {len(parts)} kinds")
    return parts[0]

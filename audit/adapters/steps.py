"""Mechanisms from the steps recorded by an accountant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from operator import itemgetter

from audit import validate
from audit.mechanism import Batching, Composition, NoisySGD, Relation, Release

# rate * dataset_size is whole up to the rounding of the rate
_WHOLE_TOLERANCE = 1e-12
_MAX_SHOWN = 3  # runs of a composition that are listed
_MAX_DENOMINATOR = 10**6  # denominator of a simple fraction
_MAX_SIZE = 10**9  # size of a dataset that stands for any


def any_dataset_size(*rates: float) -> int:
    """Return a dataset size for which batches of each rate have a whole size, if it is small.

    A rate stands for the simplest fraction that rounds to it: 0.004 for 1/250.

    >>> any_dataset_size(0.004, 0.01)
    500
    """
    return min(math.lcm(*(_fraction(rate).denominator for rate in rates)), _MAX_SIZE)


def batch_is_whole(size: float) -> bool:
    """Return whether a rate times a dataset size is a batch size, up to the rate's rounding."""
    return abs(size - round(size)) <= _WHOLE_TOLERANCE * round(size)


def _fraction(rate: float) -> Fraction:
    """Return the simplest fraction that rounds to a rate, or the decimal as written."""
    simple = Fraction(rate).limit_denominator(_MAX_DENOMINATOR)
    return simple if float(simple) == rate else Fraction(repr(float(rate)))


def step(
    noise_multiplier: float,
    sampling_rate: float,
    *,
    dataset_size: int | None,
    relation: Relation,
    clip_norm: float,
    batching: Batching = Batching.POISSON,
    batch_size: int | None = None,
    max_batch_size: int | None = None,
) -> NoisySGD:
    """Return one step of clipped DP-SGD that releases its noisy gradient, for any losses."""
    validate.positive(
        noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, clip_norm=clip_norm
    )
    validate.closed_unit(sampling_rate=sampling_rate)
    if dataset_size is None:
        dataset_size = any_dataset_size(sampling_rate)
    validate.integer(1, dataset_size=dataset_size)
    validate.instance(Relation, relation=relation)
    expected = sampling_rate * dataset_size
    nearest = max(round(expected), 1)
    whole = batch_is_whole(expected)
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


def composed(steps: Iterable[tuple[NoisySGD, int]]) -> NoisySGD | Composition:
    """Return the mechanism that repeats each step as given and releases all iterates.

    Consecutive equal steps become one run.
    """
    parts = tuple(
        replace(one, steps=one.steps * sum(times for _, times in run))
        for one, run in groupby(steps, key=itemgetter(0))
    )
    if not parts:
        raise ValueError("steps must be at least one, got none")
    return parts[0] if len(parts) == 1 else Composition(parts)


def runs_of(mechanism: NoisySGD | Composition) -> tuple[NoisySGD, ...]:
    """Return the runs of a mechanism."""
    return mechanism.parts if isinstance(mechanism, Composition) else (mechanism,)


def noise_over_clip_norm(run: NoisySGD) -> float:
    """Return the accountants' noise multiplier: noise of a batch's sum over the clip norm."""
    bound = run.gradient_bound
    share = 2.0 if run.relation is Relation.REPLACE_ONE else 1.0
    if bound is None or run.gradient_sensitivity is not None:
        raise ValueError(
            "gradient_sensitivity must be None, and gradients bounded, for an accountant, "
            f"got {run.gradient_sensitivity!r}"
        )
    return run.noise_multiplier * share


def in_words(mechanism: NoisySGD | Composition, sized: bool = True) -> str:
    """Return a one-line description: steps, batches, rate, noise multiplier and relation."""
    runs = runs_of(mechanism)
    done = ", then ".join(_run_in_words(run) for run in runs[:_MAX_SHOWN])
    if len(runs) > _MAX_SHOWN:
        done += f", then {len(runs) - _MAX_SHOWN} more runs"
    records = f"{mechanism.dataset_size} records" if sized else "any number of records"
    return (
        f"{done} (noise over clip norm); {records}, "
        f"relation {mechanism.relation.value!r}, all iterates released"
    )


def _run_in_words(run: NoisySGD) -> str:
    count = f"{run.steps} step{'' if run.steps == 1 else 's'}"
    batches = f"{run.batching.value} batches"
    if run.batching is not Batching.FULL:
        batches += f" at rate {run.sampling_rate:.6g}"
    if run.max_batch_size is not None:
        batches += f", cut at {run.max_batch_size},"
    return f"{count} on {batches} with noise multiplier {noise_over_clip_norm(run):.6g}"

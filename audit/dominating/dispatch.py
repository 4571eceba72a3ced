"""The privacy curve of a mechanism's dominating pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from audit import validate
from audit.dominating.curve import DominatingCurve, GaussianDominatingCurve
from audit.dominating.poisson import (
    actual_divisor_curve,
    check_bounded,
    is_bounded,
    poisson_curve,
    truncated_poisson,
)
from audit.dominating.random_allocation import CELLS, random_allocation, shuffled
from audit.dominating.runs import composed_runs
from audit.dominating.without_replacement import without_replacement
from audit.mechanism import Batching, Composition, Divisor, NoisySGD, Relation, Release

ACCURACY = 3e-7
"""Default target for the relative width of brackets of epsilon."""

# From here on a quarter of the cells will do: brackets of random allocation as wide as 2e-3.
_COARSE_ACCURACY = 1e-4

Sampler = Callable[[NoisySGD, float], DominatingCurve]


def _full(m: NoisySGD, accuracy: float) -> DominatingCurve:
    """Compose Gaussian mechanisms: sqrt(T)/z-GDP (Dong, Roth and Su 2022, Corollary 3.3)."""
    return GaussianDominatingCurve(m.steps**0.5 / m.noise_multiplier)


def _cyclic(m: NoisySGD, accuracy: float) -> DominatingCurve:
    """Compose the steps that use a record of the first batch, which is used most often."""
    if m.relation is Relation.ADD_REMOVE and m.batch_size < m.dataset_size:
        raise ValueError(
            "relation must be 'zero out' or 'replace one' for cyclic batches, because removing a "
            "record moves others to other batches, got 'add remove'"
        )
    met = -(-m.steps * m.batch_size // m.dataset_size)
    return GaussianDominatingCurve(met**0.5 / m.noise_multiplier)


def _poisson(m: NoisySGD, accuracy: float) -> DominatingCurve:
    if m.relation is Relation.REPLACE_ONE and m.sampling_rate < 1:
        check_bounded(m)
    return poisson_curve(
        m.noise_multiplier,
        m.sampling_rate,
        m.steps,
        m.relation,
        accuracy=accuracy,
        skipping_rate=m.skipping_rate,
    )


def _random_allocation(m: NoisySGD, accuracy: float) -> DominatingCurve:
    if m.relation is Relation.REPLACE_ONE:
        raise ValueError(
            "relation must be 'zero out' or 'add remove' for random allocation, because no pair is "
            "known for others, got 'replace one'"
        )
    return random_allocation(
        m.noise_multiplier,
        steps_per_epoch=m.steps_per_epoch,
        steps=m.steps,
        participations=m.participations,
        cells=CELLS if accuracy < _COARSE_ACCURACY else CELLS // 4,
    )


SAMPLERS: Mapping[Batching, Sampler] = MappingProxyType(
    {
        Batching.FULL: _full,
        Batching.CYCLIC: _cyclic,
        Batching.POISSON: _poisson,
        Batching.RANDOM_ALLOCATION: _random_allocation,
        Batching.SHUFFLED: shuffled,
        Batching.RESHUFFLED: shuffled,
        Batching.DROP_LAST: shuffled,
        Batching.TRUNCATED_POISSON: truncated_poisson,
        Batching.WITHOUT_REPLACEMENT: without_replacement,
    }
)
"""For each batching, a function from a mechanism and an accuracy to its curve."""


def dominating_curve(
    mechanism: NoisySGD | Composition, *, accuracy: float = ACCURACY
) -> DominatingCurve:
    """Return the privacy of a mechanism that releases all iterates, for any losses.

    The curve belongs to a pair of laws that dominates every pair of neighbouring datasets and is
    attained by some losses (linear ones, which satisfy every convexity and smoothness assumption;
    noisy gradients are released, so a domain does not matter). For shuffled and truncated Poisson
    batches, and batches without replacement, no such pair is known: a bracket then contains the
    worst pair of datasets, between explicit adversaries and a proven bound. ``epsilon`` is an upper
    bound for all iterates, and so for the last one. The lower ends of brackets are certified lower
    bounds for all iterates, not for the last one.

    Parameters
    ----------
    mechanism : NoisySGD or Composition
        Has ``release=Release.ALL_ITERATES``, or is a composition of such mechanisms. Step sizes and
        the domain have no effect.
    accuracy : float, default: 3e-7
        Target for the relative width of brackets of epsilon.

    Returns
    -------
    DominatingCurve
        The curve, with ``epsilon_bracket(delta, order=...)`` and ``delta_bracket(epsilon,
        order=...)``.

    Raises
    ------
    ValueError
        If the release is another, or no pair is known for the batches. Shuffled batches have none
        that can be composed with others.

    Examples
    --------
    >>> from audit.mechanism import Release
    >>> m = NoisySGD(steps=100, dataset_size=1000, batch_size=10, step_size=0.1, noise_std=0.1,
    ...              clip_norm=1.0, convex=False, batching=Batching.POISSON,
    ...              relation=Relation.ADD_REMOVE, release=Release.ALL_ITERATES)
    >>> low, high = dominating_curve(m).epsilon_bracket(1e-5)
    >>> low <= high < low * 1.000001
    True
    """
    validate.positive(accuracy=accuracy)
    if isinstance(mechanism, Composition):
        return _composition(mechanism, accuracy)
    validate.instance(NoisySGD, mechanism=mechanism)
    if mechanism.release is not Release.ALL_ITERATES:
        raise ValueError(
            f"release must be 'all iterates' for a dominating pair, got {mechanism.release.value!r}"
        )
    return _checked_sampler(mechanism)(mechanism, accuracy)


def _composition(mechanism: Composition, accuracy: float) -> DominatingCurve:
    for part in mechanism.parts:
        _checked_sampler(part)
        if part.batching.is_random and not part.batching.has_random_size:  # enclosed only
            raise ValueError(
                "batching must not be shuffled or without replacement in a part of a composition, "
                "because no pair is known that could be composed, "
                f"got {part.batching.value!r}"
            )
    parts = collapsed(mechanism.parts)
    curves = [sampler(part)(part, accuracy) for part in parts]
    return curves[0] if len(curves) == 1 else composed_runs(curves, accuracy)


def collapsed(parts: Sequence[NoisySGD]) -> list[NoisySGD]:
    """Return parts with equal steps merged, in a canonical order."""
    steps: dict[tuple[object, ...], int] = defaultdict(int)
    kinds: dict[tuple[object, ...], NoisySGD] = {}
    for number, part in enumerate(parts):
        # an incomplete epoch ends with its part; the next part begins a new one
        ended = (
            not (part.batching.repeats or part.batching.renews)
            or part.steps % part.steps_per_epoch == 0
        )
        key = (
            part.batching.value,
            part.divisor.value,
            part.noise_multiplier,
            part.sampling_rate,
            part.max_batch_size or 0,
            part.participations,
            is_bounded(part),  # which some samplers need
            -1 if ended else part.steps,
            0 if ended else number,
        )
        kinds[key] = part
        steps[key] += part.steps
    return [replace(kinds[key], steps=steps[key], step_size=1.0) for key in sorted(kinds)]


def _checked_sampler(mechanism: NoisySGD) -> Sampler:
    covered = (*SAMPLERS, *Relation, *Divisor, Release.ALL_ITERATES)
    refusal = mechanism.uncovered(covered)
    if refusal is not None:
        raise ValueError(f"dominating_curve {refusal}")
    if mechanism.batching not in SAMPLERS:
        known = ", ".join(batching.value for batching in SAMPLERS)
        raise ValueError(
            f"batching must be one of {known} for a dominating pair, "
            f"got {mechanism.batching.value!r}"
        )
    return sampler(mechanism)


def sampler(mechanism: NoisySGD) -> Sampler:
    """Return the function for a mechanism's batches and divisor."""
    chosen = SAMPLERS[mechanism.batching]
    if mechanism.divisor is Divisor.NOMINAL:
        return chosen
    if mechanism.batching is Batching.POISSON:
        return actual_divisor_curve
    if not mechanism.batching.has_random_size and mechanism.relation is not Relation.ADD_REMOVE:
        return chosen  # equal batch sizes in both datasets
    raise ValueError(
        "divisor must be 'nominal' except for Poisson batches and batches of fixed size, "
        f"got 'actual' with batching={mechanism.batching.value!r} and "
        f"relation={mechanism.relation.value!r}"
    )

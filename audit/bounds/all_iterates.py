"""Tight accountants: the privacy of all iterates of clipped DP-SGD, for any losses.

The bounds are tight because some losses attain the composed pair (`audit.dominating`), and they
hold for the last iterate by post-processing.
"""

from __future__ import annotations

import math
from dataclasses import replace

from audit.bounds.assumptions import ROUNDING, Assumption
from audit.bounds.registry import Status, bound
from audit.bounds.sources import DRS22, FS25, KJH20, OWN
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.dominating import SAMPLERS, dominating_curve
from audit.mechanism import Batching, Divisor, NoisySGD, Relation, Release

LEAST_NOISE = 0.06
"""Smallest noise multiplier for which no probability underflows."""

ACCURACY = 3e-5
"""Relative width of the brackets; the bounds are their upper ends."""

ITERATES = (Release.LAST_ITERATE, Release.RANDOM_STOP, Release.ALL_ITERATES)

SOME_ITERATES = Assumption(
    "the release of some or all iterates of the whole run",
    lambda m: m.release in ITERATES,
    lambda m: f"release={m.release.value!r}",
)
POISSON = Assumption(
    "Poisson batches",
    lambda m: m.batching is Batching.POISSON,
    lambda m: f"batching={m.batching.value!r}",
)
SAME_BATCHES = Assumption(
    "full batches, or fixed batches in a fixed order with equally many records in both datasets",
    lambda m: (
        m.batching is Batching.FULL
        or (m.batching is Batching.CYCLIC and m.relation is not Relation.ADD_REMOVE)
    ),
    lambda m: f"batching={m.batching.value!r} and relation={m.relation.value!r}",
)

RANDOM_ALLOCATION = Assumption(
    "random allocation, and a record that is removed or zeroed out",
    lambda m: m.batching is Batching.RANDOM_ALLOCATION and m.relation is not Relation.REPLACE_ONE,
    lambda m: f"batching={m.batching.value!r} and relation={m.relation.value!r}",
)
SHUFFLED = Assumption(
    "shuffled batches with equally many records in both datasets",
    lambda m: (
        m.batching in (Batching.SHUFFLED, Batching.RESHUFFLED)
        and m.relation is not Relation.ADD_REMOVE
    ),
    lambda m: f"batching={m.batching.value!r} and relation={m.relation.value!r}",
)
TRUNCATED_POISSON = Assumption(
    "truncated Poisson batches, and a record that is added or removed",
    lambda m: m.batching is Batching.TRUNCATED_POISSON and m.relation is Relation.ADD_REMOVE,
    lambda m: f"batching={m.batching.value!r} and relation={m.relation.value!r}",
)
SOME_NOISE = Assumption(
    f"a noise multiplier of at least {LEAST_NOISE:g}",
    lambda m: m.noise_multiplier >= LEAST_NOISE,
    lambda m: f"noise_multiplier={m.noise_multiplier:g}",
)


ACTUAL_DIVISOR = Assumption(
    "division by the actual size of the batch, at a rate below 1",
    lambda m: m.divisor is Divisor.ACTUAL and m.sampling_rate < 1,
    lambda m: f"divisor={m.divisor.value!r} and sampling_rate={m.sampling_rate:g}",
)


def _bounded_gradients(m: NoisySGD) -> bool:
    nominal = m.divisor is Divisor.NOMINAL
    if m.sampling_rate == 1 or (nominal and m.relation is not Relation.REPLACE_ONE):
        return True
    share = 2.0 if m.relation is Relation.REPLACE_ONE else 1.0
    bound = m.gradient_bound
    return bound is not None and m.sensitivity >= share * bound * (1 - ROUNDING)


BOUNDED_GRADIENTS = Assumption(
    "gradients whose bound alone gives the sensitivity, for replace-one or an actual divisor",
    _bounded_gradients,
    lambda m: (
        f"gradient_bound={m.gradient_bound!r} and gradient_sensitivity={m.gradient_sensitivity!r}"
    ),
)


@bound(
    id="accounting.full_batch",
    source=DRS22.at("Corollary 3.3"),
    statement="full or cyclic batches, all iterates: sqrt(k)/z-GDP, k the steps with the record",
    assumes=(SAME_BATCHES, SOME_ITERATES),
    status=Status.AS_PRINTED,
    covers=(Relation.ADD_REMOVE, Release.ALL_ITERATES),
)
def full_batch(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of Gaussian mechanisms (Dong, Roth and Su 2022): sqrt(k)/z-GDP.

    k is the number of steps that use the record, at most ceil(T b/n) for cyclic batches, and z is
    the noise multiplier.
    """
    return SAMPLERS[mechanism.batching](mechanism, ACCURACY)


@bound(
    id="accounting.poisson",
    source=KJH20.at("Theorem 4; the pair for replace-one: Schuchardt et al. (2024)"),
    statement=(
        "Poisson batches, all iterates: T-fold composition of (1-q) N(0, z^2) + q N(1, z^2) "
        "against N(0, z^2), or for replace-one of (1-q) N(0, z^2) + q N(+-1/2, z^2)"
    ),
    assumes=(POISSON, BOUNDED_GRADIENTS, SOME_ITERATES),
    status=Status.AS_PRINTED,
    covers=(Relation.ADD_REMOVE, Release.ALL_ITERATES),
)
def poisson(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of the privacy loss distributions of Poisson sampled steps.

    The numerical composition of Koskela, Jaelkoe and Honkela (2020), with all errors rounded up;
    about 3e-5 (relative) above the exact epsilon of the pair.
    """
    return SAMPLERS[Batching.POISSON](mechanism, ACCURACY)


@bound(
    id="accounting.actual_divisor",
    source=OWN.at("batches whose size is released"),
    statement=(
        "Poisson batches divided by their actual size s, all iterates: composition of s and, given "
        "s, (1 - s/n) N(0, z^2) + (s/n) N(2, z^2) against N(0, z^2) for add/remove"
    ),
    assumes=(POISSON, ACTUAL_DIVISOR, BOUNDED_GRADIENTS, SOME_ITERATES),
    status=Status.OWN,
    covers=(Divisor.ACTUAL, Relation.ADD_REMOVE, Release.ALL_ITERATES),
)
def actual_divisor(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of steps that release the batch size together with the noisy sum.

    The noisy mean is a function of the two. See `audit.dominating.actual_divisor`.
    """
    return dominating_curve(replace(mechanism, release=Release.ALL_ITERATES), accuracy=ACCURACY)


@bound(
    id="accounting.random_allocation",
    source=FS25.at("dominating pair of the allocation of 1 in t steps"),
    statement=(
        "random allocation to 1 of T steps, all iterates: composition over the epochs of the mean "
        "of N(e_t, z^2 I), t = 1, ..., T, against N(0, z^2 I)"
    ),
    assumes=(RANDOM_ALLOCATION, SOME_NOISE, SOME_ITERATES),
    status=Status.AS_PRINTED,
    covers=(Batching.RANDOM_ALLOCATION, Relation.ADD_REMOVE, Release.ALL_ITERATES),
)
def random_allocation(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of the privacy loss distributions of epochs (Feldman and Shenfeld 2025).

    Computed by doubling in the convex order, with all errors rounded up. Allocation to k of T steps
    is k-fold composition of allocation to 1 of T/k steps.
    """
    return SAMPLERS[Batching.RANDOM_ALLOCATION](mechanism, ACCURACY)


@bound(
    id="accounting.shuffled",
    source=DRS22.at("Corollary 3.3"),
    statement="shuffled batches, all iterates: sqrt(E)/z-GDP, E the epochs, rounded up",
    assumes=(SHUFFLED, SOME_ITERATES),
    status=Status.AS_PRINTED,
    covers=(Batching.RESHUFFLED, Release.ALL_ITERATES),
)
def shuffled(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of one Gaussian mechanism per epoch, given the order: sqrt(E)/z-GDP.

    Shuffling amplifies privacy by less than accountants for Poisson batches claim: at low noise the
    adversaries of Chua et al. (2024) come within 1e-5 of this bound.
    """
    epochs = -(-mechanism.steps // mechanism.steps_per_epoch)
    return GaussianCurve(math.sqrt(epochs) / mechanism.noise_multiplier)


@bound(
    id="accounting.truncated_poisson",
    source=OWN.at("mixture of two Poisson steps with a known coin"),
    statement=(
        "truncated Poisson batches, all iterates: composition of the pair for Poisson batches "
        "where fewer than B of the others are sampled, and of twice the sensitivity otherwise"
    ),
    assumes=(TRUNCATED_POISSON, SOME_NOISE, SOME_ITERATES),
    status=Status.OWN,
    covers=(Batching.TRUNCATED_POISSON, Relation.ADD_REMOVE, Release.ALL_ITERATES),
)
def truncated_poisson(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of mixtures of steps that truncate the batch and steps that do not.

    At most the epsilon of dp-accounting for ``TruncatedSubsampledGaussianDpEvent``.
    """
    return SAMPLERS[Batching.TRUNCATED_POISSON](mechanism, ACCURACY)

"""What accountants claim: the privacy of all iterates of clipped DP-SGD, whatever the losses.

Tight, for some losses attain the pair that is composed (`audit.dominating`), and valid for the last
iterate, which is computed from all of them.
"""

from __future__ import annotations

from audit.bounds.assumptions import ROUNDING, Assumption
from audit.bounds.registry import Status, bound
from audit.bounds.sources import DRS22, KJH20
from audit.curves.base import PrivacyCurve
from audit.dominating import SAMPLERS
from audit.mechanism import Batching, NoisySGD, Relation, Release

ACCURACY = 1e-5
"""Relative width of the brackets whose upper ends the bounds are."""

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
    "full batches, or fixed ones in fixed order with as many records in both datasets",
    lambda m: (
        m.batching is Batching.FULL
        or (m.batching is Batching.CYCLIC and m.relation is not Relation.ADD_REMOVE)
    ),
    lambda m: f"batching={m.batching.value!r} and relation={m.relation.value!r}",
)


def _bounded_gradients(m: NoisySGD) -> bool:
    if m.relation is not Relation.REPLACE_ONE or m.sampling_rate == 1:
        return True
    return m.gradient_bound is not None and m.sensitivity >= 2 * m.gradient_bound * (1 - ROUNDING)


BOUNDED_GRADIENTS = Assumption(
    "gradients whose bound alone gives the sensitivity, for replace-one",
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

    k is the number of steps that meet the record, at most ceil(T b/n) for cyclic batches, and z the
    noise multiplier.
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

    The numerical composition of Koskela, Jaelkoe and Honkela (2020), with errors on the safe side;
    at most 1e-5 (relative) above the exact epsilon of the pair.
    """
    return SAMPLERS[Batching.POISSON](mechanism, ACCURACY)

"""Ertan and van Dijk (2026): total variation of random allocation in closed form.

An epoch of M steps uses each record in one of them: ``Batching.RANDOM_ALLOCATION`` under
``Relation.ADD_REMOVE`` or ``ZERO_OUT``. The paper's sigma is the noise multiplier. Total variation
is delta at epsilon = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit import validate
from audit.bounds.assumptions import Assumption
from audit.bounds.statements import bound
from audit.curves.base import Order, PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

WHOLE_EPOCHS_OF_ONE = Assumption(
    "one participation in each of a whole number of epochs",
    lambda m: m.participations == 1 and m.steps % m.steps_per_epoch == 0,
    lambda m: f"participations={m.participations}, steps={m.steps}, {m.steps_per_epoch} an epoch",
)


@dataclass(frozen=True)
class TotalVariationCurve(PrivacyCurve):
    """Bound on the total variation of a pair, and nothing else: (0, distance)-DP."""

    distance: float

    @property
    def symmetric(self) -> bool:
        """True: total variation is the same in both orders."""
        return True

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.where(delta >= self.distance, 0.0, np.inf)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        mirrored = 1 - np.exp(-np.abs(epsilon)) * (1 - self.distance)
        return np.where(epsilon >= 0, self.distance, mirrored)

    def _beta(self, alpha: Array, order: Order) -> Array:
        return np.asarray(np.maximum(1 - self.distance - alpha, 0.0))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.full(alpha.shape, np.inf)


def chi_square(noise_multiplier: float, steps_per_epoch: int, epochs: int) -> float:
    """Return the chi-square divergence of E epochs: equation (9)."""
    exponent = noise_multiplier**-2.0
    if exponent > 700:
        return math.inf
    grown = epochs * math.log1p(math.expm1(exponent) / steps_per_epoch)
    return math.expm1(grown) if grown < 700 else math.inf


def total_variation_bound(chi_square: float) -> float:
    """Return the largest total variation of pairs with a given chi-square divergence."""
    if chi_square == math.inf:
        return 1.0
    validate.nonnegative(chi_square=chi_square)
    if chi_square <= 1:
        return math.sqrt(chi_square) / 2
    return 1 / (1 + 1 / chi_square)


def least_noise_multiplier(steps_per_epoch: int, epochs: int, total_variation: float) -> float:
    """Return the noise for which Theorem 3.3 gives a total variation: Corollary 3.4."""
    validate.open_unit(total_variation=total_variation)
    validate.integer(1, steps_per_epoch=steps_per_epoch, epochs=epochs)
    target = total_variation
    divergence = 4 * target**2 if target <= 0.5 else target / (1 - target)
    grown = math.expm1(math.log1p(divergence) / epochs)
    return 1 / math.sqrt(math.log1p(steps_per_epoch * grown))


def _numbers(mechanism: NoisySGD) -> tuple[float, int, int]:
    length = mechanism.steps_per_epoch
    return mechanism.noise_multiplier, length, mechanism.steps // length


@bound("evd26.theorem_3_3", whole_epochs_of_one=WHOLE_EPOCHS_OF_ONE)
def theorem_3_3(mechanism: NoisySGD) -> PrivacyCurve:
    """Bound total variation by the chi-square divergence of the dominating pair (Theorem 3.3).

    c is exactly the chi-square divergence of the uniform mixture of N(e_j/z, I) from N(0, I),
    composed over the epochs. The bound is larger than the exact value by a factor that tends to
    sqrt(pi/2) = 1.2533 as E/M falls.
    """
    distance = total_variation_bound(chi_square(*_numbers(mechanism)))
    return TotalVariationCurve(min(distance * (1 + 1e-12), 1.0))


@bound("evd26.theorem_3_5", whole_epochs_of_one=WHOLE_EPOCHS_OF_ONE)
def theorem_3_5(mechanism: NoisySGD) -> PrivacyCurve:
    """Return the Gaussian limit of random allocation (Theorem 3.5).

    The limit that Bu et al. (2019) found for Poisson batches; van Dijk and Ertan (2026, Theorem
    4.2) prove one half of it. It is no bound at finite M: z = 1, M = 64 and one epoch have epsilon
    .833 at delta = 1e-5, where the limit has .584.
    """
    noise, length, epochs = _numbers(mechanism)
    exponent = noise**-2.0
    mu = math.sqrt(epochs / length * math.expm1(min(exponent, 700.0)))
    return GaussianCurve(mu)

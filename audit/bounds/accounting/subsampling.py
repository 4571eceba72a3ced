"""One step on a sampled batch: the operator C_p on a Gaussian tradeoff function.

`SubsampledGaussian` is C_p(G(mu)) of Bok, Su and Altschuler (2024, Definition 4.7, after Dong,
Roth and Su 2022, Definition 6): replace-one neighbours, a batch drawn without replacement,
p = b/n. It is symmetric, and no accounting library offers this sampling mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.gaussian import GaussianCurve
from audit.dominating.sampled_gaussian import mirrored_renyi
from audit.numerics.normal import gaussian_delta

Array = NDArray[np.float64]

_CHUNK = 1 << 16  # points at a time: gaussian_delta needs 16 numbers for each


@dataclass(frozen=True)
class SubsampledGaussian(PrivacyCurve):
    """C_p(G(mu)), exact: the worst pair of one step on a batch drawn without replacement.

    Above loss 0 the pair is the mixture (1 - p) N(0, 1) + p N(mu, 1) against N(0, 1), below loss 0
    its mirror image, with an atom of mass (1 - p)(2 Phi(mu/2) - 1) at loss 0 between them. Hence

        delta(eps) = p delta_G(log(1 + (e^eps - 1)/p)),  delta(-eps) = 1 - e^-eps (1 - delta(eps))

    for eps >= 0, with delta_G the profile of N(0, 1) against N(mu, 1).

    rate: Sampling rate p, in (0, 1].
    mu: Distance of the two means in units of the noise, above 0.
    """

    rate: float
    mu: float

    def __post_init__(self) -> None:
        validate.positive(rate=self.rate, mu=self.mu)
        validate.closed_unit(rate=self.rate)

    @property
    def symmetric(self) -> bool:
        """True if both orders have the same values; true, since C_p symmetrises."""
        return True

    def gaussian_loss(self, loss: Array) -> Array:
        """Return log(1 + (e^loss - 1)/p): the loss without sampling."""
        small = np.minimum(loss, 1.0)
        large = np.maximum(loss, 1.0)
        return np.where(
            loss < 1,
            np.log1p(np.expm1(small) / self.rate),
            large - math.log(self.rate) + np.log1p((self.rate - 1) * np.exp(-large)),
        )

    def divergence(self, alpha: Array) -> Array:
        """Return upper bounds on the Renyi divergences, equal in both orders."""
        return mirrored_renyi(np.atleast_1d(alpha), self.rate, self.mu)

    def _delta(self, epsilon: Array, order: Order) -> Array:
        size = np.abs(epsilon)
        result = np.empty_like(size)
        for start in range(0, size.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            result[part] = gaussian_delta(self.gaussian_loss(size[part]), np.asarray(self.mu))
        result *= self.rate
        return np.where(epsilon >= 0, result, 1 - np.exp(-size) * (1 - result))

    def _epsilon(self, delta: Array, order: Order) -> Array:
        # where this truncates, delta(0) is already below delta
        inner = np.minimum(delta / self.rate, np.nextafter(1.0, 0.0))
        plain = np.asarray(GaussianCurve(self.mu).epsilon(inner))
        small, large = np.minimum(plain, 1.0), np.maximum(plain, 1.0)
        log_rate = math.log(self.rate)
        exact = np.where(
            plain < 1,
            np.log1p(self.rate * np.expm1(small)),
            large + log_rate + np.log1p((1 - self.rate) / self.rate * np.exp(-large)),
        )
        return np.where(delta >= self._delta(np.zeros(1), order), 0.0, exact)

    def _beta(self, alpha: Array, order: Order) -> Array:
        # points down to delta = 1e-14; beyond, double precision does not change
        largest = float(self._epsilon(np.array([1e-14]), order)[0])
        points = profile_points(largest, 4096)
        return tradeoff_from_profile(alpha, points, self._delta(points, order))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return self.divergence(alpha)

"""One step on a sampled batch: the operator C_p on a Gaussian tradeoff function.

`SubsampledGaussian` is C_p(G(mu)) of Bok, Su and Altschuler (2024, Definition 4.7, after Dong,
Roth and Su 2022, Definition 6): replace-one neighbours, a batch drawn without replacement,
p = b/n. It is symmetric, and no accounting library offers this sampling mode.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from audit import validate
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.gaussian import GaussianCurve
from audit.numerics.log_sums import log_sum
from audit.numerics.normal import gaussian_delta, log_density
from audit.numerics.panels import gauss_legendre

Array = NDArray[np.float64]

_ORDER = 16  # nodes of a panel
_REACH = 12.5  # where a normal density has decreased by e^-78
_CHUNK = 1 << 16  # points at a time: gaussian_delta needs 16 numbers for each


@dataclass(frozen=True)
class SubsampledGaussian(PrivacyCurve):
    """C_p(G(mu)), exact: the worst pair of one step on a batch drawn without replacement.

    Above loss 0 the pair is the mixture (1 - p) N(0, 1) + p N(mu, 1) against N(0, 1), below loss 0
    its mirror image, with an atom of mass (1 - p)(2 Phi(mu/2) - 1) at loss 0 between them. Hence

        delta(eps) = p delta_G(log(1 + (e^eps - 1)/p)),  delta(-eps) = 1 - e^-eps (1 - delta(eps))

    for eps >= 0, with delta_G the profile of N(0, 1) against N(mu, 1).

    Parameters
    ----------
    rate : float
        Sampling rate p, in (0, 1].
    mu : float
        Distance of the two means in units of the noise, above 0.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from audit.bounds.accounting import SubsampledGaussian
    >>> round(SubsampledGaussian(0.05, 1.0).epsilon(1e-5), 4)
    1.0328
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

    @property
    def atom(self) -> float:
        """Mass at loss 0, equal under both laws."""
        return float((1 - self.rate) * -math.expm1(math.log(2) + log_ndtr(-self.mu / 2)))

    def gaussian_loss(self, loss: Array) -> Array:
        """Return log(1 + (e^loss - 1)/p): the loss without sampling."""
        small = np.minimum(loss, 1.0)
        large = np.maximum(loss, 1.0)
        return np.where(
            loss < 1,
            np.log1p(np.expm1(small) / self.rate),
            large - math.log(self.rate) + np.log1p((self.rate - 1) * np.exp(-large)),
        )

    def log_tails(self, loss: Array) -> tuple[Array, Array]:
        """Return the logs of P(loss above) and Q(loss above)."""
        x = self.gaussian_loss(loss) / self.mu + self.mu / 2
        below = log_ndtr(-x)
        if self.rate == 1:
            return log_ndtr(self.mu - x), below
        mixture = np.logaddexp(
            math.log1p(-self.rate) + below, math.log(self.rate) + log_ndtr(self.mu - x)
        )
        return mixture, below

    def log_moment(self, order: float) -> float:
        """Return log E_Q[(dP/dQ)^order]: (order - 1) D_order for orders above 1.

        With w the likelihood ratio of the mixture and a = order - 1 it is the log of

            1 + integral over x > mu/2 of phi(x) [ (w - 1)(w^a - 1) + (w^(a/2) - w^(-a/2))^2 ] dx,

        which has no cancellation near order 1.
        """
        if self.rate == 1:
            return order * (order - 1) * self.mu**2 / 2
        # the pair is its own mirror image, and compositions repeat orders
        return _cached_log_moment(self, max(order, 1 - order))

    def _log_moment(self, order: float) -> float:
        x, log_weight = self._quadrature(order)
        loss = self._mixture_loss(x)
        log_phi = log_density(x) + log_weight
        power = order - 1
        if abs(power) * float(np.max(loss)) < 30:
            mixture, plain = np.exp(log_phi + loss), np.exp(log_phi)
            excess = -mixture * np.expm1(-loss) * np.expm1(power * loss)
            excess += 4 * plain * np.sinh(power * loss / 2) ** 2
            return float(math.log1p(np.sum(excess)))
        if power < 0:  # losses of 60 and more, where half of the moment is lost
            terms = [log_phi + order * loss, log_phi - power * loss]
            return float(log_sum(np.array([*map(log_sum, terms), math.log(self.atom)])))
        # the same excess by its logarithm: 1 + excess would round what compositions multiply
        raised, rest = power * loss, np.log(-np.expm1(-loss))
        grown = np.log(-np.expm1(-raised))
        log_excess = log_phi + raised + grown + np.logaddexp(loss + rest, grown)
        return float(np.logaddexp(0.0, log_sum(log_excess)))

    def _mixture_loss(self, x: Array) -> Array:
        exponent = self.mu * (x - self.mu / 2)
        small, large = np.minimum(exponent, 1.0), np.maximum(exponent, 1.0)
        return np.where(
            exponent < 1,
            np.log1p(self.rate * np.expm1(small)),
            np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + large),
        )

    def _quadrature(self, order: float) -> tuple[Array, Array]:
        """Return Gauss-Legendre nodes and log weights where w^order phi matters.

        That is near mu/2, near the peak at order * mu, and around the point where the two parts of
        the mixture are equal, which needs panels of width 1/mu.
        """
        start, peak = self.mu / 2, order * self.mu
        stop = max(start, peak) + _REACH
        equal = start + math.log((1 - self.rate) / self.rate) / self.mu
        turn = 40 / self.mu
        windows = [
            (start, start + _REACH, 0.5),
            (peak - _REACH, stop, 0.5),
            (equal - turn, equal + turn, min(0.5, 1 / self.mu)),
        ]
        edges = []
        for low, high, width in windows:
            low, high = max(low, start), min(high, stop)
            if low < high:
                edges.append(np.linspace(low, high, 1 + math.ceil((high - low) / width)))
        # between two windows, one wide panel where the integrand is negligible
        cuts = np.unique(np.concatenate(edges))
        half = np.diff(cuts) / 2
        centre = cuts[:-1] + half
        nodes, weights = gauss_legendre(_ORDER)
        points = centre[:, None] + half[:, None] * nodes
        log_weights = np.log(half)[:, None] + np.log(weights)
        return points.ravel(), log_weights.ravel()

    def divergence(self, alpha: Array) -> Array:
        """Return the Renyi divergences, equal in both orders."""
        flat = np.atleast_1d(alpha)
        if self.rate == 1:
            return flat * self.mu**2 / 2
        values = [max(self.log_moment(float(a)), 0.0) / (float(a) - 1) for a in flat]
        return np.array(values)

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


@functools.lru_cache(maxsize=8192)
def _cached_log_moment(law: SubsampledGaussian, order: float) -> float:
    return law._log_moment(order)

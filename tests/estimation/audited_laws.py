"""Pairs of laws whose privacy loss is known, and a harness that counts wrong certificates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from audit.curves import Order
from audit.estimation import Audit
from results.calibration.mechanisms import Mechanism, discrete, gaussian, laplace

Array = NDArray[np.float64]

DELTAS = np.array([1e-6, 1e-4, 1e-2, 0.1, 0.3])
JUDGED = DELTAS[1::2]  # in `wrong_anywhere`: errors at near deltas come together
ALPHAS = np.linspace(0.0, 1.0, 41)
RENYI_ORDER = 2.0


@dataclass(frozen=True, eq=False)
class KnownPair:
    """A pair whose likelihood ratio is monotone, so that threshold events are optimal.

    Its rates of {x >= t} are those at all thresholds that matter (a grid for continuous laws, fine
    enough for the truth to be right to 1e-6).
    """

    name: str
    law: Mechanism
    renyi: float  # of order 2

    def draw(
        self, generator: np.random.Generator, size: int, other: int | None = None
    ) -> tuple[Array, Array]:
        """Draw scores of both laws, equally many by default."""
        first = self.law.draw_first(generator, size)
        return first, self.law.draw_second(generator, size if other is None else other)

    def epsilon(self, delta: Array, order: Order) -> Array:
        p, q = self._rates(order)
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.log(np.maximum(p - delta[:, None], 0.0)) - np.log(q)
        return np.maximum(np.nanmax(np.where(q > 0, losses, -np.inf), axis=1), 0.0)

    def beta(self, alpha: Array, order: Order) -> Array:
        p, q = self._rates(order)
        rates = np.stack([np.append(1 - p, [0.0, 1.0]), np.append(q, [1.0, 0.0])], axis=1)
        points = np.unique(rates, axis=0)
        return np.interp(alpha, points[:, 0], points[:, 1])

    def mu(self) -> float:
        p, q = self.law.first, self.law.second
        inside = (np.minimum(p, q) > 1e-9) & (np.maximum(p, q) < 1 - 1e-9)  # else digits are lost
        return float(np.max(norm.ppf(p[inside]) - norm.ppf(q[inside])))

    def _rates(self, order: Order) -> tuple[Array, Array]:
        p, q = self.law.first, self.law.second
        return (p, q) if order is Order.FORWARD else (1 - q, 1 - p)


def _clamped(mean: float) -> tuple[Mechanism, float]:
    """Return clip(N(mean, 1)) beside clip(N(-mean, 1)), and their divergence of order 2.

    It is that of the two atoms and an integral.
    """
    t, x = np.append(np.linspace(-1.0, 1.0, 20001), [-1.5, 1.5]), np.linspace(-1.0, 1.0, 200001)
    rates = [np.where(t <= -1, 1.0, np.where(t > 1, 0.0, norm.sf(t - m))) for m in (mean, -mean)]
    inside = np.trapezoid(norm.pdf(x - mean) ** 2 / norm.pdf(x + mean), x)
    low = norm.cdf(-1 - mean) ** 2 / norm.cdf(-1 + mean)
    high = norm.sf(1 - mean) ** 2 / norm.sf(1 + mean)
    law = Mechanism(
        "clamped normal",
        lambda g, n: np.clip(g.normal(mean, 1.0, n), -1, 1),
        lambda g, n: np.clip(g.normal(-mean, 1.0, n), -1, 1),
        *rates,
        fixed=(0.0,),
    )
    return law, float(np.log(inside + low + high))


def _two_points(p: float, q: float) -> float:
    return float(np.log(p * p / q + (1 - p) ** 2 / (1 - q)))


_COIN, _K = np.array([0.25, 0.75]), np.arange(9.0)
_BINOMIAL = discrete("binomial", _K, binom.pmf(_K, 8, 0.5), binom.pmf(_K, 8, 0.3))
GAUSSIAN = KnownPair("gaussian", gaussian(1.0), RENYI_ORDER / 2)
# Mironov 2017, Proposition 6, order 2, scale 1
LAPLACE = KnownPair("laplace", laplace(), float(np.log(2 / 3 * np.exp(1) + 1 / 3 * np.exp(-2))))
IDENTICAL = KnownPair("identical", gaussian(0.0), 0.0)
CLAMPED = KnownPair("clamped", *_clamped(0.3))
BINOMIAL = KnownPair("binomial", _BINOMIAL, 8 * _two_points(0.5, 0.3))
COIN = KnownPair(
    "coin", discrete("coin", np.array([0.0, 1.0]), _COIN, _COIN[::-1]), _two_points(0.75, 0.25)
)
PAIRS = (GAUSSIAN, LAPLACE, IDENTICAL, CLAMPED, BINOMIAL, COIN)


@cache
def _truth(pair: KnownPair) -> tuple[dict[Order, Array], dict[Order, Array], float]:
    epsilons = {order: pair.epsilon(JUDGED, order) for order in Order}
    return epsilons, {order: pair.beta(ALPHAS, order) for order in Order}, pair.mu()


def wrong_anywhere(audit: Audit, pair: KnownPair) -> bool:
    """Whether any statement of the audit is false: two deltas, both orders, every quantity.

    An order whose epsilon is that of the pair is judged with it: its bound is no larger.
    """
    slack = 1e-6  # of the truth, which comes from a grid
    exact = 0.0 if pair.name == "identical" else slack
    epsilon, beta, mu = _truth(pair)
    worst = np.maximum(*epsilon.values())
    own = [order for order in Order if np.any(epsilon[order] < worst - slack)]
    return bool(
        np.any(audit.epsilon_lower(JUDGED) > worst + exact)
        or any(np.any(audit.epsilon_lower(JUDGED, o) > epsilon[o] + exact) for o in own)
        or any(np.any(audit.beta_upper(ALPHAS, o) < beta[o] - slack) for o in Order)
        or audit.mu_lower() > mu + slack
        or audit.renyi_lower(RENYI_ORDER, Order.FORWARD) > pair.renyi + slack
    )


def allowed(error: float, repeats: int) -> float:
    """Most wrong statements that an honest estimator makes, up to three standard errors."""
    return repeats * error + 3 * float(np.sqrt(repeats * error * (1 - error)))

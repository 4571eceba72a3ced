"""Posterior of epsilon given the counts of one attack: credible statements, not lower bounds.

Nothing here is certified. A credible interval may miss the true epsilon far more often than its
level says, and a test chosen on the data it is computed from makes that worse. For a lower bound
use `audit.estimation.audit_samples`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, betaln, logit

from audit import validate
from audit.numerics.panels import gauss_legendre
from audit.numerics.roots import bracketed_root

Array = NDArray[np.float64]

_PRIOR = 0.5  # Jeffreys
_NODES = 20
# Posterior levels between which an integrand is smooth enough for one panel of nodes.
_LEVELS = np.concatenate([10.0 ** np.arange(-18, -1, 2), np.linspace(0.05, 0.5, 8)])
_LARGEST_EPSILON = 1e6


@dataclass(frozen=True)
class CredibleStatement:
    """Posterior of epsilon at ``delta`` given one attack's counts. It is no bound of any kind.

    Under independent Jeffreys priors, Beta(1/2, 1/2), the attack's false negative and false
    positive rates are Beta distributed given the counts. ``epsilon`` stands for the smallest
    epsilon at which a mechanism with these two rates can be (epsilon, delta)-DP, in both orders
    (Kairouz, Oh and Viswanath 2015, Theorem 2.1), a function of the two rates (Zanella-Béguelin et
    al. 2023, Section 4). A better attack may show a larger one.

    Attributes
    ----------
    true_positives, false_positives, true_negatives, false_negatives
        The attack's counts; positive means a guess for the first mechanism of the pair.
    delta
        As given.
    """

    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    delta: float

    def probability_at_most(self, epsilon: ArrayLike) -> float | Array:
        """Return the posterior probability that epsilon is at most the given one(s), each >= 0.

        To about 10 digits; shape of ``epsilon``. Raises ``ValueError`` for a negative one.
        """
        e = validate.array_in(0, np.inf, open_ends=False, epsilon=epsilon)
        values = np.array([self._distribution(float(one)) for one in e.ravel()])
        return float(values[0]) if e.ndim == 0 else values.reshape(e.shape)

    def quantile(self, level: float) -> float:
        """Return the posterior quantile of epsilon at ``level`` in (0, 1); no lower bound."""
        validate.open_unit(level=level)
        return self._quantile(float(level))

    def interval(self, level: float) -> tuple[float, float]:
        """Return the equal-tailed credible interval of posterior probability ``level``."""
        validate.open_unit(level=level)
        tail = 0.5 * (1 - float(level))
        return self._quantile(tail), self._quantile(1 - tail)

    @property
    def _negative_rate(self) -> tuple[float, float]:
        return self.false_negatives + _PRIOR, self.true_positives + _PRIOR

    @property
    def _positive_rate(self) -> tuple[float, float]:
        return self.false_positives + _PRIOR, self.true_negatives + _PRIOR

    def _distribution(self, epsilon: float) -> float:
        """Integrate the false negative rate's posterior over the region of (epsilon, delta)-DP.

        The region's share of false positive rates is a difference of incomplete beta functions,
        so one integral is left. It runs over the logit, where the density has no singularity, on
        panels that end where either posterior or the region's edge changes its behaviour.
        """
        if self.delta == 1 or epsilon == np.inf:
            return 1.0
        below = self._beyond(epsilon, *self._negative_rate, *self._positive_rate)
        # The mirror image: the rates 1 - x, 1 - y below the same edge.
        above = self._beyond(epsilon, *self._negative_rate[::-1], *self._positive_rate[::-1])
        return float(np.clip(1 - below - above, 0.0, 1.0))

    def _beyond(self, epsilon: float, a: float, b: float, c: float, d: float) -> float:
        """P(y < edge(x)) for x ~ Beta(a, b), y ~ Beta(c, d), and the edge of `_edge`."""
        levels = np.append(_LEVELS, 1 - _LEVELS[::-1][1:])
        own = np.append(betaincinv(a, b, _LEVELS), 1 - betaincinv(b, a, _LEVELS))
        # The edge is its own inverse.
        other = self._edge(epsilon, betaincinv(c, d, levels))
        kink = (1 - self.delta) / (1 + math.exp(min(epsilon, 700.0)))
        ends = np.concatenate([own, other, [kink, 1 - self.delta]])
        low, high = float(own.min()), float(own.max())
        places = np.unique(logit(np.clip(ends[(ends > 0) & (ends < 1)], low, high)))
        places = places[np.isfinite(places)]
        if places.size < 2:
            return float(betainc(c, d, self._edge(epsilon, np.array([a / (a + b)]))[0]))
        nodes, weights = gauss_legendre(_NODES)
        half = 0.5 * np.diff(places)[:, None]
        t = 0.5 * (places[1:] + places[:-1])[:, None] + half * nodes
        log_x, log_rest = -np.logaddexp(0.0, -t), -np.logaddexp(0.0, t)
        density = np.exp(a * log_x + b * log_rest - betaln(a, b))
        share = betainc(c, d, self._edge(epsilon, np.exp(log_x)))
        total = float(np.sum(half * weights * density))
        # Both sums leave out the same far tails and rounding.
        return float(np.sum(half * weights * density * share)) / total

    def _edge(self, epsilon: float, x: Array) -> Array:
        """Smallest false positive rate beside the false negative rate x under (epsilon, delta)."""
        with np.errstate(over="ignore"):
            steep = 1 - self.delta - np.exp(epsilon) * x
        flat = np.exp(-epsilon) * (1 - self.delta - x)
        return np.asarray(np.maximum(np.maximum(steep, flat), 0.0))

    def _quantile(self, level: float) -> float:
        def gap(epsilon: float) -> float:
            return self._distribution(epsilon) - level

        if gap(0.0) >= 0:
            return 0.0
        high = 1.0
        while gap(high) < 0:
            high *= 2
            if high > _LARGEST_EPSILON:
                return math.inf
        return bracketed_root(gap, 0.0 if high == 1.0 else 0.5 * high, high, xtol=1e-10)


def credible_epsilon(
    true_positives: int,
    false_positives: int,
    true_negatives: int,
    false_negatives: int,
    *,
    delta: float,
) -> CredibleStatement:
    """Return the posterior of epsilon (not a bound) given the counts of one attack.

    Parameters
    ----------
    true_positives, false_negatives
        Right and wrong guesses where the first mechanism of the pair ran; whole, not both 0.
    true_negatives, false_positives
        Right and wrong guesses where the second one ran; whole, not both 0.
    delta
        In [0, 1]; at 1 epsilon is 0.

    Returns
    -------
    The posterior. Its quantiles are credible under the Jeffreys prior and guarantee nothing: with
    no attack at all (equal rates) the upper quantiles are still positive, and the probability that
    ``interval`` contains the true value is not its level for every mechanism.

    Raises
    ------
    ValueError
        If a count is not a whole number of at least 0, a mechanism was never run, or ``delta`` is
        not in [0, 1].
    """
    counts = {
        "true_positives": true_positives,
        "false_positives": false_positives,
        "true_negatives": true_negatives,
        "false_negatives": false_negatives,
    }
    validate.integer(0, **counts)
    validate.closed_unit(delta=delta)
    if true_positives + false_negatives == 0:
        raise validate.fail("true_positives + false_negatives", "positive", 0)
    if true_negatives + false_positives == 0:
        raise validate.fail("true_negatives + false_positives", "positive", 0)
    return CredibleStatement(**{name: int(n) for name, n in counts.items()}, delta=float(delta))

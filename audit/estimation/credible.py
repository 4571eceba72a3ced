"""Posterior of epsilon given the counts of one attack: credible statements, not lower bounds.

Nothing here is certified. A credible interval may miss the true epsilon far more often than its
level suggests, and choosing the test on the same data makes it worse. For a lower bound use
`audit.estimation.audit_samples`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, betaln, logit

from audit import validate
from audit.numerics.arrays import Array
from audit.numerics.panels import Panels
from audit.numerics.roots import bracketed_root

_PRIOR = 0.5  # Jeffreys
_NODES = 20
# Posterior levels between which an integrand is smooth enough for one panel of nodes.
_LEVELS = np.concatenate([10.0 ** np.arange(-18, -1, 2), np.linspace(0.05, 0.5, 8)])
_MAX_EPSILON = 1e6


@dataclass(frozen=True)
class CredibleStatement:
    """Posterior of epsilon at ``delta`` given the counts of one attack (not a bound).

    Under independent Jeffreys priors, Beta(1/2, 1/2), the false negative and false positive rates
    of the attack have beta posteriors given the counts. ``epsilon`` denotes the smallest epsilon
    for which a mechanism with these two rates can be (epsilon, delta)-DP in both orders (Kairouz,
    Oh and Viswanath 2015, Theorem 2.1), a function of the two rates (Zanella-Béguelin et al. 2023,
    Section 4). A stronger attack may show a larger one.
    """

    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    delta: float

    def probability_at_most(self, epsilon: ArrayLike) -> float | Array:
        """Return the posterior probability that epsilon is at most the given value."""
        e = validate.array_in(0, np.inf, open_ends=False, epsilon=epsilon)
        values = np.array([self._distribution(float(one)) for one in e.ravel()])
        return float(values[0]) if e.ndim == 0 else values.reshape(e.shape)

    def quantile(self, level: float) -> float:
        """Return a posterior quantile of epsilon (not a bound)."""
        validate.open_unit(level=level)

        def gap(epsilon: float) -> float:
            return self._distribution(epsilon) - float(level)

        if gap(0.0) >= 0:
            return 0.0
        high = 1.0
        while gap(high) < 0:
            high *= 2
            if high > _MAX_EPSILON:
                return math.inf
        return bracketed_root(gap, 0.0 if high == 1.0 else 0.5 * high, high, xtol=1e-10)

    def interval(self, level: float) -> tuple[float, float]:
        """Return the equal-tailed credible interval (not a confidence interval)."""
        validate.open_unit(level=level)
        tail = 0.5 * (1 - float(level))
        return self.quantile(tail), self.quantile(min(1 - tail, 1 - 2.0**-53))

    def _distribution(self, epsilon: float) -> float:
        """Integrate the posterior of both rates over the (epsilon, delta)-DP region."""
        if self.delta == 1 or epsilon == np.inf:
            return 1.0
        negative = self.false_negatives + _PRIOR, self.true_positives + _PRIOR
        positive = self.false_positives + _PRIOR, self.true_negatives + _PRIOR
        below = self._beyond(epsilon, *negative, *positive)
        # By symmetry: the rates 1 - x, 1 - y below the same edge.
        above = self._beyond(epsilon, *negative[::-1], *positive[::-1])
        return float(np.clip(1 - below - above, 0.0, 1.0))

    def _beyond(self, epsilon: float, a: float, b: float, c: float, d: float) -> float:
        """Return P(y < edge(x)) for x ~ Beta(a, b), y ~ Beta(c, d), and the edge of `_edge`."""
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
        panels = Panels(places, _NODES)
        t = panels.nodes
        log_x, log_rest = -np.logaddexp(0.0, -t), -np.logaddexp(0.0, t)
        density = np.exp(a * log_x + b * log_rest - betaln(a, b))
        share = betainc(c, d, self._edge(epsilon, np.exp(log_x)))
        mass = panels.weights * density
        # Both sums omit the same far tails, so the ratio cancels most of the error.
        return float(np.sum(mass * share)) / float(np.sum(mass))

    def _edge(self, epsilon: float, x: Array) -> Array:
        """Return the smallest false positive rate for the false negative rate x under the claim."""
        with np.errstate(over="ignore"):
            steep = 1 - self.delta - np.exp(epsilon) * x
        flat = np.exp(-epsilon) * (1 - self.delta - x)
        return np.asarray(np.maximum(np.maximum(steep, flat), 0.0))


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
    true_positives, false_positives, true_negatives, false_negatives : int
        The counts. True positives and false negatives are right and wrong guesses when the first
        mechanism of the pair ran, true negatives and false positives when the second one ran.
        Neither mechanism may have 0 runs.
    delta : float
        The delta, in [0, 1]; at 1, epsilon is 0.

    Returns
    -------
    CredibleStatement
        The posterior. Its quantiles are credible under the Jeffreys prior and guarantee nothing:
        for an uninformative attack (equal rates) the upper quantiles are still positive, and the
        coverage of ``interval`` is not its level for every mechanism.

    Raises
    ------
    ValueError
        If a count is not a non-negative integer, a mechanism was never run, or ``delta`` is not in
        [0, 1].

    Examples
    --------
    >>> posterior = credible_epsilon(90, 10, 90, 10, delta=1e-5)
    >>> [round(end, 2) for end in posterior.interval(0.9)]
    [1.91, 2.83]
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

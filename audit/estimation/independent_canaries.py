"""Audits of one training run whose canaries are independent of each other.

Theorem. Let (C_i, S_i), i = 1..n, be independent pairs, C_i a fair coin and S_i the observation of
canary i. Let the laws of S_i given C_i = 1 and C_i = 0 satisfy the claim (f-DP, in both orders),
for each canary separately; the laws may differ between canaries. A guesser guesses r of the coins
from S_1..S_n, with r fixed in advance, and T guesses are wrong. Then

    P[T <= u] <= E[ BinCDF(u; r, g(1 - W)) ],    W ~ Beta(n - r, r + 1),

    g(c) = max over epsilon of (c - delta(epsilon)) / (c (1 + e^epsilon)),

with W = 0 if r = n (Xiang, Wang, Xiao, Tian and Wang 2025, arXiv 2509.08704, Theorem 2, where it
is an equality for the optimal guesser of one law).

Proof. By Blackwell's theorem each S_i is a randomised function of the outcome of the claim's
dominating pair for C_i, independently over i; observing those outcomes instead can only help.
Given them the coins are independent, and guess i is wrong with probability at least e_i, the
smaller posterior probability. A sum of independent errors is stochastically smallest for the r
smallest e_i, also if guesses are chosen one by one and every outcome is revealed. The e_i are
i.i.d., so given the (r+1)-th smallest, of quantile 1 - W, the r smaller ones are independent draws
below it (ties broken by a uniform variable): T ~ Bin(r, g), where g is the mean of e below the
quantile. That mean is the least share of errors among guesses on a share c = 1 - W of outcomes. If
a is the type I error with c = a + 1 - f(a), it equals a / c, and the supporting lines of a
symmetric f, 1 - f(a) <= delta + e^epsilon a, give the maximum above.

Independence is an assumption about the mechanism, and it matters. A mechanism that with probability
p enters a state in which it reveals each coin with probability delta / p is (0, delta)-DP; for p
above 1 - confidence the bound is wrong whenever the state is entered. Canaries are independent if
their scores have separate noise: gradients of disjoint support or in orthogonal directions, under
Gaussian noise with full batches or Poisson sampling. Canaries that share a batch of fixed size, are
clipped together, or are scored by the losses of a common model are not independent. If they are
independent only given some variable V that does not depend on the coins, the claim must hold given
V.

Bounds for `Canaries.ARBITRARY` do not make this assumption, and unless delta is far below the error
a = 1 - confidence little can be certified without it. Consider a mechanism that runs M with
probability 2a and releases nothing otherwise: its epsilon at delta is M's at delta / (2a). So a
bound that is valid for every mechanism exceeds M's epsilon at delta / (2a) in at most half of M's
runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betainc, betaincinv, betaln, expit, ndtr, xlog1py, xlogy

from audit.estimation.arbitrary_canaries import LARGEST_EPSILON, LARGEST_MU, GuessCounts
from audit.numerics.panels import gauss_legendre
from audit.numerics.roots import decreasing_root, root_from_below

Array = NDArray[np.float64]
# Least share of wrong guesses when a share c of canaries is guessed, for an array of c in (0, 1].
_WrongShare = Callable[[Array], Array]

GRID_SIZE = 801  # epsilons at which a curve is used by default: the tail is sensitive to it
# Probability of the tails of the cut or the count that are not integrated; added to the result.
_LOST = 1e-18
_PANELS = 64
_NODES, _WEIGHTS = gauss_legendre(12)


def epsilon_p_value(counts: GuessCounts, epsilon: float, delta: float) -> float:
    """Return the bound of the theorem for an (epsilon, delta) claim, in closed form.

    It is the mean of BinCDF(u; r - K, 1 / (1 + e^epsilon)) over K ~ Bin(n, delta) revealed coins,
    all of which are guessed. Randomised response that reveals each coin with probability delta
    attains it.
    """
    return _epsilon_p_value(counts, delta)(epsilon)


def curve_p_value(counts: GuessCounts, epsilons: Array, deltas: Array) -> float:
    """Return the bound of the theorem with the maximum taken over ``epsilons`` only."""
    slope = expit(-epsilons)

    def wrong(c: Array) -> Array:
        lines = slope * (1 - deltas / c[..., None])
        return np.asarray(np.maximum(np.max(lines, axis=-1), 0.0))

    # the maximum has kinks where the lines of neighbouring epsilons cross, and where it leaves 0
    order = np.argsort(epsilons)
    s, d = slope[order], deltas[order]
    gap = s[:-1] - s[1:]
    cross = (s * d)[:-1] - (s * d)[1:]
    kinks = cross[gap > 0] / gap[gap > 0]
    return _p_value(counts, wrong, np.append(kinks, d))


def epsilon_lower(counts: GuessCounts, delta: float, error: float) -> float:
    """Return the largest epsilon whose `epsilon_p_value` is below ``error``."""
    p_value = _epsilon_p_value(counts, delta)
    return root_from_below(lambda e: p_value(e) - error, LARGEST_EPSILON)


def mu_lower(counts: GuessCounts, error: float) -> float:
    """Return the largest mu whose bound is below ``error``.

    The epsilons that Xiang et al. (2025) report are those of this mu.
    """

    def excess(mu: float) -> float:
        return _p_value(counts, lambda share: gaussian_wrong(share, mu)) - error

    return root_from_below(excess, LARGEST_MU)


def gaussian_wrong(share: Array, mu: float) -> Array:
    """Return the least share of wrong guesses under mu-GDP for a share of guessed canaries."""
    # the type I error Phi(a) solves Phi(a) + Phi(mu + a) = share; a is rounded down
    top = np.full(np.shape(share), -0.5 * mu)
    a = -decreasing_root(
        lambda b: ndtr(-b) + ndtr(mu - b) - share, -top - 1e-9, np.full_like(top, LARGEST_MU + 45.0)
    )
    return np.asarray(ndtr(np.minimum(a, top)) / share)


def _epsilon_p_value(counts: GuessCounts, delta: float) -> Callable[[float], float]:
    """Return the sum of `epsilon_p_value` over the numbers of revealed coins that have mass."""
    canaries, wrong = counts.canaries, counts.guesses - counts.correct
    if delta in (0.0, 1.0):
        k, chances = np.array([canaries * delta]), np.ones(1)
    else:
        mean, spread = canaries * delta, math.sqrt(canaries * delta * (1 - delta))
        # Bernstein: both tails beyond this are below _LOST
        reach = 9.2 * spread + 28.0
        low, high = max(0, math.floor(mean - reach)), min(canaries, math.ceil(mean + reach))
        k = np.arange(low, high + 1, dtype=np.float64)
        log_chances = xlogy(k, delta) + xlog1py(canaries - k, -delta)
        chances = np.exp(log_chances - (betaln(k + 1, canaries - k + 1) + math.log(canaries + 1)))
    hidden = np.maximum(counts.guesses - k, 0.0)
    few = hidden <= wrong

    def p_value(epsilon: float) -> float:
        # BinCDF(u; m, q) = I_{1-q}(m - u, u + 1), and 1 where m <= u
        tails = betainc(np.where(few, 1.0, hidden - wrong), wrong + 1.0, expit(epsilon))
        return min(1.0, float(chances @ np.where(few, 1.0, tails)) + _LOST)

    return p_value


def _p_value(counts: GuessCounts, wrong: _WrongShare, kinks: Array | None = None) -> float:
    """Return E[BinCDF(guesses - correct; guesses, wrong(1 - W))], W ~ Beta as in the theorem."""
    correct, guesses, canaries = counts.correct, counts.guesses, counts.canaries
    if correct == 0:
        return 1.0
    if guesses == canaries:
        return float(bdtr(guesses - correct, guesses, wrong(np.ones(1)))[0])
    shape = guesses + 1, canaries - guesses  # of 1 - W, the share that is guessed
    low = float(betaincinv(*shape, _LOST))
    high = 1.0 - float(betaincinv(*shape[::-1], _LOST))
    edges = np.linspace(low, high, _PANELS + 1)
    if kinks is not None:
        edges = np.unique(np.append(edges, kinks[(kinks > low) & (kinks < high)]))
    half = 0.5 * np.diff(edges)[:, None]
    share = edges[:-1, None] + half * (1 + _NODES)
    log_density = xlogy(shape[0] - 1, share) + xlog1py(shape[1] - 1, -share) - betaln(*shape)
    tails = bdtr(guesses - correct, guesses, wrong(share))
    return min(1.0, float(np.sum(half * _WEIGHTS * np.exp(log_density) * tails)) + 2 * _LOST)

"""Audits of one training run from guesses about canaries that were included at random.

Each canary is included in the training data or left out by an independent fair coin. From the
release, and knowing everything but the coins, an attacker guesses some of the coins and abstains
from the others. The number of guesses is fixed in advance. Claims hold in both orders of every pair
"one canary in or out". Each assumption about the canaries has its theorem, proven in
``docs/explanation/sampled-bounds.md``. That of arbitrary canaries stands with `_refuted`; unless
delta is far below the error little can be certified by it. That of independent canaries, of which n
have r guesses, T of them wrong, is

    P[T <= u] <= E[ BinCDF(u; r, g(1 - W)) ],    W ~ Beta(n - r, r + 1), or 0 if r = n,

    g(c) = max over epsilon of (c - delta(epsilon)) / (c (1 + e^epsilon)).

Independence is an assumption about the mechanism, and it matters. Canaries are independent if their
scores have separate noise: gradients of disjoint support or in orthogonal directions, under
Gaussian noise with full batches or Poisson sampling. Canaries that share a batch of fixed size, are
clipped together, or are scored by the losses of a common model are not independent.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import (
    bdtr,
    bdtrc,
    betainc,
    betaincinv,
    betaln,
    expit,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)

from audit import validate
from audit.curves import PrivacyCurve
from audit.numerics.arrays import Array, Flags
from audit.numerics.panels import gauss_legendre
from audit.numerics.roots import decreasing_root, root_from_below

_MAX_P_VALUE = 0.5  # up to which Theorem 5.2 is used
# Least probability, or share, of wrong guesses given that of right ones, or of guessed canaries.
_LeastWrong = Callable[[Array], Array]
_PValue = Callable[[float], float]

_MAX_EPSILON, _MAX_MU = 700.0, 80.0
_SECTIONS = 32
_TOLERANCE = 1e-12
_LOST_MASS = 1e-18  # of the tails of the cut or the count that are not integrated; it is added
_PANELS = 64
_NODES, _WEIGHTS = gauss_legendre(12)


class Canaries(enum.Enum):
    """The assumption of a bound from one run about the dependence between canaries."""

    ARBITRARY = "arbitrary"
    """No assumption: the bound holds for every mechanism."""
    INDEPENDENT = "independent"
    """The observation of a canary depends on its own coin and its own noise only."""


@dataclass(frozen=True)
class GuessCounts:
    """Numbers of correct guesses, of guesses and of canaries of one run.

    Raises
    ------
    ValueError
        If a number is not a whole number, or out of its range.

    Examples
    --------
    >>> GuessCounts(190, 200, 1000).all_correct
    GuessCounts(correct=200, guesses=200, canaries=1000)
    """

    correct: int  #: Number of correct guesses.
    guesses: int  #: Number of guesses, fixed in advance.
    canaries: int  #: Number of canaries, at least 1; ``0 <= correct <= guesses <= canaries``.

    def __post_init__(self) -> None:
        validate.integer(0, correct=self.correct, guesses=self.guesses)
        validate.integer(1, canaries=self.canaries)
        validate.convert_numbers(self)
        if self.guesses > self.canaries:
            raise validate.fail("guesses", f"at most canaries ({self.canaries})", self.guesses)
        if self.correct > self.guesses:
            raise validate.fail("correct", f"at most guesses ({self.guesses})", self.correct)

    @property
    def all_correct(self) -> GuessCounts:
        """The same guesses, all of them correct."""
        return GuessCounts(self.guesses, self.guesses, self.canaries)


@dataclass(frozen=True)
class OneRunBound:
    """A lower confidence bound from one run, and the counts it is computed from."""

    assumption: Canaries  #: The assumption about the canaries on which the bound relies.
    value: float  #: The bound, at least 0.
    #: "epsilon" (at ``delta``) or "mu"; a mu refutes claims of mu-GDP below it and nothing else.
    quantity: str
    counts: GuessCounts  #: Numbers of correct guesses, of guesses and of canaries.
    delta: float | None  #: The delta; None for a mu.
    #: Under the assumption, the mechanism's true value is at least the bound with this probability.
    confidence: float
    sampling_limit: float  #: The bound that only correct guesses would have given.


def one_run_bound(
    counts: GuessCounts, *, canaries: Canaries, delta: float | None, confidence: float
) -> OneRunBound:
    """Return a lower confidence bound on epsilon at ``delta``, or on mu, from one run.

    Parameters
    ----------
    counts : GuessCounts
        The counts of the guesses.
    canaries : Canaries
        The assumption about the canaries.
    delta : float or None
        The delta, in [0, 1]; None asks for mu.
    confidence : float
        Confidence level of the bound, in (0, 1).

    Returns
    -------
    OneRunBound
        The bound: under the assumption, every claim of a smaller epsilon (or mu) gives this many
        correct guesses with probability at most 1 - confidence. A mu must not be converted to an
        epsilon.

    Raises
    ------
    ValueError
        If a value is out of its range.

    References
    ----------
    Steinke, Nasr and Jagielski (2023). Theorem 5.2.
    Mahloujifar, Melis and Chaudhuri (2024). Algorithm 3, for arbitrary canaries.
    Xiang, Wang, Xiao, Tian and Wang (2025). arXiv:2509.08704, Theorem 2, for independent ones.

    Examples
    --------
    >>> counts = GuessCounts(232, 250, 5000)
    >>> for canaries in Canaries:
    ...     bound = one_run_bound(counts, canaries=canaries, delta=0.01, confidence=0.95)
    ...     print(canaries.value, round(bound.value, 2))
    arbitrary 0.0
    independent 1.89
    >>> one_run_bound(counts, canaries=Canaries.ARBITRARY, delta=None, confidence=0.95).quantity
    'mu'
    """
    _check(counts, canaries)
    if delta is not None:
        validate.closed_unit(delta=delta)
        delta = float(delta)
    validate.open_unit(confidence=confidence)
    asked = canaries, delta, 1 - float(confidence)
    limit = _lower(counts.all_correct, *asked)
    return OneRunBound(
        assumption=canaries,
        value=limit if counts == counts.all_correct else _lower(counts, *asked),
        quantity="mu" if delta is None else "epsilon",
        counts=counts,
        delta=delta,
        confidence=float(confidence),
        sampling_limit=limit,
    )


def one_run_p_value(
    counts: GuessCounts, *, canaries: Canaries, epsilon: float, delta: float
) -> float:
    """Bound the probability of so many correct guesses under an (epsilon, delta) claim."""
    _check(counts, canaries)
    validate.nonnegative(epsilon=epsilon)
    validate.closed_unit(delta=delta)
    return _THEOREMS[canaries].p_value(counts, float(delta))(float(epsilon))


def one_run_curve_p_value(
    counts: GuessCounts, *, canaries: Canaries, curve: PrivacyCurve, epsilons: Array | None = None
) -> float:
    """Bound the probability of this many correct guesses, or more, under a claimed curve.

    Its tradeoff function is replaced by the largest of its supporting lines at ``epsilons``.
    """
    _check(counts, canaries)
    theorem = _THEOREMS[canaries]
    if epsilons is None:
        epsilons = 40 * np.linspace(0.0, 1.0, theorem.grid_size) ** 2
    grid = np.atleast_1d(validate.array_in(0, _MAX_EPSILON, open_ends=False, epsilons=epsilons))
    deltas = np.broadcast_to(np.asarray(curve.delta(grid), dtype=np.float64), grid.shape)
    checked = validate.array_in(0, 1, open_ends=False, delta=deltas)
    return theorem.curve_p_value(counts, grid, checked)


def _check(counts: GuessCounts, canaries: Canaries) -> None:
    validate.instance(GuessCounts, counts=counts)
    validate.instance(Canaries, canaries=canaries)


def _lower(counts: GuessCounts, canaries: Canaries, delta: float | None, error: float) -> float:
    """Return the largest epsilon at ``delta``, or mu, whose p-value is below ``error``.

    For arbitrary canaries the recursion of `_refuted` also bounds the probability of this many
    correct guesses, so the minimum of both bounds does too, without a correction for multiplicity.
    """
    theorem = _THEOREMS[canaries]
    if delta is None:
        return theorem.mu_lower(counts, error)
    if counts.correct == 0 or delta == 1:
        return 0.0
    p_value = theorem.p_value(counts, delta)
    lower = root_from_below(lambda e: p_value(e) - error, _MAX_EPSILON)
    if canaries is Canaries.INDEPENDENT or delta == 0 or lower == _MAX_EPSILON:
        return lower  # the binomial is exact for delta = 0

    def refuted(epsilon: Array) -> Flags:
        return _refuted(counts, np.full(epsilon.shape, error), _lines(epsilon, delta))

    return max(lower, _largest_refuted(refuted, _MAX_EPSILON))


def _arbitrary_p_value(counts: GuessCounts, delta: float) -> _PValue:
    """Return P(W >= correct) + 2 canaries delta max_i P(correct > W >= correct - i) / i.

    W is binomial with rate e^epsilon / (1 + e^epsilon) (Steinke, Nasr and Jagielski 2023, Theorem
    5.2 and the code of Appendix D). Above 1/2 it is 1: some mechanisms exceed it where it is .88.
    """
    correct, guesses = counts.correct, counts.guesses
    fewer = np.arange(1, correct + 1, dtype=np.float64)

    def p_value(epsilon: float) -> float:
        if correct == 0:
            return 1.0
        rate = float(expit(epsilon))
        tail = float(betainc(correct, guesses - correct + 1, rate))
        if delta == 0:
            return min(tail, 1.0)
        # P(correct > W >= correct - i), from the tail in which no digits cancel.
        less = bdtr(correct - 1, guesses, rate)
        if less < 0.5:
            below = bdtr(np.maximum(correct - fewer - 1, 0), guesses, rate)
            between = less - np.where(fewer < correct, below, 0.0)
        else:
            between = bdtrc(correct - fewer - 1, guesses, rate) - bdtrc(correct - 1, guesses, rate)
        slope = float(np.max(between / fewer))
        found = tail + 2 * counts.canaries * delta * max(slope, 0.0)
        return found if found <= _MAX_P_VALUE else 1.0

    return p_value


def _arbitrary_curve_p_value(counts: GuessCounts, epsilons: Array, deltas: Array) -> float:
    """Return the largest error at which the supporting lines of a claimed curve are not refuted."""
    lines = _lines(epsilons, deltas)

    def refuted(log_error: Array) -> Flags:
        errors = np.exp(log_error)
        return _refuted(counts, errors, lambda right: np.max(lines(right[:, None]), axis=1))

    # The recursion is increasing in the error: find the largest error that it does not refute.
    return min(1.0, math.exp(_change(refuted, -_MAX_EPSILON, 0.0, 1e-9)[1]))


def _arbitrary_mu_lower(counts: GuessCounts, error: float) -> float:
    """Return the largest mu whose tradeoff function the recursion of `_refuted` refutes."""
    if counts.correct == 0:
        return 0.0

    def refuted(mu: Array) -> Flags:
        errors = np.full(mu.shape, error)
        return _refuted(counts, errors, lambda r: ndtr(ndtri(r) - mu))

    return _largest_refuted(refuted, _MAX_MU)


def _lines(epsilon: Array, delta: float | Array) -> _LeastWrong:
    """Bound the probability of a wrong guess by both lines of the tradeoff function.

    right <= e^epsilon wrong + delta, and 1 - wrong <= e^epsilon (1 - right) + delta.
    """
    flat, steep, rest = np.exp(-epsilon), np.exp(epsilon), 1 - delta

    def least_wrong(right: Array) -> Array:
        lines = np.maximum(flat * (right - delta), rest - steep * (1 - right))
        return np.asarray(np.maximum(lines, 0.0))

    return least_wrong


def _refuted(counts: GuessCounts, error: Array, least_wrong: _LeastWrong) -> Flags:
    """Return whether ``correct`` or more right guesses with probability ``error`` refute the claim.

    With p_k the probability of k correct guesses, R_i = sum_{k >= i} k p_k / canaries and H_i =
    sum_{k >= i} (guesses - k) p_k / canaries, H_i >= least_wrong(R_{i+1}) (Mahloujifar, Melis and
    Chaudhuri 2024, Theorem 3.2 and Algorithm 3): a least total above 1 is a contradiction.
    """
    correct, guesses, canaries = counts.correct, counts.guesses, counts.canaries
    right = error * correct / canaries
    wrong = error * (guesses - correct) / canaries
    for k in range(correct - 1, -1, -1):
        more = np.maximum(wrong, least_wrong(np.minimum(right, 1.0)))
        if (more == wrong).all():
            break
        right = right + k / (guesses - k) * (more - wrong)
        wrong = more
    total = guesses / canaries
    return np.asarray(right + wrong > total * (1 + _TOLERANCE))


def _largest_refuted(refuted: Callable[[Array], Flags], most: float) -> float:
    """Return the largest argument below all unrefuted ones, to about 1e-10; 0 if 0 is unrefuted."""
    low, high = 0.0, 1.0
    while high < most and bool(refuted(np.array([high]))[0]):
        low, high = high, min(2 * high, most)
    return _change(lambda grid: ~refuted(grid), low, high, 1e-10)[0]


def _change(
    holds: Callable[[Array], Flags], low: float, high: float, tolerance: float
) -> tuple[float, float]:
    """Return ends around the first argument at which something holds; ``high`` twice if none."""
    while high - low > tolerance * max(1.0, high):
        grid = np.linspace(low, high, _SECTIONS)
        holding = holds(grid)
        if not holding.any():
            return high, high
        first = int(np.argmax(holding))
        low, high = float(grid[max(first - 1, 0)]), float(grid[first])
    return low, high


def _independent_curve_p_value(counts: GuessCounts, epsilons: Array, deltas: Array) -> float:
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
    return _mean_over_cuts(counts, wrong, np.append(kinks, d))


def _independent_mu_lower(counts: GuessCounts, error: float) -> float:
    """Return the largest mu whose bound is below ``error``, as Xiang et al. (2025) report it."""

    def excess(mu: float) -> float:
        return _mean_over_cuts(counts, lambda share: gaussian_wrong(share, mu)) - error

    return root_from_below(excess, _MAX_MU)


def gaussian_wrong(share: Array, mu: float) -> Array:
    """Return the least share of wrong guesses under mu-GDP for a share of guessed canaries."""
    # the type I error Phi(a) solves Phi(a) + Phi(mu + a) = share; a is rounded down
    top = np.full(np.shape(share), -0.5 * mu)
    high = np.full_like(top, _MAX_MU + 45.0)
    a = -decreasing_root(lambda b: ndtr(-b) + ndtr(mu - b) - share, -top - 1e-9, high)
    return np.asarray(ndtr(np.minimum(a, top)) / share)


def _independent_p_value(counts: GuessCounts, delta: float) -> _PValue:
    """Return the mean of BinCDF(u; r - K, 1 / (1 + e^epsilon)) over K ~ Bin(n, delta).

    It is the bound of the theorem for (epsilon, delta) claims: K coins are revealed, and guessed.
    """
    canaries, wrong = counts.canaries, counts.guesses - counts.correct
    if delta in (0.0, 1.0):
        k, chances = np.array([canaries * delta]), np.ones(1)
    else:
        mean, spread = canaries * delta, math.sqrt(canaries * delta * (1 - delta))
        # Bernstein: both tails beyond this are below _LOST_MASS
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
        return min(1.0, float(chances @ np.where(few, 1.0, tails)) + _LOST_MASS)

    return p_value


def _mean_over_cuts(counts: GuessCounts, wrong: _LeastWrong, kinks: Array | None = None) -> float:
    """Return E[BinCDF(guesses - correct; guesses, wrong(1 - W))], W ~ Beta as in the theorem."""
    correct, guesses, canaries = counts.correct, counts.guesses, counts.canaries
    if correct == 0:
        return 1.0
    if guesses == canaries:
        return float(bdtr(guesses - correct, guesses, wrong(np.ones(1)))[0])
    shape = guesses + 1, canaries - guesses  # beta parameters of 1 - W, the share that is guessed
    low = float(betaincinv(*shape, _LOST_MASS))
    high = 1.0 - float(betaincinv(*shape[::-1], _LOST_MASS))
    edges = np.linspace(low, high, _PANELS + 1)
    if kinks is not None:
        edges = np.unique(np.append(edges, kinks[(kinks > low) & (kinks < high)]))
    half = 0.5 * np.diff(edges)[:, None]
    share = edges[:-1, None] + half * (1 + _NODES)
    log_density = xlogy(shape[0] - 1, share) + xlog1py(shape[1] - 1, -share) - betaln(*shape)
    tails = bdtr(guesses - correct, guesses, wrong(share))
    return min(1.0, float(np.sum(half * _WEIGHTS * np.exp(log_density) * tails)) + 2 * _LOST_MASS)


class _Theorem(NamedTuple):
    """The bounds that an assumption about the canaries gives."""

    p_value: Callable[[GuessCounts, float], _PValue]  # p-value of claims of epsilon at one delta
    curve_p_value: Callable[[GuessCounts, Array, Array], float]
    mu_lower: Callable[[GuessCounts, float], float]
    grid_size: int  # epsilons at which a curve is used by default


_THEOREMS = {
    Canaries.ARBITRARY: _Theorem(
        _arbitrary_p_value, _arbitrary_curve_p_value, _arbitrary_mu_lower, 161
    ),
    Canaries.INDEPENDENT: _Theorem(  # the tail is sensitive to the grid
        _independent_p_value, _independent_curve_p_value, _independent_mu_lower, 801
    ),
}

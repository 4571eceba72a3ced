"""Audits of one training run from guesses about canaries that were included at random.

Each of ``canaries`` records is included in the training data or left out by an independent fair
coin. From the release, and knowing everything but the coins, an attacker guesses some of the coins
and abstains from the others. The number of guesses is fixed in advance; ``correct`` of them are
right.

Statements are about the mechanism and the relation "one canary in or out": claims of
(epsilon, delta)-DP or f-DP that hold in both orders of every such pair.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betainc, expit, ndtr, ndtri

from audit import validate
from audit.numerics.roots import bracketed_root

Array = NDArray[np.float64]
# Least probability of a wrong guess, given that of a right one; arrays with one entry per claim.
_LeastWrong = Callable[[Array], Array]

LARGEST_EPSILON = 700.0
LARGEST_MU = 80.0
_SECTIONS = 32
_TOLERANCE = 1e-12


class Canaries(enum.Enum):
    """The assumption of a bound from one run about the dependence between canaries."""

    ARBITRARY = "arbitrary"
    """No assumption: the bound holds for every mechanism."""
    INDEPENDENT = "independent"
    """The observation of a canary depends on its own coin and its own noise only."""


class Profile(Protocol):
    """A privacy curve: ``delta(epsilon)`` for any real epsilon, the worse of both orders."""

    def delta(self, epsilon: Array, /) -> float | Array:
        """Return the smallest delta at each epsilon.

        Parameters
        ----------
        epsilon : numpy.ndarray
            The epsilons.

        Returns
        -------
        float or numpy.ndarray
            The deltas, same shape.
        """
        ...


@dataclass(frozen=True)
class OneRunBound:
    """A lower confidence bound from one run, and the counts it is computed from.

    It holds for every mechanism; the class attribute ``assumption`` is `Canaries.ARBITRARY`.

    Attributes
    ----------
    value : float
        The bound, at least 0. The mechanism's true value is at least this with probability at least
        ``confidence``.
    quantity : str
        "epsilon" (at ``delta``) or "mu"; a mu refutes claims of mu-GDP below it and nothing else.
    correct, guesses, canaries : int
        Numbers of correct guesses, of guesses and of canaries.
    delta : float or None
        The delta; None for a mu.
    confidence : float
        The confidence level.
    sampling_limit : float
        The bound that only correct guesses would have given.
    """

    value: float
    quantity: str
    correct: int
    guesses: int
    canaries: int
    delta: float | None
    confidence: float
    sampling_limit: float

    assumption: ClassVar[Canaries] = Canaries.ARBITRARY


def one_run_p_value(
    correct: int, guesses: int, *, canaries: int, epsilon: float, delta: float
) -> float:
    """Bound the probability of this many correct guesses under an (epsilon, delta) claim.

    Parameters
    ----------
    correct, guesses : int
        Numbers of correct guesses and of guesses, ``0 <= correct <= guesses <= canaries``.
    canaries : int
        Number of canaries, at least 1.
    epsilon, delta : float
        The claim: a finite epsilon of at least 0, and a delta in [0, 1].

    Returns
    -------
    float
        A number p in [0, 1] such that every (epsilon, delta)-DP mechanism gives ``correct`` or more
        right guesses with probability at most p: P(W >= correct) + 2 canaries delta max_i P(correct
        > W >= correct - i) / i, where W is binomial with rate e^epsilon / (1 + e^epsilon).

    Raises
    ------
    ValueError
        If a value is out of its range.

    References
    ----------
    Steinke, Nasr and Jagielski (2023). Theorem 5.2 and the code of Appendix D.

    Examples
    --------
    >>> one_run_p_value(140, 200, canaries=1000, epsilon=0.5, delta=0.0).__round__(4)
    0.0133
    """
    check_counts(correct, guesses, canaries)
    validate.nonnegative(epsilon=epsilon)
    validate.closed_unit(delta=delta)
    return _steinke(int(correct), int(guesses), int(canaries), float(epsilon), float(delta))


def one_run_epsilon(
    correct: int, guesses: int, *, canaries: int, delta: float, confidence: float
) -> OneRunBound:
    """Return a lower confidence bound on epsilon at ``delta`` from one run.

    A claim of epsilon is refuted if the smaller of two bounds on the probability of this many
    correct guesses is below 1 - confidence: `one_run_p_value`, and the recursion of Mahloujifar,
    Melis and Chaudhuri (2024, Algorithm 3) for the tradeoff function of (epsilon, delta). Both
    bound the same probability, so their minimum does too, without a correction for multiplicity.

    Parameters
    ----------
    correct, guesses : int
        Numbers of correct guesses and of guesses, ``0 <= correct <= guesses <= canaries``.
    canaries : int
        Number of canaries, at least 1.
    delta : float
        The delta, in [0, 1].
    confidence : float
        Confidence level of the bound, in (0, 1).

    Returns
    -------
    OneRunBound
        The bound; at delta = 0 it is the logit of the Clopper-Pearson lower limit of the rate of
        correct guesses.

    Raises
    ------
    ValueError
        If a value is out of its range.

    References
    ----------
    Steinke, Nasr and Jagielski (2023). Theorem 5.2.
    Mahloujifar, Melis and Chaudhuri (2024). Algorithm 3.

    Examples
    --------
    >>> one_run_epsilon(190, 200, canaries=1000, delta=1e-5, confidence=0.95).value.__round__(2)
    2.39
    """
    check_counts(correct, guesses, canaries)
    validate.closed_unit(delta=delta)
    validate.open_unit(confidence=confidence)
    counts = int(correct), int(guesses), int(canaries)
    error = 1 - float(confidence)
    limit = _epsilon_lower(counts[1], *counts[1:], float(delta), error)
    value = limit if correct == guesses else _epsilon_lower(*counts, float(delta), error)
    return OneRunBound(value, "epsilon", *counts, float(delta), float(confidence), limit)


def one_run_mu(correct: int, guesses: int, *, canaries: int, confidence: float) -> OneRunBound:
    """Return mu such that "the mechanism is m-GDP" is refuted for every m below it.

    The bound refutes Gaussian claims and nothing else, and must not be converted to an epsilon.

    Parameters
    ----------
    correct, guesses : int
        Numbers of correct guesses and of guesses, ``0 <= correct <= guesses <= canaries``.
    canaries : int
        Number of canaries, at least 1.
    confidence : float
        Confidence level of the bound, in (0, 1).

    Returns
    -------
    OneRunBound
        The bound: with probability at least ``confidence`` no claim of a smaller mu is true.

    Raises
    ------
    ValueError
        If a value is out of its range.

    References
    ----------
    Mahloujifar, Melis and Chaudhuri (2024). Algorithm 3 with the tradeoff function of mu-GDP.

    Examples
    --------
    >>> one_run_mu(190, 200, canaries=1000, confidence=0.95).value.__round__(2)
    0.91
    """
    check_counts(correct, guesses, canaries)
    validate.open_unit(confidence=confidence)
    counts = int(correct), int(guesses), int(canaries)
    error = 1 - float(confidence)
    limit = _mu_lower(counts[1], *counts[1:], error)
    value = limit if correct == guesses else _mu_lower(*counts, error)
    return OneRunBound(value, "mu", *counts, None, float(confidence), limit)


def one_run_curve_p_value(
    correct: int,
    guesses: int,
    *,
    canaries: int,
    curve: Profile,
    epsilons: Array | None = None,
) -> float:
    """Bound the probability of this many correct guesses under a claimed privacy curve.

    Parameters
    ----------
    correct, guesses : int
        Numbers of correct guesses and of guesses, ``0 <= correct <= guesses <= canaries``.
    canaries : int
        Number of canaries, at least 1.
    curve : Profile
        The claim: the mechanism is (epsilon, ``curve.delta(epsilon)``)-DP for every epsilon. Any
        `audit.curves.PrivacyCurve` will do, such as the value of `audit.bounds.evaluate`.
    epsilons : numpy.ndarray, optional
        The epsilons at which the claim is used; by default 161 values from 0 to 40, dense near 0.
        Fewer values give a larger, still valid, bound.

    Returns
    -------
    float
        A number p in [0, 1] such that a mechanism that satisfies the claim gives ``correct`` or
        more right guesses with probability at most p.

    Raises
    ------
    ValueError
        If a value is out of its range, or the curve returns a delta outside [0, 1].

    References
    ----------
    Mahloujifar, Melis and Chaudhuri (2024). Algorithm 3, with the tradeoff function replaced by the
    largest of its supporting lines at ``epsilons``.

    Examples
    --------
    >>> from audit.curves import GaussianCurve
    >>> one_run_curve_p_value(
    ...     190, 200, canaries=1000, curve=GaussianCurve(1.0)
    ... ).__round__(3)
    0.111
    """
    check_counts(correct, guesses, canaries)
    grid = default_epsilons(epsilons, 161)
    deltas = profile_deltas(curve, grid)

    def least_wrong(right: Array) -> Array:
        return np.asarray(np.max(_lines(right[:, None], grid, deltas), axis=1))

    # The recursion is increasing in the error: find the largest error that it does not refute.
    low, high = -LARGEST_EPSILON, 0.0  # logarithms
    counts = int(correct), int(guesses), int(canaries)
    while high - low > 1e-9:
        errors = np.linspace(low, high, _SECTIONS)
        refuted = _refuted(*counts, np.exp(errors), least_wrong)
        index = int(np.argmax(refuted)) if refuted.any() else _SECTIONS - 1
        if refuted.any() and index == 0:
            high = low
            break
        if not refuted.any():
            low = high
            break
        low, high = float(errors[index - 1]), float(errors[index])
    return min(1.0, math.exp(high))


def default_epsilons(epsilons: Array | None, size: int) -> Array:
    """Return the checked epsilons, or by default ``size`` values from 0 to 40, dense near 0."""
    if epsilons is None:
        return np.asarray(40 * np.linspace(0.0, 1.0, size) ** 2)
    return np.atleast_1d(validate.array_in(0, LARGEST_EPSILON, open_ends=False, epsilons=epsilons))


def profile_deltas(curve: Profile, epsilons: Array) -> Array:
    """Return the checked deltas of a claimed curve."""
    deltas = np.broadcast_to(np.asarray(curve.delta(epsilons), dtype=np.float64), epsilons.shape)
    return validate.array_in(0, 1, open_ends=False, delta=deltas)


def check_counts(correct: int, guesses: int, canaries: int) -> None:
    """Require ``0 <= correct <= guesses <= canaries`` and ``canaries >= 1``."""
    validate.integer(0, correct=correct, guesses=guesses)
    validate.integer(1, canaries=canaries)
    if guesses > canaries:
        raise validate.fail("guesses", f"at most canaries ({canaries})", guesses)
    if correct > guesses:
        raise validate.fail("correct", f"at most guesses ({guesses})", correct)


def _binomial_at_least(count: float, total: int, rate: float) -> float:
    if count <= 0:
        return 1.0
    return float(betainc(count, total - count + 1, rate))


def _steinke(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    if correct == 0:
        return 1.0
    rate = float(expit(epsilon))
    tail = _binomial_at_least(correct, guesses, rate)
    if delta == 0:
        return min(tail, 1.0)
    fewer = np.arange(1, correct + 1, dtype=np.float64)
    # P(correct > W >= correct - i), from the tail in which no digits cancel.
    below = bdtr(correct - 1, guesses, rate) - _below(correct - fewer, guesses, rate)
    above = bdtrc(correct - fewer - 1, guesses, rate) - bdtrc(correct - 1, guesses, rate)
    between = np.where(bdtr(correct - 1, guesses, rate) < 0.5, below, above)
    slope = float(np.max(between / fewer))
    return min(tail + 2 * canaries * delta * max(slope, 0.0), 1.0)


def _below(count: Array, total: int, rate: float) -> Array:
    """Return P(W < count)."""
    values = bdtr(np.maximum(count - 1, 0), total, rate)
    return np.asarray(np.where(count <= 0, 0.0, values))


def _lines(right: Array, epsilon: Array, delta: Array) -> Array:
    """Return the least probability of a wrong guess, from both lines of the tradeoff function.

    right <= e^epsilon wrong + delta, and 1 - wrong <= e^epsilon (1 - right) + delta.
    """
    first = np.exp(-epsilon) * (right - delta)
    second = 1 - delta - np.exp(epsilon) * (1 - right)
    return np.asarray(np.maximum(np.maximum(first, second), 0.0))


def _refuted(
    correct: int, guesses: int, canaries: int, error: Array, least_wrong: _LeastWrong
) -> NDArray[np.bool_]:
    """Return whether ``correct`` or more right guesses with probability ``error`` refute the claim.

    Let p_k be the probability of k correct guesses in total. For one canary and i or more correct
    guesses among the others, f-DP bounds the probability of a right guess by that of a wrong one,
    given the other coins. Averaged over coins and canaries (the bound is convex),

        H_i >= least_wrong(R_{i+1}),   R_i = sum_{k >= i} k p_k / canaries,
                                       H_i = sum_{k >= i} (guesses - k) p_k / canaries

    (Mahloujifar, Melis and Chaudhuri 2024, Theorem 3.2 and Algorithm 3). If ``error`` is the
    probability of ``correct`` or more, the total probability is least if all of it is put on
    ``correct``, and then as little as these inequalities allow on each smaller k; a total above 1
    is a contradiction. (Mass moved up, or added early, raises R_i by at least i / (guesses - i)
    times the increase of H_i, so all later R_i and H_i are no smaller.)
    """
    right = error * correct / canaries
    wrong = error * (guesses - correct) / canaries
    for k in range(correct - 1, -1, -1):
        more = np.maximum(wrong, least_wrong(np.minimum(right, 1.0)))
        if np.array_equal(more, wrong):
            break
        right = right + k / (guesses - k) * (more - wrong)
        wrong = more
    total = guesses / canaries
    return np.asarray(right + wrong > total * (1 + _TOLERANCE))


def _epsilon_lower(correct: int, guesses: int, canaries: int, delta: float, error: float) -> float:
    if correct == 0 or delta == 1:
        return 0.0

    def refuted(epsilon: Array) -> NDArray[np.bool_]:
        errors, deltas = np.full((2, *epsilon.shape), [[error], [delta]])
        return _refuted(
            correct, guesses, canaries, errors, lambda right: _lines(right, epsilon, deltas)
        )

    def excess(epsilon: float) -> float:
        return _steinke(correct, guesses, canaries, epsilon, delta) - error

    steinke = 0.0
    if excess(0.0) < 0:
        if excess(LARGEST_EPSILON) < 0:
            return LARGEST_EPSILON
        steinke = root_below(excess, LARGEST_EPSILON)
    if delta == 0:  # the binomial is exact
        return steinke
    return max(steinke, _largest_refuted(refuted, LARGEST_EPSILON))


def _mu_lower(correct: int, guesses: int, canaries: int, error: float) -> float:
    if correct == 0:
        return 0.0

    def refuted(mu: Array) -> NDArray[np.bool_]:
        errors = np.full(mu.shape, error)
        return _refuted(correct, guesses, canaries, errors, lambda r: ndtr(ndtri(r) - mu))

    return _largest_refuted(refuted, LARGEST_MU)


def root_below(excess: Callable[[float], float], most: float) -> float:
    """Return the root of an increasing function in [0, most], from its negative side."""
    root = bracketed_root(excess, 0.0, most, xtol=1e-12)
    while root > 0 and excess(root) > 0:
        root = max(root - 1e-12 * max(root, 1.0), 0.0)
    return root


def _largest_refuted(refuted: Callable[[Array], NDArray[np.bool_]], most: float) -> float:
    """Return the largest argument below all unrefuted ones, to about 1e-10; 0 if 0 is unrefuted."""
    low, high = 0.0, 1.0
    while high < most and bool(refuted(np.array([high]))[0]):
        low, high = high, min(2 * high, most)
    while high - low > 1e-10 * max(1.0, high):
        grid = np.linspace(low, high, _SECTIONS)
        refutations = refuted(grid)
        if bool(refutations.all()):
            return float(high)
        first = int(np.argmin(refutations))
        if first == 0:
            return float(low)
        low, high = float(grid[first - 1]), float(grid[first])
    return low

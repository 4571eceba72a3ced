"""The theorem about one run whose canaries may depend on each other in any way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betainc, expit, ndtr, ndtri

from audit import validate
from audit.numerics.roots import root_from_below

Array = NDArray[np.float64]
# Least probability of a wrong guess, given that of a right one; arrays with one entry per claim.
_LeastWrong = Callable[[Array], Array]

LARGEST_EPSILON, LARGEST_MU = 700.0, 80.0
GRID_SIZE = 161  # epsilons at which a curve is used by default
_SECTIONS = 32
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class GuessCounts:
    """Numbers of correct guesses, of guesses and of canaries of one run.

    Parameters
    ----------
    correct, guesses, canaries : int
        The numbers, ``0 <= correct <= guesses <= canaries`` with at least 1 canary. The number of
        guesses must be fixed in advance.

    Raises
    ------
    ValueError
        If a number is not a whole number, or out of its range.

    Examples
    --------
    >>> GuessCounts(190, 200, 1000).all_correct
    GuessCounts(correct=200, guesses=200, canaries=1000)
    """

    correct: int
    guesses: int
    canaries: int

    def __post_init__(self) -> None:
        validate.integer(0, correct=self.correct, guesses=self.guesses)
        validate.integer(1, canaries=self.canaries)
        for name in ("correct", "guesses", "canaries"):
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.guesses > self.canaries:
            raise validate.fail("guesses", f"at most canaries ({self.canaries})", self.guesses)
        if self.correct > self.guesses:
            raise validate.fail("correct", f"at most guesses ({self.guesses})", self.correct)

    @property
    def all_correct(self) -> GuessCounts:
        """The same guesses, all of them correct."""
        return GuessCounts(self.guesses, self.guesses, self.canaries)


def epsilon_p_value(counts: GuessCounts, epsilon: float, delta: float) -> float:
    """Return P(W >= correct) + 2 canaries delta max_i P(correct > W >= correct - i) / i.

    W is binomial with rate e^epsilon / (1 + e^epsilon) (Steinke, Nasr and Jagielski 2023, Theorem
    5.2 and the code of Appendix D).
    """
    correct, guesses = counts.correct, counts.guesses
    if correct == 0:
        return 1.0
    rate = float(expit(epsilon))
    tail = float(betainc(correct, guesses - correct + 1, rate))
    if delta == 0:
        return min(tail, 1.0)
    fewer = np.arange(1, correct + 1, dtype=np.float64)
    # P(correct > W >= correct - i), from the tail in which no digits cancel.
    less = bdtr(correct - 1, guesses, rate)
    if less < 0.5:
        below = bdtr(np.maximum(correct - fewer - 1, 0), guesses, rate)
        between = less - np.where(fewer < correct, below, 0.0)
    else:
        between = bdtrc(correct - fewer - 1, guesses, rate) - bdtrc(correct - 1, guesses, rate)
    slope = float(np.max(between / fewer))
    return min(tail + 2 * counts.canaries * delta * max(slope, 0.0), 1.0)


def curve_p_value(counts: GuessCounts, epsilons: Array, deltas: Array) -> float:
    """Return the largest error at which the supporting lines of a claimed curve are not refuted."""
    lines = _lines(epsilons, deltas)

    def least_wrong(right: Array) -> Array:
        return np.asarray(np.max(lines(right[:, None]), axis=1))

    # The recursion is increasing in the error: find the largest error that it does not refute.
    low, high = -LARGEST_EPSILON, 0.0  # logarithms
    while high - low > 1e-9:
        errors = np.linspace(low, high, _SECTIONS)
        refuted = _refuted(counts, np.exp(errors), least_wrong)
        if not refuted.any():
            break
        index = int(np.argmax(refuted))
        low, high = float(errors[max(index - 1, 0)]), float(errors[index])
    return min(1.0, math.exp(high))


def epsilon_lower(counts: GuessCounts, delta: float, error: float) -> float:
    """Return the largest epsilon that one of two bounds on the same probability refutes.

    They are `epsilon_p_value` and the recursion of `_refuted` for (epsilon, delta). Both bound the
    probability of this many correct guesses, so their minimum does too, without a correction for
    multiplicity. At delta = 0 it is the logit of the Clopper-Pearson lower limit.
    """
    if counts.correct == 0 or delta == 1:
        return 0.0

    def refuted(epsilon: Array) -> NDArray[np.bool_]:
        return _refuted(counts, np.full(epsilon.shape, error), _lines(epsilon, delta))

    def excess(epsilon: float) -> float:
        return epsilon_p_value(counts, epsilon, delta) - error

    steinke = root_from_below(excess, LARGEST_EPSILON)
    if delta == 0 or steinke == LARGEST_EPSILON:  # the binomial is exact
        return steinke
    return max(steinke, _largest_refuted(refuted, LARGEST_EPSILON))


def mu_lower(counts: GuessCounts, error: float) -> float:
    """Return the largest mu whose tradeoff function the recursion of `_refuted` refutes."""
    if counts.correct == 0:
        return 0.0

    def refuted(mu: Array) -> NDArray[np.bool_]:
        errors = np.full(mu.shape, error)
        return _refuted(counts, errors, lambda r: ndtr(ndtri(r) - mu))

    return _largest_refuted(refuted, LARGEST_MU)


def _lines(epsilon: Array, delta: float | Array) -> _LeastWrong:
    """Bound the probability of a wrong guess by both lines of the tradeoff function.

    right <= e^epsilon wrong + delta, and 1 - wrong <= e^epsilon (1 - right) + delta.
    """
    flat, steep, rest = np.exp(-epsilon), np.exp(epsilon), 1 - delta

    def least_wrong(right: Array) -> Array:
        lines = np.maximum(flat * (right - delta), rest - steep * (1 - right))
        return np.asarray(np.maximum(lines, 0.0))

    return least_wrong


def _refuted(counts: GuessCounts, error: Array, least_wrong: _LeastWrong) -> NDArray[np.bool_]:
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
        low, high = float(grid[max(first - 1, 0)]), float(grid[first])
    return low

"""Audits of one training run from guesses about canaries that were included at random.

Each canary is included in the training data or left out by an independent fair coin. From the
release, and knowing everything but the coins, an attacker guesses some of the coins and abstains
from the others. The number of guesses is fixed in advance.

Statements are about the mechanism and the relation "one canary in or out": claims of
(epsilon, delta)-DP or f-DP that hold in both orders of every such pair. Each assumption about the
canaries has its theorem: `audit.estimation.arbitrary_canaries` and
`audit.estimation.independent_canaries`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.estimation import arbitrary_canaries, independent_canaries
from audit.estimation.arbitrary_canaries import LARGEST_EPSILON, GuessCounts

Array = NDArray[np.float64]


class Canaries(enum.Enum):
    """The assumption of a bound from one run about the dependence between canaries."""

    ARBITRARY = "arbitrary"
    """No assumption: the bound holds for every mechanism."""
    INDEPENDENT = "independent"
    """The observation of a canary depends on its own coin and its own noise only."""


_THEOREMS = {
    Canaries.ARBITRARY: arbitrary_canaries,
    Canaries.INDEPENDENT: independent_canaries,
}


class Profile(Protocol):
    """A privacy curve: ``delta(epsilon)`` for any real epsilon, the worse of both orders."""

    def delta(self, epsilon: Array, /) -> float | Array:
        """Return the smallest delta at each epsilon."""
        ...


@dataclass(frozen=True)
class OneRunBound:
    """A lower confidence bound from one run, and the counts it is computed from.

    Attributes
    ----------
    assumption : Canaries
        The assumption about the canaries on which the bound relies.
    value : float
        The bound, at least 0. Under the assumption, the mechanism's true value is at least this
        with probability at least ``confidence``.
    quantity : str
        "epsilon" (at ``delta``) or "mu"; a mu refutes claims of mu-GDP below it and nothing else.
    counts : GuessCounts
        Numbers of correct guesses, of guesses and of canaries.
    delta : float or None
        The delta; None for a mu.
    confidence : float
        The confidence level.
    sampling_limit : float
        The bound that only correct guesses would have given.
    """

    assumption: Canaries
    value: float
    quantity: str
    counts: GuessCounts
    delta: float | None
    confidence: float
    sampling_limit: float


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
        correct guesses with probability at most 1 - confidence. An epsilon holds for every law of
        the mechanism. A mu refutes Gaussian claims below it and nothing else, and must not be
        converted to an epsilon.

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
    validate.open_unit(confidence=confidence)
    theorem, error = _THEOREMS[canaries], 1 - float(confidence)

    def lower(seen: GuessCounts) -> float:
        if delta is None:
            return float(theorem.mu_lower(seen, error))
        return float(theorem.epsilon_lower(seen, float(delta), error))

    limit = lower(counts.all_correct)
    return OneRunBound(
        assumption=canaries,
        value=limit if counts == counts.all_correct else lower(counts),
        quantity="mu" if delta is None else "epsilon",
        counts=counts,
        delta=None if delta is None else float(delta),
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
    return float(_THEOREMS[canaries].epsilon_p_value(counts, float(epsilon), float(delta)))


def one_run_curve_p_value(
    counts: GuessCounts, *, canaries: Canaries, curve: Profile, epsilons: Array | None = None
) -> float:
    """Bound the probability of this many correct guesses, or more, under a claimed curve.

    Its tradeoff function is replaced by the largest of its supporting lines at ``epsilons``.
    """
    _check(counts, canaries)
    theorem = _THEOREMS[canaries]
    if epsilons is None:
        epsilons = 40 * np.linspace(0.0, 1.0, theorem.GRID_SIZE) ** 2
    grid = np.atleast_1d(validate.array_in(0, LARGEST_EPSILON, open_ends=False, epsilons=epsilons))
    deltas = np.broadcast_to(np.asarray(curve.delta(grid), dtype=np.float64), grid.shape)
    checked = validate.array_in(0, 1, open_ends=False, delta=deltas)
    return float(theorem.curve_p_value(counts, grid, checked))


def _check(counts: GuessCounts, canaries: Canaries) -> None:
    validate.instance(GuessCounts, counts=counts)
    validate.instance(Canaries, canaries=canaries)

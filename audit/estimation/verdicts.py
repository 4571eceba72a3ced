"""Verdicts on claims, given certified numbers or p-values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.numerics.arrays import Flags


class Verdict(enum.Enum):
    """The verdict on a claim; there is no "verified".

    HOLDS is for claims that were checked by a complete computation. A claim that samples or
    certificates merely failed to refute is CONSISTENT.
    """

    HOLDS = "holds"
    CONSISTENT = "consistent"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"
    ERROR = "error"

    @classmethod
    def unless(cls, refuted: bool) -> Verdict:
        """Return the verdict of an attempt at refutation: REFUTED or CONSISTENT.

        Parameters
        ----------
        refuted : bool
            Whether the attempt succeeded.

        Returns
        -------
        Verdict
            REFUTED if ``refuted``, else CONSISTENT.
        """
        return cls.REFUTED if refuted else cls.CONSISTENT


@dataclass(frozen=True)
class UserClaim:
    """A claim of the mechanism's author: (epsilon, delta)-differential privacy.

    Examples
    --------
    >>> UserClaim("accountant", 2.0, 1e-5).epsilon
    2.0
    """

    name: str  #: Name of the claim; may be empty.
    epsilon: float  #: The claimed epsilon, at least 0.
    delta: float  #: The delta, in [0, 1).

    def __post_init__(self) -> None:
        validate.nonnegative(epsilon=self.epsilon)
        validate.half_open_unit(delta=self.delta)


def user_claim(claim: UserClaim | tuple[float, float], name: str) -> UserClaim:
    """Return a claim, or that of a pair (epsilon, delta); ``name`` is for messages."""
    if isinstance(claim, UserClaim):
        return claim
    try:
        epsilon, delta = claim
    except (TypeError, ValueError):
        raise validate.fail(name, "a pair (epsilon, delta)", claim) from None
    return UserClaim("", epsilon, delta)


def judge_upper_bound(claimed: float, certified_low: float) -> Verdict:
    """Judge the claim "the true value is at most ``claimed``".

    Parameters
    ----------
    claimed : float
        The claimed upper bound.
    certified_low : float
        The lower end of an error bracket, or a lower confidence bound: every numerical and
        statistical error must already be taken against the refutation. For scores see
        `audit.estimation.judge_scores`, which knows when they show nothing.

    Returns
    -------
    Verdict
        REFUTED or CONSISTENT.

    Examples
    --------
    >>> judge_upper_bound(1.0, 1.3).value
    'refuted'
    >>> judge_upper_bound(1.0, 0.8).value
    'consistent'
    """
    return Verdict.unless(certified_low > claimed)


def judge_interval(low: float, high: float, claim_low: float, claim_high: float) -> Verdict:
    """Judge the claim "the true value lies in [claim_low, claim_high]" by an error bracket.

    Parameters
    ----------
    low, high : float
        The ends of the bracket, which contains the true value.
    claim_low, claim_high : float
        The ends of the claimed interval.

    Returns
    -------
    Verdict
        CONSISTENT if the bracket lies inside the claimed interval, REFUTED if the two are disjoint,
        INCONCLUSIVE otherwise.

    Examples
    --------
    >>> judge_interval(1.0, 1.1, 0.5, 2.0).value
    'consistent'
    >>> judge_interval(1.0, 1.1, 1.05, 2.0).value
    'inconclusive'
    """
    if high < claim_low or low > claim_high:
        return Verdict.REFUTED
    if claim_low <= low and high <= claim_high:
        return Verdict.CONSISTENT
    return Verdict.INCONCLUSIVE


def holm(p_values: ArrayLike, *, error: float) -> Flags:
    """Return which hypotheses Holm's step-down procedure rejects.

    The smallest of m p-values is compared with error / m, the next one with error / (m - 1), and so
    on, up to the first that is larger.

    Parameters
    ----------
    p_values : array_like
        One p-value per hypothesis, in [0, 1], shape (m,), dependent in any way.
    error : float
        Probability, in (0, 1), with which any true hypothesis may be rejected.

    Returns
    -------
    numpy.ndarray
        Whether each hypothesis is rejected. With probability at least 1 - ``error`` none of these
        is true. Every hypothesis that an equal split of the error rejects is among them.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    Holm (1979). A simple sequentially rejective multiple test procedure.

    Examples
    --------
    >>> holm([0.01, 0.02, 0.04], error=0.05).tolist()
    [True, True, True]
    >>> holm([0.02, 0.02, 0.04], error=0.05).tolist()
    [False, False, False]
    """
    p = np.atleast_1d(validate.array_in(0, 1, open_ends=False, p_values=p_values))
    validate.open_unit(error=error)
    from statsmodels.stats.multitest import multipletests  # takes a second to import

    return np.asarray(multipletests(p, alpha=error, method="holm")[0], dtype=np.bool_)

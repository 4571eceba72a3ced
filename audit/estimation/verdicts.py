"""Verdicts on claims, given certified numbers."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from audit import validate


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

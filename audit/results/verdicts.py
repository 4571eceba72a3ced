"""What a comparison of a claim with certified numbers may conclude."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from audit import validate


class Verdict(enum.Enum):
    """The outcome of testing a claim; there is no "verified".

    HOLDS is for what was computed in full. What samples or certificates only failed to refute is
    CONSISTENT.
    """

    HOLDS = "holds"
    CONSISTENT = "consistent"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"
    ERROR = "error"

    @classmethod
    def unless(cls, refuted: bool) -> Verdict:
        """Return the verdict of an attempt at refutation: REFUTED or CONSISTENT."""
        return cls.REFUTED if refuted else cls.CONSISTENT


@dataclass(frozen=True)
class UserClaim:
    """A claim of the mechanism's author: (epsilon, delta)-privacy, under a name."""

    name: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        validate.nonnegative(epsilon=self.epsilon)
        validate.half_open_unit(delta=self.delta)


def judge_upper_bound(claimed: float, certified_low: float, largest: float = math.inf) -> Verdict:
    """Judge the claim "the true value is at most ``claimed``".

    ``certified_low`` must be the pessimistic end of a bracket or of a confidence statement: every
    numerical and statistical error is already taken against the refutation. ``largest`` is what so
    much evidence could certify at most: a claim of that or more is INCONCLUSIVE, as nothing could
    have refuted it.
    """
    if certified_low > claimed:
        return Verdict.REFUTED
    out_of_reach = math.isfinite(largest) and claimed >= largest
    return Verdict.INCONCLUSIVE if out_of_reach else Verdict.CONSISTENT


def judge_interval(low: float, high: float, claim_low: float, claim_high: float) -> Verdict:
    """Judge the claim "the true value lies in [claim_low, claim_high]" by a bracket of it.

    ``consistent`` if the bracket lies inside, ``refuted`` if it lies outside, and else
    ``inconclusive``.
    """
    if high < claim_low or low > claim_high:
        return Verdict.REFUTED
    if claim_low <= low and high <= claim_high:
        return Verdict.CONSISTENT
    return Verdict.INCONCLUSIVE

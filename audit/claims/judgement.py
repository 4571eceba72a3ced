"""What the judge returns for a claim."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit.claims.claim import Claim, Expected
from audit.claims.quantities import Quantity
from audit.curves import Order
from audit.results import Verdict as Verdict
from audit.results import judge_interval as judge_interval
from audit.results import judge_upper_bound as judge_upper_bound

if TYPE_CHECKING:
    from audit.claims.claimed_numbers import ClaimedNumber
    from audit.claims.witness import Witness


class Evidence(enum.StrEnum):
    """What a certified lower bound rests on."""

    EXACT = "exact"
    SAMPLED = "sampled"
    SEQUENTIAL = "sequential"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict on one claim, and what it rests on.

    Attributes
    ----------
    claim, verdict
        What was judged, and how.
    claimed, certified
        The claimed number and the best certified lower bound where the claim is tightest; None
        where there is none.
    quantity
        What these numbers are, and where they are taken; None where nothing is claimed.
    order
        Which law of the pair comes first there.
    pair
        The construction that certifies.
    pairs_tried, pairs_left
        How many pairs were tried, and how many were not as the budget ended.
    evidence
        What the certified bound rests on; None where there is none.
    error
        The probability that this judgement refutes a true claim; 0 for exact evidence.
    numbers
        All that the claim says; empty where nothing is claimed.
    witness
        For a refutation, everything needed to recompute it.
    message
        One line for people: why the verdict is as it is.
    seconds
        How long it took.
    """

    claim: Claim
    verdict: Verdict
    claimed: float | None = None
    certified: float | None = None
    quantity: Quantity | None = None
    order: Order | None = None
    pair: str = ""
    pairs_tried: int = 0
    pairs_left: int = 0
    evidence: Evidence | None = None
    error: float = 0.0
    numbers: tuple[ClaimedNumber, ...] = ()
    witness: Witness | None = None
    message: str = ""
    seconds: float = 0.0

    @property
    def where(self) -> str:
        """Where the claim is tightest: ``"delta 1e-05"``, ``"order 4"``, ``"alpha 0.05"``."""
        return "" if self.quantity is None else self.quantity.where

    @property
    def tightness(self) -> float | None:
        """Claimed over certified: 1 is exact, below 1 refuted; None where either is missing."""
        if self.claimed is None or self.certified is None:
            return None
        if self.certified == 0:
            return None if self.claimed == 0 else float("inf")
        return self.claimed / self.certified

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the one that the claim names."""
        expected = self.claim.expected
        if isinstance(expected, Expected):
            return self.verdict.value == expected.value
        ratio = self.tightness
        return self.verdict is Verdict.CONSISTENT and ratio is not None and ratio <= expected.factor

"""The judgement on a claim."""

from __future__ import annotations

from dataclasses import dataclass

from audit.claims.claim import Claim, Expected, LooseBy, Severity, apart, tidy
from audit.claims.witness import Evidence as Evidence
from audit.claims.witness import Witness
from audit.curves import Order
from audit.curves.quantities import AnyQuantity, ClaimedNumber
from audit.numerics import display
from audit.numerics.display import Marks, ShortRepr
from audit.numerics.number_format import Rounding, number, telling
from audit.results import Verdict as Verdict
from audit.results import judge_interval as judge_interval
from audit.results import judge_upper_bound as judge_upper_bound


@dataclass(frozen=True, kw_only=True)
class Judgement(ShortRepr):
    """The verdict on one claim, and its evidence."""

    claim: Claim  #: The claim.
    verdict: Verdict  #: The verdict.
    #: The claimed number at the point where the claim is tightest; None if there is none.
    claimed: float | None = None
    certified: float | None = None  #: The best certified lower bound there; None if there is none.
    #: The quantity of these numbers and where it is taken; None if nothing is claimed.
    quantity: AnyQuantity | None = None
    order: Order | None = None  #: The order of the pair at that point.
    pair: str = ""  #: The construction that certifies.
    pairs_tried: int = 0  #: Number of pairs that were tried.
    pairs_left: int = 0  #: Number of pairs left when the budget ended.
    evidence: Evidence | None = None  #: The kind of evidence; None if there is none.
    #: Bound on the probability that this judgement refutes a true claim; 0 for exact evidence.
    error: float = 0.0
    #: All numbers of the claim; empty if nothing is claimed.
    numbers: tuple[ClaimedNumber, ...] = ()
    #: For a refutation, everything that is needed to verify it.
    witness: Witness | None = None
    #: For a refutation, the answer of ``audit-verify``; empty if it was not asked.
    verification: str = ""
    message: str = ""  #: One line that explains the verdict.
    seconds: float = 0.0  #: Time spent, in seconds.

    def _repr_html_(self) -> str:
        quantity = self.quantity
        label = "claim" if quantity is None else f"{quantity.name}{quantity.at_where}"
        upper = None if self.claim.statement.exceeded else self.claimed  # that is a lower bound
        return display.sandwich(str(self), [Marks(label, self.certified, upper=upper)])

    def __str__(self) -> str:
        """Return the verdict in one line, and the expected one if it differs.

        ``claim 'x' refuted: certified epsilon 1.31 > claimed 1.00 at delta 1e-5``
        """
        expected, ratio = self.claim.expected, self.tightness
        head = f"claim {self.claim.id!r} {self.verdict.value}"
        # an unexpected refutation needs no more words
        if not self.as_expected and self.verdict is not Verdict.REFUTED:
            consistent = self.verdict is Verdict.CONSISTENT
            if isinstance(expected, LooseBy) and consistent and ratio is not None:
                digits = telling(expected.loose_by, ratio, 4)
                loose, most = number(ratio, digits, Rounding.DOWN), expected.loose_by
                head += f" but loose by {loose}, expected at most {most:.{max(6, digits)}g}"
            else:
                head += f", expected {expected.words}"
        return f"{head}: {self._comparison or self.message}"

    @property
    def _comparison(self) -> str:
        """The comparison that decides; empty if the verdict has another reason."""
        claimed, certified, quantity = self.claimed, self.certified, self.quantity
        decided = self.verdict in (Verdict.CONSISTENT, Verdict.REFUTED)
        if claimed is None or certified is None or quantity is None or not decided:
            return ""
        if self.claim.statement.exceeded:
            return ""
        left, right = apart(certified, claimed)
        sign = ">" if certified > claimed else "<="
        return f"certified {quantity.name} {left} {sign} claimed {right}{tidy(quantity.at_where)}"

    @property
    def where(self) -> str:
        """Place of the tightest claim: ``"delta 1e-05"``, ``"order 4"`` or ``"alpha 0.05"``."""
        return "" if self.quantity is None else self.quantity.where

    @property
    def tightness(self) -> float | None:
        """Claimed over certified: 1 is exact, below 1 refuted; None if either is missing."""
        if self.claimed is None or self.certified is None:
            return None
        if self.certified == 0:
            return None if self.claimed == 0 else float("inf")
        return self.claimed / self.certified

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the expected one."""
        expected = self.claim.expected
        if isinstance(expected, Expected):
            return self.verdict.value == expected.value
        ratio = self.tightness
        return (
            self.verdict is Verdict.CONSISTENT and ratio is not None and ratio <= expected.loose_by
        )

    @property
    def mark(self) -> str:
        """The verdict as a check reports it: ok, FAIL, warn or broken."""
        if self.verdict is Verdict.ERROR:
            return "broken"
        if self.as_expected:
            return "ok"
        return "FAIL" if self.claim.severity is Severity.ERROR else "warn"

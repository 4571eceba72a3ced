"""Verdicts on statements that were judged on a panel of mechanisms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from audit.curves import Order
from audit.mechanism import NoisySGD
from audit.results import Verdict

TIGHT = 1.01
"""Largest ratio of claimed to certified at which a statement is called tight."""


@dataclass(frozen=True, kw_only=True)
class PanelPoint:
    """A statement on one mechanism of the panel.

    Attributes
    ----------
    number : int
        Number of the mechanism in the sequence from which panels are chosen.
    mechanism : NoisySGD
        The mechanism.
    regime : mapping of str to str
        What the mechanism stands for, by property: batches, length, push, privacy, domain, losses,
        in_time, relation, release.
    options : mapping of str to int
        Options of the statement, such as the index of the record; usually none.
    verdict : Verdict
        CONSISTENT, REFUTED, INCONCLUSIVE (no pair has laws), NOT_APPLICABLE (nothing is claimed) or
        ERROR (the statement cannot be evaluated).
    quantity : str
        The number that is refuted most clearly or comes closest to it; empty if there is none.
    at : float or None
        Delta or the Renyi order.
    claimed, certified : float or None
        The claimed number, and the largest certified lower bound on it.
    order : Order or None
        The order of the pair.
    pair : str
        The pair that certifies.
    competitor : str
        Id of the tightest other sound bound of the catalogue; empty if there is none.
    competing : float or None
        Its value.
    witness : mapping or None
        For a refutation, the content of its witness file.
    message : str
        Why there are no numbers.
    """

    number: int
    mechanism: NoisySGD
    regime: Mapping[str, str]
    options: Mapping[str, int] = field(default_factory=dict)
    verdict: Verdict
    quantity: str = ""
    at: float | None = None
    claimed: float | None = None
    certified: float | None = None
    order: Order | None = None
    pair: str = ""
    competitor: str = ""
    competing: float | None = None
    witness: Mapping[str, Any] | None = None
    message: str = ""

    @property
    def ratio(self) -> float:
        """Claimed over certified: infinite if nothing is certified, NaN if nothing is judged."""
        if self.claimed is None or self.certified is None:
            return math.nan
        if self.certified > 0:
            return self.claimed / self.certified
        return math.nan if self.claimed == 0 else math.inf

    @property
    def competing_ratio(self) -> float:
        """The tightest other bound over certified; NaN if there is none."""
        if self.competing is None or self.certified is None or self.certified <= 0:
            return math.nan
        return self.competing / self.certified


@dataclass(frozen=True, kw_only=True)
class PanelVerdict:
    """The judgement of a statement on the panel.

    Attributes
    ----------
    id, citation, bibtex, statement, status : str
        The statement, where it is published, and what its author says is known about it.
    assumptions : tuple of str
        The conditions in words.
    expected : Verdict
        REFUTED if it is stored as a refuted statement, else CONSISTENT.
    points : tuple of PanelPoint
        One point or more for each mechanism.
    verification : str
        The answer of ``audit-verify`` to a refutation; empty if nothing is refuted.
    confirmed : int or None
        Index of the point whose refutation was verified, or could not be for lack of the verifier.
    unreached : str
        Why there are no points.
    error : str
        Why the statement was not evaluated on all mechanisms of the panel.
    """

    id: str
    citation: str
    bibtex: str
    statement: str
    status: str
    assumptions: tuple[str, ...]
    expected: Verdict
    points: tuple[PanelPoint, ...] = ()
    verification: str = ""
    confirmed: int | None = None
    unreached: str = ""
    error: str = ""

    @cached_property
    def judged(self) -> tuple[PanelPoint, ...]:
        """The points with a claimed and a certified number, the smallest ratio first."""
        found = [point for point in self.points if not math.isnan(point.ratio)]
        return tuple(sorted(found, key=lambda point: point.ratio))

    @cached_property
    def refuted(self) -> tuple[PanelPoint, ...]:
        """The refuted points, the clearest first."""
        return tuple(point for point in self.judged if point.verdict is Verdict.REFUTED)

    @cached_property
    def failed(self) -> tuple[PanelPoint, ...]:
        """The points at which the statement cannot be evaluated."""
        return tuple(point for point in self.points if point.verdict is Verdict.ERROR)

    @cached_property
    def tight(self) -> tuple[PanelPoint, ...]:
        """The consistent points whose ratio is at most `TIGHT`, the tightest first."""
        return tuple(
            point
            for point in self.judged
            if point.verdict is Verdict.CONSISTENT and point.ratio <= TIGHT
        )

    @property
    def verdict(self) -> Verdict:
        """The verdict on the statement.

        REFUTED only if a refutation is not contradicted by ``audit-verify``. ERROR if nothing is
        refuted, and the statement cannot be evaluated on some mechanism. INCONCLUSIVE if the panel
        has no mechanism or no pair for the statement, or no refutation could be verified.
        """
        if self.refuted:
            return Verdict.INCONCLUSIVE if self.confirmed is None else Verdict.REFUTED
        if self.failed or self.error:
            return Verdict.ERROR
        return Verdict.CONSISTENT if self.judged else Verdict.INCONCLUSIVE

    @property
    def as_expected(self) -> bool:
        """True if the verdict is the expected one."""
        return self.verdict is self.expected

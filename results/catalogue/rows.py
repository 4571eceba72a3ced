"""Rows of the catalogue's table: the status of every statement of the papers."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.bounds import CATALOGUE, Entry
from audit.claims.claim import tidy
from audit.claims.evidence import Judgement
from audit.mechanism import Composition
from audit.report.mechanism_line import mechanism_line
from audit.results import Verdict
from results.catalogue.printed import Printed
from results.catalogue.statements import SideStatement


class Kind(enum.Enum):
    """Subject of a row."""

    UPPER = "upper bound"
    LOWER = "lower bound"
    PRINTED = "printed number"
    SIDE = "statement"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table; its fields are the columns of ``catalogue.csv``.

    Attributes
    ----------
    kind, id, claim, citation, statement, status
        What is stated, where, and the status of its bound.
    mechanism, quantity, at
        Where a claim is judged.
    pair, evidence, certified, claimed, ratio
        The pair, the lower bound that it certifies, the claimed number, and claimed over certified.
    verdict, why
        In words; ``why`` no pair is set against it.
    tests, scenarios
        Where it is checked.
    """

    kind: Kind
    id: str
    claim: str
    citation: str
    statement: str
    status: str
    mechanism: str = ""
    quantity: str = ""
    at: str = ""
    pair: str = ""
    evidence: str = ""
    certified: float | None = None
    claimed: float | None = None
    ratio: float | None = None
    verdict: str = ""
    why: str = ""
    tests: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()


def rows(
    judgements: Sequence[Judgement],
    statements: Sequence[SideStatement],
    printed: Sequence[Printed],
) -> tuple[Row, ...]:
    """Return the rows of the table.

    Parameters
    ----------
    judgements
        Of the claims that stand for the catalogue's entries, one row each. A row comes under the
        entry that its claim names, in the catalogue's order.
    statements
        Statements without an entry, and tests for entries that are not judged.
    printed
        Numbers that papers print, computed again.

    Raises
    ------
    ValueError
        If an entry of the catalogue has no judgement.
    """
    extra = {one.id: one for one in statements}
    of_entries: dict[str, list[Row]] = {id: [] for id in CATALOGUE}
    others: list[Row] = []
    for judgement in judgements:
        entry = _entry(judgement)
        row = _judged(judgement, entry, extra)
        (others if entry is None else of_entries[entry.id]).append(row)
    missing = [id for id, found in of_entries.items() if not found]
    if missing:
        raise ValueError(f"every entry must have a claim, got none for {', '.join(missing)}")
    return (
        *(row for found in of_entries.values() for row in found),
        *others,
        *(_printed(one) for one in printed),
        *(_said(one) for one in statements if one.id not in CATALOGUE),
    )


def _entry(judgement: Judgement) -> Entry | None:
    """Return the entry that a claim is about: its bound's, or the one its id begins with."""
    entry, _ = judgement.claim.bound
    return CATALOGUE.get(_stem(judgement.claim.id)) if entry is None else entry


def _stem(name: str) -> str:
    """Return a claim's id without the word on its setting."""
    return ".".join(name.split(".")[:2])


def _judged(judgement: Judgement, entry: Entry | None, extra: Mapping[str, SideStatement]) -> Row:
    claim = judgement.claim
    lower = claim.statement.exceeded
    beside = extra.get(entry.id if entry else _stem(claim.id))
    stated = entry.statement if entry else beside.statement if beside else ""
    ratio = judgement.tightness
    return Row(
        kind=Kind.LOWER if lower else Kind.UPPER,
        id=entry.id if entry else _stem(claim.id),
        claim=claim.id,
        citation=claim.citation or (str(entry.cite) if entry else ""),
        statement=stated,
        status=entry.status.value if entry else "as printed",
        mechanism=_mechanism(judgement) if judgement.claimed is not None else "",
        at=tidy(judgement.where),
        quantity="" if judgement.quantity is None else judgement.quantity.name,
        pair=judgement.pair,
        evidence="" if judgement.evidence is None else judgement.evidence.value,
        certified=judgement.certified,
        claimed=judgement.claimed,
        ratio=None if lower or ratio is None or math.isinf(ratio) else ratio,
        verdict=_verdict(judgement, lower=lower),
        why=judgement.message if judgement.verdict is Verdict.NOT_APPLICABLE else "",
        tests=beside.tests if beside else (),
        scenarios=beside.scenarios if beside else (),
    )


def _verdict(judgement: Judgement, *, lower: bool) -> str:
    """Return the verdict's word; a lower bound that a pair exceeds is proven."""
    if lower and judgement.verdict is Verdict.CONSISTENT:
        return "holds"
    return judgement.verdict.value


def _mechanism(judgement: Judgement) -> str:
    """Return the mechanism in symbols, as ``T=40, n=100, full batches``."""
    mechanism = judgement.claim.mechanism
    if mechanism is None:
        return "two laws given by numbers"
    if isinstance(mechanism, Composition):
        return f"{len(mechanism.parts)} runs, T={mechanism.steps}, n={mechanism.dataset_size}"
    return mechanism_line(mechanism)


def _printed(one: Printed) -> Row:
    return Row(
        kind=Kind.PRINTED,
        id=one.id,
        claim=one.id,
        citation=one.citation,
        statement=one.statement,
        status="as printed",
        certified=one.found,
        claimed=one.expected,
        verdict=one.verdict,
        evidence="exact",
    )


def _said(one: SideStatement) -> Row:
    return Row(
        kind=Kind.SIDE,
        id=one.id,
        claim=one.id,
        citation=one.citation,
        statement=one.statement,
        status=one.kind,
        verdict=one.found,
        why=one.why,
        tests=one.tests,
        scenarios=one.scenarios,
    )

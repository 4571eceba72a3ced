"""The rows of the zoo, and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

from audit.claims import Expected, Judgement
from audit.claims.judge import Outcome, verify
from audit.claims.witness import Witness
from audit.numerics.number_format import Rounding, short
from results.zoo.cases import Case
from results.zoo.judging import ERROR, witness_file

SKIPPED = "skipped"
_INTRODUCTION = f"""\
# The zoo

Releases of libraries for differential privacy with known privacy bugs, and releases without them.
Each program drives the code of the installed release and writes down what it claims; the judge
tries to refute it. A claim is *refuted* by an exact law or by samples, at confidence
{1 - ERROR:g} for all claims of one release together. A witness of an exact refutation is verified
by `audit-verify`, which shares no code with the judge. `make zoo` makes this page.
"""


@dataclass(frozen=True)
class Row:
    """One claim of one release; numbers are texts, empty if there is none.

    ``verification`` is the answer of ``audit-verify`` to the witness.
    """

    case: str
    package: str
    version: str
    claim: str
    expected: str
    verdict: str
    quantity: str = ""
    claimed: str = ""
    certified: str = ""
    evidence: str = ""
    witness: str = ""
    reason: str = ""
    verification: str = ""

    @property
    def fails(self) -> bool:
        """Whether the verdict is not the expected one, or its witness is contradicted."""
        return (
            self.verdict not in (self.expected, SKIPPED)
            or self.verification == Outcome.CONTRADICTED
        )


COLUMNS = tuple(field.name for field in fields(Row))


def row(case: Case, version: str, claim: str, expected: Expected, judgement: Judgement) -> Row:
    """Return the row of a judgement."""
    name = "" if judgement.quantity is None else judgement.quantity.name
    return Row(
        case.name,
        case.package,
        version,
        claim,
        expected.value,
        judgement.verdict.value,
        quantity=f"{name} at {judgement.where}" if judgement.where else name,
        claimed=_number(judgement.claimed, Rounding.UP),
        certified=_number(judgement.certified, Rounding.DOWN),
        evidence="" if judgement.evidence is None else judgement.evidence.value,
        witness="" if judgement.witness is None else witness_file(case, version, claim),
        reason=" ".join(judgement.message.split()),
        verification="" if judgement.witness is None else _verification(judgement.witness),
    )


def _verification(witness: Witness) -> str:
    return verify(witness).outcome.value


def _number(value: float | None, rounding: Rounding) -> str:
    return "" if value is None else short(value, 8, rounding)


def line(row: Row) -> str:
    """Return the line of a row on the terminal."""
    mark = "FAIL" if row.fails else "skip" if row.verdict == SKIPPED else "ok  "
    wrong = ""
    if row.fails:
        met = row.verdict == row.expected
        wrong = " (witness contradicted)" if met else f" (expected {row.expected})"
    told = f"{mark} {row.case}: {row.package} {row.version}: {row.claim}: {row.verdict}{wrong}"
    return f"{told}: {row.reason}" if row.reason else told


def counts(rows: Sequence[Row]) -> str:
    """Return the number of claims, met expectations and skipped claims in one line."""
    skipped = sum(row.verdict == SKIPPED for row in rows)
    failed = sum(row.fails for row in rows)
    verdicts = Counter(row.verdict for row in rows)
    each = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in sorted(verdicts))
    met = len(rows) - skipped - failed
    return f"{len(rows)} claims: {each}; {met} as expected, {failed} not, {skipped} skipped"


def page(rows: Sequence[Row], cases: Sequence[Case]) -> str:
    """Return the page of all cases."""
    parts = [_INTRODUCTION]
    for case in cases:
        own = [row for row in rows if row.case == case.name]
        if own:
            parts.append(_section(case, own))
    return "\n".join(parts)


def _section(case: Case, rows: Sequence[Row]) -> str:
    threads = ", ".join(f"<{address}>" for address in case.upstream) or "no thread is known"
    lines = [
        f"## {case.title}",
        "",
        f"[{case.name}](../../scenarios/zoo/{case.name}/README.md); upstream: {threads}",
        "",
        "| release | claim | verdict | claimed | certified | quantity | evidence |",
        "|---|---|---|---:|---:|---|---|",
    ]
    for row in rows:
        wrong = row.verdict not in (row.expected, SKIPPED)
        verdict = f"**{row.verdict}** (expected {row.expected})" if wrong else row.verdict
        name = f"{row.package}-{row.version}"
        release = f"{row.package} {row.version}"
        if row.verdict not in (SKIPPED, "error"):
            release = f"[{release}]({row.case}/{name}.claims.yaml)"
        evidence = row.evidence
        if row.witness:
            evidence = f"[{evidence}]({row.case}/{row.witness})"
        if row.verification:
            evidence += f", {row.verification}"
        if row.verdict in (SKIPPED, "error"):
            evidence = row.reason
        cells = (release, row.claim, verdict, row.claimed, row.certified, row.quantity, evidence)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"

"""Format the outcome of a check as text, JSON, JUnit XML, GitHub annotations or Markdown."""

from __future__ import annotations

import enum
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from xml.etree import ElementTree

import audit
from audit.claims.claim import Location, apart, encode_claim, tidy
from audit.claims.claims_file import InputError
from audit.claims.evidence import Judgement
from audit.claims.judge import Checked, complaint
from audit.codec import encode
from audit.numerics.number_format import Rounding, ratio, short
from audit.results import Verdict

JSON_FORMAT = 2
_DIGITS = 6  # most digits of claims that stand in tables
COLUMNS = ("", "claim", "verdict", "claimed", "certified", "ratio", "at", "by")
NUMBERS = ("claimed", "certified", "ratio")  # right-aligned columns


class Format(enum.Enum):
    """The output format."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"


def write(checked: Checked, form: Format) -> str:
    """Return the outcome in one of the formats, ending with a line break."""
    return _WRITERS[form](checked)


def cells(judgement: Judgement) -> tuple[str, ...]:
    """Return the row of a judgement, one text for each of `COLUMNS`."""
    verdict = judgement.verdict.value
    if judgement.verification and judgement.verdict is Verdict.REFUTED:
        verdict += f", {judgement.verification}"
    if judgement.mark in ("FAIL", "warn"):
        verdict += f" (expected {judgement.claim.expected.value})"
    claimed, certified = judgement.claimed, judgement.certified
    if claimed is not None and certified is not None:
        left, right = apart(certified, claimed, most=_DIGITS)
    else:
        left, right = ("" if x is None else short(x, 4, Rounding.UP) for x in (certified, claimed))
    by = f"{judgement.pair}, {judgement.evidence}" if judgement.evidence else judgement.pair
    return (
        judgement.mark,
        judgement.claim.id,
        verdict,
        right,
        left,
        "" if judgement.tightness is None else ratio(judgement.tightness),
        tidy(judgement.where),
        by,
    )


def summary(checked: Checked) -> tuple[str, ...]:
    """Return one line per unexpected verdict and adapted mechanism, the budget and the counts."""
    found = checked.judgements
    lines = [str(j) for j in (*checked.failures, *checked.warnings)]
    sources: dict[str, list[str]] = {}  # claims by the description of their adapted mechanism
    for judgement in found:
        if judgement.claim.source:
            sources.setdefault(judgement.claim.source, []).append(judgement.claim.id)
    lines += (f"{', '.join(ids)}: {text}" for text, ids in sources.items())
    lines.append(
        f"error budget {checked.error:g}: bounds the probability that samples refute any true "
        f"claim here; {sum(j.error for j in found):.3g} of it is spent; exact evidence spends none"
    )
    if checked.seed is not None:
        lines.append(f"all samples from seed {checked.seed}")
    hurried = sum(j.pairs_left > 0 and j.verdict is not Verdict.REFUTED for j in found)
    if hurried:
        count = _count(hurried, "claim")
        lines.append(f"{count} with pairs left untried when the budget's seconds ended")
    return (*lines, counts(checked))


def counts(checked: Checked) -> str:
    """Return the number of claims with each verdict: ``7 claims: 3 consistent, 4 errors``."""
    found = checked.judgements
    verdicts = Counter(judgement.verdict for judgement in found)
    words = {Verdict.ERROR: "error" if verdicts[Verdict.ERROR] == 1 else "errors"}
    each = [f"{verdicts[v]} {words.get(v, v.value)}" for v in Verdict if verdicts[v]]
    unread = f", {_count(len(checked.complaints), 'complaint')}" if checked.complaints else ""
    return (
        f"{_count(len(found), 'claim')}: {', '.join(each) or 'none judged'}; "
        f"{sum(j.as_expected for j in found)} as expected, "
        f"{len(checked.failures)} not, {_count(len(checked.warnings), 'warning')}{unread}"
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def table(checked: Checked, width: float = math.inf) -> list[str]:
    """Return a header and the text of each claim: one line, or two where lines would be wider."""
    rows = [COLUMNS, *(cells(judgement) for judgement in checked.judgements)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = [
        "  ".join(
            word.rjust(size) if name in NUMBERS else word.ljust(size)
            for word, size, name in zip(row, widths, COLUMNS, strict=True)
        ).rstrip()
        for row in rows
    ]
    if max(map(len, lines)) <= width:
        return lines
    folded = [""]
    for mark, claim, verdict, *rest in rows[1:]:
        named = (f"{name} {word}" for name, word in zip(COLUMNS[3:], rest, strict=True) if word)
        folded.append(f"{mark.ljust(widths[0])}  {claim}: {verdict}\n      {', '.join(named)}")
    return folded


def _text(checked: Checked) -> str:
    return "\n".join([*table(checked), "", *summary(checked)]) + "\n"


def _markdown(checked: Checked) -> str:
    def row(entries: tuple[str, ...]) -> str:
        return "| " + " | ".join(_escaped(entry) for entry in entries) + " |"

    rules = tuple("---:" if name in NUMBERS else "---" for name in COLUMNS)
    lines = [row(COLUMNS), row(rules), *(row(cells(j)) for j in checked.judgements), ""]
    lines += [f"- {_escaped(line)}" for line in (*map(str, checked.complaints), *summary(checked))]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return text as Markdown shows it; underscores between letters and digits need no escape."""
    signs = r"((?<=[^\W_])_+(?=[^\W_]))|([\\`*_\[\]<>|#~$&])"
    return re.sub(signs, lambda found: found[1] or f"\\{found[2]}", " ".join(text.split()))


def _json(checked: Checked) -> str:
    content = {
        "format": JSON_FORMAT,
        "version": audit.__version__,
        "status": checked.status,
        "error": checked.error,
        "error_spent": sum(j.error for j in checked.judgements),
        "seed": checked.seed,
        "claims": [_entry(judgement) for judgement in checked.judgements],
        "complaints": encode(checked.complaints),
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _finite(number: float | None) -> float | None:
    """Return the number, or None for an infinite one, which JSON cannot represent."""
    return None if number is None or math.isinf(number) else number


def _entry(judgement: Judgement) -> dict[str, object]:
    claim = judgement.claim
    plain = encode_claim(claim)
    return {
        "id": claim.id,
        "file": str(claim.location.file) if claim.location else None,
        "line": claim.location.line if claim.location else None,
        "citation": claim.citation,
        **plain,
        "laws": plain["pair"] if claim.mechanism is None else None,
        "samples": encode(claim.samples, defaults=False),
        "judged": claim.source or None,
        "severity": claim.severity.value,
        "expected": claim.expected.value,
        "as_expected": judgement.as_expected,
        **properties(judgement),
        "order": None if judgement.order is None else judgement.order.value,
        "error": judgement.error,
        "seed": claim.budget.seed,
        "search": encode(claim.search),
        "message": judgement.message,
        "verification": judgement.verification or None,
        "seconds": round(judgement.seconds, 3),
    }


def properties(judgement: Judgement) -> dict[str, object]:
    """Return the verdict, its numbers and their evidence; None where there is none."""
    return {
        "verdict": judgement.verdict.value,
        "quantity": None if judgement.quantity is None else judgement.quantity.name,
        "claimed": _finite(judgement.claimed),
        "certified": _finite(judgement.certified),
        "tightness": _finite(judgement.tightness),
        "where": tidy(judgement.where),
        "pair": judgement.pair,
        "pairs_tried": judgement.pairs_tried or None,
        "pairs_left": judgement.pairs_left or None,
        "evidence": "" if judgement.evidence is None else judgement.evidence.value,
    }


def _junit(checked: Checked) -> str:
    root = ElementTree.Element("testsuites", name="audit-check")
    suites: dict[str, ElementTree.Element] = {}

    def case(file: str, name: str, seconds: float) -> ElementTree.Element:
        if file not in suites:
            suites[file] = ElementTree.SubElement(root, "testsuite", name=file)
        facts = {"classname": file, "name": name, "time": f"{seconds:.3f}"}
        return ElementTree.SubElement(suites[file], "testcase", facts)

    for judgement in checked.judgements:
        place = judgement.claim.location
        entry = case(str(place.file) if place else "", judgement.claim.id, judgement.seconds)
        held = ElementTree.SubElement(entry, "properties")
        for name, value in properties(judgement).items():
            if value not in (None, ""):
                ElementTree.SubElement(held, "property", name=name, value=str(value))
        text = str(judgement)
        if judgement.mark == "FAIL":
            ElementTree.SubElement(entry, "failure", message=text).text = text
        elif judgement.mark == "warn":
            ElementTree.SubElement(entry, "system-out").text = f"warning: {text}"
        elif judgement.mark == "broken":
            text = str(complaint(judgement))
            ElementTree.SubElement(entry, "error", message=text).text = text
    told = {complaint(j) for j in checked.judgements if j.verdict is Verdict.ERROR}
    for wrong in checked.complaints:
        if wrong not in told:  # it belongs to no judgement
            entry = case(str(wrong.file), f"line {wrong.line or 1}", 0.0)
            ElementTree.SubElement(entry, "error", message=str(wrong))
    for suite in suites.values():
        for count, tag in (("failures", "failure"), ("errors", "error")):
            suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(suite)))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode", xml_declaration=True)
    legal = r"\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff"  # what XML allows
    return re.sub(f"[^{legal}]", "?", text) + "\n"


def _github(checked: Checked) -> str:
    """Return workflow commands that annotate the lines of the files, and the table."""
    marks = [_command("error", wrong, "claims file", wrong.message) for wrong in checked.complaints]
    for level, found in (("error", checked.failures), ("warning", checked.warnings)):
        marks += (_command(level, j.claim.location, "audit-check", str(j)) for j in found)
    return "".join(f"{line}\n" for line in marks) + _text(checked)


def _command(level: str, place: InputError | Location | None, title: str, message: str) -> str:
    parts = {} if place is None else {"file": str(place.file), "line": str(place.line or "")}
    parts["title"] = title
    shown = ",".join(f"{name}={_encoded(part, ',:')}" for name, part in parts.items() if part)
    return f"::{level} {shown}::{_encoded(message)}"


def _encoded(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":  # the percent sign first
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


_WRITERS: dict[Format, Callable[[Checked], str]] = {
    Format.TEXT: _text,
    Format.JSON: _json,
    Format.JUNIT: _junit,
    Format.GITHUB: _github,
    Format.MARKDOWN: _markdown,
}

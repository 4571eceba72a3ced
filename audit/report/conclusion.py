"""The conclusion of a report: a few sentences, computed from its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.numerics.number_format import Rounding, exceeding, number, plain, ratio, share, telling
from audit.report import queries
from audit.report.queries import ClaimedBound, ComparedResult
from audit.results import AtDelta, Result, SettingResult, Statement, StudyResult, Value, Verdict

_MAX_NAMED = 2  # refuted bounds that the conclusion names
_DIGITS, _MOST_DIGITS = 4, 9  # of numbers, and of those that are nearly equal


def conclusion(result: Result) -> tuple[str, ...]:
    """Return the sentences that a report begins with.

    The first one is the finding, with refutations before all else; then follow the refuted claims
    by name, how tight the claims are, and what samples certify.
    """
    settings = result.settings
    compared = queries.compared(settings)
    statements, claims = queries.statements(settings), queries.judged(settings)
    wrong = [(study, one) for study, one in statements if one.verdict is Verdict.REFUTED]
    refuted = [claim for claim in claims if claim.bound.verdict is Verdict.REFUTED]
    findings = refuted_elsewhere(settings)
    if statements:
        verdicts = [one.verdict for _, one in statements]
        findings.insert(0 if wrong else len(findings), _statements(verdicts))
    if compared or not statements:
        findings.insert(0 if refuted else len(findings), _judgement(claims, compared))
    several = len(settings) > 1
    named = [_claimed_and_certain(claim, several) for claim in refuted]
    named += [_expected_and_found(study, one, several) for study, one in wrong]
    if len(named) > _MAX_NAMED:
        named = [*named[:_MAX_NAMED], f"and {len(named) - _MAX_NAMED} more"]
    return sentences(
        [
            "; ".join(findings),
            *(["refuted: " + "; ".join(named)] if named else []),
            *_tightness(compared),
            *_sampling([row for setting in compared for row in setting.deltas]),
        ]
    )


def sentences(clauses: Sequence[str]) -> tuple[str, ...]:
    """Return each clause as a sentence."""
    return tuple(f"{capitalized(clause)}." for clause in clauses)


def refuted_elsewhere(settings: Sequence[SettingResult]) -> list[str]:
    """Return clauses that name what is refuted but not as an epsilon of the table."""
    return [
        f"{where} {', '.join(names)} {_verb(len(names))} refuted"
        for names, where in (
            (queries.refuted_orders(settings), "as a bound on a Renyi divergence"),
            (queries.refuted_positions(settings), "for some records"),
        )
        if names
    ]


def capitalized(sentence: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def _verb(count: int) -> str:
    return "is" if count == 1 else "are"


def _statements(verdicts: Sequence[Verdict]) -> str:
    """Return the outcome of the statements of studies.

    Only statements that were computed in full "hold", not what samples let stand.
    """
    alone = len(verdicts) == 1
    all_of_them = "the one statement" if alone else f"{len(verdicts)} statements"
    clauses = [
        f"{number_of} of {all_of_them} {_verb(number_of)} {outcome.value}"
        for outcome in (Verdict.REFUTED, Verdict.INCONCLUSIVE)
        if (number_of := verdicts.count(outcome))
    ]
    if clauses:
        return "; ".join(clauses)
    if any(one is not Verdict.HOLDS for one in verdicts):
        return f"{all_of_them} is not refuted" if alone else f"none of {all_of_them} is refuted"
    if alone:
        return f"{all_of_them} that was checked holds"
    return f"all {all_of_them} that were checked hold"


def _expected_and_found(study: StudyResult, one: Statement, several: bool) -> str:
    """Return a refuted statement; what was found is rounded towards what it refutes."""
    digits, rounding = _DIGITS, Rounding.NEAREST
    if numbers := queries.as_numbers(one.expected, one.found):
        digits = telling(min(numbers), max(numbers), _DIGITS, _MOST_DIGITS)
        rounding = Rounding.UP if numbers[1] < numbers[0] else Rounding.DOWN

    def write(value: Value) -> str:
        return number(value, digits, rounding) if isinstance(value, float) else plain(value)

    found = queries.found(one.expected, one.found, one.verdict, write)
    text = f"{one.claim}: expected {write(one.expected)}, found {found}"
    return f"{text}, in “{queries.title(study)}”" if several else text


def _judgement(claims: Sequence[ClaimedBound], settings: Sequence[ComparedResult]) -> str:
    if not claims:
        return "no claimed upper bound applies"
    verdicts = [claim.bound.verdict for claim in claims]
    for outcome in (Verdict.REFUTED, Verdict.INCONCLUSIVE):
        if number_of := verdicts.count(outcome):
            return (
                f"{number_of} of {len(claims)} claimed upper bounds {_verb(number_of)} "
                f"{outcome.value}"
            )
    known = all(row.exact for setting in settings for row in setting.deltas)
    evidence = "the exact laws" if known else "the evidence"
    if any(verdict is not Verdict.CONSISTENT for verdict in verdicts):
        return f"none of the {len(claims)} claimed upper bounds is refuted by {evidence}"
    if len(claims) == 1:
        return f"the one claimed upper bound is consistent with {evidence}"
    return f"all {len(claims)} claimed upper bounds are consistent with {evidence}"


def _claimed_and_certain(claim: ClaimedBound, several: bool) -> str:
    name = f"“{claim.bound.id}”" if " " in claim.bound.id else claim.bound.id
    where = f" in “{queries.title(claim.setting)}”" if several else ""
    row, (value, pair) = claim.row, queries.strongest(claim.row)
    digits = telling(claim.epsilon, value, _DIGITS)
    certain = f"{pair} has" if pair else "samples certify"
    certain = f"{certain} {number(value, digits, Rounding.DOWN)}"
    if row.exact is not None and not pair:
        certain = f"the pair has {exceeding(row.exact.worst.bracket, claim.epsilon, digits)}"
    return (
        f"{name} claims {number(claim.epsilon, digits, Rounding.UP)} where {certain} "
        f"at δ = {plain(row.delta)}{where}"
    )


def _tightness(settings: Sequence[ComparedResult]) -> list[str]:
    known = []
    for setting in settings:
        unsound = queries.unsound(setting)
        for row in setting.deltas:
            best = queries.tightest([b for b in row.bounds if b.id not in unsound], row.best)
            if row.exact and best is not None and best.ratio is not None:
                known.append((best.ratio, best.id, queries.title(setting)))
    if not known:
        return []
    least, most = min(known), max(known)
    pair = " of the strongest pair" if queries.any_stronger(settings) else ""
    of = f"the exact value{pair}"
    if ratio(least[0]) == ratio(most[0]):
        return [f"the tightest claim that stands is {ratio(least[0])} times {of} ({least[1]})"]
    return [
        f"the tightest claim that stands is {ratio(least[0])} ({least[1]}) to "
        f"{ratio(most[0])} (“{most[2]}”) times {of}"
    ]


def _sampling(rows: Sequence[AtDelta]) -> list[str]:
    shares = [
        (row.sampled.epsilon, row.exact.worst.high)
        for row in rows
        if row.exact and 0 < row.exact.worst.high < math.inf
    ]
    if not shares:
        return []
    shares.sort(key=lambda pair: pair[0] / pair[1])
    least, most = share(*shares[0]), share(*shares[-1])
    if least == most:
        return [f"samples certify {most} of the exact value"]
    return [f"samples certify between {least} and {most} of the exact values"]

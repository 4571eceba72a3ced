"""The conclusion of a report: a few sentences, computed from its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from audit.numerics.number_format import Rounding, bracket, number, plain, ratio, share
from audit.report import queries
from audit.report.queries import ClaimedBound, ComparedResult, StudyStatement
from audit.results import AtDelta, BoundRow, Result, SettingResult, Value, Verdict

_NAMED = 2  # refuted bounds that the conclusion names


def conclusion(result: Result) -> tuple[str, ...]:
    """Return the sentences that a report begins with.

    The first one is the finding, with refutations before all else; then follow the refuted claims
    by name, how tight the claims are, and what samples certify.
    """
    settings = result.settings
    compared = queries.compared(settings)
    statements, claims = queries.statements(settings), list(queries.judged(settings))
    wrong = [one for one in statements if one.verdict is Verdict.REFUTED]
    refuted = [claim for claim in claims if claim.bound.verdict is Verdict.REFUTED]
    findings = refuted_elsewhere(settings)
    if statements:
        findings.insert(0 if wrong else len(findings), _statements(statements))
    if compared or not statements:
        findings.insert(0 if refuted else len(findings), _judgement(claims, settings))
    named = [_claimed_and_certain(claim, settings) for claim in refuted]
    named += [_expected_and_found(one, settings) for one in wrong]
    return sentences(
        [
            "; ".join(findings),
            *_first_few(named),
            *_tightness(compared),
            *_sampling([row for setting in compared for row in setting.deltas]),
        ]
    )


def _first_few(named: Sequence[str]) -> list[str]:
    if not named:
        return []
    more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return ["refuted: " + "; ".join(named[:_NAMED]) + more]


def sentences(clauses: Sequence[str]) -> tuple[str, ...]:
    """Return each clause as a sentence."""
    return tuple(f"{capitalized(clause)}." for clause in clauses)


def refuted_elsewhere(settings: Sequence[SettingResult]) -> list[str]:
    """Return clauses that name what is refuted but not as an epsilon of the table."""
    clauses = []
    for names, where in (
        (queries.refuted_orders(settings), "as a bound on a Renyi divergence"),
        (queries.refuted_positions(settings), "for some records"),
    ):
        if names:
            clauses.append(f"{where} {', '.join(names)} {_verb(len(names))} refuted")
    return clauses


def capitalized(sentence: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def _verb(count: int) -> str:
    return "is" if count == 1 else "are"


def _statements(found: Sequence[StudyStatement]) -> str:
    """Return the outcome of the statements of studies."""
    wrong = sum(one.verdict is Verdict.REFUTED for one in found)
    unclear = sum(one.verdict is Verdict.INCONCLUSIVE for one in found)
    all_of_them = "the one statement" if len(found) == 1 else f"{len(found)} statements"
    clauses = [
        f"{number_of} of {all_of_them} {_verb(number_of)} {outcome}"
        for number_of, outcome in ((wrong, "refuted"), (unclear, "inconclusive"))
        if number_of
    ]
    return "; ".join(clauses) or _none_refuted(found, all_of_them)


def _none_refuted(found: Sequence[StudyStatement], all_of_them: str) -> str:
    """Say "hold" only of statements that were computed in full, not of what samples let stand."""
    alone = len(found) == 1
    if any(one.verdict is not Verdict.HOLDS for one in found):
        return f"{all_of_them} is not refuted" if alone else f"none of {all_of_them} is refuted"
    verb = "that was checked holds" if alone else "that were checked hold"
    return f"{all_of_them} {verb}" if alone else f"all {all_of_them} {verb}"


def _expected_and_found(one: StudyStatement, settings: Sequence[SettingResult]) -> str:
    statement = one.statement
    found = queries.found(statement, _value)
    text = f"{statement.claim}: expected {_value(statement.expected)}, found {found}"
    return f"{text}, in “{queries.title(one.study)}”" if len(settings) > 1 else text


def _value(value: Value) -> str:
    return value if isinstance(value, str) else number(value, 4)


def _judgement(claims: Sequence[ClaimedBound], settings: Sequence[SettingResult]) -> str:
    if not claims:
        return "no claimed upper bound applies"
    wrong = sum(claim.bound.verdict is Verdict.REFUTED for claim in claims)
    if wrong:
        return f"{wrong} of {len(claims)} claimed upper bounds {_verb(wrong)} refuted"
    known = all(row.exact for setting in queries.compared(settings) for row in setting.deltas)
    evidence = "the exact laws" if known else "the evidence"
    unclear = sum(claim.bound.verdict is Verdict.INCONCLUSIVE for claim in claims)
    if unclear:
        return f"{unclear} of {len(claims)} claimed upper bounds {_verb(unclear)} inconclusive"
    if any(claim.bound.verdict is not Verdict.CONSISTENT for claim in claims):
        return f"none of the {len(claims)} claimed upper bounds is refuted by {evidence}"
    if len(claims) == 1:
        return f"the one claimed upper bound is consistent with {evidence}"
    return f"all {len(claims)} claimed upper bounds are consistent with {evidence}"


def _claimed_and_certain(claim: ClaimedBound, settings: Sequence[SettingResult]) -> str:
    return (
        f"{_quoted(claim.bound.id)} claims {number(claim.epsilon, 4, Rounding.UP)} "
        f"where {_certain_value(claim.row)}{_where(claim, settings)}"
    )


def _quoted(name: str) -> str:
    """Return a bound's name as it stands in a sentence: with quotes where it is several words."""
    return f"“{name}”" if " " in name else name


def _certain_value(row: AtDelta) -> str:
    value, name = queries.strongest(row)
    if row.exact is None:
        return f"samples certify {number(value, 4, Rounding.DOWN)}"
    if name:
        return f"{name} has {number(value, 4, Rounding.DOWN)}"
    return f"the pair has {bracket(row.exact.worst.bracket, 4)}"


def _where(claim: ClaimedBound, settings: Sequence[SettingResult]) -> str:
    setting = f" in “{queries.title(claim.setting)}”" if len(settings) > 1 else ""
    return f" at δ = {plain(claim.row.delta)}{setting}"


def _tightness(settings: Sequence[ComparedResult]) -> list[str]:
    known = [
        (bound.ratio, bound.id, queries.title(setting))
        for setting in settings
        for row in setting.deltas
        if row.exact and (bound := _best(row)) and bound.ratio is not None
    ]
    if not known:
        return []
    least, most = min(known), max(known)
    rows = [row for setting in settings for row in setting.deltas]
    pair = " of the strongest pair" if any(queries.strongest(row)[1] for row in rows) else ""
    of = f"the exact value{pair}"
    if len(known) == 1 or ratio(least[0]) == ratio(most[0]):
        return [f"the tightest claim that stands is {ratio(least[0])} times {of} ({least[1]})"]
    return [
        f"the tightest claim that stands is {ratio(least[0])} ({least[1]}) to "
        f"{ratio(most[0])} (“{most[2]}”) times {of}"
    ]


def _best(row: AtDelta) -> BoundRow | None:
    return queries.tightest(row.bounds, row.best)


def _sampling(rows: Sequence[AtDelta]) -> list[str]:
    shares = [
        (row.sampled.epsilon, row.exact.worst.high)
        for row in rows
        if row.exact and 0 < row.exact.worst.high < float("inf")
    ]
    if not shares:
        return []
    least = min(shares, key=lambda pair: pair[0] / pair[1])
    most = max(shares, key=lambda pair: pair[0] / pair[1])
    if share(*least) == share(*most):
        return [f"samples certify {share(*most)} of the exact value"]
    return [f"samples certify between {share(*least)} and {share(*most)} of the exact values"]

"""Sentences that are computed from the numbers: the conclusion, and the mechanism in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from audit.report import stored
from audit.report.number_format import Rounding, bracket, number, plain, ratio, share
from audit.report.stored import Claimed, Node

_NAMED = 2  # refuted bounds that the conclusion names
_BATCHES = {
    "full": "all {n} records in every step",
    "cyclic": "batches of {b} of the {n} records, always the same ones in the same order",
    "shuffled": "batches of {b} of the {n} records, shuffled once",
    "without replacement": "a fresh batch of {b} of the {n} records in every step",
    "poisson": "each of the {n} records in a step by itself with probability {b}/{n}",
}
_RELATIONS = {
    "replace one": "differ in one record, which is replaced by another",
    "zero out": "differ in one record, whose loss is replaced by zero",
}

_RELEASES = {
    "last iterate": "Only the last iterate is released.",
    "random stop": "Only the iterate after a random step is released.",
    "random skip": "The first records, a random number of them, are left out; only the last "
    "iterate is released.",
}


def conclusion(result: Node) -> str:
    """Return the one sentence that the report begins with."""
    settings = result["settings"]
    claims = list(stored.judged(settings))
    clauses = _statements(settings)
    if stored.compared(settings) or not clauses:
        clauses.append(_judgement(claims, settings))
    rows = [(setting, row) for setting in settings for row in setting["deltas"]]
    clauses += _tightness(rows)
    clauses += _sampling([row for _, row in rows])
    clauses += refuted_elsewhere(settings)
    statements = list(stored.verdicts([setting.get("diagnostics") for setting in settings]))
    wrong = statements.count(stored.REFUTED)
    if wrong:
        verb = "is" if wrong == 1 else "are"
        clauses.append(
            f"{wrong} of {len(statements)} checked statements of the proof {verb} refuted"
        )
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}."


def _statements(settings: Sequence[Node]) -> list[str]:
    """Return what became of the statements of studies, the refuted ones by name."""
    stated = stored.stated(settings)
    if not stated:
        return []
    wrong = [one for one in stated if one.outcome == stored.REFUTED]
    unclear = sum(one.outcome == stored.INCONCLUSIVE for one in stated)
    said = "the one statement" if len(stated) == 1 else f"{len(stated)} statements"
    clauses = []
    if wrong:
        named = "; ".join(_stated(one, settings) for one in wrong[:_NAMED])
        more = f"; and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        verb = "is" if len(wrong) == 1 else "are"
        clauses.append(f"{len(wrong)} of {said} {verb} refuted ({named}{more})")
    if unclear:
        verb = "is" if unclear == 1 else "are"
        clauses.append(f"{unclear} of {said} {verb} inconclusive")
    if not clauses:
        clauses.append(_standing(stated, said))
    return clauses


def _standing(stated: Sequence[stored.Stated], said: str) -> str:
    """Say "hold" only of statements that were computed in full, not of what samples let stand."""
    alone = len(stated) == 1
    if any(one.outcome != stored.HOLDS for one in stated):
        return f"{said} is not refuted" if alone else f"none of {said} is refuted"
    return f"{said} that was checked holds" if alone else f"all {said} that were checked hold"


def _stated(one: stored.Stated, settings: Sequence[Node]) -> str:
    statement = one.statement
    text = (
        f"{statement['claim']}: expected {_said(statement.get('expected'))}, "
        f"found {_said(statement.get('found'))}"
    )
    return f"{text}, in “{stored.title(one.setting)}”" if len(settings) > 1 else text


def _said(value: float | str | None) -> str:
    return value if isinstance(value, str) else number(value, 4)


def refuted_elsewhere(settings: Sequence[Node]) -> list[str]:
    """Return clauses that name what is refuted but not as an epsilon of the table."""
    clauses = []
    for names, where in (
        (stored.refuted_orders(settings), "as a bound on a Renyi divergence"),
        (stored.refuted_records(settings), "for some records"),
    ):
        if names:
            verb = "is" if len(names) == 1 else "are"
            clauses.append(f"{where} {', '.join(names)} {verb} refuted")
    return clauses


def _judgement(claims: list[Claimed], settings: Sequence[Node]) -> str:
    wrong = [claim for claim in claims if claim.bound.get("verdict") == stored.REFUTED]
    if not claims:
        return "no claimed upper bound applies"
    known = all(stored.exact_known(row) for s in settings for row in s["deltas"])
    evidence = "the exact laws" if known else "the evidence"
    if not wrong:
        if any(claim.bound.get("verdict") != stored.CONSISTENT for claim in claims):
            return f"none of the {len(claims)} claimed upper bounds is refuted by {evidence}"
        every = (
            "the one claimed upper bound is"
            if len(claims) == 1
            else (f"all {len(claims)} claimed upper bounds are")
        )
        return f"{every} consistent with {evidence}"
    named = [
        f"{_called(str(c.bound['id']))} claims {number(c.bound.get('epsilon'), 4, Rounding.UP)} "
        f"where {_true_value(c.row)}{_where(c, settings)}"
        for c in islice(wrong, _NAMED)
    ]
    more = f", and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    verb = "is" if len(wrong) == 1 else "are"
    return (
        f"{len(wrong)} of {len(claims)} claimed upper bounds {verb} refuted "
        f"({', '.join(named)}{more})"
    )


def _called(name: str) -> str:
    """Return a bound's name as it stands in a sentence: with quotes where it is words."""
    return f"“{name}”" if " " in name else name


def _true_value(row: Node) -> str:
    value, name = stored.strongest(row)
    if not stored.exact_known(row):
        return f"samples certify {number(value, 4, Rounding.DOWN)}"
    if name:
        return f"{name} has {number(value, 4, Rounding.DOWN)}"
    return f"the pair has {bracket(stored.worst(row), 4)}"


def _where(claim: Claimed, settings: Sequence[Node]) -> str:
    setting = f" in “{stored.title(claim.setting)}”" if len(settings) > 1 else ""
    return f" at δ = {plain(claim.row['delta'])}{setting}"


def _tightness(rows: Sequence[tuple[Node, Node]]) -> list[str]:
    found = [(s, stored.tightest(row)) for s, row in rows if stored.exact_known(row)]
    known = [
        (float(best["ratio"]), str(best["id"]), stored.title(setting))
        for setting, best in found
        if best and best.get("ratio") is not None
    ]
    if not known:
        return []
    least, most = min(known), max(known)
    pair = " of the strongest pair" if any(stored.strongest(row)[1] for _, row in rows) else ""
    text = f"the tightest that stands is {ratio(least[0])} times the exact value{pair} ({least[1]})"
    if len(known) > 1 and ratio(least[0]) != ratio(most[0]):
        text += f", and {ratio(most[0])} times where the gap is widest (“{most[2]}”)"
    return [text]


def _sampling(rows: list[Node]) -> list[str]:
    shares = []
    for row in rows:
        value, high = stored.sampled_epsilon(row), stored.worst(row)[1]
        if value is not None and high:
            shares.append((value, float(high)))
    if not shares:
        return []
    least = min(shares, key=lambda pair: pair[0] / pair[1])
    most = max(shares, key=lambda pair: pair[0] / pair[1])
    if share(*least) == share(*most):
        return [f"samples certify {share(*most)} of the exact value"]
    return [f"samples certify between {share(*least)} and {share(*most)} of the exact values"]


def mechanism(setting: Node) -> str:
    """Return the mechanism in words."""
    m: dict[str, Any] = setting["mechanism"]
    if setting.get("source"):
        return (
            f"The scores are those of {setting['source']}: nothing else is known of the mechanism."
        )
    derived = setting.get("derived") or {}
    sentences = [_run(m), _noise(m, derived), _losses(m), _domain(m, derived)]
    relation = _RELATIONS.get(str(m.get("relation")))
    if relation:
        sentences.append(f"Neighbouring datasets {relation}.")
    released = _RELEASES.get(str(m.get("release", "last iterate")))
    if released:
        sentences.append(released)
    return " ".join(sentence for sentence in sentences if sentence)


def _run(m: Node) -> str:
    text = f"Noisy-SGD takes T = {plain(m.get('steps'))} steps"
    batches = _BATCHES.get(str(m.get("batching")))
    if batches and m.get("dataset_size") and m.get("batch_size"):
        text += ", with " + batches.format(n=plain(m["dataset_size"]), b=plain(m["batch_size"]))
    return text + "."


def _noise(m: Node, derived: Node) -> str:
    size = m.get("step_size")
    if size is None or m.get("noise_std") is None:
        return ""
    if isinstance(size, (list, tuple)):
        steps = f"Step sizes run from {plain(size[0])} to {plain(size[-1])}"
    else:
        steps = f"The step size is η = {plain(size)}"
    text = f"{steps} and the noise has standard deviation σ = {plain(m['noise_std'])}"
    if derived.get("step_std") is not None:
        text += (
            f", so a step moves the iterate by noise of deviation ησ = {plain(derived['step_std'])}"
        )
    return text + "."


def _losses(m: Node) -> str:
    traits = []
    if m.get("strong_convexity"):
        traits.append(f"{plain(m['strong_convexity'])}-strongly convex")
    elif m.get("convex") is not None:
        traits.append("convex" if m["convex"] else "not necessarily convex")
    if m.get("lipschitz") is not None:
        traits.append(f"{plain(m['lipschitz'])}-Lipschitz")
    if m.get("smoothness") is not None:
        traits.append(f"{plain(m['smoothness'])}-smooth")
    if m.get("lipschitz") is None and m.get("gradient_sensitivity") is not None:
        traits.append(f"of gradient sensitivity {plain(m['gradient_sensitivity'])}")
    if not traits:
        return ""
    listed = traits[0] if len(traits) == 1 else f"{', '.join(traits[:-1])} and {traits[-1]}"
    return f"Losses are {listed}."


def _domain(m: Node, derived: Node) -> str:
    if "diameter" not in m:
        return ""
    if m["diameter"] is None:
        return "The domain is unconstrained."
    text = f"Iterates are projected onto a domain of diameter D = {plain(m['diameter'])}"
    if derived.get("diameter_in_step_std") is not None:
        times = plain(float(number(derived["diameter_in_step_std"], 4)))
        text += f", {times} times the noise of a step"
    return text + "."

"""The sandwich: certified lower bound, exact value, claimed upper bounds, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit import bounds
from audit.claims import Verdict, judge_upper_bound
from audit.constructions import Construction
from audit.curves import PrivacyCurve
from audit.estimation import Audit, Evidence
from audit.exact import GaussianPairCurve, LawCurve
from audit.mechanism import NoisySGD, Order

ExactCurve = LawCurve | GaussianPairCurve


@dataclass(frozen=True)
class Claim:
    """A catalogue entry evaluated for a mechanism, or the reason why it does not apply."""

    entry: bounds.Entry
    curve: PrivacyCurve | None
    reason: str | None


def claimed_bounds(mechanism: NoisySGD, names: Sequence[str]) -> tuple[Claim, ...]:
    """Evaluate the named entries of the catalogue for the mechanism."""
    claims = []
    for name in names:
        entry = bounds.CATALOGUE[name]
        try:
            claims.append(Claim(entry, bounds.evaluate(name, mechanism), None))
        except bounds.NotApplicable as reason:
            claims.append(Claim(entry, None, str(reason)))
    return tuple(claims)


def at_delta(
    delta: float,
    pairs: Sequence[tuple[Construction, ExactCurve]],
    audited: Audit,
    claims: tuple[Claim, ...],
) -> dict[str, Any]:
    """Tell what is known of epsilon at one delta.

    The first pair is the setting's own. Claims are held against the largest certified value of
    all neighbouring pairs.
    """
    exact_values = brackets(lambda order: pairs[0][1].epsilon_bracket(delta, order))
    certified, by = max(
        (curve.epsilon_bracket(delta)[0], pair.name)
        for pair, curve in pairs
        if pair.is_neighbouring
    )
    rows = [_row(claim, delta, certified) for claim in claims]
    finite = {
        row["id"]: row for row in rows if row["epsilon"] is not None and row["epsilon"] < math.inf
    }
    sound = {
        claim.entry.id: float(finite[claim.entry.id]["epsilon"])
        for claim in claims
        if _usable(claim) and claim.entry.id in finite
    }
    best = finite[bounds.tightest(sound)] if sound else None
    return {
        "delta": delta,
        "sampled": sampled_evidence(audited.evidence(delta)),
        "exact": exact_values,
        "certified": {"epsilon": certified, "by": by},
        "bounds": rows,
        "best": best and {key: best[key] for key in ("id", "epsilon", "ratio")},
    }


def _usable(claim: Claim) -> bool:
    return claim.entry.status.sound


def at_order(
    alpha: float, curve: ExactCurve, audited: Audit, claims: tuple[Claim, ...]
) -> dict[str, Any]:
    """Tell what is known of the Renyi divergence of one order, for the setting's own pair."""
    values = brackets(lambda order: curve.renyi_bracket(alpha, order))
    rows: list[dict[str, Any]] = [
        {
            "id": claim.entry.id,
            "status": claim.entry.status.value,
            "value": claim.curve.renyi(alpha),
        }
        for claim in claims
        if claim.curve is not None and claim.entry.status is not bounds.Status.ASYMPTOTIC
    ]
    for row in rows:
        row["verdict"] = judge_upper_bound(float(row["value"]), values["worst"][0]).value
    return {
        "order": alpha,
        **values,
        "sampled_lower": audited.renyi_lower(alpha),
        "bounds": rows,
    }


def brackets(bracket: Any) -> dict[str, tuple[float, float]]:
    """Evaluate a bracket in either order and for the worse of the two."""
    return {
        "forward": bracket(Order.FORWARD),
        "reverse": bracket(Order.REVERSE),
        "worst": bracket(None),
    }


def sampled_evidence(evidence: Evidence) -> dict[str, Any]:
    """Tell a certified epsilon and its counts by law (X, X'), whatever the order."""
    first = (evidence.first_count, evidence.first_total)
    second = (evidence.second_count, evidence.second_total)
    forward = evidence.order is Order.FORWARD
    (count, total), (prime, total_prime) = (first, second) if forward else (second, first)
    return {
        "epsilon": evidence.value,
        "order": evidence.order.value,
        "tail": evidence.tail.value,
        "threshold": evidence.threshold,
        "count": count,
        "total": total,
        "count_prime": prime,
        "total_prime": total_prime,
        "error_spent": evidence.error_spent,
        "largest_certifiable": evidence.sampling_limit,
    }


def _row(claim: Claim, delta: float, certified: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": claim.entry.id,
        "citation": str(claim.entry.cite),
        "status": claim.entry.status.value,
        "epsilon": None,
        "reason": claim.reason,
        "ratio": None,
        "verdict": Verdict.NOT_APPLICABLE.value,
    }
    if claim.curve is not None and claim.entry.status is bounds.Status.ASYMPTOTIC:
        row["reason"] = "a rate without constants is never judged"
    elif claim.curve is not None:
        value = claim.curve.epsilon(delta)
        row["epsilon"] = value
        row["ratio"] = value / certified if certified > 0 else None
        row["verdict"] = judge_upper_bound(value, certified).value
    return row

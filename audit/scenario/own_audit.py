"""Every estimator on the scores of a user's own mechanism, within one confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import estimation
from audit.claims import judge_upper_bound
from audit.estimation import Audit, SequentialAudit
from audit.scenario.comparison import sampled_evidence
from audit.scenario.own import OwnClaim, OwnSetting
from audit.scenario.pictures import score_histograms

Array = NDArray[np.float64]

PILOT, BAND, SEQUENTIAL = "pilot split", "simultaneous band", "sequential"
_WAYS = 3
# Claims that the sequential audit tests beside the user's: a grid up to this epsilon.
_FARTHEST, _GRID = 12.0, 61


@dataclass(frozen=True)
class _Audited:
    """The three audits; each spends a third of the error, so that all hold together."""

    pilot: Audit
    band: Audit
    sequential: dict[float, SequentialAudit]

    def lower(self, delta: float) -> dict[str, float]:
        return {
            PILOT: float(self.pilot.epsilon_lower(delta)),
            BAND: float(self.band.epsilon_lower(delta)),
            SEQUENTIAL: self.sequential[delta].epsilon_lower(delta),
        }


def audit_own(setting: OwnSetting, *, confidence: float, seed: int) -> dict[str, Any]:
    """Draw or read the scores, certify lower bounds in three ways, and judge the claims.

    With probability at least ``confidence`` every number certified is at most the true epsilon,
    at all deltas and by all estimators together, so the largest of them may be used. A claim is
    refuted if that one exceeds it.

    Returns
    -------
    dict
        The setting's part of ``result.json``. Exact values are not known: ``exact.worst`` is
        what is certified, without an upper end.

    Raises
    ------
    ValueError
        If the scores cannot be had, or are not finite numbers.
    """
    x, x_prime = setting.source.draw(seed)
    audited = _audited(setting, x, x_prime, confidence, seed)
    return {
        "name": setting.name,
        "title": setting.title,
        "summary": setting.summary,
        "mechanism": {},
        "source": setting.source.described,
        "trials": int(min(x.size, x_prime.size)),
        "seed": seed,
        "deltas": [_row(delta, setting, audited) for delta in setting.all_deltas],
        "mu_lower": audited.pilot.mu_lower(),
        "audit": audited.pilot.to_dict(),
        "scores": score_histograms(x, x_prime),
    }


def _audited(
    setting: OwnSetting, x: Array, x_prime: Array, confidence: float, seed: int
) -> _Audited:
    deltas = setting.all_deltas
    share = 1 - (1 - confidence) / _WAYS
    pairs = min(x.size, x_prime.size)
    sequential = {}
    for delta in deltas:
        claimed = {claim.epsilon for claim in setting.claims if claim.delta == delta}
        grid = sorted({*np.linspace(0.0, _FARTHEST, _GRID).tolist(), *claimed})
        one = SequentialAudit(
            [(epsilon, delta) for epsilon in grid], confidence=1 - (1 - share) / len(deltas)
        )
        one.update(x[:pairs], x_prime[:pairs])
        sequential[delta] = one
    return _Audited(
        estimation.audit_samples(x, x_prime, confidence=share, deltas=deltas, seed=seed),
        estimation.audit_samples(
            x,
            x_prime,
            confidence=share,
            deltas=deltas,
            thresholds=estimation.SimultaneousBand(),
        ),
        sequential,
    )


def _row(delta: float, setting: OwnSetting, audited: _Audited) -> dict[str, Any]:
    lower = audited.lower(delta)
    certified = max(lower.values())
    # the counts that are shown are the better one's of the two that count
    shown = audited.band if lower[BAND] > lower[PILOT] else audited.pilot
    claims = [_judged(claim, certified) for claim in setting.claims if claim.delta == delta]
    standing = [claim for claim in claims if claim["verdict"] == "consistent"]
    best = min(standing, key=lambda row: float(row["epsilon"]), default=None)
    return {
        "delta": delta,
        "sampled": {**sampled_evidence(shown.evidence(delta)), "epsilon": certified},
        "estimators": [
            {
                "name": name,
                "epsilon": value,
                "refuted_after": _refuted_after(setting, audited, delta, name),
            }
            for name, value in lower.items()
        ],
        "exact": {"worst": (certified, math.inf), "known": False},
        "certified": {"epsilon": certified, "by": "samples"},
        "bounds": claims,
        "best": best and {key: best[key] for key in ("id", "epsilon", "ratio")},
    }


def _refuted_after(
    setting: OwnSetting, audited: _Audited, delta: float, name: str
) -> dict[str, int | None]:
    """Pairs of runs after which the sequential audit refuted each claim; None if it did not."""
    if name != SEQUENTIAL:
        return {}
    audit = audited.sequential[delta]
    after = {
        epsilon: evidence.refuted_after
        for (epsilon, _), evidence in zip(audit.claims, audit.evidence, strict=True)
    }
    return {c.name: after[c.epsilon] for c in setting.claims if c.delta == delta}


def _judged(claim: OwnClaim, certified: float) -> dict[str, Any]:
    return {
        "id": claim.name,
        "citation": "claimed by the mechanism's author",
        "status": "claimed",
        "epsilon": claim.epsilon,
        "reason": None,
        "ratio": claim.epsilon / certified if certified > 0 else None,
        "verdict": judge_upper_bound(claim.epsilon, certified).value,
    }

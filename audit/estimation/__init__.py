"""Lower bounds on privacy loss from samples, with honest confidence.

Names are imported when they are used: sequential audits alone import Numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.estimation.credible import CredibleStatement, credible_epsilon
    from audit.estimation.evidence import CountedTest, Evidence, Tail, ThresholdTest
    from audit.estimation.fixed import FixedThresholds, Summary
    from audit.estimation.learned_scores import (
        GradientBoosting,
        Histogram,
        LearnedScore,
        Logistic,
        NearestNeighbours,
    )
    from audit.estimation.one_run import (
        OneRunBound,
        one_run_curve_p_value,
        one_run_epsilon,
        one_run_mu,
        one_run_p_value,
    )
    from audit.estimation.pilot_split import PilotSplit
    from audit.estimation.record import AuditRecord, Spent
    from audit.estimation.regions import Rates, clopper_pearson, rate_lower, rate_upper
    from audit.estimation.result import Audit
    from audit.estimation.samples import audit_counts, audit_samples
    from audit.estimation.scores import Certifying, Fresh, KnownLaw, LogRatio, Training, split
    from audit.estimation.sequential import (
        Betting,
        ClaimEvidence,
        SequentialAudit,
        average_e_values,
    )
    from audit.estimation.simultaneous_band import SimultaneousBand

_DEFINED_IN = {
    "Audit": "result",
    "AuditRecord": "record",
    "Betting": "sequential",
    "Certifying": "scores",
    "ClaimEvidence": "sequential",
    "CountedTest": "evidence",
    "CredibleStatement": "credible",
    "Evidence": "evidence",
    "FixedThresholds": "fixed",
    "Fresh": "scores",
    "GradientBoosting": "learned_scores",
    "Histogram": "learned_scores",
    "KnownLaw": "scores",
    "LearnedScore": "learned_scores",
    "LogRatio": "scores",
    "Logistic": "learned_scores",
    "NearestNeighbours": "learned_scores",
    "OneRunBound": "one_run",
    "PilotSplit": "pilot_split",
    "Rates": "regions",
    "SequentialAudit": "sequential",
    "SimultaneousBand": "simultaneous_band",
    "Spent": "record",
    "Summary": "fixed",
    "Tail": "evidence",
    "ThresholdTest": "evidence",
    "Training": "scores",
    "audit_counts": "samples",
    "audit_samples": "samples",
    "average_e_values": "sequential",
    "clopper_pearson": "regions",
    "credible_epsilon": "credible",
    "one_run_curve_p_value": "one_run",
    "one_run_epsilon": "one_run",
    "one_run_mu": "one_run",
    "one_run_p_value": "one_run",
    "rate_lower": "regions",
    "rate_upper": "regions",
    "split": "scores",
}

__all__ = [
    "Audit",
    "AuditRecord",
    "Betting",
    "Certifying",
    "ClaimEvidence",
    "CountedTest",
    "CredibleStatement",
    "Evidence",
    "FixedThresholds",
    "Fresh",
    "GradientBoosting",
    "Histogram",
    "KnownLaw",
    "LearnedScore",
    "LogRatio",
    "Logistic",
    "NearestNeighbours",
    "OneRunBound",
    "PilotSplit",
    "Rates",
    "SequentialAudit",
    "SimultaneousBand",
    "Spent",
    "Summary",
    "Tail",
    "ThresholdTest",
    "Training",
    "audit_counts",
    "audit_samples",
    "average_e_values",
    "clopper_pearson",
    "credible_epsilon",
    "one_run_curve_p_value",
    "one_run_epsilon",
    "one_run_mu",
    "one_run_p_value",
    "rate_lower",
    "rate_upper",
    "split",
]


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(f"audit.estimation.{_DEFINED_IN[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

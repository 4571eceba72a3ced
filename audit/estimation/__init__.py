"""Lower bounds on privacy loss from samples, with honest confidence."""

from audit.estimation.choice import Spent
from audit.estimation.credible import CredibleStatement, credible_epsilon
from audit.estimation.events import Tail, ThresholdTest
from audit.estimation.evidence import CountedTest, Evidence
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
from audit.estimation.record import AuditRecord
from audit.estimation.regions import Rates, clopper_pearson, rate_lower, rate_upper
from audit.estimation.result import Audit
from audit.estimation.samples import audit_counts, audit_samples
from audit.estimation.scores import Certifying, Fresh, KnownLaw, LogRatio, Training, split
from audit.estimation.sequential import Betting, ClaimEvidence, SequentialAudit, average_e_values
from audit.estimation.simultaneous_band import SimultaneousBand

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

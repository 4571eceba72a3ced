"""Lower bounds on privacy loss from samples, with honest confidence."""

from audit.estimation.events import Tail, ThresholdTest
from audit.estimation.evidence import CountedTest, Evidence
from audit.estimation.intervals import clopper_pearson, rate_lower, rate_upper
from audit.estimation.pilot import PilotSplit
from audit.estimation.result import Audit
from audit.estimation.samples import audit_samples

__all__ = [
    "Audit",
    "CountedTest",
    "Evidence",
    "PilotSplit",
    "Tail",
    "ThresholdTest",
    "audit_samples",
    "clopper_pearson",
    "rate_lower",
    "rate_upper",
]

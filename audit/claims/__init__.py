"""Claims about mechanisms, and the verdicts on them.

    check_file("claims.yaml")  # judges every claim of a file

Claims are written in files (`audit.claims.claims_file`) or built (`Claim`), and judged by
`audit.claims.judge`.
"""

from audit.claims.checking import check, check_file
from audit.claims.claim import (
    Budget,
    CallableBound,
    CatalogueBound,
    Claim,
    EpsilonDelta,
    Expected,
    Gaussian,
    LooseBy,
    NotPrivate,
    NotRenyi,
    Renyi,
    Severity,
    Tradeoff,
)
from audit.claims.judgement import Evidence, Judgement
from audit.results import Verdict, judge_interval, judge_upper_bound

__all__ = [
    "Budget",
    "CallableBound",
    "CatalogueBound",
    "Claim",
    "EpsilonDelta",
    "Evidence",
    "Expected",
    "Gaussian",
    "Judgement",
    "LooseBy",
    "NotPrivate",
    "NotRenyi",
    "Renyi",
    "Severity",
    "Tradeoff",
    "Verdict",
    "check",
    "check_file",
    "judge_interval",
    "judge_upper_bound",
]

"""Claims about mechanisms, and the verdicts on them.

    check_file("claims.yaml")  # judges every claim of a file

Claims are written in files (`audit.claims.files`) or built (`Claim`), and judged by
`audit.claims.judge`.
"""

from audit.claims.checking import check_file
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
from audit.claims.judgement import Judgement
from audit.claims.verdicts import Verdict, judge_interval, judge_upper_bound

__all__ = [
    "Budget",
    "CallableBound",
    "CatalogueBound",
    "Claim",
    "EpsilonDelta",
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
    "check_file",
    "judge_interval",
    "judge_upper_bound",
]

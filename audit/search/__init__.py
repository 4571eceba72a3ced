"""Worst-case search: admissible pairs that are easier to tell apart than the papers'."""

from audit.search.admissible import check_admissible
from audit.search.objectives import ClaimedEpsilon, Epsilon, Objective, RenyiDivergence
from audit.search.sandwich import tightest_bound
from audit.search.stored import StoredPair, read_found, to_yaml, write_found
from audit.search.worst_case import Found, worst_case

__all__ = [
    "ClaimedEpsilon",
    "Epsilon",
    "Found",
    "Objective",
    "RenyiDivergence",
    "StoredPair",
    "check_admissible",
    "read_found",
    "tightest_bound",
    "to_yaml",
    "worst_case",
    "write_found",
]

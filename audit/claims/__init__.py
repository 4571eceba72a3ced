"""Verdicts on claimed bounds."""

from audit.claims.verdicts import Verdict, judge_interval, judge_upper_bound

__all__ = ["Verdict", "judge_interval", "judge_upper_bound"]

"""Verdicts under their public name; see `audit.results.verdicts`."""

from audit.results.verdicts import Verdict, judge_interval, judge_upper_bound

__all__ = ["Verdict", "judge_interval", "judge_upper_bound"]

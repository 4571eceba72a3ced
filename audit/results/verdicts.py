"""Verdicts, which estimators give too."""

from audit.estimation.verdicts import UserClaim as UserClaim
from audit.estimation.verdicts import Verdict as Verdict
from audit.estimation.verdicts import judge_interval as judge_interval
from audit.estimation.verdicts import judge_upper_bound as judge_upper_bound

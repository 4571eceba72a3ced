"""Run a scenario: exact laws, samples and claimed bounds on one line."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.scenario.definition import Scenario
    from audit.scenario.kinds import KINDS, Setting, setting_kind
    from audit.scenario.pair import PairSetting, SearchPlan
    from audit.scenario.run_folder import RunFolder
    from audit.scenario.run_scenario import run
    from audit.scenario.studies import Progress, study
    from audit.scenario.study_setting import StudySetting
    from audit.scenario.user_mechanism import (
        DrawnScores,
        StoredScores,
        UserClaim,
        UserMechanismSetting,
    )

_MODULES = {
    "DrawnScores": "user_mechanism",
    "KINDS": "kinds",
    "PairSetting": "pair",
    "Progress": "studies",
    "RunFolder": "run_folder",
    "Scenario": "definition",
    "SearchPlan": "pair",
    "Setting": "kinds",
    "StoredScores": "user_mechanism",
    "StudySetting": "study_setting",
    "UserClaim": "user_mechanism",
    "UserMechanismSetting": "user_mechanism",
    "run": "run_scenario",
    "setting_kind": "kinds",
    "study": "studies",
}

__all__ = [
    "KINDS",
    "DrawnScores",
    "PairSetting",
    "Progress",
    "RunFolder",
    "Scenario",
    "SearchPlan",
    "Setting",
    "StoredScores",
    "StudySetting",
    "UserClaim",
    "UserMechanismSetting",
    "run",
    "setting_kind",
    "study",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: reading a scenario needs no estimators or kernels."""
    if name not in _MODULES:
        raise AttributeError(f"module 'audit.scenario' has no attribute {name!r}")
    return getattr(importlib.import_module(f"audit.scenario.{_MODULES[name]}"), name)

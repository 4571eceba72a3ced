"""Typed results: what a run of a scenario produces, and its form as JSON.

`audit.scenario.run` returns a `Result`; reports take `Result`s and nothing else. A result holds
one value for each setting: a `PairResult`, a `UserMechanismResult` or a `StudyResult`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.results.comparisons import (
        AtDelta,
        AtOrder,
        AtPosition,
        BoundRow,
        ByOrder,
        Certified,
        EpsilonAtDelta,
        Estimate,
        Estimator,
        FoundBy,
        NamedEpsilon,
        Number,
        OtherPair,
        PositionAtDelta,
        RefutedAfter,
        SampledEvidence,
    )
    from audit.results.curves import (
        BoundCurve,
        BurnIn,
        EpsilonAgainstSteps,
        LawCurves,
        Laws,
        ScoreHistograms,
        TradeoffCurves,
    )
    from audit.results.findings import Chart, Drawn, Findings, FoundTable, Series, Statement, Value
    from audit.results.json_codec import from_json, schema, to_json
    from audit.results.result import (
        VERSION,
        Derived,
        Environment,
        PairResult,
        Provenance,
        Result,
        ScenarioHeading,
        SettingResult,
        StudyResult,
        UserMechanismResult,
    )
    from audit.results.verdicts import Verdict, judge_interval, judge_upper_bound

__all__ = [
    "SCHEMA_FILE",
    "VERSION",
    "AtDelta",
    "AtOrder",
    "AtPosition",
    "BoundCurve",
    "BoundRow",
    "BurnIn",
    "ByOrder",
    "Certified",
    "Chart",
    "Derived",
    "Drawn",
    "Environment",
    "EpsilonAgainstSteps",
    "EpsilonAtDelta",
    "Estimate",
    "Estimator",
    "Findings",
    "FoundBy",
    "FoundTable",
    "LawCurves",
    "Laws",
    "NamedEpsilon",
    "Number",
    "OtherPair",
    "PairResult",
    "PositionAtDelta",
    "Provenance",
    "RefutedAfter",
    "Result",
    "SampledEvidence",
    "ScenarioHeading",
    "ScoreHistograms",
    "Series",
    "SettingResult",
    "Statement",
    "StudyResult",
    "TradeoffCurves",
    "UserMechanismResult",
    "Value",
    "Verdict",
    "from_json",
    "judge_interval",
    "judge_upper_bound",
    "schema",
    "to_json",
]

# What `schema` returns, as it ships.
SCHEMA_FILE = Path(__file__).with_name("result.schema.json")

# Findings and verdicts are light; the other modules take numerical libraries.
_MODULES = ("verdicts", "findings", "comparisons", "curves", "result", "json_codec")


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name in __all__:
        for module in _MODULES:
            found = importlib.import_module(f"audit.results.{module}")
            if hasattr(found, name):
                return getattr(found, name)
    raise AttributeError(f"module 'audit.results' has no attribute {name!r}")

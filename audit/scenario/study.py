"""A setting that asks a study instead of comparing three numbers, and its stored form."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit import validate
from audit.results import Findings
from audit.scenario.studies import Study


@dataclass(frozen=True, kw_only=True)
class StudySetting:
    """A study under a name.

    Parameters
    ----------
    name, title, summary
        A short name for files, and words for people.
    study
        What is asked, with its settings.
    """

    name: str
    title: str
    summary: str
    study: Study

    @property
    def kind(self) -> str:
        """The study's name, without its module."""
        return self.study.function.partition(":")[2]


def stored_study(setting: StudySetting, findings: Findings, seed: int) -> dict[str, Any]:
    """Return the setting's part of ``result.json``.

    There is no epsilon at a delta to compare, so ``deltas`` is empty; all that was found is under
    ``study``, beside the study's own settings. Infinite numbers stay what they are (null once
    written); what is no number is null in charts, a gap, and a word elsewhere.

    Raises
    ------
    ValueError
        If two charts have the same name.
    """
    names = [chart.name for chart in findings.charts]
    if len(set(names)) < len(names):
        raise validate.fail("charts", "of a name each", names)
    return {
        "name": setting.name,
        "title": setting.title,
        "summary": setting.summary,
        "mechanism": {},
        "seed": seed,
        "deltas": [],
        "study": {
            "kind": setting.kind,
            "settings": _fields(setting.study.parameters),
            "statements": [_statement(statement) for statement in findings.statements],
            "tables": [_fields(table) for table in findings.tables],
            "charts": [_chart(chart) for chart in findings.charts],
            "notes": list(findings.notes),
            "numbers": _plain(findings.numbers),
        },
    }


def _shallow(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _fields(value: Any) -> dict[str, Any]:
    return {name: _plain(item) for name, item in _shallow(value).items()}


def _statement(statement: Any) -> dict[str, Any]:
    fields = _fields(statement)
    return {"outcome" if key == "verdict" else key: value for key, value in fields.items()}


def _chart(chart: Any) -> dict[str, Any]:
    series = [
        {
            "name": one.name,
            "drawn": one.drawn.value,
            **{
                axis: None if values is None else list(values)
                for axis, values in (("x", one.x), ("y", one.y), ("top", one.top))
            },
        }
        for one in chart.series
    ]
    return {**{k: v for k, v in _shallow(chart).items() if k != "series"}, "series": series}


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        value = value.tolist()
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and (math.isnan(value) or value == -math.inf):
        return "nan" if math.isnan(value) else "-inf"
    return value

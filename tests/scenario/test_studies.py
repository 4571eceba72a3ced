"""Studies in scenario files: built by name, run, stored as plain data, refused in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from audit.config import MechanismConfig, SettingConfig, to_setting
from audit.scenario import Scenario, run
from audit.scenario.store import to_json
from audit.scenario.study import StudySetting, stored_study
from audit.studies import Chart, Findings, named

from .studies import Colour, Everything, Point

FIELDS: dict[str, Any] = {
    "kind": "Everything",
    "size": 12,
    "step": 1,
    "colour": "BLUE",
    "numbers": [1, 2.5],
    "pair": [3, 4],
    "place": "a/b.npy",
    "centre": {"x": 2},
}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {**named.KINDS, "Everything": "tests.scenario.studies"}
    monkeypatch.setattr(named, "KINDS", kinds)


def setting(**changes: Any) -> StudySetting:
    values = {key: v for key, v in {**FIELDS, **changes}.items() if v is not ...}
    made = to_setting("all", SettingConfig(title="All of it", study=values))
    assert isinstance(made, StudySetting)
    return made


def test_fields_are_read_as_what_they_are() -> None:
    assert setting().study == Everything(
        size=12,
        step=1.0,
        colour=Colour.BLUE,
        numbers=(1.0, 2.5),
        pair=(3, 4),
        place=Path("a/b.npy"),
        centre=Point(2.0),
    )
    assert setting(place=None).study.place is None  # type: ignore[attr-defined]
    assert setting().kind == "Everything"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "Nothing"}, "settings.all: kind must be one of "),
        ({"sizes": 3}, "settings.all: sizes must be left out for a Everything, got 3"),
        ({"size": ...}, "settings.all: size must be given for a Everything, got None"),
        ({"size": "many"}, "settings.all: size must be a whole number, got 'many'"),
        ({"size": True}, "settings.all: size must be a whole number, got True"),
        ({"size": 1.5}, "settings.all: size must be a whole number, got 1.5"),
        ({"step": "wide"}, "settings.all: step must be a number, got 'wide'"),
        ({"wrong": 1}, "settings.all: wrong must be true or false, got 1"),
        ({"word": 1}, "settings.all: word must be a word, got 1"),
        ({"colour": "GREEN"}, "settings.all: colour must be one of RED, BLUE, got 'GREEN'"),
        ({"numbers": 1.0}, "settings.all: numbers must be a list, got 1.0"),
        ({"numbers": ["a"]}, "settings.all: numbers[0] must be a number, got 'a'"),
        ({"pair": [1]}, "settings.all: pair must be a list of 2, got [1]"),
        ({"place": 3}, "settings.all: place must be a path, got 3"),
        ({"centre": 1.0}, "settings.all: centre must be a mapping of fields, got 1.0"),
        ({"centre": {"z": 1.0}}, "settings.all: centre.z must be left out for a Point, got 1.0"),
        ({"kind": ...}, "settings.all: study must be a mapping with a kind, got {"),
    ],
)
def test_a_slip_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        setting(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "value"),
    [("mechanism", MechanismConfig()), ("deltas", [1e-5]), ("trials", 1000), ("positions", [0])],
)
def test_what_a_study_has_no_use_for_is_refused(part: str, value: Any) -> None:
    config = SettingConfig(study=FIELDS, **{part: value})
    with pytest.raises(ValueError, match=f"^settings.x: {part} must be left out beside study$"):
        to_setting("x", config)


def scenario(*settings: StudySetting, seed: int = 3) -> Scenario:
    return Scenario(
        name="studies",
        title="Studies",
        summary="",
        reference="",
        settings=settings,
        bounds=(),
        confidence=0.99,
        seed=seed,
        threads=1,
    )


def test_the_stored_form() -> None:
    result = run(scenario(setting(), setting(size=3, wrong=True)))
    first, second = json.loads(to_json(result))["settings"]
    assert first["deltas"] == []
    assert first["mechanism"] == {}
    assert set(first["study"]) == {
        "kind",
        "settings",
        "statements",
        "tables",
        "charts",
        "notes",
        "numbers",
    }
    assert first["study"]["settings"]["centre"] == {"x": 2.0, "y": 0.0}
    assert first["study"]["settings"]["colour"] == "blue"
    assert first["study"]["numbers"] == {"threads": 1, "confidence": 0.99, "at": [1, "nan"]}
    assert first["study"]["tables"][0]["rows"][2] == ["all", None, -1.5]
    steps = first["study"]["charts"][0]["series"][3]
    assert steps["drawn"] == "steps"
    assert steps["y"][:3] == [None, 1.0, 2.0]
    assert second["study"]["statements"][0]["outcome"] == "refuted"
    assert first["study"]["statements"][0] == {
        "claim": "The root of 2 is 1.41421356",
        "citation": "Euclid, Elements X",
        "expected": 1.41421356,
        "found": 2**0.5,
        "error": 1e-8,
        "outcome": "holds",
    }
    # each setting has a seed of its own, from the scenario's
    assert first["seed"] != second["seed"]
    assert first["study"]["statements"][1]["found"] == first["seed"]
    again, _ = json.loads(to_json(run(scenario(setting(), setting()))))["settings"]
    assert again["study"] == first["study"]


def test_charts_have_names_of_their_own() -> None:
    chart = Chart(name="a", title="", caption="", x_label="", y_label="", series=())
    with pytest.raises(ValueError, match=re.escape("charts must be of a name each, got ['a', 'a'")):
        stored_study(setting(), Findings(statements=(), charts=(chart, chart)), 0)


def test_every_kind_of_the_table_is_there_and_a_study() -> None:
    import dataclasses
    import importlib

    for kind, module in named.KINDS.items():
        made = getattr(importlib.import_module(module), kind)
        assert dataclasses.is_dataclass(made)
        assert made.__dataclass_params__.frozen, kind  # type: ignore[attr-defined]
        assert callable(made.find)


def test_the_report_never_imports_a_study() -> None:
    """It reads stored data only."""
    from tests.test_imports import ROOT, imported

    for path in (ROOT / "report").rglob("*.py"):
        names = imported(path.read_text(encoding="utf-8"), "audit.report.x")
        assert not [name for name in names if name.startswith("audit.studies")], path

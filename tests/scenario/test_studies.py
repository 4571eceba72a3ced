"""Studies in scenario files: built by name, run, refused in one line."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.codec import encode
from audit.results import Drawn, Findings, StudyResult, Verdict, from_json, to_json
from audit.scenario import run
from audit.scenario.config import read_setting
from audit.scenario.studies import Study, StudySetting, flat_parameters, read_study

from .small import scenario
from .studies import Colour, Everything, Point

FIELDS: dict[str, Any] = {
    "function": "tests.scenario.studies:Everything",
    "size": 12,
    "step": 1,
    "colour": "BLUE",
    "numbers": [1, 2.5],
    "pair": [3, 4],
    "place": "a/b.npy",
    "centre": {"x": 2},
}


def setting(**changes: Any) -> StudySetting:
    values = {key: v for key, v in {**FIELDS, **changes}.items() if v is not ...}
    made = read_setting("all", {"title": "All of it", "study": values})
    assert isinstance(made, StudySetting)
    return made


def test_parameters_are_decoded_by_their_type_hints() -> None:
    assert setting().study.parameters == Everything(
        size=12,
        step=1.0,
        colour=Colour.BLUE,
        numbers=(1.0, 2.5),
        pair=(3, 4),
        place=Path("a/b.npy"),
        centre=Point(2.0),
    )
    assert setting(place=None).study.parameters.place is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": 3}, "study.sizes must be left out of an Everything, got 3; did you mean 'size'"),
        ({"size": ...}, "study.size must be given"),
        ({"size": "many"}, "study.size must be a whole number, got 'many'"),
        ({"word": 1}, "study.word must be text, got 1"),
        ({"numbers": ["a"]}, "study.numbers[0] must be a number, got 'a'"),
        ({"place": 3}, "study.place must be a path or null, got 3"),
        ({"centre": {"z": 1.0}}, "study.centre.z must be left out of a Point, got 1.0"),
        ({"function": ...}, "study must be a mapping with a function, module:function, got {"),
        ({"function": "Everything"}, "study.function must be package.module:function, got 'Every"),
        (
            {"function": "tests.scenario.studys:Everything"},
            "study.function must name a module that is installed, beside the file or in the "
            "current folder, got 'tests.scenario.studys'; did you mean 'tests.scenario.studies'?",
        ),
        (
            {"function": "tests.scenario.studies:Everythin"},
            "study.function must name a function or class of tests.scenario.studies, got "
            "'Everythin'; did you mean 'Everything'?",
        ),
        (
            {"function": "tests.scenario.studies:Colour"},
            "study.function must name a study, got 'tests.scenario.studies:Colour': Colour must be "
            "a frozen dataclass",
        ),
        ({"function": "tests.scenario.studies:Point"}, "Point must have a method find"),
        ({"function": "tests.scenario.studies:unhinted"}, "size must have a type hint in unhinted"),
    ],
)
def test_a_slip_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^settings\.all[.:] ?.*{re.escape(message)}") as caught:
        setting(**changes)
    assert "\n" not in str(caught.value)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a user's module, beside a scenario; what it defines is forgotten afterwards."""
    before = list(sys.path)
    yield tmp_path / "a_users_module.py"
    sys.path[:] = before
    sys.modules.pop("a_users_module", None)


def asked(name: str, **parameters: Any) -> dict[str, Any]:
    return {"function": f"a_users_module:{name}", **parameters}


FUNCTION = """
from audit.results import Findings, Statement, Verdict

def above(*, least: float, names: tuple[str, ...] = (), seed: int) -> Findings:
    verdict = Verdict.HOLDS if seed > least else Verdict.REFUTED
    return Findings(statements=(
        Statement(claim="big", citation="", expected=least, found=seed, verdict=verdict),
    ))

def broken(*, least: float):
    return {}[least]

def nothing(*, least: float):
    return least
"""


def test_a_function_of_the_user_is_a_study(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module.write_text(FUNCTION, encoding="utf-8")
    monkeypatch.chdir(module.parent)
    made = read_study(asked("above", least=2, names=["a"]))
    assert encode(made.parameters) == {"least": 2.0, "names": ["a"]}
    (statement,) = answered(made, seed=3).statements
    assert (statement.expected, statement.found) == (2.0, 3)
    with pytest.raises(ValueError, match=r"^study\.seed must be left out: the run sets it, got 7$"):
        read_study(asked("above", least=2, seed=7))
    with pytest.raises(ValueError, match=r"^study\.leest must be left out of an above, got 2; did"):
        read_study(asked("above", leest=2))


def test_a_module_is_found_beside_the_scenario_and_what_it_raises_is_told(module: Path) -> None:
    module.write_text(FUNCTION, encoding="utf-8")
    with pytest.raises(ValueError, match="must name a module that is installed, beside the file"):
        read_study(asked("above", least=2.0))
    found = read_study(asked("above", least=2.0), folders=[module.parent])
    assert found.function == "a_users_module:above"
    made = read_study(asked("broken", least=2.0), folders=[module.parent])
    message = r"^a_users_module:broken failed: KeyError: 2\.0 \(a_users_module\.py, line 11\)$"
    with pytest.raises(ValueError, match=message):
        answered(made)
    made = read_study(asked("nothing", least=2.0))
    with pytest.raises(ValueError, match=r"^what a_users_module:nothing returns must be of type F"):
        answered(made)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package' (a_us"),
        ("def f(:", "SyntaxError: "),
        ("raise SystemExit(3)", "SystemExit: 3 (a_users_module.py, line 1)"),
    ],
)
def test_a_module_that_cannot_be_imported(module: Path, text: str, message: str) -> None:
    module.write_text(text + "\n", encoding="utf-8")
    told = re.escape(f"a_users_module cannot be imported: {message}")
    with pytest.raises(ValueError, match=f"^{told}") as caught:
        read_study(asked("f"), folders=[module.parent])
    assert "\n" not in str(caught.value)


def answered(made: Study, seed: int = 0) -> Findings:
    return made.find(seed=seed, threads=1, confidence=0.9, progress=lambda done, total: None)


def test_the_result_of_a_study() -> None:
    asked = replace(scenario(), settings=(setting(), setting(size=3, wrong=True)))
    result = run(asked)
    first, second = result.settings
    assert isinstance(first, StudyResult)
    assert isinstance(second, StudyResult)
    assert first.function == "tests.scenario.studies:Everything"
    assert first.parameters["centre.x"] == 2.0
    assert first.parameters["colour"] == "blue"
    assert first.parameters["numbers"] == (1.0, 2.5)
    found = first.findings
    assert found.numbers == {"threads": 2, "confidence": 0.95, "at": (1, "nan")}
    assert found.tables[0].rows[2] == ("all", math.inf, -1.5)
    steps = found.charts[0].series[3]
    assert steps.drawn is Drawn.STEPS
    assert steps.y[:3] == (None, 1.0, 2.0)
    assert second.findings.statements[0].verdict is Verdict.REFUTED
    assert found.statements[0].found == 2**0.5
    # each setting has a seed of its own, from the scenario's
    assert first.seed != second.seed
    assert found.statements[1].found == first.seed
    again, _ = run(replace(asked, settings=(setting(), setting()))).settings
    assert isinstance(again, StudyResult)
    assert again.findings == found
    assert from_json(to_json(result)) == result


def test_nested_parameters_have_dotted_names() -> None:
    plain = {"a": 1, "b": {"c": [1.5, "x"], "d": {"e": None}}, "f": [{"g": 2}, {"g": 3}], "h": []}
    assert flat_parameters(plain) == {
        "a": 1,
        "b.c": (1.5, "x"),
        "b.d.e": None,
        "f[0].g": 2,
        "f[1].g": 3,
        "h": (),
    }

"""The JSON Schema of scenario files agrees with the reader."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from audit.cli.audit import Output
from audit.scenario import KINDS, Scenario, setting_kind
from audit.scenario.config import read_scenario, read_setting, schema
from audit.scenario.folders import FIRST_LINE, scenario_files

from ..claims.test_schema import cases, changed, check_published
from . import test_user_mechanism as slips
from .test_kinds import Constant, registry  # noqa: F401 a fixture

TOP = Path(__file__).parents[2]
PUBLISHED = TOP / "docs" / "schemas" / "scenario.schema.json"
FILES = scenario_files()
# read in a moment: the modules of other studies take seconds to import
QUICK = ("own_dp_sgd", "searched")

MECHANISM = {
    "steps": 4,
    "dataset_size": 4,
    "batch_size": 4,
    "step_size": 0.5,
    "noise_std": 1.0,
    "lipschitz": 1.0,
    "smoothness": 1.0,
}
PAIR = {"mechanism": MECHANISM, "pair": "TwoSidedWalk", "deltas": [1e-5], "trials": 1000}
# numbers out of range, empty lists, and what is given or left out beside a function
READER_ONLY = re.compile(
    r"at least|one or more|number of|(delta|fraction) must be|package|^trials must be"
)


def scenario(**settings: Any) -> dict[str, Any]:
    return {"name": "x", "bounds": [], "confidence": 0.9, "seed": 1, "settings": settings}


@cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text(encoding="utf-8")))


def loaded(name: str) -> Any:
    plain = yaml.safe_load(FILES[name].read_text(encoding="utf-8"))
    return json.loads(json.dumps(plain))


@pytest.mark.slow
def test_what_is_published_is_the_schema_of_the_reader() -> None:
    check_published(PUBLISHED, "audit.cli.audit")


@pytest.mark.parametrize("name", FILES)
def test_shipped_files_fit_and_name_the_schema(name: str) -> None:
    assert [error.message for error in validator().iter_errors(loaded(name))] == []
    first, second, *_ = FILES[name].read_text(encoding="utf-8").split("\n")
    assert first == FIRST_LINE
    named = second.removeprefix("# yaml-language-server: $schema=")
    assert (FILES[name].parent / named).resolve() == PUBLISHED


@pytest.mark.parametrize(
    "plain",
    [
        {**scenario(one=PAIR), "sed": 1},
        {**scenario(one=PAIR), "title": 0},
        scenario(one={**PAIR, "title": []}),
        {**scenario(one=PAIR), "seed": "x"},
        {**scenario(one=PAIR), "bounds": ["at22.b_22"]},
        {**scenario(one=PAIR), "bounds": "at22.b_2"},
        {**scenario(one=PAIR), "parallel": {"kind": "tpu"}},
        {key: one for key, one in scenario(one=PAIR).items() if key != "confidence"},
        scenario(),
        scenario(one=3),
        scenario(one={key: one for key, one in PAIR.items() if key != "deltas"}),
        scenario(one={**PAIR, "delta": 1e-5}),
        scenario(one={**PAIR, "trials": 1e3 + 0.5}),
        scenario(one={**PAIR, "trials": None}),
        scenario(one={**PAIR, "pair": "TwoSidedWlk"}),
        scenario(one={**PAIR, "pair": {"kind": "DriftedWalk"}}),
        scenario(one={**PAIR, "pair": {"kind": "DriftedWalk", "drift": "far"}}),
        scenario(one={**PAIR, "pair": {"kind": "TwoSidedWalk", "drift": 1.0}}),
        scenario(one={**PAIR, "pair": "Finite"}),
        scenario(one={**PAIR, "mechanism": {**MECHANISM, "batching": "half"}}),
        scenario(one={**PAIR, "mechanism": {**MECHANISM, "clip": 1}}),
        scenario(one={**PAIR, "search": {"delta": 1e-5}}),
        scenario(one={"study": {"delta": 1}}),
        scenario(one={"study": {"function": "papers.langevin:LangevinOnQuadratics", "eta": 1}}),
    ],
)
def test_what_the_reader_refuses_is_refused(plain: dict[str, Any]) -> None:
    assert not validator().is_valid(plain)
    with pytest.raises(ValueError, match="must"):
        read_scenario(plain)


def test_slips_are_refused_as_by_the_reader() -> None:
    for plain, message in cases(slips.test_slips_in_the_configuration):
        fits = validator().is_valid(scenario(mine=plain))
        assert fits == bool(READER_ONLY.search(message)), (plain, message)


def test_all_that_is_wrong_is_told_at_once() -> None:
    wrong = scenario(
        one={**PAIR, "trials": "many", "deltas": [0.1, "x"]},
        two=PAIR,
        three={**PAIR, "trails": 2000},
    )
    with pytest.raises(ValueError) as refused:
        read_scenario(wrong)
    assert [line.partition(", got")[0] for line in str(refused.value).split("; ")[:3]] == [
        "settings.one.deltas[1] must be a number",
        "settings.one.trials must be a whole number",
        "settings.three.trails must be left out of a setting with the key pair",
    ]


def test_hydra_is_left_alone() -> None:
    base = scenario(
        one={
            **PAIR,
            "_target_": "package.Class",
            "trials": "${other.trials}",
            "mechanism": "${settings.two.mechanism}",
            "deltas": ["${delta}", 1e-5],
            "pair": {"kind": "DriftedWalk", "drift": "${eval:1}"},
            "search": "${search}",
        },
        two={**PAIR, "mechanism": {**MECHANISM, "batching": "${b}", "steps": "???"}},
        three="${settings.one}",
    )
    hydra = {
        **base,
        "seed": "???",
        "bounds": "${bounds}",
        "hydra": {"job": {"name": "x"}},
        "output": "${oc.env:HOME}/runs",
        "draw": False,
        "threads": None,
    }
    assert [error.message for error in validator().iter_errors(hydra)] == []
    built = {"defaults": ["base", "_self_"], "seed": 3, "settings": {"one": {"trials": 2000}}}
    assert validator().is_valid(built)
    assert not validator().is_valid({**built, "seeds": 3})


@pytest.mark.parametrize("name", [*QUICK, pytest.param("papers/langevin", marks=pytest.mark.slow)])
def test_what_the_reader_takes_fits(name: str) -> None:
    """Changed copies of shipped scenarios: no false alarm, and slips are seen by both."""
    dice, whole = random.Random(5), loaded(name)
    taken = both = 0
    for _ in range(60):
        plain = changed(copy.deepcopy(whole), dice)
        errors = [error.message for error in validator().iter_errors(plain)]
        try:
            read_scenario(plain)
        except ValueError:
            both += bool(errors)
        else:
            taken += 1
            assert not errors, plain
    assert taken >= 5
    assert both >= 15


# nothing that the reader knows can be missing


def test_the_schema_has_the_keys_of_the_reader() -> None:
    found = schema(Output)
    fields = [field.name for cls in (Scenario, Output) for field in dataclasses.fields(cls)]
    assert set(found["properties"]) == {*fields, "defaults", "hydra"}
    for cls in KINDS.values():
        known = {"title", "summary", *cls.keys()}
        assert set(found["$defs"][cls.__name__]["properties"]) == known
        for key in known:  # which the reader asks for where the setting has another key, too
            with pytest.raises(ValueError, match=r"must (be|hold)") as refusal:
                read_setting("x", {cls.key: 1, key: 1, "no_key": 1})
            assert f"settings.x.{key} must be left out" not in str(refusal.value)


def test_a_new_kind_of_setting_is_in_the_schema(registry: Iterator[None]) -> None:  # noqa: F811
    setting_kind(Constant)
    found = jsonschema.Draft202012Validator(schema())
    assert found.is_valid(scenario(one={"constant": {"value": 1.5}}))
    assert not found.is_valid(scenario(one={"constant": {"value": "x"}}))
    assert not found.is_valid(scenario(one={"constant": {"value": 1.5}, "pair": "TwoSidedWalk"}))

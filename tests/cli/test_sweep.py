"""A sweep of twenty configurations, three of them broken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize
from hydra.core.global_hydra import GlobalHydra

from audit import scenario
from audit.cli import audit, composition, scenarios
from audit.results import PairResult, Result
from audit.scenario import PairSetting, Scenario
from tests.report.example import example

CHANGES = ["scenario=two_sided_walk", "draw=false", "sweep=mine"]
BROKEN = {3: 0, 10: -1, 19: -2}  # the number of the job, and its number of steps


def stored(asked: Scenario, **_: Any) -> Result:
    """In place of a run, which is tested elsewhere: a result of the steps that were asked for."""
    (setting,) = asked.settings
    assert isinstance(setting, PairSetting)
    result = example()
    first = result.settings[0]
    assert isinstance(first, PairResult)
    mechanism = replace(first.mechanism, steps=setting.pair.mechanism.steps)
    pair = replace(first.pair, mechanism=mechanism)
    others = tuple(
        replace(other, pair=replace(other.pair, mechanism=mechanism)) for other in first.other_pairs
    )
    changed = replace(first, mechanism=mechanism, pair=pair, other_pairs=others)
    return replace(result, settings=(changed,))


def test_twenty_configurations_with_three_broken_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Hydra's launcher does it: one job after another, then the report of the sweep.

    That the command itself goes this way is tested in `tests.cli.test_audit`, with three jobs.
    """
    GlobalHydra.instance().clear()
    scenarios.register(["two_sided_walk"], audit.DEFAULT_SCENARIO, "mine", audit.Output)
    with initialize(version_base="1.3", config_path=None):
        config = compose(config_name="audit", overrides=[*CHANGES, f"output={tmp_path}"])
    commands: list[str] = []
    monkeypatch.setattr(composition, "command_line", lambda command: commands[-1])
    monkeypatch.setattr(scenario, "run", stored)
    for number in range(20):
        steps = BROKEN.get(number, number + 1)
        config.settings.full_batch.mechanism.steps = steps
        commands.append(f"audit settings.full_batch.mechanism.steps={steps}")
        audit.run_in_sweep(config, [])
    broken = audit.join(tmp_path / "mine")
    assert broken  # the command ends with status 1
    told = capsys.readouterr().out
    assert "17 results and 3 errors. " in told
    assert len([line for line in told.splitlines() if line.startswith("done: ")]) == 17
    content = json.loads((tmp_path / "mine" / "results.json").read_text(encoding="utf-8"))
    assert (content["results"], content["errors"]) == (17, 3)
    errors = [row["error"] for row in content["rows"] if row["verdict"] == "error"]
    message = "settings.full_batch.mechanism.steps must be a whole number of at least 1, got"
    assert sorted(errors) == sorted(f"{message} {steps}" for steps in BROKEN.values())

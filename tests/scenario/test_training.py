"""A training as a setting of a scenario: read, run, interrupted, and run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.progress import Silent
from audit.results import Verdict
from audit.scenario import TrainingSetting
from audit.scenario.config import read_setting
from audit.scenario.definition import RunContext
from audit.scenario.sampling import Sampling, Unfinished
from audit.simulation import Parallel
from tests.simulation.runs.jobs import recorded
from tests.training import trainings
from tests.training.test_run import audited

CLAIM = {"name": "accountant", "epsilon": 2.4, "delta": 1e-2}
TRAINING = {"train": f"{trainings.__name__}:score", "claims": [CLAIM], "trials": 40}


def setting(**changed: Any) -> TrainingSetting:
    read = read_setting("mine", {"title": "Mine", "training": {**TRAINING, **changed}})
    assert isinstance(read, TrainingSetting)
    return read


def context(folder: Path | None = None) -> RunContext:
    return RunContext(
        seed=11,
        confidence=0.95,
        threads=2,
        bounds=(),
        sampling=Sampling(Parallel(), folder),
        progress=Silent(),
    )


def test_it_is_the_audit_of_the_library() -> None:
    found = setting(arguments={"mistake": "no clipping"}).run(context())
    same = audited(
        "score", trials=40, claims=[(2.4, 1e-2)], arguments={"mistake": "no clipping"}, processes=1
    )
    assert found.findings.numbers["scores"] == tuple(same.scores)
    assert found.findings.tables == same.findings.tables
    assert found.findings.statements[0].claim == "accountant: epsilon at delta 0.01"
    assert found.parameters["arguments.mistake"] == "no clipping"


def test_an_interrupted_scenario_goes_on(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path, "mine-0123", "audit scenario=mine")
    broken = setting(train=f"{trainings.__name__}:fails_at", arguments={"at": 0}, trials=20)
    seeds = [trial.seed for trial in audited_trials(broken)]
    # the last one fails, then the module is mended
    failing = setting(
        train=f"{trainings.__name__}:fails_at", arguments={"at": seeds[-1]}, trials=20
    )
    with pytest.raises(ValueError, match=r"^trial 20 ") as caught, unfinished.kept():
        failing.run(context(unfinished.folder))
    assert any("to go on from it: audit scenario=mine" in note for note in caught.value.__notes__)
    assert len(recorded(unfinished.folder / "11")) >= 18
    with unfinished.kept():
        pass  # what a run that ended leaves
    assert not unfinished.folder.exists()


def audited_trials(one: TrainingSetting) -> list[Any]:
    from audit.training import trials_of

    return list(trials_of(one.design, 11))


def test_plain_data_goes_round() -> None:
    for one in (
        setting(),
        setting(early_stop=True, minutes=2.5, columns={"kind": "WeightedColumns", "weights": [1]}),
        setting(canaries=100, trials=1, assume="independent"),
    ):
        plain = one.to_plain()
        assert read_setting("mine", plain) == one
    assert set(setting().to_plain()["training"]) == {"train", "claims", "trials"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"trails": 4},
            r"settings\.mine\.training\.trails must be left out .*did you mean 'trials'",
        ),
        ({"claims": None}, r"settings\.mine\.training\.claims must be given"),
        ({"trials": 7}, "trials must be a whole number of at least 8, got 7"),
        ({"assume": "hope"}, "assume must be one of arbitrary, independent, got 'hope'"),
        ({"train": "function"}, "train must be package.module:function, got 'function'"),
    ],
)
def test_slips(changed: dict[str, Any], message: str) -> None:
    plain = {k: v for k, v in {**TRAINING, **changed}.items() if v is not None}
    with pytest.raises(ValueError, match=message):
        read_setting("mine", {"training": plain})


def test_verdicts_reach_the_result() -> None:
    found = setting(
        canaries=1200, trials=1, assume="independent", train=f"{trainings.__name__}:many"
    ).run(context())
    assert found.findings.statements[0].verdict is Verdict.CONSISTENT
    assert np.size(found.findings.numbers["scores"]) > 500

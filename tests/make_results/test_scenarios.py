"""Running every scenario: what is kept, what is run again, and what breaks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from audit.scenario.shipped import scenarios_folder
from results.scenarios import make
from results.scenarios.make import SCENARIOS, main, names, run_all


class Runner:
    """Stands in for the processes: writes a result, or fails where the name says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        words = dict(word.partition("=")[::2] for word in command[3:])
        self.asked.append(words["scenario"])
        assert options["env"]["OPENBLAS_NUM_THREADS"] == "1"
        assert words["threads"] == "1"
        if words["scenario"] == "slow":
            raise subprocess.TimeoutExpired(command, options["timeout"])
        if words["scenario"] == "broken":
            told = "a warning\naudit: error: steps must be ..., got 0\n"
            return subprocess.CompletedProcess(command, 2, "", told)
        folder = Path(words["output"]) / "made-1"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{}", encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    made = Runner()
    monkeypatch.setattr(make.subprocess, "run", made)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("good", "broken", "slow"):
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / f"{name}.yaml").write_text(f"name: {name}\n", encoding="utf-8")
    return tmp_path / "files"


def outcomes(folder: Path, chosen: tuple[str, ...], *, fresh: bool = False) -> dict[str, Any]:
    lines: list[str] = []
    work = folder.parent / "work"
    found = run_all(chosen, folder, work, jobs=2, fresh=fresh, tell=lines.append)
    assert len(lines) == len(chosen)
    assert [one.name for one in found] == list(chosen)
    return {one.name: one for one in found}


def test_errors_are_outcomes(folder: Path, runner: Runner) -> None:
    found = outcomes(folder, names(folder))
    assert found["good"].error is None
    assert found["good"].folder.name == "made-1"
    assert found["broken"].error == "steps must be ..., got 0"
    assert found["slow"].error == "it took longer than 1200 s"
    assert found["broken"].folder is found["slow"].folder is None


def test_what_the_same_source_ran_is_kept(folder: Path, runner: Runner) -> None:
    assert not outcomes(folder, ("good", "broken"))["good"].kept
    again = outcomes(folder, ("good", "broken"))
    assert again["good"].kept
    assert sorted(runner.asked) == ["broken", "broken", "good"]  # an error is tried again
    (folder / "good.yaml").write_text("name: good\nseed: 1\n", encoding="utf-8")
    assert not outcomes(folder, ("good",))["good"].kept
    assert not outcomes(folder, ("good",), fresh=True)["good"].kept


def test_a_run_that_was_stopped_is_run_again(folder: Path, runner: Runner) -> None:
    outcomes(folder, ("good",))
    (folder.parent / "work" / "good" / "run.json").unlink()  # written after all else
    assert not outcomes(folder, ("good",))["good"].kept
    (folder.parent / "work" / "good" / "run" / "made-1" / "result.json").unlink()
    assert not outcomes(folder, ("good",))["good"].kept


def test_a_mark_holds_what_the_run_took(folder: Path, runner: Runner) -> None:
    first = outcomes(folder, ("good",))["good"]
    mark = json.loads((folder.parent / "work" / "good" / "run.json").read_text(encoding="utf-8"))
    assert mark["seconds"] == round(first.seconds, 1)
    assert outcomes(folder, ("good",))["good"].seconds == mark["seconds"]


def test_a_folder_without_scenarios_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="scenarios must be a folder of YAML files, got"):
        names(tmp_path)


def test_a_real_process_that_breaks(tmp_path: Path) -> None:
    """A scenario that the command does not know, since only this folder has it."""
    (tmp_path / "nothing.yaml").write_text("name: nothing\n", encoding="utf-8")
    (one,) = run_all(
        ("nothing",), tmp_path, tmp_path / "work", jobs=1, fresh=False, tell=lambda line: None
    )
    assert one.error is not None
    assert "scenario must be that of a scenario file, got 'nothing'" in one.error


def test_the_folder_that_is_listed_is_the_one_that_is_run() -> None:
    """`audit` knows its scenarios by name: there is no other folder to choose."""
    assert scenarios_folder() == SCENARIOS
    with pytest.raises(SystemExit):
        main(["--scenarios", "elsewhere"])

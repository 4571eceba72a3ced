"""The ``audit`` command, in this process unless a test needs a separate one."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

import audit
from audit import scenario
from audit.cli import composition
from audit.cli.audit import _run_jobs, main
from audit.cli.scenarios import named_scenarios
from audit.results import PairResult, Result
from audit.scenario import PairSetting, Scenario
from audit.scenario.folders import scenario_files
from tests.claims.written import environment
from tests.ended import Command
from tests.report.example import example

SMALL = shlex.split(
    "scenario=quadratics ~settings.beyond ~settings.cyclic ~settings.largest_step "
    "settings.full_batch.trials=1000 settings.full_batch.steps_shown=[]"
)


def python(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these words."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([sys.executable, *words], text=True, timeout=300, check=False, **given)


def test_a_run_writes_its_folder_whole(ended: Command, tmp_path: Path) -> None:
    done = ended(main, f"output={tmp_path / 'runs'}", *SMALL)
    assert (done.status, done.err) == (0, "")  # no progress bars where there is no terminal
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"Report: {folder / 'report.html'}" in done.out
    assert "consistent" in done.out
    names = {path.name for path in folder.iterdir()}
    expected = {"result.json", "report.html", "report.md", "config.yaml", "status.json", "figures"}
    assert names == expected
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert result["settings"][0]["trials"] == 1000
    assert list(tmp_path.iterdir()) == [tmp_path / "runs"]


LIGHT = """
import os, sys
from audit.cli import audit, plan
sys.stdout.reconfigure(encoding="ascii")  # as on a terminal that lacks the letters of names
def loaded(*names):
    print(sorted(set(names) & set(sys.modules)))

audit.main()
plan.main()
loaded("hydra", "numba", "scipy", "matplotlib", "statsmodels")
os.environ["HYDRA_FULL_ERROR"] = "0"  # which the command sets
sys.argv[1] = "settings.paper.mechanism.batching=HALF"
try:
    audit.main()
except SystemExit as end:
    loaded("numba", "scipy.stats", "matplotlib")
    sys.exit(end.code)
"""


def test_help_and_refusals_import_nothing_heavy() -> None:
    done = python("-c", LIGHT, "--help")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert done.stdout.endswith("\n[]\n[]\n")
    for name in scenario_files():
        assert f"\n    {name} " in done.stdout
    for law in ("gaussian |", "laplace |", "randomised response |", "sampled gaussian ("):
        assert law in done.stdout


def configuration(ended: Command, *words: str) -> dict[str, Any]:
    done = ended(main, *words, "--cfg", "job")
    assert (done.status, done.err) == (0, "")
    read = yaml.safe_load(done.out)
    assert isinstance(read, dict)
    return read


def test_the_configuration_of_a_pair_has_the_fields_of_its_kind(
    ended: Command,
) -> None:
    setting = configuration(ended)["settings"]["full_batch"]
    assert setting["pair"] == {"kind": "BiasedWalk", "start": 0.0, "position": None}
    assert setting["other_pairs"][1]["drift"] == -0.015
    assert setting["mechanism"]["relation"] == "replace one"


def test_fields_that_the_file_does_not_mention_can_be_set(ended: Command) -> None:
    settings = configuration(
        ended,
        "settings.full_batch.pair.start=0.1",
        "settings.full_batch.mechanism.clip_norm=2",
        "+settings.full_batch.positions=[]",
    )["settings"]
    assert settings["full_batch"]["pair"]["start"] == 0.1
    assert settings["full_batch"]["mechanism"]["clip_norm"] == 2.0


def test_one_value_in_any_spelling(ended: Command) -> None:
    key = "settings.sampled.mechanism.batching"
    spellings = ("without_replacement", "without replacement", "WITHOUT_REPLACEMENT")
    first, *others = (configuration(ended, f"{key}={spelling}") for spelling in spellings)
    assert first["settings"]["sampled"]["mechanism"]["batching"] == "without replacement"
    assert all(other == first for other in others)


def test_a_part_of_the_configuration(ended: Command) -> None:
    done = ended(main, "--cfg", "job", "--package", "settings.paper.pair")
    assert yaml.safe_load(done.out) == {"kind": "BiasedWalk", "start": 0.0, "position": None}
    assert done.out.startswith("# @package settings.paper.pair\n")
    done = ended(main, "--cfg", "job", "--package", "settings.nothing")
    assert "package must be a part of the configuration, got 'settings.nothing'" in done.error


def test_the_printed_configuration_is_a_scenario(ended: Command, tmp_path: Path) -> None:
    (tmp_path / "scenario" / "mine").mkdir(parents=True)
    printed = ended(main, "scenario=step_sizes", "--cfg", "job").out
    file = tmp_path / "scenario" / "mine" / "again.yaml"
    file.write_text("# @package _global_\n" + printed, encoding="utf-8")
    words = ["--config-dir", str(tmp_path), "scenario=mine/again"]
    assert configuration(ended, *words) == yaml.safe_load(printed)
    assert "first: " in printed  # schedules stand as they were written


def test_modules_lie_beside_the_scenario_that_names_them(ended: Command, tmp_path: Path) -> None:
    folder = tmp_path / "scenario" / "mine"
    folder.mkdir(parents=True)
    (folder / "beside_the_scenario.py").write_text("def answer(*, steps: int = 3): ...\n")
    (folder / "asking.yaml").write_text(
        "# @package _global_\n"
        "name: asking\nbounds: []\nconfidence: 0.9\nseed: 1\n"
        "settings: {one: {study: {function: 'beside_the_scenario:answer'}}}\n"
    )
    words = ["--config-dir", str(tmp_path), "scenario=mine/asking"]
    found = configuration(ended, *words)["settings"]["one"]["study"]
    assert found == {"function": "beside_the_scenario:answer", "steps": 3}


def test_a_glob_reaches_scenarios_in_subfolders() -> None:
    known = set(scenario_files())
    words, names = named_scenarios(["seed=1", "scenario=glob(*,exclude=s*)"], "skip", {})
    assert set(names) == {name for name in known if name[0] != "s"}
    assert any("/" in name for name in names)
    assert words == ["seed=1", f"scenario={','.join(names)}"]
    assert named_scenarios([], "skip", {}) == ([], ("skip",))
    assert named_scenarios(["scenario=skip,stop"], "skip", {})[1] == ("skip", "stop")


def stored(asked: Scenario, *, finished: Callable[..., object], **_: Any) -> Result:
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
    finished(changed)
    return replace(result, settings=(changed,))


def test_a_sweep_outlives_its_broken_runs(
    ended: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two configurations of three run; the sweep's report has all three, and the status is 1."""
    monkeypatch.setattr(scenario, "run", stored)
    steps = "settings.full_batch.mechanism.steps"
    words = [f"{steps}=1,0,2", "-m", f"output={tmp_path}"]
    done = ended(main, *SMALL, "draw=false", *words)
    assert (done.status, done.err) == (1, "")
    assert "2 results and 1 error." in done.out
    assert len([line for line in done.out.splitlines() if line.startswith("done: ")]) == 2
    (sweep,) = tmp_path.iterdir()
    assert sweep.name.startswith("sweep-")
    folders = sorted(path for path in sweep.iterdir() if path.name[0] == "q")
    ends = [json.loads((f / "status.json").read_text(encoding="utf-8")) for f in folders]
    assert sorted(one["status"] for one in ends) == ["done", "done", "error"]
    expected = [f"{steps} must be a whole number of at least 1, got 0"]
    assert [one["error"] for one in ends if one["error"]] == expected
    joined = json.loads((sweep / "results.json").read_text(encoding="utf-8"))
    assert (joined["results"], joined["errors"]) == (2, 1)
    assert [row["error"] for row in joined["rows"] if row["verdict"] == "error"] == expected


def test_a_sweep_over_scenarios_reports_where_its_words_say(
    ended: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no default scenario among them, and broken runs count in a quoted folder too."""
    monkeypatch.chdir(tmp_path)
    done = ended(main, "-m", "scenario=skip,stop", "seed=x", 'output="my out"', "++sweep=mine")
    assert done.status == 1, done.err
    assert "0 results and 2 errors." in done.out
    assert (tmp_path / "my out" / "mine" / "index.html").is_file()
    (tmp_path / "scenario").mkdir()
    (tmp_path / "scenario" / "own.yaml").write_text(
        "# @package _global_\nname: own\noutput: elsewhere\nbounds: []\nsettings: {}\n"
    )
    done = ended(main, "-m", "--config-dir", ".", "scenario=own", "seed=1,2", "sweep=mine")
    assert done.status == 1, done.err
    assert (tmp_path / "elsewhere" / "mine" / "index.html").is_file()
    words = ["output=a,b", "seed=1", "~draw"]
    found = [composition.values_of(key, words) for key in ("output", "seed", "draw", "sweep")]
    assert found == [["a", "b"], ["1"], [], []]


def test_a_sweep_that_is_interrupted_at_once_reports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "run_with_hydra", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt) as caught:
        _run_jobs({tmp_path}, ())
    assert not hasattr(caught.value, "__notes__")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [BrokenPipeError, KeyError])  # nobody reads; a bug
def test_a_result_outlives_rows_and_reports_that_fail(
    ended: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    monkeypatch.setattr(scenario, "run", stored)
    monkeypatch.setattr("audit.report.terminal.Rows.add", Mock(side_effect=error))
    monkeypatch.setattr("audit.report.write", Mock(side_effect=KeyError("glyph")))
    done = ended(main, *SMALL, f"output={tmp_path / 'runs'}")
    (folder,) = (tmp_path / "runs").iterdir()
    told = f"audit: error: no report could be drawn ('glyph'); the result is kept in {folder}"
    assert (done.status, done.error) == (2, told)
    assert (folder / "result.json").is_file()


def test_an_interrupted_sweep_names_the_command_that_goes_on_with_it(
    ended: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(asked: Scenario, *, folder: Path, **_: Any) -> Result:
        folder.mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(scenario, "run", interrupted)
    words = ["scenario=two_sided_walk", "draw=false", "seed=3,4", "sweep=two words", "-m"]
    done = ended(main, *words, f"output={tmp_path}")
    again = done.err.rstrip().rpartition("to go on from it: audit ")[2]
    monkeypatch.setattr(scenario, "run", stored)
    done = ended(main, *shlex.split(again))
    assert (done.status, done.err) == (0, "")
    (folder,) = (tmp_path / "two words").glob("*/result.json")
    assert "seed: 3" in (folder.parent / "config.yaml").read_text(encoding="utf-8")


def test_a_scenario_without_its_first_line_is_told_so(ended: Command, tmp_path: Path) -> None:
    (tmp_path / "scenario").mkdir()
    for content, problem in (
        (b"name: mine\n", "scenario/mine.yaml must begin with the line '# @package _global_', got"),
        (b"# @package _global_\nname: [1\n", "while parsing"),
        (b"# @package _global_\nname: b\xe4r\n", "mine.yaml must be UTF-8 text"),
    ):
        (tmp_path / "scenario" / "mine.yaml").write_bytes(content)
        done = ended(main, "scenario=mine", "--config-dir", tmp_path, f"output={tmp_path / 'runs'}")
        assert done.status == 2
        assert re.match(f"audit: error: .*{re.escape(problem)}", done.error)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("audit", ["--cfg", "job"], marks=pytest.mark.slow),
        ("bounds", ["--help"]),
        pytest.param("check", ["--help"], marks=pytest.mark.slow),
        ("report", ["--help"]),
    ],
)
def test_a_reader_that_goes_away_is_no_error(command: str, words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = python("-m", f"audit.cli.{command}", *words, stdout=write)
    os.close(write)
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["audit", "bounds", "check", "plan", "report", "search"])
def test_the_version(command: str, ended: Command) -> None:
    done = ended(importlib.import_module(f"audit.cli.{command}").main, "--version")
    assert (done.status, done.out) == (0, f"noisy-sgd-audit {audit.__version__}\n")


def test_a_full_disk_is_one_line_and_a_closed_output_is_nothing() -> None:
    command = f"{sys.executable} -m audit.cli.bounds --help"
    options: dict[str, Any] = {"shell": True, "capture_output": True, "text": True}
    full, closed = (
        subprocess.run(f"{command} {to}", **options, env=environment(), check=False)
        for to in (">/dev/full", ">&-")
    )
    assert full.returncode != 0
    assert re.fullmatch(r".*error: .*No space left on device.*\n", full.stderr)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_an_interrupt_while_a_string_is_evaluated_has_its_status(tmp_path: Path) -> None:
    """Python itself would end by SIGINT: the last evaluated string was interrupted."""
    lines = "from audit.cli.errors import guarded\nguarded(lambda: exec('raise KeyboardInterrupt'))"
    (tmp_path / "interrupted.py").write_text(lines, encoding="utf-8")
    done = python("-m", "interrupted", cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0][:19]) == (130, "audit: interrupted;")

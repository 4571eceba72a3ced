"""The console command as a person meets it: in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = [
    "~settings.sampled",
    "~settings.paper",
    "settings.full_batch.trials=2000",
    "settings.full_batch.steps_shown=[10]",
]


def audit(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = "from audit.cli.audit import main; main()"  # what the console command is
    command = [sys.executable, "-c", script, f"output={folder}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_run_writes_its_folder_whole(tmp_path: Path) -> None:
    done = audit(*SMALL, folder=tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bars where there is no terminal
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"Report: {folder / 'report.html'}" in done.stdout
    assert "consistent" in done.stdout
    names = {path.name for path in folder.iterdir()}
    expected = {"result.json", "report.html", "report.md", "config.yaml", "status.json", "figures"}
    assert names == expected
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert result["settings"][0]["trials"] == 2000
    assert list(tmp_path.iterdir()) == [tmp_path / "runs"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["settings.paper.mechanism.noise_std=-1"],
            "settings.paper: noise_std must be a positive finite number, got -1.0",
        ),
        (["settings.paper.mechanism.noise_std=nan"], "noise_std must be a positive finite number"),
        (["settings.paper.mechanism.batch_size=11"], "batch_size must be at most dataset_size"),
        (["settings.paper.deltas=[1.0]"], "deltas[0] must be in (0, 1), got 1.0"),
        (["settings.paper.trails=5"], "Key 'trails' not in 'SettingConfig'"),
        (["settings.paper.pair.curvatures=5"], "Key 'curvatures' not in 'PairConfig'"),
        (["settings.paper.pair.kind=Walk"], "Invalid value 'Walk'"),
        (
            ["settings.paper.pair.drift=0.1"],
            "settings.paper: drift must be left out of a BiasedWalk, got 0.1",
        ),
        (["settings.paper.mechanism.batching=HALF"], "Invalid value 'HALF'"),
        (["settings.paper.mechanism.steps=many"], "'many'"),
        (
            ["settings.full_batch.mechanism.strong_convexity=0.5"],
            "BiasedWalk needs strong_convexity = 0",
        ),
        (["settings.full_batch.mechanism.relation=ZERO_OUT"], "TwoSidedWalk needs relation"),
        (["bounds=[bsa24.theorem_4_11]"], "bsa24.theorem_4_1"),
        (["seed=-1"], "seed must be a whole number of at least 0, got -1"),
        (["confidence=1"], "confidence must be in (0, 1), got 1.0"),
        (["scenario=nothing"], "Could not find 'scenario/nothing'"),
        (["settings.paper.trials=0"], "trials must be a whole number of at least 1000, got 0"),
        (["parallel=dask"], "parallel.address must be that of a running cluster, got None"),
        (
            ["parallel=dask", "parallel.address=tcp://127.0.0.1:1"],
            "audit: error: no Dask cluster at tcp://127.0.0.1:1: [Errno 111] Connection refused",
        ),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    done = audit(*words, folder=tmp_path / "runs")
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()


SWEPT = [
    "scenario=quadratics",
    "~settings.beyond",
    "~settings.cyclic",
    "~settings.largest_step",
    "settings.full_batch.trials=1000",
    "settings.full_batch.steps_shown=[]",
    "draw=false",
]


def test_a_sweep_outlives_its_broken_runs(tmp_path: Path) -> None:
    """Two configurations of three run; the sweep's report has all three, and the status is 1."""
    steps = "settings.full_batch.mechanism.steps=1,0,2"
    done = audit(*SWEPT, steps, "sweep=mine", "-m", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert "2 results and 1 error;" in done.stdout
    folders = sorted(path for path in (tmp_path / "mine").iterdir() if path.name[0] == "q")
    stored = [json.loads((f / "status.json").read_text(encoding="utf-8")) for f in folders]
    assert sorted(one["status"] for one in stored) == ["done", "done", "error"]
    (error,) = [one["error"] for one in stored if one["error"]]
    assert error == "settings.full_batch: steps must be a whole number of at least 1, got 0"
    joined = json.loads((tmp_path / "mine" / "results.json").read_text(encoding="utf-8"))
    assert (joined["results"], joined["errors"]) == (2, 1)
    assert [row["error"] for row in joined["rows"] if row["verdict"] == "error"] == [error]


def test_a_sweep_without_broken_runs_ends_well(tmp_path: Path) -> None:
    done = audit(*SWEPT, "settings.full_batch.mechanism.steps=1,2", "-m", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (sweep,) = tmp_path.iterdir()
    assert sweep.name.startswith("sweep-")
    assert "2 results and 0 errors; no claim is refuted" in done.stdout


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = audit(*SMALL, folder=tmp_path / "file")
    assert done.returncode == 2
    assert "output must be a folder that can be written to" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert (tmp_path / "file").read_text() == ""


def test_a_scenario_without_its_first_line_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "scenario").mkdir()
    (tmp_path / "scenario" / "mine.yaml").write_text("name: mine\n")
    done = audit("scenario=mine", "--config-dir", str(tmp_path), folder=tmp_path / "runs")
    assert done.returncode == 2
    line = "audit: error: scenario/mine.yaml must begin with the line '# @package _global_', got"
    assert done.stderr.startswith(line)
    assert len(done.stderr.strip().splitlines()) == 1

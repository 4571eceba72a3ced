"""The ``audit`` command: ended, damaged and continued, and its messages."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.cli import audit as app
from audit.scenario.folders import unfinished
from audit.simulation.journal import FILE, Journal, held

from .jobs import ROOT, recorded

WORDS = [
    "scenario=drifted_walk",
    "settings.full_batch.mechanism.steps=40",
    "settings.full_batch.steps_shown=[]",
    "settings.full_batch.other_pairs=[]",
    "settings.full_batch.trials=300000",
    "bounds=[cl25.theorem_3_1_gaussian]",
    "threads=1",
    "draw=false",
]


def command(output: Path, pause: float = 0.0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulation.runs.command", f"output={output}", *WORDS],
        cwd=ROOT,
        env={**os.environ, "PAUSE": str(pause)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def sampled(output: Path) -> Any:
    """What the samples say in the one run's folder."""
    (folder,) = (path for path in output.iterdir() if not path.name.startswith("."))
    (setting,) = json.loads((folder / "result.json").read_text(encoding="utf-8"))["settings"]
    return {name: setting[name] for name in ("seed", "trials", "audit")}


@pytest.mark.slow
def test_a_run_that_is_ended_prints_the_command_that_continues_it(tmp_path, monkeypatch, capsys):
    output = tmp_path / "my runs"
    process = command(output, pause=0.1)
    written = 2.5 * 2**19  # a block is committed once the next one is being written
    while process.poll() is None:
        logs = output.glob(f".unfinished/*/*/{FILE}-wal")
        if sum(path.stat().st_size for path in logs) > written:
            break
        time.sleep(0.002)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert [path.name for path in output.iterdir()] == [".unfinished"]  # no run's folder is there
    (journal,) = output.glob(f".unfinished/*/*/{FILE}")
    first, last = said.rsplit("; to go on from it: ", 1)
    assert first == (f"audit: terminated; what is finished is kept in {journal.parent.parent}")
    name, *words = shlex.split(last)
    assert [name, *words] == ["audit", f"output={output}", *WORDS]

    blocks = recorded(journal.parent)
    assert len(blocks) >= 2
    with contextlib.closing(sqlite3.connect(journal)) as database, database:
        database.execute("UPDATE results SET data = zeroblob(99) WHERE number = ?", (min(blocks),))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    other = tmp_path / "other"  # uninterrupted
    monkeypatch.setattr(sys, "argv", ["audit", f"output={other}", *WORDS])
    app.main()
    monkeypatch.setattr(sys, "argv", ["audit", *words])
    with pytest.warns(
        RuntimeWarning, match=rf"{FILE} is damaged at number {min(blocks)}, which is computed again"
    ):
        app.main()
    assert not (output / ".unfinished").exists()
    assert sampled(output) == sampled(other)
    names = [next(place.iterdir()).name for place in (output, other)]
    assert names[0].rpartition("-")[2] == names[1].rpartition("-")[2]  # one configuration


def ended(command: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    with pytest.raises(SystemExit) as exit_:
        app.guarded(command)
    return exit_.value.code


def test_what_an_interrupted_run_leaves_is_told(tmp_path, capsys, monkeypatch):
    kept = tmp_path / ".unfinished" / "mine-1"

    def interrupted() -> None:
        with unfinished(tmp_path, "mine-1", "audit"):
            raise KeyboardInterrupt

    assert ended(interrupted, monkeypatch) == 130
    assert capsys.readouterr().err == "audit: interrupted; nothing was written\n"
    kept.mkdir(parents=True)
    assert ended(interrupted, monkeypatch) == 130
    assert capsys.readouterr().err == (
        f"audit: interrupted; what is finished is kept in {kept}; to go on from it: audit\n"
    )
    # where nothing can go on, the error says what to do
    (kept / "job.json").touch()
    with (
        pytest.raises(ValueError, match="remove it to begin again") as caught,
        unfinished(tmp_path, "mine-1", "audit"),
        held(kept),
    ):
        pass
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OSError("the disk is full"), 1, "error: the disk is full; nothing was written"),
        (MemoryError("1 TiB"), 1, "error: too little memory: 1 TiB; nothing was written"),
        (ValueError("name must be"), 2, "error: name must be"),
    ],
)
def test_errors_end_in_one_line(error, status, said, capsys, monkeypatch):
    def broken() -> None:
        raise error

    assert ended(broken, monkeypatch) == status
    assert capsys.readouterr().err == f"audit: {said}\n"


def test_a_finished_run_leaves_what_others_keep(tmp_path: Path) -> None:
    folders = [tmp_path / ".unfinished" / name for name in ("mine-1", "mine-2")]
    for folder in folders:
        folder.mkdir(parents=True)
    with unfinished(tmp_path, "mine-1", "audit"):
        pass
    assert [folder.exists() for folder in folders] == [False, True]
    with unfinished(tmp_path, "mine-2", "audit"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_leaves_what_another_one_holds(tmp_path: Path) -> None:
    kept = tmp_path / ".unfinished" / "mine-1"
    other, left = kept / "1", kept / "2"
    for folder in (other, left):
        Journal(folder, {}).close()
    with held(other), unfinished(tmp_path, "mine-1", "audit"):
        pass
    assert (other / FILE).is_file()
    assert not left.exists()
    with unfinished(tmp_path, "mine-1", "audit"):
        pass
    assert not kept.exists()

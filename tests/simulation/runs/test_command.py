"""The ``audit`` command: killed, damaged or finished elsewhere, and its messages."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.cli import audit as app
from audit.scenario.sampling import Unfinished
from audit.simulation.journal import FILE, Journal, held

from .clusters import ROOT, cluster
from .jobs import recorded

WORDS = [
    "scenario=drifted_walk",
    "settings.full_batch.mechanism.steps=400",
    "settings.full_batch.steps_shown=[]",
    "settings.full_batch.other_pairs=[]",
    "settings.full_batch.trials=800000",
    "bounds=[cl25.theorem_3_1_gaussian]",
    "threads=1",
    "draw=false",
]


def start(output: Path, *words: str, pause: float = 0.0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulation.runs.command", f"output={output}", *WORDS, *words],
        cwd=ROOT,
        env={**os.environ, "PAUSE": str(pause)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def journals(output: Path, name: str = FILE) -> list[Path]:
    return sorted(output.glob(f".unfinished/*/*/{name}"))


def kill(output: Path, blocks: int) -> None:
    """Start the command, and kill it once its journal holds so many blocks."""
    process = start(output, pause=0.1)
    room = (blocks + 0.5) * 2**19  # a block is committed once the next one is being written

    def written() -> int:
        return sum(path.stat().st_size for path in journals(output, f"{FILE}-wal"))

    while written() < room and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    _, said = process.communicate(timeout=60)
    assert process.returncode == -9, said


def sampled(output: Path) -> Any:
    """What the samples say in the one run's folder."""
    (folder,) = (path for path in output.iterdir() if not path.name.startswith("."))
    (setting,) = json.loads((folder / "result.json").read_text(encoding="utf-8"))["settings"]
    return {name: setting[name] for name in ("seed", "trials", "audit")}


@pytest.mark.slow
def test_a_run_that_was_killed_ends_on_a_cluster_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "runs"
    kill(output, 3)
    assert [path.name for path in output.iterdir()] == [".unfinished"]  # no run's folder is there

    (journal,) = journals(output)
    blocks = recorded(journal.parent)
    assert len(blocks) >= 3
    with contextlib.closing(sqlite3.connect(journal)) as database, database:
        database.execute("UPDATE results SET data = zeroblob(99) WHERE number = ?", (min(blocks),))

    with cluster(n_workers=1) as running:  # several share the work in test_processes
        process = start(output, "parallel=dask", f"parallel.address={running.scheduler_address}")
        _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert f"{journal} is damaged at number {min(blocks)}, which is computed again" in said
    assert not (output / ".unfinished").exists()

    other = tmp_path / "other"  # uninterrupted, in the threads of this process
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setattr(sys, "argv", ["audit", f"output={other}", *WORDS])
    app.main()
    assert sampled(output) == sampled(other)
    names = [next(place.iterdir()).name for place in (output, other)]
    assert names[0].rpartition("-")[2] == names[1].rpartition("-")[2]  # one configuration


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_run_that_is_ended_prints_the_command_that_continues_it(
    tmp_path: Path, number: int, status: int, word: str
) -> None:
    output = tmp_path / "my runs"
    process = start(output, pause=0.1)
    while not journals(output) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    (folder,) = output.glob(".unfinished/*")
    first, last = said.rsplit("; to go on from it: ", 1)
    assert first == f"audit: {word}; what is finished is kept in {folder}"
    name, *words = shlex.split(last)
    assert name == "audit"
    assert words == [f"output={output}", *WORDS]
    if number == signal.SIGINT:  # a killed run is continued above, a terminated one here
        return
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.runs.command", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in output.iterdir() if path.name.startswith(".")] == []


def ended(command: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    with pytest.raises(SystemExit) as exit_:
        app.guarded(command)
    return exit_.value.code


def test_what_an_interrupted_run_leaves_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = Unfinished(tmp_path, "mine-1", "audit")

    def interrupted() -> None:
        with unfinished.kept():
            raise KeyboardInterrupt

    assert ended(interrupted, monkeypatch) == 130
    assert capsys.readouterr().err == "audit: interrupted; nothing was written\n"
    unfinished.folder.mkdir(parents=True)
    assert ended(interrupted, monkeypatch) == 130
    assert capsys.readouterr().err == (
        f"audit: interrupted; what is finished is kept in {unfinished.folder}; "
        "to go on from it: audit\n"
    )


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OSError("the disk is full"), 1, "error: the disk is full; nothing was written"),
        (MemoryError("1 TiB"), 1, "error: too little memory: 1 TiB; nothing was written"),
        (ValueError("name must be"), 2, "error: name must be"),
    ],
)
def test_errors_end_in_one_line(
    error: Exception,
    status: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise error

    assert ended(broken, monkeypatch) == status
    assert capsys.readouterr().err == f"audit: {said}\n"


def test_a_finished_run_leaves_what_others_keep(tmp_path: Path) -> None:
    mine, other = Unfinished(tmp_path, "mine-1", "audit"), Unfinished(tmp_path, "mine-2", "audit")
    for unfinished in (mine, other):
        unfinished.folder.mkdir(parents=True)
    with mine.kept():
        pass
    assert other.folder.exists()
    assert not mine.folder.exists()
    with other.kept():
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_leaves_what_another_one_holds(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path, "mine-1", "audit")
    other, left = unfinished.folder / "1", unfinished.folder / "2"
    for folder in (other, left):
        Journal(folder, {}).close()
    with held(other), unfinished.kept():
        pass
    assert (other / FILE).is_file()
    assert not left.exists()
    with unfinished.kept():
        pass
    assert not unfinished.folder.exists()

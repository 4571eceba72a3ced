"""Runs whose process dies: killed at any moment, or on a full disk."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from audit.simulation.blocks import Counts
from audit.simulation.runner import run_job

from .clusters import ROOT
from .jobs import blocks_in, counted, expected, steps_of
from .runner import BLOCKS

RUNNER = "tests.simulation.runs.runner"


def start(folder: Path, seconds: float, end: str = "never") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", RUNNER, str(folder), str(seconds), end],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path) -> tuple[int, Counts]:
    """Run to the end in this process: the steps it began with, and the counts."""
    seen: list[int] = []
    counts = run_job(
        counted(blocks=BLOCKS), folder=folder, progress=lambda done, _: seen.append(done)
    )
    return seen[0], np.stack(counts)


def killed(folder: Path, seconds: float, wait: float) -> int:
    """Kill a run so long after its beginning; the steps it began with."""
    process = start(folder, seconds)
    assert process.stdout is not None
    begun = int(process.stdout.readline())
    time.sleep(wait)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -9, "the run was over before it was killed"
    return begun


def test_kills_change_no_bit(tmp_path: Path) -> None:
    # of a run of several seconds, none of the kills comes at its end
    begun = [killed(tmp_path, 0.05, wait) for wait in (0.1, 0.3)]
    last, counts = finish(tmp_path)
    begun.append(last)
    assert begun == sorted(begun), "a kill took back what was recorded"
    assert begun[-1] > 0
    assert np.array_equal(counts, expected(BLOCKS))


def test_a_full_disk_ends_in_one_line_and_loses_nothing(tmp_path: Path) -> None:
    out, err = start(tmp_path, 0.0, "full:200").communicate(timeout=60)
    assert len(out.splitlines()) == 1  # no counts
    (line,) = err.splitlines()
    assert line.startswith(f"{tmp_path} cannot be written to: ")
    assert line.endswith("; what is recorded stays, and a new start goes on from it")
    kept = blocks_in(tmp_path)
    assert 200 <= kept < BLOCKS
    begun, counts = finish(tmp_path)
    assert begun == steps_of(kept)
    assert np.array_equal(counts, expected(BLOCKS))

"""Runs whose process dies: killed at any moment, or on a full disk."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from audit.simulation.blocks import Counts
from audit.simulation.scheduler import run_job

from .jobs import Normals, expected

ROOT = Path(__file__).resolve().parents[3]
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
    counts = run_job(Normals(blocks=400), folder=folder, progress=lambda done, _: seen.append(done))
    return seen[0], counts


def test_ten_kills_change_no_bit(tmp_path: Path) -> None:
    moments = random.Random(5)
    begun = []
    for _ in range(10):
        process = start(tmp_path, 0.05)  # seconds a block: ten kills are over long before the run
        assert process.stdout is not None
        begun.append(int(process.stdout.readline()))  # it has begun
        time.sleep(moments.uniform(0.0, 0.5))
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -9, "the run was over before it was killed"
    last, counts = finish(tmp_path)
    begun.append(last)
    assert begun == sorted(begun), "a kill took back what was recorded"
    assert begun[-1] > 0
    assert np.array_equal(counts, expected(Normals(blocks=400)))


@pytest.mark.parametrize("call", range(9))
def test_a_kill_at_each_step_of_writing_changes_no_bit(tmp_path: Path, call: int) -> None:
    process = start(tmp_path, 0.0, f"call:{call}")
    process.communicate(timeout=60)
    assert process.returncode == -9
    assert np.array_equal(finish(tmp_path)[1], expected(Normals(blocks=400)))


def test_a_full_disk_ends_in_one_line_and_loses_nothing(tmp_path: Path) -> None:
    out, err = start(tmp_path, 0.0, "full:200").communicate(timeout=60)
    assert len(out.splitlines()) == 1  # no counts
    (line,) = err.splitlines()
    assert line.startswith(f"{tmp_path} cannot be written to: File too large; ")
    kept = int(line.split("; ")[1].split()[0])
    assert 200 <= kept < 300
    begun, counts = finish(tmp_path)
    assert begun == sum(Normals().work(number) for number in range(kept))
    assert np.array_equal(counts, expected(Normals(blocks=400)))

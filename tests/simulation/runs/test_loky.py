"""Processes of this machine, through joblib."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from audit.simulation.backends import Backend, Parallel
from audit.simulation.runner import run_job

from .jobs import Murderous, Slow, Stopping, counted, expected, steps_of

PROCESSES = Parallel(Backend.LOKY, 2)


def test_same_bits_in_processes(tmp_path: Path) -> None:
    job = counted(Slow(), blocks=80)
    seen: list[tuple[int, int]] = []
    counts = run_job(
        job, backend=PROCESSES, folder=tmp_path, progress=lambda *now: seen.append(now)
    )
    assert np.array_equal(counts, expected(blocks=80))
    assert counts[0].dtype == np.int64
    assert seen[-1] == (steps_of(80),) * 2
    assert np.array_equal(run_job(job, folder=tmp_path), counts)


def test_an_error_in_a_block_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError, match="planted"):
        run_job(counted(Stopping(error=ZeroDivisionError)), backend=PROCESSES)


def test_a_lost_process_changes_no_bit(tmp_path: Path) -> None:
    job = counted(Murderous(marks=str(tmp_path), times=2))
    assert np.array_equal(run_job(job, backend=PROCESSES), expected())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_a_block_that_kills_every_process_ends_in_one_line_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    marks, folder = tmp_path / "marks", tmp_path / "run"
    marks.mkdir()
    job = counted(Murderous(marks=str(marks), times=100))
    with pytest.raises(ConnectionError, match=r"^a worker process was lost 4 times with") as lost:
        run_job(job, backend=PROCESSES, folder=folder, record_every=0)
    assert "\n" not in str(lost.value)
    assert len(list(marks.iterdir())) == 4
    seen: list[int] = []
    counts = run_job(counted(), folder=folder, progress=lambda done, _: seen.append(done))
    assert np.array_equal(counts, expected())
    assert seen[0] > 0

"""Processes of this machine, through joblib."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from audit.simulation.backends import Kind, Parallel
from audit.simulation.scheduler import run_job

from .jobs import Murderous, Normals, Slow, Stopping, expected

PROCESSES = Parallel(Kind.LOKY, 2)


def test_same_bits_in_processes(tmp_path: Path) -> None:
    job = Slow(blocks=80)
    seen: list[tuple[int, int]] = []
    counts = run_job(
        job, backend=PROCESSES, folder=tmp_path, progress=lambda *now: seen.append(now)
    )
    assert np.array_equal(counts, expected(job))
    assert counts.dtype == np.int64
    assert seen[-1] == (sum(job.work(n) for n in range(80)),) * 2
    assert np.array_equal(run_job(job, folder=tmp_path), counts)


def test_an_error_in_a_block_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError, match="planted"):
        run_job(Stopping(error=ZeroDivisionError), backend=PROCESSES)


def test_a_lost_process_ends_in_one_line_and_the_run_goes_on(tmp_path: Path) -> None:
    marks, folder = tmp_path / "marks", tmp_path / "run"
    marks.mkdir()
    job = Murderous(marks=str(marks))
    with pytest.raises(ConnectionError, match=r"^a worker process was lost: .*terminated") as lost:
        run_job(job, backend=PROCESSES, folder=folder, record_every=0)
    assert "\n" not in str(lost.value)
    assert np.array_equal(run_job(job, backend=PROCESSES, folder=folder), expected(Normals()))

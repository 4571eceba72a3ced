"""A Dask cluster on the loopback address; it runs for as long as this module's tests.

``python -m tests.simulation.runs.test_dask`` kills eight workers at random moments of one run.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.simulation import backends
from audit.simulation.backends import Backend, Parallel, pool
from audit.simulation.blocks import Counts
from audit.simulation.runner import run_job

from .free import free_port
from .jobs import Murderous, Slow, Stopping, counted, expected, steps_of

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parents[3]


def cluster(**given: Any) -> Any:
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    return distributed.LocalCluster(**{**options, **given}, silence_logs="CRITICAL")


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Parallel]:
    fewer = {"distributed.scheduler.allowed-failures": 1}  # before a task is given up
    with dask.config.set(fewer), cluster(n_workers=2) as running:
        yield Parallel(Backend.DASK, address=running.scheduler_address)


def test_same_bits_on_a_cluster(two_workers: Parallel, tmp_path: Path) -> None:
    job = counted(Slow(), blocks=80)
    seen: list[tuple[int, int]] = []
    counts = run_job(
        job, backend=two_workers, folder=tmp_path, progress=lambda *now: seen.append(now)
    )
    assert np.array_equal(counts, expected(len(job)))
    assert counts[0].dtype == np.int64
    assert seen[-1] == (steps_of(80),) * 2
    assert np.array_equal(run_job(job, folder=tmp_path), counts)


def test_the_work_is_done_elsewhere(two_workers: Parallel) -> None:
    with pool(two_workers) as workers:
        assert workers.workers == 2


def test_an_error_in_a_block_comes_out_as_it_is(two_workers: Parallel) -> None:
    with pytest.raises(ZeroDivisionError, match="planted"):
        run_job(counted(Stopping(error=ZeroDivisionError)), backend=two_workers)


def test_a_lost_worker_changes_no_bit(two_workers: Parallel, tmp_path: Path) -> None:
    job = counted(Murderous(marks=str(tmp_path)))
    assert np.array_equal(run_job(job, backend=two_workers), expected())
    assert (tmp_path / "0").exists()


def killed_at_random(kills: int, blocks: int) -> Counts:
    """Counts of a run whose workers are killed so many times; others start in their place."""
    moments, over = random.Random(3), threading.Event()

    def kill(running: Any) -> None:
        for _ in range(kills):
            over.wait(moments.uniform(0.5, 1.5))
            pids = [nanny.pid for nanny in running.workers.values() if nanny.pid]
            if pids and not over.is_set():
                os.kill(moments.choice(pids), signal.SIGKILL)
                killed.append(1)

    killed: list[int] = []
    usual = {"distributed.scheduler.allowed-failures": 3}  # not those of `two_workers`
    with dask.config.set(usual), cluster(n_workers=2) as running:
        killer = threading.Thread(target=kill, args=(running,))
        where = Parallel(Backend.DASK, address=running.scheduler_address)
        killer.start()
        try:
            counts = run_job(counted(Slow(seconds=0.1), blocks), backend=where)
        finally:
            over.set()
            killer.join()
    assert len(killed) == kills, "the run was over before the last kill"
    return np.stack(counts)


def test_workers_that_are_killed_at_random_change_no_bit() -> None:
    assert np.array_equal(killed_at_random(2, 120), expected(120))


def test_a_block_that_kills_every_worker_ends_in_one_line(
    two_workers: Parallel, tmp_path: Path
) -> None:
    job = counted(Murderous(marks=str(tmp_path), times=100))
    with pytest.raises(
        ConnectionError, match=r"^the Dask cluster at tcp://.* did not finish the work: Attempted"
    ) as lost:
        run_job(job, backend=two_workers)
    assert "\n" not in str(lost.value)


def test_a_cluster_that_goes_away_ends_in_one_line_and_the_run_goes_on(tmp_path: Path) -> None:
    job = counted(Slow(), blocks=200)
    code = "import sys; from tests.simulation.runs.test_dask import alone; alone()"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()

        def kill(finished: int, total: int) -> None:
            if finished > total / 4:
                process.kill()

        with pytest.raises(
            ConnectionError, match=rf"^the Dask cluster at {address} did not finish the work: "
        ) as lost:
            run_job(
                job, backend=Parallel(Backend.DASK, address=address), folder=tmp_path, progress=kill
            )
        assert "\n" not in str(lost.value)
    finally:
        process.kill()
        process.communicate()
    seen: list[int] = []
    counts = run_job(job, folder=tmp_path, progress=lambda now, _: seen.append(now))
    assert seen[0] > 0
    assert np.array_equal(counts, expected(len(job)))


def alone() -> None:
    """A scheduler and one worker in a process of their own."""
    with cluster(n_workers=1, processes=False, protocol="tcp://") as running:
        print(running.scheduler_address, flush=True)
        time.sleep(60)


def test_a_cluster_that_is_not_there_ends_in_one_line_soon() -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    clock = time.perf_counter()
    with pytest.raises(ConnectionError, match=rf"^no Dask cluster at {address}: .*refused$"):
        run_job(counted(), backend=Parallel(Backend.DASK, address=address))
    assert time.perf_counter() - clock < 5


def test_something_else_that_listens_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            ConnectionError, match=rf"^no Dask cluster at {address}: no Dask .* answers"
        ):
            run_job(counted(), backend=Parallel(Backend.DASK, address=address))


def test_a_scheduler_without_workers_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "PATIENCE", 1.0)
    with cluster(n_workers=0) as running:
        address = running.scheduler_address
        with pytest.raises(ConnectionError, match=r"the scheduler has no workers$"):
            run_job(counted(), backend=Parallel(Backend.DASK, address=address))


@pytest.mark.parametrize("address", ["nonsense://x:1", "tcp://[::1", "nowhere.invalid:8786"])
def test_an_address_that_is_none_ends_in_one_line(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "PATIENCE", 1.0)
    with pytest.raises(ConnectionError, match=r"^no Dask cluster at ") as lost:
        run_job(counted(), backend=Parallel(Backend.DASK, address=address))
    assert "\n" not in str(lost.value)


@pytest.mark.parametrize(("kind", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_package_that_is_not_installed_is_named(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ValueError, match=rf"^parallel={kind} needs {package}, .*'noisy-sgd-audit\[{kind}\]'$"
    ):
        run_job(counted(), backend=Parallel(Backend(kind), address="127.0.0.1:1"))


if __name__ == "__main__":
    assert np.array_equal(killed_at_random(8, 400), expected(400))
    print("8 workers killed; counts as expected")

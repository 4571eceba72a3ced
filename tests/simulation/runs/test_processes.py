"""Processes of this machine, and of a Dask cluster that runs as long as this module's tests."""

from __future__ import annotations

import functools
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from audit.simulation import backends
from audit.simulation.backends import Backend, Parallel, pool
from audit.simulation.runner import run_job

from .. import test_bits
from .jobs import ROOT, Murderous, Slow, Stopping, cluster, counted, expected, free_port, steps_of

dask = pytest.importorskip("dask")

LOST = {  # what is said of a block that kills every worker
    Backend.LOKY: r"^a worker process was lost 2 times with",
    Backend.DASK: r"^the Dask cluster at tcp://.* did not finish the work: Attempted",
}


SEED = test_bits.SEEDS[-1:]


@functools.cache
def digests_here() -> dict[str, str]:
    found = test_bits.digests(Parallel(workers=1), SEED)
    assert found.items() <= test_bits.stored().items()
    return found


# a run by Dask alone is in `test_a_cluster_that_goes_away_ends_in_one_line_and_the_run_goes_on`
@pytest.fixture(
    scope="module",
    params=[Backend.LOKY, pytest.param(Backend.DASK, marks=pytest.mark.slow)],
    ids=lambda kind: kind.value,
)
def two_workers(request: pytest.FixtureRequest) -> Iterator[Parallel]:
    if request.param is Backend.LOKY:
        yield Parallel(Backend.LOKY, 2)
        return
    fewer = {"distributed.scheduler.allowed-failures": 1}  # before a task is given up
    with dask.config.set(fewer), cluster(n_workers=2) as running:
        yield Parallel(Backend.DASK, address=running.scheduler_address)


def test_same_bits_in_processes(two_workers: Parallel, tmp_path: Path) -> None:
    job = counted(Slow(), blocks=80)
    seen: list[tuple[int, int]] = []
    with pool(two_workers) as workers:
        assert workers.workers == 2
    counts = run_job(
        job, backend=two_workers, folder=tmp_path, progress=lambda *now: seen.append(now)
    )
    assert np.array_equal(counts, expected(len(job)))
    assert counts[0].dtype == np.int64
    assert seen[-1] == (steps_of(80),) * 2
    assert np.array_equal(run_job(job, folder=tmp_path), counts)
    here = digests_here()  # first: it compiles for the others
    assert test_bits.digests(two_workers, SEED) == here


def test_an_error_in_a_block_comes_out_as_it_is(two_workers: Parallel) -> None:
    with pytest.raises(ZeroDivisionError, match="planted"):
        run_job(counted(Stopping(error=ZeroDivisionError)), backend=two_workers)


def test_a_lost_worker_changes_no_bit(two_workers: Parallel, tmp_path: Path) -> None:
    job = counted(Murderous(marks=str(tmp_path)))
    assert np.array_equal(run_job(job, backend=two_workers), expected())
    assert (tmp_path / "0").exists()


@pytest.mark.slow
def test_a_block_that_kills_every_worker_ends_in_one_line_and_the_run_goes_on(
    two_workers: Parallel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "_MAX_LOSSES", 1)  # every loss starts all processes anew
    marks, folder = tmp_path / "marks", tmp_path / "run"
    marks.mkdir()
    job = counted(Murderous(marks=str(marks), times=100))
    with pytest.raises(ConnectionError, match=LOST[two_workers.kind]) as lost:
        run_job(job, backend=two_workers, folder=folder, record_every=0)
    assert "\n" not in str(lost.value)
    assert len(list(marks.iterdir())) == 2
    seen: list[int] = []
    counts = run_job(counted(), folder=folder, progress=lambda done, _: seen.append(done))
    assert np.array_equal(counts, expected())
    assert seen[0] > 0


def test_a_cluster_that_goes_away_ends_in_one_line_and_the_run_goes_on(tmp_path: Path) -> None:
    job = counted(Slow(), blocks=200)
    code = "import sys; from tests.simulation.runs.test_processes import alone; alone()"
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
    monkeypatch.setattr(backends, "CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            ConnectionError, match=rf"^no Dask cluster at {address}: no Dask .* answers"
        ):
            run_job(counted(), backend=Parallel(Backend.DASK, address=address))


def test_a_scheduler_without_workers_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "CONNECT_SECONDS", 1.0)
    with cluster(n_workers=0) as running:
        address = running.scheduler_address
        with pytest.raises(ConnectionError, match=r"the scheduler has no workers$"):
            run_job(counted(), backend=Parallel(Backend.DASK, address=address))


@pytest.mark.parametrize("address", ["nonsense://x:1", "tcp://[::1", "nowhere.invalid:8786"])
def test_an_address_that_is_none_ends_in_one_line(address, monkeypatch):
    monkeypatch.setattr(backends, "CONNECT_SECONDS", 1.0)
    with pytest.raises(ConnectionError, match=r"^no Dask cluster at ") as lost:
        run_job(counted(), backend=Parallel(Backend.DASK, address=address))
    assert "\n" not in str(lost.value)


@pytest.mark.parametrize(("kind", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_package_that_is_not_installed_is_named(kind, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ValueError, match=rf"^parallel={kind} needs {package}, .*'noisy-sgd-audit\[{kind}\]'$"
    ):
        run_job(counted(), backend=Parallel(Backend(kind), address="127.0.0.1:1"))

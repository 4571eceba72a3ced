"""A Ray cluster on this machine; skipped where Ray is not installed."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.simulation.backends import Backend, Parallel
from audit.simulation.runner import run_job

from .jobs import ROOT, Slow, counted, expected, free_port

pytestmark = [
    pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="ray is not installed"),
    pytest.mark.slow,
]


@contextlib.contextmanager
def two_workers(environment: dict[str, str]) -> Iterator[str]:
    """Start a cluster as a user does, and end it."""
    address = f"127.0.0.1:{free_port()}"
    options = {
        "--port": address.rpartition(":")[2],
        "--node-ip-address": "127.0.0.1",
        "--num-cpus": "2",
        "--include-dashboard": "false",
    }
    process = subprocess.Popen(
        [
            Path(sys.executable).with_name("ray"),
            *("start", "--head", "--block", "--disable-usage-stats"),
            *itertools.chain(*options.items()),
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if "Ray runtime started" in line:
                break
        else:
            raise RuntimeError("".join(said))
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What came of the jobs of `ray_driver`."""
    place = tmp_path_factory.mktemp("ray")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    with two_workers(environment) as address:
        driver = subprocess.run(
            [sys.executable, "-m", "tests.simulation.runs.ray_driver", address, str(place)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
            timeout=100,
        )
    last = driver.stdout.splitlines()[-1]  # Ray writes there too
    return json.loads(last), place


def test_same_bits_on_a_cluster(made: Any) -> None:
    counts, place = made
    assert np.array_equal(counts["same"], expected(80))
    assert np.array_equal(
        run_job(counted(Slow(), blocks=80), folder=place / "same"), counts["same"]
    )


def test_an_error_in_a_block_comes_out_as_it_is(made: Any) -> None:
    assert made[0]["error"] == ["ZeroDivisionError", "planted"]


def test_a_lost_worker_changes_no_bit(made: Any) -> None:
    counts, place = made
    assert (place / "0").exists()
    assert np.array_equal(counts["lost"], expected())


def test_a_block_that_kills_every_worker_ends_in_one_line(made: Any) -> None:
    kind, line = made[0]["killed"]
    assert kind == "ConnectionError"
    assert line.startswith("the Ray cluster at 127.0.0.1:")
    assert "did not finish the work: " in line
    assert "\n" not in line


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_cluster_that_is_not_there_ends_in_one_line_soon(scheme: str) -> None:
    address = f"{scheme}127.0.0.1:{free_port()}"
    clock = time.perf_counter()
    with pytest.raises(ConnectionError, match=rf"^no Ray cluster at {address}: .*refused$"):
        run_job(counted(), backend=Parallel(Backend.RAY, address=address))
    assert time.perf_counter() - clock < 5

"""The CUDA kernels: in Numba's simulator, and on a device where there is one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba import cuda

from audit.simulation import run_job
from audit.simulation.backends import Kind, Parallel, pool
from audit.simulation.backends.cuda import _joined, device

from .cuda_ptx import sums_of_products
from .runs.jobs import Normals

ROOT = Path(__file__).parents[2]
INSTALLED = importlib.util.find_spec("numba_cuda") is not None
TOOLKIT = INSTALLED and importlib.util.find_spec("nvidia") is not None
DEVICE = INSTALLED and cuda.is_available()


@pytest.fixture(scope="module", params=["simulator", "device"])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the driver has found."""
    if request.param == "device" and not DEVICE:
        pytest.skip("no CUDA device")
    simulated = {"NUMBA_ENABLE_CUDASIM": "1" if request.param == "simulator" else "0"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.cuda_driver"],
        cwd=ROOT,
        env={**os.environ, **simulated},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("what", ["walks", "points"])
def test_bits_are_those_of_the_processor(found: dict[str, Any], what: str) -> None:
    assert len(found[what]) > 5
    assert {name: said for name, said in found[what].items() if said} == {}


def test_jobs_return_what_the_processor_returns(found: dict[str, Any]) -> None:
    assert [name for name, same in found["jobs"].items() if not same] == []


@pytest.mark.parametrize("kernel", ["walk", "points"])
def test_another_rounding_is_found_before_the_job_begins(
    found: dict[str, Any], kernel: str
) -> None:
    said = found["planted"][kernel]
    assert "must return the bits of the processor, got others in" in said
    assert said.startswith("RuntimeError: ")


def test_refusals_say_what_to_use(found: dict[str, Any]) -> None:
    assert found["refused"] == {
        "Python maps": "ValueError: update map must be known to compiled loops to run on a device, "
        "got Mapped: use parallel=threads",
        "diverged": "ValueError: update map must return finite numbers, got walks that grow beyond "
        "all doubles",
    }


@pytest.mark.parametrize(
    ("tasks", "launches"),
    [
        ([range(1), range(1, 3), range(3, 4)], [range(3), range(3, 4)]),
        ([range(7)], [range(3), range(3, 6), range(6, 7)]),
        ([range(2), range(5, 7), range(7, 9)], [range(2), range(5, 8), range(8, 9)]),
        ([], []),
    ],
)
def test_launches_hold_what_the_memory_holds(tasks: list[range], launches: list[range]) -> None:
    assert list(_joined(tasks, 3)) == launches


def test_jobs_of_other_types_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "check", lambda: None)
    with pytest.raises(
        ValueError,
        match=r"^parallel=cuda runs walks and d-dimensional Noisy-SGD, got a job of type Normals: "
        r"use parallel=threads$",
    ):
        run_job(Normals(), backend=Parallel(Kind.CUDA))


def test_the_package_is_named_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(
            ValueError,
            match=r"^parallel=cuda needs numba-cuda, which is not installed: "
            r"pip install 'noisy-sgd-audit\[cuda\]'$",
        ),
        pool(Parallel(Kind.CUDA)),
    ):
        pass


@pytest.mark.skipif(DEVICE, reason="there is a CUDA device")
def test_a_machine_without_a_device_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with (
        pytest.raises(ConnectionError, match=r"^no CUDA device .*: use parallel=threads"),
        pool(Parallel(Kind.CUDA)),
    ):
        pass


@pytest.mark.parametrize(("name", "value"), [("workers", 2), ("address", "auto")])
def test_a_device_has_neither_workers_nor_an_address(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be None with cuda, got {value!r}$"):
        Parallel(Kind.CUDA, **{name: value})


def test_sums_of_products_are_found() -> None:
    """The planted error of the test below, which needs the toolkit."""
    lines = ["\tmul.f64 \t%fd3, %fd1, %fd2;", "\tneg.f64 \t%fd4, %fd3;"]
    fused, summed = "\tfma.rn.f64 \t%fd5, %fd1, %fd4, %fd2;", "\tadd.f64 \t%fd6, %fd1, %fd4;"
    assert sums_of_products("\n".join([*lines, fused])) == []
    assert sums_of_products("\n".join([*lines, summed])) == ["add.f64 \t%fd6, %fd1, %fd4;"]


@pytest.mark.skipif(not TOOLKIT, reason="needs the extra cuda")
def test_the_device_compiler_has_nothing_to_contract() -> None:
    command = [sys.executable, "-m", "tests.simulation.cuda_ptx"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sqrt.rn.f64" in done.stdout
    assert "div.rn.f64" in done.stdout

"""Walks on a GPU, in Numba's simulator of one: the bits of the processor's walks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import audit
from audit.constructions import LatticeWalk
from audit.simulation import Backend, Parallel, gpu, pool
from audit.simulation.iterates import walks_of
from audit.simulation.samples import Draw, Samples
from tests.simulation.gpu import cases


@pytest.mark.slow
def test_a_gpu_draws_the_bits_of_the_processor() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.gpu", "40"],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": same\n") == len(list(cases())) + 1


def test_jobs_that_the_gpu_does_not_know_run_on_the_processor() -> None:
    m = audit.NoisySGD(
        steps=4, dataset_size=8, batch_size=2, step_size=1.0, noise_std=0.1, lipschitz=1.0,
        batching=audit.Batching.WITHOUT_REPLACEMENT, convex=False,
    )  # fmt: skip
    job = Samples(walks_of(LatticeWalk(m, spacing=10.0)), Draw(), 10, seed=1)
    assert gpu.on_gpu(job) is None


def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "is_there", lambda: False)
    with pytest.raises(ValueError, match=r"parallel=cuda needs a GPU of NVIDIA .*\[cuda\]"):
        pool(Parallel(Backend.CUDA))


def test_a_gpu_has_its_own_number_of_workers() -> None:
    with pytest.raises(ValueError, match="workers must be None with cuda: the GPU decides, got 2"):
        Parallel(Backend.CUDA, workers=2)
    with pytest.raises(ValueError, match="address must be None with cuda, got 'here'"):
        Parallel(Backend.CUDA, address="here")

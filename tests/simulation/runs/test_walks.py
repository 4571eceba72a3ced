"""The package's jobs on every backend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from audit.constructions import BiasedWalk
from audit.simulation import Samples, final_iterates, walk_counts
from audit.simulation.backends import Backend, Parallel
from audit.simulation.runner import run_job

from ..cases import mechanism
from .test_dask import cluster

THRESHOLDS = (-0.25, 0.0, 0.3)


def job(seed: int = 3) -> Samples:
    return walk_counts(BiasedWalk(mechanism()), thresholds=THRESHOLDS, trials=300_000, seed=seed)


@pytest.fixture(scope="module")
def plain() -> list[list[int]]:
    """The counts of the samples themselves, kept whole."""
    samples = final_iterates(BiasedWalk(mechanism()), trials=300_000, seed=3)
    return [[int(np.count_nonzero(x >= at)) for at in THRESHOLDS] for x in samples]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads(plain: list[list[int]], threads: int) -> None:
    assert np.array_equal(run_job(job(), backend=Parallel(workers=threads)), plain)


def test_a_folder(plain: list[list[int]], tmp_path: Path) -> None:
    assert np.array_equal(run_job(job(), folder=tmp_path), plain)
    assert np.array_equal(run_job(job(), folder=tmp_path), plain)
    with pytest.raises(ValueError, match=r"where seed is 3 \(here 4\)$"):
        run_job(job(seed=4), folder=tmp_path)


def test_dask(plain: list[list[int]]) -> None:
    # workers in this process, reached over TCP: they need not compile again
    with cluster(n_workers=2, processes=False, protocol="tcp://") as running:
        backend = Parallel(Backend.DASK, address=running.scheduler_address)
        assert np.array_equal(run_job(job(), backend=backend), plain)

"""Counts beyond thresholds: those of the iterates, without the iterates."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import audit
from audit.constructions import (
    BiasedWalk,
    Construction,
    Mapped,
    Process,
    ResetWalk,
    Step,
    TwoSidedWalk,
)
from audit.simulation import count_thresholds, final_iterates, run_job, walk_counts

from .cases import mechanism, process, two_lengths

PAIRS: dict[str, Construction] = {
    "biased": BiasedWalk(mechanism()),
    "shuffled": BiasedWalk(mechanism(batching=audit.Batching.SHUFFLED)),
    "resets": ResetWalk(mechanism(diameter=3.0), cap=1.5),
    "two lengths": two_lengths(),
    "random stop": TwoSidedWalk(mechanism(release=audit.Release.RANDOM_STOP)),
}
ENDS = (-2.0, -0.5, -0.1, 0.0, 0.05, 0.5, 2.0)  # atoms of the first pair, and points beyond all


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.simulation.blocks._STEPS", 2**17)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_counts_are_those_of_the_iterates(name: str, threads: int) -> None:
    x, x_prime = final_iterates(PAIRS[name], trials=9001, seed=3)
    found = count_thresholds(PAIRS[name], thresholds=ENDS, trials=9001, seed=3, threads=threads)
    for counted, samples in zip(found, (x, x_prime), strict=True):
        assert counted.dtype == np.int64
        assert counted.tolist() == [int(np.sum(samples >= t)) for t in ENDS]


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1000])
def test_any_number_of_thresholds(size: int) -> None:
    pair = PAIRS["biased"]
    x, _ = final_iterates(pair, trials=3000, seed=4)
    # values that occur, so that "at or above" is told from "above"
    thresholds = np.unique(x)[:: max(1, np.unique(x).size // size)][:size]
    first, _ = count_thresholds(pair, thresholds=thresholds, trials=3000, seed=4)
    assert first.tolist() == [int(np.sum(x >= t)) for t in thresholds]


@pytest.mark.parametrize("name", PAIRS)
def test_job_keeps_its_contract(name: str) -> None:
    job = walk_counts(PAIRS[name], thresholds=ENDS, trials=9001, seed=3)
    assert len(job) > 4
    blocks = [job.run(range(k, k + 1)) for k in range(len(job))]
    assert {b.shape for b in blocks} == {(2, len(ENDS))}
    whole = count_thresholds(PAIRS[name], thresholds=ENDS, trials=9001, seed=3)
    assert np.array_equal(sum(blocks), whole)
    assert np.array_equal(job.run(range(len(job))), whole)
    lengths = sum(len(process) for process in PAIRS[name].processes())
    assert job.work(range(len(job))) == 9001 * lengths
    again = pickle.loads(pickle.dumps(job))
    assert again == job
    assert np.array_equal(again.run(range(1, 2)), blocks[1])
    assert json.loads(json.dumps(job.description)) == job.description


def test_description_tells_jobs_apart() -> None:
    given: dict[str, object] = {
        "pair": PAIRS["biased"], "thresholds": ENDS, "trials": 9001, "seed": 3,
    }  # fmt: skip
    changed: list[dict[str, object]] = [
        {},
        {"pair": BiasedWalk(mechanism(), start=0.1)},
        {"pair": BiasedWalk(mechanism(noise_std=1.1))},
        {"pair": BiasedWalk(mechanism(batching=audit.Batching.POISSON))},
        {"pair": TwoSidedWalk(mechanism())},
        {"thresholds": (0.0,)},
        {"trials": 9002},
        {"seed": 4},
    ]
    jobs = [walk_counts(**{**given, **change}) for change in changed]  # type: ignore[arg-type]
    assert len({json.dumps(job.description) for job in jobs}) == len(jobs)


@dataclass(frozen=True)
class Moved(Construction):
    """Walks whose map is a function."""

    function: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    citation = "a test"

    def processes(self) -> tuple[Process, Process]:
        step = Step((Mapped(self.function),), (1.0,), 1.0)
        return process(step), process(step)


def test_a_function_is_described_by_its_code_or_not_at_all(tmp_path: Path) -> None:
    given = {"thresholds": (0.0,), "trials": 10, "seed": 3}
    first, second = (
        walk_counts(Moved(mechanism(), function), **given)  # type: ignore[arg-type]
        for function in (lambda x: x / 2, lambda x: x / 4)
    )
    run_job(first, folder=tmp_path / "first")
    with pytest.raises(ValueError, match=r"where pair\.function\.code is "):
        run_job(second, folder=tmp_path / "first")
    job = walk_counts(Moved(mechanism(), np.vectorize(np.sin)), **given)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"^a recorded job must be described .*: it is no plain data$"
    ):
        run_job(job, folder=tmp_path / "second")
    assert [row.shape for row in run_job(job)] == [(1,)] * 2  # nothing need be known


def test_memory_does_not_grow_with_the_trials() -> None:
    code = """
import resource
from audit.simulation import count_thresholds
from tests.simulation.test_counts import PAIRS
def peak(trials):
    count_thresholds(PAIRS["biased"], thresholds=[0.0, 0.1], trials=trials, seed=1, threads=2)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
few, many = peak(100_000), peak(2_000_000)
assert many - few < 12_000, (few, many)  # KiB; the samples would take 32 MB
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pair": 3}, "pair must be a Construction, got 3"),
        ({"thresholds": (0.0, 0.0)}, "thresholds must be distinct and ascending, got [0.0, 0.0]"),
        ({"thresholds": (1.0, 0.0)}, "thresholds must be distinct and ascending, got [1.0, 0.0]"),
        (
            {"thresholds": ()},
            "thresholds must be a non-empty one-dimensional array, got shape (0,)",
        ),
        (
            {"thresholds": np.arange(10.0**6 + 1)},
            "thresholds must be at most 1,000,000, got 1,000,001",
        ),
        ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_jobs(changed: dict[str, object], message: str) -> None:
    given: dict[str, object] = {
        "pair": PAIRS["biased"], "thresholds": (0.0,), "trials": 10, "seed": 0, **changed,
    }  # fmt: skip
    for call in (walk_counts, count_thresholds):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call(**given)  # type: ignore[operator]


def test_a_number_of_threads_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1, got 0"):
        count_thresholds(PAIRS["biased"], thresholds=[0.0], trials=1, seed=0, threads=0)

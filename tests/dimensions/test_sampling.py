"""Scores, jobs, progress, and bad input."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import audit
from audit import Batching
from audit.simulation import Samples, run_job
from audit_dimensions import (
    Ball,
    Dataset,
    Huber,
    Linear,
    NoisySGDPair,
    Quadratic,
    WholeSpace,
    final_points,
    linear_score_counts,
    scores,
)

from .cases import pair

DIRECTION = np.array([1.0, -2.0, 0.5, 0.0, 3.0, 1.0])


def small(**changes: Any) -> NoisySGDPair:
    return pair(Huber(1.5, 0.7), Ball(1.6), Batching.WITHOUT_REPLACEMENT, steps=3, **changes)


def test_scores_are_those_of_the_points() -> None:
    for common in (False, True):
        run: dict[str, Any] = {"trials": 9000, "seed": 4, "common_random_numbers": common}
        points = final_points(small(), **run)
        along = scores(small(), DIRECTION, **run, threads=2)
        for x, s in zip(points, along, strict=True):
            np.testing.assert_allclose(s, x @ DIRECTION, rtol=0, atol=1e-13)
        norms = scores(small(), lambda x: np.linalg.norm(x, axis=1), **run)
        for x, s in zip(points, norms, strict=True):
            assert np.array_equal(s, np.linalg.norm(x, axis=1))


def test_points_where_doubles_are_far_apart_are_refused() -> None:
    """Steps of 8.1 rounded to 16 there: samples certified 7.4 of at most 4.5."""
    m = audit.NoisySGD(
        steps=4, dataset_size=1, batch_size=1, step_size=1.0, noise_std=20.0, lipschitz=8.1
    )  # fmt: skip
    given: dict[str, Any] = {
        "loss": Linear(), "dataset": Dataset([[8.1]]), "dataset_prime": Dataset([[-8.1]]),
    }  # fmt: skip
    far = NoisySGDPair(mechanism=m, start=1e17, **given)
    with pytest.raises(ValueError, match=r"^iterates must be within 2.2e\+12 .*, got 1e\+17$"):
        final_points(far, trials=10, seed=1)
    assert final_points(NoisySGDPair(mechanism=m, **given), trials=10, seed=1)[0].shape == (10, 1)


def test_scores_go_to_an_audit() -> None:
    """Linear losses without walls: along the record's gradients, the Gaussian mechanism."""
    dataset = Dataset(np.eye(3))
    m = audit.NoisySGD(
        steps=4, dataset_size=3, batch_size=3, step_size=0.5, noise_std=1.5, lipschitz=1.0
    )  # fmt: skip
    made = NoisySGDPair(
        mechanism=m,
        loss=Linear(),
        dataset=dataset,
        dataset_prime=dataset.replacing(0, [-1.0, 0, 0]),
    )
    s, s_prime = scores(made, [1.0, 0.0, 0.0], trials=20_000, seed=8)
    found = audit.estimation.audit_samples(s, s_prime, confidence=0.99, seed=8, deltas=(1e-3,))
    # per step 2/3 apart at noise 1.5, over four steps
    exact = audit.curves.GaussianCurve(2 / 3 / 1.5 * 2.0).epsilon(1e-3)
    assert 0.6 * exact < found.epsilon_lower(1e-3) <= exact


def test_a_job_counts_the_scores() -> None:
    made = small()
    thresholds = [-1.0, -0.2, 0.0, 0.3, 5.0]
    job = linear_score_counts(made, DIRECTION, thresholds=thresholds, trials=9000, seed=4)
    assert len(job) == 6
    total = run_job(job)
    along = scores(made, DIRECTION, trials=9000, seed=4)
    expected = [[np.sum(s >= t) for t in thresholds] for s in along]
    assert np.array_equal(total, expected)
    assert total[0].dtype == np.int64
    works = [job.work(range(k, k + 1)) for k in range(6)]
    assert works == [4096 * 3] * 4 + [808 * 3] * 2
    summary = audit.estimation.Summary(
        thresholds=tuple(thresholds), first=tuple(total[0].tolist()), first_total=9000,
        second=tuple(total[1].tolist()), second_total=9000, sources=(),
    )  # fmt: skip
    assert summary.first_total == 9000


def test_a_threshold_counts_the_scores_that_equal_it() -> None:
    made = pair(Linear(), WholeSpace(), steps=2)
    s, _ = scores(made, DIRECTION, trials=10, seed=1)
    at = np.sort(s)[[2, 7]]
    job = linear_score_counts(made, DIRECTION, thresholds=at, trials=10, seed=1)
    assert run_job(job)[0].tolist() == [8, 3]


def test_descriptions_tell_jobs_apart() -> None:
    given: dict[str, Any] = {
        "pair": small(), "direction": DIRECTION, "thresholds": [0.0], "trials": 5000, "seed": 4,
    }  # fmt: skip
    others: list[dict[str, Any]] = [
        {"pair": small(seed=1)},
        {"pair": small(relation=audit.Relation.ZERO_OUT)},
        {"pair": pair(Huber(1.5, 0.6), Ball(1.6), Batching.WITHOUT_REPLACEMENT, steps=3)},
        {"pair": pair(Huber(1.5, 0.7), Ball(1.7), Batching.WITHOUT_REPLACEMENT, steps=3)},
        {"pair": pair(Huber(1.5, 0.7), Ball(1.6), Batching.POISSON, steps=3)},
        {"pair": small(noise_std=0.61)},
        {"direction": -DIRECTION},
        {"thresholds": [0.1]},
        {"trials": 5001},
        {"seed": 5},
    ]
    found = [linear_score_counts(**{**given, **o}).description for o in [{}, *others]]
    assert len({json.dumps(f, sort_keys=True) for f in found}) == len(found)
    assert json.loads(json.dumps(found[0])) == found[0]


@pytest.mark.parametrize("threads", [1, 3])
def test_progress_rises_to_the_total_in_the_calling_thread(threads: int) -> None:
    seen: list[tuple[int, int, int]] = []
    final_points(
        small(),
        trials=9000,
        seed=0,
        threads=threads,
        progress=lambda done, total: seen.append((done, total, threading.get_ident())),
    )
    done = [s[0] for s in seen]
    assert done == sorted(set(done))
    assert len(seen) == 7  # the beginning, and 3 blocks for each dataset
    assert done[-1] == 2 * 9000 * 3
    assert {s[1:] for s in seen} == {(2 * 9000 * 3, threading.get_ident())}


RUNS = [
    ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
    ({"trials": 1e6}, "trials must be a whole number of at least 1, got 1000000.0"),
    ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ({"seed": None}, "seed must be a whole number of at least 0, got None"),
    ({"threads": 0}, "threads must be a whole number of at least 1, got 0"),
    ({"common_random_numbers": 1}, "common_random_numbers must be a bool, got 1"),
]


@pytest.mark.parametrize(("changed", "message"), RUNS)
def test_bad_runs(changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"trials": 10, "seed": 0, **changed}
    for call in (
        lambda: final_points(small(), **given),
        lambda: scores(small(), DIRECTION, **given),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()
    if changed.keys() <= {"trials", "seed"}:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            linear_score_counts(small(), DIRECTION, thresholds=[0.0], **given)


def job_of(**changes: Any) -> Samples:
    given = {"pair": small(), "direction": DIRECTION, "thresholds": [0.0], "trials": 5, "seed": 0}
    return linear_score_counts(**{**given, **changes})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: final_points(3, trials=1, seed=0), "pair must be a NoisySGDPair, got 3"),
        (lambda: scores(3, [1.0], trials=1, seed=0), "pair must be a NoisySGDPair, got 3"),
        (lambda: job_of(pair=3), "pair must be a NoisySGDPair, got 3"),
        (
            lambda: scores(small(), [1.0, 2.0], trials=1, seed=0),
            "direction must have 6 numbers, got 2 numbers",
        ),
        (
            lambda: scores(small(), np.zeros(6), trials=1, seed=0),
            "direction must not be zero, got zeros",
        ),
        (
            lambda: scores(small(), [np.inf] * 6, trials=1, seed=0),
            "direction must hold finite numbers only, got inf at position 0",
        ),
        (
            lambda: scores(small(), lambda x: x, trials=5, seed=0, threads=2),
            "score must return one number for each of 5 points, got shape (5, 6)",
        ),
        (
            lambda: scores(small(), lambda x: x[:, 0] * np.nan, trials=5, seed=0),
            "score must return finite numbers, got nan",
        ),
        (lambda: job_of(thresholds=[1.0, 0.0]), "thresholds must be distinct and ascending, got"),
        (lambda: job_of(thresholds=[0.0, 0.0]), "thresholds must be distinct and ascending, got"),
        (lambda: job_of(thresholds=[]), "thresholds must be a non-empty one-dimensional array"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()


@pytest.mark.parametrize("domain", [WholeSpace(), Ball(1.0)])
def test_runs_that_grow_beyond_all_doubles_are_refused(domain: WholeSpace | Ball) -> None:
    dataset = Dataset(np.eye(2))
    bounded = isinstance(domain, Ball)
    m = audit.NoisySGD(
        steps=400, dataset_size=2, batch_size=2, step_size=1e200 if bounded else 10.0,
        noise_std=1.0, gradient_sensitivity=10.0, diameter=1.0 if bounded else None,
    )  # fmt: skip
    made = NoisySGDPair(
        mechanism=m,
        loss=Quadratic(1.0),
        dataset=dataset,
        dataset_prime=dataset.replacing(0, [2, 0]),
        domain=domain,
    )
    with pytest.raises(ValueError, match=r"^step_size must be small enough for iterates to stay"):
        final_points(made, trials=5, seed=0)

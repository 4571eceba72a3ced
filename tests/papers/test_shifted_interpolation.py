"""The shifted interpolated process: it passes its checks, and planted errors do not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import audit
from audit import bounds
from audit.results import Verdict
from papers.shifted_interpolation import ShiftedInterpolation, against_law, against_sample, band
from papers.shifted_process import Losses, LossPair, cheapest, directly, plan_from, simulate
from tests.papers.findings import found

STANDING = (Verdict.HOLDS, Verdict.CONSISTENT)


def mechanism(**changes: Any) -> audit.NoisySGD:
    values: dict[str, Any] = {
        "steps": 12,
        "dataset_size": 10,
        "batch_size": 10,
        "step_size": 0.2,
        "noise_std": 0.3,
        "gradient_sensitivity": 2.0,
        "smoothness": 2.0,
        "strong_convexity": 0.5,
    }
    return audit.NoisySGD(**{**values, **changes})


CLAMPED: dict[str, Any] = {"strong_convexity": 0.0, "diameter": 0.2, "steps": 40}
CASES: dict[str, tuple[Losses, audit.NoisySGD, dict[str, Any]]] = {
    "quadratic": (Losses.QUADRATIC, mechanism(), {"start": 0.5}),
    "huber": (Losses.HUBER, mechanism(), {"bend": 0.2}),
    "linear": (Losses.LINEAR, mechanism(**CLAMPED), {}),
    "one-sided": (
        Losses.ONE_SIDED,
        mechanism(**{**CLAMPED, "smoothness": 10.0}),
        {"wrong_contraction": 0.4},
    ),
    "three dimensions": (
        Losses.HUBER,
        mechanism(strong_convexity=0.1, diameter=1.0),
        {"dimensions": 3, "bend": 0.02},
    ),
}


def study(case: str, **changes: Any) -> ShiftedInterpolation:
    losses, m, more = CASES[case]
    values: dict[str, Any] = {"delta": 1e-5, "paths": 4000, **more, **changes}
    return ShiftedInterpolation(mechanism=m, losses=losses, **values)


@pytest.mark.parametrize("case", CASES)
def test_every_statement_holds(case: str) -> None:
    """Tests of laws err with probability 0.001 over seeds; the seed is fixed."""
    statements = found(study(case), seed=5).statements
    assert [s.claim for s in statements if s.verdict not in STANDING] == []
    assert len(statements) >= 8


def test_the_same_seed_gives_the_same_findings_with_any_number_of_threads() -> None:
    one = study("linear", paths=9000)
    assert found(one) == found(one, threads=2)


def simulated(pair: LossPair, plan: Any, paths: int = 2000) -> Any:
    return simulate(
        pair, plan, np.zeros(1), paths=paths, seed=3, threads=1, progress=lambda a, b: None
    )


def test_a_plan_is_the_theorem_s_and_its_distances_are_reached() -> None:
    """Linear losses without walls keep their distance exactly: z_k, on every path."""
    m = mechanism(strong_convexity=0.0, steps=20)
    pair = LossPair(m, Losses.LINEAR, 1.0)
    plan = plan_from(pair, 8)
    s = 0.2 * 2 / 10
    assert plan.distances[0] == pytest.approx(8 * s, rel=1e-14)
    # c = 1: all costs alike, so that 12 of them cross 8 s + 12 s
    assert plan.costs == pytest.approx(np.full(12, 20 * s / 12), rel=1e-12)
    assert plan.distances[-1] == 0
    result = simulated(pair, plan)
    # differences of numbers of size 1 in double precision, after 20 steps
    assert result.largest == pytest.approx(plan.distances, abs=1e-13)
    assert result.mean == pytest.approx(plan.distances, abs=1e-13)
    assert result.pushes == pytest.approx(plan.costs, abs=1e-13)


@pytest.mark.parametrize("case", ["quadratic", "linear", "one-sided"])
def test_the_costs_are_those_of_the_engine(case: str) -> None:
    losses, m, _ = CASES[case]
    pair = LossPair(m, losses, 1.0)
    plan = cheapest(pair)
    engine = bounds.evaluate("bsa24.theorem_3_3", m)
    assert isinstance(engine, audit.curves.GaussianCurve)
    assert plan.total / m.step_std == pytest.approx(engine.mu, rel=1e-10)
    assert (plan.tau > 0) is (case != "quadratic")
    # any other shifts cost more
    rng = np.random.default_rng(1)
    for _ in range(5):
        shifts = np.clip(plan.shifts * rng.uniform(0.8, 1.25, plan.shifts.size), 0, 1)
        shifts[-1] = 1
        other = bounds.evaluate("bsa24.theorem_3_3", m, tau=plan.tau, shifts=tuple(shifts))
        assert isinstance(other, audit.curves.GaussianCurve)
        assert other.mu >= engine.mu * (1 - 1e-12)


def test_planted_errors_are_caught_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from papers import shifted_interpolation, shifted_process

    def refuted(one: ShiftedInterpolation) -> set[str]:
        return {s.claim[:9] for s in found(one, seed=5).statements if s.verdict is Verdict.REFUTED}

    one = study("quadratic", tau=6)
    assert refuted(one) == set()

    def open_end(pair: LossPair, plan: Any, *args: Any, **options: Any) -> Any:
        return simulate(pair, plan.ended_at(0.95), *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(shifted_interpolation, "simulate", open_end)
        claims = refuted(one)
    assert "X~ at t i" in claims  # it does not end at X

    def too_near(shifts: Any, pair: LossPair, contraction: float, tau: int) -> Any:
        return shifted_process_distances(shifts, pair, 0.97 * contraction, tau)

    shifted_process_distances = shifted_process.distances
    with monkeypatch.context() as patch:
        patch.setattr(shifted_process, "distances", too_near)
        claims = refuted(one)
    assert "|X~ - X| " in claims
    assert "lambda_k " in claims

    def louder(self: LossPair, x: Any) -> Any:
        return 1.05 * x

    with monkeypatch.context() as patch:  # another law than that of the mechanism
        patch.setattr(LossPair, "project", louder)
        claims = refuted(study("quadratic", tau=6))
    assert "X~ at t h" in claims
    assert "X~ at tau" in claims


def test_the_band_s_false_alarms_and_power() -> None:
    """Over 200 seeds a level of 0.05 gives at most 21 alarms, but with probability 1e-3."""
    from scipy.stats import binom, norm

    most = int(binom.ppf(1 - 1e-3, 200, 0.05))
    samples = np.random.default_rng(4).standard_normal((200, 2, 500))
    alarms = [against_law(one, norm(), 0.05).differs for one, _ in samples]
    assert 0 < sum(alarms) <= most
    assert sum(against_sample(one, other, 0.05).differs for one, other in samples) <= most
    # a mean that is wrong by a quarter: the distance is 0.0995, the band 0.0607
    assert sum(against_law(one + 0.25, norm(), 0.05).differs for one, _ in samples) > 175
    assert band(500, 0.05) == pytest.approx(math.sqrt(math.log(40) / 1000))


def test_one_dimension_and_many_move_alike() -> None:
    """Along the first axis from 0 the updates in three dimensions are those in one."""
    for losses, m, more in CASES.values():
        pair = LossPair(m, losses, more.get("bend", 1.0))
        along = np.linspace(-0.4, 0.4, 9)[:, None]
        wide = np.hstack([along, np.zeros((9, 2))])
        for flat, full in zip(pair.updates(along, along), pair.updates(wide, wide), strict=True):
            assert full[:, 0] == pytest.approx(flat[:, 0], abs=1e-15)
            assert not full[:, 1:].any()
        construction = pair.in_one_dimension(0.0)
        for process, moved in zip(
            construction.processes(), pair.updates(along, along), strict=True
        ):
            (step,) = process.distinct_steps()
            assert step.maps[0](along[:, 0]) == pytest.approx(moved[:, 0], abs=1e-14)


def test_updates_keep_their_constants() -> None:
    rng = np.random.default_rng(2)
    for losses, m, more in CASES.values():
        pair = LossPair(m, losses, more.get("bend", 1.0))
        x, y = rng.standard_normal((2, 500, 3)) * 0.3
        for a, b in zip(pair.updates(x, x), pair.updates(y, y), strict=True):
            ratios = np.linalg.norm(a - b, axis=1) / np.linalg.norm(x - y, axis=1)
            assert ratios.max() <= pair.contraction * (1 + 1e-12)
        first, second = pair.updates(x, x)
        assert np.linalg.norm(first - second, axis=1).max() <= pair.shift * (1 + 1e-12)


def test_direct_samples_have_the_law_of_the_construction() -> None:
    losses, m, _ = CASES["linear"]
    pair = LossPair(m, losses, 1.0)
    sample = directly(pair, np.zeros(1), m.steps, first=True, paths=4000, seed=8)
    law = audit.exact.curve(pair.in_one_dimension(0.0)).first
    assert not against_law(sample[:, 0], law, 1e-3).differs
    assert against_law(-sample[:, 0], law, 1e-3).differs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"paths": 10}, "paths must be a whole number of at least 1000"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\)"),
        ({"tau": 12}, "tau must be below steps = 12, got 12"),
        ({"mechanism": mechanism(step_size=2.0)}, r"step_size must be at most 2/M = 1, got 2"),
        ({"mechanism": mechanism(smoothness=None)}, "mechanism must have convex, smooth losses"),
        ({"losses": Losses.LINEAR}, "strong_convexity must be 0 for linear losses, got 0.5"),
        ({"wrong_contraction": 1.0}, r"wrong_contraction must be in \(0, 1\)"),
        ({"bend": 0.0}, "bend must be a positive finite number"),
    ],
)
def test_what_it_is_not_made_for(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(study("quadratic"), **changes)

"""The bound by the relative entropy of conditioned runs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from audit import Batching, Losses, NoisySGD, bounds, exact
from audit.bounds.own import relative_entropy
from audit.bounds.own.relative_entropy import RelativeEntropyCurve, _largest_sum, _ranges, rates
from audit.bounds.own.run import WorstRun
from audit.constructions import QuadraticPair, TwoSidedWalk
from audit.search import worst_case
from tests.mechanisms import noisy_sgd

Array = NDArray[np.float64]
ID = "own.relative_entropy"


def mechanism(drift: float, noise: float, steps: int) -> NoisySGD:
    """D = 1 and v D/s^2 = ``drift``, losses linear."""
    push = 500 * drift * noise**2
    return noisy_sgd(steps=steps, dataset_size=1000, noise_std=noise, lipschitz=push)


# ---------------------------------------------------------------- the steps of the proof


def test_no_allocation_has_a_larger_sum_than_the_minorant() -> None:
    random = np.random.default_rng(1)
    for _ in range(300):
        count = int(random.integers(3, 8))
        uses = np.concatenate([[0.0], np.cumsum(random.uniform(0.1, 3, count))])
        ceilings = np.sort(random.uniform(0, 5, count + 1))[::-1].copy()
        ceilings[-1] = 0.0
        bound = _largest_sum(uses, ceilings)
        drawn = np.sort(random.uniform(0, 5, (2000, count + 1)))[:, ::-1]
        heights = np.minimum(drawn, ceilings)  # still falling
        heights[:, 0] = ceilings[0]
        sums = np.sqrt(2 * np.diff(uses) * -np.diff(heights)).sum(axis=1)
        assert sums.max() <= bound * (1 + 1e-12)
        # the minorant itself is an allocation: the bound is attained
        line = np.array(
            [
                min(
                    a + (b - a) * (x - p) / (q - p) if q > p else a
                    for p, a in zip(uses, ceilings, strict=True)
                    for q, b in zip(uses, ceilings, strict=True)
                    if p <= x <= q
                )
                for x in uses
            ]
        )
        attained = np.sqrt(2 * np.diff(uses) * np.maximum(-np.diff(line), 0)).sum()
        assert attained == pytest.approx(bound, rel=1e-9)


def clamped_chain(drift: float, noise: float, cells: int = 240) -> tuple[Array, Array]:
    """Return cell centres of [0, 1] and the matrix of a clamped walk between them."""
    edges = np.linspace(0, 1, cells + 1)
    points = (edges[1:] + edges[:-1]) / 2
    cut = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
    upto = ndtr((cut[None, :] - points[:, None] - drift) / noise)
    return points, np.diff(upto, axis=1)


@pytest.mark.parametrize("drift", [0.0, -0.02, -0.1])
def test_probabilities_vary_over_the_domain_no_more_than_allowed(drift: float) -> None:
    noise, steps = 0.2, 60
    points, matrix = clamped_chain(drift, noise)
    run = WorstRun.of(mechanism(0.1, noise, steps))
    law = np.eye(points.size)[points.size // 2]
    laws = [law := law @ matrix for _ in range(steps)]
    largest = 0.0
    for edge in (0.5, 0.8, 0.95):
        u = (points > edge).astype(float)
        p = float(laws[-1] @ u)
        lags, ranges = _ranges(run, np.array([p]))
        for lag in range(1, steps):
            u = matrix @ u
            known = np.flatnonzero(lags == lag)
            if known.size:
                share = np.ptp(u) / ranges[0, known[0]]
                largest = max(largest, float(share))
    assert 0.5 < largest <= 1 + 1e-6


@pytest.mark.parametrize("drift", [0.0, -0.01, -0.03])
def test_the_derivative_of_log_probabilities_is_below_the_rate(drift: float) -> None:
    """On a chain, by differences of the drift; at the best drift it is not far below."""
    noise, steps, push = 0.1, 300, 1e-5
    m = mechanism(2 * push / noise**2, noise, steps)
    points, low = clamped_chain(drift - push, noise)
    high = clamped_chain(drift + push, noise)[1]
    start = np.eye(points.size)[0]
    a, b = start.copy(), start.copy()
    for _ in range(steps):
        a, b = a @ low, b @ high
    for edge in (0.3, 0.6, 0.9):
        p, q = a[points > edge].sum(), b[points > edge].sum()
        if p > 1e-12:
            rise = math.log(q / p)
            assert rise <= rates(WorstRun.of(m), np.array([math.log(p)]))[0]


def test_the_rate_falls_and_is_that_of_a_gaussian_without_walls() -> None:
    log_p = np.linspace(-60, -1e-3, 200)
    for m in (mechanism(0.1, 0.05, 4000), mechanism(3.0, 0.2, 25), mechanism(1.0, 2.0, 3)):
        found = rates(WorstRun.of(m), log_p)
        assert np.all(np.diff(found) <= 1e-9 * found[:-1])
    wide = mechanism(0.1, 0.001, 100)
    run = WorstRun.of(wide)
    expected = run.ratio * np.sqrt(2 * 100 * -log_p)
    np.testing.assert_allclose(rates(run, log_p), expected, rtol=1e-8)


def test_the_equation_is_solved_and_the_profile_is_the_supremum() -> None:
    run = WorstRun.of(mechanism(0.3, 0.1, 400))
    curve = RelativeEntropyCurve.of(run)
    grid = -np.geomspace(1e-4, 40.0, 600)[::-1]
    rate = rates(run, grid)
    for log_q in (-30.0, -20.0, -12.0):  # Euler's method; every value ends below 1
        y = log_q
        for _ in range(2000):
            y += float(np.interp(y, grid, rate)) / 2000
        reached = float(np.interp(log_q, curve.start, curve.value))
        assert y - 1e-3 <= reached <= y + 0.05
    q = np.linspace(curve.start[0], 0, 400_001)
    ends = np.append(curve.start, 0.0), np.append(curve.value, curve.value_end[-1])
    values = np.exp(np.interp(q, *ends))
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        brute = np.max(values - np.exp(q + epsilon))
        assert brute <= curve.delta(epsilon) <= brute * (1 + 1e-4) + 1e-12
    for delta in (1e-2, 1e-5, 1e-9, 1e-14):
        assert curve.delta(curve.epsilon(delta)) == pytest.approx(delta, rel=1e-6)
    assert curve.epsilon(1e-90) == math.inf
    beta = curve.beta(np.array([0.0, 0.1, 0.5, 1.0]))
    assert np.all(np.diff(beta) <= 0)


# ---------------------------------------------------------------- against exact laws


def test_searched_pairs_are_below_it_and_it_is_below_the_couplings() -> None:
    m = dataclasses.replace(mechanism(0.1, 0.2, 250), losses=Losses.CHANGING)
    curve = bounds.evaluate(ID, m)
    found = worst_case(m, delta=1e-5, evaluations=60, seed=0)
    assert 0.1 * 2.1 < found.bracket[0] < curve.epsilon(1e-5)
    # own.coupling has .5797 (results/map), forgetting .7307
    assert curve.epsilon(1e-5) == pytest.approx(0.5624, abs=2e-4)
    assert curve.epsilon(1e-5) < bounds.evaluate("own.forgetting", m).epsilon(1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 1},
        {"steps": 2, "noise_std": 3.0},
        {"smoothness": 2.0},
        {"strong_convexity": 1.0},
        {"batching": Batching.CYCLIC, "batch_size": 500, "steps": 3},
        {"dataset_size": 1, "batch_size": 1, "lipschitz": 0.01},
        {"lipschitz": 3e3},
        {"noise_std": 0.02, "steps": 10},
    ],
    ids=str,
)
def test_unusual_mechanisms(changes: dict[str, Any]) -> None:
    m = dataclasses.replace(mechanism(0.5, 0.3, 40), **changes)
    curve = bounds.evaluate(ID, m)
    epsilon = curve.epsilon(np.array([1e-3, 1e-6]))
    assert 0 <= epsilon[0] <= epsilon[1]
    run = WorstRun.of(m)
    assert curve.renyi(2.0) == pytest.approx(run.ratio**2 * run.meetings(run.steps))
    pair = QuadraticPair(m, 1.0) if m.strong_convexity else TwoSidedWalk(m)
    law = exact.curve(pair)
    low = [law.epsilon_bracket(delta)[0] for delta in (1e-3, 1e-6)]
    assert np.all(low <= epsilon)


def _weak(push: float) -> RelativeEntropyCurve:
    run = WorstRun.of(mechanism(1.0, 0.05, 400))
    return RelativeEntropyCurve.of(dataclasses.replace(run, shift=push * run.noise))


@pytest.mark.parametrize("push", [1e-10, 1e-12, 1e-14, 1e-15])
def test_weak_pushes_are_rounded_upward(push: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta and epsilon of pushes that double precision hardly shows are those of any weak push."""
    reference = _weak(1e-7)
    delta = float(reference.delta(0.0)) / 1e-7
    epsilon = float(reference.epsilon(0.2e-7)) / 1e-7
    found = _weak(push)
    assert delta <= float(found.delta(0.0)) / push < 1.1 * delta
    assert epsilon <= float(found.epsilon(0.2 * push)) / push < 1.3 * epsilon
    if push == 1e-15:  # without the rounding it would be too small
        for name in ("_UNIT", "_UNITS", "_TAIL_UNITS", "_TIME_UNITS"):
            monkeypatch.setattr(relative_entropy, name, 0.0)
        assert float(_weak(push).delta(0.0)) / push < delta

"""The best allocation of shifts, against a general solver and closed forms."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from audit.bounds.accounting import (
    HolderModulus,
    LipschitzShifts,
    Meetings,
    allocation_cost,
    best_cost,
)
from audit.bounds.accounting.iteration import visits_cost
from audit.bounds.accounting.shift_allocation import HolderShifts, smallest


def by_solver(shifts, stds, distance, contraction):
    """Minimise over z_t >= 0 directly."""
    count = len(shifts)

    def allocations(z):
        before = np.concatenate([[distance], z])
        return contraction * before + shifts - np.concatenate([z, [0.0]])

    start = np.full(count - 1, distance / 2)
    found = minimize(
        lambda z: np.sum((allocations(z) / stds) ** 2),
        start,
        bounds=[(0, None)] * (count - 1),
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 10**6},
    )
    return found.fun


@pytest.mark.parametrize("contraction", [1.0, 0.9, 0.5])
def test_best_allocation_is_the_solvers(contraction):
    rng = np.random.default_rng(3)
    for _ in range(5):
        count = int(rng.integers(2, 7))
        shifts = rng.uniform(0, 1, count) * rng.integers(0, 2, count)
        stds = rng.uniform(0.5, 2, count)
        ours = best_cost(shifts, stds, contraction=contraction)
        assert ours == pytest.approx(by_solver(shifts, stds, 0.0, contraction), rel=1e-5, abs=1e-9)
        distance = float(rng.uniform(0, 3))
        free = best_cost(shifts, stds, distance=distance, contraction=contraction)
        costs = [by_solver(shifts[k:], stds[k:], distance, contraction) for k in range(count - 1)]
        costs.append(((contraction * distance + shifts[-1]) / stds[-1]) ** 2)
        assert free == pytest.approx(min(costs), rel=1e-5)


def test_choice_by_hand():
    # two shifts, the second at the last step: z_t >= 0 binds, and it is paid in full
    assert best_cost([0.0, 0.0, 1.0], [1.0] * 3) == pytest.approx(1.0)
    assert best_cost([1.0, 0.0, 1.0], [1.0] * 3) == pytest.approx(1.5)
    shifts, stds = [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]
    assert best_cost(shifts, stds) == pytest.approx(0.25)
    assert allocation_cost([0.25] * 4, shifts, stds) == pytest.approx(0.25)
    assert allocation_cost([1.0, 0.0, 0.0, 0.0], shifts, stds) == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"allocations must leave z_t >= 0, got z_1 = -0.5"):
        allocation_cost([1.5, 0.0, 0.0, -0.5], shifts, stds)
    with pytest.raises(ValueError, match=r"allocations must end at z_T = 0, got 0.5"):
        allocation_cost([0.5, 0.0, 0.0, 0.0], shifts, stds)
    with pytest.raises(ValueError, match=r"one value per step \(4 shifts, 4 noises\), got 1"):
        allocation_cost([1.0], shifts, stds)
    # what is allocated later costs less noise-free distance, never less than the best
    late = [0.0, 0.0, 0.0, 1.0]
    assert allocation_cost(late, shifts, stds) >= best_cost(shifts, stds)


def in_fractions(shifts, stds, distance, contraction):
    """The cheapest path below the shifts from every start, by pooling, without rounding."""
    count = len(shifts)
    scales = [Fraction(math.exp(math.log(contraction) * (count - 1 - t))) for t in range(count)]
    rises = [Fraction(s) * scale for s, scale in zip(shifts, scales, strict=True)]
    widths = [(Fraction(s) * scale) ** 2 for s, scale in zip(stds, scales, strict=True)]
    costs = []
    for k in range(count):
        pools = []
        dropped = Fraction(distance) * Fraction(contraction) ** (count - k)
        for t in range(k, count):
            pools.append([rises[t] + (dropped if t == k else 0), widths[t]])
            while len(pools) > 1 and pools[-2][0] * pools[-1][1] > pools[-1][0] * pools[-2][1]:
                rise, width = pools.pop()
                pools[-1][0] += rise
                pools[-1][1] += width
        costs.append(sum(rise**2 / width for rise, width in pools))
    return float(min(costs))


@pytest.mark.parametrize("kind", ["any", "falling", "rising", "wild"])
def test_every_start_is_considered(kind):
    """The search over starts leaves out only those that cannot be the best."""
    random = np.random.default_rng(9)
    for _ in range(15):
        count = int(random.integers(1, 25))
        shifts = random.uniform(0, 1, count) * random.integers(0, 2, count)
        if kind in ("falling", "rising"):
            shifts = np.sort(random.uniform(0.1, 1, count))[:: -1 if kind == "falling" else 1]
        if kind == "wild":
            shifts = np.exp(2 * random.normal(size=count))
        stds = random.uniform(0.5, 2, count) if random.random() < 0.5 else shifts + 0.01
        distance = float(random.choice([0.0, 1e-3, 1.0, 10.0]))
        contraction = float(random.choice([1.0, 0.99, 0.7]))
        found = best_cost(shifts, stds, distance=distance, contraction=contraction)
        exact = in_fractions(shifts.tolist(), stds.tolist(), distance, contraction)
        assert found == pytest.approx(exact, rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("contraction", [1.0, 1 - 1e-5, 0.99, 0.6, 1e-3, 1e-9, 0.0])
def test_shifts_once_in_a_cycle_have_a_closed_form(contraction):
    random = np.random.default_rng(2)
    for _ in range(60):
        steps, period = int(random.integers(1, 150)), int(random.integers(1, 30))
        distance = float(10 ** random.uniform(-4, 3)) if random.random() < 0.9 else 0.0
        shift, std = (float(x) for x in 10 ** random.uniform(-2, 1, 2))
        closed = visits_cost(shift, std, steps, period, distance=distance, contraction=contraction)
        shifts = np.where(np.arange(steps)[::-1] % period == 0, shift, 0.0)
        stds = np.full(steps, std)
        searched = best_cost(shifts, stds, distance=distance, contraction=contraction)
        assert closed == pytest.approx(searched, rel=1e-10)


def test_long_cycles_start_beyond_ten_thousand_steps():
    """The best start lies D l/s steps back: 1e6 here, where the cost is known."""
    cost = visits_cost(1e-3, 1.0, 10**9, 20, distance=50.0)
    # all but the last step on one line: (s/l u + D')^2/u + s^2, u = D' l/s, D' = D - s (1 - 1/l)
    assert cost == pytest.approx(4 * 1e-3 / 20 * (50 - 1e-3 * 0.95) + 1e-6, rel=1e-9)


def test_shifts_agree_with_a_general_optimiser():
    rng = np.random.default_rng(0)
    for _ in range(60):
        k, period = int(rng.integers(1, 9)), int(rng.integers(1, 4))
        steps, position = k + int(rng.integers(0, 5)), int(rng.integers(period))
        surplus = float(rng.choice([0, 0.3, -0.3, 0.01, -0.01, -1e-13, 1e-13]))
        s, distance = float(rng.choice([0.0, 0.1, 1.0])), float(rng.uniform(0, 3))
        t = np.arange(steps - k, steps)
        met = np.where(t % period == position, s, 0.0)
        weights = (1 + surplus) ** -(t - (steps - k) + 1.0)
        found = minimize(
            lambda a, met=met: np.sum((met + a) ** 2),
            np.full(k, distance),
            jac=lambda a, met=met: 2 * (met + a),
            bounds=[(0, None)] * k,
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda a, w=weights, d=distance: w @ a - d,
                    "jac": lambda a, w=weights: w,
                }
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        shifts = LipschitzShifts(Meetings(steps, period, position), s, surplus)
        cost = float(shifts.costs([k], [distance])[0])
        assert cost == pytest.approx(found.fun, rel=1e-7, abs=1e-10)


def test_best_length_is_found_without_trying_all():
    for surplus in (-1e-4, 0.0, 1e-4):
        shifts = LipschitzShifts(Meetings(20_000), 1e-3, surplus)

        def cost(k, shifts=shifts):
            return shifts.costs(k, np.minimum(shifts.grown(20_000 - k), 2.0))

        every = np.arange(1, 20_001, dtype=float)
        assert smallest(cost, 20_000)[0] == pytest.approx(np.min(cost(every)), rel=1e-12)


def dynamic_programme(modulus, shift, distance, longest):
    """Least cost of absorbing ``distance`` in k steps, distances on a grid; an upper bound."""
    z = np.unique(np.concatenate([[0], np.geomspace(1e-9, 1, 300), np.linspace(0, 1, 300)]))
    grown = modulus(z * distance)
    value, costs = (shift + grown) ** 2, []
    for _ in range(longest):
        costs.append(value[-1])
        a = grown[:, None] - z * distance
        step = np.where(a >= 0, (shift + np.maximum(a, 0)) ** 2, np.inf)
        value = np.min(step + value, axis=1)
    return np.array(costs)


@pytest.mark.parametrize("order", [0.05, 0.2, 1 / 3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("constant", [0.02, 0.1, 0.5])
def test_holder_shifts_are_as_cheap_as_dynamic_programming(order, constant):
    modulus = HolderModulus(constant, order)
    grid = dynamic_programme(modulus, 0.08, 1.0, 14)
    costs = HolderShifts(Meetings(50), 0.08, modulus).costs(np.ones(14))
    assert np.min(costs) <= np.min(grid) * (1 + 1e-6)
    assert np.min(costs) >= np.min(grid) * 0.999


@pytest.mark.parametrize("order", [1e-3, 0.05, 1 / 3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("constant", [1e-8, 0.1, 50.0])
def test_holder_modulus_and_its_inverse(order, constant):
    modulus = HolderModulus(constant, order)
    z = np.concatenate([[0.0], np.geomspace(1e-9, 1e9, 37)])
    back = modulus(modulus.inverse(z))
    assert np.all(back <= z * (1 + 1e-12))
    if order >= 0.05:
        assert back == pytest.approx(z, rel=1e-12)

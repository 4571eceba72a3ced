"""The best allocation of shifts, against a general solver and closed forms."""

import numpy as np
import pytest
from scipy.optimize import minimize

from audit.bounds.iteration import allocation_cost, best_cost, constant_cost


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


@pytest.mark.parametrize("contraction", [1.0, 0.999, 0.7, 1e-3, 0.0])
@pytest.mark.parametrize("distance", [0.01, 1.0, 30.0])
def test_equal_steps_have_a_closed_form(contraction, distance):
    for steps in (1, 2, 17, 300):
        closed = constant_cost(0.2, 0.7, steps, distance=distance, contraction=contraction)
        shifts, stds = np.full(steps, 0.2), np.full(steps, 0.7)
        searched = best_cost(shifts, stds, distance=distance, contraction=contraction)
        assert closed == pytest.approx(searched, rel=1e-9)


def test_choice_by_hand():
    shifts, stds = [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]
    assert best_cost(shifts, stds) == pytest.approx(0.25)
    assert allocation_cost([0.25] * 4, shifts, stds) == pytest.approx(0.25)
    assert allocation_cost([1.0, 0.0, 0.0, 0.0], shifts, stds) == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"allocations must leave z_t >= 0, got z_1 = -0.5"):
        allocation_cost([1.5, 0.0, 0.0, -0.5], shifts, stds)
    with pytest.raises(ValueError, match=r"allocations must end at z_T = 0, got 0.5"):
        allocation_cost([0.5, 0.0, 0.0, 0.0], shifts, stds)
    with pytest.raises(ValueError, match=r"one a step \(4 shifts, 4 noises\), got 1"):
        allocation_cost([1.0], shifts, stds)
    # what is allocated later costs less noise-free distance, never less than the best
    late = [0.0, 0.0, 0.0, 1.0]
    assert allocation_cost(late, shifts, stds) >= best_cost(shifts, stds)


def test_a_shift_before_it_happens_cannot_be_spread():
    # two shifts, the second at the last step: z_t >= 0 binds, and it is paid in full
    assert best_cost([0.0, 0.0, 1.0], [1.0] * 3) == pytest.approx(1.0)
    assert best_cost([1.0, 0.0, 1.0], [1.0] * 3) == pytest.approx(1.5)

import numpy as np
import pytest
from scipy.optimize import minimize

from audit.bounds.accounting import HolderModulus, LipschitzShifts, Meetings
from audit.bounds.accounting.shift_allocation import HolderShifts, smallest


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

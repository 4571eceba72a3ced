"""Brackets of many queries at once equal those of single queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, NoisySGD, constructions
from audit.curves import Order
from audit.exact import LawCurve, curve

MECHANISM = NoisySGD(
    steps=60, dataset_size=20, batch_size=2, step_size=0.1, noise_std=0.4, lipschitz=1.0,
    smoothness=1.0, diameter=1.0, batching=Batching.CYCLIC,
)  # fmt: skip
RNG = np.random.default_rng(3)
PLACES = {
    "epsilon": np.concatenate([[0.0, 0.999], 10.0 ** RNG.uniform(-12, -0.1, 10)]),
    "renyi": 1 + 10.0 ** RNG.uniform(-2, 2, 12),
    "power": np.concatenate([[0.999], 10.0 ** RNG.uniform(-6, -0.1, 11)]),
}


@pytest.fixture(scope="module", params=["walls", "line"])
def exact(request: pytest.FixtureRequest) -> LawCurve:
    """Laws with atoms, and laws on a line, of which some mass is lost."""
    m = MECHANISM
    if request.param == "line":
        m = replace(m, diameter=None, batching=Batching.WITHOUT_REPLACEMENT, steps=6)
    found = curve(constructions.DriftedWalk(m, drift=0.02))
    assert isinstance(found, LawCurve)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("name", PLACES)
def test_each_is_the_one_asked_for_alone(exact: LawCurve, name: str, order: Order) -> None:
    ask = getattr(exact, f"{name}_bracket")
    lows, highs = ask(PLACES[name], order)
    alone = [ask(float(at), order) for at in PLACES[name]]
    np.testing.assert_allclose(np.array([lows, highs]).T, alone, rtol=1e-11, atol=1e-13)
    assert np.all(lows <= highs)
    assert np.all(highs[np.isfinite(highs)] - lows[np.isfinite(highs)] < 1e-6)


def test_the_tradeoff_function_between_the_errors_at_an_atom() -> None:
    """A line there: an error of the threshold would be one of the first order."""
    exact = curve(constructions.TwoSidedWalk(replace(MECHANISM, noise_std=0.2)))
    assert isinstance(exact, LawCurve)
    atom_p, atom_q = exact.first.atoms[0], exact.second.atoms[0]
    assert min(atom_p, atom_q) < 0.1 * max(atom_p, atom_q)  # there the ratio is largest
    alphas = np.linspace(0.05, 0.95, 7) * min(atom_p, atom_q)
    order = Order.FORWARD if atom_p < atom_q else Order.REVERSE
    lows, highs = exact.power_bracket(alphas, order)
    powers = alphas * max(atom_p, atom_q) / min(atom_p, atom_q)
    np.testing.assert_allclose([lows, highs], [powers, powers], rtol=0, atol=1e-10)
    assert np.all(lows <= powers)
    assert np.all(powers <= highs)

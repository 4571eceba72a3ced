"""Ratios on cells: their enclosures, bumps that are far apart, and places that decide."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, Order, constructions
from audit.constructions import DriftedWalk, TwoSidedWalk
from audit.constructions.explicit import Densities, Finite, Mixture, Mixtures
from audit.exact import LawCurve, curve
from tests.mechanisms import noisy_sgd

FORWARD, REVERSE = Order
STANDARD = Mixture((1.0,), (0.0,), (1.0,))


@pytest.mark.parametrize(
    ("pair", "forward", "reverse"),
    [
        (Finite((0.75, 0.25), (0.25, 0.75)), math.log(3), math.log(3)),
        (Finite((0.5, 0.5), (0.2, 0.8), times=7), 7 * math.log(2.5), 7 * math.log(1.6)),
        (Finite((0.5, 0.5), (1.0, 0.0)), math.inf, math.log(2)),
        (Densities(0.5, -1.0, 1.0), 1.0, 1.0),
        (Mixtures(Mixture((0.9, 0.1), (0, 1), (1, 1)), STANDARD), math.inf, -math.log(0.9)),
        (Mixtures(STANDARD, Mixture((1.0,), (0.0,), (2.0,))), math.log(2), math.inf),
    ],
)
def test_closed_forms(pair, forward: float, reverse: float) -> None:
    found = curve(pair)
    for order, true in ((FORWARD, forward), (REVERSE, reverse)):
        low, high = found.epsilon_bracket(0.0, order)
        assert low <= true <= high
        assert low == high or high - low <= 1e-8 * max(1.0, low)
        assert found.epsilon(0.0, order) == pytest.approx(true)
    assert found.epsilon(0.0) == pytest.approx(max(forward, reverse))


@pytest.mark.parametrize(
    "batching", [Batching.FULL, Batching.POISSON, Batching.WITHOUT_REPLACEMENT]
)
def test_of_a_walk_is_the_limit_of_small_delta(batching: Batching) -> None:
    m = noisy_sgd(steps=8, dataset_size=8, batch_size=8 if batching is Batching.FULL else 2,
                  step_size=0.1, diameter=0.5, batching=batching)  # fmt: skip
    for pair in (TwoSidedWalk(m), DriftedWalk(m, drift=0.02, start=-0.25)):
        found = curve(pair)
        low, high = found.epsilon_bracket(0.0)
        assert high - low < 1e-8
        assert found.epsilon_bracket(1e-12)[0] <= high
        assert low == pytest.approx(found.epsilon(1e-40), rel=1e-9)


def test_of_a_line_is_infinite_or_grows_with_what_is_followed() -> None:
    m = noisy_sgd(steps=5, dataset_size=4, step_size=0.1, diameter=None)
    assert curve(TwoSidedWalk(m)).epsilon_bracket(0.0) == (math.inf, math.inf)
    found = curve(TwoSidedWalk(replace(m, batch_size=1, batching=Batching.POISSON)))
    low, high = found.epsilon_bracket(0.0)
    assert low > found.epsilon_bracket(1e-12)[1]
    assert high == math.inf


CYCLIC = {"dataset_size": 20, "batch_size": 2, "batching": Batching.CYCLIC}
MECHANISM = noisy_sgd(steps=60, step_size=0.1, noise_std=0.4, **CYCLIC)
RNG = np.random.default_rng(3)
PLACES = {
    "epsilon": np.concatenate([[0.0, 0.999], 10.0 ** RNG.uniform(-12, -0.1, 10)]),
    "renyi": 1 + 10.0 ** RNG.uniform(-2, 2, 4),
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


def test_a_thousand_at_once_are_as_narrow_as_one() -> None:
    """Relative widths were 2e-5 where too few cuts were left for each."""
    first = Mixture((0.3, 0.7), (0.0, 2.0), (1.0, 0.5))
    law = curve(Mixtures(first, Mixture((1.0,), (1.0,), (0.8,))))
    lows, highs = law.epsilon_bracket(np.geomspace(1e-9, 0.3, 1000), FORWARD)
    assert np.max((highs - lows) / np.maximum(lows, 1e-3)) < 1e-9


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

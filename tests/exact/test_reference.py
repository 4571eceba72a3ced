"""Laws and curves against the uniform-grid twin."""

from __future__ import annotations

import numpy as np
import pytest

from audit import Order
from audit.constructions import Affine, Construction, Mapped, PowerUpdate
from audit.exact import LawCurve, curve, law
from tests import reference
from tests.exact.cases import CASES, mapped_pair, noisy, process
from tests.slow import slow

FORWARD, REVERSE = Order.FORWARD, Order.REVERSE
# The twin keeps or drops whole cells: it errs by (h r)^2 / 8 relatively in delta where the
# log-likelihood ratio has slope r, some 1 to 3 a deviation in these cases, with h = std/40.
TOLERANCE = 2e-4


def compare(pair: Construction, tolerance: float = TOLERANCE) -> None:
    exact = curve(pair)
    assert isinstance(exact, LawCurve)
    twins = [reference.grid_law(process) for process in pair.processes()]
    for own, twin in zip((exact.first, exact.second), twins, strict=True):
        np.testing.assert_allclose(own.atoms, twin.atoms, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(own.density(twin.points), twin.density, rtol=1e-5, atol=1e-9)
        assert own.probability() == pytest.approx(1, abs=1e-13)
    for order, (p, q) in ((FORWARD, twins), (REVERSE, twins[::-1])):
        for delta in (0.1, 1e-3, 1e-6):
            value = exact.epsilon(delta, order)
            assert value == pytest.approx(reference.epsilon(p, q, delta), abs=tolerance)
            low, high = exact.epsilon_bracket(delta, order)
            assert low <= value <= high <= low + 1e-8
        for epsilon in (-0.5, 0.0, 0.7):
            twin = reference.delta(p, q, epsilon)
            assert exact.delta(epsilon, order) == pytest.approx(twin, abs=tolerance)
            low, high = exact.delta_bracket(epsilon, order)
            assert low <= exact.delta(epsilon, order) <= high <= low + 1e-8
        for alpha in (0.01, 0.3, 0.9):
            twin = reference.beta(p, q, alpha)
            assert exact.beta(alpha, order) == pytest.approx(twin, abs=2e-3)
        for alpha in (1.5, 4.0):
            twin = reference.renyi(p, q, alpha)
            assert exact.renyi(alpha, order) == pytest.approx(twin, rel=1e-5, abs=1e-8)
            low, high = exact.renyi_bracket(alpha, order)
            assert low <= exact.renyi(alpha, order) <= high <= low + 1e-8


# one of two neighbours, which are alike
@pytest.mark.parametrize("name", [n if k % 2 else slow(n) for k, n in enumerate(CASES)])
def test_every_case_agrees_with_the_twin(name: str) -> None:
    compare(CASES[name]())


def test_a_map_with_an_infinite_slope() -> None:
    """x - |x|^(1/3) sign(x)/2, of CL25: Hoelder of order 1/3, no derivative at 0."""

    def make(push: float) -> Mapped:
        return Mapped(PowerUpdate(0.5, 1 / 3, shift=push), (0.0,))

    pair = mapped_pair(make, lower=-2.0, upper=2.0)
    exact = curve(pair)
    twins = [reference.grid_law(process, per_std=200) for process in pair.processes()]
    low, high = exact.epsilon_bracket(1e-3)
    assert exact.epsilon(1e-3, FORWARD) == pytest.approx(reference.epsilon(*twins, 1e-3), abs=3e-4)
    assert low <= exact.epsilon(1e-3) <= high <= low + 1e-5


@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_one_sided_domain(shift: float) -> None:
    """A wall below only, against the twin on a domain that ends out of reach."""
    step = noisy(Affine(shift), Affine(-0.5), weights=(0.7, 0.3))
    own = law(process(step, times=12, lower=-1.0))
    twin = reference.grid_law(process(step, times=12, lower=-1.0, upper=40.0))
    assert own.atoms[0] == pytest.approx(twin.atoms[0], rel=1e-8)
    assert own.atoms[1] == 0
    np.testing.assert_allclose(own.density(twin.points), twin.density, rtol=1e-5, atol=1e-11)
    assert own.lost_mass < 1e-100


@pytest.mark.parametrize("value", [0.2, 3.0])
def test_the_twin_itself_is_right(value: float) -> None:
    """A test of the test: the grid's epsilon and delta on two normal laws."""
    p, q = (
        reference.grid_law(process(noisy(Affine(s)), lower=-12.0, upper=12.0))
        for s in (value / 2, -value / 2)
    )
    for delta in (1e-2, 1e-5):
        epsilon = reference.epsilon(p, q, delta)
        assert float(reference.gaussian_delta(epsilon, value)) == pytest.approx(delta, rel=1e-3)
    assert reference.delta(p, q, 0.1) == pytest.approx(
        float(reference.gaussian_delta(0.1, value)), rel=1e-3
    )


def test_the_twin_sees_a_wrong_position() -> None:
    """A test of the test: an error in the cyclic order would not pass."""
    first, second = CASES["cyclic, first batch"](), CASES["cyclic, second batch"]()
    twins = [reference.grid_law(process) for process in first.processes()]
    other = curve(second).epsilon(1e-3, FORWARD)
    assert abs(reference.epsilon(*twins, 1e-3) - other) > 100 * TOLERANCE

"""``assert_bound_holds``: a bound tested by one function call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from audit import NoisySGD, bounds
from audit.claims import Budget, Verdict
from audit.curves import GaussianCurve
from audit.testing import assert_bound_holds

from .written import EPSILON, full
from .written import STEP as ONE_STEP

DELTAS = (1e-5,)


def claimed(mechanism: NoisySGD, delta: float) -> float:
    return 4.3


def test_a_true_number_holds() -> None:
    asked = {"trials": 2000, "seconds": 30.0, "seed": 7}
    judgement = assert_bound_holds(4.4, ONE_STEP, deltas=DELTAS, **asked)
    assert judgement.claim.budget == Budget(**asked)
    assert judgement.verdict is Verdict.CONSISTENT
    assert judgement.certified == pytest.approx(EPSILON, abs=1e-6)
    assert judgement.tightness == pytest.approx(4.4 / EPSILON, abs=1e-5)


@pytest.mark.parametrize(
    ("bound", "name"),
    [(4.3, "epsilon 4.3"), (claimed, "claimed"), (GaussianCurve(0.98), "GaussianCurve")],
)
def test_a_false_one_raises_one_line(bound: Any, name: str) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_bound_holds(bound, ONE_STEP, deltas=DELTAS)
    line = str(raised.value)
    assert line.startswith(f"claim {name!r} refuted: certified epsilon 4.37 > claimed 4.")
    assert line.endswith(" at delta 1e-5")


def test_places_may_be_an_iterator_or_an_array() -> None:
    for deltas in (iter([1e-5, 1e-3]), np.array([1e-5, 1e-3])):
        found = assert_bound_holds(GaussianCurve(1.0), ONE_STEP, deltas=deltas)
        assert [number.quantity.at for number in found.numbers] == [1e-5, 1e-3]


def test_the_exact_curve_is_not_refuted_by_rounding() -> None:
    """The bound and the exact law of the pair are the same number, computed in two ways."""
    curve = GaussianCurve(1.0)
    deltas = (1e-12, 1e-9, 1e-5, 1e-3, 0.1)
    judgement = assert_bound_holds(curve, ONE_STEP, deltas=deltas, loose_by=1.0001)
    assert judgement.tightness == pytest.approx(1, abs=1e-5)
    assert_bound_holds(curve, ONE_STEP, orders=(1.5, 4.0, 32.0), loose_by=1.0001)


def test_too_loose() -> None:
    with pytest.raises(
        AssertionError, match=r"'mine' consistent but loose by 1\.370, expected at most"
    ):
        assert_bound_holds(6.0, ONE_STEP, deltas=DELTAS, loose_by=1.2, name="mine")


def test_a_bound_of_the_catalogue() -> None:
    m = full(steps=2, dataset_size=1, batch_size=1, step_size=1.0, noise_std=2.0,
             smoothness=0.5, strong_convexity=0.5)  # fmt: skip
    judgement = assert_bound_holds(
        "bsa24.theorem_4_2", m, deltas=DELTAS, orders=(4.0,), loose_by=1.001
    )
    curve = bounds.evaluate("bsa24.theorem_4_2", m)
    assert judgement.claimed in (
        pytest.approx(curve.epsilon(1e-5)),
        pytest.approx(curve.renyi(4.0)),
    )


def test_a_function_of_the_order_claims_a_renyi_divergence() -> None:
    """One step is a Gaussian mechanism, whose divergence alpha mu^2/2 a pair reaches."""

    def halved(mechanism: NoisySGD, alpha: float) -> float:
        return exact(mechanism, alpha) / 2

    def exact(mechanism: NoisySGD, alpha: float) -> float:
        return alpha / (2 * mechanism.noise_multiplier**2)

    judgement = assert_bound_holds(exact, ONE_STEP, orders=(2.0, 8.0), loose_by=1.001)
    assert "consistent" in str(judgement)
    with pytest.raises(AssertionError, match="'halved' refuted: certified Renyi divergence"):
        assert_bound_holds(halved, ONE_STEP, orders=(2.0, 8.0))


def test_what_says_nothing_does_not_pass() -> None:
    for bound, why in (
        ("bsa24.theorem_4_2", r"bsa24\.theorem_4_2"),
        (lambda m, delta: math.inf, "nothing is claimed"),
    ):
        with pytest.raises(AssertionError, match=f"not applicable, expected consistent: {why}"):
            assert_bound_holds(bound, ONE_STEP, deltas=DELTAS)


@pytest.mark.parametrize(
    ("bound", "options", "message"),
    [
        (1.0, {"deltas": ()}, "deltas or orders must be given, got neither"),
        (1.0, {"deltas": (2.0,)}, r"delta must be in \[0, 1\)"),
        (1.0, {"deltas": (), "orders": (4.0,)}, "orders must be left out if bound is a number"),
        (claimed, {"orders": (4.0,)}, "deltas or orders must be given for a function, got both"),
        (
            lambda m, at: -1.0,
            {"deltas": (), "orders": (4.0,)},
            r"bound must be at least 0 at order",
        ),
        (1.0, {"deltas": 1e-5}, "deltas must be a sequence of numbers, got 1e-05"),
        (1.0, {"options": {"tau": 1}}, "options must be left out unless bound is an id"),
        (math.nan, {}, "bound must be at least 0"),
        (lambda m, at: "x", {}, "bound must return a number at delta 1e-05, got 'x'"),
        ("at22.b_99", {}, "at22.b_99"),
        (1.0, {"mechanism": 3}, "mechanism must be a NoisySGD"),
        (1.0, {"error": 0}, "error must be in"),
    ],
)
def test_bad_arguments(bound: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assert_bound_holds(bound, **{"mechanism": ONE_STEP, "deltas": DELTAS, **options})


def test_what_a_function_raises_goes_through() -> None:
    def broken(mechanism: NoisySGD, delta: float) -> float:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        assert_bound_holds(broken, ONE_STEP, deltas=DELTAS)

"""Exact values known from independent computations, and brackets that contain them."""

from __future__ import annotations

import dataclasses
import math

import pytest

from audit import Batching, Order
from audit.constructions import BiasedWalk, Construction, DriftedWalk, TwoSidedWalk
from audit.curves import GaussianCurve
from audit.exact import LawCurve, curve
from tests.mechanisms import noisy_sgd

FORWARD, REVERSE = Order.FORWARD, Order.REVERSE


# step_std .05, pushes +-.00375
TWO_SIDED = TwoSidedWalk(
    noisy_sgd(steps=1000, dataset_size=20, step_size=0.1, noise_std=0.5, lipschitz=0.75)
)
# step_std .05, drifts -.015 +- .00125
DRIFTED = DriftedWalk(
    noisy_sgd(steps=100, dataset_size=20, noise_std=0.05, lipschitz=0.025), drift=-0.015
)
WITHOUT_REPLACEMENT = {"batching": Batching.WITHOUT_REPLACEMENT}
# step_std .02, a jump of .05 with probability .2 against none
BIASED = BiasedWalk(
    noisy_sgd(steps=150, dataset_size=5, step_size=0.05, noise_std=0.4, **WITHOUT_REPLACEMENT)
)


@pytest.mark.parametrize(
    ("pair", "delta", "order", "value"),
    [
        (TWO_SIDED, 1e-5, None, 3.08728040761),
        (DRIFTED, 1e-5, None, 1.84237952662),
        (BIASED, 1e-3, FORWARD, 17.0911011604),
        (BIASED, 1e-3, REVERSE, 4.30194685093),
    ],
)
def test_known_values(pair: Construction, delta: float, order: Order | None, value: float) -> None:
    exact = curve(pair)
    low, high = exact.epsilon_bracket(delta, order)
    assert high - low < 1e-8
    # the values are known to their last digit
    assert low - 1e-10 <= value <= high + 1e-10
    assert exact.epsilon(delta, order) == pytest.approx(value, rel=1e-11)


def test_the_drifted_walk_beats_the_two_sided_one_and_not_composition() -> None:
    assert curve(DRIFTED).epsilon(1e-5) < GaussianCurve(0.0025 * 10 / 0.05).epsilon(1e-5)


def test_pairs_printed_in_the_catalogue() -> None:
    """n=20, b=2, step_std=.02, eta L=.05, T=150: 16.55 drifted where the paper's pair has 4.03."""
    m = dataclasses.replace(BIASED.mechanism, dataset_size=20, batch_size=2)
    assert curve(DriftedWalk(m, drift=-0.01, start=0.5)).epsilon(1e-5) > 16.55
    assert curve(BiasedWalk(m)).epsilon(1e-5) == pytest.approx(4.03, abs=0.005)


@pytest.fixture(scope="module")
def paper() -> LawCurve:
    """Altschuler and Talwar 2022, footnote 9: n=10, b=1, D = 1000 eta L, T = T-bar = 7500."""
    noise_std = math.sqrt(0.001 / 7500) / 0.001
    m = noisy_sgd(
        steps=7500, dataset_size=10, step_size=0.001, noise_std=noise_std, **WITHOUT_REPLACEMENT
    )
    return curve(BiasedWalk(m), threads=2)


@pytest.mark.slow
def test_paper_values(paper: LawCurve) -> None:
    for delta, order, value in (
        (0.01, FORWARD, 210.16410861),
        (0.01, REVERSE, 128.70383492),
        (1e-5, FORWARD, 237.80228292),
        (1e-5, REVERSE, 128.74498012),
    ):
        low, high = paper.epsilon_bracket(delta, order)
        assert high - low < 1e-6
        assert low - 1e-8 <= value <= high + 1e-8
        assert paper.delta(paper.epsilon(delta, order), order) == pytest.approx(delta, rel=1e-10)


@pytest.mark.slow
def test_paper_renyi(paper: LawCurve) -> None:
    for order, value in ((FORWARD, 380.418), (REVERSE, 128.731)):
        low, high = paper.renyi_bracket(100.0, order)
        assert high - low < 1e-6
        assert round(low, 3) == round(high, 3) == value


@pytest.mark.slow
def test_paper_events(paper: LawCurve) -> None:
    assert paper.first.probability(0.0, 0.5) == pytest.approx(0.5, rel=1e-11)
    assert paper.second.log_probability(-0.5, 0.0) == pytest.approx(-180.1, abs=0.05)
    # each of 7,500 steps rounds by some units of the last place
    assert paper.first.probability() == pytest.approx(1, abs=1e-11)
    assert max(abs(a) for a in paper.first.log_atoms) < 740  # beyond what a naive sum holds

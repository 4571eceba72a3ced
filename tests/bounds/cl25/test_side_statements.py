"""Chien and Li (2025): fresh shuffles in every epoch, and the limit of vanishing Hölder order."""

import dataclasses
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from audit import Batching, bounds, exact
from audit.bounds.cl25.cyclic_batches import (
    corollary_a_3_reshuffled,
    sequences,
)
from audit.constructions import QuadraticPair
from tests.bounds.cl25.lemmas import theorem_a_1_sequence
from tests.bounds.cl25.settings import figure_1

reshuffled = partial(figure_1, dataset_size=6, batch_size=2, steps=9, batching=Batching.RESHUFFLED)


def once(m):
    """The mechanism with one shuffle for all epochs."""
    return dataclasses.replace(m, batching=Batching.SHUFFLED)


@pytest.mark.parametrize("strong_convexity", [0.0, 1.0])
@pytest.mark.parametrize("steps", [1, 7, 9, 24, 60])
def test_the_same_place_in_every_epoch_is_theorem_a_1(steps, strong_convexity):
    """Two codes for one minimum: closed sums over a cycle, and a list of steps."""
    m = reshuffled(steps=steps, strong_convexity=strong_convexity)
    for place in range(3):
        cycle = bounds.evaluate("cl25.theorem_a_1", once(m), position=place).renyi(2.0)
        listed = theorem_a_1_sequence(m, [place] * -(-steps // 3)).renyi(2.0)
        if strong_convexity == 0:
            assert listed == pytest.approx(cycle, rel=1e-12)
        else:  # the list caps the tracked distance at D in every step
            assert 0.9 * cycle <= listed <= cycle * (1 + 1e-12)


def test_without_convexity_the_list_is_no_better():
    m = reshuffled(convex=False, steps=30)
    for place in range(3):
        cycle = bounds.evaluate("cl25.theorem_a_1", once(m), position=place).renyi(2.0)
        listed = theorem_a_1_sequence(m, [place] * 10).renyi(2.0)
        assert cycle * (1 - 1e-12) <= listed <= 1.2 * cycle


def test_the_least_sum_of_squares_is_a_solvers():
    """The water level against a general optimiser, from every start of one uneven sequence."""
    m = reshuffled(strong_convexity=1.0, steps=9, diameter=0.25)
    c, met = 0.9, np.zeros(9)
    met[[2, 4, 6]] = 2 * 0.1 * 2.0 / 2
    distance, found = 0.0, []
    for start in range(9):
        least, weights = met[start:], c ** -np.arange(1.0, 10 - start)

        def room(b, least=least, weights=weights, distance=distance):
            return (b - least) @ weights - distance

        found.append(
            minimize(
                lambda b: b @ b,
                least + 0.2,
                bounds=[(s, None) for s in least],
                constraints={"type": "ineq", "fun": room},
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 500},
            ).fun
        )
        distance = min(c * distance + met[start], 0.25)
    assert np.argmin(found) == 7  # not composition, which is the first one
    ours = theorem_a_1_sequence(m, [2, 1, 0]).renyi(2.0)
    assert ours == pytest.approx(min(found), rel=1e-6)  # what the optimiser converges to


@pytest.mark.parametrize("curvature", [0.0, 2.0])
@pytest.mark.parametrize("noise_std", [0.8, 3.0])
def test_fresh_shuffles_are_bounded_on_the_exact_mixture(curvature, noise_std):
    """27 sequences of 3 epochs: the exact law of the mixture stays below the average."""
    m = reshuffled(
        noise_std=noise_std,
        lipschitz=None,
        clip_norm=None,
        gradient_sensitivity=4.0,
        strong_convexity=curvature,
        smoothness=max(curvature, 1.0),
    )
    law = exact.curve(QuadraticPair(m, curvature))
    mean = corollary_a_3_reshuffled(m)
    worst = max(
        (theorem_a_1_sequence(m, places) for places in sequences(3, 3)),
        key=lambda curve: curve.renyi(2.0),
    )
    for alpha in (1.3, 2.0, 8.0):
        low, _ = law.renyi_bracket(alpha)
        assert low <= mean.renyi(alpha) <= worst.renyi(alpha) * (1 + 1e-12)
        assert low > 0.02 * mean.renyi(alpha)  # else nothing is tested


def test_half_the_noise_would_be_caught():
    """A planted error: the average computed for twice the noise lies below the exact law."""
    m = reshuffled(
        noise_std=3.0,
        lipschitz=None,
        gradient_sensitivity=4.0,
        strong_convexity=2.0,
        smoothness=2.0,
        steps=3,
    )
    law = exact.curve(QuadraticPair(m, 2.0))
    wrong = reshuffled(
        noise_std=6.0,
        lipschitz=None,
        gradient_sensitivity=4.0,
        strong_convexity=2.0,
        smoothness=2.0,
        steps=3,
    )
    assert law.renyi_bracket(2.0)[0] > corollary_a_3_reshuffled(wrong).renyi(2.0)


def test_late_places_are_the_worst_and_refusals():
    m = reshuffled(steps=12, diameter=0.05)
    values = {places: theorem_a_1_sequence(m, places).renyi(2.0) for places in sequences(3, 4)}
    assert max(values, key=lambda places: values[places])[-1] == 2
    default = bounds.evaluate("cl25.theorem_a_1", once(m)).renyi(2.0)
    # for whole epochs of convex losses Theorem A.1's default serves every sequence
    assert max(values.values()) <= default * (1 + 1e-12)
    with pytest.raises(bounds.NotApplicable, match=r"needs at most 4096 sequences .*=3\^20"):
        bounds.evaluate("cl25.corollary_a_3_reshuffled", reshuffled(steps=60))


def test_one_shuffle_is_refused():
    with pytest.raises(bounds.NotApplicable, match="got batching='shuffled'"):
        bounds.evaluate("cl25.corollary_a_3_reshuffled", once(reshuffled()))

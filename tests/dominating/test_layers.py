"""Layers of compositions: heavy tails on grids of their own, and what has a closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from audit.curves import Order
from audit.dominating.grid_composition import GridComposition
from audit.dominating.mixture import MixturePair
from audit.dominating.poisson import poisson_curve
from audit.dominating.runs import MixtureRun, _sides
from audit.mechanism import Relation

HEAVY = MixturePair(1e-3, 0.8, 1.0, two_sided=False)


@pytest.mark.parametrize("order", Order)
def test_layers_and_one_grid_agree(order):
    """Runs with a loss above .16 have a grid eight times as wide, and above 1.3 another one."""
    run, interval = MixtureRun(HEAVY, 50), 1e-5
    whole = _sides([run], 50, interval, [])
    layered = _sides([run], 50, interval, [1 << 14, 1 << 17])
    for one, other in zip(whole, layered, strict=True):
        if order is Order.REVERSE:
            one, other = one.swapped, other.swapped
        assert other.epsilon(1e-6) == pytest.approx(one.epsilon(1e-6), rel=2e-5)
    low, high = (side if order is Order.FORWARD else side.swapped for side in layered)
    assert low.epsilon(1e-6) <= high.epsilon(1e-6)


def test_layers_that_leave_outcomes_out_are_refused():
    """A planted error: the second layer begins where the first one did not end."""
    lower = [HEAVY.grid_pairs(1e-4, 5, 0, 4096)[0]]
    base, part = HEAVY.grid_pairs(8e-4, 5, 0, 480)[0], HEAVY.grid_pairs(8e-4, 5, 480)[0]
    with pytest.raises(ValueError, match="layers must begin with the outcomes of those before"):
        GridComposition([(lower[0], 5)], [[(base, part, 5)]])


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [(0.6, 1e-6, 2500, 5e-8), (0.5, 1e-4, 10_000, 1e-5)],
)
def test_rare_large_losses(noise, rate, steps, delta):
    curve = poisson_curve(noise, rate, steps, Relation.ADD_REMOVE, accuracy=3e-5)
    low, high = curve.epsilon_bracket(delta)
    assert 0 < low <= high < low * (1 + 1e-4)


@pytest.mark.parametrize(("rate", "noise"), [(1e-8, 1.0), (0.1, 0.7), (0.3, 5.0)])
def test_one_step(rate, noise):
    """Delta at the epsilon of a delta is that delta, by the laws of half-lines."""
    curve = poisson_curve(noise, rate, 1, Relation.ADD_REMOVE, accuracy=1e-6)
    pair = MixturePair(rate, noise, 1.0, two_sided=False)
    for order, delta in ((Order.FORWARD, 1e-12), (Order.FORWARD, 1e-9), (Order.REVERSE, 1e-10)):
        low, high = curve.epsilon_bracket(delta, order)
        assert 0 < low <= high <= low * (1 + 1e-8)
        sign = 1.0 if order is Order.FORWARD else -1.0
        edge = float(pair.place(np.array(sign * low)))
        zero, moved = (norm.cdf(sign * (mean - edge) / noise) for mean in (0.0, 1.0))
        laws = (1 - rate) * zero + rate * moved, zero
        first, second = laws if order is Order.FORWARD else laws[::-1]
        assert first - math.exp(low) * second == pytest.approx(delta, rel=1e-4, abs=3e-16)


def test_epsilon_at_delta_zero():
    """Without the record nothing is surer than that no batch held it."""
    curve = poisson_curve(1.0, 0.1, 20, Relation.ADD_REMOVE, accuracy=1e-4)
    low, high = curve.epsilon_bracket(0.0, Order.REVERSE)
    assert low <= -20 * math.log(0.9) <= high < low * (1 + 1e-9)
    assert curve.epsilon(0.0, Order.REVERSE) == high
    assert curve.epsilon_bracket(0.0) == (math.inf, math.inf)
    full = poisson_curve(1.0, 1.0, 20, Relation.ADD_REMOVE, accuracy=1e-4)
    assert full.epsilon_bracket(0.0) == (math.inf, math.inf)

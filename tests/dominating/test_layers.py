"""Layers of compositions: heavy tails on separate grids, and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import fft

from audit.curves import Order
from audit.dominating import dominating_curve
from audit.dominating.curve import GridComposition
from audit.dominating.layer import Layer, Sets, _Cells, _Measure, _Powers, _Tilted, _Transform
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.poisson import poisson_curve
from audit.dominating.runs import MixtureRun, _sides
from audit.mechanism import Relation
from audit.numerics.discounted import discounted_sums
from tests.dominating.random_brackets import random_setting
from tests.slow import slow

TAIL = log_tails(50)
HEAVY = MixturePair(1e-3, 0.8, 1.0, two_sided=False)


def test_layers_and_one_grid_agree():
    """Runs with a loss above .16 have a grid eight times as wide, and above 1.3 another one."""
    run, interval = MixtureRun(HEAVY, 50), 4e-5
    whole = _sides([run], TAIL, interval, [])
    layered = _sides([run], TAIL, interval, [1 << 12, 1 << 15])
    for order in Order:
        (low, high), known = (
            [(side if order is Order.FORWARD else side.swapped).epsilon(1e-6) for side in sides]
            for sides in (layered, whole)
        )
        assert (low, high) == pytest.approx(known, rel=2e-4)
        assert low <= high


def test_layers_that_leave_outcomes_out_are_refused():
    """A planted error: the second layer begins where the first one did not end."""
    lower = [HEAVY.grid_pairs(1e-4, TAIL, 0, 4096)[0]]
    base, part = HEAVY.grid_pairs(8e-4, TAIL, 0, 480)[0], HEAVY.grid_pairs(8e-4, TAIL, 480)[0]
    with pytest.raises(ValueError, match="layers must begin with the outcomes of earlier"):
        GridComposition([(lower[0], 5)], [[(base, part, 5)]])


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta", "accuracy"),
    [
        slow(0.6, 1e-6, 2500, 5e-8, 1e-4),
        (0.5, 1e-4, 1000, 1e-6, 1e-4),
        # beside the rounding of most of the mass, these deltas are small
        slow(0.8, 6.5e-6, 3, 7e-11, 1e-6),
        (0.85, 3e-5, 9, 1.5e-7, 1e-6),
    ],
)
def test_rare_large_losses(noise, rate, steps, delta, accuracy):
    curve = poisson_curve(noise, rate, steps, Relation.ADD_REMOVE, accuracy=accuracy)
    low, high = curve.epsilon_bracket(delta, Order.FORWARD)
    assert 0 < low <= high < low * (1 + 2 * accuracy)
    assert curve.delta_bracket(low, Order.FORWARD)[1] >= delta
    assert curve.delta_bracket(high, Order.FORWARD)[0] <= delta


def test_epsilon_at_delta_zero():
    """Without the record nothing is surer than that no batch held it."""
    curve = poisson_curve(1.0, 0.1, 20, Relation.ADD_REMOVE, accuracy=1e-4)
    low, high = curve.epsilon_bracket(0.0, Order.REVERSE)
    assert low <= -20 * math.log(0.9) <= high < low * (1 + 1e-9)
    assert curve.epsilon(0.0, Order.REVERSE) == high
    assert curve.epsilon_bracket(0.0) == (math.inf, math.inf)
    full = poisson_curve(1.0, 1.0, 20, Relation.ADD_REMOVE, accuracy=1e-4)
    assert full.epsilon_bracket(0.0) == (math.inf, math.inf)


def brute_force(pair, times):
    """Masses under P and Q of all runs, in extended precision."""
    losses = np.arange(pair.first, pair.first + pair.p.size) * np.longdouble(pair.interval)
    p, q = pair.p.astype(np.longdouble), pair.lifted.astype(np.longdouble)
    q = q * np.exp(-losses)
    laws = []
    for law in (p, q):
        total = law
        for _ in range(times - 1):
            total = np.convolve(total, law)
        laws.append(total)
    return laws


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("rate", [0.2, 1e-5])
def test_few_runs_against_brute_force(times, rate):
    """Under tilts that serve and under none, with every rounding on the right side."""
    lower, upper = MixturePair(rate, 1.0, 1.0, two_sided=False).grid_pairs(0.01, log_tails(times))
    assert lower.p.size > 50
    for pair in (lower, upper):
        p, q = brute_force(pair, times)
        layer = Layer([(None, pair, times)])
        for epsilon in (0.3 * rate, 0.05, 1.0, 4.0):
            gains = p - np.exp(np.longdouble(epsilon)) * q
            # the best events of a lower side are half-lines too, but their ends are not on the grid
            exact = max(float(np.cumsum(gains[::-1]).max()), 0.0)
            for tilt in {layer.tilt(epsilon, -math.inf), 0}:
                found = float(layer.sets(tilt).deltas(np.array([epsilon]))[0])
                # without a tilt a transform errs by about the unit roundoff
                slack = 1e-12 if tilt == 0 else 1e-5 * exact + 1e-17
                if pair.above:
                    assert exact <= found <= exact + slack
                else:
                    assert exact - slack <= found <= exact


def test_the_rounding_of_transforms_is_bounded(monkeypatch):
    """In the Euclidean norm; transforms in single precision are a planted error.

    The bound is for the worst case: true errors are some hundred times smaller.
    """
    pair, size, times = HEAVY.grid_pairs(0.01, TAIL)[1], 8192, 3
    exact = np.zeros(size, dtype=np.longdouble)
    law, _ = brute_force(pair, times)
    exact[(np.arange(law.size) + times * pair.first) % size] = law

    def share():
        transform = _Transform(size, 0)
        transform.take([_Tilted(_Cells.of(pair), 0.0)], 0.0, times)
        found, error = transform.law()
        return np.linalg.norm((found - exact).astype(float)) / error

    assert 1e-4 < share() < 0.1
    rfft = fft.rfft
    monkeypatch.setattr(fft, "rfft", lambda values: rfft(values.astype(np.float32)).astype(complex))
    assert share() > 10


@pytest.mark.parametrize("slips", [(1e-9, 0.0), (0.0, 1e-9)])
def test_errors_of_a_base_and_of_a_part_reach_their_difference(slips):
    """Of a base on many cells and a rare part on one, whose errors weigh as much."""
    random, size, times = np.random.default_rng(2), 1024, 3
    transform = _Transform(size, 0)
    laws = np.full(size, 1 / size), np.append(1e-3, np.zeros(size - 1))
    values = random.normal(size=size)
    assert transform._norm(fft.rfft(values)) >= np.linalg.norm(values)
    exact = [fft.rfft(law) for law in laws]
    errors = [slip * np.exp(2j * np.pi * random.random(exact[0].size)) for slip in slips]
    base, part = (
        _Measure(values + error, law.sum(), slip, transform._norm(error))
        for values, error, law, slip in zip(exact, errors, laws, slips, strict=True)
    )
    powers = _Powers(exact[0].size)
    powers.take(base, part, times)
    found, error = powers.growth(transform._norm, math.inf)
    missed = transform._norm(found - ((exact[0] + exact[1]) ** times - exact[0] ** times))
    assert 1e-3 * error < missed <= error


@pytest.mark.parametrize("theta", [0.0, 0.3, 40.0])
@pytest.mark.parametrize("below", [False, True])
def test_errors_of_entries_are_paid_for(theta, below):
    """Of the worst errors of a norm, those along the weights of the entries, in either law."""
    h, epsilon, k, slip = 0.1, 0.95, 10, 1e-3
    random = np.random.default_rng(4)
    p, skew = 0.05 * random.random(60), 1e-3 * random.normal(size=60)
    falls = theta * h, (theta + 1) * h
    losses = h * np.arange(60)
    gains = np.exp(-theta * losses) * -np.expm1(epsilon - losses)
    shares = np.exp(epsilon - (theta + 1) * losses)
    gains[:k], shares[:k] = 0, 0

    def sets(p_error=0.0, skew_error=0.0):
        sums = discounted_sums(p, falls[0])
        more = math.exp(-falls[0]) * -math.expm1(-h) * discounted_sums(sums[1:], falls[1])
        skews = (discounted_sums(skew, falls[1]), np.zeros(61)) if below else None
        numbers = {"theta": theta, "first": 0, "interval": h, "log_scale": 0.0}
        numbers |= {"log_outside": -math.inf, "units": 0.0, "masses": 0.0, "drift": 0.0}
        return Sets(
            p=sums, gain=more, skews=skews, p_error=p_error, skew_error=skew_error, **numbers
        )._from(np.array([k]), np.array([epsilon]))[0]

    exact = float(p @ gains + (skew @ shares if below else 0.0))
    assert sets() == pytest.approx(exact, rel=1e-12)
    for weights, error in ((gains, {"p_error": slip}), (shares, {"skew_error": slip})):
        paid = (exact - sets(**error)) if below else sets(**error) - exact
        worst = slip * float(np.linalg.norm(weights))
        if below or weights is gains:
            assert worst <= paid <= 10 * worst


def test_cells_wider_than_any_loss_of_a_lower_side():
    """A cell of losses from 500 on stands at 1,000, where e^loss overflows."""
    pair = MixturePair(0.5, 0.02, 1.0, two_sided=False).above_zero(False, 1000.0, TAIL)
    assert np.isfinite(pair.lifted).all()


@pytest.mark.slow
def test_delta_falls_where_it_is_far_below_the_smallest_numbers_of_interest():
    """Windows of large tilts once began right of some epsilons, where delta was 1."""
    curve = poisson_curve(10.0, 1e-3, 1000, Relation.ZERO_OUT, accuracy=1e-6)
    highest = [curve.delta_bracket(epsilon, Order.FORWARD)[1] for epsilon in (0.2, 0.314, 0.669)]
    assert highest == sorted(highest, reverse=True)
    assert highest[0] < 1e-30


@pytest.mark.parametrize("delta", [2.2613967043507565e-12, slow(1e-40)])
def test_losses_next_to_the_largest_one(delta: float) -> None:
    """Sums that underflow once stood for no probability: an upper end of 0.21065 of 0.2107137."""
    setting = random_setting(9034)[1]
    low, high = bracket = dominating_curve(setting.mechanism).epsilon_bracket(delta, setting.order)
    assert replace(setting, at=delta).holds(bracket)
    assert high - low < 3e-4 * high

"""Poisson batches: brackets against closed forms, quadrature and dp-accounting."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from audit.constructions.explicit_laws import AllIterates
from audit.curves import GaussianCurve, Order
from audit.curves.brackets import BracketError
from audit.dominating import dominating_curve
from audit.dominating.curve import GridComposition
from audit.dominating.mixture import MixturePair
from audit.dominating.poisson import Truncation, others_against, poisson_curve
from audit.dominating.runs import RefinedCurve
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.exact import curve
from audit.mechanism import Batching, Relation
from tests.dominating.random_brackets import poisson
from tests.slow import slow

ONE_SIDED, TWO_SIDED = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def densities(pair: MixturePair, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    zero = norm.pdf(x, 0, pair.noise)
    p = (1 - pair.rate) * zero + pair.rate * norm.pdf(x, pair.mean, pair.noise)
    if not pair.two_sided:
        return p, zero
    return p, (1 - pair.rate) * zero + pair.rate * norm.pdf(x, -pair.mean, pair.noise)


PAIRS = [
    MixturePair(0.01, 6.0, 1.0, False),
    MixturePair(0.3, 0.7, 1.0, False),
    MixturePair(0.05, 0.4, 0.5, True),
    MixturePair(0.9, 2.0, 0.5, True),
    MixturePair(1e-4, 30.0, 0.5, True),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_losses_and_their_places(pair):
    x = np.linspace(-8 * pair.noise, 8 * pair.noise + pair.mean, 201)
    p, q = densities(pair, x)
    loss = pair.loss(x)
    np.testing.assert_allclose(loss, np.log(p / q), rtol=1e-9, atol=1e-13)
    inner = np.abs(x) < 4 * pair.noise
    steep = np.gradient(loss, x)  # where the loss is flat its place is lost in rounding
    error = 1e-13 * (1 + np.abs(loss)) / steep
    assert np.all(np.abs(pair.place(loss) - x)[inner] <= (1e-10 + error)[inner])


def test_no_outcome_lies_below_the_least_loss():
    pair = PAIRS[1]
    assert pair.place(np.array([math.log(0.69), math.log(0.71)]))[0] == -np.inf


@pytest.mark.parametrize("pair", PAIRS)
def test_masses(pair):
    edges = np.array([-np.inf, -3.0, -2.9999, 0.0, 1e-7, 0.4, 9.0, np.inf]) * pair.noise
    p, q = pair.masses(edges)
    weights = {0.0: 1 - pair.rate, pair.mean: pair.rate}
    exact = sum(w * np.diff(norm.cdf(edges, m, pair.noise)) for m, w in weights.items())
    np.testing.assert_allclose(p, exact, rtol=1e-8, atol=1e-17)
    assert math.isclose(p.sum(), 1, abs_tol=1e-13)
    assert math.isclose(q.sum(), 1, abs_tol=1e-13)


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("relation", [ONE_SIDED, TWO_SIDED])
def test_one_step_is_in_closed_form(relation, order):
    two_sided = relation is TWO_SIDED
    pair = MixturePair(0.2, 0.8, 0.5 if two_sided else 1.0, two_sided)
    curve = poisson_curve(0.8, 0.2, 1, relation, accuracy=1e-5)
    for epsilon in (0.02, 0.15, 0.2, 1.0, 2.5):
        # the best event is a half-line
        edge = pair.place(np.array(epsilon if order is Order.FORWARD else -epsilon))
        p, q = half_line(pair, float(edge), order)
        exact = max(p - math.exp(epsilon) * q, 0.0)
        low, high = curve.delta_bracket(epsilon, order)
        assert low <= exact * (1 + 1e-9) + 1e-15
        assert exact <= high * (1 + 1e-9) + 1e-15
        assert high - low <= 1e-3 * high + 1e-5
        if epsilon < 0.2:  # the half-line is the best test, too, with the second law as its null
            low, high = curve.power_bracket(q, order.other)
            assert low <= p * (1 + 1e-9)
            assert p <= high * (1 + 1e-9)
            assert high - low < 1e-2 * high


def half_line(pair, edge, order=Order.FORWARD):
    """The probabilities of what lies beyond an edge, in the direction of the first law's losses."""
    tail = norm.sf if order is Order.FORWARD else norm.cdf
    first = [(1 - pair.rate, 0.0), (pair.rate, pair.mean)]
    second = [(1 - pair.rate, 0.0), (pair.rate, -pair.mean)] if pair.two_sided else [(1.0, 0.0)]
    laws = (first, second) if order is Order.FORWARD else (second, first)
    return tuple(sum(w * tail(edge, m, pair.noise) for w, m in law) for law in laws)


@pytest.mark.parametrize(
    ("noise", "steps", "delta"),
    [(1.0, 7, 1e-5), (0.6, 40, 1e-12), (2.0, 400, 1e-12), (0.35, 30, 1e-3)],
)
def test_a_rate_of_nearly_one_is_a_gaussian(noise, steps, delta):
    """To tails of 1e-12 and epsilon above 100; the rate changes epsilon by less than 1e-8."""
    curve = poisson_curve(noise, 1 - 2.0**-52, steps, ONE_SIDED, accuracy=3e-7)
    exact = GaussianCurve(math.sqrt(steps) / noise).epsilon(delta)
    low, high = curve.epsilon_bracket(delta)
    assert low <= exact * (1 + 1e-8)
    assert exact * (1 - 1e-8) <= high
    assert high - low <= 1e-6 * exact


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [slow(6.0, 0.01, 10_000, 1e-5), slow(1.0, 0.01, 1000, 1e-12), (0.5, 0.1, 500, 1e-6)],
)
@pytest.mark.parametrize("relation", [ONE_SIDED, TWO_SIDED])
def test_brackets_are_narrow(noise, rate, steps, delta, relation):
    curve = poisson_curve(noise, rate, steps, relation, accuracy=1e-5)
    for order in Order:
        low, high = curve.epsilon_bracket(delta, order)
        assert 0 < low <= high <= low * (1 + 4e-5)


def test_renyi_divergences_are_those_of_the_sampled_gaussian():
    curve = poisson_curve(2.0, 0.1, 7, ONE_SIDED, accuracy=1e-3)
    for order in Order:
        once = sampled_gaussian_renyi(4.0, 0.1, 2.0, order)
        assert curve.renyi(4.0, order) == pytest.approx(7 * once)
    # no formula of two moved normals is known
    assert poisson_curve(2.0, 0.1, 7, TWO_SIDED, accuracy=1e-3).renyi(4.0) == math.inf


@pytest.mark.parametrize("relation", [ONE_SIDED, TWO_SIDED])
def test_numbers_whose_losses_leave_the_range_of_doubles_are_refused(relation):
    for noise, rate in ((1e100, 0.01), (1e200, 0.01), (1.0, 5e-324), (1e150, 1e-200)):
        with pytest.raises(ValueError, match=r"noise_multiplier must be at|sampling_rate must"):
            poisson_curve(noise, rate, 100, relation, accuracy=1e-5)
    with pytest.raises(ValueError, match="noise_multiplier must keep the losses of a step below"):
        poisson_curve(0.01, 0.1, 10, relation, accuracy=1e-5)
    for noise, rate in ((1e30, 0.01), (1e29, 1e-99)):
        low, high = poisson_curve(noise, rate, 100, relation, accuracy=1e-5).epsilon_bracket(1e-5)
        assert low == high == 0


def test_a_grid_is_refined_where_a_bracket_is_wide():
    """A small delta in the order whose losses are bounded, by -T log(1 - q)."""
    curve = poisson_curve(0.5, 0.03, 7, ONE_SIDED, accuracy=1e-3)
    low, high = curve.epsilon_bracket(1e-11, Order.REVERSE)
    assert 0 < low <= high < low * 1.0016
    rough = poisson_curve(0.5, 0.03, 7, ONE_SIDED, accuracy=0.1)
    wide = rough.epsilon_bracket(1e-11, Order.REVERSE)
    assert wide[0] <= low <= high <= wide[1]
    assert wide[1] - wide[0] > 2 * (high - low)


@pytest.mark.parametrize(("relation", "epsilon"), [(ONE_SIDED, 0.5), slow(TWO_SIDED, 1.0)])
def test_a_grid_is_refined_for_one_delta_and_not_for_many(relation, epsilon):
    curve = poisson_curve(1.0, 0.01, 1000, relation, accuracy=3e-7)
    low, high = curve.delta_bracket(epsilon, Order.FORWARD)
    assert 0 < low < high < low * (1 + 5e-7)
    lows, highs = curve.delta_bracket(np.full(2, epsilon), Order.FORWARD)
    assert lows[0] < low < high < highs[0]
    assert highs[0] - lows[0] > 10 * (high - low)
    # the inverse function says the same
    assert curve.epsilon_bracket(low, Order.FORWARD)[1] >= epsilon
    assert curve.epsilon_bracket(high, Order.FORWARD)[0] <= epsilon


@pytest.mark.slow
def test_a_grid_is_refined_as_far_as_cells_allow():
    curve = poisson_curve(0.274, 0.378, 72_600, ONE_SIDED, accuracy=3e-7)
    low, high = curve.epsilon_bracket(1e-3, Order.FORWARD)
    assert low < high < low * (1 + 1e-5)  # the grid that the accuracy asks for is too fine


def test_the_smaller_order_is_refined_no_further_than_it_matters():
    curve, other = (poisson_curve(0.8, 0.01, 50, ONE_SIDED, accuracy=1e-6) for _ in range(2))
    lows, highs = zip(*(other.epsilon_bracket(1e-5, order) for order in Order), strict=True)
    assert curve.epsilon_bracket(1e-5) == (max(lows), max(highs))
    assert curve.epsilon(1e-5) == max(highs)
    assert len(curve._known) < len(other._known)


def test_the_worse_order_has_the_larger_ends(monkeypatch):
    curve = poisson_curve(1.0, 0.1, 9, ONE_SIDED, accuracy=1e-3)
    asked = mock.Mock(side_effect=[(1.0, 2.0), (1.5, 3.0), (1.0, 2.0), (3.0, 1.5)])
    monkeypatch.setattr(RefinedCurve, "_epsilon_ends", asked)
    monkeypatch.setattr(RefinedCurve, "limits", None)
    assert curve.epsilon_bracket(0.1) == (1.5, 3.0)
    assert asked.call_args.args == (0.1, Order.REVERSE, 1.0)
    with pytest.raises(BracketError, match="low <= high"):
        curve.epsilon_bracket(0.1)


# -------- Truncated Poisson batches: one step by quadrature of the mixtures, limits, dp-accounting


Array = NDArray[np.float64]


def truncated(z: float, n: int, q: float, largest: int, steps: int, accuracy: float = 1e-4):  # type: ignore[no-untyped-def]
    more = {"batching": Batching.TRUNCATED_POISSON, "max_batch_size": largest, "poisson_rate": q}
    return dominating_curve(poisson(steps, 1 / z, n, 1, **more), accuracy=accuracy)


def test_how_often_batches_are_cut_against_a_sum() -> None:
    n, q, largest = 30, 0.3, 8
    sizes = np.arange(n)
    weights = binom.pmf(sizes, n - 1, q)
    cut = Truncation.of(n, q, largest)
    assert cut.cut == pytest.approx(weights[sizes >= largest].sum(), rel=1e-12)
    taken = q * weights * np.minimum(1.0, largest / (sizes + 1))
    assert cut.participation == pytest.approx(taken.sum(), rel=1e-12)
    assert Truncation.of(n, q, n).cut == 0


def mixture(means: list[float], weights: list[float], x: Array, z: float) -> Array:
    parts = [w * norm.pdf(x, m, z) for m, w in zip(means, weights, strict=True)]
    return np.asarray(sum(parts))


def test_one_step_of_both_adversaries_by_enumeration() -> None:
    """Every size of the sample, and every outcome for the record, of five records."""
    n, q, largest, z = 5, 0.6, 2, 1.0
    x = np.linspace(-14, 14, 56_001)
    pairs = {}
    for others in (0.0, -1.0):
        means: dict[bool, list[float]] = {True: [], False: []}
        weights: dict[bool, list[float]] = {True: [], False: []}
        for size in range(n):
            weight = float(binom.pmf(size, n - 1, q))
            means[False].append(others * min(size, largest))
            weights[False].append(weight)
            kept = q * min(1.0, largest / (size + 1))
            means[True] += [1 + others * min(size, largest - 1), others * min(size, largest)]
            weights[True] += [weight * kept, weight * (1 - kept)]
        pairs[others] = [mixture(means[held], weights[held], x, z) for held in (True, False)]
    curve = truncated(z, n, q, largest, 1)
    for epsilon in (0.1, 0.5, 1.5):
        for order, first in ((Order.FORWARD, 0), (Order.REVERSE, 1)):
            ordered = ((pair[first], pair[1 - first]) for pair in pairs.values())
            sums = [np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ordered]
            exact = max(sums) * (x[1] - x[0])
            low, high = curve.delta_bracket(epsilon, order)
            # a Riemann sum with a kink, and 2048 cells
            assert exact - 1e-3 < low < exact + 1e-6
            assert low <= high
            assert high > exact - 1e-6


def test_what_is_hardly_ever_cut_is_poisson_sampling() -> None:
    exact = poisson_curve(1.0, 0.05, 50, Relation.ADD_REMOVE, accuracy=1e-4)
    for largest in (130, 1000):
        low, high = truncated(1.0, 1000, 0.05, largest, 50).epsilon_bracket(1e-5)
        known = exact.epsilon_bracket(1e-5)
        assert low <= known[1]
        assert high >= known[0]
        assert high - low < 1e-3


def test_what_is_always_cut() -> None:
    """Batches of always 2 of 20: the pair with others at -1 is a Poisson step of means 2."""
    z, n, largest, q = 1.0, 20, 2, 0.97
    cut = Truncation.of(n, q, largest)
    assert cut.cut == pytest.approx(1, abs=1e-12)
    assert cut.kept == pytest.approx(largest / n, rel=1e-12)
    low, high = truncated(z, n, q, largest, 1).epsilon_bracket(1e-5)
    assert high - low < 2e-3
    for rate in (0.5, 1.0):  # always 50 of 2000, but for less than the range of doubles
        low, high = truncated(1.0, 2000, rate, 50, 3).epsilon_bracket(1e-5)
        assert 0 < low <= high < low * 1.02


def test_a_planted_error_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that takes no other's place: the upper end falls below the lower one."""
    split = MixturePair.grid_pairs
    monkeypatch.setattr(
        MixturePair, "grid_pairs", lambda pair, *rest: split(replace(pair, mean=1.0), *rest)
    )
    with pytest.raises(BracketError, match="must have 0 <= low <= high"):
        truncated(1.0, 20, 0.97, 2, 1).epsilon_bracket(1e-5)


def test_the_second_adversary_is_one_of_the_lower_ends() -> None:
    cut = Truncation.of(20, 0.3, 2)
    pair = others_against(1.0, 20, 2, cut, 0.01)
    alone = GridComposition([(pair, 5)]).epsilon(1e-5)
    assert alone <= truncated(1.0, 20, 0.3, 2, 5).epsilon_bracket(1e-5, Order.FORWARD)[0] + 1e-2


@pytest.mark.parametrize(
    ("z", "n", "q", "largest", "steps", "theirs"),
    [
        # from_truncated_subsampled_gaussian_mechanism of dp-accounting 0.6.0, interval 1e-3,
        # add or remove, delta = 1e-5
        slow(1.0, 1000, 0.05, 80, 100, 3.549901877036403),
        slow(1.0, 1000, 0.05, 60, 100, 8.871385602734936),
        (1.0, 40, 0.5, 15, 10, 29.671754282224235),
        (1.0, 20, 0.3, 2, 5, 10.190735896583295),
    ],
)
def test_dp_accounting_is_above_the_bracket(z, n, q, largest, steps, theirs):
    """Its upper bound has the means of the second pair twice as far apart."""
    low, high = truncated(z, n, q, largest, steps).epsilon_bracket(1e-5)
    assert low < high <= theirs * (1 + 1e-3)
    assert high > 0.8 * theirs


def test_a_sensitivity_bounds_the_distance_of_any_two_records() -> None:
    """With gradients at most 1 apart epsilon at .05 is at most 7.0102; 9.13 was once certified."""
    more = {"batching": Batching.TRUNCATED_POISSON, "max_batch_size": 1, "noise_std": 0.15}
    lone = poisson(1, 1.0, 3, 2, **more, clip_norm=None, lipschitz=1.0)
    within = replace(lone, gradient_sensitivity=1.0)
    for bounded in (within, replace(within, lipschitz=None)):
        low, high = dominating_curve(bounded).epsilon_bracket(0.05)
        assert 6.9 < low <= 7.0102 <= high
    assert dominating_curve(lone).epsilon_bracket(0.05)[0] > 9


def test_next_to_1_what_is_left_of_a_rate_has_its_digits() -> None:
    """The rounding of 1 - 1e-6 moves the largest loss of a step, 13.8, by 3e-11."""
    m = poisson(3, 1.0, 10**6, 10**6 - 1)
    whole = replace(m, batching=Batching.TRUNCATED_POISSON, max_batch_size=10**6)
    low, high = dominating_curve(whole).epsilon_bracket(0.0, Order.REVERSE)
    assert low <= 3 * math.log(10**6) <= high
    exact = curve(AllIterates(m)).renyi_bracket(1e3, Order.REVERSE)[0]
    assert exact <= dominating_curve(m).renyi(1e3, Order.REVERSE) < exact * (1 + 1e-10)


def test_cuts_below_the_range_of_doubles_tell_the_laws_apart() -> None:
    """They add next to nothing to delta, and make the largest loss infinite."""
    rare = truncated(1.0, 10_000, 0.05, 4000, 20, accuracy=1e-5)
    assert Truncation.of(10_000, 0.05, 4000).cut < 1e-290
    [(upper, _)] = rare.upper.upper.parts
    assert upper.p_only >= 1e-290 <= upper.q_only
    assert rare.epsilon(1e-289, Order.REVERSE) == math.inf
    low, high = rare.epsilon_bracket(1e-5)
    plain = poisson_curve(1.0, 0.05, 20, Relation.ADD_REMOVE, accuracy=1e-6)
    least, most = plain.epsilon_bracket(1e-5)
    assert low <= most
    assert least <= high < low * (1 + 2e-5)

"""Brackets contain the truth where it is known, however odd the pair."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, Order, Relation
from audit.constructions import (
    Affine,
    BiasedWalk,
    Construction,
    DriftedWalk,
    GradientPair,
    Mapped,
    PiecewiseLinear,
    TwoSidedWalk,
    Wall,
)
from audit.curves import GaussianCurve
from audit.exact import LawCurve, curve, law, node_laws
from tests.exact.cases import Pair, mechanism, noisy, process
from tests.mechanisms import noisy_sgd
from tests.slow import slow

FORWARD, REVERSE = Order.FORWARD, Order.REVERSE


@pytest.mark.parametrize(
    ("push", "diameter", "steps"),
    [
        slow(8.0, 400.0, 10),  # (2710.06, 2710.13) where noise stopped at 12 deviations
        (20.0, 400.0, 3),  # (5182.5, 5183.0)
        (30.0, 200.0, 1),
        slow(3.0, 900.0, 20),
        slow(60.0, 900.0, 5),  # it underflows: the bracket says that nothing is known
    ],
)
def test_pushes_of_many_deviations(push: float, diameter: float, steps: int) -> None:
    """Where a law is on the other's far tail, single steps of many deviations matter."""
    pair = TwoSidedWalk(mechanism(steps=steps, lipschitz=push, diameter=diameter))
    truth = GaussianCurve(2 * push * math.sqrt(steps)).epsilon(1e-5)
    low, high = curve(pair).epsilon_bracket(1e-5)
    assert low <= truth <= high
    if truth < 3000:  # else more of the second law is lost than there is, e^-3440
        assert high - low < 1e-8 * truth


def test_an_expanding_map_under_a_strong_push() -> None:
    """Early steps take more noise than late ones: the reach comes from the whole way's cost."""
    exact, closed = (
        curve(Pair(*(process(noisy(Affine(s, 1.3)), times=6, **ends) for s in (6.0, -6.0))))
        for ends in ({"lower": -400.0, "upper": 400.0}, {})
    )
    low, high = exact.epsilon_bracket(1e-5)
    truth = closed.epsilon(1e-5)
    assert low <= truth <= high
    assert high - low < 1e-6


def test_a_reach_that_is_not_counted_would_be_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the test: if what is left out is not lost, the bracket is narrow and wrong."""
    monkeypatch.setattr(node_laws._ProcessLaws, "_log_lost", lambda *_: -math.inf)
    monkeypatch.setattr(node_laws, "_FIRST_REACH", (13.0, -300.0))
    pair = TwoSidedWalk(mechanism(steps=5, lipschitz=15.0, diameter=400.0))
    low, _ = curve(pair).epsilon_bracket(1e-5)
    assert low > 1.1 * GaussianCurve(30 * math.sqrt(5)).epsilon(1e-5)


def test_a_domain_of_too_many_deviations_is_refused() -> None:
    sampled = {"dataset_size": 2, "batching": Batching.WITHOUT_REPLACEMENT}
    pair = BiasedWalk(noisy_sgd(steps=2, noise_std=1e-7, lipschitz=0.01, **sampled))
    with pytest.raises(ValueError, match="noise_std must be larger for a computed law"):
        curve(pair)


@pytest.mark.parametrize(("mu", "steps"), [(1e-3, 4), (1e-8, 1), (1e-14, 1)])
def test_near_identical_laws(mu: float, steps: int) -> None:
    """The log-likelihood ratio is rounding noise: brackets must not exclude the truth."""
    root = math.sqrt(steps)
    m = mechanism(steps=steps, lipschitz=mu / 2 / root, diameter=24 * root)
    exact = curve(TwoSidedWalk(m))
    gaussian = GaussianCurve(mu)
    delta = 0.3 * gaussian.delta(0.0)
    for (low, high), truth in (
        (exact.epsilon_bracket(delta), gaussian.epsilon(delta)),
        (exact.delta_bracket(0.0), gaussian.delta(0.0)),
        (exact.delta_bracket(gaussian.epsilon(delta)), delta),
        (exact.renyi_bracket(2.0), gaussian.renyi(2.0)),
        (exact.renyi_bracket(50.0), gaussian.renyi(50.0)),
    ):
        assert low <= truth <= high
        # ratios are enclosed to 1e-3 by as many cells as are cut at most
        assert high < truth + (1e-9 if mu > 1e-6 else 1e-3)


def test_identical_laws() -> None:
    same = process(noisy(Affine(0.1)), times=5, lower=-1.0, upper=1.0)
    exact = curve(Pair(same, same))
    assert exact.epsilon(1e-9) == exact.epsilon_bracket(1e-9)[0] == 0
    assert exact.delta(0.0) == 0
    assert exact.renyi(3.0) == pytest.approx(0, abs=1e-12)
    assert exact.beta(0.2) == pytest.approx(0.8, rel=1e-7)


@pytest.mark.parametrize(("push", "steps"), [slow(0.1, 30), (1.0, 9), (3.0, 4)])
def test_walls_out_of_reach_leave_normal_laws(push: float, steps: int) -> None:
    """Also in far tails, and for tests of every size."""
    pair = TwoSidedWalk(mechanism(steps=steps, lipschitz=push, diameter=40 * steps + 100.0))
    exact, gaussian = curve(pair), GaussianCurve(2 * push * math.sqrt(steps))
    deltas = np.array([1e-2, 1e-12, 1e-30, 1e-100])
    lows, highs = exact.epsilon_bracket(deltas)
    truth = gaussian.epsilon(deltas)
    assert np.all((lows - 1e-9 <= truth) & (truth <= highs + 1e-9) & (highs - lows < 1e-7))
    alphas = np.array([1e-12, 1e-5, 0.1, 0.5, 0.9, 1 - 1e-6])
    np.testing.assert_allclose(exact.beta(alphas), gaussian.beta(alphas), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("steps", [1, 5, slow(40)])
def test_an_unbounded_sampled_walk(steps: int) -> None:
    """A line cut where it is empty, against the twin on a line as long."""
    sampled = {"dataset_size": 4, "batching": Batching.WITHOUT_REPLACEMENT}
    exact = curve(TwoSidedWalk(noisy_sgd(steps=steps, diameter=None, **sampled)))
    assert isinstance(exact, LawCurve)
    assert exact.first.lost_mass < 1e-250
    low, high = exact.epsilon_bracket(1e-5)
    assert high - low < 1e-8
    low, high = exact.renyi_bracket(2.0)
    assert high == math.inf or high - low < 1e-9  # a divergence may gain in the lost tails
    binomial = [math.comb(steps, k) * 0.25**k * 0.75 ** (steps - k) for k in range(steps + 1)]
    # the sum of w_k N(k, std^2) against its mirror image, by the trapezoid rule
    std = math.sqrt(steps)
    x = np.linspace(-12 * std - steps - 1, 12 * std + steps + 1, 400_001)
    p = np.zeros_like(x)
    for k, w in enumerate(binomial):
        p += w * np.exp(-0.5 * ((x - k) / std) ** 2) / (std * math.sqrt(2 * math.pi))
    truth = np.maximum(p - math.exp(exact.epsilon(1e-5)) * p[::-1], 0).sum() * (x[1] - x[0])
    assert truth == pytest.approx(1e-5, rel=1e-6)


def test_long_runs_keep_their_mass() -> None:
    """Squaring must not lose mass: 7e-11 lost at T = 10^6 would be 3e-6 in epsilon."""
    exact, shorter = (
        curve(TwoSidedWalk(mechanism(steps=steps, lipschitz=0.05, diameter=16.0)))
        for steps in (10**6, 3 * 10**4)
    )
    # both are stationary: relaxation takes about D^2 = 256 steps
    low, high = exact.epsilon_bracket(1e-5)
    assert low <= shorter.epsilon(1e-5) <= high
    assert high - low < 1e-7
    assert exact.epsilon(1e-5) == pytest.approx(shorter.epsilon(1e-5), abs=1e-10)


def test_a_scaled_pair_is_the_same() -> None:
    """Lengths in millionths: nothing may depend on the unit."""
    small = mechanism(noise_std=1e-6, lipschitz=0.3e-6, diameter=6e-6)
    unit = mechanism(lipschitz=0.3, diameter=6.0)
    a, b = (curve(TwoSidedWalk(m, start=0.1 * m.diameter)) for m in (small, unit))
    assert a.epsilon(1e-6) == pytest.approx(b.epsilon(1e-6), rel=1e-12)
    assert a.renyi(5.0) == pytest.approx(b.renyi(5.0), rel=1e-11)


def test_a_domain_off_the_origin_widens_the_bracket() -> None:
    """Positions are rounded relative to their size."""

    def around(c: float) -> Pair:
        ends = {"start": c, "lower": c - 3, "upper": c + 3}
        return Pair(*(process(noisy(Affine(s)), times=5, **ends) for s in (0.25, -0.25)))

    near, off = (curve(around(c)) for c in (0.0, 1e7))
    low, high = off.epsilon_bracket(1e-4)
    assert low <= near.epsilon(1e-4) <= high
    assert 1e-9 < high - low < 1e-5


def test_a_start_on_an_absorbing_wall_stays() -> None:
    for times in (1, 6):
        stuck = process(
            noisy(Affine()), times=times, start=-1.0, lower=-1.0, upper=1.0, lower_wall=Wall.ABSORB
        )
        own = law(stuck)
        assert own.atoms == (1.0, 0.0)
        assert own.density(0.3) == 0
        assert own.cdf(-1.0) == 1


def test_a_process_without_steps_has_no_density() -> None:
    with pytest.raises(ValueError, match=r"one step or more each, got lengths \[0\]"):
        law(process(lower=-1.0, upper=1.0))


@pytest.mark.parametrize(
    ("steps", "diameter", "start", "alphas"),
    [slow(5, 5.0, -1.0, (2.0, 8.0, 32.0)), slow(3, 8.0, 0.0, (8.0, 64.0)), (40, 6.0, 0.5, (8.0,))],
)
def test_divergences_of_wide_domains_ignore_what_was_not_followed(steps, diameter, start, alphas):
    # Walls so far away that the laws are normal; their far tails, beyond the noise that was
    # followed, are too small by unknown factors, where p^alpha q^(1-alpha) must not be looked at.
    m = noisy_sgd(steps=steps, dataset_size=2, step_size=0.05, noise_std=0.4, lipschitz=0.1)
    law = curve(TwoSidedWalk(replace(m, diameter=diameter), start=start))
    mu = steps * 0.05 * 0.1 / (0.02 * math.sqrt(steps))
    for alpha, order in itertools.product(alphas, Order):
        low, high = law.renyi_bracket(alpha, order)
        assert low <= alpha * mu**2 / 2 * (1 + 1e-12)
        assert high >= alpha * mu**2 / 2 * (1 - 1e-12)
        if alpha < 10:
            assert high - low < 1e-9


def test_an_underflow_certifies_no_divergence() -> None:
    """Laws of noisy steps vanish nowhere: an infinite divergence would refute true claims."""
    m = noisy_sgd(dataset_size=18, step_size=0.0656, noise_std=1.68, smoothness=1.57012,
                  diameter=4.51, batching=Batching.RANDOM_ALLOCATION,
                  relation=Relation.ZERO_OUT)  # fmt: skip
    law = curve(BiasedWalk(m, start=-2.255))
    for order in Order:
        low, high = law.renyi_bracket(1.2, order)
        # a step with the record, S/(b sigma) deviations apart
        assert low <= 1.2 / 2 / 1.68**2
        assert low < high


def test_a_valley_between_two_far_bumps() -> None:
    """The second law has a bump 16 deviations from another one, the first 20."""
    m = noisy_sgd(dataset_size=2, noise_std=0.11240545560478198, lipschitz=1.946428132852142,
                  diameter=8.0, batching=Batching.WITHOUT_REPLACEMENT,
                  relation=Relation.ZERO_OUT)  # fmt: skip
    line = PiecewiseLinear.constant
    others, record = line(-1.854484659557641), line(0.3939812278451249)
    law = curve(GradientPair(m, others=others, record=record, start=-4.0))
    # by mpmath: epsilon at delta, and delta at epsilon
    epsilons = {1e-10: 27.40193568024, 3e-11: 27.875914122458, 1e-12: 28.381247818476}
    deltas = {27.5: 8.04353847397e-11, 28.42: 2.77214389871e-13}
    asked = [(*law.epsilon_bracket(d, REVERSE), truth) for d, truth in epsilons.items()]
    asked += [(*law.delta_bracket(e, REVERSE), truth) for e, truth in deltas.items()]
    for low, high, truth in asked:
        assert low <= truth <= high
        assert high - low < 1e-9 * truth


def test_functions_of_the_users_own_have_values_and_prove_nothing() -> None:
    known, own = (
        Pair(*(process(noisy(update(s)), times=5, lower=-2.0, upper=2.0) for s in (0.2, -0.2)))
        for update in (lambda s: Affine(s, 0.9), lambda s: Mapped(lambda x: 0.9 * x + s))
    )
    assert curve(own).epsilon(1e-5) == pytest.approx(curve(known).epsilon(1e-5), rel=1e-9)
    assert curve(own).epsilon_bracket(1e-5) == (0.0, math.inf)
    assert curve(own).delta_bracket(0.5) == (0.0, 1.0)


# ---------------- Exact values known from independent computations, and brackets that contain them


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
    m = replace(BIASED.mechanism, dataset_size=20, batch_size=2)
    assert curve(DriftedWalk(m, drift=-0.01, start=0.5)).epsilon(1e-5) > 16.55
    assert curve(BiasedWalk(m)).epsilon(1e-5) == pytest.approx(4.03, abs=0.005)


@pytest.mark.slow
def test_paper_values() -> None:
    """Altschuler and Talwar 2022, footnote 9: n=10, b=1, D = 1000 eta L, T = T-bar = 7500."""
    noise_std = math.sqrt(0.001 / 7500) / 0.001
    m = noisy_sgd(
        steps=7500, dataset_size=10, step_size=0.001, noise_std=noise_std, **WITHOUT_REPLACEMENT
    )
    paper = curve(BiasedWalk(m), threads=2)
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
    for order, value in ((FORWARD, 380.418), (REVERSE, 128.731)):
        low, high = paper.renyi_bracket(100.0, order)
        assert high - low < 1e-6
        assert round(low, 3) == round(high, 3) == value
    assert paper.first.probability(0.0, 0.5) == pytest.approx(0.5, rel=1e-11)
    assert paper.second.log_probability(-0.5, 0.0) == pytest.approx(-180.1, abs=0.05)
    # each of 7,500 steps rounds by some units of the last place
    assert paper.first.probability() == pytest.approx(1, abs=1e-11)
    assert max(abs(a) for a in paper.first.log_atoms) < 740  # beyond what a naive sum holds

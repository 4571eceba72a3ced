"""Altschuler and Talwar (2022): fixed batches and iteration, sampled batches, and rates."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from audit import Batching, bounds, exact
from audit.bounds import Status
from audit.bounds.accounting import sampled_gaussian_renyi
from audit.bounds.at22 import largest_order
from audit.constructions import BiasedWalk
from papers.at22_lower_bound import theorem_4_1
from tests.choices import RELATIONS
from tests.mechanisms import noisy_sgd
from tests.slow import slow

# ----------------------------------------------------------------------------------- fixed batches


mechanism = partial(noisy_sgd, steps=100, dataset_size=100, batch_size=100, step_size=0.1)


cyclic = partial(mechanism, dataset_size=20, batch_size=4, batching=Batching.CYCLIC)


def rho(id, m, **options):
    return bounds.evaluate(id, m, **options).renyi(2.0) / 2


def test_reference_values():
    assert bounds.evaluate("at22.b_1", mechanism()).renyi(4.0) == pytest.approx(0.08, rel=1e-12)
    # Chien and Li (2025), Figure 1 and Appendix A.13: noise 1 on the iterate, order 2
    figure = mechanism(steps=10_000, dataset_size=5, batch_size=5, lipschitz=2.0, noise_std=10.0)
    assert bounds.evaluate("at22.b_1", figure).renyi(2.0) == pytest.approx(0.345714, abs=5e-7)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("steps", [1, 7, 3000])
@pytest.mark.parametrize("diameter", [1e-3, 0.4, 3.0])
def test_best_integer_is_found(relation, steps, diameter):
    m = mechanism(steps=steps, diameter=diameter, relation=relation)
    s = m.step_size * m.sensitivity / m.dataset_size
    lengths = np.arange(1, steps + 1)
    inner = np.min(lengths * ((diameter + s) / lengths + s) ** 2)
    expected = 3.0 / (2 * m.step_std**2) * min(steps * s**2, inner)
    assert bounds.evaluate("at22.b_1", m).renyi(3.0) == pytest.approx(expected, rel=1e-12)
    # cycles of one batch are full batches
    same = bounds.evaluate("at22.theorem_5_6", m).renyi(3.0)
    assert same == pytest.approx(expected, rel=1e-12)
    # the states need not be widened by the last shift: amplification by itself is sharper
    bare = bounds.evaluate("at22.proposition_3_2", m).renyi(3.0)
    assert bare <= 3.0 / (2 * m.step_std**2) * inner * (1 + 1e-12)


@pytest.mark.parametrize("position", range(1, 6))
def test_cyclic_sum_is_the_papers(position):
    m = cyclic(steps=50)
    s, size = 0.1 * 2 / 4, 1 + 0.1 * 2 / 4
    for cycles in (1, 3, 10):
        total, rest = cycles * 5, 5 - position + 1
        a = size / total
        paper = (position - 1) * a**2 + (total - 5) * (a + s / 5) ** 2
        paper += rest * (a + s / rest) ** 2
        index = 4 * position  # the last record of the batch
        ours = rho("at22.theorem_5_6", m, index=index, length=total)
        assert ours == pytest.approx(paper / (2 * m.step_std**2), rel=1e-12)
        assert rho("at22.theorem_5_6", m, index=index) <= ours * (1 + 1e-12)
    worst = rho("at22.theorem_5_6", m)
    assert worst == pytest.approx(rho("at22.theorem_5_6", m, index=20))
    assert worst >= rho("at22.theorem_5_6", m, index=4 * position)


@pytest.mark.parametrize("steps", [1, 3, 5, 13, 50])
def test_equation_5_4_is_the_best_allocation(steps):
    m = cyclic(steps=steps)
    for position in range(1, 6):
        shifts = [0.05 if k % 5 == position - 1 else 0.0 for k in range(steps)]
        best = rho("at22.proposition_2_17", m, shifts=shifts)
        assert rho("at22.eq_5_4", m, index=4 * position) == pytest.approx(best, rel=1e-12)
    assert rho("at22.eq_5_4", m) == pytest.approx(rho("at22.proposition_2_17", m), rel=1e-12)


def test_amplification_options():
    m = mechanism(steps=4, step_size=1.0)
    shifts = [1.0, 0.0, 0.0, 0.0]
    assert rho("at22.proposition_2_17", m, shifts=shifts) == pytest.approx(1 / 8)
    by_hand = [0.4, 0.3, 0.2, 0.1]
    given = rho("at22.proposition_2_17", m, shifts=shifts, allocations=by_hand)
    assert given == pytest.approx(0.15)
    zero = [0.0] * 4
    assert rho("at22.proposition_3_2", m, shifts=zero) == pytest.approx(1 / 8)
    assert rho("at22.proposition_3_2", m, shifts=zero, tau=2) == pytest.approx(1 / 4)
    assert rho("at22.proposition_3_2", m, shifts=zero, distance=2.0) == pytest.approx(1 / 2)
    half = rho("at22.proposition_3_2", m, shifts=zero, tau=2, allocations=[0.5, 0.5])
    assert half == pytest.approx(1 / 4)
    with pytest.raises(ValueError, match=r"tau must be at most steps - 1 \(3\), got 4"):
        rho("at22.proposition_3_2", m, tau=4)
    with pytest.raises(ValueError, match="allocations must end at z_T = 0, got 1"):
        rho("at22.proposition_3_2", m, shifts=zero, allocations=zero)
    schedule = mechanism(steps=2, step_size=(0.1, 0.2))
    with pytest.raises(ValueError, match=r"one value per step \(2\) for a schedule, got 3"):
        rho("at22.proposition_2_17", schedule, shifts=[1.0, 1.0, 1.0])
    strong = mechanism(step_size=1.0, strong_convexity=0.5, steps=4)
    contracted = rho("at22.proposition_5_4", strong, shifts=zero)
    c = 0.5
    assert contracted == pytest.approx(c**8 * (1 - c**2) / (1 - c**8) / 2)


def test_schedules_spread_by_variance():
    sizes = tuple(1 / math.sqrt(t) for t in range(1, 101))
    m = mechanism(steps=100, step_size=sizes, diameter=2.0)
    zero = [0.0] * 100
    # all of the distance, allocated in proportion to eta_t^2
    expected = 4.0 / (2 * sum(size**2 for size in sizes))
    assert rho("at22.proposition_3_2", m, shifts=zero) == pytest.approx(expected, rel=1e-12)


def test_conversion_is_never_below_the_tight_one():
    from papers.renyi_conversions import balle, bun_steinke, bun_steinke_delta, lemma_2_5

    for noise in (1e-3, 0.1, 1.0, 30.0):
        m = mechanism(noise_std=noise)
        printed, tight = bounds.evaluate("at22.conversion", m), bounds.evaluate("at22.b_1", m)
        for delta in (1e-12, 1e-5, 0.1):
            assert printed.epsilon(delta) >= tight.epsilon(delta) * (1 - 1e-9)
            assert printed.delta(printed.epsilon(delta)) == pytest.approx(delta, rel=1e-9)
        assert printed.renyi(3.0) == pytest.approx(tight.renyi(3.0))
    for value in (1e-4, 0.3, 8.0):
        gaussian = bounds.evaluate(
            "bsa24.theorem_4_1", mechanism(steps=1, noise_std=0.02 / math.sqrt(2 * value))
        )
        for delta in (1e-10, 1e-5, 1e-2):
            true = gaussian.epsilon(delta)
            assert true <= bun_steinke(rho=value, delta=delta) * (1 + 1e-9)
            for alpha in (1.5, 3.0, 40.0):
                given = {"alpha": alpha, "divergence": alpha * value, "delta": delta}
                assert true <= balle(**given) <= lemma_2_5(**given)
        assert bun_steinke_delta(rho=value, epsilon=0.0) == 1.0
    assert lemma_2_5(alpha=3.0, divergence=1.0, delta=math.exp(-4)) == pytest.approx(3.0)


# --------------------------------------------------------------------------------- sampled batches


sampled = partial(
    noisy_sgd,
    steps=500,
    dataset_size=100,
    batch_size=5,
    step_size=0.1,
    diameter=0.2,
    batching=Batching.WITHOUT_REPLACEMENT,
)


def renyi(id, m, alpha=2.0, **options):
    return bounds.evaluate(id, m, **options).renyi(alpha)


def test_both_relations_take_2_l():
    expected = 500 * sampled_gaussian_renyi(3.0, 0.05, 2.5)
    for relation in RELATIONS:
        found = renyi("at22.sampled_gaussian", sampled(relation=relation), 3.0)
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [1.5, 8.0])
def test_the_search_finds_the_best(alpha):
    m = sampled()
    assert m.diameter is not None

    def by_hand(share):
        step = sampled_gaussian_renyi(alpha, 0.05, 2.5 * math.sqrt(share))
        lengths = np.arange(1, m.steps)
        crossing = alpha * m.diameter**2 / (2 * m.step_std**2 * (1 - share) * lengths)
        return float(np.min((lengths + 1) * step + crossing))

    best = minimize_scalar(by_hand, bounds=(0.01, 0.99), method="bounded").fun
    assert best < 500 * sampled_gaussian_renyi(alpha, 0.05, 2.5)  # else nothing is tested
    assert renyi("at22.b_2_both_orders", m, alpha) == pytest.approx(best, rel=2e-4)
    # a constant schedule is the same bound
    assert renyi("at22.eq_5_7", m, alpha) == pytest.approx(best, rel=2e-4)
    assert renyi("at22.eq_5_7_corrected", m, alpha) == pytest.approx(best, rel=2e-4)
    split = renyi("at22.b_2_both_orders", m, alpha, split=0.5, length=60)
    step = sampled_gaussian_renyi(alpha, 0.05, 2.5 * math.sqrt(0.5))
    assert split == pytest.approx(61 * step + alpha * 4.0 / 60, rel=1e-9)
    assert split >= best


def test_strong_convexity_at_the_best_length():
    m = sampled(strong_convexity=0.5, smoothness=1.0, step_size=2 / 1.5, diameter=3.0)
    assert m.contraction == pytest.approx(1 / 3)
    for split in (0.3, 0.8):
        by_length = [
            renyi("at22.b_3_both_orders", m, 4.0, split=split, length=k) for k in range(1, 30)
        ]
        best = renyi("at22.b_3_both_orders", m, 4.0, split=split)
        assert best == pytest.approx(min(by_length), rel=1e-12)
    # formula (5.3) without the optimised shifts is no better
    assert renyi("at22.b_3_both_orders", m, 4.0) <= min(by_length) * (1 + 1e-9)


def test_schedule_of_the_catalogue():
    sizes = tuple(t**-0.5 for t in range(1, 1001))
    m = sampled(steps=1001, step_size=(1.0, *sizes), diameter=1.0, smoothness=1.0)
    share, alpha = 0.5, 2.0
    step = 1001 * sampled_gaussian_renyi(alpha, 0.05, 2.5 * math.sqrt(0.5))
    factor = alpha / (2 * share)
    for id, expected in (("at22.eq_5_7", 0.262), ("at22.eq_5_7_corrected", 0.134)):
        value = renyi(id, m, alpha, split=share, length=1000)
        assert (value - step) / factor == pytest.approx(expected, abs=5e-4)


def test_options_out_of_range():
    for id in ("at22.b_2", "at22.b_2_both_orders", "at22.eq_5_7"):
        with pytest.raises(ValueError, match=r"split must be in \(0, 1\), got 1"):
            bounds.evaluate(id, sampled(), split=1)
        with pytest.raises(ValueError, match=r"length must be at most steps - 1 \(499\), got 500"):
            bounds.evaluate(id, sampled(), length=500)


def test_lemma_2_12_holds_in_its_range():
    for rate, sigma in [(0.01, 4.0), (0.1, 6.0), (1e-4, 4.0), (0.19, 50.0)]:
        largest = largest_order(rate, sigma)
        assert largest > 1
        for alpha in np.unique(1 + np.geomspace(1e-3, largest - 1, 12)):
            value = sampled_gaussian_renyi(float(alpha), rate, sigma)
            assert value <= 2 * alpha * rate**2 / sigma**2
        # both conditions, and no larger order
        for alpha, within in ((largest * (1 - 1e-9), True), (largest * (1 + 1e-6), False)):
            m = math.log1p(1 / (rate * (alpha - 1)))
            first = alpha <= m * sigma**2 / 2 - math.log(sigma**2)
            room = m**2 * sigma**2 / 2 - math.log(5 * sigma**2)
            second = alpha <= room / (m + math.log(rate * alpha) + 1 / (2 * sigma**2))
            assert (first and second) is within
    m = sampled(noise_std=2.0, dataset_size=1000)
    curve = bounds.evaluate("at22.lemma_2_12", m)
    assert curve.renyi(1e6) == math.inf
    assert curve.renyi(2.0) == pytest.approx(500 * 2 * 2 * (0.005 / 5) ** 2)
    assert curve.renyi(2.0) >= renyi("at22.sampled_gaussian", m)
    for relation in RELATIONS:  # any two records may be 2L apart
        with pytest.raises(bounds.NotApplicable, match=r"needs b/n < 1/5 .*, got b/n=0.05 .*=2.5"):
            bounds.evaluate("at22.lemma_2_12", sampled(relation=relation))


def test_two_mixtures_are_no_worse_than_one():
    # of N(0), N(z) against N(0), N(z') with z, z', z - z' up to 1 the worst is z' = 0
    x = np.linspace(-12, 12, 6001)
    rng = np.random.default_rng(5)

    def log_mixture(rate, mean):
        parts = [-0.5 * (x - m) ** 2 for m in (0.0, mean)]
        return np.logaddexp(math.log1p(-rate) + parts[0], math.log(rate) + parts[1])

    for _ in range(60):
        rate, alpha = float(rng.uniform(0.05, 0.95)), float(rng.uniform(1.1, 6))
        z = float(rng.uniform(-1, 1))
        other = float(rng.uniform(max(-1, z - 1), min(1, z + 1)))
        p, q = log_mixture(rate, z), log_mixture(rate, other)
        moment = (
            np.sum(np.exp(alpha * p + (1 - alpha) * q)) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
        )
        worst = sampled_gaussian_renyi(alpha, rate, 1.0)
        assert math.log(moment) / (alpha - 1) <= worst * (1 + 1e-9)


@pytest.mark.parametrize(
    "id", ["at22.b_2", slow("at22.b_2_both_orders"), slow("at22.b_3_both_orders")]
)
def test_the_best_split_is_that_of_a_fine_grid(id):
    """Lengths are whole numbers, and S_alpha has a knee at large orders: several valleys."""
    sizes = {"steps": 284, "dataset_size": 268, "batch_size": 1, "step_size": 6.135}
    m = sampled(noise_std=20.68, smoothness=0.16, strong_convexity=7e-4, **sizes)
    orders = np.array([1.01, 3.0, 40.0, 400.0, 1000.0, 3000.0])
    found = bounds.evaluate(id, m).renyi(orders)
    splits = 1 / (1 + np.exp(np.linspace(-8, 8, 81)))
    by_hand = np.min([bounds.evaluate(id, m, split=x).renyi(orders) for x in splits], axis=0)
    assert np.all(found <= by_hand * 1.01)


@pytest.mark.parametrize("id", ["cl25.theorem_3_12_both_orders", slow("at22.b_2_both_orders")])
def test_a_tradeoff_function_of_costly_divergences(id):
    """It takes its orders from a grid, and belongs to the same curve."""
    curve = bounds.evaluate(id, sampled(noise_std=5.0))
    epsilons = np.array([0.0, 0.1, 0.3, 1.0])
    deltas = curve.delta(epsilons)
    for alpha in (1e-3, 0.3):
        beta, lines = curve.beta(alpha), 1 - deltas - np.exp(epsilons) * alpha
        assert max(np.max(lines), 0.0) - 2e-3 <= beta <= 1 - alpha


# ------------------------------------------------------- rates, and the lower bound of Theorem 4.1


long_run = partial(
    noisy_sgd,
    steps=10**6,
    dataset_size=1000,
    batch_size=10,
    step_size=0.1,
    noise_std=2.0,
    batching=Batching.WITHOUT_REPLACEMENT,
)


def test_rates_are_never_judged():
    for name in ("theorem_3_1", "theorem_5_1", "eq_5_5", "eq_1_3", "example_5_8"):
        entry = bounds.CATALOGUE[f"at22.{name}"]
        assert entry.status is Status.ASYMPTOTIC
        assert not entry.status.sound


def test_rates_flatten_at_the_crossing():
    scale = 1 / (1000 * 2.0) ** 2
    for steps, length in ((500, 500), (10**4, 10**4), (10**6, 10**4), (10**9, 10**4)):
        curve = bounds.evaluate("at22.theorem_3_1", long_run(steps=steps))
        assert curve.renyi(2.0) == pytest.approx(2 * scale * length)
        dp = bounds.evaluate("at22.eq_1_3", long_run(steps=steps))
        assert dp.epsilon(1e-5) == pytest.approx(math.sqrt(scale * length * math.log(1e5)))
        assert dp.delta(dp.epsilon(1e-5)) == pytest.approx(1e-5)
        assert dp.renyi(2.0) == math.inf
        cyclic = long_run(steps=steps, batching=Batching.CYCLIC)
        rate = bounds.evaluate("at22.eq_5_5", cyclic).renyi(2.0)
        assert rate == pytest.approx(2 * scale * (100**2 + length))


def test_strong_convexity_flattens_sooner():
    m = long_run(strong_convexity=0.5, step_size=2 / 1.5)
    length = 2 * math.log((1000 / (2 / 1.5)) ** 2 / 16)
    curve = bounds.evaluate("at22.theorem_5_1", m)
    assert curve.renyi(2.0) == pytest.approx(2 / 2000**2 * length)


def test_schedule_takes_the_last_step_size():
    sizes = tuple(0.1 / math.sqrt(t) for t in range(1, 10_001))
    m = long_run(steps=10_000, step_size=sizes, diameter=0.01)
    # D n/(L eta) T^(1/2) = 100 * 100
    curve = bounds.evaluate("at22.example_5_8", m)
    assert curve.renyi(2.0) == pytest.approx(2 / 2000**2 * 10_000)
    short = bounds.evaluate("at22.example_5_8", long_run(steps=10_000, diameter=0.01))
    assert short.renyi(2.0) == pytest.approx(2 / 2000**2 * 100)


def test_orders_are_those_of_lemma_2_12():
    assert bounds.evaluate("at22.theorem_3_1", long_run()).renyi(1e9) == math.inf
    # above b/n = 1/5 any order is covered
    large = long_run(batch_size=300, noise_std=0.5)
    assert bounds.evaluate("at22.theorem_3_1", large).renyi(1e9) < math.inf


def test_lower_bound_of_theorem_4_1():
    # T-bar = .75 D n/(L eta) = 3750, the noise at its threshold
    m = long_run(steps=7500, dataset_size=5, batch_size=1, step_size=1e-3, diameter=1.0)
    threshold = math.sqrt(1e-3 / 3750) / 1e-3
    claim = theorem_4_1(replace(m, noise_std=threshold))
    assert claim.order == 100
    assert claim.divergence == pytest.approx(0.005625, rel=1e-9)
    assert claim.id == "at22.theorem_4_1"
    with pytest.raises(bounds.NotApplicable, match=r"needs sigma\^2 <= .*, got noise_std="):
        theorem_4_1(replace(m, noise_std=1.01 * threshold))
    with pytest.raises(bounds.NotApplicable, match=r"needs D >= 1000 eta L, got diameter=0\.9"):
        theorem_4_1(replace(m, noise_std=threshold, diameter=0.9))
    with pytest.raises(bounds.NotApplicable, match="needs a bounded domain"):
        theorem_4_1(replace(m, noise_std=threshold, diameter=None))


def test_lower_bound_is_true_where_it_is_claimed():
    values = {"steps": 20, "dataset_size": 1, "batch_size": 1, "step_size": 1e-3}
    m = long_run(**values, diameter=1.0, noise_std=1.0)
    claim = theorem_4_1(m)
    # far inside the domain the walks are Gaussian: alpha T L^2/(2 sigma^2)
    found = exact.curve(BiasedWalk(long_run(**values, diameter=None, noise_std=1.0)))
    assert found.renyi(claim.order) == pytest.approx(100 * 20 / 2, rel=1e-9)
    assert found.renyi(claim.order) > claim.divergence > 0

"""Statements beside the theorems of the papers, and numbers of their tables and figures."""

import dataclasses
import math

import numpy as np
import pytest

from audit import Batching, Order, bounds, exact
from audit.bounds.accounting import sampled_gaussian_renyi
from audit.bounds.at22 import largest_order
from audit.constructions import GradientPair, PiecewiseLinear, TwoSidedWalk
from audit.curves import GaussianCurve
from papers.bsa24_statements import (
    lemma_3_1,
    lemma_3_2,
    threshold_4_3,
    threshold_4_5,
    threshold_4_6,
)
from papers.fmtt18_statements import TABLE_1, appendix_b_noise
from papers.side_statements import (
    SMALL_BATCH,
    STRONGLY_CONVEX,
    equation_3_7,
    equation_5_3,
    forgetting_pair,
)
from papers.survey_statements import TABLE_I, TABLE_II
from tests.mechanisms import noisy_sgd
from tests.slow import slow

# --- Altschuler and Talwar (2022) ---


def test_equation_3_7_by_hand_and_its_refutation():
    m = SMALL_BATCH
    lengths = np.arange(1.0, m.steps)
    tried = []
    for share in np.linspace(0.01, 0.99, 99)[::7]:  # the last one is the best
        step = sampled_gaussian_renyi(2.0, 1e-3, 0.1 * math.sqrt(1 - share), Order.REVERSE)
        tried.append(np.min((lengths + 1) * step + 2 * 16 / (2 * 0.04 * share * lengths)))
    claimed = equation_3_7(m, 2.0)
    assert claimed == pytest.approx(min(tried), rel=1e-9)
    law = exact.curve(forgetting_pair(m))
    low, high = law.renyi_bracket(2.0)
    # the last step alone, whose record differs from the others by L and not by 2L
    alone = sampled_gaussian_renyi(2.0, 1e-3, 0.2, Order.FORWARD)
    assert high > low > 19 * claimed
    assert low > alone  # X and X' are L to either side of the others
    # with both orders it is not refuted
    assert high < bounds.evaluate("at22.b_2_both_orders", m, split=0.5).renyi(2.0)


@pytest.mark.parametrize(
    ("steps", "alpha"), [slow(2, 8.0), (STRONGLY_CONVEX.steps, 2.0), slow(1000, 1.5)]
)
def test_equation_5_3_is_nowhere_below_b_3_and_refuted_with_it(steps, alpha):
    m = dataclasses.replace(STRONGLY_CONVEX, steps=steps)
    assert m.contraction == pytest.approx(0.95, rel=1e-12)
    assert m.step_size * (m.smoothness + m.strong_convexity) == pytest.approx(2, rel=1e-12)
    claimed = equation_5_3(m, alpha)
    assert bounds.evaluate("at22.b_3", m).renyi(alpha) <= claimed * (1 + 1e-9)
    if alpha == 2:
        assert exact.curve(forgetting_pair(m)).renyi_bracket(2.0)[0] > 200 * claimed


def test_remark_1_4_holds_up_to_a_constant():
    """(1.3) against Gaussian bounds with constants, and an exact pair: full batches, epsilon < 1.

    Composition has 2L for L and sqrt(2 log 1/delta), a factor 2 sqrt 2; Theorem 4.3 sqrt 8 more.
    """
    ratios, reached = [], []
    for steps in (1, 10, 100, 1000, 4000, 10**6):
        m = noisy_sgd(steps=steps, dataset_size=50, step_size=0.01, noise_std=2.0, diameter=0.2)
        rate = math.sqrt(min(steps, 1000) * math.log(1e5)) / (50 * 2.0)
        sampled = dataclasses.replace(m, batching=Batching.WITHOUT_REPLACEMENT)
        assert bounds.evaluate("at22.eq_1_3", sampled).epsilon(1e-5) == pytest.approx(rate)
        claimed = bounds.evaluate("bsa24.theorem_3_3", m).epsilon(1e-5)
        ratios.append(claimed / rate)
        if steps <= 4000:
            reached.append(exact.curve(TwoSidedWalk(m)).epsilon(1e-5) / rate)
    assert 1 < min(ratios) <= max(ratios) < 2 * math.sqrt(2) * math.sqrt(8)
    # a real pair keeps a constant share, though the noise of 1000 steps is three times the domain
    assert 0.19 < min(reached) <= max(reached) < max(ratios)
    assert reached[-1] == pytest.approx(reached[-2], rel=1e-6)


@pytest.mark.parametrize("steps", [10**4, 10**6])
def test_theorem_3_1_follows_from_the_form_of_theorem_4_10(steps):
    """From sigma = 16 sqrt(2) L/b on, with the constant 65 (1 for the domain, 64 for sampling)."""
    sizes = {"steps": steps, "dataset_size": 1000, "batch_size": 10, "step_size": 0.1}
    noise = 16 * math.sqrt(2) / 10 * (1 + 1e-12)
    m = noisy_sgd(noise_std=noise, batching=Batching.WITHOUT_REPLACEMENT, **sizes)
    highest = largest_order(0.01, 4.0)
    rate = bounds.evaluate("at22.theorem_3_1", m)
    bound = bounds.evaluate("bsa24.theorem_4_10", m, tau=steps - min(steps - 1, 10**4))
    for alpha in (1.01, 2.0, highest):
        assert bound.renyi(alpha) <= 65.01 * rate.renyi(alpha)
    # the printed range starts at half of that noise, where Lemma 2.12 needs 4 and has 2
    half = dataclasses.replace(m, noise_std=m.noise_std / 2 * (1 + 1e-9))
    assert bounds.evaluate("at22.theorem_3_1", half).renyi(1.01) > 0
    with pytest.raises(bounds.NotApplicable, match="needs sigma > 8 sqrt"):
        bounds.evaluate("at22.theorem_3_1", dataclasses.replace(m, noise_std=m.noise_std / 2.01))


@pytest.mark.parametrize("c", [slow(0.0), 0.25, slow(0.5)])
def test_example_5_8_is_the_order_of_equation_5_7(c):
    """T from 10^4 to 10^5, where R is far below T: the ratio is bounded and does not drift."""
    ratios = []
    for steps in (10_000, 40_000, 100_000):
        sizes = tuple(float(x) for x in 0.02 * np.arange(1.0, steps + 1) ** -c)
        m = noisy_sgd(
            steps=steps,
            dataset_size=1000,
            batch_size=50,
            step_size=sizes,
            noise_std=4.0,
            lipschitz=0.5,
            diameter=2e-4,
            batching=Batching.WITHOUT_REPLACEMENT,
        )
        rate = bounds.evaluate("at22.example_5_8", m).renyi(2.0)
        assert rate == pytest.approx(
            2 * (0.5 / 4000) ** 2 * min(steps, math.ceil(2e-4 * 1000 / 0.5 / sizes[-1])), rel=1e-9
        )
        ratios.append(bounds.evaluate("at22.eq_5_7_corrected", m).renyi(2.0) / rate)
    assert max(ratios) / min(ratios) < 1.6
    assert 1 < min(ratios) <= max(ratios) < 16


# --- Feldman et al. (2018) and Boninsegna (2023) ---


def test_appendix_b_needs_its_order():
    """At order 5 the conversion leaves .945 of epsilon; at order 3.5 it would exceed it."""
    log = math.log(1e5)
    for order, fits in ((5.0, True), (3.5, False)):
        epsilon = 2 * log / order
        noise = 5 * math.sqrt(log) / epsilon
        converted = 4 * order / noise**2 + log / (order - 1)
        assert (converted <= epsilon) is fits
        if fits:
            assert converted / epsilon == pytest.approx(0.945, abs=1e-9)
            assert appendix_b_noise(1.0, epsilon=epsilon, delta=1e-5) == pytest.approx(noise)
        else:
            with pytest.raises(ValueError, match=r"epsilon must be at most 2 ln\(1/delta\)/5"):
                appendix_b_noise(1.0, epsilon=epsilon, delta=1e-5)


def test_tables_are_documented_with_entries_that_exist():
    ids = {id for row in TABLE_I for id in row.entries}
    assert ids <= set(bounds.CATALOGUE)
    assert {id.split(".")[0] for id in ids} == {"survey"}
    assert [row.article for row in TABLE_I][-1] == "Chourasia et al. 2021"
    assert len(TABLE_1) == len(TABLE_I) == 4
    assert "eta" in TABLE_II


# --- Bok, Su and Altschuler (2024) ---


@pytest.mark.parametrize("interpolation", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("c", "z"), [(1.0, 0.4), (0.5, 2.0), (1.3, 0.1)])
def test_lemma_3_2_on_gaussians(interpolation, c, z):
    """phi = c x - s, phi' = c x, X~ = X - z: all laws are normal, and one case is an equality.

    The left side has the distance of means |c g - lambda (c z + s)|... over sqrt(c^2 v + sigma^2).
    """
    s, sigma, v = 0.7, 0.6, 1.1
    factor = lemma_3_2(s, sigma, interpolation=interpolation, contraction=c, distance=z).mu
    worst = interpolation * (c * z + s)
    assert factor == pytest.approx(worst / sigma, rel=1e-13)
    equal = v * c * worst / sigma**2  # the gap of X~ and X' where Cauchy and Schwarz meet
    for gap in (-2.0, 0.0, 0.5, equal):
        mean = 1.3
        # means of X', X~ = X' + gap, X = X~ + z; then of both sides of the lemma
        moved = interpolation * (c * (mean + gap + z) + s) + (1 - interpolation) * c * (mean + gap)
        left = GaussianCurve(abs(moved - c * mean) / math.sqrt(c**2 * v + sigma**2))
        right = GaussianCurve(math.hypot(gap / math.sqrt(v), factor))
        for alpha in (0.01, 0.3, 0.8):
            assert left.beta(alpha) >= right.beta(alpha) - 1e-12
        if gap == equal:
            assert left.mu == pytest.approx(right.mu, rel=1e-12)


def test_lemma_3_1_is_lemma_3_2_without_interpolation():
    once = lemma_3_1(0.7, 0.6)
    assert once.mu == pytest.approx(0.7 / 0.6, rel=1e-15)
    # one step of two linear losses is the lemma, with equality
    m = noisy_sgd(dataset_size=4, step_size=0.1, noise_std=3.0, smoothness=None, diameter=None)
    step = exact.curve(TwoSidedWalk(m))
    lemma = lemma_3_1(0.1 * 2 / 4, m.step_std)
    for delta in (1e-6, 1e-2):
        assert step.epsilon(delta) == pytest.approx(lemma.epsilon(delta), rel=1e-9)
    with pytest.raises(ValueError, match="interpolation must be a finite number of at least 0"):
        lemma_3_2(1.0, 1.0, interpolation=-1.0, contraction=1.0, distance=0.0)


PULL = {"step_size": 0.1, "gradient_sensitivity": 1.0, "smoothness": 2.0, "lipschitz": None}
CYCLIC = noisy_sgd(
    steps=4, dataset_size=4, strong_convexity=0.02, diameter=None, batching=Batching.CYCLIC, **PULL
)


def mu(id, m):
    return bounds.evaluate(f"bsa24.{id}", m).mu


def crossing(id, composed, m, longest):
    """The first number of cycles from which the convergent bound is the smaller one."""
    period = 1 if m.batching is Batching.FULL else m.dataset_size // m.batch_size
    wins = []
    for cycles in longest:
        run = dataclasses.replace(m, steps=int(cycles) * period)
        wins.append(mu(id, run) < mu(composed, run))
    return int(longest[wins.index(True)])


def test_thresholds_after_theorems_4_3_4_5_and_4_6():
    full = noisy_sgd(steps=1000, dataset_size=4, diameter=2.5, **PULL)
    assert threshold_4_3(full) == pytest.approx(4 * 2.5 * 4 / 0.1)
    found = crossing("theorem_4_3", "theorem_4_1", full, range(100, 500))
    assert found == math.floor(threshold_4_3(full)) + 1
    wide = dataclasses.replace(CYCLIC, strong_convexity=0.0, diameter=2.5)
    assert threshold_4_6(wide) == pytest.approx(4 * 2.5 / (0.1 * 4))
    found = crossing("theorem_4_6", "theorem_4_4", wide, range(25, 60))
    assert abs(found - threshold_4_6(wide)) <= 2  # "roughly": E - 1 for E
    c, length = CYCLIC.contraction, 4
    printed = c ** (2 * length - 2) * (1 - c**2) / (1 - c**length) ** 2
    assert threshold_4_5(CYCLIC) == pytest.approx(printed, rel=1e-9)
    # 4.5 stays below 1 + threshold, so that it wins from one epoch more on at the latest
    found = crossing("theorem_4_5", "theorem_4_4", CYCLIC, range(2, 400))
    assert found <= printed + 2


# --- numbers of the catalogue ---


def test_the_repulsive_kink_of_the_catalogue():
    """Order 2, D = 1, s = .08, step_std = .2, T = 200: 2.23 where linear losses have 1.46."""
    m = noisy_sgd(steps=200, dataset_size=25, noise_std=0.2, convex=False)
    kink = GradientPair(
        m,
        others=PiecewiseLinear((-0.4, 0.4), (0.16, -0.16), (0.0, 0.0)),
        record=PiecewiseLinear.constant(-1.0),
        record_prime=PiecewiseLinear.constant(1.0),
    )
    low, high = exact.curve(kink).renyi_bracket(2.0)
    assert low == pytest.approx(2.23, abs=5e-3)
    assert high == pytest.approx(2.23, abs=5e-3)
    assert exact.curve(TwoSidedWalk(m)).renyi(2.0) == pytest.approx(1.46, abs=5e-3)


def test_claims_for_one_pass_at_a_quarter_of_the_noise():
    """65.3 is the last step alone, as a Gaussian; Theorem 23 by its Renyi conversion is 68.6."""
    m = noisy_sgd(
        steps=10, dataset_size=10, noise_std=0.25, batching=Batching.CYCLIC, diameter=None
    )
    gaussian = bounds.evaluate("fmtt18.lemma_27_corrected", m).epsilon(1e-5)
    assert gaussian == pytest.approx(65.3, abs=0.05)
    assert bounds.evaluate("fmtt18.theorem_23", m).epsilon(1e-5) == pytest.approx(68.6, abs=0.05)

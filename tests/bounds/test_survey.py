"""Boninsegna (2023): accountants, iteration and Langevin."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from audit import Batching, Relation, bounds, exact
from audit.bounds import survey
from audit.bounds.survey import AdvancedComposition
from audit.constructions import Affine, TwoSidedWalk
from papers.survey_statements import tail_bound
from tests.exact.cases import Pair, noisy, process
from tests.mechanisms import noisy_sgd

# Linear losses may be admitted: convex, smooth, no domain.
mechanism = partial(
    noisy_sgd, steps=10, dataset_size=10, batch_size=10, step_size=0.1, noise_std=2.0, diameter=None
)


# Ten batches of one record, one epoch, sigma = 1 in section VI.A.
cyclic = partial(mechanism, batch_size=1, batching=Batching.CYCLIC)


sampled = partial(mechanism, batch_size=1, batching=Batching.WITHOUT_REPLACEMENT)


def poisson(**changes):
    poisson_changes = {"batching": Batching.POISSON, "relation": Relation.ZERO_OUT}
    return mechanism(**{"batch_size": 1, "diameter": 50.0, **poisson_changes, **changes})


# ------------------------------------------------------------------------------------- accountants


def randomised_response_epsilon(epsilon, times, delta):
    """Exact epsilon of ``times`` randomised responses, from the binomial sum."""
    j = np.arange(times + 1)
    binomial = gammaln(times + 1) - gammaln(j + 1) - gammaln(times - j + 1)
    log_p = binomial + j * epsilon - times * np.logaddexp(0, epsilon)
    loss = (2 * j - times) * epsilon

    def log_delta(e):
        above = loss > e
        return logsumexp(log_p[above] + np.log(-np.expm1(e - loss[above])))

    return brentq(lambda e: log_delta(e) - math.log(delta), 0.0, times * epsilon * 0.999)


def test_shortcut_of_advanced_composition_is_refuted_by_randomised_response():
    true = randomised_response_epsilon(0.9, 1000, 1e-5)
    assert true == pytest.approx(486.5, abs=0.05)
    one = np.array([0.9]), np.array([0.0]), 1000
    delta = np.array([1e-5])
    short = AdvancedComposition(*one, shortcut=True).epsilon_at(delta)
    assert short == pytest.approx(273.1, abs=0.05)
    assert AdvancedComposition(*one, shortcut=False).epsilon_at(delta) >= true


def test_shortcut_of_advanced_composition_is_refuted_by_linear_losses():
    m = mechanism(steps=4 * 10**6)  # noise of ten sensitivities
    low, high = exact.curve(TwoSidedWalk(m)).epsilon_bracket(1e-5)
    claim = bounds.evaluate("survey.advanced_composition_shortcut", m).epsilon(1e-5)
    assert claim < 0.8 * low
    assert high <= bounds.evaluate("survey.advanced_composition", m).epsilon(1e-5)
    with pytest.raises(ValueError, match=r"step_epsilon must be in \(0, 1\), got 1\.5"):
        bounds.evaluate("survey.advanced_composition_shortcut", m, step_epsilon=1.5)


def test_advanced_composition_by_hand_and_its_inverse():
    m = mechanism(steps=20, noise_std=1.0)
    best = bounds.evaluate("survey.advanced_composition", m)
    for e in (0.3, 0.8, 1.4):
        given = bounds.evaluate("survey.advanced_composition", m, step_epsilon=e)
        assert best.epsilon(1e-5) <= given.epsilon(1e-5) * (1 + 1e-3)
    step = bounds.evaluate("bsa24.theorem_4_1", dataclasses.replace(m, steps=1)).delta(1.4)
    given = bounds.evaluate("survey.advanced_composition", m, step_epsilon=1.4)
    spare = 1e-5 - 20 * step
    assert spare > 0
    expected = math.sqrt(40 * math.log(1 / spare)) * 1.4 + 20 * 1.4 * math.expm1(1.4)
    assert given.epsilon(1e-5) == pytest.approx(expected, rel=1e-12)
    deltas = np.geomspace(1e-12, 0.1, 9)
    for curve in (best, given):
        finite = np.isfinite(curve.epsilon(deltas))
        back = np.asarray(curve.delta(np.asarray(curve.epsilon(deltas))[finite]))
        assert back == pytest.approx(deltas[finite], rel=1e-9)


def test_gaussian_mechanism_holds_in_its_range():
    for noise in (5.0, 1.0, 0.3, 0.1):
        m = mechanism(steps=1, noise_std=noise)
        claim = bounds.evaluate("survey.gaussian_mechanism", m)
        true = bounds.evaluate("bsa24.theorem_4_1", m)
        deltas = np.geomspace(1e-12, 0.5, 40)
        assert np.all(claim.epsilon(deltas) >= true.epsilon(deltas))
        epsilons = np.linspace(0.0, 0.99, 20)
        assert np.all(claim.delta(epsilons) >= np.asarray(true.delta(epsilons)) * (1 - 1e-12))
    one = bounds.evaluate("survey.gaussian_mechanism", mechanism(steps=1)).epsilon(1e-5)
    assert one == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / 10)
    assert claim.epsilon(1e-5) == math.inf


def test_tail_bound_is_no_better_than_the_conversions():
    m = poisson(steps=100, noise_std=3.0)
    curve = bounds.evaluate("survey.moments_accountant", m)
    for epsilon in (0.5, 6.0):
        assert curve.delta(epsilon) <= tail_bound(curve, epsilon)
    gaussian = bounds.evaluate("survey.rdp_composition", mechanism(steps=4, noise_std=1.0))
    # lambda (rho (lambda + 1) - epsilon) is least at lambda = (epsilon - rho)/(2 rho)
    rho, epsilon = gaussian.renyi(2.0) / 2, 2.0
    expected = math.exp(-((epsilon - rho) ** 2) / (4 * rho))
    assert tail_bound(gaussian, epsilon) == pytest.approx(expected, rel=1e-3)


def test_mtz19_covers_the_sampled_gaussian_in_its_range_only():
    m = poisson(steps=7, noise_std=6.0)
    curve = bounds.evaluate("survey.sampled_gaussian_mtz19", m)
    moments = bounds.evaluate("survey.moments_accountant", m)
    orders = np.geomspace(1.01, 200, 40)
    claimed, true = np.asarray(curve.renyi(orders)), np.asarray(moments.renyi(orders))
    assert np.all(claimed >= true)
    assert claimed[0] == pytest.approx(7 * 2 * 0.01 * 1.01 / 36)
    assert claimed[-1] == math.inf


def test_wbk19_agrees_with_a_library():
    accountant = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    for noise, n in ((1.0, 10), (3.0, 50), (20.0, 1000)):
        m = sampled(steps=5, noise_std=noise, dataset_size=n)
        orders = np.array([2.0, 3.0, 4.0, 4.5, 8.0, 32.0, 100.0])
        theirs = 5 * accountant._compute_rdp_sample_wor_gaussian(1 / n, noise / 2, orders)
        ours = np.asarray(bounds.evaluate("survey.subsampled_rdp_wbk19", m).renyi(orders))
        assert ours[0] == pytest.approx(theirs[0], rel=1e-9)
        # theirs is the sharper Theorem 27; ours is cut at the divergence without sampling
        unsampled = 5 * orders * (2 / noise) ** 2 / 2
        assert np.all(ours >= np.minimum(theirs, unsampled) * (1 - 1e-9))
        assert np.all(ours <= unsampled * (1 + 1e-12))
        exact_step = bounds.evaluate("bsa24.theorem_4_8", m)
        assert np.all(ours >= np.asarray(exact_step.renyi(orders)) * (1 - 1e-9))
    zeroed = dataclasses.replace(m, relation=Relation.ZERO_OUT)
    assert bounds.evaluate("survey.subsampled_rdp_wbk19", zeroed).renyi(2.0) == ours[0]


def test_what_is_kept_between_calls_cannot_be_changed():
    for kept in survey._many_step_epsilons(0.1, 1.0):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0.0


# -------------------------------------------------------------------------- iteration and Langevin


def test_section_vi_a_reference_values():
    m = cyclic()
    values = {
        id: bounds.evaluate(f"survey.{id}", m, batch=10).renyi(2.0)
        for id in ("section_vi_a", "section_vi_a_last", "section_vi_a_corrected")
    }
    assert values == pytest.approx(
        {"section_vi_a": 0.01, "section_vi_a_last": 0.1, "section_vi_a_corrected": 1.0}
    )
    # the worst place is the default
    assert bounds.evaluate("survey.section_vi_a", m).renyi(2.0) == pytest.approx(0.01)
    first = bounds.evaluate("survey.section_vi_a_corrected", m, batch=1).renyi(2.0)
    assert first == pytest.approx(0.1)
    with pytest.raises(ValueError, match=r"batch must be at most .* \(10\), got 11"):
        bounds.evaluate("survey.section_vi_a", m, batch=11)


def test_theorem_vii_2_reference_values_and_the_literal_reading():
    m = sampled(steps=50, noise_std=4.0, strong_convexity=1.0)
    known = bounds.evaluate("survey.theorem_vii_2", m).renyi(4.0)
    assert known == pytest.approx(0.855152, abs=5e-7)
    two = sampled(steps=2, dataset_size=2, strong_convexity=0.1)
    claim = bounds.evaluate("survey.theorem_vii_2_literal", two).renyi(2.0)
    assert claim == pytest.approx(0.62011, abs=5e-6)
    # quadratics, c = .99: the record moves X by one step of noise, the other record moves none
    laws = (
        process(noisy(Affine(shift, 0.99), Affine(0.0, 0.99)), times=2, lower=-60.0, upper=60.0)
        for shift in (0.0, 1.0)
    )
    low, high = exact.curve(Pair(*laws)).renyi_bracket(2.0)
    assert low == pytest.approx(0.68865, abs=5e-6)
    assert claim < low
    assert high <= bounds.evaluate("survey.theorem_vii_2", two).renyi(2.0)


def test_theorem_vii_2_recursion_step_by_step():
    m = sampled(steps=37, dataset_size=7, noise_std=3.0, strong_convexity=2.0, smoothness=2.0)
    alpha, sigma, q, c = 3.0, 1.5, 1 / 7, 0.8
    s = 1.0
    for _ in range(37):
        s = q * math.exp((alpha - 1) * alpha / (2 * sigma**2)) * s + (1 - q) * s ** (c**2)
    expected = math.log(s) / (alpha - 1)
    assert bounds.evaluate("survey.theorem_vii_2", m).renyi(alpha) == pytest.approx(expected)
    # past the steps that are run through: still above, and below the fixed point
    long = dataclasses.replace(m, steps=30_000)
    longest = dataclasses.replace(m, steps=10**9)
    values = [bounds.evaluate("survey.theorem_vii_2", x).renyi(alpha) for x in (m, long, longest)]
    assert values[0] <= values[1] <= values[2] < math.inf


def test_theorem_vii_1_holds_against_gaussians_from_any_start():
    """Nowhere below Theorem 4.2 of Bok et al. (2024): quadratics reach it, from any start."""
    steps = np.unique(np.rint(np.geomspace(1, 1e6, 60)))
    for pull in np.concatenate([np.geomspace(1e-6, 0.5, 40), 1 - np.geomspace(1e-6, 0.5, 40)]):
        log_c = math.log1p(-pull)
        exact_square = (2 - pull) / pull * np.tanh(-steps * log_c / 2)
        claimed = 4 / pull * -np.expm1(-pull * steps / 2)
        assert np.all(exact_square <= claimed)
    m = mechanism(steps=30, strong_convexity=0.7, step_size=0.5)
    expected = 4 / 0.35 * (1 - math.exp(-0.35 * 15)) * 3 / (2 * 10.0**2)
    assert bounds.evaluate("survey.theorem_vii_1", m).renyi(3.0) == pytest.approx(expected)

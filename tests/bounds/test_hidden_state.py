"""Kong and Ribero (2024), Sun et al. (2024) and Liang et al. (2026): formulas and witnesses."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from audit import Batching, NoisySGD, Relation, bounds, exact
from audit.constructions import (
    BiasedWalk,
    DriftedWalk,
    GradientPair,
    PiecewiseLinear,
    QuadraticPair,
    TwoSidedWalk,
)
from audit.curves import GaussianCurve
from tests.mechanisms import noisy_sgd

FIGURE_1 = noisy_sgd(  # of Liang et al. (2026)
    dataset_size=8, batch_size=2, step_size=0.2, noise_std=4.0, lipschitz=2.0, convex=False,
    batching=Batching.WITHOUT_REPLACEMENT,
)  # fmt: skip
CLIENTS = noisy_sgd(
    dataset_size=20, step_size=0.1, noise_std=math.sqrt(5), lipschitz=10.0, convex=False,
    diameter=None,
)  # fmt: skip


@pytest.mark.parametrize("steps", [1, 5, 200])
@pytest.mark.parametrize("diameter", [0.01, 1.0, 20.0])
def test_theorem_3_4_is_what_the_authors_plot(steps, diameter):
    """Their script minimises over beta numerically; here the minimum has a closed form."""
    alpha, c, sigma, n, b, eta, smooth = 1.1, 2.0, 4.0, 8, 2, 0.2, 1.0
    res = minimize_scalar(
        lambda beta: (
            2 * alpha * c**2 / (beta * n * b * sigma**2)
            + alpha * (1 + eta * smooth) ** 2 * diameter**2 / (2 * eta**2 * sigma**2 * (1 - beta))
        ),
        bounds=(1e-12, 1 - 1e-12),
        method="bounded",
        options={"xatol": 1e-12},
    )
    plotted = min(2 * alpha * c**2 / (n * b * sigma**2) * steps, res.fun)
    m = replace(FIGURE_1, steps=steps, diameter=diameter)
    assert bounds.evaluate("liang26.theorem_3_4", m).renyi(alpha) == pytest.approx(plotted)


def test_kong_and_ribero_in_the_figure_of_liang_et_al():
    alpha, c, sigma, b, eta, smooth, weak = 1.1, 2.0, 4.0, 2, 0.2, 1.0, 1.0
    growth = np.sqrt(1 + 2 * eta * weak * (1 + weak / 2 / (smooth + weak)))
    plotted = alpha / (2 * sigma**2) * (growth + 2 * eta * c / b) ** 2 / eta**2
    m = replace(FIGURE_1, batching=Batching.CYCLIC)
    assert bounds.evaluate("kong24.theorem_2_2", m).renyi(alpha) == pytest.approx(plotted)


@pytest.mark.parametrize("steps", [1, 5, 20])
def test_nor_is_it_in_the_last_step_alone(steps):
    sizes = {"steps": steps, "dataset_size": 50, "batch_size": 5, "step_size": 0.1}
    m = replace(FIGURE_1, noise_std=0.04, lipschitz=1.0, diameter=0.012, **sizes)
    low, high = exact.curve(DriftedWalk(m, drift=-0.1, start=0.006)).renyi_bracket(2.0)
    assert low > 1.9 * bounds.evaluate("liang26.theorem_3_4_saturated", m).renyi(2.0)
    corrected = bounds.evaluate("liang26.theorem_3_4_corrected", m)
    assert high < corrected.renyi(2.0)
    # the updates are (1 + eta M) D + 2 eta L/b apart, and the noise is eta sigma
    assert corrected.mu == pytest.approx((1.1 * 0.012 + 2 * 0.1 / 5) / 0.004)


def test_federated_rounds_compose():
    """Linear losses reach sqrt(T) rounds; the claim is what repulsive quadratics have."""
    for steps in (1, 2, 5, 100):
        m = replace(CLIENTS, steps=steps)
        c = 1.1
        printed = (2 * 0.1 * 10 / (math.sqrt(20) * 1.0)) * math.sqrt(
            (c + 1) / (c - 1) * (c**steps - 1) / (c**steps + 1)
        )
        claimed = bounds.evaluate("sun24.theorem_3_a", m)
        assert claimed.mu == pytest.approx(printed)
        unbounded = replace(m, lipschitz=None, gradient_sensitivity=20.0)
        quadratic = exact.curve(QuadraticPair(unbounded, curvature=-1.0)).epsilon_bracket(1e-5)
        assert quadratic == pytest.approx([claimed.epsilon(1e-5)] * 2, rel=1e-9)
        linear = exact.curve(TwoSidedWalk(m)).epsilon_bracket(1e-5)[0]
        assert (linear > claimed.epsilon(1e-5) * (1 + 1e-9)) is (steps > 1)


def local_push(rates: list[float], weight: float = 0.0) -> float:
    """Distance of a client's linear losses, of slopes +1 and -1, after local steps of a round."""
    ends = []
    for slope in (1.0, -1.0):
        w = start = 0.3
        for rate in rates:
            w -= rate * (slope + weight * (w - start))
        ends.append(w)
    return ends[1] - ends[0]


def random_rounds(count: int) -> list[tuple[int, int, float, float, NoisySGD]]:
    """Rounds, local steps, local rate, clipping norm, and the mechanism of the whole run."""
    random, found = np.random.default_rng(15621), []
    for _ in range(count):
        rounds, local = int(random.integers(1, 300)), int(random.integers(1, 50))
        clients = int(random.integers(1, 200))
        rate, norm, noise, smooth = np.exp(random.uniform(-4, 2, 4)).tolist()
        m = NoisySGD(
            steps=rounds,
            dataset_size=clients,
            batch_size=clients,
            step_size=rate * local,
            noise_std=noise / math.sqrt(clients) / (rate * local),
            lipschitz=norm,
            smoothness=smooth,
            convex=False,
        )
        found.append((rounds, local, rate, norm, m))
    return found


def test_local_steps_of_linear_losses_compose():
    """What K local steps release, exactly, is above the claim from two rounds on, for any K."""
    for rounds, local, rate, norm, m in random_rounds(150):
        noise = m.step_std * math.sqrt(m.dataset_size)  # of one upload
        constant = norm * local_push([rate] * local) / (math.sqrt(m.dataset_size) * noise)
        exact_mu = constant * math.sqrt(rounds)
        assert exact.curve(TwoSidedWalk(m)).mu == pytest.approx(exact_mu, rel=1e-12)
        claimed = bounds.evaluate("sun24.theorem_3_a", m, local_steps=local).mu
        if rounds * local * math.log1p(rate * m.smoothness) < 600:
            growth = (1 + rate * m.smoothness) ** local
            printed = (2 * rate * norm * local / (math.sqrt(m.dataset_size) * noise)) * math.sqrt(
                (growth + 1) / (growth - 1) * (growth**rounds - 1) / (growth**rounds + 1)
            )
            assert claimed == pytest.approx(printed, rel=1e-6)
        cyclic = bounds.evaluate("sun24.theorem_3_b", m).mu
        for one in (claimed, cyclic):
            if rounds == 1:
                assert one == pytest.approx(exact_mu, rel=1e-12)
            else:
                assert one < exact_mu
        assert cyclic <= claimed * (1 + 1e-12)  # e^x > 1 + x


def test_rates_that_decay_within_a_round_are_their_sum():
    harmonic = [0.02 / (k + 1) for k in range(30)]
    m = replace(
        CLIENTS, steps=7, step_size=sum(harmonic), noise_std=0.1 * math.sqrt(5) / sum(harmonic)
    )
    c = sum(harmonic) / (0.02 * math.log(31))
    assert 1 <= c < 1.543
    growth = 31 ** (c * 0.02)
    push = 10 * local_push(harmonic) / math.sqrt(20)
    printed = push * 10 * math.sqrt((growth + 1) / (growth - 1) * (growth**7 - 1) / (growth**7 + 1))
    # sigma of an upload is step_std sqrt(m) = 1 for CLIENTS
    assert m.step_std == pytest.approx(CLIENTS.step_std)
    assert bounds.evaluate("sun24.theorem_3_b", m).mu == pytest.approx(printed / 10)


def test_rates_that_decay_between_rounds_hold_by_composition():
    """Theorem 3 (c) and (d): a round tells 2V times the sum of its rates, and the rounds compose.

    Linear losses reach that, so it is the exact value of both.
    """
    worst = 0.0
    for local in (1, 2, 17):
        staged = continuous = 0.0
        scale = sum(1 / (k + 1) for k in range(local)) / math.log(2)  # z: of the first round
        for t in range(1000):
            staged += (local_push([1 / (t + 1)] * local) / (2 * local)) ** 2
            rates = [1 / (t * local + k + 1) for k in range(local)]
            assert sum(rates) <= scale * math.log((t + 2) / (t + 1)) * (1 + 1e-12)
            continuous += (local_push(rates) / 2) ** 2
            claimed = math.sqrt(2 - 1 / (t + 1))
            assert math.sqrt(staged) <= claimed * (1 + 1e-12)
            assert math.sqrt(continuous) <= scale * claimed
            worst = max(worst, claimed / math.sqrt(staged))
    assert 1.1 < worst < 1.11
    # the planted error: rates that do not decay are above the claim of (c)
    assert math.sqrt(2) > math.sqrt(2 - 1 / 2)


def test_a_proximal_round_is_one_step_for_any_number_of_local_steps():
    for weight, local, rate in ((5.0, 1, 0.1), (5.0, 7, 0.1), (2.0, 30, 0.3), (10.0, 3, 0.1)):
        size = local_push([rate] * local, weight) / 2
        assert size == pytest.approx((1 - (1 - rate * weight) ** local) / weight)
        m = replace(CLIENTS, steps=4, step_size=size, noise_std=0.1 * math.sqrt(5) / size)
        claimed = bounds.evaluate("sun24.theorem_4", m, proximal=weight).mu
        ratio = weight / (weight - 1)
        printed = 20 / (math.sqrt(20) * weight) * math.sqrt(2 * weight - 1)
        assert claimed == pytest.approx(printed * (1 - 2 / (ratio**4 + 1)))
    # many local steps move a client by 1/a
    many = local_push([0.1] * 200, 5.0) / 2
    assert many == pytest.approx(1 / 5)
    m = replace(CLIENTS, step_size=many, noise_std=0.1 * math.sqrt(5) / many)
    one_round = exact.curve(TwoSidedWalk(m)).mu
    assert one_round / bounds.evaluate("sun24.theorem_4", m, proximal=5.0).mu == pytest.approx(3)
    with pytest.raises(ValueError, match=r"proximal must be above 1 \(M\) and below 11"):
        bounds.evaluate("sun24.theorem_4", CLIENTS, proximal=0.9)


def test_a_gradient_in_every_step_is_not_amplified():
    """Cebere et al. (2024): linear losses reach the composition of all steps."""
    m = NoisySGD(
        steps=20, dataset_size=10, batch_size=10, step_size=0.1, noise_std=0.4, lipschitz=1.0,
        relation=Relation.ZERO_OUT,
    )  # fmt: skip
    composed = bounds.evaluate("accounting.full_batch", m).epsilon(1e-5)
    low, high = exact.curve(BiasedWalk(m)).epsilon_bracket(1e-5)
    assert low == pytest.approx(composed, rel=1e-9)
    assert high == pytest.approx(composed, rel=1e-9)


def test_a_landscape_keeps_what_the_first_step_tells():
    """Cebere et al. (2024): others that push away from a threshold, in batches of 20.

    Without them, linear losses on the same domain lose most of it over 19 steps.
    """
    m = NoisySGD(
        steps=20, dataset_size=400, batch_size=20, step_size=0.1, noise_std=0.05, lipschitz=1.0,
        diameter=0.3, convex=False, batching=Batching.CYCLIC, relation=Relation.ZERO_OUT,
    )  # fmt: skip
    away = PiecewiseLinear((0.0125, 0.0375), (1.0, -1.0), (0.0, 0.0))
    record = PiecewiseLinear.constant(-1.0)
    kept = exact.curve(GradientPair(m, record=record, others_after=away, position=0), threads=1)
    one_step = GaussianCurve(1.0).epsilon(1e-5)
    assert 0.98 * one_step < kept.epsilon_bracket(1e-5)[0] < one_step
    linear = exact.curve(BiasedWalk(m, position=0)).epsilon_bracket(1e-5)[1]
    assert linear < 0.2 * one_step

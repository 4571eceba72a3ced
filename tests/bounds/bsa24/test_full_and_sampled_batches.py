import math
from functools import partial

import numpy as np
import pytest

from audit import Batching, Relation, bounds
from audit.bounds.accounting import SubsampledGaussian, compose, family_sensitivity
from tests.bounds import reference
from tests.choices import RELATIONS
from tests.mechanisms import noisy_sgd

full = partial(noisy_sgd, steps=1000, dataset_size=20, batch_size=20, step_size=0.1, noise_std=0.5)


sampled = partial(full, batch_size=2, batching=Batching.WITHOUT_REPLACEMENT)


def test_theorem_4_1_is_the_sum_of_the_steps():
    m = full(steps=7)
    shift, noise = m.step_size * 2 * m.lipschitz / m.dataset_size, m.step_std
    assert bounds.evaluate("bsa24.theorem_4_1", m).mu == pytest.approx(
        math.sqrt(sum((shift / noise) ** 2 for _ in range(7))), rel=1e-14
    )
    zero = bounds.evaluate("bsa24.theorem_4_1", full(steps=7, relation=Relation.ZERO_OUT))
    assert zero.mu == pytest.approx(math.sqrt(7) * shift / noise / 2, rel=1e-14)


def test_composition_covers_schedules_and_losses_without_assumptions():
    bare = {"smoothness": None, "convex": False, "diameter": None, "steps": 3}
    for make, id in ((full, "bsa24.theorem_4_1"), (sampled, "bsa24.theorem_4_8")):
        constant = bounds.evaluate(id, make(**bare)).epsilon(1e-5)
        schedule = bounds.evaluate(id, make(**bare, step_size=(0.1, 0.2, 0.3))).epsilon(1e-5)
        assert schedule == constant
        paper = [i for i in bounds.applicable(make(**bare)) if i.startswith("bsa24")]
        assert paper == [id]


@pytest.mark.parametrize(("n", "mu"), [(10, 2.0), (11, 2.092884)])
def test_theorem_4_3_reference_values(n, mu):
    m = full(
        dataset_size=n,
        batch_size=n,
        step_size=1.0,
        noise_std=1.0,
        lipschitz=None,
        gradient_sensitivity=10.0,
    )
    assert bounds.evaluate("bsa24.theorem_4_3", m).mu == pytest.approx(mu, abs=1e-6)


def test_theorem_4_3_dominates_the_best_shifts():
    """Its derivation: (D/m + s)^2 m for whole m, where s m reaches D."""
    m = full()
    shift = m.step_size * m.sensitivity / m.dataset_size
    lengths = np.arange(1, m.steps + 1)
    best = math.sqrt(np.min(lengths * (m.diameter / lengths + shift) ** 2)) / m.step_std
    mu = bounds.evaluate("bsa24.theorem_4_3", m).mu
    assert best <= mu <= 1.01 * best


def test_theorem_4_3_needs_its_steps_and_decimals_count_as_meant():
    # D n/(eta S) = 0.3 * 20/(0.1 * 2) is 30.000000000000004 or so in double precision
    assert "bsa24.theorem_4_3" in bounds.applicable(full(diameter=0.3, steps=30))
    with pytest.raises(
        bounds.NotApplicable, match=r"needs steps >= D n/\(eta L\) .*, got steps=29 below 30"
    ):
        bounds.evaluate("bsa24.theorem_4_3", full(diameter=0.3, steps=29))


def test_theorem_4_8_at_one_step_is_the_mixture():
    m = sampled(steps=1, noise_std=1.0)
    exact = reference.one_step_epsilon(1e-5, (1.0, 0.0), (0.0, 0.0), 0.1)
    assert family_sensitivity(m) / (m.batch_size * m.noise_std) == 1.0
    assert bounds.evaluate("bsa24.theorem_4_8", m).epsilon(1e-5) == pytest.approx(exact, abs=1e-6)


def test_theorem_4_8_with_everything_sampled_is_theorem_4_1():
    m = sampled(batch_size=20)
    assert set(bounds.applicable(m)) >= {"bsa24.theorem_4_1", "bsa24.theorem_4_8"}
    assert bounds.evaluate("bsa24.theorem_4_8", m) == bounds.evaluate("bsa24.theorem_4_1", m)


def test_sampled_bounds_take_the_family_sensitivity():
    """The others at -L, the record at +L or zeroed: one step that L instead of 2L would deny."""
    m = sampled(steps=1, noise_std=0.5, relation=Relation.ZERO_OUT)
    mu = m.lipschitz / (m.batch_size * m.noise_std)
    assert mu == 1.0
    # batch means in units of the noise: (L - L), (0 - L), (-L - L) over b sigma
    exact = reference.one_step_epsilon(1e-5, (0.0, -2.0), (-1.0, -2.0), 0.1)
    assert exact == pytest.approx(3.747, abs=1e-3)
    claimed = bounds.evaluate("bsa24.theorem_4_8", m).epsilon(1e-5)
    assert claimed >= exact
    # the planted error: the sensitivity of the record alone is caught by the exact value
    wrong = compose(SubsampledGaussian(m.sampling_rate, mu), 1).epsilon(1e-5)
    assert wrong == pytest.approx(1.685, abs=1e-3)
    assert wrong < exact


@pytest.mark.parametrize("id", ["bsa24.theorem_4_8", "bsa24.theorem_4_10"])
def test_both_relations_take_2l(id):
    options = {"tau": 5} if id.endswith("10") else {}
    values = [
        bounds.evaluate(id, sampled(steps=10, relation=relation), **options).epsilon(1e-5)
        for relation in RELATIONS
    ]
    assert values[0] == values[1]


def test_constants_of_the_lower_bound_paper():
    """n = 10, b = 1, D = 1000 eta L, sigma at its threshold, T = 7500."""
    m = noisy_sgd(
        steps=7500,
        dataset_size=10,
        step_size=1e-3,
        gradient_sensitivity=1.0,
        noise_std=1000 * math.sqrt(1e-3 / 7500),
        batching=Batching.WITHOUT_REPLACEMENT,
    )
    assert bounds.evaluate("bsa24.theorem_4_8", m).epsilon(0.01) == pytest.approx(1762, rel=1e-3)


def reference_mechanism(steps):
    return sampled(
        steps=steps,
        dataset_size=1000,
        batch_size=50,
        step_size=0.02,
        noise_std=0.5,
        lipschitz=None,
        gradient_sensitivity=1.0,
    )


def test_theorem_4_10_reference_value_and_its_optimum():
    m = reference_mechanism(10**6)
    given = bounds.evaluate("bsa24.theorem_4_10", m, tau=10**6 - 25_000).epsilon(1e-5)
    assert given == pytest.approx(5.91368, rel=2e-5)
    curve = bounds.evaluate("bsa24.theorem_4_10", m)
    best = curve.epsilon(1e-5)
    assert best <= given
    for length in (12_000, 20_000, 22_000, 26_000, 50_000):
        tau = 10**6 - length
        assert best <= bounds.evaluate("bsa24.theorem_4_10", m, tau=tau).epsilon(1e-5) + 1e-4
    # the answers of one curve belong together
    assert curve.delta(best) == pytest.approx(1e-5, rel=1e-4)
    member = curve.member(curve.best_length(5))
    assert member.epsilon(1e-5) == best
    assert curve.beta(0.01) >= member.beta(0.01) > 0.8
    lengths, crossing = np.arange(1.0, 60_000.0), math.sqrt(2) * m.diameter / m.step_std
    per_step = curve.step.renyi(3.0)
    assert curve.renyi(3.0) == pytest.approx(
        np.min(lengths * per_step + 3 * crossing**2 / (2 * lengths)), rel=1e-12
    )


def test_theorem_4_10_falls_with_steps_and_with_noise():
    short, long = (bounds.evaluate("bsa24.theorem_4_10", reference_mechanism(t)) for t in (9, 12))
    assert long.epsilon(1e-3) < short.epsilon(1e-3)
    assert short.best_length(3) == 9
    noisy = sampled(steps=200, noise_std=0.6)
    assert bounds.evaluate("bsa24.theorem_4_10", noisy, tau=100).epsilon(1e-5) < bounds.evaluate(
        "bsa24.theorem_4_10", sampled(steps=200), tau=100
    ).epsilon(1e-5)


def test_tau_is_checked():
    m = sampled(steps=10)
    with pytest.raises(ValueError, match=r"tau must be at most steps - 1 \(9\), got 10"):
        bounds.evaluate("bsa24.theorem_4_10", m, tau=10)
    with pytest.raises(ValueError, match=r"tau must be a whole number of at least 0, got 1\.5"):
        bounds.evaluate("bsa24.theorem_4_10", m, tau=1.5)


@pytest.mark.parametrize(
    ("id", "m", "message"),
    [
        ("4_1", sampled(), "needs full batches, got batching='without replacement'"),
        ("4_3", sampled(), "needs full batches, got batching='without replacement'"),
        ("4_3", full(smoothness=30.0), "got step_size=0.1 and smoothness=30.0"),
        ("4_3", full(diameter=None), "needs a bounded domain, got diameter=None"),
        ("4_8", full(), "needs batches sampled without replacement, got batching='full'"),
        (
            "4_8",
            sampled(batching=Batching.POISSON),
            "needs batches sampled without replacement, got batching='poisson'",
        ),
        ("4_10", sampled(convex=False), "needs convex losses, got convex=False"),
        ("4_10", sampled(smoothness=None), "needs eta <= 2/M .*, got smoothness=None"),
        ("4_1", full(batch_size=10, batching=Batching.CYCLIC), "got batching='cyclic'"),
    ],
)
def test_refusals_name_the_assumption_and_the_value(id, m, message):
    with pytest.raises(bounds.NotApplicable, match=message):
        bounds.evaluate(f"bsa24.theorem_{id}", m)
    assert f"bsa24.theorem_{id}" not in bounds.applicable(m)

"""Bok, Su and Altschuler (2024): every theorem against its derivation, and exact pairs."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import numpy as np
import pytest

from audit import Batching, Relation, Release, bounds, exact
from audit.bounds.accounting import SubsampledGaussian, compose, family_sensitivity
from audit.bounds.bsa24 import inverse_temperature
from audit.constructions import QuadraticPair
from tests.bounds import reference
from tests.choices import RELATIONS
from tests.mechanisms import noisy_sgd

# ------------------------------------------------------------------------ full and sampled batches


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
    sizes = {"dataset_size": n, "batch_size": n, "step_size": 1.0, "noise_std": 1.0}
    m = full(lipschitz=None, gradient_sensitivity=10.0, **sizes)
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
    assert "bsa24.theorem_4_3" not in bounds.applicable(full(diameter=0.3, steps=29))


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


reference_mechanism = partial(
    sampled, dataset_size=1000, batch_size=50, step_size=0.02, lipschitz=None,
    gradient_sensitivity=1.0,
)  # fmt: skip


def test_theorem_4_10_reference_value():
    m = reference_mechanism(steps=10**6)
    given = bounds.evaluate("bsa24.theorem_4_10", m, tau=10**6 - 25_000)
    assert given.epsilon(1e-5) == pytest.approx(5.91368, rel=2e-5)
    curve = bounds.evaluate("bsa24.theorem_4_10", m)
    lengths, crossing = np.arange(1.0, 60_000.0), math.sqrt(2) * m.diameter / m.step_std
    per_step = curve.step.renyi(3.0)
    assert curve.renyi(3.0) == pytest.approx(
        np.min(lengths * per_step + 3 * crossing**2 / (2 * lengths)), rel=1e-12
    )


@pytest.mark.slow
def test_theorem_4_10_takes_the_best_length():
    m = reference_mechanism(steps=10**6)
    curve = bounds.evaluate("bsa24.theorem_4_10", m)
    best = curve.epsilon(1e-5)
    for length in (12_000, 22_000, 25_000, 50_000):
        tau = 10**6 - length
        assert best <= bounds.evaluate("bsa24.theorem_4_10", m, tau=tau).epsilon(1e-5) + 1e-4
    # the answers of one curve belong together
    assert curve.delta(best) == pytest.approx(1e-5, rel=1e-4)
    member = curve.member(curve.best_length(5))
    assert member.epsilon(1e-5) == best
    assert curve.beta(0.01) >= member.beta(0.01) > 0.8


def test_theorem_4_10_falls_with_steps_and_with_noise():
    short, long = (
        bounds.evaluate("bsa24.theorem_4_10", reference_mechanism(steps=t)) for t in (9, 12)
    )
    assert long.epsilon(1e-3) < short.epsilon(1e-3)
    assert short.best_length(3) == 9
    noisy, less = (
        bounds.evaluate("bsa24.theorem_4_10", sampled(steps=20, noise_std=s), tau=10)
        for s in (0.6, 0.5)
    )
    assert noisy.epsilon(1e-5) < less.epsilon(1e-5)
    m = sampled(steps=10)
    with pytest.raises(ValueError, match=r"tau must be at most steps - 1 \(9\), got 10"):
        bounds.evaluate("bsa24.theorem_4_10", m, tau=10)
    with pytest.raises(ValueError, match=r"tau must be a whole number of at least 0, got 1\.5"):
        bounds.evaluate("bsa24.theorem_4_10", m, tau=1.5)


# ------------------------------------------------------------------------------- convergent bounds


smooth = partial(
    noisy_sgd,
    steps=20,
    dataset_size=4,
    batch_size=4,
    step_size=0.1,
    gradient_sensitivity=1.0,
    smoothness=2.0,
    strong_convexity=0.5,
    lipschitz=None,
    diameter=None,
)


cyclic = partial(smooth, batching=Batching.CYCLIC, batch_size=1)


def mu(id, m, **options):
    return bounds.evaluate(f"bsa24.{id}", m, **options).mu


@pytest.mark.parametrize(
    ("steps", "ours", "composed"), [(20, 1.68121, 1.76006), (80, 2.51047, 3.84861)]
)
def test_figure_1(steps, ours, composed):
    one = {"dataset_size": 1, "batch_size": 1, "step_size": 0.05, "noise_std": 10.0}
    m = smooth(steps=steps, smoothness=1.0, strong_convexity=1.0, **one)
    for id, expected in (("4_2", ours), ("4_1", composed)):
        found = bounds.evaluate(f"bsa24.theorem_{id}", m).epsilon(1e-5)
        assert found == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("c", [0.0, 1e-6, 0.3, 0.9, 0.9999])
@pytest.mark.parametrize("steps", [1, 2, 17, 10**6])
def test_theorem_4_2_is_the_quadratic_pair(c, steps):
    relation = Relation.ZERO_OUT if steps == 17 else Relation.REPLACE_ONE
    curvatures = {"strong_convexity": (1 - c) / 0.1, "smoothness": (1 + c) / 0.1}
    m = smooth(steps=steps, relation=relation, **curvatures)
    assert m.step_size * (m.smoothness + m.strong_convexity) <= 2 * (1 + 1e-15)
    pair = exact.curve(QuadraticPair(m, m.strong_convexity))
    assert mu("theorem_4_2", m) == pytest.approx(pair.mu, rel=1e-10)
    assert mu("theorem_3_3", m) == pytest.approx(pair.mu, rel=1e-10)


def test_theorem_4_2_is_loose_beyond_the_best_step():
    """c = eta M - 1 = .9: the exact pair alternates, and reaches a 19th."""
    m = smooth(steps=10**4, step_size=0.19, smoothness=10.0, strong_convexity=1e-3)
    assert m.contraction == pytest.approx(0.9998, abs=1e-3)
    fast = dataclasses.replace(m, strong_convexity=0.1 / 0.19)
    assert fast.contraction == pytest.approx(0.9)
    pairs = [exact.curve(QuadraticPair(fast, k)).mu for k in (fast.strong_convexity, 10.0)]
    assert max(pairs) <= mu("theorem_4_2", fast) * (1 + 1e-12)
    only = smooth(steps=10**4, step_size=0.19, smoothness=10.0, strong_convexity=10.0)
    assert mu("theorem_4_2", only) / exact.curve(QuadraticPair(only, 10.0)).mu == pytest.approx(
        19.0
    )


@pytest.mark.parametrize("id", ["theorem_4_2", "theorem_4_5"])
def test_the_limit_of_no_contraction(id):
    m = smooth(strong_convexity=1e-15) if id == "theorem_4_2" else cyclic(strong_convexity=1e-15)
    length = m.dataset_size // m.batch_size
    square = m.steps if length == 1 else 1 + (m.steps / length - 1) / length
    assert mu(id, m) == pytest.approx(math.sqrt(square) / m.batch_size, rel=1e-12)


def test_theorem_4_5_as_printed():
    m = cyclic(steps=12)
    c, length, epochs = m.contraction, 4, 3
    ratio = 1 / (m.batch_size * m.noise_std)
    late = c ** (length * (epochs - 1))
    inner = c ** (2 * length - 2) * (1 - c**2) / (1 - c**length) ** 2 * (1 - late) / (1 + late)
    assert mu("theorem_4_5", m) == pytest.approx(ratio * math.sqrt(1 + inner), rel=1e-13)
    rho = ratio**2 / 2 * (1 + c ** (length - 2) * (1 - c**2) / (1 - c**length) ** 2 * (1 - late))
    renyi = bounds.evaluate("bsa24.table_1_renyi", m).renyi(3.0)
    assert renyi == pytest.approx(3 * rho, rel=1e-13)
    assert bounds.evaluate("bsa24.theorem_4_5", m).renyi(3.0) <= renyi
    assert mu("theorem_4_5", cyclic(steps=4)) == mu("theorem_4_4", cyclic(steps=4)) == ratio


def test_one_batch_an_epoch_is_the_full_batch():
    one = cyclic(batch_size=4)
    assert mu("theorem_4_4", one) == mu("theorem_4_1", smooth())
    # 4.5 does not become 4.2: it lets go of the last step first
    assert mu("theorem_4_2", smooth()) < mu("theorem_4_5", one) < mu("theorem_4_4", one)


def test_theorem_4_6_reference_and_its_threshold():
    m = cyclic(steps=400, strong_convexity=0.0, diameter=2.5)
    expected = math.sqrt(1 + 3 * 2.5 / (0.1 * 4) + 25 / 4)
    assert mu("theorem_4_6", m) == pytest.approx(expected, rel=1e-13)
    assert "bsa24.theorem_4_6" not in bounds.applicable(dataclasses.replace(m, steps=96))
    assert mu("theorem_4_6", dataclasses.replace(m, steps=100)) == pytest.approx(expected)


def random_full(random):
    convex = random.random() < 0.7
    smoothness = random.uniform(0.1, 19.9)
    return smooth(
        steps=int(random.integers(1, 40)),
        smoothness=smoothness,
        strong_convexity=random.choice([0, random.uniform(0, smoothness)]) if convex else 0.0,
        convex=convex,
        diameter=random.choice([None, 10 ** random.uniform(-3, 1)]),
    )


def test_theorem_3_3_is_the_optimum_over_shifts():
    random = np.random.default_rng(3)
    for _ in range(40):
        m = random_full(random)
        best = mu("theorem_3_3", m)
        assert best == pytest.approx(mu("theorem_3_3", m, tau=0), rel=1e-12)
        for _ in range(4):
            shifts = np.append(random.random(random.integers(0, m.steps)) ** 3, 1.0)
            if m.diameter is not None or m.contraction <= 1:
                assert mu("theorem_3_3", m, shifts=shifts) >= best * (1 - 1e-12)
        for id in ("theorem_4_1", "theorem_4_2", "theorem_4_3"):
            if f"bsa24.{id}" in bounds.applicable(m):
                assert best <= mu(id, m) * (1 + 1e-12)


def test_theorem_3_3_reaches_its_value_with_its_shifts():
    m = smooth(steps=30, diameter=0.2)
    c, s, length = m.contraction, 0.1 / 4, 12
    z = min(0.2, s * (1 - c ** (30 - length)) / (1 - c))
    powers = c ** np.arange(length - 1, -1, -1.0)
    a = (c**length * z + s * powers.sum()) / (powers**2).sum() * powers
    shifts = []
    for value in a:
        shifts.append(value / (c * z + s))
        z = c * z + s - value
    shifts[-1] = 1.0
    expected = math.sqrt((a**2).sum()) / m.step_std
    assert mu("theorem_3_3", m, shifts=shifts) == pytest.approx(expected, rel=1e-12)
    assert mu("theorem_3_3", m, shifts=np.ones(30)) == pytest.approx(mu("theorem_4_1", m))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": 20}, r"tau must be at most steps - 1 \(19\), got 20"),
        ({"shifts": [0.5, 0.9]}, r"shifts must .* end with 1, got 0\.9 at the end"),
        ({"shifts": [1.5, 1.0]}, r"shifts must be in \[0, 1\], got 1\.5"),
        ({"shifts": [1.0] * 21}, "shifts must have at most 20 numbers, got 21"),
        ({"shifts": [1.0], "tau": 5}, "shifts must have 15 numbers, got 1"),
        ({"shifts": []}, "shifts must"),
        ({"shifts": "abc"}, "shifts must"),
    ],
)
def test_infeasible_choices_raise(options, message):
    with pytest.raises(ValueError, match=message):
        bounds.evaluate("bsa24.theorem_3_3", smooth(), **options)


stochastic = partial(smooth, batching=Batching.WITHOUT_REPLACEMENT, batch_size=1)


def test_theorem_4_9_as_printed():
    m = stochastic(steps=6, noise_std=5.0)
    c, r, tau = m.contraction, 2 * math.sqrt(2) / m.noise_std, 2
    gaussian = r * (c ** (6 - tau + 1) - c**6) / (1 - c)
    expected = compose(
        SubsampledGaussian(0.25, r / math.sqrt(2)),
        6 - tau,
        gaussian,
        beside=SubsampledGaussian(0.25, r),
    )
    curve = bounds.evaluate("bsa24.theorem_4_9", m, tau=tau)
    assert curve.epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-9)
    # between the compositions with all steps as small, and as large, as any of them
    low, high = (
        compose(SubsampledGaussian(0.25, x), 7 - tau, gaussian).epsilon(1e-5)
        for x in (r / math.sqrt(2), r)
    )
    assert low < curve.epsilon(1e-5) < high
    orders = np.array([1.5, 8.0])
    once = SubsampledGaussian(0.25, r).divergence(orders)
    many = SubsampledGaussian(0.25, r / math.sqrt(2)).divergence(orders)
    assert curve.renyi(orders) == pytest.approx(4 * many + once + orders * gaussian**2 / 2)


def test_theorem_4_9_takes_the_best_tau():
    m = stochastic(steps=9, noise_std=8.0)
    curve = bounds.evaluate("bsa24.theorem_4_9", m)
    each = [bounds.evaluate("bsa24.theorem_4_9", m, tau=tau) for tau in range(1, 9)]
    assert curve.renyi(4.0) == pytest.approx(min(c.renyi(4.0) for c in each), rel=1e-12)
    assert curve.epsilon(1e-5) <= min(c.epsilon(1e-5) for c in each[::3]) * (1 + 1e-3)
    for tau, message in ((0, "at least 1, got 0"), (9, r"at most steps - 1 \(8\), got 9")):
        with pytest.raises(ValueError, match=f"tau must be .*{message}"):
            bounds.evaluate("bsa24.theorem_4_9", m, tau=tau)


# F of n = 1 with sigma = sqrt(2/eta): Langevin Monte Carlo itself.
langevin = partial(smooth, dataset_size=1, batch_size=1, step_size=0.02, noise_std=10.0)


def test_langevin_bounds_as_printed():
    m, eta, strong = langevin(), 0.02, 0.5
    assert inverse_temperature(m) == pytest.approx(1.0, rel=1e-15)
    expected = math.sqrt((2 - eta * strong) / 2 / strong)
    assert mu("proposition_5_1", m) == mu("corollary_5_2", m) == pytest.approx(expected, rel=1e-14)
    # the limit of Theorem 4.2, from below
    assert mu("theorem_4_2", m) < expected
    long = dataclasses.replace(m, steps=10**5)
    assert mu("theorem_4_2", long) == pytest.approx(expected, rel=1e-13)
    target = dataclasses.replace(m, release=Release.EXPONENTIAL_MECHANISM)
    assert mu("corollary_5_2", target) == pytest.approx(1 / math.sqrt(strong), rel=1e-14)


def test_log_concave_bounds_as_printed():
    m = langevin(lipschitz=1.5, gradient_sensitivity=None, strong_convexity=0.0, diameter=0.4)
    expected = math.sqrt(4 * 1.5 * 0.4 + 2 * 0.02 * 1.5**2)
    assert mu("corollary_5_4", m) == pytest.approx(expected, rel=1e-14)
    for steps in (1, 10, 14, 1000):  # at every time
        run = dataclasses.replace(m, steps=steps)
        assert mu("theorem_3_3", run) <= expected
    target = dataclasses.replace(m, release=Release.EXPONENTIAL_MECHANISM)
    assert mu("corollary_5_4", target) == pytest.approx(2 * math.sqrt(1.5 * 0.4), rel=1e-14)
    pure = bounds.evaluate("bsa24.mcsherry_talwar", target)
    assert pure.bound == pytest.approx(2 * 1.5 * 0.4, rel=1e-14)
    assert pure.epsilon(1e-12) == pytest.approx(pure.bound, rel=1e-9)


def test_rescaled_langevin_is_the_same():
    """n records, another temperature: only beta F, h = eta/beta and their constants matter."""
    m = smooth(dataset_size=5, batch_size=5, noise_std=3.0, step_size=0.05)
    beta = 2 / (0.05 * 9)
    same = langevin(
        step_size=0.05 / beta,
        noise_std=math.sqrt(2 * beta / 0.05),
        gradient_sensitivity=beta / 5,
        smoothness=2 * beta,
        strong_convexity=0.5 * beta,
    )
    for id in ("proposition_5_1", "corollary_5_2", "theorem_4_2"):
        assert mu(id, m) == pytest.approx(mu(id, same), rel=1e-13)


def test_the_exponential_mechanism_of_a_linear_loss_is_within_its_bounds():
    """On [-D/2, D/2] with F = +-L x the loss ratio reaches L D, half of McSherry and Talwar's."""
    losses = {"lipschitz": 1.0, "gradient_sensitivity": None, "strong_convexity": 0.0}
    target = langevin(diameter=2.0, release=Release.EXPONENTIAL_MECHANISM, **losses)
    x = np.linspace(-1, 1, 20_001)
    p, q = np.exp(-x), np.exp(x)
    p, q = p / p.sum(), q / q.sum()
    for epsilon in (0.0, 0.5, 1.5):
        delta = np.sum(np.maximum(p - math.exp(epsilon) * q, 0))
        for id in ("corollary_5_4", "mcsherry_talwar"):
            assert delta <= bounds.evaluate(f"bsa24.{id}", target).delta(epsilon)
    assert float(np.max(np.abs(np.log(p / q)))) == pytest.approx(2.0, rel=1e-9)


def test_clipped_gradients_bound_no_potential():
    """F = 10 x is clipped to 1, and the exponential mechanism does not know."""
    m = smooth(release=Release.EXPONENTIAL_MECHANISM, clip_norm=1.0, lipschitz=None)
    with pytest.raises(bounds.NotApplicable, match="needs unclipped gradients"):
        bounds.evaluate("bsa24.mcsherry_talwar", m)


def test_inactive_clipping_changes_nothing():
    m = smooth(lipschitz=0.5, gradient_sensitivity=None, strong_convexity=0.0)
    assert mu("theorem_4_1", dataclasses.replace(m, clip_norm=0.5)) == mu("theorem_4_1", m)

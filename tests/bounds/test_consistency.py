"""Bounds are monotone in steps and data, and agree where they should."""

import dataclasses
import math

import numpy as np
import pytest

import audit
from audit import Batching, Losses, NotApplicable, bounds, exact
from audit.bounds.accounting import iteration
from audit.constructions import ChangingPair, Phase, PiecewiseLinear, TwoSidedWalk
from tests.mechanisms import noisy_sgd

FULL = noisy_sgd(steps=1000, dataset_size=20, step_size=0.1, noise_std=0.5)
CYCLIC = dataclasses.replace(FULL, batch_size=4, batching=Batching.CYCLIC)
SAMPLED = dataclasses.replace(
    FULL, batch_size=4, steps=40, noise_std=3.0, batching=Batching.WITHOUT_REPLACEMENT
)


def renyi(id, m, alpha=3.0):
    if bounds.CATALOGUE[id].failures(m):
        return math.inf
    return bounds.evaluate(id, m).renyi(alpha)


def least(ids, m, alpha=3.0):
    return min(renyi(f"bsa24.theorem_{id}", m, alpha) for id in ids)


PAIRS = [
    (("4_1", "4_3"), FULL),
    (("4_4", "4_6"), CYCLIC),
    (("4_8", "4_10"), SAMPLED),
    (("3_3",), FULL),
    (("4_2",), dataclasses.replace(FULL, strong_convexity=0.1)),
    (("4_5",), dataclasses.replace(CYCLIC, strong_convexity=0.1)),
]


@pytest.mark.parametrize(("ids", "m"), PAIRS)
def test_composed_or_convergent_rises_with_steps(ids, m):
    counts = [1, 2, 3, 7, 20, 60, 80, 100, 120, 200, 400, 4000]
    runs = [dataclasses.replace(m, steps=5 * count) for count in counts]
    values = [least(ids, run) for run in runs]
    assert np.all(np.diff(values) >= -1e-9 * np.array(values[1:]))


@pytest.mark.parametrize(("ids", "m"), [*PAIRS[:2], *PAIRS[3:]])
def test_bounds_fall_with_the_records(ids, m):
    """But for the ceilings of 4.3 and 4.6, which may cost one shift more."""
    values, slack = [], []
    cyclic = m.batching is Batching.CYCLIC
    for n in range(8, 80, 4):
        b = m.batch_size if cyclic else n
        steps = 3000 * n // b if cyclic else m.steps
        changed = dataclasses.replace(m, dataset_size=n, batch_size=b, steps=steps)
        shift = m.sensitivity / (b * m.noise_std)
        ceilings = {"4_3": 1.0, "4_6": b / n}
        slack.append(sum(ceilings.get(id, 0.0) for id in ids) * 1.5 * shift**2)
        values.append(least(ids, changed))
    assert np.all(np.diff(values) <= np.array(slack[1:]) + 1e-9 * np.array(values[1:]))
    assert values[-1] < values[0]


def test_theorem_3_3_has_no_ceiling():
    wide = dataclasses.replace(FULL, diameter=1.03)
    runs = [dataclasses.replace(wide, dataset_size=n, batch_size=n) for n in range(2, 41)]
    assert np.all(np.diff([least(("3_3",), run) for run in runs]) < 0)


def test_sampled_bounds_fall_with_the_records():
    runs = [dataclasses.replace(SAMPLED, dataset_size=n) for n in (5, 8, 13, 30, 100)]
    for ids in (("4_8",), ("4_10",)):
        assert np.all(np.diff([least(ids, run) for run in runs]) < 0)


def full_batches(random):
    eta = float(random.choice([0.01, 0.1, 1.0]))
    n = int(random.integers(1, 50))
    return noisy_sgd(
        steps=int(10 ** random.uniform(0, 5)),
        dataset_size=n,
        step_size=eta,
        noise_std=float(10 ** random.uniform(-2, 2)),
        smoothness=float(random.uniform(0.1, 2.0)) / eta,
        diameter=float(10 ** random.uniform(-3, 2)),
    )


def test_the_papers_on_full_batches_are_in_order():
    """BSA24 and CL25 are never above AT22 on full batches, nor is Theorem 3.3 above any."""
    random = np.random.default_rng(7)
    for _ in range(100):
        m = full_batches(random)
        old = renyi("at22.b_1", m)
        assert least(("4_1", "4_3"), m) <= old * (1 + 1e-12)
        assert least(("3_3",), m) <= least(("4_1", "4_3"), m) * (1 + 1e-12)
        assert renyi("cl25.theorem_3_1", m) <= old * (1 + 1e-9)
        assert least(("3_3",), m) <= renyi("cl25.theorem_3_1", m) * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 3, 10])
def test_one_pass_is_cyclic_batches_of_one_record(n):
    """One pass over n records is (5.4) of AT22 at b = 1, and n passes are rounded up."""
    one = dataclasses.replace(
        CYCLIC, dataset_size=n, batch_size=1, steps=n, diameter=None, noise_std=5.0
    )
    for index in (1, n):
        old = bounds.evaluate("fmtt18.theorem_23", one, index=index).renyi(2.0)
        new = bounds.evaluate("at22.eq_5_4", one, index=index).renyi(2.0)
        assert old == pytest.approx(new, rel=1e-12)
    all_passes = dataclasses.replace(one, steps=n * n)
    assert renyi("at22.eq_5_4", all_passes) <= renyi("fmtt18.theorem_35", all_passes)
    for m in (one, all_passes, FULL):
        same = renyi("at22.proposition_2_17", m)
        assert renyi("fmtt18.theorem_22", m) == pytest.approx(same, rel=1e-12)


def test_one_step_is_the_gaussian_mixture():
    """Every composition bound is exact in epsilon at one step."""
    one = dataclasses.replace(FULL, steps=1)
    gaussian = bounds.evaluate("bsa24.theorem_4_1", one)
    for id in ("bsa24.theorem_3_3", "fmtt18.theorem_22", "at22.proposition_2_17"):
        assert bounds.evaluate(id, one).renyi(4.0) == pytest.approx(gaussian.renyi(4.0), rel=1e-12)


# ----- Settings at which entries once claimed too little, each with the exact value that showed it


UNEVEN = noisy_sgd(
    steps=4, dataset_size=2, step_size=(10.0, 0.1, 10.0, 0.1), smoothness=0.1, diameter=None,
    batching=Batching.CYCLIC,
)  # fmt: skip


@pytest.mark.parametrize("batching", [Batching.CYCLIC, Batching.SHUFFLED])
@pytest.mark.parametrize(
    "id",
    ["fmtt18.theorem_22", "at22.proposition_2_17", "at22.proposition_3_2", "at22.proposition_5_4"],
)
def test_the_worst_place_of_a_schedule_need_not_be_the_last(id, batching):
    m = dataclasses.replace(UNEVEN, batching=batching, diameter=200.0)
    claimed = bounds.evaluate(id, m)
    # the walls are far enough not to matter; the first record moves in the two long steps
    first = exact.curve(TwoSidedWalk(dataclasses.replace(UNEVEN, diameter=None), position=0))
    assert first.renyi(2.0) == pytest.approx(7.9992, abs=1e-4)
    assert claimed.renyi(2.0) >= first.renyi(2.0) * (1 - 1e-12)
    assert bounds.best(m, delta=1e-5).epsilon >= first.epsilon(1e-5) * (1 - 1e-12)


def test_schedules_without_a_worst_place_take_no_allocations():
    with pytest.raises(ValueError, match="shifts must be given with allocations if step"):
        bounds.evaluate("fmtt18.theorem_22", UNEVEN, allocations=(0.0, 0.1, 0.0, 0.1))


def test_many_places_are_taken_together():
    # a thousand batches: the record is let into every batch, which is loose and never wrong
    steps = tuple(0.1 / math.sqrt(1 + k) for k in range(3000))
    m = dataclasses.replace(UNEVEN, steps=3000, dataset_size=1000, step_size=steps, smoothness=1.0)
    claimed = bounds.evaluate("fmtt18.theorem_22", m).renyi(2.0)
    for position in (0, 999):
        law = exact.curve(TwoSidedWalk(m, position=position))
        assert law.renyi(2.0) <= claimed


def test_sampled_gaussians_ask_for_more_than_a_sensitivity():
    losses = {"gradient_sensitivity": 1.0, "lipschitz": None, "smoothness": None, "diameter": None}
    m = noisy_sgd(dataset_size=20, batching=Batching.WITHOUT_REPLACEMENT, **losses)
    # records with gradients at the corners of a triangle of sides 1, by quadrature in the plane
    x = np.linspace(-9, 10, 1201)
    a, b = np.meshgrid(x, x, indexing="ij")

    def normal(p, q):
        return np.exp(-((a - p) ** 2 + (b - q) ** 2) / 2) / (2 * math.pi)

    rate = 1 / 20
    others = (1 - rate) * normal(0, 0)
    first = others + rate * normal(1, 0)
    second = others + rate * normal(0.5, math.sqrt(3) / 2)
    divergence = math.log(float(np.sum(first**2 / second)) * (x[1] - x[0]) ** 2)
    assert divergence == pytest.approx(0.00459226, abs=2e-8)
    bounded = dataclasses.replace(m, gradient_sensitivity=None, lipschitz=0.5)
    assert bounds.evaluate("at22.sampled_gaussian", bounded).renyi(2.0) < divergence
    with pytest.raises(NotApplicable, match="gradients bounded by L"):
        bounds.evaluate("at22.sampled_gaussian", m)
    less = dataclasses.replace(m, lipschitz=0.6)
    with pytest.raises(NotApplicable, match="gradients bounded by L"):
        bounds.evaluate("at22.sampled_gaussian", less)
    for id in bounds.applicable(m):
        if bounds.entry(id).status.sound:
            assert bounds.evaluate(id, m).renyi(2.0) >= divergence


def test_a_regulariser_is_not_bounded_by_the_lipschitz_constant():
    m = noisy_sgd(steps=5, dataset_size=10, lipschitz=0.01, strong_convexity=10.0, smoothness=None)
    # the last step may map the domain to nine times its size: D + 2 eta K does not bound it
    with pytest.raises(NotApplicable, match="steps whose effect on distances is bounded"):
        bounds.evaluate("cl25.output_perturbation_corrected", m)


def test_best_goes_on_where_one_bound_cannot(monkeypatch):
    monkeypatch.setattr(iteration, "LONGEST", 50)  # step sizes of 5,000 steps at most
    steps = 5001
    sizes = tuple(np.where(np.arange(steps) % 2, 0.1, 0.2).tolist())
    m = noisy_sgd(steps=steps, dataset_size=2, step_size=sizes, noise_std=1000.0)
    with pytest.raises(ValueError, match="shifts must leave at most 5000 steps, got 5001"):
        bounds.evaluate("fmtt18.theorem_22", m).epsilon(1e-5)
    best = audit.bounds.best(m, delta=1e-5)
    assert "fmtt18.theorem_22" not in best.compared
    assert best.epsilon < 10


@pytest.mark.parametrize("excess", [1e-12, 1e-13, 1e-14])
def test_steps_that_expand_are_not_contractive(excess):
    """After T steps distances have grown by (1 + 2 excess)^T, 2e-6 at T = 1e6."""
    m = dataclasses.replace(UNEVEN, step_size=0.5, smoothness=4 * (1 + excess), diameter=200.0)
    assert m.contraction > 1
    with pytest.raises(NotApplicable, match="needs eta <= 2/M"):
        bounds.evaluate("own.coupling", m)


def test_what_holds_for_a_fixed_loss_only_is_refused() -> None:
    """The stationary law of a fixed loss leaks at most 2 v D/s^2; changing losses leak more."""
    a, s = 0.1, 0.1
    m = noisy_sgd(
        steps=600, dataset_size=1000, noise_std=s, lipschitz=500 * a * s**2, losses=Losses.CHANGING
    )
    push = PiecewiseLinear.constant
    unit = s**2 * 1000 / 999  # the drift of a step in units of s^2/D
    drifts = ((472, 0.0), (64, 0.4), (32, 1.3), (16, 3.2), (8, 5.4), (4, 7.8), (4, 5.0))
    record = push(-m.lipschitz), push(m.lipschitz)
    phases = tuple(Phase(steps, push(drift * unit), *record) for steps, drift in drifts)
    law = exact.curve(ChangingPair(m, phases, start=0.5), threads=1)
    assert law.epsilon_bracket(1e-5)[0] > 2 * a
    with pytest.raises(bounds.NotApplicable, match="needs another losses, got losses='changing'"):
        bounds.evaluate("bsa24.corollary_5_2", m)

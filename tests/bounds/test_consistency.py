"""Bounds are monotone in steps and data, and agree where they should."""

import dataclasses
import math

import numpy as np
import pytest

from audit import Batching, bounds
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


@pytest.mark.parametrize("n", range(2, 40))
def test_theorem_3_3_has_no_ceiling(n):
    few, more = (
        dataclasses.replace(FULL, dataset_size=k, batch_size=k, diameter=1.03) for k in (n, n + 1)
    )
    assert least(("3_3",), more) < least(("3_3",), few)


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
    for _ in range(300):
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

"""Random allocation: closed forms, quadrature, samples of the pair, and other packages' values."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

from audit.curves import GaussianCurve, Order
from audit.curves.brackets import BracketError
from audit.dominating import DominatingCurve, dominating_curve
from audit.dominating import random_allocation as module
from audit.dominating.curve import GridComposition
from audit.dominating.poisson import poisson_curve
from audit.dominating.random_allocation import largest_sum, mean_of_powers, random_allocation
from audit.mechanism import Batching, Relation
from audit.numerics.symmetric_sums import SymmetricSums
from tests.dominating.random_brackets import poisson as poisson_steps
from tests.mechanisms import dp_sgd
from tests.reference import lognormal_excess
from tests.slow import slow

Array = NDArray[np.float64]
CELLS = 1024
ZERO_OUT, REPLACE_ONE = Relation.ZERO_OUT, Relation.REPLACE_ONE


def allocation(z: float, per_epoch: int, steps: int, k: int = 1, cells: int = CELLS):  # type: ignore[no-untyped-def]
    return random_allocation(
        z, steps_per_epoch=per_epoch, steps=steps, participations=k, cells=cells
    )


@pytest.mark.parametrize(("z", "epochs", "delta"), [(0.5, 1, 1e-6), (3.0, 30, 1e-12)])
def test_one_step_an_epoch_is_a_gaussian_mechanism(z: float, epochs: int, delta: float) -> None:
    exact = GaussianCurve(math.sqrt(epochs) / z).epsilon(delta)
    for order in Order:
        low, high = allocation(z, 1, epochs).epsilon_bracket(delta, order)
        assert low < exact < high
        assert high - low < 1e-3


@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize("z", [0.5, 2.0])
def test_few_steps_by_quadrature(z: float, steps: int) -> None:
    """E(S - a)_+ by nested Gauss rules; E(1 - e^eps S)_+ = 1 - a^-1 + a^-1 E(S - a)_+, a < 1."""
    curve = allocation(z, steps, steps)
    for level in (0.2, 0.8, 1.0, 1.5, 4.0):
        forward = float(lognormal_excess(1 / z, level * steps, steps)) / steps
        low, high = curve.delta_bracket(math.log(level), Order.FORWARD)
        # 60 nodes a variable: 1e-9
        assert low - 1e-8 < forward < high + 1e-8
        assert high - low < 1e-3
        reverse = (forward - 1 + level) / level
        low, high = curve.delta_bracket(-math.log(level), Order.REVERSE)
        assert low - 1e-7 < reverse < high + 1e-7


def test_an_epoch_that_is_cut_short() -> None:
    """One step of two: S = (1 + Y)/2, one step of Poisson sampling at rate 1/2."""
    curve = allocation(1.0, 2, 1, cells=4096)
    for level in (0.8, 1.2, 3.0):
        exact = 0.5 * float(lognormal_excess(1.0, 2 * level - 1))
        low, high = curve.delta_bracket(math.log(level), Order.FORWARD)
        assert low < exact < high
        assert high - low < 1e-3
    whole, longer = allocation(1.0, 2, 2), allocation(1.0, 2, 3)
    assert curve.epsilon(1e-5) < whole.epsilon(1e-5) < longer.epsilon(1e-5)


@pytest.mark.parametrize(
    ("z", "steps", "epochs", "theirs"),
    [
        # gaussian_allocation_epsilon_range of PLD-accounting 2.0 at delta = 1e-6
        (0.5, 100, 1, (6.382617623720973, 6.406087547940433)),
        slow(1.0, 100, 1, (0.8436711728211483, 0.8744979111842018)),
        (1.0, 10, 5, (4.876484580669474, 4.953241701769475)),
        slow(0.4, 1000, 1, (7.535827594452816, 7.556759872448075)),
    ],
)
def test_the_bracket_lies_within_that_of_the_authors(z, steps, epochs, theirs):
    low, high = allocation(z, steps, steps * epochs, cells=4096).epsilon_bracket(1e-6)
    assert theirs[0] < low < high < theirs[1]
    assert high - low < 1e-3


def subsets_mean(values: Array, k: int) -> Array:
    """Mean over all k-subsets of columns of the product of the values, one column at a time."""
    sums = [np.ones(len(values)), *(np.zeros(len(values)) for _ in range(k))]
    for column in values.T:
        for order in range(k, 0, -1):
            sums[order] += sums[order - 1] * column
    return sums[k] / math.comb(values.shape[1], k)


def test_several_participations() -> None:
    """Every step: a Gaussian. A larger k leaks more, and the sides keep their order."""
    exact = GaussianCurve(math.sqrt(4.0)).epsilon(1e-6)
    low, high = allocation(1.0, 4, 4, 4).epsilon_bracket(1e-6)
    assert low < exact < high
    assert high - low < 1e-2
    highs = []
    for k in (1, 2, 7):
        low, high = allocation(1.0, 10, 15, k).epsilon_bracket(1e-6)
        assert 0 < low < high
        highs.append(high)
    assert sorted(highs) == highs
    # an epoch that is cut short counts in full
    assert highs[-1] == allocation(1.0, 10, 20, 7).epsilon_bracket(1e-6)[1]


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_a_planted_error_is_caught(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """A tenth of a percent of noise, more or less, is outside of the bracket of a Gaussian."""
    summand = module.summand
    monkeypatch.setattr(module, "summand", lambda z, *rest: summand(factor * z, *rest))
    curve = allocation(1.0, 1, 1, cells=4096)
    if factor < 1:  # more than a step whose place is known
        with pytest.raises(BracketError, match="random allocation in forward order must have ends"):
            curve.epsilon_bracket(1e-6)
        return
    low, high = curve.epsilon_bracket(1e-6)
    assert low < high < GaussianCurve(1.0).epsilon(1e-6)


def test_noise_far_above_the_sensitivity() -> None:
    """The ratio is normal then, of deviation 1/(z sqrt(T)); sums of so narrow laws took hours."""
    low, high = allocation(1e5, 100, 100).epsilon_bracket(1e-8)
    assert low < GaussianCurve(1e-6).epsilon(1e-8) < high < 3 * low


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"participations must be at most steps_per_epoch \(3\)"):
        allocation(1.0, 3, 3, 4)
    with pytest.raises(ValueError, match=r"noise_multiplier must be at least about 0\.04"):
        allocation(0.02, 3, 3)


def test_polynomials_of_few_outcomes_are_those_of_all_products() -> None:
    """Groups of their own for every pair lose nothing; fewer groups lose convex functions only."""
    masses, values = np.array([0.2, 0.5, 0.3]), np.array([0.1, 1.0, 4.0])
    once = SymmetricSums(np.array([masses, masses * values, 0 * masses, 0 * masses]), 0.0)
    places = np.array(list(itertools.product(range(3), repeat=4)))
    chances = masses[places].prod(axis=1)
    means = [subsets_mean(values[places], j) * math.comb(4, j) for j in range(4)]
    excess = float(chances @ np.maximum(means[3] - 5.0, 0))
    for groups, lost in ((4000, 0.0), (3, 0.02)):
        found = once.times(4, groups)
        assert found.moments.sum(axis=1) == pytest.approx([chances @ mean for mean in means])
        smaller = float(np.maximum(found.moments[3] - 5.0 * found.moments[0], 0).sum())
        assert excess * (1 - lost) - 1e-12 < smaller < excess * (1 + 1e-12)
    assert smaller < excess * (1 - 1e-3)


@pytest.mark.parametrize(
    ("z", "steps", "k", "cells"), [(1.0, 20, 4, 2048), slow(0.7, 16, 14, 1024)]
)
def test_the_lower_side_of_several_participations_is_near_the_samples(z, steps, k, cells):
    """Within 7 % of epsilon, where merging by the sum alone lost a fifth to a third."""
    random = np.random.Generator(np.random.PCG64(6))
    x = random.normal(0.0, z, (100_000, steps))
    x[:, :k] += 1.0  # all sets of k outputs are alike
    losses = np.log(subsets_mean(np.exp((x - 0.5) / z**2), k))
    curve = allocation(z, steps, steps, k, cells)
    low, high = curve.epsilon_bracket(1e-2, Order.FORWARD)
    sampled = [float(np.mean(np.maximum(-np.expm1(e - losses), 0))) for e in (low, high)]
    error = 4 * 0.1 / math.sqrt(len(x))  # of a mean near 1e-2 of numbers up to 1
    assert sampled[1] - error < 1e-2 < sampled[0] + error
    at_most = brentq(
        lambda e: float(np.mean(np.maximum(-np.expm1(e - losses), 0))) - 1e-2 - error, 0, 30
    )
    assert low > 0.93 * at_most


def test_small_masses_are_merged_and_none_is_lost() -> None:
    q, p = np.array([0.5, 1e-280, 0.5, 0.0]), np.array([0.4, 0.6, 1e-290, 0.0])
    merged_q, merged_p = module._merged_tails(q, p)
    assert merged_q.tolist() == pytest.approx([1.0])
    assert merged_p.tolist() == pytest.approx([1.0])


# ---------------- Shuffled batches: adversaries against closed forms, samples and the proven bound


def shuffled(
    z: float, per_epoch: int, steps: int, *, fresh: bool = True, relation: Relation = ZERO_OUT
) -> DominatingCurve:
    batching = Batching.RESHUFFLED if fresh else Batching.SHUFFLED
    return dominating_curve(poisson_steps(steps, 1 / z, per_epoch, 1, relation, batching=batching))


def test_shuffling_leaks_more_than_poisson_sampling() -> None:
    """Chua et al. 2024: the order of the samplers, certified from both sides."""
    low, high = shuffled(0.5, 100, 100).epsilon_bracket(1e-6)
    assert low == pytest.approx(10.9971, abs=1e-4)
    assert low < high == pytest.approx(GaussianCurve(2.0).epsilon(1e-6), rel=1e-11)
    poisson = poisson_curve(0.5, 0.01, 100, ZERO_OUT, accuracy=1e-3)
    # dp-accounting 0.6.0 has 7.9161
    assert poisson.epsilon_bracket(1e-6)[1] == pytest.approx(7.916, abs=1e-2)
    allocation = random_allocation(0.5, steps_per_epoch=100, steps=100, cells=1024)
    assert allocation.epsilon_bracket(1e-6)[1] < poisson.epsilon_bracket(1e-6)[0] < low


def test_the_largest_sum_has_a_closed_form() -> None:
    """P(max < c) = Phi(c/z)^(T-1) Phi((c - mean)/z): the best threshold is found by a search."""
    z, steps, delta = 1.0, 100, 1e-6

    def beyond(c: np.ndarray, mean: float) -> np.ndarray:  # type: ignore[type-arg]
        return 1 - ndtr(c / z) ** (steps - 1) * ndtr((c - mean) / z)

    c = np.linspace(3.0, 7.0, 4001)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.nanmax(np.log((beyond(c, 2.0) - delta) / beyond(c, 1.0)))
    low = GridComposition([(largest_sum(z, steps, steps, (2.0, 1.0)), 1)]).epsilon(delta)
    assert best - 1e-4 < low <= best + 1e-8


@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE])
def test_epochs_of_one_incomplete_pass_are_mixtures(relation: Relation) -> None:
    """An epoch of one batch of 3 of 5 records holds the record with probability 3/5."""
    noise_std = 0.7 / 3 * (2 if relation is REPLACE_ONE else 1)
    m = dp_sgd(steps=2, dataset_size=5, batch_size=3, noise_std=noise_std, relation=relation)
    m = replace(m, batching=Batching.DROP_LAST)
    x = np.linspace(-7.0, 9.0, 1601)

    def density(mean: float) -> np.ndarray:  # type: ignore[type-arg]
        one = 0.4 * norm.pdf(x, 0, 0.7) + 0.6 * norm.pdf(x, mean, 0.7)
        return np.outer(one, one) * 0.01**2

    pairs = [(1.0, 0.0), (0.0, 1.0), *([(2.0, 1.0)] if relation is ZERO_OUT else [])]
    low, high = dominating_curve(m).delta_bracket(1.0, Order.FORWARD)
    exact = [np.maximum(density(a) - math.e * density(b), 0).sum() for a, b in pairs]
    assert max(exact) * (1 - 1e-4) < low <= max(exact) * (1 + 1e-6)
    assert high == pytest.approx(GaussianCurve(math.sqrt(2) / 0.7).delta(1.0), rel=1e-9)


@pytest.mark.parametrize("epochs", [slow(1), 4])
@pytest.mark.parametrize("fresh", [False, True])
def test_one_batch_is_a_gaussian_mechanism(fresh: bool, epochs: int) -> None:
    for relation in (ZERO_OUT, REPLACE_ONE):
        curve = shuffled(1.0, 1, epochs, fresh=fresh, relation=relation)
        exact = GaussianCurve(math.sqrt(epochs)).epsilon(1e-5)
        for order in Order:
            low, high = curve.epsilon_bracket(1e-5, order)
            assert low <= exact <= high
            assert high - low < 1e-3


def test_two_batches_by_quadrature() -> None:
    """Means 1 and 0: E(S - a)_+ of two lognormal variables; the adversary cannot have more."""
    curve = shuffled(1.0, 2, 2, relation=REPLACE_ONE)
    for level in (1.1, 2.0, 5.0):
        exact = float(lognormal_excess(1.0, 2 * level, 2)) / 2
        low, high = curve.delta_bracket(math.log(level))
        assert exact - 1e-4 < low < exact + 1e-8
        assert exact < high


def test_the_mean_of_powers_against_samples() -> None:
    """2e5 samples with a fixed seed, the likelihood ratio as the score: 4 errors, once in 16,000.

    The statistic cannot beat the likelihood ratio, and comes near it.
    """
    z, steps, epsilon = 2.0, 20, 0.25
    random = np.random.Generator(np.random.PCG64(3))
    x = random.normal(0, z, (200_000, steps))
    x[:, 0] += 2
    ratio = np.exp((2 * x - 2) / z**2).mean(axis=1) / np.exp((x - 0.5) / z**2).mean(axis=1)
    values = np.maximum(1 - math.exp(epsilon) / ratio, 0)
    mean, error = float(values.mean()), float(values.std() / math.sqrt(values.size))
    low = GridComposition([(mean_of_powers(z, steps, (2.0, 1.0), 2.5), 1)]).delta(epsilon)
    assert 0.9 * mean < low < mean + 4 * error
    # a planted error: the place of the batch is known
    known = GaussianCurve(1 / z).delta(epsilon)
    assert not known < mean + 4 * error


def test_epochs_and_orders() -> None:
    """An order that is drawn once leaks more; a run cut short leaks less than a whole epoch."""
    ends = {}
    for fresh in (True, False):
        for steps in (2, 10, 15, 20, 30):
            curve = shuffled(1.0, 10, steps, fresh=fresh)
            ends[fresh, steps] = curve.epsilon_bracket(1e-6)
    for fresh in (True, False):
        low = [ends[fresh, steps][0] for steps in (2, 10, 30)]
        assert 0 < low[0] < low[1] < low[2]
        assert ends[fresh, 15][1] == ends[fresh, 20][1]  # an epoch cut short counts in full
        assert all(low <= high for low, high in ends.values())
        # next to no record is seen: both ends are 1 - e^epsilon but for rounding
        hidden = shuffled(18.0, 7, 35, fresh=fresh)
        low, high = hidden.delta_bracket(-0.9625)
        assert low <= high
    assert ends[False, 10] == ends[True, 10]
    assert ends[False, 30][0] > ends[True, 30][0]


def test_means_of_shuffled_steps_that_are_too_far_apart_are_caught(monkeypatch):
    """Means that are 1 % too far apart put the lower end above the proven bound."""
    largest = module.largest_sum
    monkeypatch.setattr(
        module,
        "largest_sum",
        lambda z, steps, of, means: largest(z, steps, of, (means[0] * 1.01, means[1])),
    )
    curve = shuffled(0.5, 10, 10)
    with pytest.raises(BracketError, match="must have 0 <= low <= high"):
        curve.epsilon_bracket(1e-6)


def test_refusals_of_shuffled_steps() -> None:
    with pytest.raises(ValueError, match="relation must be 'zero out' or 'replace one'"):
        shuffled(1.0, 3, 3, relation=Relation.ADD_REMOVE)
    low, high = shuffled(0.03, 10, 10).epsilon_bracket(1e-6)
    # little noise: the largest sum alone is as good as the proven bound
    assert 0.998 * high < low <= high


@pytest.mark.parametrize("z", [0.05, 1e-3, 1e-100])
def test_an_adversary_whose_losses_underflow_proves_nothing(z: float) -> None:
    # every loss is above 640 nats here
    curve = shuffled(z, 4, 100, fresh=False, relation=REPLACE_ONE)
    low, high = curve.epsilon_bracket(1e-5)
    assert 0 <= low <= high < math.inf

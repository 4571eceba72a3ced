"""Shuffled batches: adversaries against closed forms, samples and the proven bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from audit.curves import GaussianCurve, Order
from audit.curves.brackets import BracketError
from audit.dominating import DominatingCurve, dominating_curve
from audit.dominating import random_allocation as module
from audit.dominating.curve import GridComposition
from audit.dominating.poisson import poisson_curve
from audit.dominating.random_allocation import (
    largest_sum,
    mean_of_powers,
    random_allocation,
)
from audit.mechanism import Batching, Relation
from tests.dominating.random_brackets import poisson as poisson_steps
from tests.mechanisms import dp_sgd
from tests.reference import lognormal_excess


def shuffled(
    z: float, *, steps_per_epoch: int, steps: int, fresh: bool, relation: Relation
) -> DominatingCurve:
    batching = Batching.RESHUFFLED if fresh else Batching.SHUFFLED
    return dominating_curve(
        poisson_steps(steps, 1 / z, steps_per_epoch, 1, relation, batching=batching)
    )


def test_shuffling_leaks_more_than_poisson_sampling() -> None:
    """Chua et al. 2024: the order of the samplers, certified from both sides."""
    low, high = shuffled(
        0.5, steps_per_epoch=100, steps=100, fresh=True, relation=Relation.ZERO_OUT
    ).epsilon_bracket(1e-6)
    assert low == pytest.approx(10.9971, abs=1e-4)
    assert low < high == pytest.approx(GaussianCurve(2.0).epsilon(1e-6), rel=1e-11)
    poisson = poisson_curve(0.5, 0.01, 100, Relation.ZERO_OUT, accuracy=1e-3)
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


@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.REPLACE_ONE])
def test_epochs_of_one_incomplete_pass_are_mixtures(relation: Relation) -> None:
    """An epoch of one batch of 3 of 5 records holds the record with probability 3/5."""
    noise_std = 0.7 / 3 * (2 if relation is Relation.REPLACE_ONE else 1)
    m = dp_sgd(steps=2, dataset_size=5, batch_size=3, noise_std=noise_std, relation=relation)
    m = replace(m, batching=Batching.DROP_LAST)
    x = np.linspace(-7.0, 9.0, 1601)

    def density(mean: float) -> np.ndarray:  # type: ignore[type-arg]
        one = 0.4 * norm.pdf(x, 0, 0.7) + 0.6 * norm.pdf(x, mean, 0.7)
        return np.outer(one, one) * 0.01**2

    pairs = [(1.0, 0.0), (0.0, 1.0), *([(2.0, 1.0)] if relation is Relation.ZERO_OUT else [])]
    low, high = dominating_curve(m).delta_bracket(1.0, Order.FORWARD)
    exact = [np.maximum(density(a) - math.e * density(b), 0).sum() for a, b in pairs]
    assert max(exact) * (1 - 1e-4) < low <= max(exact) * (1 + 1e-6)
    assert high == pytest.approx(GaussianCurve(math.sqrt(2) / 0.7).delta(1.0), rel=1e-9)


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("fresh", [False, True])
def test_one_batch_is_a_gaussian_mechanism(fresh: bool, epochs: int) -> None:
    for relation in (Relation.ZERO_OUT, Relation.REPLACE_ONE):
        curve = shuffled(1.0, steps_per_epoch=1, steps=epochs, fresh=fresh, relation=relation)
        exact = GaussianCurve(math.sqrt(epochs)).epsilon(1e-5)
        for order in Order:
            low, high = curve.epsilon_bracket(1e-5, order)
            assert low <= exact <= high
            assert high - low < 1e-3


def test_two_batches_by_quadrature() -> None:
    """Means 1 and 0: E(S - a)_+ of two lognormal variables; the adversary cannot have more."""
    curve = shuffled(1.0, steps_per_epoch=2, steps=2, fresh=True, relation=Relation.REPLACE_ONE)
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
        for steps in (20, 100, 150, 200, 300):
            curve = shuffled(
                1.0, steps_per_epoch=100, steps=steps, fresh=fresh, relation=Relation.ZERO_OUT
            )
            ends[fresh, steps] = curve.epsilon_bracket(1e-6)
    for fresh in (True, False):
        low = [ends[fresh, steps][0] for steps in (20, 100, 300)]
        assert 0 < low[0] < low[1] < low[2]
        assert ends[fresh, 150][1] == ends[fresh, 200][1]  # an epoch cut short counts in full
        assert all(low <= high for low, high in ends.values())
        # next to no record is seen: both ends are 1 - e^epsilon but for rounding
        hidden = shuffled(
            18.0, steps_per_epoch=7, steps=35, fresh=fresh, relation=Relation.ZERO_OUT
        )
        low, high = hidden.delta_bracket(-0.9625)
        assert low <= high
    assert ends[False, 100] == ends[True, 100]
    assert ends[False, 300][0] > ends[True, 300][0]


def test_a_planted_error_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means that are 1 % too far apart put the lower end above the proven bound."""
    largest = module.largest_sum
    monkeypatch.setattr(
        module,
        "largest_sum",
        lambda z, steps, of, means: largest(z, steps, of, (means[0] * 1.01, means[1])),
    )
    curve = shuffled(0.5, steps_per_epoch=10, steps=10, fresh=True, relation=Relation.ZERO_OUT)
    with pytest.raises(BracketError, match="must have 0 <= low <= high"):
        curve.epsilon_bracket(1e-6)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="relation must be 'zero out' or 'replace one'"):
        shuffled(1.0, steps_per_epoch=3, steps=3, fresh=True, relation=Relation.ADD_REMOVE)
    low, high = shuffled(
        0.03, steps_per_epoch=10, steps=10, fresh=True, relation=Relation.ZERO_OUT
    ).epsilon_bracket(1e-6)
    # little noise: the largest sum alone is as good as the proven bound
    assert 0.998 * high < low <= high


def test_an_adversary_whose_losses_underflow_proves_nothing() -> None:
    # every loss is above 640 nats here
    curve = shuffled(0.05, steps_per_epoch=4, steps=100, fresh=False, relation=Relation.REPLACE_ONE)
    low, high = curve.epsilon_bracket(1e-5)
    assert 0 <= low <= high < math.inf

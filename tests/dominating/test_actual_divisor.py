"""Poisson batches divided by their actual size: brute force, and what accountants overlook."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, chi2, norm

from audit import Batching, Divisor, NoisySGD, Relation, bounds, exact
from audit.curves import GaussianCurve, Order
from audit.dominating.poisson import poisson_curve
from tests.dominating.random_brackets import poisson
from tests.mechanisms import dp_sgd

MECHANISM = dp_sgd(steps=1, dataset_size=12, batch_size=3, noise_std=0.4, divisor=Divisor.ACTUAL)


def actual_divisor_curve(
    z: float, q: float, n: int, steps: int, relation: Relation, accuracy: float
):
    m = poisson(steps, 1 / z, n, 1, relation, poisson_rate=q, divisor=Divisor.ACTUAL)
    return exact.dominating_curve(m, accuracy=accuracy)


def released_sizes(n: int, q: float, z: float, relation: Relation, epsilon: float, order: Order):
    """Delta of one step that releases (size, noisy sum), by a Riemann sum for every size."""
    x = np.linspace(-12 * z - 2, 12 * z + 2, 20_001)
    up, down = {
        Relation.ADD_REMOVE: (2.0, 0.0),
        Relation.ZERO_OUT: (1.0, 0.0),
        Relation.REPLACE_ONE: (0.5, -0.5),
    }[relation]
    others = n - 1 if relation is Relation.ADD_REMOVE else n
    total = 0.0
    for s in range(n + 1):
        share = s / n
        p = (1 - share) * norm.pdf(x, 0, z) + share * norm.pdf(x, up, z)
        q_share = 0.0 if relation is Relation.ADD_REMOVE else share
        q_law = (1 - q_share) * norm.pdf(x, 0, z) + q_share * norm.pdf(x, down, z)
        laws = binom.pmf(s, n, q) * p, binom.pmf(s, others, q) * q_law
        first, second = laws if order is Order.FORWARD else laws[::-1]
        total += float(np.maximum(first - math.exp(epsilon) * second, 0).sum() * (x[1] - x[0]))
    return total


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("order", Order)
def test_one_step_against_brute_force(relation, order):
    n, q, z = 12, 0.3, 1.2
    curve = actual_divisor_curve(z, q, n, 1, relation, accuracy=1e-4)
    [(above, _)] = curve.upper.parts
    assert above.p.sum() + above.p_only == pytest.approx(1, abs=1e-10)
    other = above.lifted * np.exp(-above.losses)
    assert other.sum() + above.q_only == pytest.approx(1, abs=1e-10)
    for epsilon in (0.1, 0.5, 1.5):
        exact_delta = released_sizes(n, q, z, relation, epsilon, order)
        low, high = curve.delta_bracket(epsilon, order)
        assert low <= exact_delta + 1e-6
        assert exact_delta <= high + 1e-6
        # sizes 0 and 1 are pooled below, and a batch of all records counts as told above
        assert high - low <= 0.085
        assert high <= exact_delta + 2e-4


def witness_delta(m: NoisySGD, epsilon: float, order: Order, dimension: int) -> float:
    """P(S) - e^epsilon Q(S) of one step: others at -C, the record at C on the first axis.

    S is a union of small boxes in the first coordinate and the sum of squares of the others, which
    tells the size of the batch (the noise alone tells 9 from 10 records in 4000 dimensions); so
    this is certified. In units of C.
    """
    n, q, z = m.dataset_size, m.sampling_rate, m.noise_multiplier
    divisors = np.arange(1, n + 1)
    edges = np.concatenate([[-np.inf], np.linspace(-4 * z - 2, 4 * z + 2, 8001), [np.inf]])
    # between two sizes, where the sum of squares is about as likely for either
    borders = (dimension - 1) * z**2 / (divisors[1:] * divisors[:-1])
    borders = np.concatenate([[np.inf], borders, [0.0]])

    def boxes(mean: float, size: int) -> np.ndarray:
        x = (edges - mean) * size / z
        inner = np.where(x[:-1] > 0, -np.diff(ndtr(-x)), np.diff(ndtr(x)))
        told = -np.diff(chi2.cdf(borders * size**2 / z**2, dimension - 1))
        return np.multiply.outer(told, inner)

    held, without = 0.0, 0.0
    for others in range(n):
        weight = binom.pmf(others, n - 1, q)
        without = without + weight * boxes(-1.0 if others else 0.0, max(others, 1))
        held = held + weight * boxes((1 - others) / (others + 1), others + 1)
    p = (1 - q) * without + q * held
    first, second = (p, without) if order is Order.FORWARD else (without, p)
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


@pytest.mark.parametrize(("noise_std", "dimension", "at_least"), [(0.4, 2000, 900), (1.5, 500, 10)])
def test_a_witness_refutes_the_accounting_for_a_nominal_divisor(noise_std, dimension, at_least):
    """At the accountant's epsilon for delta = 1e-5 the true delta is many times as large."""
    m = dataclasses.replace(MECHANISM, noise_std=noise_std)
    nominal = dataclasses.replace(m, divisor=Divisor.NOMINAL)
    claimed = bounds.evaluate("accounting.poisson", nominal).epsilon(1e-5)
    found = witness_delta(m, claimed, Order.FORWARD, dimension)
    assert found > at_least * 1e-5
    allowed = bounds.evaluate("accounting.actual_divisor", m)
    for epsilon in (0.05, 0.3, 1.0, 3.0, claimed):
        for order in Order:
            least = witness_delta(m, epsilon, order, dimension)
            assert least <= allowed.delta(epsilon, order) * (1 + 1e-9) + 1e-12


def test_many_steps_leak_several_times_what_the_accountant_says():
    """z = 1, q = .01, n = 10,000, 100 steps at 1e-5: 6.50 against .718."""
    curve = actual_divisor_curve(1.0, 0.01, 10_000, 100, Relation.ADD_REMOVE, accuracy=1e-2)
    low, high = curve.epsilon_bracket(1e-5)
    assert 6.4 < low <= high < 6.6
    nominal = poisson_curve(1.0, 0.01, 100, Relation.ADD_REMOVE, accuracy=1e-3)
    assert nominal.epsilon(1e-5) == pytest.approx(0.718, abs=1e-3)


def test_divisors_of_batches_of_one_size_are_the_same():
    m = dataclasses.replace(MECHANISM, batching=Batching.CYCLIC, relation=Relation.ZERO_OUT)
    same = dataclasses.replace(m, divisor=Divisor.NOMINAL)
    assert exact.dominating_curve(m).epsilon(1e-5) == exact.dominating_curve(same).epsilon(1e-5)
    # of nine steps, the first, the fifth and the ninth use one batch of four
    often = exact.dominating_curve(dataclasses.replace(m, steps=9)).epsilon(1e-5)
    assert often == GaussianCurve(math.sqrt(3) / m.noise_multiplier).epsilon(1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"batching": Batching.FULL, "batch_size": 12},
            "divisor must be 'nominal' except for Poisson .* got 'actual' with batching='full'",
        ),
        ({"batch_size": 12}, "batch_size must be below dataset_size for an actual divisor"),
        ({"gradient_sensitivity": 0.5}, "gradient_sensitivity must be None, .* got 0.5"),
    ],
)
def test_what_is_not_known_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        exact.dominating_curve(dataclasses.replace(MECHANISM, **changes))


def test_a_planted_error_is_caught():
    """With the shift of zero-out in place of twice that, one step is below brute force."""
    n, q, z = 12, 0.3, 1.2
    wrong = actual_divisor_curve(z, q, n, 1, Relation.ZERO_OUT, accuracy=1e-3)
    true = released_sizes(n, q, z, Relation.ADD_REMOVE, 0.5, Order.FORWARD)
    assert wrong.delta_bracket(0.5, Order.FORWARD)[1] < true

"""Poisson batches divided by their actual size: brute force, and what accountants overlook."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, chi2, norm

from audit import Batching, Composition, Divisor, NoisySGD, Relation, bounds, exact
from audit.curves import GaussianCurve, Order
from audit.dominating.poisson import poisson_curve
from tests.dominating.random_brackets import poisson
from tests.mechanisms import dp_sgd
from tests.slow import slow

MECHANISM = dp_sgd(steps=1, dataset_size=12, batch_size=3, noise_std=0.4, divisor=Divisor.ACTUAL)


def actual_divisor_curve(
    z: float, q: float, n: int, steps: int, relation: Relation, accuracy: float
):
    m = poisson(steps, 1 / z, n, 1, relation, poisson_rate=q, divisor=Divisor.ACTUAL)
    return exact.dominating_curve(m, accuracy=accuracy)


def released_sizes(
    n: int, q: float, z: float, means: tuple[float, float], epsilon: float, order: Order, *, less=0
):
    """Delta of one step that releases (size, noisy sum), by a Riemann sum for every size.

    The record moves the sum by ``means`` from that with another record in its place.
    """
    x = np.linspace(-12 * z - 2, 12 * z + 2, 20_001)
    total = 0.0
    for s in range(n + 1):
        laws = [
            binom.pmf(s, m, q) * ((1 - s / n) * norm.pdf(x, 0, z) + s / n * norm.pdf(x, mean, z))
            for m, mean in zip((n, n - less), means, strict=True)
        ]
        first, second = laws if order is Order.FORWARD else laws[::-1]
        total += float(np.maximum(first - math.exp(epsilon) * second, 0).sum() * (x[1] - x[0]))
    return total


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("order", [Order.FORWARD, slow(Order.REVERSE)])
def test_one_step_against_brute_force(relation, order):
    n, q, z = 12, 0.3, 1.2
    curve = actual_divisor_curve(z, q, n, 1, relation, accuracy=1e-4)
    [(above, _)] = curve.upper.parts
    assert above.p.sum() + above.p_only == pytest.approx(1, abs=1e-10)
    other = above.lifted * np.exp(-above.losses)
    assert other.sum() + above.q_only == pytest.approx(1, abs=1e-10)
    for epsilon in (0.1, 0.5, 1.5):
        low, high = curve.delta_bracket(epsilon, order)
        if relation is Relation.ADD_REMOVE:
            least = most = released_sizes(n, q, z, (2.0, 0.0), epsilon, order, less=1)
        elif relation is Relation.REPLACE_ONE:  # in units of 2 C; in the other order u and v change
            least = most = released_sizes(n, q, z, (1.0, 0.0), epsilon, Order.FORWARD)
        else:  # others of gradient 0, or -1
            pairs = (1.0, 0.0), (2.0, 1.0)
            least = max(released_sizes(n, q, z, pair, epsilon, order) for pair in pairs)
            most = released_sizes(n, q, z, (2.0, 0.0), epsilon, Order.FORWARD)
        assert low <= least + 1e-6
        assert least <= high + 1e-6
        # sizes 0 and 1 are pooled below, and a batch of all records counts as told above
        assert high - low <= 0.085 or relation is Relation.ZERO_OUT
        assert high <= most + 2e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("relation", "least"), [(Relation.ZERO_OUT, 0.01480), (Relation.REPLACE_ONE, 0.03092)]
)
def test_without_the_record_a_batch_holds_another_one(relation, least):
    """That was left out: the bound was a seventh and a ninth of what one dimension leaks."""
    m = dataclasses.replace(
        MECHANISM, dataset_size=1000, batch_size=100, noise_std=0.01, relation=relation
    )
    # one step in one dimension: others at -C, the record at C against 0 or -C
    n, q, z = m.dataset_size, m.sampling_rate, m.noise_std * m.batch_size
    x, laws = np.linspace(-3, 3, 20_001), np.zeros((2, 20_001))
    records = 1.0, 0.0 if m.relation is Relation.ZERO_OUT else -1.0
    for k in range(n):
        weight = binom.pmf(k, n - 1, q)
        if weight > 1e-18:
            out = norm.pdf(x, -1.0 if k else 0.0, z / max(k, 1))
            for law, g in zip(laws, records, strict=True):
                law += weight * ((1 - q) * out + q * norm.pdf(x, (g - k) / (k + 1), z / (k + 1)))
    delta = np.maximum(laws[0] - math.exp(0.5) * laws[1], 0).sum() * (x[1] - x[0])
    assert delta == pytest.approx(least, rel=1e-3)
    claimed = bounds.evaluate("accounting.actual_divisor", m).delta(0.5)
    assert least <= claimed < (1.1 if relation is Relation.REPLACE_ONE else 2.5) * least


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


@pytest.mark.parametrize(
    ("noise_std", "dimension", "at_least"), [(0.4, 2000, 900), slow(1.5, 500, 10)]
)
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
        # of any two records: the pair's are twice the bound apart
        ({"gradient_sensitivity": 1.0}, "gradient_sensitivity must be None, .* got 1.0"),
    ],
)
def test_what_is_not_known_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        exact.dominating_curve(dataclasses.replace(MECHANISM, **changes))


def test_runs_without_limits_are_composed():
    """Two of them were an error of the maximum of nothing."""
    parts = [dataclasses.replace(MECHANISM, noise_std=std) for std in (1.0, 2.0)]
    low, high = exact.dominating_curve(Composition(parts)).epsilon_bracket(1e-5)
    assert 0 < low < high < math.inf

"""Matrix mechanisms against every set of steps, every sign, and other computations."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event, rdp

from audit.dominating.matrix_mechanism import (
    MatrixMechanism,
    Participation,
    Pattern,
    largest_sum,
    square_root_strategy,
    tree_strategy,
)


def separated(steps, gap, most):
    for count in range(1, most + 1):
        for chosen in itertools.combinations(range(steps), count):
            if all(b - a >= gap for a, b in itertools.pairwise(chosen)):
                yield list(chosen)


def brute_force(matrix, gap, most):
    """Every set, every sign of a record's one-dimensional gradients."""
    best = 0.0
    for chosen in separated(matrix.shape[1], gap, most):
        columns = matrix[:, chosen]
        for signs in itertools.product([1, -1], repeat=len(chosen) - 1):
            best = max(best, float(np.linalg.norm(columns @ np.array([1, *signs]))))
    return best


def sensitivity(matrix, gap, most=None):
    return MatrixMechanism(matrix, 1.0, Participation(Pattern.SEPARATED, gap, most)).sensitivity()


@pytest.mark.parametrize("banded", [False, True])
def test_non_negative_and_banded_strategies_are_exact(banded):
    """Banded ones whatever their signs."""
    random = np.random.default_rng(1)
    for _ in range(30):
        steps, gap, most = (
            int(random.integers(low, high)) for low, high in ((2, 9), (1, 5), (1, 5))
        )
        matrix = np.tril(random.uniform(-1 if banded else 0, 1, (steps, steps)))
        if banded:
            matrix *= np.tri(steps) - np.tri(steps, k=-gap)
        found, expected = sensitivity(matrix, gap, most), brute_force(matrix, gap, most)
        assert (found.low, found.high) == pytest.approx((expected, expected), rel=1e-11)


def test_brackets_hold_gradients_of_any_dimension():
    """Unit vectors in several dimensions may beat signs; the upper end covers them."""
    random = np.random.default_rng(2)
    widest = 0.0
    for _ in range(30):
        steps, gap = int(random.integers(2, 8)), int(random.integers(1, 3))
        matrix = np.tril(random.normal(size=(steps, steps)))
        found = sensitivity(matrix, gap)
        assert found.low <= brute_force(matrix, gap, steps) * (1 + 1e-9)
        assert found.high >= brute_force(matrix, gap, steps) * (1 - 1e-9)
        for chosen in separated(steps, gap, steps):
            vectors = random.normal(size=(len(chosen), 3))
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            assert np.linalg.norm(matrix[:, chosen] @ vectors) <= found.high
        widest = max(widest, found.high / found.low)
    assert widest < 2


@pytest.mark.parametrize(("gap", "most"), [(1, None), (2, None), (3, 2), (4, None)])
def test_toeplitz_strategies_are_worst_at_the_first_steps(gap, most):
    """Kalinin and Lampert (2024), Theorem 2, for the square root of the prefix sums."""
    matrix = square_root_strategy(9)
    known = brute_force(matrix, gap, most or 9)
    assert sensitivity(matrix, gap, most).high == pytest.approx(known)
    large = sensitivity(square_root_strategy(300), 10 * gap, most)
    assert large.high == pytest.approx(large.low, rel=1e-11)


def test_increasing_toeplitz_entries_are_not_covered_by_that_theorem():
    column = np.array([0.1, 0.0, 0.0, 1.0, 0.0, 1.0])
    lags = np.subtract.outer(np.arange(6), np.arange(6))
    matrix = np.where(lags >= 0, column[np.abs(lags)], 0.0)
    found = sensitivity(matrix, 1, 2)
    assert found.low > 1.1 * float(np.linalg.norm(matrix[:, :2].sum(axis=1)))
    assert found.high == pytest.approx(brute_force(matrix, 1, 2))


def test_the_efficient_upper_bound_is_one():
    """Choquette-Choo et al. (2023), Algorithm 4, where there are too many sets to try."""
    random = np.random.default_rng(5)
    matrix = np.tril(random.uniform(0, 1, (40, 40)))
    found = sensitivity(matrix, 3)
    assert 1 < found.high / found.low < 1.5
    for _ in range(200):
        chosen = [int(random.integers(3))]
        while chosen[-1] + 3 < 40:
            chosen.append(chosen[-1] + int(random.integers(3, 6)))
        chosen = [step for step in chosen if step < 40]
        assert np.linalg.norm(matrix[:, chosen].sum(axis=1)) <= found.high


def test_participations_do_not_add_as_squares():
    """The square root of k times the sensitivity of one is false for prefix sums, and by far."""
    epochs = Participation(Pattern.FIXED_ORDER, separation=25)
    matrix = square_root_strategy(100)
    once = MatrixMechanism(matrix, 1.0, Participation.single()).sensitivity().high
    often = MatrixMechanism(matrix, 1.0, epochs).sensitivity().low
    assert often > 1.19 * 2 * once


def test_fixed_orders_and_single_steps():
    random = np.random.default_rng(6)
    matrix = np.tril(random.uniform(0, 1, (11, 11)))
    epochs = MatrixMechanism(matrix, 1.0, Participation(Pattern.FIXED_ORDER, 4))
    expected = max(np.linalg.norm(matrix[:, first::4].sum(axis=1)) for first in range(4))
    assert epochs.sensitivity().high == pytest.approx(expected)
    once = MatrixMechanism(matrix, 2.0, Participation.single())
    norms = np.linalg.norm(matrix, axis=0)
    assert once.mu_bracket() == pytest.approx([norms.max() / 2] * 2)


def test_the_law_of_correlated_noise_is_the_same():
    """G + C^-1 Z: the Mahalanobis distance of the gradients by the covariance of the noise."""
    matrix = square_root_strategy(12)
    inverse = np.linalg.inv(matrix)
    moved = np.zeros(12)
    moved[::4] = 1.0
    distance = math.sqrt(moved @ np.linalg.solve(inverse @ inverse.T, moved))
    epochs = Participation(Pattern.FIXED_ORDER, 4)
    assert MatrixMechanism(matrix, 1.0, epochs).sensitivity().high == pytest.approx(distance)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 9, 31, 32, 100])
def test_tree_aggregation_of_dp_accounting_is_exact(steps):
    noise, orders = 1.7, [2.0, 8.0]
    event = dp_event.SingleEpochTreeAggregationDpEvent(noise, steps)
    accountant = rdp.RdpAccountant(orders, NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(event)
    mu = MatrixMechanism(tree_strategy(steps), noise, Participation.single()).mu_bracket()[1]
    assert accountant._rdp == pytest.approx([order * mu**2 / 2 for order in orders])


def test_sums_over_sets():
    random = np.random.default_rng(7)
    for _ in range(20):
        weights, gap = random.uniform(0, 1, 9), int(random.integers(1, 5))
        most = int(random.integers(1, 5))
        found = largest_sum(weights, Participation(Pattern.SEPARATED, gap, most))
        assert found == pytest.approx(max(weights[c].sum() for c in separated(9, gap, most)))


def test_broken_input_is_refused():
    with pytest.raises(ValueError, match="strategy must be a finite matrix, got shape"):
        MatrixMechanism(np.ones(3), 1.0, Participation.single())
    with pytest.raises(ValueError, match="noise_multiplier must be"):
        MatrixMechanism(np.eye(3), 0.0, Participation.single())
    with pytest.raises(ValueError, match="separation must be"):
        Participation(Pattern.SEPARATED, 0)

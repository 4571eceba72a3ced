"""Equal local levels: exact probabilities against enumeration, simulation and one another."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from audit.estimation.simultaneous_band import (
    EXACT_UP_TO,
    failure_at_most,
    failure_exactly,
    limits,
)


def failure_twin(size: int, cuts: list[Fraction]) -> Fraction:
    """P(N(c_i) >= i for some i), by the law of the counts between cuts, in exact fractions."""
    edges = [Fraction(0), *cuts, Fraction(1)]
    law = {0: Fraction(1)}
    for rank, (low, high) in enumerate(itertools.pairwise(edges), start=1):
        share = (high - low) / (1 - low)
        moved: dict[int, Fraction] = {}
        for count, mass in law.items():
            rest = size - count
            for more in range(rest + 1):
                weight = math.comb(rest, more) * share**more * (1 - share) ** (rest - more)
                moved[count + more] = moved.get(count + more, Fraction(0)) + mass * weight
        law = {k: v for k, v in moved.items() if k < rank or rank > size}
    return 1 - law.get(size, Fraction(0))


@pytest.mark.parametrize("size", [1, 2, 3, 6, 11])
def test_exact_probability_agrees_with_enumeration(size: int) -> None:
    ranks = np.arange(1, size + 1)
    cuts = np.sort(np.random.default_rng(size).uniform(0, ranks / size * 0.7))
    twin = failure_twin(size, [Fraction(float(c)) for c in cuts])
    assert failure_exactly(size, ranks, cuts) == pytest.approx(float(twin), rel=1e-11)
    # Two ranks make the second-order union exact; more make it larger.
    bound = failure_at_most(size, ranks, cuts)
    assert bound >= float(twin) * (1 - 1e-12)
    if size <= 2:
        assert bound == pytest.approx(float(twin), rel=1e-11)


def test_second_order_union_is_above_the_exact_probability_and_below_the_plain_union() -> None:
    for size in (40, 400, 3000):
        found = limits(size, 0.05)
        exact = failure_exactly(size, found.ranks, found.lower)
        bound = failure_at_most(size, found.ranks, found.lower)
        assert exact < bound < size * found.level
        assert bound < 4 * exact


@pytest.mark.parametrize("size", [1, 2, 7, 100, EXACT_UP_TO + 1, 10**5, 10**7])
@pytest.mark.parametrize("error", [0.1, 0.0253, 1e-3, 1e-8, 1e-15])
def test_the_error_is_spent_and_not_exceeded(size: int, error: float) -> None:
    found = limits(size, error)
    exactly = size <= EXACT_UP_TO and error > 1e-9
    failure = failure_exactly if exactly else failure_at_most
    chance = failure(size, found.ranks, found.lower)
    assert 0.49 * error <= chance <= 0.5 * error
    assert np.all(np.diff(found.lower) > 0)
    assert found.ranks[0] == 1
    assert found.ranks[-1] == size


def test_every_limit_is_clopper_and_pearsons_at_one_level() -> None:
    found = limits(60, 0.05)
    assert binom.sf(found.ranks - 1, 60, found.lower) == pytest.approx(found.level, rel=1e-9)
    assert binom.cdf(60 - found.ranks, 60, found.upper) == pytest.approx(found.level, rel=1e-9)
    assert found.lower == pytest.approx(1 - found.upper, rel=1e-9)


def test_covers_uniform_draws_as_often_as_stated() -> None:
    # 20,000 draws of 50: the frequency of a miss has a standard error of .0021.
    found = limits(50, 0.1)
    draws = np.sort(np.random.default_rng(0).random((20_000, 50)), axis=1)
    low, high = found.lower, 1 - found.lower[::-1]
    missed = np.mean(np.any((draws < low) | (draws > high), axis=1))
    assert 0.085 < missed < 0.1063


def test_sharper_in_the_tails_than_dvoretzky_kiefer_and_wolfowitz() -> None:
    size, error = 10**5, 0.05
    width = math.sqrt(math.log(2 / error) / (2 * size))
    count = np.array([10])
    assert limits(size, error).greatest_rate(count)[0] < 0.1 * (10 / size + width)


def test_counts_between_ranks_take_the_safe_side() -> None:
    found = limits(10**6, 0.05)
    counts = np.arange(0, 10**6 + 1, 997)
    low, high = found.least_rate(counts), found.greatest_rate(counts)
    assert np.all(low <= counts / 10**6)
    assert np.all(high >= counts / 10**6)
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) >= 0)
    assert found.least_rate(np.array([0]))[0] == 0.0
    assert found.greatest_rate(np.array([10**6]))[0] == 1.0

"""Discounted sums, within what their rounding is bounded by."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.numerics.discounted import discounted_sums, sum_units


@pytest.mark.parametrize("rate", [0.0, 1e-9, 1e-4, 0.01, 0.1, 1.5, 1.6, 2.0, 50.0, 900.0])
def test_sums_one_by_one_in_extended_precision(rate: float) -> None:
    rng, size = np.random.default_rng(3), 20_000  # several blocks
    values = rng.random(size) * 10.0 ** rng.uniform(-250, 0, size)
    found, total, exact = discounted_sums(values, rate), np.longdouble(0.0), []
    shrink = np.exp(-np.longdouble(rate))
    for value in values[::-1]:
        total = value + shrink * total
        exact.append(total)
    assert found.size == size + 1
    assert found[-1] == 0
    errors = np.abs(found[-2::-1] / np.array(exact) - 1)
    assert float(errors.max()) <= sum_units(size, rate) * 2.0**-53


def test_signs_are_kept() -> None:
    values = np.array([1.0, -2.0, 4.0])
    assert discounted_sums(values, math.log(2)) == pytest.approx([1.0, 0.0, 4.0, 0.0], abs=1e-15)


def test_sums_that_overflow_are_not_finite() -> None:
    assert not np.isfinite(discounted_sums(np.full(10_000, 1e300), 1e-2)[0])

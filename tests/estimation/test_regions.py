"""Confidence regions against enumeration of every outcome, and their bounds against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from audit.estimation.regions import (
    Counts,
    JointShape,
    Region,
    hull_renyi,
    hull_vertices,
    joint,
    rectangles,
    two_point_renyi,
)

SHAPES = [
    None,
    JointShape(0.3, 0.1),
    JointShape(0.8, 0.03),
    JointShape(1.4, 0.15),
    JointShape(math.pi / 2, 0.2),
]


def region(counts: Counts, error: float, shape: JointShape | None) -> Region:
    return rectangles([counts], error)[0] if shape is None else joint(counts, error, shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("error", [0.05, 0.3])
def test_misses_the_true_rates_no_more_often_than_stated(
    shape: JointShape | None, error: float
) -> None:
    # Exact: every outcome of the two counts is enumerated, nothing is drawn.
    n, m = 9, 12
    rates = np.linspace(0.02, 0.98, 13)
    p, q = rates[:, None], rates  # one true pair for each entry
    missed = np.zeros((rates.size, rates.size))
    for k in range(n + 1):
        for j in range(m + 1):
            found = region(Counts(k, n, j, m), error, shape)
            above, below = p[..., None] >= found.first, q[..., None] <= found.second
            held = np.any(above & below, axis=-1)
            missed += np.where(held, 0.0, binom.pmf(k, n, p) * binom.pmf(j, m, q))
    assert 0.1 * error < missed.max() <= error


def test_joint_region_is_sharper_than_a_rectangle_where_both_rates_are_uncertain() -> None:
    counts, delta = Counts(1350, 10**6, 32, 10**6), np.array([1e-5])
    plain = np.min(rectangles([counts], 0.05)[0].epsilons(delta))
    sharp = np.min(joint(counts, 0.05, JointShape(1.4, 0.05)).epsilons(delta))
    assert plain == pytest.approx(3.330, abs=0.01)
    assert sharp > plain + 0.05


def test_more_corners_only_sharpen() -> None:
    counts, shape, delta = Counts(40, 500, 4, 700), JointShape(1.0, 0.1), np.array([1e-3])
    values = [np.min(joint(counts, 0.05, shape, c).epsilons(delta)) for c in (32, 512, 8192)]
    assert values[0] < values[1] < values[2] < values[1] + 0.01


def test_bounds_are_minima_over_the_region() -> None:
    found = Region(np.array([0.2, 0.4, 0.6]), np.array([0.01, 0.05, 0.2]))
    p, q = found.first, found.second
    delta = np.array([1e-3, 0.1, 0.3])
    expected = [
        min(math.log(max(a - d, 1e-300) / b) for a, b in zip(p, q, strict=True)) for d in delta
    ]
    values = found.epsilons(delta)
    value, corner = np.min(values, axis=1), np.argmin(values, axis=1)
    finite = np.array([True, True, False])
    assert value[finite] == pytest.approx(np.array(expected)[finite], rel=1e-12)
    assert value[2] == -np.inf
    assert list(corner[:2]) == [2, 2]
    assert np.min(found.mus()) == pytest.approx(np.min(norm.ppf(p) - norm.ppf(q)), rel=1e-12)
    order = np.array([4.0])
    divergence = np.log(p**4 * q**-3 + (1 - p) ** 4 * (1 - q) ** -3) / 3
    assert np.min(found.renyis(order)) == pytest.approx(np.min(divergence), rel=1e-12)


def test_complement_swaps_the_laws() -> None:
    found = Region(np.array([0.7]), np.array([0.2])).complement()
    assert found.first == pytest.approx([0.8])
    assert found.second == pytest.approx([0.3])
    assert np.min(found.mus()) == pytest.approx(norm.ppf(0.7) - norm.ppf(0.2), rel=1e-12)


def test_two_point_renyi_from_order_one_to_the_largest_float() -> None:
    p, q = np.array(0.3), np.array(0.1)
    kullback = 0.3 * math.log(3) + 0.7 * math.log(7 / 9)
    assert two_point_renyi(np.array(1 + 1e-10), p, q) == pytest.approx(kullback, rel=1e-8)
    assert two_point_renyi(np.array(2.0), p, q) == pytest.approx(math.log(0.09 / 0.1 + 0.49 / 0.9))
    assert two_point_renyi(np.array(1.7e308), p, q) == pytest.approx(math.log(3), rel=1e-12)
    orders = np.geomspace(1e-8, 1e8, 200) + 1
    assert np.all(np.diff(two_point_renyi(orders, p, q)) > -1e-12)  # Renyi grows with its order
    assert two_point_renyi(np.array(3.0), np.array(0.5), np.array(0.5)) == 0.0


def test_counts_that_say_nothing_give_no_bound_and_no_nan() -> None:
    deltas, orders = np.array([1e-300, 0.5, 1 - 1e-12]), np.array([1 + 1e-12, 1e300])
    for counts in (Counts(0, 5, 5, 5), Counts(0, 5, 0, 5), Counts(5, 5, 5, 5), Counts(5, 5, 0, 5)):
        for shape in SHAPES:
            for error in (1e-12, 0.5, 1 - 1e-12):
                found = region(counts, error, shape)
                for view in (found, found.complement()):
                    values = [
                        np.min(view.epsilons(deltas), axis=1),
                        np.min(view.mus()),
                        np.min(view.renyis(orders), axis=1),
                    ]
                    assert not any(np.any(np.isnan(v) | (v == np.inf)) for v in values)
    nothing = rectangles([Counts(0, 5, 5, 5)], 0.5)[0]
    assert np.min(nothing.epsilons(np.array([1e-5]))) == -np.inf


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.0, 0.1), r"angle must be in \(0, pi/2\], got 0.0"),
        ((2.0, 0.1), r"angle must be in \(0, pi/2\], got 2.0"),
        ((1.0, 0.5), r"first_guard must be in \(0, 1/3\], got 0.5"),
        ((1.0, 0.1, 0.0), r"second_guard must be in \(0, 1/3\], got 0.0"),
    ],
)
def test_bad_shape(values: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JointShape(*values)


def test_joined_renyi_bound_between_one_event_and_the_truth() -> None:
    # The hull of the exact tradeoff function of a Gaussian pair has nearly its own divergence.
    threshold = np.linspace(6, -5, 400)
    p, q = norm.sf(threshold - 1), norm.sf(threshold)
    alpha, beta = np.concatenate([[0], 1 - p[::-1], [1]]), np.concatenate([[1], q[::-1], [0]])
    orders = np.array([1 + 1e-9, 1.5, 2.0, 4.0])
    found = hull_renyi(orders, alpha, beta)
    assert np.all(found <= orders / 2)
    assert found[:3] == pytest.approx(orders[:3] / 2, rel=2e-3)
    two = hull_renyi(orders, np.array([0.0, 0.3, 1.0]), np.array([1.0, 0.1, 0.0]))
    direct = np.log(0.3**orders * 0.9 ** (1 - orders) + 0.7**orders * 0.1 ** (1 - orders))
    assert two[1:] == pytest.approx((direct / (orders - 1))[1:], rel=1e-12)
    assert two[0] == pytest.approx(0.3 * math.log(0.3 / 0.9) + 0.7 * math.log(7), rel=1e-7)
    assert np.isfinite(hull_renyi(np.array([1e308]), alpha, beta)[0])
    assert hull_renyi(orders, np.array([0.0, 1.0]), np.array([1.0, 0.0])).tolist() == [0.0] * 4


def test_hull_keeps_vertices_only() -> None:
    alpha = np.array([0.5, 0.1, 0.3, 0.3, 0.9, 0.2, 0.7])
    beta = np.array([0.2, 0.6, 0.3, 0.9, 0.5, 0.45, 0.29])
    assert hull_vertices(alpha, beta).tolist() == [1, 2, 0]
    assert hull_vertices(np.array([0.5]), np.array([0.5])).size == 0

"""Gradients against differences of the losses, and bounds against what gradients do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from audit_dimensions import (
    Ball,
    Box,
    Clipped,
    Domain,
    Huber,
    Linear,
    Logistic,
    Loss,
    Quadratic,
    WholeSpace,
)

from .cases import LOSSES, D, rows

Value = Callable[[np.ndarray, np.ndarray], float]
DIAGONAL = np.array([0.0, 0.3, 0.6, 0.9, 1.2, 1.5])


def _huber(row: np.ndarray, x: np.ndarray) -> float:
    r, bend = float(np.linalg.norm(x - row)), 0.7 / 1.5
    return 0.75 * r * r if r <= bend else 0.75 * bend**2 + 0.7 * (r - bend)


def _logistic(regularisation: float) -> Value:
    return lambda row, x: float(
        math.log1p(math.exp(-row[-1] * (row[:-1] @ x))) + regularisation / 2 * (x @ x)
    )


# the losses themselves, up to constants, written down a second time
VALUES: dict[str, Value] = {
    "linear": lambda row, x: float(row @ x),
    "quadratic": lambda row, x: 0.4 * float((x - row) @ (x - row)),
    "quadratic, by coordinate": lambda row, x: float((x - row) @ (DIAGONAL * (x - row))) / 2,
    "Huber": _huber,
    "logistic": _logistic(0.0),
    "logistic, regularised": _logistic(0.4),
}


@pytest.mark.parametrize("name", VALUES)
def test_gradients_are_those_of_the_losses(name: str) -> None:
    rng = np.random.default_rng(0)
    loss = LOSSES[name]
    records, points = rows(loss, 7, D, rng), 0.7 * rng.normal(size=(20, D))
    found = loss.gradients(records, points)
    assert found.shape == (20, 7, D)
    expected = [
        [approx_fprime(x, lambda y, r=r: VALUES[name](r, y)) for r in records] for x in points
    ]
    np.testing.assert_allclose(
        found, expected, atol=2e-7
    )  # sqrt of the machine's epsilon, and a bit
    without = loss.gradients(records, points, zeroed=3)
    zero = np.full((20, D), loss.ridge(D)) * points
    np.testing.assert_allclose(without[:, 3], zero, atol=1e-15)
    assert np.array_equal(np.delete(without, 3, axis=1), np.delete(found, 3, axis=1))


@pytest.mark.parametrize("name", [n for n in LOSSES if n not in VALUES])
def test_clipping_shortens_and_does_not_turn(name: str) -> None:
    rng = np.random.default_rng(1)
    loss = LOSSES[name]
    records = rows(loss, 7, D, rng)
    points = np.concatenate([0.7 * rng.normal(size=(50, D)), records[:, :D] * 1.05])
    before, after = loss.unclipped.gradients(records, points), loss.gradients(records, points)
    lengths = np.linalg.norm(before, axis=2)
    np.testing.assert_allclose(
        np.linalg.norm(after, axis=2), np.minimum(lengths, loss.clip), rtol=1e-14
    )
    np.testing.assert_allclose(
        np.sum(before * after, axis=2), lengths * np.linalg.norm(after, axis=2)
    )
    assert 0.1 < np.mean(lengths > loss.clip) < 1


def test_clipped_quadratics_are_huber_losses() -> None:
    rng = np.random.default_rng(2)
    records, points = rng.normal(size=(5, D)), rng.normal(size=(30, D))
    clipped, huber = Clipped(Quadratic(1.5), 0.7), Huber(1.5, 0.7)
    np.testing.assert_allclose(
        clipped.gradients(records, points), huber.gradients(records, points), atol=1e-14
    )


@pytest.mark.parametrize("domain", [Ball(1.6), Box(0.5)])
@pytest.mark.parametrize("name", LOSSES)
def test_bounds_hold_all_over_the_domain_and_are_near(name: str, domain: Ball | Box) -> None:
    rng = np.random.default_rng(3)
    loss = LOSSES[name]
    records = rows(loss, 6, D, rng)
    points = domain.project(rng.normal(size=(3000, D)) * rng.choice([0.1, 0.5, 9], size=(3000, 1)))
    # the points where a record's own gradient is steepest, and least steep
    signed = loss.unclipped.encoded(records).vectors
    corners = np.sign(signed) if isinstance(domain, Box) else signed
    points = np.concatenate([points, domain.project(1e3 * corners), domain.project(-1e3 * corners)])
    whole = loss.gradients(records, points)
    alone = whole - loss.gradients(records, points, zeroed=0)[:, :1]  # l_i, after clipping if any
    norms = np.max(np.linalg.norm(alone, axis=2), axis=0)
    bound = loss.gradient_norms(records, domain)
    totals = np.max(np.linalg.norm(whole, axis=2), axis=0)
    assert np.all(totals <= loss.whole_gradient_norms(records, domain) * (1 + 1e-12))
    assert np.all(norms <= bound * (1 + 1e-12))
    apart = np.linalg.norm(whole[:, [0]] - whole, axis=2)
    differences = loss.gradient_differences(records[[0]], records, domain)
    assert np.all(np.max(apart, axis=0) <= differences * (1 + 1e-12) + 1e-12)
    if loss.clip is None:
        np.testing.assert_allclose(norms, bound, rtol=1e-9)
        assert np.all(np.max(apart, axis=0)[1:] >= 0.45 * differences[1:])
    plain = loss.unclipped
    least, most = plain.curvatures(records, domain)
    steps = points[:-1] - points[1:]
    kept = np.sum(steps**2, axis=1) > 1e-6
    turned = plain.gradients(records, points)
    turned, steps = (turned[:-1] - turned[1:])[kept], steps[kept]
    square = np.sum(steps**2, axis=1)[:, None]
    lengths = np.linalg.norm(turned, axis=2)
    assert np.all(np.einsum("mnd,md->mn", turned, steps) / square >= least - 1e-9)
    assert np.all(lengths / np.sqrt(square) <= most + 1e-9)
    assert np.all(lengths <= plain.variation(records, domain) * (1 + 1e-12) + 1e-12)


def test_strong_convexity_of_uncapped_huber_losses() -> None:
    near, far = np.full((1, 2), 0.1), np.full((1, 2), 3.0)
    assert Huber(2.0, 5.0).curvatures(near, Ball(1.0)) == (2.0, 2.0)
    assert Huber(2.0, 5.0).curvatures(np.vstack([near, far]), Ball(1.0)) == (0.0, 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quadratic(math.nan), "curvature must be a finite number, got nan"),
        (lambda: Quadratic((1.0, math.inf)), "curvature must hold finite numbers only, got inf"),
        (lambda: Huber(0.0), "curvature must be a positive finite number, got 0.0"),
        (lambda: Huber(1.0, -1.0), "cap must be a positive finite number, got -1.0"),
        (lambda: Logistic(-1.0), "regularisation must be a finite number of at least 0, got -1.0"),
        (lambda: Clipped(Linear(), 0.0), "norm must be a positive finite number, got 0.0"),
        (lambda: Clipped(3, 1.0), "loss must be a Loss, got 3"),  # type: ignore[arg-type]
        (
            lambda: Clipped(Clipped(Linear(), 1.0), 1.0),
            "loss must be one whose gradients are not clipped yet, got Clipped",
        ),
        (
            lambda: Logistic.rows(np.ones((3, 2)), [1.0, -1.0]),
            "labels must be one for each of 3 rows, got 2 labels",
        ),
        (lambda: Logistic().dimension(np.array([[1.0, 0.0]])), "labels must be -1 or +1, got 0.0"),
        (
            lambda: Logistic().dimension(np.array([[1.0]])),
            "records must have features and a label for logistic losses, got 1 column",
        ),
        (
            lambda: Quadratic((1.0, 2.0)).dimension(np.ones((1, 3))),
            "curvature must be one number or one for each of 3 coordinates, got 2 numbers",
        ),
    ],
)
def test_bad_parameters(make: Callable[[], Loss], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make()


# ----------------------------------------------------------- Projections, and suprema over domains


DOMAINS = [Ball(1.5), Box(0.8), WholeSpace()]


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("d", [1, 2, 7])
def test_projection_goes_to_the_nearest_point(domain: Domain, d: int) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, d)) * rng.choice([0.1, 1.0, 50.0], size=(300, 1))
    found = domain.project(points)
    assert found.shape == points.shape
    for x in found:
        assert domain.contains(x * (1 - 1e-15))
    np.testing.assert_allclose(domain.project(found), found, rtol=1e-15)  # once is enough
    inside = np.array([domain.contains(x) for x in points])
    assert np.array_equal(found[inside], points[inside])
    # the obtuse angle that characterises a projection onto a convex set
    others = domain.project(rng.normal(size=(300, d)))
    angles = (points - found) @ others.T - np.sum((points - found) * found, axis=1)[:, None]
    assert np.max(angles / np.linalg.norm(points, axis=1)[:, None]) < 1e-14
    # contraction
    before = np.linalg.norm(points[:-1] - points[1:], axis=1)
    after = np.linalg.norm(found[:-1] - found[1:], axis=1)
    assert np.all(after <= before * (1 + 1e-14))


@pytest.mark.parametrize("domain", DOMAINS[:2])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_suprema_are_reached_and_not_passed(domain: Domain, d: int) -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=(5, d))
    points = domain.project(rng.normal(size=(20_000, d)) * 30)  # on the boundary
    if isinstance(domain, Ball):
        far, steep = -a, a
    else:
        far, steep = -np.sign(a), np.sign(a)
    points = np.concatenate([points, domain.project(1e6 * far), domain.project(1e6 * steep)])
    distances = np.max(np.linalg.norm(points[:, None] - a, axis=2), axis=0)
    np.testing.assert_allclose(domain.farthest(a), distances, rtol=1e-12)
    np.testing.assert_allclose(domain.support(a), np.max(points @ a.T, axis=0), rtol=1e-12)
    apart = np.max(np.linalg.norm(points[:, None] + points[-5:], axis=2))  # x and -x belong to it
    assert apart <= domain.diameter_in(d) * (1 + 1e-12)
    np.testing.assert_allclose(apart, domain.diameter_in(d), rtol=1e-12)


def test_the_whole_space_has_no_end() -> None:
    whole = WholeSpace()
    assert whole.diameter_in(3) == math.inf
    assert np.array_equal(whole.farthest(np.zeros((2, 3))), [math.inf, math.inf])
    assert np.array_equal(whole.support(np.array([[0.0, 0.0], [0.0, 1e-9]])), [0.0, math.inf])


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, True, "1"])
def test_sizes_are_positive(bad: float) -> None:
    with pytest.raises(
        ValueError, match=f"^diameter must be a positive finite number, got {bad!r}"
    ):
        Ball(bad)
    with pytest.raises(ValueError, match=f"^side must be a positive finite number, got {bad!r}"):
        Box(bad)

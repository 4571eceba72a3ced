"""Projections, and suprema over domains."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit_dimensions import Ball, Box, Domain, WholeSpace

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

"""Landing on the rows of a grid: against images, quadrature and the masses' sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erfc
from scipy.stats import norm

from audit.bounds.own.stretches import bin_masses, landed, landing, rising


def reaches_lower_row(x, variance):
    """Chance of a Brownian motion from x of reaching 0 before 1 and in time, by images."""
    k = 2 * np.arange(60)
    return float(
        np.sum(erfc((k + x) / np.sqrt(2 * variance)))
        - np.sum(erfc((k + 2 - x) / np.sqrt(2 * variance)))
    )


@pytest.mark.parametrize("noise", [0.4, 0.5, 1.0, 3.0])
def test_the_lower_row_is_reached_as_often_as_claimed(noise):
    width = 0.7
    divided = landing(width, noise * width)
    assert 0 < divided.reached < 1
    variance = 4 * ((noise * width) ** 2 - divided.first**2) / width**2  # of the distance
    for x in (1e-3, 0.1, 0.5, 0.9, 0.999):
        chance = reaches_lower_row(x, variance)
        assert (1 - x) * divided.reached <= chance * (1 + 1e-12)
        if noise >= 0.5:
            assert chance <= (1 - x) * divided.reached * 1.35
    # with a quarter of the variance the claim is too large
    assert reaches_lower_row(0.999, variance / 4) < 0.001 * divided.reached


def test_little_noise_is_not_divided():
    divided = landing(1.0, 0.2)
    assert (divided.first, divided.reached) == (0.2, 0.0)


@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.1), (-0.4, 0.1), (0.5, 3.0), (-2.0, 0.3)])
def test_masses_of_bins_and_their_first_moments(mean, std):
    edges = np.linspace(0.0, 1.0, 9)
    mass, least, most = bin_masses(edges, mean, std)
    law = norm(mean, std)
    for b in range(8):
        low, high = edges[b], edges[b + 1]
        assert mass[b] == pytest.approx(quad(law.pdf, low, high, epsabs=0)[0], rel=1e-9)
        moment = quad(lambda u, high=high: law.pdf(u) * (high - u) * 8, low, high, epsabs=0)[0]
        assert least[b] <= moment * (1 + 1e-12)
        assert moment * (1 - 1e-12) <= most[b]
        assert most[b] - least[b] <= 1e-7 * mass[b]


def test_rows_after_landing():
    rows = np.linspace(0.0, 1.0, 5)
    found = landed(np.array([0.0, 0.25, 0.3, 0.9, 1.7]), rows, 4, 0.99)
    assert np.sum(found, axis=1) == pytest.approx(1.0)
    assert found[0, 0] == found[4, 4] == 1.0
    assert found[1, 1] == pytest.approx(1.0)  # at a row
    assert found[2, 1:3] == pytest.approx([0.8 * 0.99, 1 - 0.8 * 0.99])
    beyond = landed(np.array([0.9, 1.7]), rows, 5, 0.99)
    assert beyond[0, 3] == pytest.approx(0.4 * 0.99)
    assert beyond[1, 5] == 1.0  # the row of all larger distances


def test_bounds_that_rise():
    assert rising(np.array([[0.3], [0.1], [0.2]])).ravel().tolist() == [0.1, 0.1, 0.2]
    assert math.isclose(float(rising(np.ones((2, 2))).sum()), 4.0)

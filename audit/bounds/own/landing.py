"""Moves from a distance between two rows of a grid to the rows, without rounding up.

The noise of a step is divided, s^2 = s_1^2 + l^2. From r = (1 - x) r_i + x r_(i+1) the second part
reflects until the distance is at a row, and moves in parallel from then on. The lower row is
reached with probability at least (1 - x)(1 - k), k = 2 sum of e^(-n^2 a/2), a = 4 pi^2 l^2/w^2, w
the spacing ("Landing" of "Our own theorems" in the documentation). The cost is linear in x, so its
mean over a law of distances depends on the mass of each bin between rows, and the mean of x there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from audit.numerics.arrays import Array

_SQUARE = 1.2  # 4 l^2/w^2 where the noise allows; a larger one wastes noise
_MOST = 0.5  # share of the noise
# Of places within a bin, and of a bin's first moment in units of its terms: edges are multiples of
# the width, by up to some hundreds.
_ROUNDING = 1024 * 2.0**-53


@dataclass(frozen=True)
class Landing:
    """Division of the noise of a step.

    first: Standard deviation s_1 of the first part.
    reached: Lower bound 1 - k on the probability of reaching the lower row, in units of 1 - x.
    """

    first: float
    reached: float


def rising(values: Array) -> Array:
    """Return bounds that increase with the row; a bound covers all smaller distances."""
    return np.asarray(np.minimum.accumulate(values[::-1])[::-1])


def landing(width: float, noise: float) -> Landing:
    """Divide the noise of a step for rows that are ``width`` apart."""
    square = min(_SQUARE * width**2, _MOST * 4 * noise**2)
    orders = np.arange(1, 200)
    missed = 2 * float(np.sum(np.exp(-((orders * math.pi) ** 2) * square / width**2 / 2)))
    if missed >= 1:  # rounding up costs no noise
        return Landing(noise, 0.0)
    return Landing(math.sqrt(noise**2 - square / 4), 1 - missed)


def bin_masses(edges: Array, mean: ArrayLike, std: float) -> tuple[Array, Array, Array]:
    """Return normal probabilities of bins, and bounds on their means of 1 - x.

    edges: Equally spaced edges, n + 1 of them; x rises from 0 to 1 in each bin.
    mean: Means of the normal laws.
    std: Their standard deviation.

    Returns mass: Probabilities, shape (..., n); accurate on either side of the mean.
    Returns least, most: Lower and upper bounds on the integral of 1 - x over each bin.
    """
    z = (edges - np.asarray(mean)[..., None]) / std
    below, above = ndtr(z), ndtr(-z)
    mass = np.where(z[..., :-1] > 0, above[..., :-1] - above[..., 1:], np.diff(below))
    pdf = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    scale = std / float(edges[1] - edges[0]) if edges.size > 1 else 0.0  # without bins
    ends = pdf[..., :-1] + pdf[..., 1:]
    moment = (z[..., 1:] * mass - (pdf[..., :-1] - pdf[..., 1:])) * scale
    far = np.maximum(np.abs(z[..., :-1]), np.abs(z[..., 1:]))
    error = _ROUNDING * scale * (1 + far * far) * (ends + far * mass)
    return mass, np.clip(moment - error, 0.0, mass), np.clip(moment + error, 0.0, mass)


def reflected(
    edges: Array, mean: Array, std: float, reached: float
) -> tuple[Array, Array, Array, Array]:
    """Return bounds on the law of the distance after maximal reflection coupling.

    edges: Equally spaced rows from 0.
    mean, std: Distance before, shape (...), and twice the noise.
    reached: As in `Landing`.

    Returns met: Probability of distance 0.
    Returns lower, upper: Masses that land on the lower and on the upper row of each bin.
    Returns beyond: Mass above the last row.
    """
    right, right_low, _ = bin_masses(edges, mean, std)
    left, _, left_low = bin_masses(edges, -mean, std)
    mass = np.maximum(right - left, 0.0)
    lower = np.clip(right_low - left_low, 0.0, mass) * reached
    top = edges[-1]
    beyond = ndtr((mean - top) / std) - ndtr(-(mean + top) / std)
    return 2 * ndtr(-mean / std), lower, mass - lower, beyond


def landed(distances: Array, rows: Array, last: int, reached: float) -> Array:
    """Return bounds on the law of the row after landing from each distance.

    distances: Distances before the second part of the noise, shape (...).
    rows: Equally spaced rows from 0.
    last: Row of all distances above those of ``rows``.
    reached: As in `Landing`.

    Returns: Masses at each row, shape (..., last + 1).
    """
    upper = np.minimum(np.searchsorted(rows, distances), last)
    inside = np.minimum(upper, rows.size - 1)
    share = np.where(upper == inside, (rows[inside] - distances) / float(rows[1]), 0.0)
    share = np.clip(share - _ROUNDING, 0.0, 1.0) * reached
    result = np.zeros((*np.shape(distances), last + 1))
    np.put_along_axis(result, upper[..., None], (1 - share)[..., None], axis=-1)
    lower = np.maximum(upper - 1, 0)[..., None]
    lower_mass = np.take_along_axis(result, lower, axis=-1)
    np.put_along_axis(result, lower, lower_mass + share[..., None], axis=-1)
    return result

"""Moves from a distance between two rows of a grid to the rows, without rounding up.

Let B(r_i) be bounds at the rows r_i of a grid of spacing w, increasing in i. Divide the noise of a
step, s^2 = s_1^2 + l^2, and let the second part be a Brownian motion up to the time l^2. From a
distance r between two rows, r = (1 - x) r_i + x r_(i+1), reflect at a constant weight until the
distance is at a row, and move in parallel from then on. The distance is a Brownian motion of
variance 4 per unit of time, so by the expansion in sines on the interval it comes to r_i with
probability

    (1 - x) - sum over n of (2/(n pi)) sin(n pi x) e^(-n^2 a/2),  a = 4 pi^2 l^2/w^2,

which is at least (1 - x)(1 - k), k = 2 sum of e^(-n^2 a/2), as sin(n pi x) <= n pi (1 - x).
Elsewhere it ends at most at r_(i+1). So the cost from r is at most

    B(r_(i+1)) - (1 - x)(1 - k)(B(r_(i+1)) - B(r_i)),

which increases in r, so that it also covers all smaller distances. (Rounding up is k = 1.) As it is
linear in x, its mean over a law of distances depends on the mass of each bin between rows, and on
the mean of x there.
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
_ROUNDING = 1e-14  # of a bin's first moment, in units of its terms


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
    scale = std / float(edges[1] - edges[0])
    ends = pdf[..., :-1] + pdf[..., 1:]
    moment = (z[..., 1:] * mass - (pdf[..., :-1] - pdf[..., 1:])) * scale
    far = np.maximum(np.abs(z[..., :-1]), np.abs(z[..., 1:]))
    error = _ROUNDING * scale * (1 + far * far) * (ends + far * mass)
    return mass, np.clip(moment - error, 0.0, mass), np.clip(moment + error, 0.0, mass)


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

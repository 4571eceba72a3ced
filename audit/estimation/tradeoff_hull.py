"""Upper bounds on the tradeoff function from simultaneous rates, and their consequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def hull_points(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Return the vertices of an upper bound on a tradeoff function, alpha ascending.

    A first rate of at least p and a second one of at most q bound it at alpha = 1 - p by beta = q:
    reject the first law outside the event. It is convex and below the line from (0, 1) to (1, 0)
    (Dong, Roth and Su 2022, Proposition 2.2), so it is below the hull of the points and both ends.
    """
    kept = hull_vertices(alpha, beta)
    return (
        np.concatenate([[0.0], alpha[kept], [1.0]]),
        np.concatenate([[1.0], beta[kept], [0.0]]),
    )


def hull_vertices(alpha: Array, beta: Array) -> NDArray[np.intp]:
    """Return the lower convex hull's vertices, by ascending alpha, of points, (0, 1) and (1, 0)."""
    useful = np.flatnonzero((beta < 1 - alpha) & (alpha > 0))
    useful = useful[np.lexsort((beta[useful], alpha[useful]))]
    lowest = np.minimum.accumulate(beta[useful])
    falls = np.ones(useful.size, dtype=np.bool_)
    falls[1:] = lowest[1:] < lowest[:-1]
    useful = useful[falls]
    hull = [(0.0, 1.0, -1)]
    points = zip(alpha[useful].tolist(), beta[useful].tolist(), useful.tolist(), strict=True)
    for point in (*points, (1.0, 0.0, -1)):
        while len(hull) > 1:
            (a, b, _), (c, d, _) = hull[-2:]
            if (c - a) * (point[1] - b) > (d - b) * (point[0] - a):  # a turn to the left
                break
            hull.pop()
        hull.append(point)
    return np.asarray([index for _, _, index in hull[1:-1]], dtype=np.intp)


def hull_renyi(orders: Array, alpha: Array, beta: Array) -> Array:
    """Return the Renyi divergence of the pair whose tradeoff function is piecewise linear.

    A pair whose tradeoff function lies below this one can be turned into the discrete pair with
    masses diff(alpha) and -diff(beta) by post-processing (Blackwell 1953; Dong, Roth and Su 2022,
    Theorem 2.10), so its own divergence is at least this (data processing: van Erven and Harremoes
    2014, Theorem 9). The result combines all events of the band and is at least as large as the
    bound of any single event.
    """
    p, q = np.diff(alpha), -np.diff(beta)
    p, q = p[p > 0], q[p > 0]  # a segment without first mass contributes nothing
    loss = np.log(p) - np.log(q)
    highest = float(np.max(loss))
    power = orders[:, None] - 1
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        small = np.maximum(highest, -float(np.min(loss))) * power[:, 0] < 1
        gain = np.expm1(np.clip(power * loss, -1.0, 1.0))
        near = np.log1p(np.maximum(gain @ p, 0.0)) / power[:, 0]
        rest = np.log(np.sum(q * np.exp(np.maximum(orders[:, None] * (loss - highest), -745)), 1))
        far = (1 + 1 / power[:, 0]) * highest + rest / power[:, 0]
    return np.asarray(np.maximum(np.where(small, near, far), 0.0))

"""From rates that hold together to an upper bound on the tradeoff function."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from audit.estimation.regions import Region

Array = NDArray[np.float64]


def tradeoff_points(regions: Iterable[Region]) -> tuple[Array, Array]:
    """Vertices ``(alpha, beta)`` of an upper bound on the tradeoff function T(first, second).

    A region with first rate at least p and second rate at most q bounds T at alpha = 1 - p by
    beta = q: reject the first law outside the event. T is convex and runs below the line from
    (0, 1) to (1, 0) (Dong, Roth and Su 2022, Proposition 2.2), so the lower convex hull of these
    points and the two ends is above T wherever every region holds. A region of many corners
    enters with the rectangle around it.

    Returns
    -------
    Ascending ``alpha`` from 0 to 1 and falling ``beta``, shape (vertices,) each.
    """
    corners = [(1 - float(np.min(r.first)), float(np.max(r.second))) for r in regions]
    points = sorted({(0.0, 1.0), (1.0, 0.0), *corners})
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and not _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            continue  # sorted: the lower point of two at one alpha came first
        hull.append(point)
    alpha, beta = np.asarray(hull).T
    return alpha, beta


def _turns_left(
    first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]
) -> bool:
    cross = (second[0] - first[0]) * (third[1] - first[1])
    return cross > (second[1] - first[1]) * (third[0] - first[0])

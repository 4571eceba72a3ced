"""Convex hulls."""

from __future__ import annotations

from collections.abc import Iterable


def lower_hull(points: Iterable[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Return the lower convex hull of points with increasing abscissas.

    What follows an ordinate in a point goes with it.
    """
    hull: list[tuple[float, ...]] = []
    for point in points:
        x, y = point[:2]
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2][:2], hull[-1][:2]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):  # a turn to the left
                break
            hull.pop()
        hull.append(point)
    return hull

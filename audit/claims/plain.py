"""Pairs as plain numbers, for witness files: dictionaries, lists, numbers and strings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from audit.claims.pairs import Densities, Finite, Mixtures, Pair
from audit.constructions import Affine, PiecewiseLinear, Process, Segment, Step, UpdateMap
from audit.constructions.base import Construction


def plain_pair(pair: Pair) -> dict[str, Any]:
    """Return a pair as plain numbers.

    Raises
    ------
    ValueError
        If a process has an update map that is not piecewise linear.
    """
    if isinstance(pair, Mixtures):
        laws = {
            name: {"weights": [*law.weights], "means": [*law.means], "stds": [*law.stds]}
            for name, law in (("first", pair.first), ("second", pair.second))
        }
        return {"kind": "mixtures", **laws}
    if isinstance(pair, Finite):
        return {
            "kind": "finite",
            "first": [*pair.first],
            "second": [*pair.second],
            "times": pair.times,
        }
    if isinstance(pair, Densities):
        return {"kind": "densities", "slope": pair.slope, "low": pair.low, "high": pair.high}
    assert isinstance(pair, Construction)
    first, second = pair.processes()
    return {"kind": "process", "first": _process(first), "second": _process(second)}


def _process(process: Process) -> dict[str, Any]:
    return {
        "start": process.start,
        "lower": process.lower if math.isfinite(process.lower) else None,
        "upper": process.upper if math.isfinite(process.upper) else None,
        "lower_wall": process.lower_wall.value,
        "upper_wall": process.upper_wall.value,
        "paths": [
            {
                "probability": path.probability,
                "segments": [_segment(segment) for segment in path.segments if len(segment)],
            }
            for path in process.paths
        ],
    }


def _segment(segment: Segment) -> dict[str, Any]:
    return {"times": segment.times, "steps": [_step(step) for step in segment.steps]}


def _step(step: Step) -> dict[str, Any]:
    return {
        "noise_std": step.noise_std,
        "maps": [
            {"weight": weight, **_map(phi)}
            for phi, weight in zip(step.maps, step.weights, strict=True)
            if weight > 0
        ],
    }


def _map(phi: UpdateMap) -> dict[str, Any]:
    """Return a broken line: its points and values, and the slopes beyond them."""
    if isinstance(phi, Affine):
        return {"points": [0.0], "values": [phi.shift], "slopes": [phi.slope, phi.slope]}
    if isinstance(phi, PiecewiseLinear):
        return {"points": [*phi.points], "values": [*phi.values], "slopes": [*phi.slopes]}
    return _recognised(phi)


def _recognised(phi: UpdateMap) -> dict[str, Any]:
    """Read a broken line off a map that has kinks, and check that there is nothing else to it."""
    points = np.array(sorted(phi.kinks) or [0.0])
    reach = 1.0 + float(np.ptp(points))
    values = phi(points)
    slopes = [
        float(phi(points[:1])[0] - phi(points[:1] - reach)[0]) / reach,
        float(phi(points[-1:] + reach)[0] - phi(points[-1:])[0]) / reach,
    ]
    line = PiecewiseLinear(tuple(points), tuple(values), (slopes[0], slopes[1]))
    probe = np.linspace(points[0] - 5 * reach, points[-1] + 5 * reach, 2003)
    if not np.allclose(line(probe), phi(probe), rtol=0, atol=1e-12 * (1 + 6 * reach)):
        raise ValueError(f"update maps must be piecewise linear for a witness, got {phi!r}")
    return _map(line)

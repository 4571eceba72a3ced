"""Pairs as plain numbers: the two chains of a construction, written out."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from audit.claims.claim import Pair
from audit.codec import encode
from audit.constructions import (
    Affine,
    DependentStep,
    PiecewiseLinear,
    Process,
    Segment,
    Staircase,
    Step,
    UpdateMap,
)
from audit.constructions.explicit import ExplicitPair, NormalVectors


def plain_pair(pair: Pair) -> dict[str, Any]:
    """Return the two laws of a pair as plain numbers: dictionaries, lists, numbers and texts."""
    if isinstance(pair, ExplicitPair):
        # vectors are kept: their law on a line is a computation that a reader should repeat
        distributions = pair if isinstance(pair, NormalVectors) else pair.distributions()
        return {**encode(distributions), "kind": distributions.kind.lower()}
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
                "segments": [
                    part for segment in path.segments if len(segment) for part in _parts(segment)
                ],
            }
            for path in process.paths
        ],
    }


def _parts(segment: Segment) -> list[dict[str, Any]]:
    """Return a segment; one that runs once is split so that equal steps in a row are one."""
    steps = [_step(step) for step in segment.steps]
    if segment.times > 1:
        return [{"times": segment.times, "steps": steps}]
    found: list[dict[str, Any]] = []
    for step, equal in itertools.groupby(steps):
        times = len(list(equal))
        if times == 1 and found and found[-1]["times"] == 1:
            found[-1]["steps"].append(step)
        else:
            found.append({"times": times, "steps": [step]})
    return found


def _step(step: Step) -> dict[str, Any]:
    moves: list[dict[str, int]] = [{}] * len(step.maps)
    if isinstance(step, DependentStep):
        moves = [{"from": before, "to": after} for before, after in step.moves]
    return {
        "noise_std": step.noise_std,
        "maps": [
            {"weight": weight, **_map(phi), **move}
            for phi, weight, move in zip(step.maps, step.weights, moves, strict=True)
            if weight > 0
        ],
    }


def _map(phi: UpdateMap) -> dict[str, Any]:
    """Return a map as its points and values, and the slopes beyond them, or as its stairs."""
    if isinstance(phi, Affine):
        return {"points": [0.0], "values": [phi.shift], "slopes": [phi.slope, phi.slope]}
    if isinstance(phi, PiecewiseLinear):
        return {"points": [*phi.points], "values": [*phi.values], "slopes": [*phi.slopes]}
    if isinstance(phi, Staircase):
        return {"edges": [*phi.edges], "values": [*phi.values], "stride": phi.stride}
    return _recognised(phi)


def _recognised(phi: UpdateMap) -> dict[str, Any]:
    """Read a piecewise linear map off a map with kinks, and check that it is nothing else."""
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

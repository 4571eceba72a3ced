"""Checks that a pair is one of neighbouring datasets of the mechanism that the claim is about.

For a chain, every path must have the mechanism's steps, domain and noise, and the maps of a step
must come from gradients that the assumptions allow: a map moves x by -eta times the mean gradient,
and the maps of both chains are those of batches that differ in one record at most.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audit_verify.walks import path_length

Plain = Mapping[str, Any]
_ROUNDING = 1e-9  # relative, of maps that were computed in doubles
_SAMPLED, _CYCLED = object(), object()
_RANDOM_SIZES = ("poisson", "truncated poisson", "random allocation")
_SAMPLERS = {
    "poisson": _SAMPLED,
    "without replacement": _SAMPLED,
    "cyclic": _CYCLED,
    "shuffled": _CYCLED,
}


class InadmissibleError(ValueError):
    """The pair breaks an assumption; the message names it."""


def trusted(content: Plain) -> tuple[str, ...]:
    """Return what a witness leaves to trust.

    Raises
    ------
    InadmissibleError
        If the pair contradicts the mechanism.
    """
    pair, mechanism = content["pair"], content["mechanism"]
    found = []
    if content["evidence"] == "sampled":
        found.append("that this pair's samples were counted as stated: the laws stand for them")
    if mechanism is None:
        return (*found, "that the two laws belong to neighbouring datasets")
    if pair["kind"] != "process":
        return (*found, "that the mechanism attains the two laws")
    if mechanism.get("release", "last iterate") == "last iterate":
        _check_chains(pair, mechanism)
        return (*found, "that the gradients depend on the batch as the sampler allows")
    return (*found, f"that the chains are those of the release {mechanism['release']!r}")


def _check_chains(pair: Plain, mechanism: Plain) -> None:
    first, second = pair["first"], pair["second"]
    diameter = mechanism.get("diameter")
    ends = first["lower"], first["upper"]
    if diameter is None:
        _require(ends == (None, None), "walls must be left out without a diameter")
    else:
        _require(None not in ends, "walls must be given on both sides for a diameter")
        _require(_at_most(ends[1] - ends[0], diameter), "walls must be within the diameter")
    _require(first["start"] == second["start"], "start must be that of both chains")
    walls = {law[f"{side}_wall"] for law in (first, second) for side in ("lower", "upper")}
    _require(walls == {"clamp"} or diameter is None, "walls must clamp, as projections do")
    for law in (first, second):
        for path in law["paths"]:
            _require(path_length(path) == mechanism["steps"], "paths must have every step")
    sizes = mechanism["step_size"]
    if isinstance(sizes, list):
        _require(len(sizes) == mechanism["steps"], "step sizes must be one a step")
    paths = [*first["paths"], *second["paths"]]
    count = len(first["paths"])
    _require(2 * count == len(paths), "paths must be as many in both chains")
    rate = mechanism.get("poisson_rate") or mechanism["batch_size"] / mechanism["dataset_size"]
    known: dict[tuple[object, ...], list[float]] = {}
    differing = [0] * count
    for times, eta, *steps in _aligned(paths, mechanism["step_size"]):
        key = (eta, *map(id, steps))
        if key not in known:
            _check_step(steps[:count], steps[count:], eta, mechanism, ends)
            known[key] = [_apart(a, b) for a, b in zip(steps[:count], steps[count:], strict=True)]
        if _SAMPLERS.get(mechanism.get("batching", "full")) is _SAMPLED:
            _require(max(known[key]) <= rate + 1e-9, "weights must be those of the sampler")
        differing = [
            n + times * (share > 0) for n, share in zip(differing, known[key], strict=True)
        ]
    if _SAMPLERS.get(mechanism.get("batching", "full")) is _CYCLED:
        most = math.ceil(mechanism["steps"] * mechanism.get("participations", 1) * rate)
        _require(max(differing) <= most, "steps must hold the record as often as the batches do")


def _aligned(paths: Sequence[Plain], sizes: float | list[float]) -> Iterator[tuple[Any, ...]]:
    """Yield (repetitions, step size, step of each path), in order but for repetitions."""
    shapes = [[(s["times"], len(s["steps"])) for s in path["segments"]] for path in paths]
    if isinstance(sizes, list) or any(shape != shapes[0] for shape in shapes):
        etas = sizes if isinstance(sizes, list) else itertools.repeat(sizes)
        # the paths are equally long, and step sizes may go on
        yield from ((1, *one) for one in zip(etas, *map(_steps, paths), strict=False))
        return
    for segments in zip(*(path["segments"] for path in paths), strict=True):
        for steps in zip(*(segment["steps"] for segment in segments), strict=True):
            yield segments[0]["times"], sizes, *steps


def _steps(path: Plain) -> Iterator[Plain]:
    for segment in path["segments"]:
        for _ in range(segment["times"]):
            yield from segment["steps"]


def _apart(first: Plain, second: Plain) -> float:
    """Return the total variation between the maps that two steps draw."""
    weights: dict[str, float] = {}
    for step, sign in ((first, 1.0), (second, -1.0)):
        for phi in step["maps"]:
            key = json.dumps({k: v for k, v in phi.items() if k != "weight"}, sort_keys=True)
            weights[key] = weights.get(key, 0.0) + sign * phi["weight"]
    return sum(abs(weight) for weight in weights.values()) / 2


def _check_step(
    first: Sequence[Plain],
    second: Sequence[Plain],
    eta: float,
    mechanism: Plain,
    ends: tuple[float | None, float | None],
) -> None:
    """Check the maps that one step may take on any path."""
    for step in (*first, *second):
        off = abs(step["noise_std"] - eta * mechanism["noise_std"])
        _require(off <= _ROUNDING * step["noise_std"], "noise_std must be that of the mechanism")
    own = [{id(m): m for step in steps for m in step["maps"]}.values() for steps in (first, second)]
    gradients = [[_Gradient(phi, eta, ends) for phi in maps] for maps in own]
    batching, size = mechanism.get("batching", "full"), mechanism["batch_size"]
    if batching in _RANDOM_SIZES:  # the divisor stays; an empty batch has no curvature
        most = (mechanism.get("max_batch_size") or mechanism["dataset_size"]) / size
        least = 0.0
    else:
        most, least = 1.0, mechanism.get("strong_convexity", 0.0)
    bounds = [b for b in (mechanism.get("lipschitz"), mechanism.get("clip_norm")) if b is not None]
    for gradient in itertools.chain(*gradients):
        if bounds:  # a regulariser that all records share is left out
            regularised = mechanism.get("strong_convexity", 0.0) > 0
            largest = gradient.spread / 2 if regularised else gradient.largest
            _require(_at_most(largest, most * min(bounds)), "gradients must be within the bound")
        if any("edges" in phi for maps in own for phi in maps):
            _require(mechanism.get("smoothness") is None, "gradients must be continuous")
            continue
        low, high = gradient.slopes
        smoothness = mechanism.get("smoothness")
        if smoothness is not None:
            _require(
                _at_most(max(abs(low), abs(high)), most * smoothness), "gradients must be smooth"
            )
        if mechanism.get("convex", True):
            slack = _ROUNDING * max(1.0, abs(least)) / min(eta, 1.0)
            _require(low >= least - slack, "gradients must be those of (strongly) convex losses")
    _check_difference(gradients, mechanism)


def _check_difference(gradients: Sequence[Sequence[_Gradient]], mechanism: Plain) -> None:
    """Check that each map of one chain has one of the other within a record's reach."""
    bound = mechanism.get("gradient_sensitivity")
    if bound is None:
        limits = [mechanism.get(name) for name in ("lipschitz", "clip_norm")]
        bound = 2 * min(limit for limit in limits if limit is not None)
    reach = bound / mechanism["batch_size"]
    for one, other in (gradients, gradients[::-1]):
        for gradient in one:
            nearest = min(gradient.distance(another) for another in other)
            _require(_at_most(nearest, reach), "maps must differ by one record at most")


class _Gradient:
    """The mean gradient (x - phi(x))/eta of a map on the domain."""

    def __init__(self, phi: Plain, eta: float, ends: tuple[float | None, float | None]) -> None:
        self.phi, self.eta = phi, eta
        kinks = phi.get("points", phi.get("edges"))
        width = max(1.0, kinks[-1] - kinks[0])
        low = kinks[0] - width if ends[0] is None else ends[0]
        high = kinks[-1] + width if ends[1] is None else ends[1]
        self.points = sorted({low, high, *(x for x in kinks if low < x < high)})
        self.unbounded = None in ends

    def __call__(self, x: float, *, before: bool = False) -> float:
        """Return the gradient; with ``before`` its limit from the left."""
        phi = self.phi
        if "edges" in phi:
            edges, values = phi["edges"], phi["values"]
            index = sum(e < x if before else e <= x for e in edges) - 1
            inside = 0 <= index < len(values)
            moved = values[index] if inside else x + math.copysign(phi["stride"], -index)
            return float(x - moved) / self.eta
        points, values, slopes = phi["points"], phi["values"], phi["slopes"]
        if x <= points[0]:
            moved = values[0] + slopes[0] * (x - points[0])
        elif x >= points[-1]:
            moved = values[-1] + slopes[1] * (x - points[-1])
        else:
            i = sum(p <= x for p in points) - 1
            share = (x - points[i]) / (points[i + 1] - points[i])
            moved = values[i] + share * (values[i + 1] - values[i])
        return float(x - moved) / self.eta

    @property
    def largest(self) -> float:
        """Largest absolute value on the domain."""
        if self.unbounded and any(abs(1 - s) > 1e-12 for s in self.phi.get("slopes", ())):
            return math.inf
        return max(abs(self(x, before=side)) for x in self.points for side in (False, True))

    @property
    def spread(self) -> float:
        """Range of the values without a linear part of the least slope."""
        least, largest = self.slopes
        if self.unbounded and largest > least + 1e-9 and "slopes" in self.phi:
            outer = [(1 - slope) / self.eta for slope in self.phi["slopes"]]
            if max(outer) > least + 1e-9 / self.eta:
                return math.inf
        values = [self(x) - least * x for x in self.points]
        return float(max(values) - min(values))

    @property
    def slopes(self) -> tuple[float, float]:
        """Least and largest slope on the domain."""
        found = [(self(b) - self(a)) / (b - a) for a, b in itertools.pairwise(self.points)]
        return min(found), max(found)

    def distance(self, other: _Gradient) -> float:
        """Return the largest difference of two gradients on the domain."""
        points = sorted({*self.points, *other.points})
        return max(
            abs(self(x, before=side) - other(x, before=side))
            for x in points
            for side in (False, True)
        )


def _at_most(value: float, limit: float) -> bool:
    return value <= limit * (1 + _ROUNDING)


def _require(holds: bool, requirement: str) -> None:
    if not holds:
        raise InadmissibleError(f"pair: {requirement}")

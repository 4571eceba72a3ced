"""Two laws from a witness's plain numbers, by simple quadrature.

Nothing here uses the package's engines: NumPy, SciPy and the numbers of the file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, ndtr

Array = NDArray[np.float64]
Plain = Mapping[str, Any]
Normals = list[tuple[float, float, float]]  # weight, mean, std

_REACH = 14.0  # standard deviations of a line that are kept
_MOST_NODES = 5000
_PANELS = 150
_MOST_WORK = 4e11
_FLOOR = 1e-290  # what is smaller may have underflowed: counted as this, against a refutation


class OutOfReach(Exception):
    """The law takes too long by this simple way; the message says why."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Log masses of two laws P and Q at the same nodes; ``x`` is None for finite laws.

    With ``atoms`` the first and the last node are the atoms at two walls.
    """

    log_p: Array
    log_q: Array
    x: Array | None = None
    atoms: bool = False


def nodes_of(pair: Plain, swap: bool, order: int) -> Nodes:
    """Return both laws at quadrature nodes, ``order`` of them a panel; P is the first law.

    Raises ``OutOfReach`` for laws that this simple way takes too long for, and ``ValueError`` for
    pairs that are not understood.
    """
    kind = pair.get("kind")
    atoms = False
    if kind == "finite":
        first, second = _finite(pair)
        x = None
    elif kind == "densities":
        x, weights = panels(float(pair["low"]), float(pair["high"]), 400, order)
        first, second = (
            slope * x + np.log(weights) for slope in (float(pair["slope"]), -float(pair["slope"]))
        )
        first, second = first - logsumexp(first), second - logsumexp(second)
    elif kind in ("mixtures", "process"):
        laws = [normals_of(pair, name) for name in ("first", "second")]
        if laws[0] is not None and laws[1] is not None:
            x, first, second = _normal_nodes(laws[0], laws[1], order)
        else:
            x, first, second = _chain_nodes(pair, order)
            atoms = True
    else:
        raise ValueError(f"pair must be of a known kind, got {kind!r}")
    return Nodes(second, first, x, atoms) if swap else Nodes(first, second, x, atoms)


def panels(low: float, high: float, count: int, order: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on equal panels of [low, high]."""
    return _on_edges(np.linspace(low, high, count + 1), order)


def normals_of(pair: Plain, name: str) -> Normals | None:
    """Return a law as a mixture of normals, or None where it is not one in closed form."""
    law = pair[name]
    if pair["kind"] == "mixtures":
        return list(zip(law["weights"], law["means"], law["stds"], strict=True))
    if law["lower"] is not None or law["upper"] is not None:
        return None
    found: Normals = []
    for path in law["paths"]:
        slope, shift, variance = 1.0, 0.0, 0.0
        for segment in path["segments"]:
            once = 1.0, 0.0, 0.0
            for step in segment["steps"]:
                if len(step["maps"]) != 1:
                    return _few_maps(law)
                line = _straight(step["maps"][0])
                if line is None:
                    return None
                once = _then(once, (*line, step["noise_std"] ** 2))
            slope, shift, variance = _then((slope, shift, variance), _power(once, segment["times"]))
        mean = slope * law["start"] + shift
        found.append((path["probability"], mean, math.sqrt(variance)))
    return found


def log_density(normals: Normals, x: Array) -> Array:
    """Log density of a mixture of normals."""
    parts = [
        math.log(weight) - 0.5 * ((x - mean) / std) ** 2 - math.log(std * math.sqrt(2 * math.pi))
        for weight, mean, std in normals
        if weight > 0
    ]
    return np.asarray(parts[0] if len(parts) == 1 else logsumexp(parts, axis=0))


def moved(phi: Plain, x: Array) -> Array:
    """Apply a broken line."""
    points, values = phi["points"], phi["values"]
    inside = np.interp(x, points, values)
    below, above = np.minimum(x - points[0], 0.0), np.maximum(x - points[-1], 0.0)
    return np.asarray(inside + phi["slopes"][0] * below + phi["slopes"][1] * above)


def steps_of(path: Plain) -> list[Plain]:
    """Every step of a path, in order."""
    return [
        step
        for segment in path["segments"]
        for _ in range(segment["times"])
        for step in segment["steps"]
    ]


def length(law: Plain) -> int:
    """Return the largest number of steps of a path."""
    lengths = [
        sum(len(segment["steps"]) * int(segment["times"]) for segment in path["segments"])
        for path in law["paths"]
    ]
    return max(lengths)


def _on_edges(edges: Array, order: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return (middle + half * nodes).ravel(), (half * weights).ravel()


def _finite(pair: Plain) -> tuple[Array, Array]:
    times, outcomes = int(pair["times"]), len(pair["first"])
    if math.comb(times + outcomes - 1, outcomes - 1) > 1_000_000:
        raise OutOfReach("too many different counts of the outcomes")
    # bars between stars: every way to share the draws among the outcomes
    bars = np.array(list(itertools.combinations(range(times + outcomes - 1), outcomes - 1)))
    ends = np.full((len(bars), 1), times + outcomes - 1)
    counts = np.diff(np.hstack([np.full((len(bars), 1), -1), bars, ends]), axis=1) - 1
    ways = gammaln(times + 1) - gammaln(counts + 1).sum(axis=1)
    logs = []
    for name in ("first", "second"):
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(counts > 0, counts * np.log(np.asarray(pair[name], dtype=float)), 0.0)
        logs.append(ways + terms.sum(axis=1))
    return logs[0], logs[1]


def _straight(phi: Plain) -> tuple[float, float] | None:
    """Slope and shift of a line without bends."""
    slope = phi["slopes"][0]
    at = np.array([phi["points"][0], phi["points"][-1]])
    line = phi["values"][0] + slope * (at - at[0])
    bent = phi["slopes"][1] != slope or not np.allclose(line[-1], phi["values"][-1], rtol=1e-12)
    if bent or len(phi["points"]) > 2:
        return None
    return float(slope), float(phi["values"][0] - slope * phi["points"][0])


def _then(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Join two motions x -> a x + b + N(0, v)."""
    (a, b, v), (c, d, w) = first, second
    return c * a, c * b + d, c * c * v + w


def _power(motion: tuple[float, float, float], times: int) -> tuple[float, float, float]:
    result = 1.0, 0.0, 0.0
    while times:
        if times & 1:
            result = _then(result, motion)
        motion, times = _then(motion, motion), times >> 1
    return result


def _few_maps(law: Plain) -> Normals | None:
    """Return one normal for every sequence of maps, for a short chain of straight maps."""
    found: Normals = []
    for path in law["paths"]:
        branches = [(path["probability"], law["start"], 0.0)]
        for step in steps_of(path):
            lines = [(phi["weight"], _straight(phi)) for phi in step["maps"]]
            if any(line is None for _, line in lines) or len(branches) * len(lines) > 256:
                return None
            branches = [
                (p * w, line[0] * m + line[1], line[0] ** 2 * v + step["noise_std"] ** 2)
                for p, m, v in branches
                for w, line in lines
                if line is not None
            ]
        found += [(p, m, math.sqrt(v)) for p, m, v in branches]
    return found


def _normal_nodes(first: Normals, second: Normals, order: int) -> tuple[Array, Array, Array]:
    shapes = sorted({(mean, std) for _, mean, std in [*first, *second]})
    grid = np.linspace(-38, 38, 305 if len(shapes) > 4 else 1217)
    if len(shapes) > 100:
        raise OutOfReach(f"the laws are mixtures of {len(shapes)} normals")
    edges = np.unique(np.concatenate([mean + std * grid for mean, std in shapes]))
    x, weights = _on_edges(edges, order)
    log_weights = np.log(np.maximum(weights, 1e-300))
    return x, log_density(first, x) + log_weights, log_density(second, x) + log_weights


def _chain_nodes(pair: Plain, order: int) -> tuple[Array, Array, Array]:
    laws = [pair["first"], pair["second"]]
    steps = [step for law in laws for path in law["paths"] for step in steps_of(path)]
    if not steps:
        raise ValueError("paths must have steps, got none")
    ends = {(law["lower"], law["upper"]) for law in laws}
    if len(ends) != 1:
        raise ValueError(f"both laws must have one domain, got {ends}")
    ((lower, upper),) = ends
    reached = [_range(law) for law in laws]
    low = min(r[0] for r in reached) if lower is None else lower
    high = max(r[1] for r in reached) if upper is None else upper
    std = min(step["noise_std"] for step in steps)
    slopes = [abs(s) for step in steps for phi in step["maps"] for s in _slopes(phi)]
    width = std / max(1.0, *slopes)
    # finer where that is cheap: a kink is lost between two nodes
    width /= min(16, max(1, int(_PANELS * width / (high - low))))
    bends = {p for step in steps for phi in step["maps"] for p in phi["points"] if low < p < high}
    pieces = [low, *sorted(bends), high]
    edges = np.unique(
        np.concatenate(
            [
                np.linspace(a, b, max(1, math.ceil((b - a) / width)) + 1)
                for a, b in itertools.pairwise(pieces)
            ]
        )
    )
    x, weights = _on_edges(edges, order)
    if x.size > _MOST_NODES or x.size**2 * len(steps) > _MOST_WORK:
        raise OutOfReach(f"the chain would take {x.size} nodes over {len(steps)} steps")
    walls = [low, high]
    log_masses = [np.log(_chain_masses(law, walls, x, weights)) for law in laws]
    return np.concatenate([[low], x, [high]]), log_masses[0], log_masses[1]


def _slopes(phi: Plain) -> list[float]:
    inner = np.diff(phi["values"]) / np.diff(phi["points"])
    return [*phi["slopes"], *inner.tolist()]


def _range(law: Plain) -> tuple[float, float]:
    """How far a chain without walls gets, but for its far tails."""
    lowest = highest = float(law["start"])
    for path in law["paths"]:
        low = high = float(law["start"])
        variance = 0.0
        for step in steps_of(path):
            at = np.linspace(low, high, 65)
            images = [moved(phi, at) for phi in step["maps"]]
            low, high = min(i.min() for i in images), max(i.max() for i in images)
            slope = max(abs(s) for phi in step["maps"] for s in _slopes(phi))
            variance = slope**2 * variance + step["noise_std"] ** 2
            reach = _REACH * math.sqrt(variance)
            lowest, highest = min(lowest, low - reach), max(highest, high + reach)
    return lowest, highest


def _chain_masses(law: Plain, walls: list[float], x: Array, weights: Array) -> Array:
    """Masses at [lower wall, nodes, upper wall]; what leaves an open side is dropped."""
    points = np.concatenate([walls[:1], x, walls[1:]])
    kernels: dict[str, Array] = {}
    total = np.zeros(points.size)
    for path in law["paths"]:
        state: Array | None = None
        for step in steps_of(path):
            if state is None:
                state = _kernel(law, step, np.array([float(law["start"])]), points, weights)[:, 0]
                continue
            key = repr(step)
            if key not in kernels:
                if len(kernels) >= 6:
                    kernels.clear()
                kernels[key] = _kernel(law, step, points, points, weights)
            state = kernels[key] @ state
        if state is not None:
            total += path["probability"] * state
    return np.maximum(total, _FLOOR)


def _kernel(law: Plain, step: Plain, at: Array, points: Array, weights: Array) -> Array:
    """Masses at ``points`` after one step from each of ``at``, shape (points, at)."""
    std = step["noise_std"]
    kernel = np.zeros((points.size, at.size))
    for phi in step["maps"]:
        image = moved(phi, at)
        scaled = (points[1:-1, None] - image) / std
        inner = np.exp(-0.5 * scaled**2) / (std * math.sqrt(2 * math.pi)) * weights[:, None]
        low = ndtr((points[0] - image) / std) if law["lower"] is not None else 0 * image
        high = ndtr((image - points[-1]) / std) if law["upper"] is not None else 0 * image
        kernel += phi["weight"] * np.vstack([low, inner, high])
    for wall, end, row in (("lower_wall", law["lower"], 0), ("upper_wall", law["upper"], -1)):
        if end is not None and law[wall] == "absorb":
            stuck = at == end
            kernel[:, stuck] = 0.0
            kernel[row, stuck] = 1.0
    return kernel

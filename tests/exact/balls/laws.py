"""Probabilities of the cells of explicit laws: normals, vectors, Laplace, finite, exponential.

Cells of a law on a line are the intervals between ascending cuts. Those of normal vectors are the
products of such intervals along the coordinates, or the intervals along one direction.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flint import arb

from tests.exact.balls.quantities import Cell, normal

Plain = Mapping[str, Any]
Normals = Sequence[tuple[arb, arb, arb]]  # weight, mean, standard deviation


def between(cuts: Sequence[arb], tail: Callable[[arb], tuple[bool, arb]]) -> list[arb]:
    """Return the masses of the intervals between cuts, of a law whose mass is 1.

    ``tail`` returns whether a cut is left of the centre, and the mass beyond it on that side: the
    smaller mass, so that nothing cancels in the tails.
    """
    masses = []
    left, beyond = True, arb(0)
    for cut in cuts:
        is_left, mass = tail(cut)
        if left and is_left:
            masses.append(mass - beyond)
        else:
            masses.append(1 - beyond - mass if left else beyond - mass)
        left, beyond = is_left, mass
    masses.append(1 - beyond if left else beyond)
    return [mass.nonnegative_part() for mass in masses]


def normal_masses(cuts: Sequence[arb], mean: arb, std: arb) -> list[arb]:
    """Return the masses of the intervals between cuts under a normal law."""

    def tail(cut: arb) -> tuple[bool, arb]:
        z = (cut - mean) / std
        is_left = float(z.mid()) < 0
        return is_left, normal(z if is_left else -z)

    return between(cuts, tail)


def mixture_masses(cuts: Sequence[arb], normals: Normals) -> list[arb]:
    """Return the masses of the intervals between cuts under a mixture of normal laws."""
    parts = [[weight * mass for mass in normal_masses(cuts, m, s)] for weight, m, s in normals]
    return [sum(column, arb(0)) for column in zip(*parts, strict=True)]


def probabilities(weights: Sequence[float]) -> list[arb]:
    """Return weights over their sum, which is 1 but for the rounding of doubles."""
    exact = [arb(weight) for weight in weights]
    total = sum(exact, arb(0))
    return [weight / total for weight in exact]


def explicit_cells(pair: Plain, partition: Plain) -> list[Cell]:
    """Return the cells of one draw of an explicit pair."""
    masses = _MASSES[pair["kind"]]
    return list(zip(*(masses(pair, name, partition) for name in ("first", "second")), strict=True))


def _cuts(partition: Plain) -> list[arb]:
    return [arb(cut) for cut in partition["cuts"]]


def _mixtures(pair: Plain, name: str, partition: Plain) -> list[arb]:
    law = pair[name]
    numbers = ([arb(x) for x in law[key]] for key in ("means", "stds"))
    normals = list(zip(probabilities(law["weights"]), *numbers, strict=True))
    return mixture_masses(_cuts(partition), normals)


def _laplace(pair: Plain, name: str, partition: Plain) -> list[arb]:
    scale, cuts = arb(pair["scale"]), _cuts(partition)
    weights = probabilities(pair[name])
    parts = []
    for weight, mean in zip(weights, map(arb, pair["means"]), strict=True):

        def tail(cut: arb, mean: arb = mean) -> tuple[bool, arb]:
            gap = cut - mean
            return not gap > 0, (-abs(gap) / scale).exp() / 2

        parts.append([weight * mass for mass in between(cuts, tail)])
    return [sum(column, arb(0)) for column in zip(*parts, strict=True)]


def _finite(pair: Plain, name: str, partition: Plain) -> list[arb]:
    return probabilities(pair[name])


def _densities(pair: Plain, name: str, partition: Plain) -> list[arb]:
    slope = arb(pair["slope"]) * (1 if name == "first" else -1)
    low, high = arb(pair["low"]), arb(pair["high"])
    inner = [cut for cut in _cuts(partition) if low < cut < high]
    heights = [((x - high) * slope).exp() for x in (low, *inner, high)]
    total = heights[-1] - heights[0]
    masses = [(b - a) / total for a, b in itertools.pairwise(heights)]
    below = sum(arb(cut) <= low for cut in partition["cuts"])
    above = len(partition["cuts"]) - below - len(inner)
    return [arb(0)] * below + masses + [arb(0)] * above


def _vectors(pair: Plain, name: str, partition: Plain) -> list[arb]:
    """Return the masses of products of intervals, along the coordinates or given directions."""
    strategy = [[arb(x) for x in row] for row in pair["strategy"]]
    noise = arb(pair["noise_std"])
    means = [
        [sum((c * arb(g) for c, g in zip(row, vector, strict=True)), arb(0)) for row in strategy]
        for vector in pair[name]["vectors"]
    ]
    std = noise
    if "direction" in partition:  # any projection is a function of the draw
        line = [arb(x) for x in partition["direction"]]
        means = [[sum((m * x for m, x in zip(mean, line, strict=True)), arb(0))] for mean in means]
        std = noise * sum((x * x for x in line), arb(0)).sqrt()
    total: list[arb] = []
    cuts = _cuts(partition)
    for weight, mean in zip(probabilities(pair[name]["weights"]), means, strict=True):
        products = [weight]
        for coordinate in mean:
            masses = normal_masses(cuts, coordinate, std)
            products = [p * mass for p in products for mass in masses]
        total = [a + b for a, b in zip(total, products, strict=True)] if total else products
    return total


_MASSES: Mapping[str, Callable[[Plain, str, Plain], list[arb]]] = {
    "mixtures": _mixtures,
    "laplacemixtures": _laplace,
    "finite": _finite,
    "densities": _densities,
    "normalvectors": _vectors,
}

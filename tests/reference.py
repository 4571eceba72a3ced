"""Slow, obvious twins of the package's fast computations.

Laws on a fine uniform grid with an atom at each end (Simpson's rule, one matrix a step), and
divergences by sorting the cells of that grid by their likelihood ratio.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from audit import NoisySGD
from audit.constructions import Process, Segment, Step, UpdateMap, Wall
from audit.constructions.process import Path

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GridLaw:
    """Masses at the ends (atoms) and at the points of a uniform grid between them."""

    points: Array
    weights: Array
    density: Array
    atoms: tuple[float, float]

    @property
    def masses(self) -> Array:
        """Of the atoms and points by Simpson's rule: right in sum, not point by point."""
        return np.concatenate([[self.atoms[0]], self.weights * self.density, [self.atoms[1]]])

    @property
    def cells(self) -> Array:
        """Masses of the atoms, and of the cell around each point to second order."""
        widths = np.full(self.points.size, self.points[1] - self.points[0])
        widths[[0, -1]] /= 2
        return np.concatenate([[self.atoms[0]], widths * self.density, [self.atoms[1]]])


def grid_law(process: Process, per_std: int = 40) -> GridLaw:
    """The law of the last iterate of a process on a bounded domain, step after step."""
    low, high = process.lower, process.upper
    std = min(step.noise_std for step in process.distinct_steps())
    intervals = max(40, 4 * math.ceil((high - low) / std * per_std / 4))
    points = np.linspace(low, high, intervals + 1)
    weights = np.full(points.size, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    weights *= (high - low) / intervals / 3
    total = np.zeros(points.size)
    total_atoms = np.zeros(2)
    matrices: dict[Step, tuple[Array, Array]] = {}
    for path in process.paths:
        density: Array | None = None
        atoms = np.zeros(2)
        for step in path.steps():
            if density is None:  # the first step starts from a point
                kernel, ends = _kernel(step, points, np.array([process.start]))
                density, atoms = kernel[:, 0], ends[:, 0]
                continue
            if step not in matrices:
                matrices[step] = _kernel(step, points, points)
            kernel, ends = matrices[step]
            masses = weights * density
            sends = atoms.copy()
            stays = np.zeros(2)
            for i, wall in enumerate((process.lower_wall, process.upper_wall)):
                if wall is Wall.ABSORB:
                    sends[i], stays[i] = 0.0, atoms[i]
            atoms = ends @ masses + ends[:, [0, -1]] @ sends + stays
            density = kernel @ masses + kernel[:, [0, -1]] @ sends
        assert density is not None
        total += path.probability * density
        total_atoms += path.probability * atoms
    return GridLaw(points, weights, total, (float(total_atoms[0]), float(total_atoms[1])))


Batch = tuple[bool, int]  # whether the record is in it, and how many others are
Update = Callable[[float, bool, int], UpdateMap]


def listed_process(
    mechanism: NoisySGD, start: float, update: Update, records: int, present: bool = True
) -> Process:
    """The mixture over all orders or allocations of the records of all epochs, one path each.

    Of an allocation the first ``records`` are listed; the others must not matter.
    """
    epoch = Counter(_epochs(mechanism, records, present))
    total, length = sum(epoch.values()), mechanism.steps_per_epoch
    half = math.inf if mechanism.diameter is None else mechanism.diameter / 2
    paths = []
    for chosen in itertools.product(epoch.items(), repeat=-(-mechanism.steps // length)):
        batches = [batch for run, _ in chosen for batch in run][: mechanism.steps]
        steps = tuple(
            Step((update(float(eta), *batch),), (1.0,), float(eta) * mechanism.noise_std)
            for eta, batch in zip(mechanism.step_sizes, batches, strict=True)
        )
        paths.append(
            Path(math.prod(c for _, c in chosen) / total ** len(chosen), (Segment(steps),))
        )
    return Process(start, tuple(paths), -half, half)


def _epochs(m: NoisySGD, records: int, present: bool) -> Iterator[tuple[Batch, ...]]:
    """All equally likely epochs; record 0 is the differing one."""
    length = m.steps_per_epoch
    if m.batching.cuts:
        for order in itertools.permutations(range(m.dataset_size)):
            cut = [order[k * m.batch_size : (k + 1) * m.batch_size] for k in range(length)]
            yield tuple((0 in batch, len(batch) - (0 in batch)) for batch in cut)
    else:
        sets = list(itertools.combinations(range(length), m.participations))
        for places in itertools.product(sets, repeat=records):
            yield tuple(
                (t in places[0] and present, sum(t in one for one in places[1:]))
                for t in range(length)
            )


def _kernel(step: Step, targets: Array, sources: Array) -> tuple[Array, Array]:
    """Density of landing on each target, and probabilities of landing beyond either end."""
    kernel = np.zeros((targets.size, sources.size))
    ends = np.zeros((2, sources.size))
    for phi, weight in zip(step.maps, step.weights, strict=True):
        image = phi(sources)
        z = (targets[:, None] - image) / step.noise_std
        kernel += weight * np.exp(-0.5 * z**2) / (step.noise_std * math.sqrt(2 * math.pi))
        ends[0] += weight * ndtr(z[0])
        ends[1] += weight * ndtr(-z[-1])
    return kernel, ends


def delta(first: GridLaw, second: GridLaw, epsilon: float) -> float:
    """Sum of the positive parts of P - e^epsilon Q over cells."""
    return float(np.maximum(first.cells - math.exp(epsilon) * second.cells, 0).sum())


def epsilon(first: GridLaw, second: GridLaw, delta: float) -> float:
    """Largest log((P(S) - delta) / Q(S)) over the sets S of the likeliest cells."""
    p, q = first.cells, second.cells
    order = np.argsort(-(np.log(p) - np.log(q)))
    p, q = np.cumsum(p[order]), np.cumsum(q[order])
    enough = p > delta
    return max(0.0, float(np.max(np.log((p[enough] - delta) / q[enough]))))


def beta(first: GridLaw, second: GridLaw, alpha: float) -> float:
    """Type II error of the likelihood-ratio test, interpolated between cells."""
    p, q = first.cells, second.cells
    order = np.argsort(np.log(p) - np.log(q))
    type_one = np.concatenate([[0.0], np.cumsum(p[order])])
    type_two = 1 - np.concatenate([[0.0], np.cumsum(q[order])])
    return float(np.interp(alpha, type_one, type_two))


def renyi(first: GridLaw, second: GridLaw, alpha: float) -> float:
    """Renyi divergence by the sum over cells."""
    p, q = first.masses, second.masses
    return float(np.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1))


def gaussian_delta(epsilon: float, mu: float) -> arb:
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) with 400 digits to lose."""
    with ctx.workprec(1400):
        e, m, root = arb(epsilon), arb(mu), arb(2).sqrt()
        near, far = ((e / m + side * m / 2) / root for side in (-1, 1))
        return (near.erfc() - e.exp() * far.erfc()) / 2


def lognormal_excess(scale: float, level: ArrayLike, count: int = 1) -> Array:
    """E(Y_1 + ... + Y_count - level)_+ of lognormal variables of mean 1.

    One is the formula of Black and Scholes (1973); every other is a Gauss-Legendre rule on both
    sides of the place where the level is reached.
    """
    level = np.asarray(level, dtype=float)
    positive = np.maximum(level, 1e-300)
    reached = np.clip(np.log(positive) / scale + 0.5 * scale, -9.0, 9.0 + scale)
    if count == 1:
        call = ndtr(scale - reached) - level * ndtr(-reached)
        return np.where(level > 0, call, 1 - level)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    total = np.zeros_like(level)
    for low, high in ((np.full_like(level, -9.0), reached), (reached, 9.0 + scale)):
        half = 0.5 * (high - low)[..., None]
        z = low[..., None] + half * (nodes + 1)
        inner = lognormal_excess(
            scale, level[..., None] - np.exp(scale * z - scale**2 / 2), count - 1
        )
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        total += (half * weights * density * inner).sum(axis=-1)
    return np.where(level > 0, total, count - level)

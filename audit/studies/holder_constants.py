"""Hölder constants of gradients as paper 002 estimates them: from points around a trajectory.

A constant found so is the largest ratio that was met. The true one is at least as large.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.studies.mlp import Labels, Perceptron

Array = NDArray[np.float64]


class Around(enum.Enum):
    """How points around a weight are drawn; directions are uniform in both."""

    BALL = "uniform in the ball"  # of radius 1, as printed; in 515 dimensions all lie near its rim
    DISTANCES = "distances evenly on a log axis"  # from 0.001 to 1; this package's addition


_NEAREST = 1e-3
_ITERATIONS = 20
_AT_ONCE = 25  # points whose gradients fit into a processor's cache together


@dataclass(frozen=True, eq=False)
class Differences:
    """Points around weights: their distance, and how much gradients differ there.

    Attributes
    ----------
    distance
        Of the point from the weight, shape (N,).
    mean
        Norm of the difference of the mean gradient over the records, shape (N,).
    record
        The largest such norm among the records, shape (N,): Theorem 3.7 assumes a constant of each
        record's loss.
    """

    distance: Array
    mean: Array
    record: Array

    def constant(self, order: float, *, record: bool) -> float:
        """Return max |difference|/distance^order over all points."""
        size = self.record if record else self.mean
        return float(np.max(size / self.distance**order))

    @staticmethod
    def joined(parts: list[Differences]) -> Differences:
        """Return all points of the parts, in their order."""
        return Differences(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("distance", "mean", "record")
            )
        )


@dataclass(frozen=True, kw_only=True)
class Estimation:
    """The procedure of appendix A.13 with what it leaves open.

    Parameters
    ----------
    epochs, step_size, clip_norm
        Of gradient descent on all records, without noise: a step is -eta times the mean of the
        records' gradients, each clipped.
    points, near_points
        Points around a weight: drawn in the ball, and at all distances.
    every
        Points are drawn around every so many-th weight of the trajectory; the first and the last
        are among them. 1 is every weight, as in the paper.
    """

    epochs: int
    step_size: float
    clip_norm: float
    points: int
    near_points: int
    every: int

    def __post_init__(self) -> None:
        validate.integer(
            1,
            epochs=self.epochs,
            points=self.points,
            near_points=self.near_points,
            every=self.every,
        )
        validate.positive(step_size=self.step_size, clip_norm=self.clip_norm)

    def trajectory(self, model: Perceptron, start: Array, features: Array, labels: Labels) -> Array:
        """Return the weights before the first and after each epoch, shape (epochs + 1, d)."""
        path = [start]
        for _ in range(self.epochs):
            found = model.gradients(path[-1][None, :], features, labels)
            cut = np.minimum(1.0, self.clip_norm / np.maximum(found.norms(), 1e-300))
            path.append(path[-1] - self.step_size * found.weighted_mean(cut)[0])
        return np.array(path)

    def differences(
        self,
        model: Perceptron,
        features: Array,
        labels: Labels,
        generator: np.random.Generator,
    ) -> tuple[Array, dict[Around, Differences]]:
        """Train from one drawn start, and look around the weights of the trajectory.

        Returns
        -------
        tuple
            The first weights, shape (d,), and the points of each way of drawing them.
        """
        path = self.trajectory(model, model.start(generator), features, labels)
        kept = sorted({*range(0, self.epochs + 1, self.every), self.epochs})
        parts: dict[Around, list[Differences]] = {way: [] for way in Around}
        counts = {Around.BALL: self.points, Around.DISTANCES: self.near_points}
        for weight in path[kept]:
            for way, count in counts.items():
                shifts = drawn_shifts(way, count, model.dimension, generator)
                parts[way].append(compared(model, weight, shifts, features, labels))
        return path[0], {way: Differences.joined(found) for way, found in parts.items()}


def drawn_shifts(way: Around, points: int, dimension: int, generator: np.random.Generator) -> Array:
    """Return vectors from a weight to points around it, shape (points, dimension)."""
    directions = generator.standard_normal((points, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    uniform = generator.uniform(size=(points, 1))
    if way is Around.BALL:
        return np.asarray(directions * uniform ** (1 / dimension))
    return np.asarray(directions * _NEAREST**uniform)


def compared(
    model: Perceptron, weight: Array, shifts: Array, features: Array, labels: Labels
) -> Differences:
    """Return how gradients at ``weight + shifts`` differ from those at ``weight``.

    Shapes: (d,) and (P, d).
    """
    base = model.gradients(weight[None, :], features, labels)
    base_mean = base.weighted_mean()
    parts = []
    for first in range(0, len(shifts), _AT_ONCE):
        there = weight + shifts[first : first + _AT_ONCE]
        moved = model.gradients(there, features, labels)
        parts.append(
            Differences(
                distance=np.linalg.norm(
                    there - weight, axis=1
                ),  # as rounded, which counts for tiny ones
                mean=np.linalg.norm(moved.weighted_mean() - base_mean, axis=1),
                record=np.max(moved.distances(base), axis=1),
            )
        )
    return Differences.joined(parts)


def across_a_kink(
    model: Perceptron, weight: Array, features: Array, labels: Labels, distances: Array
) -> Differences:
    """Return gradient differences over the switch of one hidden unit, at given distances.

    The bias of one unit is moved so that the unit gets -r/2 and +r/2 on one record, for each
    distance r. Unit and record are those with the largest jump within 1 of ``weight``. For a ReLU
    the record's gradient jumps there, however small r is.
    """
    first, last = model.layers(weight[None, :])
    found = model.gradients(weight[None, :], features, labels)
    summed = found.inputs @ first[0].T
    jumps = np.abs(found.output_errors[0] @ last[0, :, :-1])
    jumps *= np.linalg.norm(found.inputs, axis=1)[:, None]
    record, unit = np.unravel_index(
        int(np.argmax(np.where(np.abs(summed) < 1 - np.max(distances), jumps, -1.0))), jumps.shape
    )
    bias = int(unit) * (model.inputs + 1) + model.inputs
    parts = []
    for distance in distances:
        low, shift = weight.copy(), np.zeros((1, model.dimension))
        low[bias] -= summed[record, unit] + distance / 2
        shift[0, bias] = distance
        parts.append(compared(model, low, shift, features, labels))
    return Differences.joined(parts)


def along_steepest(
    model: Perceptron,
    weight: Array,
    features: Array,
    labels: Labels,
    distances: Array,
    generator: np.random.Generator,
) -> Differences:
    """Return gradient differences along directions in which one record's gradient changes most.

    Power iteration at each distance r: the next direction is that of the gradient difference at the
    last one. The record is the one with the longest gradient at ``weight``. Random directions miss
    these: in d dimensions a direction has a part of about 1/sqrt(d) along any given one.
    """
    record = int(np.argmax(model.gradients(weight[None, :], features, labels).norms()))
    one, label = features[record : record + 1], labels[record : record + 1]
    base = model.gradients(weight[None, :], one, label).weighted_mean()[0]
    visited = []
    for distance in distances:
        direction = generator.standard_normal(model.dimension)
        for _ in range(_ITERATIONS):
            direction *= distance / np.linalg.norm(direction)
            visited.append(direction)
            there = model.gradients((weight + direction)[None, :], one, label)
            direction = there.weighted_mean()[0] - base
            if not np.any(direction):
                break
    return compared(model, weight, np.array(visited), features, labels)

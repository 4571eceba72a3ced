"""Hölder constants of gradients as Chien and Li 2025 estimate them, and the network they take.

The estimate comes from points around a trajectory of weights.

Weights are one vector, first the hidden layer's (hidden, inputs + 1), then the output layer's
(classes, hidden + 1), rows of a layer side by side; the last column of each holds the biases.

A constant found so is the largest ratio that was met. The true one is at least as large.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import validate

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Around(enum.Enum):
    """Law of the points around a weight; directions are uniform in both."""

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
    """The procedure of appendix A.13, with the choices that it leaves open.

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


class Activation(enum.Enum):
    """The function of the hidden units."""

    RELU = "relu"  # gradients of the loss jump where a unit switches
    TANH = "tanh"  # gradients of the loss are smooth


@dataclass(frozen=True, eq=False)
class RecordGradients:
    """Gradients of n records at P weights, as outer products of errors and inputs of each layer.

    In the two layers the gradient of record i at weights p is errors[p, i] x inputs[i] and
    output_errors[p, i] x hidden[p, i], where inputs and hidden end with a 1.

    Attributes
    ----------
    errors
        Of the hidden layer, shape (P, n, hidden).
    inputs
        Shape (n, inputs + 1).
    output_errors
        Of the output layer, shape (P, n, classes).
    hidden
        Values of the hidden units, shape (P, n, hidden + 1).
    """

    errors: Array
    inputs: Array
    output_errors: Array
    hidden: Array

    def norms(self) -> Array:
        """Return the norms of the records' gradients, shape (P, n)."""
        first = _squares(self.errors) * _squares(self.inputs)
        return np.sqrt(first + _squares(self.output_errors) * _squares(self.hidden))

    def weighted_mean(self, weights: Array | None = None) -> Array:
        """Return the mean gradient over records, shape (P, dimension).

        ``weights``, shape (P, n), multiply the records' gradients first.
        """
        first, last = self.errors, self.output_errors
        if weights is not None:
            first, last = first * weights[:, :, None], last * weights[:, :, None]
        count = len(self.inputs)
        layers = (
            np.swapaxes(first, 1, 2) @ self.inputs,
            np.swapaxes(last, 1, 2) @ self.hidden,
        )
        return np.concatenate([one.reshape(len(one), -1) for one in layers], axis=1) / count

    def distances(self, base: RecordGradients) -> Array:
        """Return how far the records' gradients are from those of ``base`` (P = 1), shape (P, n).

        d x h - d' x h' is written as (d - d') x h + d' x (h - h'), which keeps small ones exact.
        """
        square = _squares(self.errors - base.errors) * _squares(self.inputs)
        change = self.output_errors - base.output_errors
        moved = self.hidden - base.hidden
        square += _squares(change) * _squares(self.hidden)
        square += _squares(base.output_errors) * _squares(moved)
        cross = np.sum(change * base.output_errors, axis=-1) * np.sum(moved * self.hidden, axis=-1)
        return np.asarray(np.sqrt(np.maximum(square + 2 * cross, 0.0)))


def _squares(vectors: Array) -> Array:
    return np.asarray(np.einsum("...i,...i->...", vectors, vectors))


@dataclass(frozen=True, kw_only=True)
class Perceptron:
    """``scale`` times the cross-entropy of a network with one hidden layer.

    Parameters
    ----------
    inputs, hidden, classes
        Sizes.
    activation
        Of the hidden units.
    scale
        Factor of the loss.
    """

    inputs: int
    hidden: int
    classes: int
    activation: Activation
    scale: float

    def __post_init__(self) -> None:
        validate.integer(1, inputs=self.inputs, hidden=self.hidden)
        validate.integer(2, classes=self.classes)
        validate.instance(Activation, activation=self.activation)
        validate.positive(scale=self.scale)

    @property
    def dimension(self) -> int:
        """Weights and biases in all."""
        return self.hidden * (self.inputs + 1) + self.classes * (self.hidden + 1)

    def start(self, generator: np.random.Generator) -> Array:
        """Draw weights and biases uniformly within 1/sqrt(units of the layer before).

        This is what PyTorch's linear layers start from.
        """
        layers = ((self.hidden, self.inputs), (self.classes, self.hidden))
        return np.concatenate(
            [
                generator.uniform(-1, 1, rows * (before + 1)) / math.sqrt(before)
                for rows, before in layers
            ]
        )

    def layers(self, weights: Array) -> tuple[Array, Array]:
        """Return weights (P, dimension) as (P, hidden, inputs + 1), (P, classes, hidden + 1)."""
        cut = self.hidden * (self.inputs + 1)
        return (
            weights[:, :cut].reshape(-1, self.hidden, self.inputs + 1),
            weights[:, cut:].reshape(-1, self.classes, self.hidden + 1),
        )

    def losses(self, weights: Array, features: Array, labels: Labels) -> Array:
        """Return each record's loss, shape (P, n), at weights (P, dimension)."""
        first, last = self.layers(weights)
        logits = _with_one(self._units(_summed(_with_one(features), first))) @ _transposed(last)
        top = np.max(logits, axis=-1, keepdims=True)
        total = top[..., 0] + np.log(np.sum(np.exp(logits - top), axis=-1))
        return np.asarray(self.scale * (total - logits[:, np.arange(len(labels)), labels]))

    def gradients(self, weights: Array, features: Array, labels: Labels) -> RecordGradients:
        """Return each record's gradient at weights (P, dimension).

        ``features`` has shape (n, inputs), ``labels`` shape (n,). At the kink of a ReLU its slope
        is taken to be 0.
        """
        first, last = self.layers(weights)
        inputs = _with_one(features)
        summed = _summed(inputs, first)
        hidden = _with_one(self._units(summed))
        errors = hidden @ _transposed(last)
        errors -= np.max(errors, axis=-1, keepdims=True)
        np.exp(errors, out=errors)
        errors /= np.sum(errors, axis=-1, keepdims=True)
        errors[:, np.arange(len(labels)), labels] -= 1
        errors *= self.scale
        return RecordGradients(
            errors=(errors @ last[:, :, :-1]) * self._slopes(summed, hidden),
            inputs=inputs,
            output_errors=errors,
            hidden=hidden,
        )

    def _units(self, summed: Array) -> Array:
        relu = self.activation is Activation.RELU
        return np.asarray(np.maximum(summed, 0.0) if relu else np.tanh(summed))

    def _slopes(self, summed: Array, hidden: Array) -> Array:
        if self.activation is Activation.RELU:
            return np.asarray(summed > 0, dtype=np.float64)
        return np.asarray(1 - hidden[..., :-1] ** 2)


def _with_one(rows: Array) -> Array:
    return np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1)


def _summed(inputs: Array, first: Array) -> Array:
    """Return the inputs of the hidden units, shape (P, n, hidden)."""
    return np.asarray(inputs @ _transposed(first))


def _transposed(layer: Array) -> Array:
    return np.swapaxes(layer, -1, -2)

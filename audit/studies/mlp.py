"""A two-layer perceptron with cross-entropy loss: each record's gradient, at many weights.

Weights are one vector, first the hidden layer's (hidden, inputs + 1), then the output layer's
(classes, hidden + 1), rows of a layer side by side; the last column of each holds the biases.
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


class Activation(enum.Enum):
    """What the hidden units compute."""

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
    """Return what the hidden units get, shape (P, n, hidden)."""
    return np.asarray(inputs @ _transposed(first))


def _transposed(layer: Array) -> Array:
    return np.swapaxes(layer, -1, -2)

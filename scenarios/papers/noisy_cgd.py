"""Multinomial logistic regression trained by NoisyCGD, for many independent runs at once.

A record is a feature vector z, |z| <= R, and a class y. With weights W, shape (d, C), its loss is

    f(W) = -log softmax(W' z)_y + (m/2) |W|^2.

The gradient of the first part is z (p - e_y)', of norm at most sqrt(2) R, so that two records'
gradients differ by at most 2 sqrt(2) R. Its Hessian is that of the log-sum-exp, at most 1/2, times
|z|^2. All holds without clipping gradients: what is clipped is the features, which is part of a
record and keeps the loss convex.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import bounds, validate
from audit.mechanism import Batching, NoisySGD

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Table 1: epsilon after so many epochs, by composition, by Renyi divergences, and by Theorem 4.5
TABLE_1 = {50: (30.51, 5.82, 4.34), 100: (49.88, 7.61, 5.60), 200: (83.83, 9.88, 7.58)}
DELTA = 1e-5
SIZE = 60_000  # records of MNIST
# the columns, in order, as entries of the catalogue
ENTRIES = ("bsa24.theorem_4_4", "bsa24.table_1_renyi", "bsa24.theorem_4_5")


def clipped_features(features: Array, norm: float) -> Array:
    """Return rows with a constant 1 appended, scaled down to norm ``norm`` where they are longer.

    Each row is changed by itself, so neighbouring datasets stay neighbours.
    """
    rows = np.column_stack([features, np.ones(len(features))])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, norm / lengths))


@dataclass(frozen=True, kw_only=True)
class NoisyCGD:
    """Noisy gradient descent on fixed batches in a fixed order.

    It is equation (2.1) of Bok, Su and Altschuler 2024.

    Parameters
    ----------
    batches
        l, the batches of an epoch, of equal size.
    step_size, noise_std
        eta and sigma: a step is -eta times (mean gradient of the batch + N(0, sigma^2 I)).
    strong_convexity
        m, the weight of the regulariser.
    feature_norm
        R, the largest norm of a record's features.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    batches: int
    step_size: float
    noise_std: float
    strong_convexity: float
    feature_norm: float

    def __post_init__(self) -> None:
        validate.integer(1, batches=self.batches)
        validate.positive(
            step_size=self.step_size,
            noise_std=self.noise_std,
            strong_convexity=self.strong_convexity,
            feature_norm=self.feature_norm,
        )

    def mechanism(self, dataset_size: int, epochs: int) -> NoisySGD:
        """Return the public parameters of a run over ``dataset_size`` records."""
        return NoisySGD(
            steps=self.batches * epochs,
            dataset_size=dataset_size,
            batch_size=self._batch_size(dataset_size),
            step_size=self.step_size,
            noise_std=self.noise_std,
            gradient_sensitivity=2 * math.sqrt(2) * self.feature_norm,
            smoothness=self.feature_norm**2 / 2 + self.strong_convexity,
            strong_convexity=self.strong_convexity,
            batching=Batching.CYCLIC,
        )

    def _batch_size(self, records: int) -> int:
        if records == 0 or records % self.batches:
            raise ValueError(
                f"records must be a multiple of {self.batches} batches, got {records} records"
            )
        return records // self.batches

    def weights(
        self,
        features: Array,
        labels: Labels,
        *,
        classes: int,
        epochs: Sequence[int],
        runs: int,
        generator: np.random.Generator,
    ) -> Iterator[tuple[int, Array]]:
        """Train ``runs`` models from weights 0, and yield them after each number of epochs.

        Features are used as they are; clip them first with `clipped_features`.

        Parameters
        ----------
        features, labels
            Shapes (n, d) and (n,), in the order in which batches are cut; labels 0 to C - 1.
        classes
            C.
        epochs
            Increasing numbers of epochs, at least 1.
        runs
            Models trained, independently but for the data.
        generator
            Draws the noise.

        Yields
        ------
        tuple
            The number of epochs and the weights, shape (runs, d, C); a fresh array each time.
        """
        size = self._batch_size(len(features))
        if any(later <= earlier for earlier, later in zip((0, *epochs), epochs, strict=False)):
            raise validate.fail("epochs", "increasing whole numbers of at least 1", tuple(epochs))
        batches = [slice(i, i + size) for i in range(0, len(features), size)]
        wanted = np.eye(classes)[labels]
        w = np.zeros((features.shape[1], runs * classes))
        noise = np.empty_like(w)
        for epoch in range(1, epochs[-1] + 1):
            for batch in batches:
                self._step(w, noise, features[batch], wanted[batch], generator)
            if epoch in epochs:
                yield epoch, np.moveaxis(w.reshape(len(w), runs, classes), 1, 0).copy()

    def _step(
        self, w: Array, noise: Array, z: Array, wanted: Array, generator: np.random.Generator
    ) -> None:
        """Move the weights of all runs, shape (d, runs C), by one step, in place."""
        residuals = _probabilities((z @ w).reshape(len(z), -1, wanted.shape[1]))
        residuals -= wanted[:, None, :]
        gradient = z.T @ residuals.reshape(len(z), -1)
        generator.standard_normal(out=noise)
        gradient /= len(z)
        noise *= self.noise_std
        gradient += noise
        w *= 1 - self.step_size * self.strong_convexity
        gradient *= self.step_size
        w -= gradient


def _probabilities(logits: Array) -> Array:
    """Return the softmax over the last axis, computed in place."""
    logits -= np.max(logits, axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= np.sum(logits, axis=-1, keepdims=True)
    return logits


def losses(weights: Array, features: Array, labels: Labels) -> Array:
    """Return each model's loss on each record without the regulariser, shape (runs, n).

    ``weights`` has shape (runs, d, C).
    """
    logits = features @ weights
    top = np.max(logits, axis=-1)
    total = top + np.log(np.sum(np.exp(logits - top[..., None]), axis=-1))
    return np.asarray(total - logits[:, np.arange(len(labels)), labels])


def accuracies(weights: Array, features: Array, labels: Labels) -> Array:
    """Return each model's share of records whose largest logit is their class, shape (runs,)."""
    return np.array([np.mean(np.argmax(features @ w, axis=1) == labels) for w in weights])


def largest_gradient_difference(weights: Array, features: Array, labels: Labels) -> float:
    """Return the largest distance of two records' gradients at one model, shape (d, C).

    The regulariser is common to all records. All pairs are looked at: n^2 numbers are held.
    """
    residuals = _probabilities(features @ weights)
    residuals[np.arange(len(labels)), labels] -= 1
    inner = (residuals @ residuals.T) * (features @ features.T)
    squares = np.diag(inner)
    return math.sqrt(max(0.0, float(np.max(squares[:, None] + squares - 2 * inner))))


@dataclass(frozen=True, kw_only=True)
class Epsilons:
    """Three epsilons of one mechanism: Theorem 4.4, the Renyi bound, and Theorem 4.5."""

    composition: float
    renyi: float
    convergent: float

    @property
    def values(self) -> tuple[float, float, float]:
        """In the order of Table 1's columns."""
        return self.composition, self.renyi, self.convergent


def table_1_mechanism(epochs: int) -> NoisySGD:
    """Return the mechanism of Table 1 (section 4.4 of Bok, Su and Altschuler 2024)."""
    return NoisySGD(
        steps=40 * epochs,
        dataset_size=SIZE,
        batch_size=SIZE // 40,
        step_size=0.05,
        noise_std=0.01,
        gradient_sensitivity=10.0,
        strong_convexity=0.002,
        smoothness=2.0,  # any that keeps a step a contraction: no epsilon depends on it
        batching=Batching.CYCLIC,
    )


def epsilons(accounted: NoisySGD, delta: float) -> Epsilons:
    """Return the three epsilons of a mechanism at a delta."""
    composition, renyi, convergent = (
        float(bounds.evaluate(id, accounted).epsilon(delta)) for id in ENTRIES
    )
    return Epsilons(composition=composition, renyi=renyi, convergent=convergent)

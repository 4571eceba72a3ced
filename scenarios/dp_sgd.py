"""DP-SGD as it should be, and four ways in which it is broken: the worked example of own scores.

`two_canaries` audits two records at once, with two numbers a run.

Each function can be named in a scenario: ``function(dataset, trials, seed)`` trains ``trials``
times on dataset 0 or 1 and returns one score a run, the first coordinate of the last iterate. The
two datasets differ in one record, far to the right or far to the left, which is in the last batch.

Records are points, the loss is half the squared distance (its minimiser is their mean), batches are
fixed, gradients are clipped to norm 1, and the noise is meant to have twice the multiplier times
half the sensitivity 2 of a replaced record: ``NOISE_MULTIPLIER`` 2 gives mu = 1 for each use of a
record, so EPOCHS uses compose to sqrt(EPOCHS)-GDP.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DIMENSIONS, DATASET_SIZE, BATCH_SIZE, EPOCHS = 2, 16, 4, 2
CLIP_NORM, NOISE_MULTIPLIER, STEP_SIZE = 1.0, 2.0, 1.0
_FAR = 50.0  # of the differing record; its gradient is clipped wherever the iterate is

# (per-record gradients, shape (trials, b, d); noise of deviation 1, shape (trials, d); batch number
# within the epoch) -> the private gradient, shape (trials, d)
Privatised = Callable[[Array, Array, int], Array]


def correct(dataset: int, trials: int, seed: int) -> Array:
    """Clip each gradient, add noise for a sensitivity of 2 CLIP_NORM to the sum, then average."""
    return _trained(_correct, dataset, trials, seed)


def noise_divided_twice(dataset: int, trials: int, seed: int) -> Array:
    """Add noise to the average that was divided by the batch size already, and divide it again."""

    def privatised(gradients: Array, noise: Array, _: int) -> Array:
        b = gradients.shape[1]
        return np.asarray(_clipped(gradients).sum(axis=1) / b + _noise_std() * noise / b / b)

    return _trained(privatised, dataset, trials, seed)


def clipped_after_averaging(dataset: int, trials: int, seed: int) -> Array:
    """Clip the average, so that one record can move all of it."""

    def privatised(gradients: Array, noise: Array, _: int) -> Array:
        b = gradients.shape[1]
        average = _clipped(gradients.mean(axis=1, keepdims=True))[:, 0]
        return np.asarray(average + _noise_std() * noise / b)

    return _trained(privatised, dataset, trials, seed)


def noise_once_an_epoch(dataset: int, trials: int, seed: int) -> Array:
    """Add noise to the first batch of an epoch only."""

    def privatised(gradients: Array, noise: Array, batch: int) -> Array:
        return _correct(gradients, noise if batch == 0 else np.zeros_like(noise), batch)

    return _trained(privatised, dataset, trials, seed)


def wrong_sensitivity(dataset: int, trials: int, seed: int) -> Array:
    """Make the noise for a record that is left out, not for one that is replaced."""

    def privatised(gradients: Array, noise: Array, batch: int) -> Array:
        return _correct(gradients, noise / 2, batch)

    return _trained(privatised, dataset, trials, seed)


def two_canaries(dataset: int, trials: int, seed: int) -> Array:
    """Train as one should on datasets that differ in two records, and return both coordinates."""
    return _final(_correct, _records(dataset, canaries=2), trials, seed)


def one_training(number: int, seed: int) -> tuple[Array, Array]:
    """Train once with canaries that are in by fair coins; their scores, and the coins.

    The gradient of each canary has the clipping norm and a coordinate of its own, which the noise
    of the last iterate hits by itself: canaries are independent. Four steps on all records at
    noise multiplier 2 are 1-GDP for one canary in or out.
    """
    return _one_training(number, seed, NOISE_MULTIPLIER)


def one_training_half_the_noise(number: int, seed: int) -> tuple[Array, Array]:
    """Train with half the noise that is claimed."""
    return _one_training(number, seed, NOISE_MULTIPLIER / 2)


def _one_training(number: int, seed: int, noise_multiplier: float) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    coins = generator.integers(0, 2, number).astype(float)
    x = np.zeros(number)
    for _ in range(4):
        gradient = -CLIP_NORM * coins + noise_multiplier * CLIP_NORM * generator.normal(size=number)
        x = x - STEP_SIZE * gradient
    return x, coins


def _noise_std() -> float:
    """Noise deviation of a sum of clipped gradients: the multiplier times C = sensitivity / 2."""
    return NOISE_MULTIPLIER * CLIP_NORM


def _correct(gradients: Array, noise: Array, _: int) -> Array:
    b = gradients.shape[1]
    return np.asarray((_clipped(gradients).sum(axis=1) + _noise_std() * noise) / b)


def _clipped(gradients: Array) -> Array:
    norms = np.linalg.norm(gradients, axis=-1, keepdims=True)
    return np.asarray(gradients * np.minimum(1.0, CLIP_NORM / np.maximum(norms, 1e-300)))


def _records(dataset: int, canaries: int = 1) -> Array:
    """Return the records, shape (n, d): at the origin but for the last ones, each on its axis."""
    records = np.zeros((DATASET_SIZE, DIMENSIONS))
    for axis in range(canaries):
        records[-1 - axis, axis] = _FAR if dataset == 0 else -_FAR
    return records


def _trained(privatised: Privatised, dataset: int, trials: int, seed: int) -> Array:
    return np.asarray(_final(privatised, _records(dataset), trials, seed)[:, 0])


def _final(privatised: Privatised, records: Array, trials: int, seed: int) -> Array:
    """Return the last iterates, shape (trials, d)."""
    generator = np.random.default_rng(seed)
    batches = records.reshape(-1, BATCH_SIZE, DIMENSIONS)
    x = np.zeros((trials, DIMENSIONS))
    for _ in range(EPOCHS):
        for number, batch in enumerate(batches):
            gradients = x[:, None, :] - batch
            noise = generator.standard_normal((trials, DIMENSIONS))
            x = x - STEP_SIZE * privatised(gradients, noise, number)
    return x

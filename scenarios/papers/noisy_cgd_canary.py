"""Black-box audits of a training by NoisyCGD, with a canary: right, and with three mistakes.

Each function can be named in a scenario: ``function(dataset, trials, seed)`` trains ``trials``
models on 80 digits of scikit-learn, or on 79 of them and another record, and returns one score for
each: the released model's loss on the canary, which is all that a black box shows. The two datasets
differ in the last record, so in the last batch, whose gradient the last step uses.

Pictures are shrunk to 4 by 4 pixels. Features have norm R = 5/sqrt(2) at most, so that two records'
gradients differ by at most S = 10 and `mechanism` is what the training claims to be.

Such scores certify less than the claim allows. The gradients of `crafted` differ by about 6.7, not
by 10. In its direction losses have little more than the regulariser's curvature, so that old noise
stays, where the claim allows for losses that forget it. The score is one number, and a number of
trials can certify only so much. Along one direction with sensitivity 6.7 and curvature m the last
iterates are Gaussian with mu = 0.77, against the 1.38 of the claim.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit.mechanism import NoisySGD
from papers import noisy_cgd
from papers.datasets import CLASSES, one_thread, scikit_learn_digits

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Records = tuple[Array, Labels]

DATASET_SIZE, EPOCHS = 80, 5
FEATURE_NORM = 5 / math.sqrt(2)
ALGORITHM = noisy_cgd.NoisyCGD(
    batches=4, step_size=0.05, noise_std=0.5, strong_convexity=0.5, feature_norm=FEATURE_NORM
)
HALF_THE_NOISE = noisy_cgd.NoisyCGD(
    batches=4, step_size=0.05, noise_std=0.25, strong_convexity=0.5, feature_norm=FEATURE_NORM
)

_PIXELS, _SHRUNK = 8, 4
_CORNER = 12  # the lower left, where hardly any picture has ink
_CANARY_CLASS = 0
_AT_ONCE = 500  # models trained together, which fits into a processor's cache


def mechanism() -> NoisySGD:
    """Return the public parameters that the training claims; its epsilon rests on them."""
    return ALGORITHM.mechanism(DATASET_SIZE, EPOCHS)


def crafted(dataset: int, trials: int, seed: int) -> Array:
    """Put all ink in one corner, against the negative of it: no other record is like that.

    A record is any feature vector of norm R and any class; it need not be a picture.
    """
    return _scores(ALGORITHM, _crafted(dataset), _crafted(0), trials, seed)


def mislabelled(dataset: int, trials: int, seed: int) -> Array:
    """Give a digit a wrong class, against the same digit with its own: a natural canary."""
    return _scores(ALGORITHM, _mislabelled(dataset), _mislabelled(0), trials, seed)


def half_the_noise(dataset: int, trials: int, seed: int) -> Array:
    """Add noise for half of the sensitivity: that of a record left out, where one is replaced."""
    return _scores(HALF_THE_NOISE, _crafted(dataset), _crafted(0), trials, seed)


def in_every_batch(dataset: int, trials: int, seed: int) -> Array:
    """Have the record in every batch: duplicates that were not removed."""
    features, labels = _crafted(dataset)
    last = np.arange(1, ALGORITHM.batches + 1) * (DATASET_SIZE // ALGORITHM.batches) - 1
    features[last], labels[last] = features[-1], labels[-1]
    return _scores(ALGORITHM, (features, labels), _crafted(0), trials, seed)


def unclipped_features(dataset: int, trials: int, seed: int) -> Array:
    """Forget to scale features down: the canary is three times as long as accounted for."""
    features, labels = _crafted(dataset)
    features[-1] *= 3
    return _scores(ALGORITHM, (features, labels), _crafted(0), trials, seed)


def crafted_pair() -> tuple[Records, Records]:
    """Return the two neighbouring datasets of `crafted`: features (n, d) and classes (n,)."""
    return _crafted(0), _crafted(1)


def mislabelled_pair() -> tuple[Records, Records]:
    """Return the two neighbouring datasets of `mislabelled`."""
    return _mislabelled(0), _mislabelled(1)


def _records() -> Records:
    """Return the first records, shapes (n, d) and (n,), in scikit-learn's order."""
    pixels, labels = scikit_learn_digits()
    side = _PIXELS // _SHRUNK
    blocks = pixels[:DATASET_SIZE].reshape(DATASET_SIZE, _SHRUNK, side, _SHRUNK, side)
    shrunk = blocks.mean(axis=(2, 4)).reshape(DATASET_SIZE, -1)
    return noisy_cgd.clipped_features(shrunk, FEATURE_NORM), labels[:DATASET_SIZE].copy()


def _crafted(dataset: int) -> Records:
    features, labels = _records()
    features[-1] = 0
    features[-1, _CORNER] = FEATURE_NORM if dataset == 0 else -FEATURE_NORM
    labels[-1] = _CANARY_CLASS
    return features, labels


def _mislabelled(dataset: int) -> Records:
    features, labels = _records()
    if dataset == 0:
        labels[-1] = (labels[-1] + 1) % CLASSES
    return features, labels


def _scores(
    algorithm: noisy_cgd.NoisyCGD, records: Records, target: Records, trials: int, seed: int
) -> Array:
    """Train on ``records`` and return the losses on the last record of ``target``."""
    features, labels = records
    canary = target[0][-1:], target[1][-1:]
    generator = np.random.default_rng(seed)
    scores = []
    with one_thread():
        for first in range(0, trials, _AT_ONCE):
            ((_, weights),) = algorithm.weights(
                features,
                labels,
                classes=CLASSES,
                epochs=(EPOCHS,),
                runs=min(_AT_ONCE, trials - first),
                generator=generator,
            )
            scores.append(noisy_cgd.losses(weights, *canary)[:, 0])
    return np.concatenate(scores)

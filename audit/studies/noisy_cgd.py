"""Section 4.4 of paper 004 as an experiment: what NoisyCGD learns, and what it costs in privacy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit import validate
from audit.studies import digits, noisy_cgd_findings, noisy_cgd_table_1, training
from audit.studies.findings import Findings, Report
from audit.studies.noisy_cgd_findings import Improvement, Measured
from audit.studies.noisy_cgd_table_1 import SIZE, Level
from audit.studies.scikit_learn import one_thread

Array = NDArray[np.float64]

_COMPARED = 1500  # records whose gradients are compared pairwise
_ON_THE_WAY = (1, 2, 5, 10, 20)  # epochs shown beside those asked for


@dataclass(frozen=True, kw_only=True)
class NoisyCGDTraining:
    """Regularised multinomial logistic regression by NoisyCGD: Tables 1 and 2 of paper 004.

    Table 1 is recomputed at the paper's parameters, whatever those of the training are. The
    training is run on data at hand, with the noise given and, where there are fewer records than
    the paper's 60000, with noise that is larger in proportion, which has the epsilons of 60000
    records.

    Parameters
    ----------
    delta
        Where epsilon is computed; Table 1 has 1e-5.
    data
        A file or folder with MNIST (see `audit.studies.digits.load`); None for the digits that come
        with scikit-learn. Training records beyond a multiple of ``batches`` are left out.
    epochs
        After how many epochs a model is released, increasing.
    runs
        Independent runs, at least 2, over which means and standard deviations are taken.
    batches, step_size, noise_std, strong_convexity
        l, eta, sigma and m of section 4.4.
    gradient_sensitivity
        S. Features are scaled down to norm S/(2 sqrt(2)) at most, which makes it hold.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    delta: float
    data: Path | None = None
    epochs: tuple[int, ...] = (50, 100, 200)
    runs: int = 10
    batches: int = 40
    step_size: float = 0.05
    noise_std: float = 0.01
    strong_convexity: float = 0.002
    gradient_sensitivity: float = 10.0

    def __post_init__(self) -> None:
        validate.open_unit(delta=self.delta)
        validate.integer(2, runs=self.runs)
        validate.positive(gradient_sensitivity=self.gradient_sensitivity)
        if not self.epochs or any(
            b <= a for a, b in zip((0, *self.epochs), self.epochs, strict=False)
        ):
            raise validate.fail("epochs", "increasing whole numbers of at least 1", self.epochs)
        self.algorithm(self.noise_std)

    @property
    def feature_norm(self) -> float:
        """R with 2 sqrt(2) R = S."""
        return self.gradient_sensitivity / (2 * math.sqrt(2))

    def algorithm(self, noise_std: float) -> training.NoisyCGD:
        """Return the algorithm with its noise."""
        return training.NoisyCGD(
            batches=self.batches,
            step_size=self.step_size,
            noise_std=noise_std,
            strong_convexity=self.strong_convexity,
            feature_norm=self.feature_norm,
        )

    def level(self, noise_std: float, dataset_size: int, epochs: int) -> Level:
        """Return the three epsilons of Table 1 for these data."""
        mechanism = self.algorithm(noise_std).mechanism(dataset_size, epochs)
        return noisy_cgd_table_1.level(mechanism, self.delta)

    def find(self, *, seed: int, threads: int, confidence: float, progress: Report) -> Findings:
        """Train and account; everything runs in one thread.

        Raises
        ------
        ImportError
            If scikit-learn's digits are needed and it is absent.
        ValueError
            If the data cannot be read, or there are fewer records than batches.
        """
        pictures = digits.load(self.data, seed)
        used = len(pictures.train) // self.batches * self.batches
        if used == 0:
            raise validate.fail("data", f"at least {self.batches} pictures", len(pictures.train))
        noises = [self.noise_std]
        if used < SIZE:
            noises.append(self.noise_std * SIZE / used)
        shown = sorted({*self.epochs, *(e for e in _ON_THE_WAY if e < self.epochs[-1])})
        streams = np.random.SeedSequence(seed).spawn(len(noises))
        measured: list[Measured] = []
        with one_thread():
            for noise, stream in zip(noises, streams, strict=True):
                generator = np.random.default_rng(stream)
                for one in self._trained(pictures, used, noise, shown, generator):
                    measured.append(one)
                    progress(len(measured), len(noises) * len(shown))
        return noisy_cgd_findings.findings(
            measured,
            data=pictures.name,
            dataset_size=used,
            tested=len(pictures.test),
            asked=self.epochs,
            runs=self.runs,
            delta=self.delta,
            sensitivity=self.gradient_sensitivity,
            feature_norm=self.feature_norm,
            compared=min(used, _COMPARED),
            published={
                e: noisy_cgd_table_1.level(noisy_cgd_table_1.mechanism(e), self.delta)
                for e in self.epochs
            },
            improvements=_improvements(measured, self.epochs, confidence),
        )

    def _trained(
        self,
        pictures: digits.Pictures,
        used: int,
        noise_std: float,
        shown: Sequence[int],
        generator: np.random.Generator,
    ) -> Iterator[Measured]:
        z, z_test = (
            training.clipped_features(pixels, self.feature_norm)
            for pixels in (pictures.train[:used], pictures.test)
        )
        y, y_test = pictures.train_labels[:used], pictures.test_labels
        released = self.algorithm(noise_std).weights(
            z, y, classes=digits.CLASSES, epochs=shown, runs=self.runs, generator=generator
        )
        for epochs, weights in released:
            compared = slice(_COMPARED if epochs in self.epochs else 0)
            yield Measured(
                noise_std=noise_std,
                epochs=epochs,
                train=training.accuracies(weights, z, y),
                test=training.accuracies(weights, z_test, y_test),
                level=self.level(noise_std, used, epochs),
                largest_difference=_largest_difference(weights[0], z[compared], y[compared]),
            )


def _largest_difference(weights: Array, features: Array, labels: training.Labels) -> float | None:
    if len(features) == 0:
        return None
    return training.largest_gradient_difference(weights, features, labels)


def _improvements(
    measured: list[Measured], asked: tuple[int, ...], confidence: float
) -> dict[float, Improvement | None]:
    """Return the least certain gain for each noise, of consecutive releases and both accuracies.

    Each gain has a Student margin of its share of the error, so that the gains of all noises hold
    together; runs are paired, as they go on from the earlier release. The margin takes differences
    of runs for normal. None where there is one number of epochs.
    """
    noises = tuple(dict.fromkeys(one.noise_std for one in measured))
    stated = 2 * (len(asked) - 1) * len(noises)
    found: dict[float, Improvement | None] = {}
    for noise in noises:
        rows = [one for one in measured if one.noise_std == noise and one.epochs in asked]
        differences = [
            later - earlier
            for a, b in itertools.pairwise(rows)
            for later, earlier in ((b.train, a.train), (b.test, a.test))
        ]
        if not differences:
            found[noise] = None
            continue
        runs = len(differences[0])
        width = float(stats.t.isf((1 - confidence) / stated, runs - 1)) / math.sqrt(runs)
        gains = [
            Improvement(mean=float(np.mean(one)), margin=width * float(np.std(one, ddof=1)))
            for one in differences
        ]
        found[noise] = min(gains, key=lambda gain: gain.mean - gain.margin)
    return found

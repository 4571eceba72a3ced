"""Accuracy and privacy of NoisyCGD: section 4.4 of Bok, Su and Altschuler 2024."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit import validate
from audit.results import Chart, Drawn, Findings, FoundTable, Series, Statement, Verdict
from audit.scenario import Progress, study
from papers import datasets, noisy_cgd
from papers.checks import short
from papers.datasets import one_thread
from papers.noisy_cgd import DELTA, SIZE, TABLE_1, Epsilons

Array = NDArray[np.float64]

_COMPARED = 1500  # records whose gradients are compared pairwise
_ON_THE_WAY = (1, 2, 5, 10, 20)  # epochs shown beside those asked for
_CITED = "Bok, Su and Altschuler 2024"
# Table 2: accuracy in training and in tests, in percent, each with its standard deviation.
TABLE_2 = {
    50: ((89.36, 0.03), (90.12, 0.04)),
    100: ((90.24, 0.03), (90.94, 0.07)),
    200: ((90.85, 0.02), (91.37, 0.08)),
}
_SAME = 1e-9  # relatively: rounding of one formula at two parameters


@study
@dataclass(frozen=True, kw_only=True)
class NoisyCGDTraining:
    """Regularised multinomial logistic regression by NoisyCGD.

    Tables 1 and 2 of Bok, Su and Altschuler 2024. Table 1 is recomputed at the paper's parameters,
    whatever those of the training are. The training is run on data at hand, with the noise given
    and, where there are fewer records than the paper's 60000, with noise that is larger in
    proportion, which has the epsilons of 60000 records.

    Parameters
    ----------
    delta
        Where epsilon is computed; Table 1 has 1e-5.
    data
        A file or folder with MNIST (see `papers.datasets.load_digits`); None for the digits that
        come with scikit-learn. Training records beyond a multiple of ``batches`` are left out.
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

    def algorithm(self, noise_std: float) -> noisy_cgd.NoisyCGD:
        """Return the algorithm with its noise."""
        return noisy_cgd.NoisyCGD(
            batches=self.batches,
            step_size=self.step_size,
            noise_std=noise_std,
            strong_convexity=self.strong_convexity,
            feature_norm=self.feature_norm,
        )

    def epsilons(self, noise_std: float, dataset_size: int, epochs: int) -> Epsilons:
        """Return the three epsilons of Table 1 for these data."""
        mechanism = self.algorithm(noise_std).mechanism(dataset_size, epochs)
        return noisy_cgd.epsilons(mechanism, self.delta)

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        """Train and account; everything runs in one thread.

        Raises
        ------
        ImportError
            If scikit-learn's digits are needed and it is absent.
        ValueError
            If the data cannot be read, or there are fewer records than batches.
        """
        pictures = datasets.load_digits(self.data, seed)
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
        return _findings(
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
                e: noisy_cgd.epsilons(noisy_cgd.table_1_mechanism(e), self.delta)
                for e in self.epochs
            },
            improvements=_improvements(measured, self.epochs, confidence),
        )

    def _trained(
        self,
        pictures: datasets.Pictures,
        used: int,
        noise_std: float,
        shown: Sequence[int],
        generator: np.random.Generator,
    ) -> Iterator[Measured]:
        z, z_test = (
            noisy_cgd.clipped_features(pixels, self.feature_norm)
            for pixels in (pictures.train[:used], pictures.test)
        )
        y, y_test = pictures.train_labels[:used], pictures.test_labels
        released = self.algorithm(noise_std).weights(
            z, y, classes=datasets.CLASSES, epochs=shown, runs=self.runs, generator=generator
        )
        for epochs, weights in released:
            compared = slice(_COMPARED if epochs in self.epochs else 0)
            yield Measured(
                noise_std=noise_std,
                epochs=epochs,
                train=noisy_cgd.accuracies(weights, z, y),
                test=noisy_cgd.accuracies(weights, z_test, y_test),
                epsilons=self.epsilons(noise_std, used, epochs),
                largest_difference=_largest_difference(weights[0], z[compared], y[compared]),
            )


def _largest_difference(weights: Array, features: Array, labels: noisy_cgd.Labels) -> float | None:
    if len(features) == 0:
        return None
    return noisy_cgd.largest_gradient_difference(weights, features, labels)


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Accuracies of all runs, shape (runs,), after some epochs, and the epsilons of that release.

    ``largest_difference`` is the largest distance of two records' gradients at the first model.
    """

    noise_std: float
    epochs: int
    train: Array
    test: Array
    epsilons: Epsilons
    largest_difference: float | None


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """The least certain gain of accuracy from one release to the next: its mean and its margin."""

    mean: float
    margin: float


def _findings(
    measured: Sequence[Measured],
    *,
    data: str,
    dataset_size: int,
    tested: int,
    asked: tuple[int, ...],
    runs: int,
    delta: float,
    sensitivity: float,
    feature_norm: float,
    compared: int,
    published: Mapping[int, Epsilons],
    improvements: Mapping[float, Improvement | None],
) -> Findings:
    """Return the findings; the parameters are those of `NoisyCGDTraining`."""
    released = [one for one in measured if one.epochs in asked]
    return Findings(
        statements=(
            *_accounting(published, delta),
            _sensitivity(released, sensitivity, compared, runs),
            *(_improves(noise, one, data) for noise, one in improvements.items()),
        ),
        tables=(
            _accuracy_table(released, data, dataset_size, tested, runs, delta),
            _accounting_table(published, delta),
        ),
        charts=(
            _accuracy_chart(measured, data, runs),
            _privacy_chart(measured, published, delta),
        ),
        notes=_notes(measured, feature_norm, sensitivity, dataset_size),
        numbers={"dataset_size": dataset_size, "tested": tested, "feature_norm": feature_norm},
    )


def _accounting(published: Mapping[int, Epsilons], delta: float) -> list[Statement]:
    """Compare digit for digit, where delta and epochs are those of the table.

    ``published`` is computed at the paper's parameters, so that a training with others refutes
    nothing.
    """
    found = []
    for epochs, epsilons in published.items():
        if epochs not in TABLE_1 or delta != DELTA:
            continue
        printed = _spelled(TABLE_1[epochs])
        computed = _spelled(epsilons.values)
        found.append(
            Statement(
                claim=(
                    f"epsilon after {epochs} epochs at n = 60000, delta = 1e-5: composition, "
                    "Renyi, Theorem 4.5"
                ),
                citation=f"{_CITED}, Table 1",
                expected=printed,
                found=computed,
                verdict=Verdict.HOLDS if printed == computed else Verdict.REFUTED,
            )
        )
    return found


def _spelled(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _sensitivity(
    released: Sequence[Measured], sensitivity: float, compared: int, runs: int
) -> Statement:
    largest = max(one.largest_difference or 0.0 for one in released)
    within = largest <= sensitivity * (1 + 1e-9)  # rounding of gradients near the limit
    return Statement(
        claim=(
            f"no two of the first {compared} records' gradients differ by more than the "
            f"sensitivity, at the weights that the first of {runs} runs releases"
        ),
        citation="the assumption that this training is accounted with",
        expected=f"at most {sensitivity:g}",
        found=largest,
        verdict=Verdict.unless(not within),
    )


def _improves(noise: float, one: Improvement | None, data: str) -> Statement:
    """Return whether accuracy rises; other data or another preprocessing refute nothing.

    The margin is Student's, which is exact for normal differences only: it is said in a note.
    """
    rises = one is not None and one.mean > one.margin
    return Statement(
        claim=(
            f"accuracy rises with the epochs on {data}, noise {noise:.3g} (said of MNIST; percent "
            "gained, the least certain gain)"
        ),
        citation=f"{_CITED}, Table 2",
        expected="above 0",
        found="one number of epochs" if one is None else 100 * one.mean,
        error=None if one is None else 100 * one.margin,
        verdict=Verdict.HOLDS if rises else Verdict.INCONCLUSIVE,
    )


def _accuracy_table(
    released: Sequence[Measured], data: str, size: int, tested: int, runs: int, delta: float
) -> FoundTable:
    return FoundTable(
        caption=(
            f"Table 2 on {data}: n = {size}, {tested} pictures for tests, mean and standard "
            f"deviation of {runs} runs in percent. Epsilons are for these n at δ = {short(delta)}; "
            f"the paper's numbers are for MNIST with n = {SIZE} and noise 0.01."
        ),
        columns=(
            "noise",
            "epochs",
            "training",
            "test",
            "epsilon, Theorem 4.5",
            "epsilon, Renyi",
            "epsilon, composition",
            "paper: training",
            "paper: test",
            "paper: epsilon",
        ),
        rows=tuple(
            (
                one.noise_std,
                one.epochs,
                _percent(one.train),
                _percent(one.test),
                one.epsilons.convergent,
                one.epsilons.renyi,
                one.epsilons.composition,
                *_paper(one.epochs),
            )
            for one in released
        ),
    )


def _percent(accuracies: Array) -> str:
    return f"{100 * np.mean(accuracies):.2f} ± {100 * np.std(accuracies, ddof=1):.2f}"


def _paper(epochs: int) -> tuple[str, str, float | str]:
    if epochs not in TABLE_2:
        return "none", "none", "none"
    train, test = (f"{mean:.2f} ± {spread:.2f}" for mean, spread in TABLE_2[epochs])
    return train, test, TABLE_1[epochs][2]


def _accounting_table(published: Mapping[int, Epsilons], delta: float) -> FoundTable:
    return FoundTable(
        caption=(
            f"Table 1 at the paper's parameters (n = {SIZE}), δ = {short(delta)}: "
            f"{_smallest(published)}."
        ),
        columns=("epochs", "composition", "Renyi", "Theorem 4.5"),
        rows=tuple((epochs, *epsilons.values) for epochs, epsilons in published.items()),
    )


def _smallest(published: Mapping[int, Epsilons]) -> str:
    below = [
        epochs
        for epochs, epsilons in published.items()
        if epsilons.convergent < min(epsilons.composition, epsilons.renyi) * (1 - _SAME)
    ]
    if len(below) == len(published):
        return "Theorem 4.5 is the smallest in every row"
    rows = ", ".join(map(str, below)) or "none"
    return f"Theorem 4.5 is below both others after these epochs: {rows}"


def _accuracy_chart(measured: Sequence[Measured], data: str, runs: int) -> Chart:
    series = []
    for noise in _noises(measured):
        rows = _of(measured, noise)
        x = tuple(float(one.epochs) for one in rows)
        for word, values in (
            ("training", [one.train for one in rows]),
            ("test", [one.test for one in rows]),
        ):
            means = [100 * float(np.mean(v)) for v in values]
            series.append(Series(name=f"{word}, noise {noise:.3g}", x=x, y=tuple(means)))
    return Chart(
        name="accuracy",
        title=f"Accuracy on {data}",
        caption=f"Mean of {runs} runs. {_compared_ends(measured)}",
        x_label="epochs",
        y_label="accuracy (percent)",
        series=tuple(series),
        x_logarithmic=True,
    )


def _noises(measured: Sequence[Measured]) -> tuple[float, ...]:
    return tuple(dict.fromkeys(one.noise_std for one in measured))


def _of(measured: Sequence[Measured], noise: float) -> list[Measured]:
    return [one for one in measured if one.noise_std == noise]


def _compared_ends(measured: Sequence[Measured]) -> str:
    """Describe the mean test accuracies at both ends, without a verdict on them."""
    parts = []
    for noise in _noises(measured):
        rows = _of(measured, noise)
        first, last = rows[0], rows[-1]
        ends = " to ".join(f"{100 * np.mean(one.test):.1f}" for one in (first, last))
        epochs = f"after {last.epochs} epochs"
        if first is not last:
            epochs = f"from {first.epochs} to {last.epochs} epochs"
        else:
            ends = f"{100 * np.mean(last.test):.1f}"
        parts.append(f"with noise {noise:.3g} {ends} percent {epochs}")
    return f"In tests: {', '.join(parts)}."


def _privacy_chart(
    measured: Sequence[Measured], published: Mapping[int, Epsilons], delta: float
) -> Chart:
    noise = _noises(measured)[-1]
    rows = _of(measured, noise)
    x = tuple(float(one.epochs) for one in rows)
    names = ("composition (Theorem 4.4)", "Renyi", "Theorem 4.5")
    series = [
        Series(name=name, x=x, y=tuple(one.epsilons.values[i] for one in rows))
        for i, name in enumerate(names)
    ]
    # printed numbers are drawn where this training has the privacy of the table's
    printed = [
        one.epochs
        for one in rows
        if one.epochs in TABLE_1
        and one.epochs in published
        and delta == DELTA
        and np.allclose(one.epsilons.values, published[one.epochs].values, rtol=_SAME, atol=0)
    ]
    if printed:
        series.append(
            Series(
                name="Table 1, Theorem 4.5",
                x=tuple(float(e) for e in printed),
                y=tuple(TABLE_1[e][2] for e in printed),
                drawn=Drawn.POINTS,
            )
        )
    first, last = rows[0], rows[-1]
    growth = ", ".join(
        f"{name} {after / before:.3g}"
        for name, before, after in zip(
            names, first.epsilons.values, last.epsilons.values, strict=True
        )
    )
    return Chart(
        name="privacy",
        title=f"Epsilon at δ = {short(delta)}, noise {noise:.4g}",
        caption=(
            f"Times by which epsilon grows from {first.epochs} to {last.epochs} epochs: {growth}."
        ),
        x_label="epochs",
        y_label="epsilon",
        series=tuple(series),
        x_logarithmic=True,
        y_logarithmic=True,
    )


def _notes(
    measured: Sequence[Measured], feature_norm: float, sensitivity: float, dataset_size: int
) -> tuple[str, ...]:
    notes = [
        "The accounting of Table 1 follows from its parameters alone. The accuracies of Table 2 "
        "also depend on the data and on the preprocessing, which the text at hand does not give "
        "(its appendix D.2 is not part of it): they are printed beside, not compared.",
        f"Here features are pixels in [0, 1] with a constant 1, scaled down to norm "
        f"{feature_norm:.4g}. A gradient z (p - e_y)' is then at most {sensitivity / 2:g} long, "
        f"two differ by at most {sensitivity:g}, and no gradient is clipped, so the losses stay "
        "convex as Theorem 4.5 needs. There is no projection; the theorem needs none.",
        "Each row is the release of one model. The runs of a noise level go on from row to row, "
        "which saves time; releasing several of these models together would cost more privacy.",
        "The margins of gains are Student's, all at once for every gain and noise stated. They "
        "take the differences between runs for normal, which is assumed, not tested.",
    ]
    noises = _noises(measured)
    if len(noises) > 1:
        first, last = (_of(measured, noise)[-1] for noise in noises)
        notes.append(
            f"With noise {noises[0]:.3g}, {dataset_size} records in place of {SIZE} mean epsilon "
            f"{first.epsilons.convergent:.4g} after {first.epochs} epochs: it depends on n through "
            f"the batch size only. With noise {noises[-1]:.3g} S/(b sigma) is that of {SIZE} "
            f"records with noise {noises[0]:.3g}, and epsilon is {last.epsilons.convergent:.4g}."
        )
    return tuple(notes)

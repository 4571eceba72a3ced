"""Sources of scores, and combinations of several numbers per run into one score.

A source is a function, two samples, or a table with a membership column. Columns are coordinates of
the release, scores of several canaries, or several scores of one canary. A part of the runs chooses
how they are combined; the other runs are scored by a function that is fixed given that part, so
every method that certifies scores can certify these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.adapters.scores import read_scores, read_table
from audit.codec import Tagged
from audit.estimation.evidence import count_tails
from audit.estimation.rate_limits import lower_limit, upper_limit
from audit.estimation.scores import (
    GradientBoosting,
    Histogram,
    Logistic,
    NearestNeighbours,
    Training,
    checked_rows,
    rows_of,
    split,
    weighted_sum,
)
from audit.isolation import call, load
from audit.numerics.arrays import Array

Learner = Histogram | Logistic | NearestNeighbours | GradientBoosting

_LEVELS = np.geomspace(0.5, 0.005, 12)  # tail masses, at either end, at which columns are compared
_COMPARISON_ERROR = 0.02  # of each limit in that comparison, so that a lucky far tail does not win
_MIN_TRIALS = 1000


@dataclass(frozen=True)
class TwoFiles:
    """``{scores: a.npy, scores_prime: b.csv}``: files of the scores of two datasets."""

    scores: Path
    scores_prime: Path


@dataclass(frozen=True, kw_only=True)
class RecordedScores:
    """Scores of independent runs on two neighbouring datasets: two samples or a table."""

    #: The scores of the first dataset, or a file of them: .npy, .npz, .parquet, or text such as
    #: .csv with or without a header. A file may hold several numbers per run.
    x: Path | tuple[float, ...] | None = None
    x_prime: Path | tuple[float, ...] | None = None  #: Those of the second dataset.
    #: Alternatively one table, with one row per run: .csv, .tsv, .npz, .npy or .parquet.
    file: Path | None = None
    score: str | None = None  #: Name of its column of scores.
    member: str | None = None  #: Name of its column of 0 and 1; x are the scores of members.

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("x", "x_prime"),
        ("file", "score", "member"),
    )

    def __post_init__(self) -> None:
        one_alternative(self)

    def draw(self, seed: int, *, folders: Sequence[Path] = ()) -> tuple[Array, Array]:
        """Return the scores of both datasets."""
        if self.file is not None:
            table = read_table(self.file, score=str(self.score), member=str(self.member))
            return table.x, table.x_prime
        return sample("x", self.x), sample("x_prime", self.x_prime)


@dataclass(frozen=True, kw_only=True)
class ScoreSource(RecordedScores):
    """Scores of independent runs on two neighbouring datasets: a function, two samples or a table.

    Examples
    --------
    >>> ScoreSource(x=(1.0, 2.0), x_prime=(0.0, 0.5)).draw(seed=0)
    (array([1., 2.]), array([0. , 0.5]))
    """

    #: ``package.module:function``, called as ``function(dataset, trials, seed)``: it runs the
    #: mechanism ``trials`` times on dataset 0 or 1 and returns one number per run, shape
    #: ``(trials,)``, or several, shape ``(trials, d)``. The score of a run is fixed beforehand, and
    #: all randomness comes from the seed, which differs for the two datasets.
    function: str | None = None
    trials: int | None = None  #: Number of runs on each dataset; for a function only.

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("function",),
        *RecordedScores.alternatives,
    )
    shorthands: ClassVar[Mapping[str, Any]] = MappingProxyType({"": TwoFiles})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.function is None:
            if self.trials is not None:
                raise validate.fail("trials", "left out beside recorded scores", self.trials)
            return
        validate.reference(function=self.function)
        if self.trials is None:
            raise ValueError("trials must be given for a function, got nothing")
        validate.integer(_MIN_TRIALS, trials=self.trials)

    @classmethod
    def expand_shorthand(cls, plain: Any) -> Any:
        """Convert ``scores`` and ``scores_prime`` to ``x`` and ``x_prime``."""
        if not isinstance(plain, Mapping):
            return plain
        names = {"scores": "x", "scores_prime": "x_prime"}
        return {names.get(key, key): value for key, value in plain.items()}

    def draw(self, seed: int, *, folders: Sequence[Path] = ()) -> tuple[Array, Array]:
        """Return the scores of both datasets."""
        if (function := self.function) is None:
            return super().draw(seed)
        sampler = load(function, folders=folders)
        kind = "a function of (dataset, trials, seed) that returns scores"
        if not callable(sampler):
            raise validate.fail(function, kind, sampler)
        drawn = []
        for dataset, one in enumerate(np.random.SeedSequence(seed).generate_state(2, np.uint32)):
            message = f"{function} must be {kind}, got"
            returned = call(sampler, dataset, self.trials, int(one), message=message)
            drawn.append(sample(f"what {function} returns", returned))
            if len(drawn[-1]) != self.trials:
                raise ValueError(
                    f"{function} must return one score for each of the {self.trials} trials, "
                    f"got {len(drawn[-1])}"
                )
        return drawn[0], drawn[1]

    @property
    def described(self) -> str:
        """Source of the scores, in words."""
        if self.function is not None:
            return self.function
        if self.file is not None:
            return f"{self.score!r} by {self.member!r} of {self.file}"
        sides = (str(one) if isinstance(one, Path) else "numbers" for one in (self.x, self.x_prime))
        return " and ".join(dict.fromkeys(sides))


def one_alternative(given: Any) -> None:
    """Require that the fields of exactly one of a dataclass's ``alternatives`` are given."""
    groups: tuple[tuple[str, ...], ...] = given.alternatives
    fields = [field for group in groups for field in group if getattr(given, field) is not None]
    if tuple(fields) not in groups:
        first, *others = (" and ".join(", ".join(group).rsplit(", ", 1)) for group in groups)
        known = ", or ".join((f"{first} must be given", *others))
        raise ValueError(f"{known}, got {', '.join(fields) or 'nothing'}")


def sample(name: str, given: Any) -> Array:
    """Return one number per run, shape (n,), or several, shape (n, d); read them from a file."""
    if isinstance(given, Path):
        return read_scores(given, name=name)
    return rows_of(name, given) if np.ndim(given) == 2 else validate.real_sample(**{name: given})


@dataclass(frozen=True)
class WeightedColumns(Tagged):
    """Sum the columns with weights chosen in advance; all runs certify."""

    weights: tuple[float, ...]  #: Finite weights, one per column, not all 0.

    def __post_init__(self) -> None:
        weights = tuple(float(w) for w in validate.real_sample(weights=self.weights))
        object.__setattr__(self, "weights", weights)
        if not any(self.weights):
            raise validate.fail("weights", "not all 0", self.weights)


@dataclass(frozen=True)
class _ChosenWeights(Tagged):
    """Weights of columns that a part of the runs chooses."""

    #: Share of the runs of each law, in (0, 1), that chooses the weights and certifies nothing.
    fraction: float = 0.2

    def __post_init__(self) -> None:
        validate.open_unit(fraction=self.fraction)


@dataclass(frozen=True)
class LinearScore(_ChosenWeights):
    """Combine columns by Fisher's linear discriminant, with a covariance shrunk to its diagonal."""

    def _weights(self, pilot: Training, scale: Array, delta: float) -> Array:
        """Return the discriminant of the scaled columns; equal weights if nothing varies."""
        first, second = pilot.samples / scale, pilot.samples_prime / scale
        size, number = first.shape[0] + second.shape[0], first.shape[1]
        gap = np.mean(first, axis=0) - np.mean(second, axis=0)
        centred = np.concatenate([first - np.mean(first, axis=0), second - np.mean(second, axis=0)])
        covariance = centred.T @ centred / size
        shrunk = number / (number + size)
        spread = np.diag(covariance)
        floor = 1e-12 * max(float(np.max(spread)), np.finfo(float).tiny)
        matrix = (1 - shrunk) * covariance + shrunk * np.diag(spread) + floor * np.eye(number)
        weights: Array = np.linalg.solve(matrix, gap)
        size_of_weights = float(np.max(np.abs(weights)))
        sound = 0 < size_of_weights < np.inf
        return (weights / size_of_weights if sound else np.ones(number)) / scale


@dataclass(frozen=True)
class BestColumn(_ChosenWeights):
    """Use the single column that best distinguishes the laws on a part of the runs."""

    def _weights(self, pilot: Training, scale: Array, delta: float) -> Array:
        """Choose the column with the largest conservative estimate of epsilon at ``delta``."""
        totals = np.array([[len(pilot.samples)], [len(pilot.samples_prime)]])
        values = []
        for first, second in zip(pilot.samples.T, pilot.samples_prime.T, strict=True):
            both = np.sort(np.concatenate([first, second]))
            ranks = np.unique((both.size * (1 - _LEVELS)).astype(np.intp))
            high, low = both[ranks], both[both.size - 1 - ranks]
            counts = [count_tails(np.sort(side), high, low) for side in (first, second)]
            gap = lower_limit(counts, totals, _COMPARISON_ERROR) - delta
            other = upper_limit(counts, totals, _COMPARISON_ERROR)[::-1]
            values.append(np.max(np.log(np.maximum(gap, 1e-12)) - np.log(other)))
        return np.asarray(np.eye(len(values))[np.argmax(values)])


@dataclass(frozen=True)
class LearnedColumns(Tagged):
    """Learn a score from a part of the runs; neighbours and trees need scikit-learn."""

    learner: Learner  #: The model to fit.
    #: Share of the runs of each law, in (0, 1), that trains the model and certifies nothing.
    fraction: float = 0.4

    def __post_init__(self) -> None:
        if not isinstance(self.learner, Learner):
            requirement = "a Histogram, Logistic, NearestNeighbours or GradientBoosting"
            raise validate.fail("learner", requirement, self.learner)
        validate.open_unit(fraction=self.fraction)


Columns = WeightedColumns | LinearScore | BestColumn | LearnedColumns


@dataclass(frozen=True, kw_only=True)
class CombinedColumns:
    """Combination of columns, and the number of runs that chose it."""

    choice: Columns  #: The requested method.
    number: int  #: Number of columns.
    #: The weights of the columns, given or chosen; None for a learned score.
    weights: tuple[float, ...] | None
    #: Numbers of runs of the first and of the second law that were used for the choice.
    choosing: tuple[int, int]

    @property
    def towards_first(self) -> bool:
        """Whether the score was chosen such that high values indicate the first law."""
        return any(self.choosing) and not isinstance(self.choice, BestColumn)


def combine(
    samples: ArrayLike,
    samples_prime: ArrayLike,
    *,
    columns: Columns,
    seed: int | None,
    delta: float,
) -> tuple[Array, Array, CombinedColumns]:
    """Combine several numbers per run into one score per run.

    Returns scores of both laws, without the runs used for the choice, and how they were combined.
    """
    if not isinstance(columns, Columns):
        requirement = "WeightedColumns, LinearScore, BestColumn or LearnedColumns"
        raise validate.fail("columns", requirement, columns)
    first, second = checked_rows(samples, samples_prime)
    number, choosing = first.shape[1], (0, 0)
    weights: Array | None = None
    if isinstance(columns, WeightedColumns):
        if len(columns.weights) != number:
            raise validate.fail("weights", f"one per column ({number})", columns.weights)
        weights = np.array(columns.weights)
        with np.errstate(over="ignore", invalid="ignore"):
            first, second = (weighted_sum(rows, weights) for rows in (first, second))
        for name, scores in (("samples", first), ("samples_prime", second)):
            validate.sample(**{f"the weighted sum of {name}": scores})
    elif number == 1 and not isinstance(columns, LearnedColumns):
        first, second, weights = first[:, 0], second[:, 0], np.ones(1)
    else:
        if seed is None:
            raise validate.fail("seed", "given to choose from columns", seed)
        pilot, rest = split(first, second, fraction=columns.fraction, seed=seed)
        choosing = pilot.samples.shape[0], pilot.samples_prime.shape[0]
        if isinstance(columns, LearnedColumns):
            first, second = columns.learner.fit(pilot).apply(rest)
        else:
            scale = np.max(np.abs(np.concatenate([pilot.samples, pilot.samples_prime])), axis=0)
            # a power of 2 is exact to divide by, and divided columns do not overflow
            scale = np.ldexp(1.0, np.frexp(np.where(scale > 0, scale, 1.0))[1] - 1)
            weights = columns._weights(pilot, scale, delta)
            sides = rest.samples / scale, rest.samples_prime / scale
            first, second = (weighted_sum(rows, weights * scale) for rows in sides)
    used = None if weights is None else tuple(weights.tolist())
    combined = CombinedColumns(choice=columns, number=number, weights=used, choosing=choosing)
    return first, second, combined

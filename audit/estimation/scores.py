"""Scores of samples of any dimension, learned on a part of them that certifies nothing.

A score maps every draw to one number; a high value indicates the first law of the pair. A learned
score must not be applied to the samples it was trained on: `split` returns a `Training` part for
learners and a `Certifying` part for their scores. Every learner is a frozen dataclass with one
method, ``fit(training)``, and every score has one method, ``apply(held_out)``. A poor score costs
power, never validity.
"""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.adapters.libraries import load
from audit.codec import Tagged
from audit.numerics.arrays import Array, Indices

LogOdds = Callable[[Array], Array]  # maps rows of standardised coordinates to log odds

_MAX_SCORE = 1e300  # learned scores are clipped here, as infinite ones cannot be ranked
_MIN_ROWS = 4
_CLIP = 1e6  # standardised coordinates are clipped here
_ROWS_PER_CHUNK = 200_000
_MAX_DIMENSIONS = 32  # most dimensions of a histogram


@dataclass(frozen=True, eq=False)
class _ScorePart:
    samples: Array  # draws of X and X', shapes (n, d) and (n', d), read-only
    samples_prime: Array
    digest: str  # identifies the split: a hash of the data, the fraction and the seed

    @property
    def scores(self) -> tuple[Array, Array]:
        """The draws of both laws where d is 1, shapes (n,) and (n',)."""
        return self.samples[:, 0], self.samples_prime[:, 0]


class Training(_ScorePart):
    """The part of a split that learners may see. Made by `split`."""


class Certifying(_ScorePart):
    """The part of a split that only fixed scores may see. Made by `split`."""


@dataclass(frozen=True, eq=False)
class Fresh:
    """Draws that the caller declares to be independent of all training samples.

    Raises
    ------
    ValueError
        If they are empty, not finite, or differ in d.
    """

    samples: ArrayLike  #: Draws of X, shape (n, d), or (n,) for d = 1; finite.
    samples_prime: ArrayLike  #: Draws of X', likewise.
    rows: tuple[Array, Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", checked_rows(self.samples, self.samples_prime))


def split(
    samples: ArrayLike, samples_prime: ArrayLike, *, fraction: float, seed: int
) -> tuple[Training, Certifying]:
    """Split both samples at random into a part to learn from and a part to certify with.

    Parameters
    ----------
    samples, samples_prime : array_like
        Draws of X and X', shapes (n, d) and (n', d), or (n,) for d = 1; finite, at least 4 each.
    fraction : float
        Share of each sample, in (0, 1), that trains; at least 2 draws are left on either side.
    seed : int
        Seed of the split; a non-negative integer, chosen before looking at the data, and not that
        of the generator that drew them.

    Returns
    -------
    training : Training
        The part to learn from.
    certifying : Certifying
        The part to certify with, which belongs to the same split. Given the training part, the
        certifying draws are independent of it, so a score learned from it is a fixed function.

    Raises
    ------
    ValueError
        If a sample is too small, not finite or of another shape, or an argument is out of its
        range.

    Examples
    --------
    >>> rows = np.arange(20.0).reshape(10, 2)
    >>> training, certifying = split(rows, rows, fraction=0.4, seed=1)
    >>> training.samples.shape, certifying.samples.shape
    ((4, 2), (6, 2))
    """
    validate.open_unit(fraction=fraction)
    validate.integer(0, seed=seed)
    rows = checked_rows(samples, samples_prime)
    digest = hashlib.blake2b(f"{float(fraction)!r} {int(seed)}".encode(), digest_size=16)
    parts = []
    streams = np.random.SeedSequence(int(seed)).spawn(2)
    for name, points, stream in zip(("samples", "samples_prime"), rows, streams, strict=True):
        size = points.shape[0]
        if size < _MIN_ROWS:
            raise ValueError(f"{name} must hold at least {_MIN_ROWS} draws to be split, got {size}")
        digest.update(str(points.shape).encode())
        digest.update(np.ascontiguousarray(points).tobytes())
        chosen = np.zeros(size, dtype=np.bool_)
        generator = np.random.default_rng(stream)
        drawn = generator.choice(size, part_size(fraction, size), replace=False, shuffle=False)
        chosen[drawn] = True
        parts.append((points[chosen], points[~chosen]))
        for part in parts[-1]:
            part.flags.writeable = False
    (learned, rest), (learned_prime, rest_prime) = parts
    name = digest.hexdigest()
    return Training(learned, learned_prime, name), Certifying(rest, rest_prime, name)


def part_size(fraction: float, size: int) -> int:
    """Return how many of ``size`` draws choose: at least 2, and at least 2 draws remain."""
    return min(max(2, round(fraction * size)), size - 2)


def _mostly_known(rows: Array, learned: Array) -> bool:
    """Return whether fresh rows are, or mostly equal, training samples that have no ties."""
    if np.may_share_memory(rows, learned):
        return True
    if rows.shape[1] != learned.shape[1]:
        return False
    known = {row.tobytes() for row in learned}
    if len(known) < len(learned):  # with ties, equal rows are no evidence of reuse
        return False
    return sum(row.tobytes() in known for row in rows) > len(rows) / 2


def checked_rows(samples: ArrayLike, samples_prime: ArrayLike) -> tuple[Array, Array]:
    """Return both samples as finite arrays of shape (n, d) with the same d."""
    first, second = rows_of("samples", samples), rows_of("samples_prime", samples_prime)
    validate.same_precision(samples=samples, samples_prime=samples_prime)
    if first.shape[1] != second.shape[1]:
        raise validate.fail(
            "samples_prime", f"of dimension {first.shape[1]} like samples", second.shape[1]
        )
    return first, second


def rows_of(name: str, value: ArrayLike) -> Array:
    """Return a sample as a finite array of shape (n, d)."""
    given = validate.real_numbers(**{name: value})
    array = validate.floats(name, "an array of numbers", given)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"{name} must be a non-empty array of shape (n,) or (n, d), got shape {array.shape}"
        )
    for row, column in np.argwhere(~np.isfinite(array))[:1]:
        raise ValueError(
            f"{name} must hold finite numbers only, got {array[row, column]} in row {row}"
        )
    return array


def weighted_sum(rows: Array, weights: Array) -> Array:
    """Return the weighted sum of each row; products of matrices may round equal rows apart."""
    total = np.zeros(rows.shape[0])
    for column, weight in zip(rows.T, weights, strict=True):
        total += weight * column
    return total


@dataclass(frozen=True, eq=False)
class LearnedScore:
    """A score learned from one training split: an estimate of the log-likelihood ratio of X and X'.

    It accepts only certifying samples of the same split, or draws declared `Fresh`, and returns
    finite scores.
    """

    learner: object  #: The learner that was fitted.
    training: Training  #: The samples that it was fitted to.
    _function: Callable[[Array], Array]  #: The fitted function of rows.

    def apply(self, held_out: Certifying | Fresh) -> tuple[Array, Array]:
        """Return the scores of held-out samples.

        Parameters
        ----------
        held_out : Certifying or Fresh
            The samples.

        Returns
        -------
        scores : numpy.ndarray
            Scores of ``samples``, shape (n,).
        scores_prime : numpy.ndarray
            Scores of ``samples_prime``, shape (n',).

        Raises
        ------
        TypeError
            If ``held_out`` is the training part, or neither `Certifying` nor `Fresh`.
        ValueError
            If it comes from another split, contains training samples, or has another dimension.
        """
        if isinstance(held_out, Training):
            raise TypeError("held_out must not be training samples of the score")
        if not isinstance(held_out, (Certifying, Fresh)):
            raise TypeError(f"held_out must be Certifying or Fresh, got {type(held_out).__name__}")
        if isinstance(held_out, Certifying):
            if held_out.digest != self.training.digest:
                raise ValueError(
                    "held_out must come from the split that trained the score: "
                    "another split may contain its training samples"
                )
            rows = held_out.samples, held_out.samples_prime
        else:
            rows = held_out.rows
            learned = self.training.samples, self.training.samples_prime
            if any(_mostly_known(part, one) for part in rows for one in learned):
                raise ValueError("held_out must be fresh, got samples that trained the score")
        if rows[0].shape[1] != self.training.samples.shape[1]:
            dimension = self.training.samples.shape[1]
            raise validate.fail("held_out", f"of dimension {dimension}", rows[0].shape[1])
        return self._score(rows[0]), self._score(rows[1])

    def _score(self, rows: Array) -> Array:
        starts = range(0, rows.shape[0], _ROWS_PER_CHUNK)
        parts = [self._function(rows[start : start + _ROWS_PER_CHUNK]) for start in starts]
        return np.clip(np.concatenate(parts), -_MAX_SCORE, _MAX_SCORE)


@dataclass(frozen=True)
class Histogram(Tagged):
    """Learn the log ratio of the samples' shares of each cell; counts are increased by 1/2."""

    #: Largest number of cells: each coordinate is cut at the same number of quantiles of the
    #: training samples, into at least two parts if it varies.
    cells: int = 64

    def __post_init__(self) -> None:
        validate.integer(2, cells=self.cells)

    def fit(self, training: Training) -> LearnedScore:
        """Fit the histogram."""
        first, second = _seen(training)
        dimension = first.shape[1]
        if dimension > _MAX_DIMENSIONS or 2**dimension > self.cells:
            raise validate.fail("cells", f"at least 2^dimension (2^{dimension})", self.cells)
        cuts_each = int(np.floor(self.cells ** (1 / dimension) + 1e-9)) - 1
        both = np.concatenate([first, second])
        levels = np.arange(1, cuts_each + 1) / (cuts_each + 1)
        cuts = [np.unique(np.quantile(c, levels, method="lower")) for c in both.T]
        shape = tuple(one.size + 1 for one in cuts)

        def cell(rows: Array) -> Indices:
            index = [np.searchsorted(c, x, side="left") for c, x in zip(cuts, rows.T, strict=True)]
            return np.asarray(np.ravel_multi_index(tuple(index), shape))

        size = int(np.prod(shape))
        counts = [np.bincount(cell(rows), minlength=size) + 0.5 for rows in (first, second)]
        ratio = np.log(counts[0] / first.shape[0]) - np.log(counts[1] / second.shape[0])
        return LearnedScore(self, training, lambda rows: ratio[cell(rows)])


class _Classifier(Tagged, ABC):
    """A learner whose score is made of the log odds of X against X'."""

    def fit(self, training: Training) -> LearnedScore:
        """Fit the classifier, and make a log-likelihood ratio of its log odds.

        Parameters
        ----------
        training : Training
            The training part of a split.

        Returns
        -------
        LearnedScore
            The score; the same training part gives the same one.
        """
        first, second = _seen(training)
        both = np.concatenate([first, second])
        scale = np.maximum(np.max(np.abs(both), axis=0), np.finfo(float).tiny)
        centre = np.mean(both / scale, axis=0)
        spread = np.std(both / scale - centre, axis=0)
        spread = np.where(spread > 0, spread, 1.0)

        def prepared(rows: Array) -> Array:
            with np.errstate(over="ignore"):
                return np.asarray(np.clip((rows / scale - centre) / spread, -_CLIP, _CLIP))

        labels = np.repeat([1, 0], [first.shape[0], second.shape[0]])
        with _quiet():
            log_odds = self._log_odds(prepared(both), labels)
        prior = float(np.log(first.shape[0] / second.shape[0]))

        def score(rows: Array) -> Array:
            with _quiet():
                return np.asarray(log_odds(prepared(rows)), dtype=np.float64) - prior

        return LearnedScore(self, training, score)

    @abstractmethod
    def _log_odds(self, x: Array, labels: Indices) -> LogOdds: ...


@dataclass(frozen=True)
class Logistic(_Classifier):
    """Logistic regression on standardised coordinates and, by default, their squares and products.

    The squares detect a difference in spread. The slopes are penalised by their squares: samples
    that a line separates, as those of a good attack, have no largest likelihood.

    Raises
    ------
    ValueError
        If a value is out of its range.
    """

    #: Whether to use squares and products of coordinates in addition to the coordinates.
    squares: bool = True
    #: Inverse of the penalty, positive: ``C`` of scikit-learn, whose coefficients these are.
    strength: float = 1.0

    def __post_init__(self) -> None:
        validate.instance(bool, squares=self.squares)
        validate.positive(strength=self.strength)

    def _log_odds(self, x: Array, labels: Indices) -> LogOdds:
        from statsmodels.genmod.families import Binomial  # takes a second to import
        from statsmodels.genmod.generalized_linear_model import GLM

        pairs = np.triu_indices(x.shape[1])

        def features(x: Array) -> Array:
            products = [x[:, pairs[0]] * x[:, pairs[1]]] if self.squares else []
            return np.concatenate([np.ones((x.shape[0], 1)), x, *products], axis=1)

        design = features(x)
        penalty = np.full(design.shape[1], 1 / (self.strength * x.shape[0]))
        penalty[0] = 0.0  # the intercept is not penalised
        model = GLM(labels, design, family=Binomial())
        coefficients = np.nan_to_num(model.fit_regularized(alpha=penalty, L1_wt=0.0).params)
        return lambda rows: weighted_sum(features(rows), coefficients)


@dataclass(frozen=True)
class NearestNeighbours(_Classifier):
    """Learn the log ratio of the two samples' shares among the nearest training draws.

    Needs scikit-learn.
    """

    #: Number of neighbours, at least 1; all training draws if there are fewer.
    neighbours: int = 101

    def __post_init__(self) -> None:
        validate.integer(1, neighbours=self.neighbours)

    def _log_odds(self, x: Array, labels: Indices) -> LogOdds:
        used = min(self.neighbours, labels.size)
        library = load("sklearn.neighbors", extra="learn")
        model = library.KNeighborsClassifier(n_neighbors=used).fit(x, labels)

        def of(rows: Array) -> Array:
            share = model.predict_proba(rows)[:, 1]
            return np.asarray(np.log(share * used + 0.5) - np.log((1 - share) * used + 0.5))

        return of


@dataclass(frozen=True)
class GradientBoosting(_Classifier):
    """Gradient-boosted trees on histograms of the coordinates. Needs scikit-learn."""

    rounds: int = 100  #: Number of trees, at least 1.
    learning_rate: float = 0.1  #: Weight of each tree, in (0, 1).
    leaves: int = 15  #: Number of leaves of a tree, at least 2.

    def __post_init__(self) -> None:
        validate.integer(1, rounds=self.rounds)
        validate.open_unit(learning_rate=self.learning_rate)
        validate.integer(2, leaves=self.leaves)

    def _log_odds(self, x: Array, labels: Indices) -> LogOdds:
        model = load("sklearn.ensemble", extra="learn").HistGradientBoostingClassifier(
            max_iter=self.rounds,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.leaves,
            early_stopping=False,
            random_state=0,
        )
        log_odds: LogOdds = model.fit(x, labels).decision_function
        return log_odds


def _seen(training: Training) -> tuple[Array, Array]:
    if not isinstance(training, Training):
        raise TypeError(f"training must be a Training part, got {type(training).__name__}")
    return training.samples, training.samples_prime


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence libraries, as a poor score is no reason for a warning, and limit them to one thread.

    One thread gives the same bits on every machine, and small fits are much faster.
    """
    limits: AbstractContextManager[object] = nullcontext()
    with suppress(ImportError):  # it comes with scikit-learn
        limits = import_module("threadpoolctl").threadpool_limits(limits=1)
    with limits, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield

"""Sources of scores: a function, two samples, or a table with a membership column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.adapters.scores import read_scores, read_table
from audit.isolation import call, load

Array = NDArray[np.float64]

_FEWEST_TRIALS = 1000


@dataclass(frozen=True)
class TwoFiles:
    """``{scores: a.npy, scores_prime: b.csv}``: files of the scores of two datasets."""

    scores: Path
    scores_prime: Path


@dataclass(frozen=True, kw_only=True)
class ScoreSource:
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
    #: The scores of the two datasets, or files of them: .npy, .npz, .parquet, or text such as .csv
    #: with or without a header. Files may hold several numbers per run.
    x: Path | tuple[float, ...] | None = None
    #: The scores of the two datasets, or files of them: .npy, .npz, .parquet, or text such as .csv
    #: with or without a header. Files may hold several numbers per run.
    x_prime: Path | tuple[float, ...] | None = None
    #: A table with one row per run: .csv, .tsv, .npz, .npy or .parquet. x are the scores of
    #: members.
    file: Path | None = None
    score: str | None = None  #: Names of its column of scores and of its column of 0 and 1.
    member: str | None = None  #: Names of its column of scores and of its column of 0 and 1.

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("function",),
        ("x", "x_prime"),
        ("file", "score", "member"),
    )
    shorthands: ClassVar[Mapping[str, Any]] = MappingProxyType({"": TwoFiles})

    def __post_init__(self) -> None:
        one_alternative(self)
        if self.function is None:
            if self.trials is not None:
                raise validate.fail("trials", "left out beside recorded scores", self.trials)
            return
        module, mark, name = self.function.partition(":")
        if not (mark and module and name):
            raise validate.fail("function", "package.module:function", self.function)
        if self.trials is None:
            raise ValueError("trials must be given for a function, got nothing")
        validate.integer(_FEWEST_TRIALS, trials=self.trials)

    @classmethod
    def expand_shorthand(cls, plain: Any) -> Any:
        """Convert ``scores`` and ``scores_prime`` to ``x`` and ``x_prime``."""
        if not isinstance(plain, Mapping):
            return plain
        names = {"scores": "x", "scores_prime": "x_prime"}
        return {names.get(key, key): value for key, value in plain.items()}

    def draw(self, seed: int, *, folders: Sequence[Path] = ()) -> tuple[Array, Array]:
        """Return the scores of both datasets."""
        if self.function is not None:
            return self._drawn(self.function, seed, folders)
        if self.file is not None:
            table = read_table(self.file, score=str(self.score), member=str(self.member))
            return table.x, table.x_prime
        return sample("x", self.x), sample("x_prime", self.x_prime)

    def _drawn(self, function: str, seed: int, folders: Sequence[Path]) -> tuple[Array, Array]:
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
    if np.ndim(given) != 2:
        return validate.real_sample(**{name: given})
    rows = np.asarray(validate.real_numbers(**{name: given}), dtype=np.float64)
    validate.sample(**{name: rows.ravel()})
    return rows

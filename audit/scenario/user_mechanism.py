"""User-defined mechanisms: a function that draws scores, or files of scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.adapters.scores import read_table
from audit.codec import decode, encode
from audit.curves import Order
from audit.estimation.columns import Columns
from audit.isolation import call
from audit.results.verdicts import UserClaim as UserClaim
from audit.scenario.kinds import COMMON, RunContext, Setting, known_keys, needed, setting_kind
from audit.scenario.user_code import load

if TYPE_CHECKING:
    from audit.results import UserMechanismResult

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DrawnScores:
    """Scores from ``package.module:function``, called as ``function(dataset, trials, seed)``.

    The function runs the mechanism ``trials`` times on dataset 0 or 1 of a neighbouring pair and
    returns one number per run, shape ``(trials,)``, or several, shape ``(trials, d)``. Runs are
    independent, all randomness comes from the seed, and the score of a run is fixed beforehand. The
    two datasets get separate seeds.

    Parameters
    ----------
    function : str
        ``package.module:function``.
    trials : int
        Number of runs on each dataset.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    function: str
    trials: int

    def __post_init__(self) -> None:
        validate.integer(1000, trials=self.trials)
        module, mark, name = self.function.partition(":")
        if not (mark and module and name):
            raise validate.fail("function", "package.module:function", self.function)

    @property
    def described(self) -> str:
        """Source of the scores, in words."""
        return self.function

    def draw(self, seed: int) -> tuple[Array, Array]:
        """Return scores of both datasets.

        Parameters
        ----------
        seed : int
            Seed of the draws.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Scores, shape ``(trials,)`` or ``(trials, d)`` each.

        Raises
        ------
        ValueError
            If there is no such function, or it does not return finite numbers for each run.
        """
        sampler = load(self.function)
        if not callable(sampler):
            raise validate.fail(self.function, "a function of (dataset, trials, seed)", sampler)
        seeds = np.random.SeedSequence(seed).generate_state(2, np.uint32)
        kind = "a function of (dataset, trials, seed) that returns scores"
        message = f"{self.function} must be {kind}, got"
        first, second = (
            self._checked(call(sampler, dataset, self.trials, int(one), message=message))
            for dataset, one in enumerate(seeds)
        )
        return first, second

    def _checked(self, returned: Any) -> Array:
        scores = _one_or_more(f"what {self.function} returns", returned)
        if len(scores) != self.trials:
            raise ValueError(
                f"{self.function} must return one score for each of the {self.trials} trials, "
                f"got {len(scores)}"
            )
        return scores


@dataclass(frozen=True)
class StoredScores:
    """Scores from two files, ``.npy`` or ``.csv`` without a header, with one row per run.

    Parameters
    ----------
    scores, scores_prime : Path
        Files of the two datasets.
    """

    scores: Path
    scores_prime: Path

    @property
    def described(self) -> str:
        """Source of the scores, in words."""
        return f"{self.scores} and {self.scores_prime}"

    def draw(self, seed: int) -> tuple[Array, Array]:
        """Return the two stored samples.

        Parameters
        ----------
        seed : int
            Ignored.

        Returns
        -------
        tuple of (ndarray, ndarray)
            Scores, shape ``(trials,)`` or ``(trials, d)`` each.

        Raises
        ------
        ValueError
            If a file cannot be read or contains anything but finite numbers.
        """
        return read_scores("scores", self.scores), read_scores("scores_prime", self.scores_prime)


@dataclass(frozen=True)
class TableScores:
    """Scores from one file with a membership column, each row from a separate run.

    See `audit.adapters.scores.read_table`. Dataset 0 is the one that holds the canary: its scores
    are those of members.
    """

    file: Path
    score: str
    member: str

    @property
    def described(self) -> str:
        """Source of the scores, in words."""
        return f"{self.score!r} by {self.member!r} of {self.file}"

    def draw(self, seed: int) -> tuple[Array, Array]:
        """Return the two samples; nothing is drawn.

        Raises
        ------
        ImportError
            If the file is a Parquet file and PyArrow is not installed.
        ValueError
            If the file cannot be read or lacks a column, or one side has no scores.
        """
        table = read_table(self.file, score=self.score, member=self.member)
        return table.x, table.x_prime


def read_scores(name: str, path: Path) -> Array:
    """Return the numbers of a .npy or .csv file, a row for each run; ``name`` is for messages."""
    try:
        if path.suffix == ".npy":
            loaded = np.load(path, allow_pickle=False)
        elif path.suffix == ".csv":
            loaded = np.loadtxt(path, delimiter=",", ndmin=2)
        else:
            raise validate.fail(name, "a .npy or .csv file", str(path))
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{name} must be a readable file, got {str(path)!r} ({reason})") from None
    except ValueError as error:
        if str(error).startswith(f"{name} must be"):
            raise
        raise ValueError(f"{name} must hold numbers only, got {str(path)!r} ({error})") from None
    if loaded.ndim == 2 and 1 in loaded.shape:
        loaded = loaded.ravel()
    return _one_or_more(name, loaded)


def _one_or_more(name: str, value: Any) -> Array:
    """Return one number a run, shape (n,), or several, shape (n, d); checked."""
    if getattr(value, "ndim", 1) != 2:
        return validate.sample(**{name: value})
    rows = np.asarray(value, dtype=np.float64)
    validate.sample(**{name: rows.ravel()})
    return rows


@dataclass(frozen=True, kw_only=True)
class OwnScores:
    """Where scores come from, as a scenario file says it: a function, two files, or a table.

    Parameters
    ----------
    function
        ``package.module:function``, called as ``function(dataset, trials, seed)``: one score a run,
        or several.
    scores, scores_prime
        Files of scores of the two datasets, .npy or .csv without a header: a row for each run.
    file, score, member
        A table with a row for each run, and its columns of scores and of membership.
    """

    function: str | None = None
    scores: Path | None = None
    scores_prime: Path | None = None
    file: Path | None = None
    score: str | None = None
    member: str | None = None

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("function",),
        ("scores", "scores_prime"),
        ("file", "score", "member"),
    )


def _source(own: Any, trials: Any, where: str) -> DrawnScores | StoredScores | TableScores:
    if not isinstance(own, Mapping):
        raise validate.fail(f"{where}.own", "a mapping", own)
    decode(OwnScores, own, f"{where}.own")
    given = {str(key): value for key, value in own.items() if value is not None}
    if set(given) == {"function"}:
        if trials is None:
            raise ValueError(f"{where}.trials must be given, got nothing")
        named = {"trials": decode(int, trials, f"{where}.trials")}
        drawn: DrawnScores = decode(DrawnScores, given, f"{where}.own", given=named)
        return drawn
    for kind in (StoredScores, TableScores):
        if set(given) == {field.name for field in dataclasses.fields(kind)}:
            if trials is not None:
                raise ValueError(
                    f"{where}.trials must be left out beside files of scores, got {trials!r}"
                )
            stored: StoredScores | TableScores = decode(kind, given, f"{where}.own")
            return stored
    raise ValueError(
        f"{where}.own must hold function, or scores and scores_prime, or file, score and member, "
        f"got {', '.join(given) or 'nothing'}"
    )


@setting_kind
@dataclass(frozen=True, kw_only=True)
class UserMechanismSetting(Setting):
    """Scores of a user-defined mechanism, and claims about it.

    Parameters
    ----------
    source : DrawnScores, StoredScores or TableScores
        Source of the scores.
    claims : tuple of UserClaim
        Claims, at least one.
    deltas : tuple of float, optional
        Deltas at which epsilon is certified; defaults to those of the claims.
    columns : Columns, optional
        How several numbers per run are combined into one score; `LinearScore` by default.
    group_size : int, default: 1
        Number of records in which the two datasets differ. Claims are about one record.
    favours : Order, optional
        Dataset that high scores can only support, known beforehand: FORWARD for dataset 0, REVERSE
        for dataset 1; None for either. It gives tighter bounds.
    name, title, summary : str
        Short name for files, and texts for readers.

    Raises
    ------
    ValueError
        If a parameter is out of range, or claims share a name.
    """

    key: ClassVar[str] = "own"

    source: DrawnScores | StoredScores | TableScores
    claims: tuple[UserClaim, ...]
    deltas: tuple[float, ...] = ()
    columns: Columns | None = None
    group_size: int = 1
    favours: Order | None = None

    def __post_init__(self) -> None:
        validate.integer(1, group_size=self.group_size)
        names = [claim.name for claim in self.claims]
        if not names or not all(names) or len(set(names)) < len(names):
            raise validate.fail("claims", "one or more, each with a name of its own", names)
        validate.half_open_unit(**{f"deltas[{i}]": d for i, d in enumerate(self.deltas)})

    @property
    def all_deltas(self) -> tuple[float, ...]:
        """Deltas at which epsilon is certified, the largest first."""
        return tuple(sorted({*self.deltas, *_deltas(self.claims)}, reverse=True))

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the keys of a setting of this kind, with the hints of their values."""
        hints = get_type_hints(cls)
        own = [field.name for field in dataclasses.fields(cls) if field.name not in COMMON]
        values = {field: hints[field] for field in own if field != "source"}
        return {"own": OwnScores, "trials": int | None, **values}

    @classmethod
    def from_plain(cls, name: str, plain: Mapping[str, Any], folders: Sequence[Path] = ()) -> Self:
        """Return the setting that a scenario file describes: see `Setting.from_plain`."""
        where = f"settings.{name}"
        values = known_keys(cls, name, plain)
        own, trials = needed(cls, name, values, "own"), values.pop("trials", None)
        given = {"name": name, "source": _source(own, trials, where)}
        setting: Self = decode(cls, values, where, given=given)
        return setting

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values of a scenario file."""
        source = encode(self.source)
        trials = {"trials": source.pop("trials")} if "trials" in source else {}
        return {
            "title": self.title,
            "summary": self.summary,
            "own": source,
            "claims": encode(self.claims),
            "deltas": encode(self.deltas),
            **({} if self.columns is None else {"columns": encode(self.columns)}),
            **({} if self.group_size == 1 else {"group_size": self.group_size}),
            **({} if self.favours is None else {"favours": encode(self.favours)}),
            **trials,
        }

    def run(self, context: RunContext) -> UserMechanismResult:
        """Draw or read the scores, certify lower bounds, and judge the claims."""
        # estimators take a while to import, which a misspelt scenario must not
        from audit.scenario.run_user_mechanism import audit_scores

        context.progress.stage(f"{self.name}: scores of {self.source.described}")
        return audit_scores(self, confidence=context.confidence, seed=context.seed)


def _deltas(claims: Sequence[UserClaim]) -> set[float]:
    return {claim.delta for claim in claims}

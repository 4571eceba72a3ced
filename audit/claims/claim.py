"""Claims: statements about mechanisms, and their expected verdicts."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from audit import bounds, validate
from audit.claims.parts import Location
from audit.claims.statements import Asked, NumberSource, Statement, plain_statement
from audit.codec import encode
from audit.constructions import Construction, encode_pair
from audit.constructions.explicit import ExplicitPair
from audit.curves import Order
from audit.estimation.score_source import Columns, ScoreSource, one_alternative
from audit.mechanism import Composition, NoisySGD
from audit.numerics.display import ShortRepr

Pair: TypeAlias = Construction | ExplicitPair


class Severity(enum.Enum):
    """Whether an unexpected verdict fails the build."""

    ERROR = "error"
    WARN = "warn"


class Expected(enum.Enum):
    """The expected verdict on a claim."""

    CONSISTENT = "consistent"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"

    @property
    def words(self) -> str:
        """The expectation in a word or two."""
        return self.value


@dataclass(frozen=True)
class LooseBy:
    """``{loose_by: 1.2}``: consistent, and at most this many times the certified lower bound."""

    #: The largest ratio of the claim to the best certified lower bound, at least 1.
    loose_by: float

    @property
    def words(self) -> str:
        """The expectation in a word or two."""
        return f"loose by at most {self.loose_by:g}"

    def __post_init__(self) -> None:
        if not self.loose_by >= 1:
            raise validate.fail("loose_by", "a number of at least 1", self.loose_by)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The work that the judge may spend on a claim.

    Parameters
    ----------
    trials : int, optional
        Samples per dataset if no exact law is available; 0 for exact evidence only.
    seconds : float, optional
        Limit on the estimated time of exact laws, in seconds. Pairs beyond it are not tried;
        estimates are the same on every machine.
    seed : int, optional
        Seed of all samples.
    callable_seconds : float, optional
        Limit on the time of a user function, for all deltas together, in seconds.
    callable_gigabytes : float, optional
        Limit on the memory of a user function, in units of 1e9 bytes.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> Budget(trials=100_000, seconds=10.0).seed
    0
    """

    trials: int = 0
    seconds: float = 2.5
    seed: int = 0
    callable_seconds: float = 30.0
    callable_gigabytes: float = 4.0

    def __post_init__(self) -> None:
        validate.integer(0, trials=self.trials, seed=self.seed)
        validate.positive(
            seconds=self.seconds,
            callable_seconds=self.callable_seconds,
            callable_gigabytes=self.callable_gigabytes,
        )


@dataclass(frozen=True, kw_only=True)
class Search:
    """A worst-case search whose pair the judge tries after all others.

    The number of evaluations and the seed determine the pair on every machine; see
    `audit.search.worst_case`.
    """

    evaluations: int  #: Number of pairs to try; 0 for no search.
    seed: int = 0  #: Seed of the search.
    #: Whether the claim is for all dimensions and all convex domains of the diameter, so that
    #: domains may cancel a gradient of all records (`audit.constructions.cone`).
    many_dimensions: bool = False

    def __post_init__(self) -> None:
        validate.integer(0, evaluations=self.evaluations, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Scores recorded from both laws of a pair, as independent draws.

    Ties are broken with the seed of the claim's budget.
    """

    #: The scores of the first law, or a file of them (.npy, .npz, .parquet or text with one line
    #: per run). A file may hold several numbers per run.
    x: Path | tuple[float, ...] | None = None
    x_prime: Path | tuple[float, ...] | None = None  #: Those of the second law.
    #: Alternatively one table (CSV, TSV, NPZ, NPY or Parquet), one independent run per row.
    file: Path | None = None
    score: str | None = None  #: Name of its column of scores.
    member: str | None = None  #: Name of its column of 0 and 1; x are the scores of members.
    favours: Order | None = None  #: The law with the larger scores, if known in advance.
    #: How several numbers per run are combined into one score; by default `LinearScore`.
    columns: Columns | None = None
    #: Number of records in which the two datasets differ. The claim is about one record.
    group_size: int = 1

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("x", "x_prime"),
        ("file", "score", "member"),
    )

    def __post_init__(self) -> None:
        validate.integer(1, group_size=self.group_size)
        one_alternative(self)

    @property
    def source(self) -> ScoreSource:
        """The scores themselves."""
        return ScoreSource(
            x=self.x, x_prime=self.x_prime, file=self.file, score=self.score, member=self.member
        )

    def inside(self, folder: Path) -> Samples:
        """Return the samples with file names relative to ``folder``."""
        x, x_prime = (
            folder / given if isinstance(given, Path) else given for given in (self.x, self.x_prime)
        )
        file = None if self.file is None else folder / self.file
        return replace(self, x=x, x_prime=x_prime, file=file)


@dataclass(frozen=True)
class UserPair:
    """A pair of a user-defined class, which is constructed in a worker only."""

    kind: str  #: ``package.module:Class``, a registered construction.
    #: Its fields other than the mechanism, as plain data.
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Claim(ShortRepr):
    """A statement about a mechanism, with its expected verdict.

    Parameters
    ----------
    id : str
        Name of the claim, unique over all files.
    mechanism : NoisySGD, Composition or None
        The mechanism that the claim is about; None for explicit laws and samples.
    statement : Numbers or Asked
        Numbers that are claimed, or a source that is asked for them; `audit.claims.statement_of`
        makes both.
    citation : str, optional
        Where the claim is published.
    expected : Expected or LooseBy, optional
        The expected verdict.
    severity : Severity, optional
        Whether another verdict fails the build.
    budget : Budget, optional
        The work that the judge may spend.
    pair : Construction, ExplicitPair or UserPair, optional
        A construction for the mechanism, or explicit distributions, if the judge must use this pair
        only; by default it tries every admissible construction that fits.
    search : Search, optional
        Adds the pair of a worst-case search. By default the judge makes a small search if that
        takes a second or two.
    samples : Samples, optional
        Recorded scores, which are then the only evidence.
    source : str, optional
        Description of the object of another library from which the mechanism was read.
    unread : str, optional
        Why the mechanism could not be read; the verdict is then an error.
    location : Location, optional
        Where the claim is written.

    Raises
    ------
    ValueError
        If ``pair`` is not one of neighbouring datasets.

    Examples
    --------
    >>> import audit
    >>> from audit.claims import statement_of
    >>> claim = Claim(
    ...     id="step",
    ...     mechanism=audit.NoisySGD(
    ...         steps=1,
    ...         dataset_size=1,
    ...         batch_size=1,
    ...         step_size=0.1,
    ...         noise_std=2.0,
    ...         lipschitz=1.0,
    ...         batching=audit.Batching.FULL,
    ...         relation=audit.Relation.REPLACE_ONE,
    ...     ),
    ...     statement=statement_of(epsilon=2.0, delta=1e-5),
    ... )
    >>> claim.expected.value
    'consistent'
    """

    id: str
    mechanism: NoisySGD | Composition | None
    statement: Statement
    citation: str = ""
    expected: Expected | LooseBy = Expected.CONSISTENT
    severity: Severity = Severity.ERROR
    budget: Budget = Budget()
    pair: Pair | UserPair | None = None
    search: Search | None = None
    samples: Samples | None = None
    source: str = ""
    unread: str = ""
    location: Location | None = None

    def __post_init__(self) -> None:
        if not getattr(self.pair, "is_neighbouring", True):
            raise validate.fail("pair", "a pair of neighbouring datasets", self.pair)

    @property
    def bound(self) -> tuple[bounds.Entry | None, Mapping[str, int | float]]:
        """The entry of the catalogue that the claim is about, and its options."""
        asked = self.statement
        if isinstance(asked, Asked) and asked.source is NumberSource.BOUND:
            return bounds.entry(asked.name), asked.options
        return None, {}


def encode_claim(claim: Claim) -> dict[str, Any]:
    """Return the mechanism, the statement and the pair of a claim as plain data.

    This is their form in the JSON of ``audit-check`` and in lock files. Fields of the mechanism and
    the pair with their default values are left out.
    """
    pair = claim.pair
    if isinstance(pair, UserPair):
        plain = {"kind": pair.kind.partition(":")[2], **pair.fields}
    elif pair is not None:
        defaults = {field.name: field.default for field in dataclasses.fields(pair)}
        plain = {
            name: value
            for name, value in encode_pair(pair).items()
            if name not in defaults or getattr(pair, name) != defaults[name]
        }
    return {
        "mechanism": encode(claim.mechanism, defaults=False),
        "statement": encode(plain_statement(claim.statement)),
        "pair": None if pair is None else plain,
    }

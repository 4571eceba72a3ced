"""What a claim is: a statement about a mechanism, and what is expected of it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, get_args

from audit import validate
from audit.claims.deployment import Deployment
from audit.claims.yaml_tree import Location
from audit.codec import decode, encode
from audit.curves import Order
from audit.estimation.columns import Columns
from audit.mechanism import Composition, NoisySGD

if TYPE_CHECKING:
    from audit.constructions import Construction
    from audit.constructions.explicit import ExplicitPair

    Pair: TypeAlias = Construction | ExplicitPair

__all__ = [
    "AccountantBound",
    "Budget",
    "CallableBound",
    "CatalogueBound",
    "Claim",
    "EpsilonDelta",
    "Expected",
    "Gaussian",
    "Location",
    "LooseBy",
    "NotPrivate",
    "NotRenyi",
    "Renyi",
    "Samples",
    "Search",
    "Severity",
    "Statement",
    "Tradeoff",
    "UserPair",
    "decode_claim",
    "encode_claim",
]


class Severity(enum.Enum):
    """Whether an unexpected verdict fails the build."""

    ERROR = "error"
    WARN = "warn"


class _UpperBound:
    """A statement that some number is at most a value: a larger certified number refutes it."""

    is_lower_bound: ClassVar[bool] = False


class _LowerBound:
    """A statement that some number is above a value: a larger certified number proves it."""

    is_lower_bound: ClassVar[bool] = True


@dataclass(frozen=True)
class EpsilonDelta(_UpperBound):
    """Claims (epsilon, delta)-differential privacy at every one of ``points``."""

    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Renyi(_UpperBound):
    """Claims a Renyi divergence of at most ``value`` at every (alpha, value) of ``points``."""

    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Gaussian(_UpperBound):
    """Claims mu-Gaussian differential privacy."""

    mu: float


@dataclass(frozen=True)
class Tradeoff(_UpperBound):
    """Claims a tradeoff function of at least ``beta`` at every (alpha, beta) of ``points``."""

    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class CatalogueBound(_UpperBound):
    """Claims what an entry of `audit.bounds.CATALOGUE` gives, at ``deltas`` and ``orders``."""

    id: str
    options: Mapping[str, int | float] = field(default_factory=dict)
    deltas: tuple[float, ...] = ()
    orders: tuple[float, ...] = ()


@dataclass(frozen=True)
class CallableBound(_UpperBound):
    """Claims what ``package.module:function`` returns for the mechanism.

    The function is called as ``function(mechanism, delta)`` for each of ``deltas`` and returns
    epsilon.
    """

    target: str
    deltas: tuple[float, ...]


@dataclass(frozen=True)
class AccountantBound(_UpperBound):
    """Claims what an accountant of another library says, at ``deltas`` and Renyi ``orders``.

    ``target`` is one of `audit.claims.library_objects.ACCOUNTANTS`, which composes the mechanism,
    or a user's ``package.module:function`` that takes nothing and returns an accountant.
    """

    target: str
    deltas: tuple[float, ...] = ()
    orders: tuple[float, ...] = ()


@dataclass(frozen=True)
class NotRenyi(_LowerBound):
    """Claims that the worst pair's Renyi divergence of order ``alpha`` is above ``value``."""

    alpha: float
    value: float


@dataclass(frozen=True)
class NotPrivate(_LowerBound):
    """Claims that the mechanism is not (epsilon, delta)-differentially private."""

    epsilon: float
    delta: float


Statement = (
    EpsilonDelta
    | Renyi
    | Gaussian
    | Tradeoff
    | CatalogueBound
    | CallableBound
    | AccountantBound
    | NotRenyi
    | NotPrivate
)


class Expected(enum.Enum):
    """What a claim's verdict should be."""

    CONSISTENT = "consistent"
    REFUTED = "refuted"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Looseness:
    """``{loose_by: 1.2}``: consistent, and at most so many times the certified lower bound."""

    loose_by: float


@dataclass(frozen=True)
class LooseBy:
    """Consistent, with claim / best certified lower bound of at most ``factor``.

    Claims files write ``{loose_by: 1.2}``.
    """

    factor: float

    shorthands: ClassVar[Mapping[str, Any]] = MappingProxyType({"": Looseness})

    @classmethod
    def expand_shorthand(cls, plain: Any) -> Any:
        """Return the fields of what a claims file writes."""
        if isinstance(plain, Mapping) and set(plain) == {"loose_by"}:
            return {"factor": plain["loose_by"]}
        return plain

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise validate.fail("loose_by", "a number of at least 1", self.factor)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much work the judge may spend on a claim.

    Parameters
    ----------
    trials
        Samples a side where no exact law is at hand (0: exact only).
    seconds
        The time for exact laws, by estimates that are the same on every machine: pairs beyond it
        are not tried.
    seed
        The seed of all samples.
    callable_seconds
        The time that a function of the user may take, for all deltas together.
    callable_gigabytes
        The memory that it may take.
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
    """A worst-case search whose pair the judge tries after all others (`audit.search.worst_case`).

    The number of evaluations and the seed together give the same pair on every machine.

    Parameters
    ----------
    evaluations
        How many pairs are tried; 0 for no search at all.
    seed
        The seed of the first of them.
    """

    evaluations: int
    seed: int = 0

    def __post_init__(self) -> None:
        validate.integer(0, evaluations=self.evaluations, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Scores that were recorded from both laws of a pair, independent draws of each.

    Ties are broken by the seed of the claim's budget.

    Parameters
    ----------
    x, x_prime
        Files (.npy, or text with a line for each run) or the numbers. Files may hold several
        numbers a run.
    file
        Or one table (CSV, TSV, NPZ, NPY or Parquet), each row from a run of its own.
    score, member
        Its column of scores, and its column of 0 and 1: x are the scores of members.
    favours
        The law with the larger scores, where that is known beforehand.
    columns
        How several numbers a run become one score; `LinearScore` by default.
    group_size
        In how many records the two datasets differ. The claim is about one record.
    """

    x: Path | tuple[float, ...] | None = None
    x_prime: Path | tuple[float, ...] | None = None
    file: Path | None = None
    score: str | None = None
    member: str | None = None
    favours: Order | None = None
    columns: Columns | None = None
    group_size: int = 1

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("x", "x_prime"),
        ("file", "score", "member"),
    )

    def __post_init__(self) -> None:
        validate.integer(1, group_size=self.group_size)
        known = self.alternatives
        given = [key for keys in known for key in keys if getattr(self, key) is not None]
        if tuple(given) not in known:
            raise ValueError(
                "x and x_prime must be given, or file, score and member, "
                f"got {', '.join(given) or 'nothing'}"
            )

    def inside(self, folder: Path) -> Samples:
        """Return the samples with files as seen from ``folder``."""
        x, x_prime = (
            folder / given if isinstance(given, Path) else given for given in (self.x, self.x_prime)
        )
        file = None if self.file is None else folder / self.file
        return replace(self, x=x, x_prime=x_prime, file=file)


@dataclass(frozen=True)
class UserPair:
    """A pair of a user's class, which is made in a worker only.

    Attributes
    ----------
    kind
        ``package.module:Class``, a registered construction.
    fields
        Its fields beside the mechanism, as they are written.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement about a mechanism, with what is expected of it.

    Parameters
    ----------
    id
        Its name, unique over all files.
    mechanism
        What it is about; None for explicit laws and samples.
    statement
        What it says.
    citation
        Where it is stated.
    expected
        What its verdict should be.
    severity
        Whether another verdict fails the build.
    budget
        How much work the judge may spend.
    pair
        A construction for the mechanism, or explicit distributions, where the judge is to use that
        one alone; by default it tries every admissible construction that fits.
    search
        Adds the pair of a worst-case search. By default the judge searches a little where that
        takes a second or two.
    samples
        Recorded scores, which alone are the evidence.
    told
        What an adapter read of another library's object, in words.
    unread
        Why it could not, which makes the verdict an error.
    deployment
        What is known of a deployment besides: see `audit.claims.opendp`.
    location
        Where it is written.
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
    told: str = ""
    unread: str = ""
    deployment: Deployment = field(default_factory=Deployment)
    location: Location | None = None


def encode_claim(claim: Claim) -> dict[str, Any]:
    """Return the mechanism, the statement and the pair of a claim as plain data.

    So they stand in the JSON of ``audit-check`` and in lock files. Fields of the mechanism and the
    pair with their default values are left out.
    """
    from audit.constructions import encode_pair

    mechanism = None
    if claim.mechanism is not None:
        mechanism = encode(claim.mechanism, defaults=False)
    pair = None
    if isinstance(claim.pair, UserPair):
        pair = {"kind": claim.pair.kind.partition(":")[2], **claim.pair.fields}
    elif claim.pair is not None:
        defaults = {field.name: field.default for field in dataclasses.fields(claim.pair)}
        pair = {
            name: value
            for name, value in encode_pair(claim.pair).items()
            if name not in defaults or getattr(claim.pair, name) != defaults[name]
        }
    return {
        "mechanism": mechanism,
        "statement": {"form": type(claim.statement).__name__, **encode(claim.statement)},
        "pair": pair,
    }


def decode_claim(plain: Mapping[str, Any], id: str) -> Claim:
    """Return a claim with what `encode_claim` wrote; more keys of ``plain`` do not matter.

    Raises
    ------
    ValueError
        If the mechanism, the statement or the pair is not one that could be written.
    """
    from audit.constructions import decode_any_pair

    statement = dict(plain["statement"])
    form = statement.pop("form", None)
    forms = {cls.__name__: cls for cls in get_args(Statement)}
    if form not in forms:
        raise validate.fail("statement.form", f"one of {', '.join(forms)}", form)
    mechanism, pair = plain["mechanism"], plain["pair"]
    if mechanism is not None:
        mechanism = decode(NoisySGD | Composition, mechanism, "mechanism")
    if pair is not None and isinstance(mechanism, Composition):
        raise validate.fail("pair", "left out for a composition of several runs", pair)
    return Claim(
        id=id,
        mechanism=mechanism,
        statement=decode(forms[form], statement, "statement"),
        pair=None if pair is None else decode_any_pair(pair, mechanism),
    )

"""What a claim is: a statement about a mechanism, and what is expected of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from audit import validate
from audit.mechanism import NoisySGD


class Severity(enum.Enum):
    """Whether an unexpected verdict fails the build."""

    ERROR = "error"
    WARN = "warn"


@dataclass(frozen=True)
class EpsilonDelta:
    """Claims (epsilon, delta)-differential privacy at every one of ``points``."""

    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Renyi:
    """Claims a Renyi divergence of at most ``value`` at every (alpha, value) of ``points``."""

    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Gaussian:
    """Claims mu-Gaussian differential privacy."""

    mu: float


@dataclass(frozen=True)
class Tradeoff:
    """Claims a tradeoff function of at least ``beta`` at every (alpha, beta) of ``points``."""

    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class CatalogueBound:
    """Claims what an entry of `audit.bounds.CATALOGUE` gives, at ``deltas`` and ``orders``."""

    id: str
    options: Mapping[str, float] = field(default_factory=dict)
    deltas: tuple[float, ...] = ()
    orders: tuple[float, ...] = ()


@dataclass(frozen=True)
class CallableBound:
    """Claims what ``package.module:function`` returns for the mechanism.

    The function is called as ``function(mechanism, delta)`` for each of ``deltas`` and returns
    epsilon.
    """

    target: str
    deltas: tuple[float, ...]


@dataclass(frozen=True)
class NotRenyi:
    """Claims that the worst pair's Renyi divergence of order ``alpha`` is above ``value``."""

    alpha: float
    value: float


@dataclass(frozen=True)
class NotPrivate:
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
    | NotRenyi
    | NotPrivate
)


class Expected(enum.Enum):
    """What a claim's verdict should be."""

    CONSISTENT = "consistent"
    REFUTED = "refuted"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class LooseBy:
    """Consistent, with claim / best certified lower bound of at most ``factor``."""

    factor: float

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise validate.fail("loose_by", "a number of at least 1", self.factor)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much work the judge may spend on a claim.

    ``trials`` is the number of samples a side where no exact law is at hand (0: exact only),
    ``seconds`` the time after which no further construction is tried, ``seed`` that of all samples.
    """

    trials: int = 0
    seconds: float = 60.0
    seed: int = 0

    def __post_init__(self) -> None:
        validate.integer(0, trials=self.trials, seed=self.seed)
        validate.positive(seconds=self.seconds)


@dataclass(frozen=True)
class Location:
    """Where a claim is written, for messages."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement about a mechanism, with what is expected of it.

    ``pair`` names a construction of `audit.claims.pairs` with its parameters where the judge is to
    use that one alone; by default it tries every admissible one that fits.
    """

    id: str
    mechanism: NoisySGD | None
    statement: Statement
    citation: str = ""
    expected: Expected | LooseBy = Expected.CONSISTENT
    severity: Severity = Severity.ERROR
    budget: Budget = Budget()
    pair: tuple[str, Mapping[str, object]] | None = None
    location: Location | None = None

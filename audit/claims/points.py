"""The single numbers that a statement claims: what is compared with certified lower bounds."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from audit import bounds
from audit.bounds import Status
from audit.claims.claim import (
    CallableBound,
    CatalogueBound,
    Claim,
    EpsilonDelta,
    Gaussian,
    NotPrivate,
    NotRenyi,
    Renyi,
    Tradeoff,
)
from audit.curves.base import PrivacyCurve
from audit.mechanism import NoisySGD

# Bounds are computed by root finding and series; numbers that a user writes have no such error.
_BOUND_ERROR = 1e-9
# Relative errors of a delta and of the moments that bounds are computed from. They matter where
# little is left of 1: from this delta on, and for orders within 1e-3 of 1.
_DELTA_ERROR = 2.0**-44
_LARGE_DELTA = 0.9
_MOMENT_ERROR = 1e-12


class Quantity(enum.Enum):
    """What a number measures; each is larger for a pair that is easier to tell apart."""

    EPSILON = "epsilon"
    RENYI = "Renyi divergence"
    MU = "mu"
    POWER = "1 - beta"


@dataclass(frozen=True)
class Point:
    """One number of a claim.

    Attributes
    ----------
    quantity, at
        What is claimed, and where: delta, the Renyi order, or alpha; None for mu.
    claimed
        The number; 1 - beta for a tradeoff function.
    slack
        By how much a certified bound must exceed it, for the error of the claimed number itself.
    """

    quantity: Quantity
    at: float | None
    claimed: float
    slack: float = 0.0

    @property
    def where(self) -> str:
        """The place in words."""
        if self.at is None:
            return ""
        name = {Quantity.EPSILON: "delta", Quantity.RENYI: "order", Quantity.POWER: "alpha"}
        return f"{name[self.quantity]} {self.at:g}"

    def refuted_by(self, certified: float) -> bool:
        """Whether a certified lower bound contradicts the number."""
        return certified > self.claimed + self.slack

    def ratio(self, certified: float) -> float:
        """Claimed over certified; infinite where nothing is certified."""
        if certified <= 0:
            return math.inf
        return self.claimed / certified


class ClaimsNothing(Exception):
    """The statement makes no finite claim about the mechanism; the message says why."""


class BadClaim(Exception):
    """The claim cannot be evaluated; the message says why in one line."""


def points_of(claim: Claim) -> tuple[Point, ...]:
    """Return the finite numbers that a claim's statement consists of.

    Raises
    ------
    ClaimsNothing
        If the bound does not apply to the mechanism, is asymptotic, or is infinite everywhere.
    BadClaim
        If the statement cannot be evaluated.
    """
    statement = claim.statement
    if isinstance(statement, EpsilonDelta):
        found = [Point(Quantity.EPSILON, delta, epsilon) for epsilon, delta in statement.points]
    elif isinstance(statement, Renyi):
        found = [Point(Quantity.RENYI, alpha, value) for alpha, value in statement.points]
    elif isinstance(statement, Gaussian):
        found = [Point(Quantity.MU, None, statement.mu)]
    elif isinstance(statement, Tradeoff):
        found = [Point(Quantity.POWER, alpha, 1 - beta) for alpha, beta in statement.points]
    elif isinstance(statement, CatalogueBound):
        found = _of_bound(statement, _mechanism(claim))
    elif isinstance(statement, CallableBound):
        found = _of_callable(statement, _mechanism(claim))
    elif isinstance(statement, NotRenyi):
        found = [Point(Quantity.RENYI, statement.alpha, statement.value)]
    else:
        assert isinstance(statement, NotPrivate)
        found = [Point(Quantity.EPSILON, statement.delta, statement.epsilon)]
    for point in found:
        _check(point)
    finite = tuple(point for point in found if math.isfinite(point.claimed))
    if not finite:
        places = ", ".join(point.where for point in found)
        raise ClaimsNothing(f"nothing is claimed at {places}: the bound is infinite there")
    return finite


def _mechanism(claim: Claim) -> NoisySGD:
    if claim.mechanism is None:
        raise BadClaim("mechanism must be given for a bound, got none")
    return claim.mechanism


def _of_bound(statement: CatalogueBound, mechanism: NoisySGD) -> list[Point]:
    if not statement.deltas and not statement.orders:
        raise BadClaim("deltas or orders must be given for a bound, got neither")
    try:
        entry = bounds.entry(statement.id)
        if entry.status is Status.ASYMPTOTIC:
            raise ClaimsNothing(f"{statement.id} is a rate without constants, which is not judged")
        curve = entry.evaluate(mechanism, **statement.options)
        epsilons = [_epsilon_point(curve.epsilon, delta) for delta in statement.deltas]
        divergences = [renyi_point(curve, alpha) for alpha in statement.orders]
    except bounds.NotApplicable as error:
        raise ClaimsNothing(str(error)) from None
    except (TypeError, ValueError) as error:
        raise BadClaim(_one_line(error)) from None
    return [*epsilons, *divergences]


def _of_callable(statement: CallableBound, mechanism: NoisySGD) -> list[Point]:
    if not statement.deltas:
        raise BadClaim("deltas must be given for a callable, got none")
    function = _imported(statement.target)
    found = []
    for delta in statement.deltas:
        try:
            point = _epsilon_point(
                lambda d: float(function(mechanism, d)),  # type: ignore[arg-type]
                delta,
            )
        except (Exception, SystemExit) as error:  # a user's code may raise anything
            kind = type(error).__name__
            raise BadClaim(f"{statement.target} raised {kind}: {_one_line(error)}") from None
        found.append(point)
    return found


def _imported(target: str) -> Callable[[NoisySGD, float], object]:
    module, _, name = target.partition(":")
    try:
        function: object = import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except (Exception, SystemExit) as error:  # importing runs a user's code
        raise BadClaim(f"{target} cannot be imported: {_one_line(error)}") from None
    if not callable(function):
        raise BadClaim(f"{target} must be a function, got {function!r}")
    return function


def _epsilon_point(epsilon: Callable[[float], float], delta: float) -> Point:
    value = float(epsilon(delta))
    return Point(Quantity.EPSILON, delta, value, epsilon_error(epsilon, delta, value))


def renyi_point(curve: PrivacyCurve, alpha: float) -> Point:
    """Return the Renyi divergence that a computed curve claims, with the error of computing it."""
    value = float(curve.renyi(alpha))
    if not math.isfinite(value):
        return Point(Quantity.RENYI, alpha, value)
    # a moment is divided by alpha - 1
    error = max(_BOUND_ERROR * (1 + abs(value)), _MOMENT_ERROR / (alpha - 1))
    return Point(Quantity.RENYI, alpha, value, error)


def epsilon_error(epsilon: Callable[[float], float], delta: float, value: float) -> float:
    """Return the error of a computed epsilon(delta) = value.

    Near delta = 1 epsilon is ill-conditioned: there the error is what a rounding of delta changes.
    """
    if not math.isfinite(value):
        return 0.0
    error = _BOUND_ERROR * (1 + abs(value))
    if delta < _LARGE_DELTA:
        return error
    moved = float(epsilon(delta * (1 - _DELTA_ERROR))) - value
    return max(error, moved) if math.isfinite(moved) else math.inf


def _check(point: Point) -> None:
    if math.isnan(point.claimed) or point.claimed < 0:
        raise BadClaim(
            f"the claimed {point.quantity.value} at {point.where} must be a number of at least 0, "
            f"got {point.claimed!r}"
        )
    if point.quantity in (Quantity.EPSILON, Quantity.POWER):
        name = "delta" if point.quantity is Quantity.EPSILON else "alpha"
        if point.at is None or not 0 < point.at < 1:
            raise BadClaim(f"{name} must be in (0, 1), got {point.at!r}")
    if point.quantity is Quantity.RENYI and not (point.at is not None and 1 < point.at < math.inf):
        raise BadClaim(f"order must be a finite number above 1, got {point.at!r}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())

"""The numbers that a statement claims, which are compared with certified lower bounds."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit import bounds
from audit.bounds import Status
from audit.claims.claim import (
    AccountantBound,
    CallableBound,
    CatalogueBound,
    Claim,
    EpsilonDelta,
    Gaussian,
    NotPrivate,
    NotRenyi,
    Renyi,
    Statement,
    Tradeoff,
)
from audit.claims.library_objects import ACCOUNTANTS, ask_accountant
from audit.claims.quantities import EpsilonAtDelta, Mu, PowerAtAlpha, Quantity, RenyiAtOrder
from audit.claims.user_code import claimed_function
from audit.constructions.explicit import ExplicitPair
from audit.isolation import UserCodeError, Workers
from audit.mechanism import Composition, NoisySGD

if TYPE_CHECKING:
    from audit.estimation import ScoreClaim

# Bounds are computed by root finding and series; numbers written by users have no such error.
_BOUND_ERROR = 1e-9
# Relative errors of a delta and of the moments that bounds are computed from. They matter for
# deltas near 1 (from this one on) and for orders within 1e-3 of 1.
_DELTA_ERROR = 2.0**-44
_LARGE_DELTA = 0.9
_MOMENT_ERROR = 1e-12


@dataclass(frozen=True)
class ClaimedNumber:
    """One number of a claim.

    Attributes
    ----------
    quantity
        The claimed quantity and where it is taken.
    value
        The number; 1 - beta for a tradeoff function.
    slack
        The amount by which a certified bound must exceed it, to allow for the error of the claimed
        number itself.
    """

    quantity: Quantity
    value: float
    slack: float = 0.0

    def refuted_by(self, certified: float) -> bool:
        """Return whether a certified lower bound contradicts the number."""
        return certified > self.value + self.slack

    @property
    def score_claim(self) -> ScoreClaim:
        """The number as a claim that scores are judged by."""
        from audit.estimation import ScoreClaim  # imports Numba

        delta = self.quantity.delta if isinstance(self.quantity, EpsilonAtDelta) else None
        return ScoreClaim(self.value, delta, self.quantity.sampled_bound, self.slack)

    def ratio(self, certified: float) -> float:
        """Return claimed over certified; infinite if nothing is certified."""
        if certified <= 0:
            return math.inf
        return self.value / certified


class ClaimsNothing(Exception):
    """The statement makes no finite claim about the mechanism; the message says why."""


class BadClaim(Exception):
    """The claim cannot be evaluated; the message says why in one line."""


def claimed_numbers(claim: Claim, workers: Workers) -> tuple[ClaimedNumber, ...]:
    """Return the finite numbers that a claim's statement consists of.

    ``workers`` run user functions.

    Raises
    ------
    ClaimsNothing
        If the bound does not apply to the mechanism, is asymptotic, or is infinite everywhere.
    BadClaim
        If the mechanism could not be read, or the statement cannot be evaluated.
    """
    if claim.unread:
        raise BadClaim(claim.unread)
    if isinstance(claim.statement, CallableBound):
        found = _of_callable(claim.statement, claim, workers)
    elif isinstance(claim.statement, AccountantBound):
        found = _of_accountant(claim.statement, claim, workers)
    else:
        found = _numbers(claim.statement, claim.mechanism)
    for number in found:
        _check(number)
    finite = tuple(number for number in found if math.isfinite(number.value))
    if not finite:
        places = ", ".join(number.quantity.where for number in found)
        raise ClaimsNothing(f"nothing is claimed at {places}: the bound is infinite there")
    return finite


def epsilon_of(epsilon: Callable[[float], float], delta: float) -> ClaimedNumber:
    """Return the epsilon that a function computes at ``delta``, with its numerical error."""
    value = float(epsilon(delta))
    return ClaimedNumber(EpsilonAtDelta(delta), value, _epsilon_error(epsilon, delta, value))


def divergence_of(value: float, alpha: float) -> ClaimedNumber:
    """Return a computed Renyi divergence with its numerical error."""
    if not math.isfinite(value):
        return ClaimedNumber(RenyiAtOrder(alpha), value)
    # a moment is divided by alpha - 1
    error = max(_BOUND_ERROR * (1 + abs(value)), _MOMENT_ERROR / (alpha - 1))
    return ClaimedNumber(RenyiAtOrder(alpha), value, error)


def _epsilon_error(epsilon: Callable[[float], float], delta: float, value: float) -> float:
    """Return the numerical error of a computed epsilon(delta) = value.

    Near delta = 1 epsilon is ill-conditioned: there the error is the effect of rounding delta.
    """
    if not math.isfinite(value):
        return 0.0
    error = _BOUND_ERROR * (1 + abs(value))
    if delta < _LARGE_DELTA:
        return error
    moved = float(epsilon(delta * (1 - _DELTA_ERROR))) - value
    return max(error, moved) if math.isfinite(moved) else math.inf


@functools.singledispatch
def _numbers(statement: Statement, mechanism: NoisySGD | Composition | None) -> list[ClaimedNumber]:
    """Return all numbers of a statement, including infinite ones."""
    raise TypeError(f"statement must be one of audit.claims.claim, got {statement!r}")


@_numbers.register
def _of_epsilons(
    statement: EpsilonDelta, mechanism: NoisySGD | Composition | None
) -> list[ClaimedNumber]:
    return [ClaimedNumber(EpsilonAtDelta(delta), epsilon) for epsilon, delta in statement.points]


@_numbers.register
def _of_divergences(
    statement: Renyi, mechanism: NoisySGD | Composition | None
) -> list[ClaimedNumber]:
    return [ClaimedNumber(RenyiAtOrder(alpha), value) for alpha, value in statement.points]


@_numbers.register
def _of_mu(statement: Gaussian, mechanism: NoisySGD | Composition | None) -> list[ClaimedNumber]:
    return [ClaimedNumber(Mu(), statement.mu)]


@_numbers.register
def _of_tradeoff(
    statement: Tradeoff, mechanism: NoisySGD | Composition | None
) -> list[ClaimedNumber]:
    return [ClaimedNumber(PowerAtAlpha(alpha), 1 - beta) for alpha, beta in statement.points]


@_numbers.register
def _of_not_renyi(
    statement: NotRenyi, mechanism: NoisySGD | Composition | None
) -> list[ClaimedNumber]:
    return [ClaimedNumber(RenyiAtOrder(statement.alpha), statement.value)]


@_numbers.register
def _of_not_private(
    statement: NotPrivate, mechanism: NoisySGD | Composition | None
) -> list[ClaimedNumber]:
    return [ClaimedNumber(EpsilonAtDelta(statement.delta), statement.epsilon)]


@_numbers.register
def _of_bound(
    statement: CatalogueBound, mechanism: NoisySGD | Composition | None
) -> list[ClaimedNumber]:
    if mechanism is None:
        raise BadClaim("mechanism must be given for a bound, got none")
    if isinstance(mechanism, Composition):
        raise BadClaim(f"{statement.id} {mechanism.uncovered()}")
    if not statement.deltas and not statement.orders:
        raise BadClaim("deltas or orders must be given for a bound, got neither")
    try:
        entry = bounds.entry(statement.id)
        if entry.status is Status.ASYMPTOTIC:
            raise ClaimsNothing(f"{statement.id} is a rate without constants, which is not judged")
        curve = entry.evaluate(mechanism, **statement.options)
        epsilons = [epsilon_of(curve.epsilon, delta) for delta in statement.deltas]
        divergences = [divergence_of(float(curve.renyi(a)), a) for a in statement.orders]
    except bounds.NotApplicable as error:
        raise ClaimsNothing(str(error)) from None
    except (TypeError, ValueError) as error:
        raise BadClaim(_one_line(error)) from None
    return [*epsilons, *divergences]


def _of_callable(statement: CallableBound, claim: Claim, workers: Workers) -> list[ClaimedNumber]:
    subject = claim.pair if claim.mechanism is None else claim.mechanism
    if not isinstance(subject, NoisySGD | Composition | ExplicitPair):
        raise BadClaim("mechanism or laws must be given for a callable, got neither")
    if bool(statement.deltas) == bool(statement.orders):
        got = "both" if statement.deltas else "neither"
        raise BadClaim(f"either deltas or orders must be given for a callable, got {got}")
    argument = "delta" if statement.deltas else "order"
    try:
        with claimed_function(
            statement.target, subject, argument, claim.budget, workers
        ) as function:
            if statement.deltas:
                return [epsilon_of(function, delta) for delta in statement.deltas]
            return [divergence_of(function(alpha), alpha) for alpha in statement.orders]
    except UserCodeError as error:
        raise BadClaim(str(error)) from None


def _of_accountant(
    statement: AccountantBound, claim: Claim, workers: Workers
) -> list[ClaimedNumber]:
    if not statement.deltas and not statement.orders:
        raise BadClaim("deltas or orders must be given for an accountant, got neither")
    if claim.mechanism is None and statement.target in ACCOUNTANTS:
        raise BadClaim("mechanism must be given for an accountant, got none")
    # all at once, because composing takes the time; includes deltas that measure the error
    near = [delta * (1 - _DELTA_ERROR) for delta in statement.deltas if delta >= _LARGE_DELTA]
    asked = [*statement.deltas, *near]
    try:
        found = ask_accountant(statement, claim.mechanism, asked, claim.budget, workers)
    except UserCodeError as error:
        raise BadClaim(str(error)) from None
    epsilons = dict(zip(asked, found.epsilons, strict=True))
    return [
        *(epsilon_of(epsilons.__getitem__, delta) for delta in statement.deltas),
        *map(divergence_of, found.divergences, statement.orders),
    ]


def _check(number: ClaimedNumber) -> None:
    quantity = number.quantity
    if math.isnan(number.value) or number.value < 0:
        place = f" at {quantity.where}" if quantity.where else ""
        raise BadClaim(
            f"the claimed {quantity.name}{place} must be a number of at least 0, "
            f"got {number.value!r}"
        )
    try:
        quantity.check()
    except ValueError as error:
        raise BadClaim(_one_line(error)) from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())

"""Ask the source of a statement for the numbers that it claims."""

from __future__ import annotations

import math
from collections.abc import Callable

from audit import bounds
from audit.bounds import Status
from audit.claims.claim import Claim
from audit.claims.statements import ACCOUNTANTS, Asked, Numbers, NumberSource
from audit.claims.user_code import values_of
from audit.constructions.explicit import ExplicitPair
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta, RenyiAtOrder
from audit.isolation import Workers
from audit.mechanism import Composition, NoisySGD

# Bounds are computed by root finding and series; numbers written by users have no such error.
_BOUND_ERROR = 1e-9
# Relative errors of a delta and of the moments that bounds are computed from. They matter for
# deltas near 1 (from this one on) and for orders within 1e-3 of 1.
_DELTA_ERROR = 2.0**-44
_LARGE_DELTA = 0.9
_MOMENT_ERROR = 1e-12


class NothingClaimed(Exception):
    """The statement makes no finite claim about the mechanism; the message says why."""


class InvalidClaim(Exception):
    """The claim cannot be evaluated; the message says why in one line."""


def claimed_numbers(claim: Claim, workers: Workers) -> tuple[ClaimedNumber, ...]:
    """Return the finite numbers that a claim's statement consists of.

    ``workers`` run user functions.
    """
    if claim.unread:
        raise InvalidClaim(claim.unread)
    statement = claim.statement
    if isinstance(statement, Numbers):
        found = statement.numbers
    else:
        if not statement.quantities:
            article = "an" if statement.source is NumberSource.ACCOUNTANT else "a"
            raise InvalidClaim(
                f"deltas or orders must be given for {article} {statement.source.value}, "
                "got neither"
            )
        ask = _bound if statement.source is NumberSource.BOUND else _user_code
        found = ask(statement, claim, workers)
    for number in found:
        _check(number)
    finite = tuple(number for number in found if math.isfinite(number.value))
    if not finite:
        places = ", ".join(number.quantity.where for number in found)
        raise NothingClaimed(f"nothing is claimed at {places}: the bound is infinite there")
    return finite


def epsilon_of(epsilon: Callable[[float], float], delta: float) -> ClaimedNumber:
    """Return the epsilon that a function computes at ``delta``, with its numerical error.

    Near delta = 1 epsilon is ill-conditioned: there the error is the effect of rounding delta.
    """
    value, error = float(epsilon(delta)), 0.0
    if math.isfinite(value):
        error = _BOUND_ERROR * (1 + abs(value))
        if delta >= _LARGE_DELTA:
            moved = float(epsilon(delta * (1 - _DELTA_ERROR))) - value
            error = max(error, moved) if math.isfinite(moved) else math.inf
    return ClaimedNumber(EpsilonAtDelta(delta), value, error)


def divergence_of(value: float, alpha: float) -> ClaimedNumber:
    """Return a computed Renyi divergence with its numerical error."""
    error = 0.0
    if math.isfinite(value):
        # a moment is divided by alpha - 1
        error = max(_BOUND_ERROR * (1 + abs(value)), _MOMENT_ERROR / (alpha - 1))
    return ClaimedNumber(RenyiAtOrder(alpha), value, error)


def _bound(asked: Asked, claim: Claim, workers: Workers) -> tuple[ClaimedNumber, ...]:
    if claim.mechanism is None:
        raise InvalidClaim("mechanism must be given for a bound, got none")
    if isinstance(claim.mechanism, Composition):
        raise InvalidClaim(f"{asked.name} {claim.mechanism.uncovered()}")
    try:
        entry = bounds.entry(asked.name)
        if entry.status is Status.ASYMPTOTIC:
            raise NothingClaimed(f"{asked.name} is a rate without constants, which is not judged")
        curve = entry.evaluate(claim.mechanism, **asked.options)
        return (
            *(epsilon_of(curve.epsilon, delta) for delta in asked.deltas),
            *(divergence_of(float(curve.renyi(alpha)), alpha) for alpha in asked.orders),
        )
    except bounds.NotApplicable as error:
        raise NothingClaimed(str(error)) from None
    except (TypeError, ValueError) as error:
        raise InvalidClaim(_one_line(error)) from None


def _user_code(asked: Asked, claim: Claim, workers: Workers) -> tuple[ClaimedNumber, ...]:
    subject = claim.pair if claim.mechanism is None else claim.mechanism
    if asked.source is NumberSource.CALLABLE:
        if not isinstance(subject, NoisySGD | Composition | ExplicitPair):
            raise InvalidClaim("mechanism or laws must be given for a callable, got neither")
        if asked.deltas and asked.orders:
            raise InvalidClaim("either deltas or orders must be given for a callable, got both")
    else:
        subject = claim.mechanism
        if subject is None and asked.name in ACCOUNTANTS:
            raise InvalidClaim("mechanism must be given for an accountant, got none")
    # includes deltas that measure the error
    near = [delta * (1 - _DELTA_ERROR) for delta in asked.deltas if delta >= _LARGE_DELTA]
    deltas = [*asked.deltas, *near]
    found = values_of(asked, subject, deltas, claim.budget, workers)
    epsilons = dict(zip(deltas, found.epsilons, strict=True))
    return (
        *(epsilon_of(epsilons.__getitem__, delta) for delta in asked.deltas),
        *map(divergence_of, found.divergences, asked.orders),
    )


def _check(number: ClaimedNumber) -> None:
    quantity = number.quantity
    if math.isnan(number.value) or number.value < 0:
        raise InvalidClaim(
            f"the claimed {quantity.name}{quantity.at_where} must be a number of at least 0, "
            f"got {number.value!r}"
        )
    try:
        quantity.check()
    except ValueError as error:
        raise InvalidClaim(_one_line(error)) from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())

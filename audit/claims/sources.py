"""Sources of claims: bounds of the catalogue, and user code, which runs in worker processes.

Only plain data crosses the process boundary: a mechanism's fields, laws, and numbers. A missing
library, an event without a counterpart and a function that hangs or crashes each give a one-line
error.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from audit import bounds, validate
from audit.bounds import Status
from audit.claims.claim import ACCOUNTANTS, Asked, Budget, Claim, Numbers, NumberSource, tidy
from audit.codec import decode, encode
from audit.constructions import decode_any_pair, encode_pair
from audit.constructions.explicit import ExplicitPair
from audit.curves import PrivacyCurve
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta, RenyiAtOrder
from audit.isolation import Limits, UserCodeError, Workers
from audit.mechanism import Composition, NoisySGD, Relation

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
    """Return the finite numbers of a claim's statement; ``workers`` run user functions."""
    if claim.unread:
        raise InvalidClaim(claim.unread)
    statement = claim.statement
    if isinstance(statement, Numbers):
        found = statement.numbers
    else:
        ask = _bound if statement.source is NumberSource.BOUND else _user_code
        found = ask(statement, claim, workers)
    for number in found:
        quantity = number.quantity
        if math.isnan(number.value) or number.value < 0:
            wanted = "must be a number of at least 0"
            name = f"the claimed {quantity.name}{quantity.at_where}"
            raise InvalidClaim(f"{name} {wanted}, got {number.value!r}")
        try:
            quantity.check()
        except ValueError as error:
            raise InvalidClaim(_one_line(error)) from None
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
    """Return what a callable claims at each place, or an accountant, which composes once, at all.

    Errors of a callable name the place.
    """
    subject = claim.pair if claim.mechanism is None else claim.mechanism
    known, source = asked.name in ACCOUNTANTS, asked.source.value
    is_callable = asked.source is NumberSource.CALLABLE
    if is_callable and not isinstance(subject, NoisySGD | Composition | ExplicitPair):
        raise InvalidClaim("mechanism or laws must be given for a callable, got neither")
    if not is_callable:
        subject = claim.mechanism
        if subject is None and known:
            raise InvalidClaim("mechanism must be given for an accountant, got none")
    plain = encode_pair(subject) if isinstance(subject, ExplicitPair) else encode(subject)
    # includes deltas that measure the error
    near = [delta * (1 - _DELTA_ERROR) for delta in asked.deltas if delta >= _LARGE_DELTA]
    deltas, orders = [*asked.deltas, *near], list(asked.orders)
    calls: list[tuple[str, list[float], list[float]]] = [("", deltas, orders)]
    if is_callable:
        calls = [(f", at delta {delta:g}", [delta], []) for delta in deltas]
        calls += [(f", at order {order:g}", [], [order]) for order in orders]
    epsilons, divergences = list[float](), list[float]()
    with workers.function(
        f"{__name__}:of_library" if known else asked.name,
        task=f"{__name__}:ask_{source}",
        limits=_limits(claim.budget),
        name=source,
        keep=known,  # libraries are slow to import, and no code of users
    ) as function:
        for place, *places in calls:
            try:
                found: Values = decode(Values, function(asked.name, plain, *places))
            except ValueError as error:
                of = "" if isinstance(error, UserCodeError) else f"{asked.name}: "
                told = f"{of}{error}{place}"
                raise UserCodeError(tidy(told) if place else told) from None
            epsilons += found[0]
            divergences += found[1]
    by_delta = dict(zip(deltas, epsilons, strict=True))
    return (
        *(epsilon_of(by_delta.__getitem__, delta) for delta in asked.deltas),
        *map(divergence_of, divergences, orders),
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


Values = tuple[tuple[float, ...], tuple[float, ...]]
"""The epsilons and the Renyi divergences that a source claims at some deltas and orders."""


def workers_for(files: Iterable[Path]) -> Workers:
    """Return workers that find modules in the current folder and beside the claims files."""
    return Workers([Path.cwd(), *(file.resolve().parent for file in files)])


def mechanism_from(
    name: str, target: str, budget: Budget, workers: Workers, *arguments: Any
) -> tuple[NoisySGD | Composition, str]:
    """Return the mechanism of the "event" or "training" that a user function returns.

    And a doubt about it, or "". ``arguments`` are plain data for the reader of that name.
    """
    task = f"{__name__}:read_{name}"
    with workers.function(target, task=task, limits=_limits(budget), name=name) as function:
        plain, doubt = function(target, *arguments)
    return decode(NoisySGD | Composition, plain, "mechanism"), doubt


def number_of(value: object, name: str, place: str = "") -> float:
    """Return a real number of any type, also an array without dimensions, as a float."""
    kind = str(getattr(value, "dtype", ""))
    refused = isinstance(value, bool | np.bool_ | str | bytes | bytearray)
    refused = refused or len(getattr(value, "shape", ())) > 0
    if not refused and "bool" not in kind and "complex" not in kind:
        try:
            return float(value)  # type: ignore[arg-type]
        except OverflowError:  # an integer beyond the largest double
            return math.inf if value > 0 else -math.inf  # type: ignore[operator]
        except (TypeError, ValueError):
            pass
    raise UserCodeError(f"{name} must return a number{place}, got {validate.shown(value)}")


def _limits(budget: Budget) -> Limits:
    return Limits(seconds=budget.callable_seconds, gigabytes=budget.callable_gigabytes)


# runs in the worker: each task gets the user's object, its name and plain data


def read_event(
    function: Any, target: str, dataset_size: int, relation: str, clip_norm: float
) -> Any:
    """Return the fields of the mechanism that a user's event describes."""
    from audit.adapters.dp_accounting import from_dp_event

    event = _called(function, target)
    with _told(target):
        found = from_dp_event(
            event, dataset_size=dataset_size, relation=Relation(relation), clip_norm=clip_norm
        )
    return encode(found), ""


def read_training(function: Any, target: str) -> Any:
    """Return the fields of the mechanism that a user's training runs."""
    from audit.adapters.opacus import PrivateTraining

    training = _called(function, target)
    if not isinstance(training, PrivateTraining):
        got = validate.shown(training)
        raise UserCodeError(f"{target} must return a PrivateTraining, got {got}")
    return encode(training.actual), training.doubt


def ask_callable(function: Any, target: str, subject: Any, *places: Sequence[float]) -> Any:
    """Return the values of a user function for a mechanism, or for explicit laws."""
    is_mechanism = subject.get("kind", Composition.kind) == Composition.kind
    kind = NoisySGD | Composition
    about = decode(kind, subject, "mechanism") if is_mechanism else decode_any_pair(subject, None)
    ask = partial(_called, function, target, about)
    return encode([[number_of(ask(at), target) for at in some] for some in places])


def ask_accountant(function: Any, target: str, subject: Any, *places: Sequence[float]) -> Any:
    """Return the claims of a library's accountant, or of the one that a user function returns."""
    mechanism = decode(NoisySGD | Composition | None, subject, "mechanism")
    if target in ACCOUNTANTS:
        with _told(target):
            return encode(function(target, mechanism, *places))
    made = _called(function, target)
    curve = _curve_of(made, target)
    theirs = getattr(made, "neighboring_relation", None)
    if theirs is not None and mechanism is not None:
        from audit.adapters.dp_accounting import relation_of

        found, relation = relation_of(theirs), mechanism.relation
        if found is not relation:
            wanted = f"an accountant for the mechanism's relation ({relation.value!r})"
            raise UserCodeError(f"{target} must return {wanted}, got one for {found.value!r}")
    asked: Any = zip((curve.epsilon, curve.renyi), places, strict=True)
    return encode([[number_of(ask(at), target) for at in some] for ask, some in asked])


def of_library(target: str, mechanism: NoisySGD | Composition, *places: Sequence[float]) -> Values:
    """Compose a mechanism with the accountant of a library, one of `ACCOUNTANTS`."""
    (library, _, name), (deltas, orders) = target.partition("."), places
    if orders and name != "rdp":
        raise ValueError("orders must be left out: this accountant claims no Renyi divergences")
    epsilons: Iterable[object] = ()
    divergences: Iterable[object] = ()
    if library == "opacus":
        from audit.adapters import opacus

        if deltas:
            epsilons = opacus.claimed_epsilons(mechanism, accountant=name, deltas=deltas)
        if orders:
            divergences = opacus.rdp_divergences(mechanism, orders=orders)
    else:
        from audit.adapters import dp_accounting

        compose = partial(dp_accounting.accountant, mechanism, dp_accounting.Accountant(name))
        if deltas:
            epsilons = map(compose().get_epsilon, deltas)
        if orders:
            divergences = compose(orders=orders).rdp
    first, second = ([number_of(one, target) for one in some] for some in (epsilons, divergences))
    return tuple(first), tuple(second)


@contextlib.contextmanager
def _told(target: str) -> Iterator[None]:
    """Turn an error of a library into one line about the user's object."""
    try:
        yield
    except (ValueError, ImportError) as error:
        raise UserCodeError(f"{target}: {_one_line(error)}") from None


def _called(function: Any, target: str, *arguments: Any) -> Any:
    if not callable(function):
        raise UserCodeError(f"{target} must be a function, got {validate.shown(function)}")
    return function(*arguments)


def _curve_of(made: Any, target: str) -> PrivacyCurve:
    """Return the claims of a library's object, by the library that defines its class."""
    if isinstance(made, PrivacyCurve):
        return made
    libraries = {cls.__module__.partition(".")[0] for cls in type(made).__mro__}
    with _told(target):
        if "dp_accounting" in libraries:
            from audit.adapters import dp_accounting

            return dp_accounting.claimed_curve(made)
        if "opacus" in libraries:
            from audit.adapters import opacus

            return opacus.claimed_curve(made)
    wanted = "an accountant of dp-accounting or Opacus, or a PrivacyLossDistribution"
    raise UserCodeError(f"{target} must return {wanted}, got {validate.shown(made)}")

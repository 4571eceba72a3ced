"""User functions that claims name; they run in worker processes.

Only plain data crosses the process boundary: a mechanism's fields, laws, and numbers. A missing
library, an event without a counterpart and a function that hangs or crashes each give a one-line
error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit import validate
from audit.claims.claim import Budget
from audit.claims.statements import ACCOUNTANTS, Asked, NumberSource
from audit.claims.wording import tidy
from audit.codec import decode, encode
from audit.constructions import decode_any_pair, encode_pair
from audit.constructions.explicit import ExplicitPair
from audit.curves import PrivacyCurve
from audit.isolation import Limits, UserCodeError, Workers
from audit.mechanism import Composition, NoisySGD, Relation


def workers_for(files: Iterable[Path]) -> Workers:
    """Return workers that find modules in the current folder and beside the claims files."""
    return Workers([Path.cwd(), *(file.resolve().parent for file in files)])


@dataclass(frozen=True)
class Values:
    """The epsilons and Renyi divergences that a source claims at some deltas and orders."""

    epsilons: tuple[float, ...] = ()
    divergences: tuple[float, ...] = ()


def mechanism_from(
    name: str, target: str, budget: Budget, workers: Workers, *arguments: Any
) -> NoisySGD | Composition:
    """Return the mechanism of the ``DpEvent`` or ``PrivateTraining`` that a user function returns.

    ``name`` is "event" or "training"; ``arguments`` are plain data for the reader of that name.
    """
    task = f"{__name__}:read_{name}"
    with workers.function(target, task=task, limits=_limits(budget), name=name) as function:
        return _mechanism_of(function(target, *arguments))


def values_of(
    asked: Asked,
    subject: NoisySGD | Composition | ExplicitPair | None,
    deltas: Sequence[float],
    budget: Budget,
    workers: Workers,
) -> Values:
    """Return what a callable or an accountant claims at ``deltas`` and the orders of a statement.

    An accountant gives all at once, because composing takes the time; errors of a callable name the
    place.
    """
    plain = encode_pair(subject) if isinstance(subject, ExplicitPair) else encode(subject)
    known, source = asked.name in ACCOUNTANTS, asked.source.value
    task = "ask_library" if known else f"ask_{source}"
    with workers.function(
        f"{__name__}:of_library" if known else asked.name,
        task=f"{__name__}:{task}",
        limits=_limits(budget),
        name=source,
        keep=known,  # libraries are slow to import, and no code of users
    ) as function:

        def answer(deltas: Sequence[float], orders: Sequence[float]) -> Values:
            given = function(asked.name, plain, list(deltas), list(orders))
            try:
                found: Values = decode(Values, given)
            except ValueError as error:
                raise UserCodeError(f"{asked.name}: {error}") from None
            return found

        if asked.source is NumberSource.ACCOUNTANT:
            return answer(deltas, asked.orders)
        found = Values()
        places = [(f"delta {delta:g}", [delta], list[float]()) for delta in deltas]
        places += [(f"order {order:g}", [], [order]) for order in asked.orders]
        for at, *place in places:
            try:
                more = answer(*place)
            except UserCodeError as error:
                raise UserCodeError(tidy(f"{error}, at {at}")) from None
            found = Values(found.epsilons + more.epsilons, found.divergences + more.divergences)
        return found


def number_of(value: object, name: str, place: str = "") -> float:
    """Return the number that a user function returned, as a float.

    Real numbers of any type are accepted, also arrays and tensors without dimensions.
    """
    kind = str(getattr(value, "dtype", ""))
    refused = isinstance(value, bool | np.bool_ | str | bytes | bytearray) or len(
        getattr(value, "shape", ())
    )
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


def _mechanism_of(plain: Any) -> NoisySGD | Composition:
    found: NoisySGD | Composition = decode(NoisySGD | Composition, plain, "mechanism")
    return found


# runs in the worker: each task gets the user's object, its name and plain data


def read_event(
    function: Any, target: str, dataset_size: int, relation: str, clip_norm: float
) -> Any:
    """Return the fields of the mechanism that a user's event describes."""
    from audit.adapters.dp_accounting import from_dp_event

    event = _called(function, target)
    try:
        found = from_dp_event(
            event, dataset_size=dataset_size, relation=Relation(relation), clip_norm=clip_norm
        )
    except (ValueError, ImportError) as error:
        raise UserCodeError(f"{target}: {error}") from None
    return encode(found)


def read_training(function: Any, target: str) -> Any:
    """Return the fields of the mechanism that a user's training runs."""
    from audit.adapters.opacus import PrivateTraining

    training = _called(function, target)
    if not isinstance(training, PrivateTraining):
        raise UserCodeError(
            f"{target} must return a PrivateTraining, got {validate.shown(training)}"
        )
    return encode(training.actual)


def ask_callable(
    function: Any,
    target: str,
    subject: Mapping[str, Any],
    deltas: Sequence[float],
    orders: Sequence[float],
) -> Any:
    """Return the values of a user function for a mechanism, or for explicit laws."""
    _check_function(function, target)
    is_mechanism = subject.get("kind", Composition.kind) == Composition.kind
    about = _mechanism_of(subject) if is_mechanism else decode_any_pair(subject, None)

    def value(at: float) -> float:
        return number_of(function(about, at), target)

    return encode(Values(tuple(map(value, deltas)), tuple(map(value, orders))))


def ask_accountant(
    function: Any,
    target: str,
    subject: Mapping[str, Any] | None,
    deltas: Sequence[float],
    orders: Sequence[float],
) -> Any:
    """Return the claims of the accountant that a user function returns."""
    made = _called(function, target)
    curve = _curve_of(made, target)
    relation = getattr(made, "neighboring_relation", None)
    if relation is not None and subject is not None:
        _check_relation(relation, _mechanism_of(subject).relation, target)
    return encode(
        Values(
            tuple(number_of(curve.epsilon(delta), target) for delta in deltas),
            tuple(number_of(curve.renyi(order), target) for order in orders),
        )
    )


def ask_library(
    function: Callable[..., Values],
    target: str,
    subject: Mapping[str, Any],
    deltas: Sequence[float],
    orders: Sequence[float],
) -> Any:
    """Return the claims of a library's accountant about a mechanism."""
    try:
        return encode(function(target, _mechanism_of(subject), tuple(deltas), tuple(orders)))
    except (ValueError, ImportError) as error:
        raise UserCodeError(f"{target}: {' '.join(str(error).split())}") from None


def of_library(
    target: str,
    mechanism: NoisySGD | Composition,
    deltas: tuple[float, ...],
    orders: tuple[float, ...],
) -> Values:
    """Compose a mechanism with the accountant of a library, one of `ACCOUNTANTS`."""
    library, _, name = target.partition(".")
    if orders and name != "rdp":
        raise ValueError("orders must be left out: this accountant claims no Renyi divergences")
    if library == "opacus":
        from audit.adapters import opacus

        return Values(
            opacus.claimed_epsilons(mechanism, accountant=name, deltas=deltas) if deltas else (),
            opacus.rdp_divergences(mechanism, orders=orders) if orders else (),
        )
    from audit.adapters import dp_accounting

    which = dp_accounting.Accountant(name)
    epsilons: tuple[float, ...] = ()
    divergences: tuple[float, ...] = ()
    if deltas:
        asked = dp_accounting.accountant(mechanism, which)
        epsilons = tuple(number_of(asked.get_epsilon(delta), target) for delta in deltas)
    if orders:
        asked = dp_accounting.accountant(mechanism, which, orders=orders)
        divergences = tuple(number_of(value, target) for value in asked.rdp)
    return Values(epsilons, divergences)


def _check_function(function: Any, target: str) -> None:
    if not callable(function):
        raise UserCodeError(f"{target} must be a function, got {validate.shown(function)}")


def _called(function: Any, target: str) -> Any:
    _check_function(function, target)
    return function()


def _curve_of(made: Any, target: str) -> PrivacyCurve:
    """Return the claims of a library's object, by the library that defines its class."""
    if isinstance(made, PrivacyCurve):
        return made
    libraries = {cls.__module__.partition(".")[0] for cls in type(made).__mro__}
    try:
        if "dp_accounting" in libraries:
            from audit.adapters import dp_accounting

            return dp_accounting.claimed_curve(made)
        if "opacus" in libraries:
            from audit.adapters import opacus

            return opacus.claimed_curve(made)
    except ValueError as error:
        raise UserCodeError(f"{target}: {error}") from None
    raise UserCodeError(
        f"{target} must return an accountant of dp-accounting or Opacus, or a "
        f"PrivacyLossDistribution, got {validate.shown(made)}"
    )


def _check_relation(theirs: Any, relation: Relation, target: str) -> None:
    from audit.adapters.dp_accounting import relation_of

    found = relation_of(theirs)
    if found is not relation:
        raise UserCodeError(
            f"{target} must return an accountant for the mechanism's relation "
            f"({relation.value!r}), got one for {found.value!r}"
        )

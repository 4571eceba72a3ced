"""Read events, histories and accountants of other libraries in worker processes.

Only plain data crosses the process boundary: a mechanism's fields, and numbers. A missing library,
an event without a counterpart and a function that hangs or crashes each give a one-line error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit import validate
from audit.claims.claim import Budget
from audit.claims.statements import ACCOUNTANTS, Asked
from audit.claims.user_code import limits, mechanism_of, number_of
from audit.codec import decode, encode
from audit.curves import PrivacyCurve
from audit.isolation import UserCodeError, Workers
from audit.mechanism import Composition, NoisySGD, Relation


@dataclass(frozen=True)
class AccountantValues:
    """The values that an accountant claims at the deltas and the Renyi orders of a claim."""

    epsilons: tuple[float, ...]
    divergences: tuple[float, ...]


def mechanism_from(
    name: str, target: str, budget: Budget, workers: Workers, *arguments: Any
) -> NoisySGD | Composition:
    """Return the mechanism of the ``DpEvent`` or ``PrivateTraining`` that a user function returns.

    ``name`` is "event" or "training"; ``arguments`` are plain data for the reader of that name.
    """
    task = f"{__name__}:read_{name}"
    with workers.function(target, task=task, limits=limits(budget), name=name) as function:
        plain = function(target, *arguments)
    return mechanism_of(plain)


def ask_accountant(
    asked: Asked,
    mechanism: NoisySGD | Composition | None,
    deltas: Sequence[float],
    budget: Budget,
    workers: Workers,
) -> AccountantValues:
    """Return the claims of an accountant at ``deltas`` and the orders at which it is asked."""
    known = asked.name in ACCOUNTANTS
    reference = f"{__name__}:of_library" if known else asked.name
    task = f"{__name__}:{'ask_library' if known else 'ask_function'}"
    subject = None if mechanism is None else encode(mechanism)
    with workers.function(
        reference, task=task, limits=limits(budget), name="accountant"
    ) as function:
        plain = function(asked.name, subject, list(deltas), list(asked.orders))
    found: AccountantValues = decode(AccountantValues, plain)
    return found


# runs in the worker


def read_event(
    function: Any, target: str, dataset_size: int, relation: str, clip_norm: float
) -> dict[str, Any]:
    """Return the fields of the mechanism that a user's event describes."""
    from audit.adapters.dp_accounting import from_dp_event

    event = _called(function, target)
    try:
        found = from_dp_event(
            event, dataset_size=dataset_size, relation=Relation(relation), clip_norm=clip_norm
        )
    except (ValueError, ImportError) as error:
        raise UserCodeError(f"{target}: {error}") from None
    plain: dict[str, Any] = encode(found)
    return plain


def read_training(function: Any, target: str) -> dict[str, Any]:
    """Return the fields of the mechanism that a user's training runs."""
    from audit.adapters.opacus import PrivateTraining

    training = _called(function, target)
    if not isinstance(training, PrivateTraining):
        raise UserCodeError(
            f"{target} must return a PrivateTraining, got {validate.shown(training)}"
        )
    plain: dict[str, Any] = encode(training.actual)
    return plain


def _called(function: Any, target: str) -> Any:
    if not callable(function):
        raise UserCodeError(f"{target} must be a function, got {validate.shown(function)}")
    return function()


def ask_library(
    function: Any,
    target: str,
    subject: Mapping[str, Any],
    deltas: Sequence[float],
    orders: Sequence[float],
) -> dict[str, Any]:
    """Return the claims of a library's accountant about a mechanism."""
    try:
        found: AccountantValues = function(
            target, mechanism_of(subject), tuple(deltas), tuple(orders)
        )
    except (ValueError, ImportError) as error:
        raise UserCodeError(f"{target}: {' '.join(str(error).split())}") from None
    plain: dict[str, Any] = encode(found)
    return plain


def of_library(
    target: str,
    mechanism: NoisySGD | Composition,
    deltas: tuple[float, ...],
    orders: tuple[float, ...],
) -> AccountantValues:
    """Compose a mechanism with the accountant of a library, one of `ACCOUNTANTS`."""
    library, _, name = target.partition(".")
    if orders and name != "rdp":
        raise ValueError("orders must be left out: this accountant claims no Renyi divergences")
    if library == "opacus":
        from audit.adapters import opacus

        return AccountantValues(
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
    return AccountantValues(epsilons, divergences)


def ask_function(
    function: Any,
    target: str,
    subject: Mapping[str, Any] | None,
    deltas: Sequence[float],
    orders: Sequence[float],
) -> dict[str, Any]:
    """Return the claims of the accountant that a user function returns."""
    made = _called(function, target)
    curve = _curve_of(made, target)
    relation = getattr(made, "neighboring_relation", None)
    if relation is not None and subject is not None:
        _check_relation(relation, mechanism_of(subject).relation, target)
    answers = AccountantValues(
        tuple(number_of(curve.epsilon(delta), target) for delta in deltas),
        tuple(number_of(curve.renyi(order), target) for order in orders),
    )
    plain: dict[str, Any] = encode(answers)
    return plain


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

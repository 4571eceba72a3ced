"""User functions and classes that claims name; they run in worker processes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit import validate
from audit.claims.claim import Budget
from audit.claims.wording import tidy
from audit.codec import decode, encode
from audit.isolation import Limits, UserCodeError, Workers
from audit.mechanism import Composition, NoisySGD

if TYPE_CHECKING:
    from audit.constructions.explicit import ExplicitPair


def workers_for(files: Iterable[Path]) -> Workers:
    """Return workers that find modules in the current folder and beside the claims files."""
    return Workers([Path.cwd(), *(file.resolve().parent for file in files)])


def limits(budget: Budget) -> Limits:
    """Return the limits on the functions of a claim."""
    return Limits(seconds=budget.callable_seconds, gigabytes=budget.callable_gigabytes)


@contextlib.contextmanager
def claimed_function(
    target: str,
    subject: NoisySGD | Composition | ExplicitPair,
    argument: str,
    budget: Budget,
    workers: Workers,
) -> Iterator[Callable[[float], float]]:
    """Yield a function of one number, ``target(subject, number)``.

    The subject is a mechanism or, for claims without one, explicit laws. ``argument`` names the
    number in messages: "delta" or "order".
    """
    from audit.constructions import encode_pair

    is_mechanism = isinstance(subject, NoisySGD | Composition)
    plain = encode(subject) if isinstance(subject, NoisySGD | Composition) else encode_pair(subject)
    with workers.function(
        target, task=f"{__name__}:value", limits=limits(budget), name="callable"
    ) as function:

        def asked(at: float) -> float:
            try:
                return number_of(function(target, plain, is_mechanism, at), target)
            except UserCodeError as error:
                raise UserCodeError(tidy(f"{error}, at {argument} {at:g}")) from None

        yield asked


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


def mechanism_of(plain: Any) -> NoisySGD | Composition:
    """Return the mechanism of plain data."""
    found: NoisySGD | Composition = decode(NoisySGD | Composition, plain, "mechanism")
    return found


# runs in the worker


def value(
    function: Any, target: str, subject: Mapping[str, Any], is_mechanism: bool, at: float
) -> float:
    """Return the value of a user function for a mechanism, or for explicit laws, and a number."""
    if not callable(function):
        raise UserCodeError(f"{target} must be a function, got {validate.shown(function)}")
    if is_mechanism:
        return number_of(function(mechanism_of(subject), at), target)
    from audit.constructions import decode_any_pair

    return number_of(function(decode_any_pair(subject, None), at), target)

"""The checker of public docstrings finds what is missing, and accepts what is complete."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from audit import validate
from tests import docstrings


def complete(alpha: float) -> float:
    """Return the square of alpha.

    Parameters
    ----------
    alpha : float
        Type I error, in [0, 1].

    Returns
    -------
    float
        The square.

    Raises
    ------
    ValueError
        If alpha is negative.

    Examples
    --------
    >>> complete(0.5)
    0.25
    """
    validate.nonnegative(alpha=alpha)
    return alpha**2


def bare(alpha: float) -> float:
    """Returns the square of alpha"""
    if alpha < 0:
        raise KeyError("alpha")
    return alpha**2


def untyped(alpha: float) -> float:
    """Return the square of alpha.

    Parameters
    ----------
    alpha
        the type I error

    Returns
    -------
    float
        The square.

    Examples
    --------
    >>> untyped(0.5)
    0.25
    """
    return alpha**2


@dataclass(frozen=True)
class Fields:
    """Hold two numbers.

    Attributes
    ----------
    first, second : float
        Any numbers.
    """

    first: float
    second: float

    def __post_init__(self) -> None:
        validate.finite(first=self.first)


@dataclass(frozen=True)
class Derived(Fields):
    """Hold a third number, which is not documented."""

    third: float = 0.0


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (complete, set()),
        (bare, {"SS03", "SS05", "PR01", "RT01", "RA01", "EX01"}),
        (untyped, {"PR04", "PR08", "PR09"}),
        (Fields, {"RA01"}),
        (Derived, {"PR01"}),
    ],
)
def test_codes(target: object, expected: set[str]) -> None:
    checks = docstrings.FORM | docstrings.SUMMARY | docstrings.PARAMETERS
    if not isinstance(target, type):
        checks |= docstrings.RETURNS | docstrings.EXAMPLE
    public = docstrings.Public("audit.planted", target, frozenset(checks))
    assert {name for name, _ in docstrings.errors(public)} == expected


def test_exports_and_methods_are_found_once() -> None:
    names = [public.name for public in docstrings.public_api()]
    assert len(names) == len(set(names))
    for name in (
        "audit.NoisySGD",
        "audit.NoisySGD.sensitivity",  # a property
        "audit.bounds.best",  # a method of the registry, exported as a function
        "audit.exact.curve",
        "audit.estimation.Audit.epsilon_lower",
        "audit.adapters.dp_accounting.from_dp_event",
    ):
        assert name in names


def test_finished_rooms_pass() -> None:
    assert docstrings.main([]) == 0

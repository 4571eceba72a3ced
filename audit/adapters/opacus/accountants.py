"""Claims of Opacus' accountants."""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from audit import validate
from audit.adapters.claimed import ClaimedCurve
from audit.adapters.opacus.history import History, read_history, to_history
from audit.adapters.optional import load
from audit.mechanism import Composition, NoisySGD


class Accountant(enum.Enum):
    """Accountants of Opacus, with their names in ``PrivacyEngine(accountant=...)``."""

    RDP = "rdp"
    PRV = "prv"
    GDP = "gdp"


def claimed_epsilons(
    history: Any, *, accountant: Accountant | str, deltas: Sequence[float]
) -> tuple[float, ...]:
    """Return the epsilons that an accountant of Opacus claims for a history.

    The accountant has its default settings.

    Parameters
    ----------
    history : object
        Anything that `read_history` reads, or a mechanism that `to_history` takes.
    accountant : Accountant or str
        ``Accountant.RDP`` and ``Accountant.PRV`` claim upper bounds; ``Accountant.GDP`` claims a
        central limit approximation, which may be too small according to Opacus.
    deltas : sequence of float
        Values in (0, 1), shape ``(k,)``.

    Returns
    -------
    tuple of float
        Epsilon at each delta, in nats.

    Raises
    ------
    ImportError
        If Opacus is not installed.
    ValueError
        If an argument is out of range, the accountant fails, or the GDP accountant is given several
        entries, of which it reads only the last.

    Examples
    --------
    >>> claimed_epsilons(  # doctest: +SKIP
    ...     [(1.1, 0.01, 1000)], accountant=Accountant.RDP, deltas=(1e-5,)
    ... )
    (1.7118,)
    """
    kind = _accountant(accountant)
    for delta in deltas:
        validate.open_unit(delta=delta)
    entries = _entries(history)
    if kind is Accountant.GDP and len(entries) > 1:
        raise ValueError(f"history must hold one entry for the gdp accountant, got {len(entries)}")
    library = load("opacus.accountants", extra="opacus")

    def ask() -> tuple[float, ...]:
        told = library.create_accountant(kind.value)
        told.load_state_dict({"history": list(entries), "mechanism": kind.value})
        return tuple(float(told.get_epsilon(delta)) for delta in deltas)

    return _asked(ask, kind.value)


def rdp_divergences(history: Any, *, orders: Sequence[float]) -> tuple[float, ...]:
    """Return the Renyi divergences that Opacus' RDP accountant computes for a history."""
    for order in orders:
        validate.above_one(order=order)
    entries = _entries(history)
    library = load("opacus.accountants.analysis.rdp", extra="opacus")

    def ask() -> tuple[float, ...]:
        added = np.zeros(len(orders))
        for noise_multiplier, rate, steps in entries:
            added = added + library.compute_rdp(
                q=rate, noise_multiplier=noise_multiplier, steps=steps, orders=list(orders)
            )
        return tuple(float(value) for value in added)

    return _asked(ask, Accountant.RDP.value)


def claimed_curve(accountant: Any) -> ClaimedCurve:
    """Return the curve claimed by an accountant of Opacus.

    Parameters
    ----------
    accountant : RDPAccountant, PRVAccountant or GaussianAccountant
        An accountant with a history.

    Returns
    -------
    ClaimedCurve
        Opacus' epsilons, unchecked. Renyi divergences are available for an ``RDPAccountant`` only,
        at its own orders.

    Raises
    ------
    ImportError
        If Opacus is not installed.
    ValueError
        If ``accountant`` is something else, or has no history.

    Examples
    --------
    >>> claimed_curve(privacy_engine.accountant).epsilon(1e-5)  # doctest: +SKIP
    1.7118
    """
    library = load("opacus.accountants", extra="opacus")
    if not isinstance(accountant, library.IAccountant):
        raise validate.fail("accountant", "an accountant of Opacus", accountant)
    history = read_history(accountant)
    divergences: dict[float, float] = {}
    if isinstance(accountant, library.RDPAccountant):
        orders = [float(order) for order in accountant.DEFAULT_ALPHAS]
        divergences = dict(zip(orders, rdp_divergences(history, orders=orders), strict=True))

    def epsilon_at(delta: float) -> float:
        (found,) = _asked(lambda: (float(accountant.get_epsilon(delta)),), accountant.mechanism())
        return found

    return ClaimedCurve(f"Opacus' {type(accountant).__name__}", epsilon_at, None, divergences)


def _accountant(given: Accountant | str) -> Accountant:
    try:
        return Accountant(given)
    except ValueError:
        known = " or ".join(repr(kind.value) for kind in Accountant)
        raise validate.fail("accountant", known, given) from None


def _entries(history: Any) -> History:
    if isinstance(history, NoisySGD | Composition):
        return to_history(history)
    return read_history(history)


def _asked(ask: Callable[[], tuple[float, ...]], name: str) -> tuple[float, ...]:
    """Return the library's answer; it may warn, and raise any exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ask()
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"Opacus' {name} accountant failed: {reason}") from error
    if any(math.isnan(value) for value in found):
        raise ValueError(f"Opacus' {name} accountant must return numbers, got {found}")
    return found

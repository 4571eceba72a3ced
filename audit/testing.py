"""Bounds tested in a test suite of one's own: one function that raises ``AssertionError``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from audit import validate
from audit.claims import (
    Budget,
    CatalogueBound,
    Claim,
    EpsilonDelta,
    Expected,
    Judgement,
    LooseBy,
    Renyi,
    Verdict,
)
from audit.claims.claimed_numbers import epsilon_of, renyi_of
from audit.claims.user_code import number_of
from audit.claims.wording import line
from audit.curves import PrivacyCurve
from audit.mechanism import NoisySGD

Bound = str | float | PrivacyCurve | Callable[[NoisySGD, float], float]


def assert_bound_holds(
    bound: Bound,
    mechanism: NoisySGD,
    *,
    deltas: Sequence[float] = (),
    orders: Sequence[float] = (),
    options: Mapping[str, float] | None = None,
    loose_by: float | None = None,
    error: float = 0.01,
    trials: int = 0,
    seconds: float = Budget.seconds,
    seed: int = 0,
    name: str | None = None,
) -> Judgement:
    """Try to refute an upper bound, and raise where that succeeds.

    Parameters
    ----------
    bound
        What is claimed of ``mechanism``: an id of `audit.bounds.CATALOGUE`, one epsilon for all
        ``deltas``, a privacy curve, or a function that takes (mechanism, delta) and returns
        epsilon.
    mechanism
        The Noisy-SGD mechanism of which it is claimed.
    deltas, orders
        Where: deltas in [0, 1), and Renyi orders above 1 for an id or a curve.
    options
        Free parameters of a bound of the catalogue, by name.
    loose_by
        Raise too where the claim is more than this factor above the best certified lower bound.
    error
        The probability of refuting a true bound by samples; exact evidence spends none.
    trials
        Samples a side where no exact law is at hand; 0 is exact only.
    seconds
        The estimated time of exact laws; constructions beyond it are not tried.
    seed
        Of all samples.
    name
        What the bound is called in messages; by default its id or the function's name.

    Returns
    -------
    Judgement
        What was certified, and how tight the bound is there.

    Raises
    ------
    AssertionError
        If the bound is refuted, too loose, not applicable or could not be tested, in one line:
        ``claim 'x' refuted: certified epsilon 1.31 > claimed 1.00 at delta 1e-5``.
    ValueError
        If an argument is out of its range, or the bound gives no number.
    """
    from audit.claims.judge import judge  # late: it needs every room of the package

    validate.instance(NoisySGD, mechanism=mechanism)
    for delta in deltas:
        validate.half_open_unit(delta=delta)
    for alpha in orders:
        validate.above_one(order=alpha)
    if not deltas and not orders:
        raise ValueError("deltas or orders must be given, got neither")
    if options is not None and not isinstance(bound, str):
        raise ValueError(f"options must be left out unless bound is an id, got {dict(options)!r}")
    __tracebackhide__ = True  # pytest shows the line of the test, not these
    claims = _claims(bound, mechanism, tuple(deltas), tuple(orders), options or {})
    judged = [
        judge(
            dataclasses.replace(
                claim,
                id=name or _name(bound),
                expected=Expected.CONSISTENT if loose_by is None else LooseBy(loose_by),
                budget=Budget(trials=trials, seconds=seconds, seed=seed),
            ),
            error=error / len(claims),
        )
        for claim in claims
    ]
    for judgement in judged:
        if judgement.verdict is Verdict.ERROR:
            raise ValueError(line(judgement))
        if not judgement.as_expected:
            raise AssertionError(line(judgement))
    return min(judged, key=lambda judgement: judgement.tightness or math.inf)


def _claims(
    bound: Bound,
    mechanism: NoisySGD,
    deltas: tuple[float, ...],
    orders: tuple[float, ...],
    options: Mapping[str, float],
) -> tuple[Claim, ...]:
    """Return what is claimed: one claim, or two where a curve is asked for epsilons and orders."""
    if isinstance(bound, str):
        statement = CatalogueBound(bound, options, deltas, orders)
        return (Claim(id="bound", mechanism=mechanism, statement=statement),)
    if orders and not isinstance(bound, PrivacyCurve):
        raise ValueError(f"orders must be left out unless bound is an id or a curve, got {orders}")
    found: list[EpsilonDelta | Renyi] = []
    if deltas:
        found.append(EpsilonDelta(tuple((_epsilon(bound, mechanism, d), d) for d in deltas)))
    if orders:
        assert isinstance(bound, PrivacyCurve)  # checked above
        claimed = [(a, renyi_of(bound, a)) for a in orders]
        found.append(Renyi(tuple((a, number.value + number.slack) for a, number in claimed)))
    return tuple(Claim(id="bound", mechanism=mechanism, statement=s) for s in found)


def _epsilon(
    bound: float | PrivacyCurve | Callable[[NoisySGD, float], float],
    mechanism: NoisySGD,
    delta: float,
) -> float:
    def asked(at: float) -> float:
        if isinstance(bound, PrivacyCurve):
            return bound.epsilon(at)
        if not callable(bound):
            return number_of(bound, "bound")
        return number_of(bound(mechanism, at), "bound", f" at delta {delta:g}")

    number = epsilon_of(asked, delta)
    if math.isnan(number.value) or number.value < 0:
        raise validate.fail("bound", f"at least 0 at delta {delta:g}", number.value)
    computed = callable(bound) or isinstance(bound, PrivacyCurve)
    return number.value + number.slack if computed else number.value


def _name(bound: Bound) -> str:
    if isinstance(bound, str):
        return bound
    return str(getattr(bound, "__name__", type(bound).__name__))

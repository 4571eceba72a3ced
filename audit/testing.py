"""Test bounds in your own test suite: one function that raises ``AssertionError``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real

from audit import validate
from audit.claims import (
    Asked,
    Budget,
    Claim,
    Expected,
    Judgement,
    LooseBy,
    Numbers,
    NumberSource,
    Verdict,
)
from audit.claims.claim import Statement
from audit.claims.sources import divergence_of, epsilon_of, number_of
from audit.curves import PrivacyCurve
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta
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
    """Try to refute an upper bound, and raise an error if that succeeds.

    Parameters
    ----------
    bound : str, float, PrivacyCurve or callable
        The claim about ``mechanism``: an id of `audit.bounds.CATALOGUE`, one epsilon for all
        ``deltas``, a privacy curve, or a function. With ``deltas`` the function takes
        (mechanism, delta) and returns epsilon; with ``orders`` it takes (mechanism, order) and
        returns a Renyi divergence.
    mechanism : NoisySGD
        The mechanism.
    deltas : sequence of float, optional
        The deltas, in [0, 1), at which the bound is tested.
    orders : sequence of float, optional
        The Renyi orders, above 1, at which an id, a curve or a function is tested.
    options : mapping of str to float, optional
        Free parameters of a bound of the catalogue, by name.
    loose_by : float, optional
        Also raise if the claim exceeds the best certified lower bound by more than this factor.
    error : float, optional
        The probability of refuting a true bound by samples; exact evidence spends none.
    trials : int, optional
        Samples per dataset if no exact law is available; 0 for exact evidence only.
    seconds : float, optional
        Limit on the estimated time of exact laws, in seconds; constructions beyond it are not
        tried.
    seed : int, optional
        Seed of all samples.
    name : str, optional
        Name of the bound in messages; by default its id or the function's name.

    Returns
    -------
    Judgement
        The judgement at the point where the claim is tightest.

    Raises
    ------
    AssertionError
        If the bound is refuted, too loose, not applicable or could not be tested. The message is
        one line: ``claim 'x' refuted: certified epsilon 1.31 > claimed 1.00 at delta 1e-5``.
    ValueError
        If an argument is out of its range, or the bound does not return a number.

    Examples
    --------
    >>> import audit
    >>> mechanism = audit.NoisySGD(
    ...     steps=1,
    ...     dataset_size=1,
    ...     batch_size=1,
    ...     step_size=0.1,
    ...     noise_std=2.0,
    ...     lipschitz=1.0,
    ...     smoothness=1.0,
    ...     strong_convexity=0.0,
    ...     convex=True,
    ...     diameter=None,
    ...     batching=audit.Batching.FULL,
    ...     relation=audit.Relation.REPLACE_ONE,
    ... )
    >>> assert_bound_holds(4.5, mechanism, deltas=[1e-5]).verdict.value
    'consistent'
    """
    from audit.claims.judge import judge  # imported late: it needs every room of the package

    validate.instance(NoisySGD, mechanism=mechanism)
    deltas = validate.listed("a sequence of numbers", deltas=deltas)
    orders = validate.listed("a sequence of numbers", orders=orders)
    for delta in deltas:
        validate.half_open_unit(delta=delta)
    for alpha in orders:
        validate.above_one(order=alpha)
    if not deltas and not orders:
        raise ValueError("deltas or orders must be given, got neither")
    if options is not None and not isinstance(bound, str):
        raise ValueError(f"options must be left out unless bound is an id, got {dict(options)!r}")
    __tracebackhide__ = True  # pytest then shows the line of the test
    claim = Claim(
        id=name or _name(bound),
        mechanism=mechanism,
        statement=_statement(bound, mechanism, deltas, orders, options or {}),
        expected=Expected.CONSISTENT if loose_by is None else LooseBy(loose_by),
        budget=Budget(trials=trials, seconds=seconds, seed=seed),
    )
    judgement = judge(claim, error=error)
    if judgement.verdict is Verdict.ERROR:
        raise ValueError(str(judgement))
    if not judgement.as_expected:
        raise AssertionError(str(judgement))
    return judgement


def _statement(
    bound: Bound,
    mechanism: NoisySGD,
    deltas: tuple[float, ...],
    orders: tuple[float, ...],
    options: Mapping[str, float],
) -> Statement:
    """Return the claim of a bound, with the numbers that a function or a curve gives."""
    if isinstance(bound, str):
        return Asked(NumberSource.BOUND, bound, deltas, orders, options)
    if not callable(bound) and not isinstance(bound, PrivacyCurve):
        if orders:
            raise ValueError(f"orders must be left out if bound is a number, got {orders}")
        value = _checked(bound, "delta", deltas[0])
        return Numbers(tuple(ClaimedNumber(EpsilonAtDelta(delta), value) for delta in deltas))
    if isinstance(bound, PrivacyCurve):
        epsilon, divergence = bound.epsilon, bound.renyi
    elif orders and deltas:
        raise ValueError(
            "deltas or orders must be given for a function, got both: it returns epsilon at a "
            "delta, or a Renyi divergence at an order"
        )
    else:
        epsilon = divergence = functools.partial(bound, mechanism)
    epsilons = (
        epsilon_of(lambda at: _checked(epsilon(at), "delta", at), delta) for delta in deltas
    )
    divergences = (divergence_of(_checked(divergence(at), "order", at), at) for at in orders)
    return Numbers((*epsilons, *divergences))


def _checked(value: object, place: str, at: float) -> float:
    """Return the number that a bound claims at a delta or an order."""
    number = number_of(value, "bound", f" at {place} {at:g}")
    if math.isnan(number) or number < 0:
        raise validate.fail("bound", f"at least 0 at {place} {at:g}", number)
    return number


def _name(bound: Bound) -> str:
    if isinstance(bound, str):
        return bound
    if isinstance(bound, Real):
        return f"epsilon {float(bound):g}"
    return str(getattr(bound, "__name__", type(bound).__name__))

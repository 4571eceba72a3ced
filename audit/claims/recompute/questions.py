"""What a witness claims to show, as a number of two laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.claims.recompute.counting import (
    Proof,
    delta_proof,
    epsilon_proof,
    power_proof,
    renyi_proof,
)
from audit.claims.recompute.numbers import (
    crossing_error,
    epsilon_at,
    epsilon_error,
    gaussian_delta,
    log_delta,
    power_at,
    power_error,
    renyi_at,
)
from audit.claims.recompute.plainlaws import Nodes
from audit.claims.witness import Witness

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rising:
    """A mean under P that proves the number: that of a rising function of log p - log q.

    The function is 0 up to ``least``; above, ``log_integrand`` is its logarithm. ``proven`` maps a
    lower limit of the mean to what it proves.
    """

    log_integrand: Callable[[Array], Array]
    least: float
    proven: Callable[[float], float]


@dataclass(frozen=True)
class Question:
    """A number of two laws that should be above ``claimed``.

    Attributes
    ----------
    claimed
        The claimed number, with its slack; for mu the delta that it allows.
    value, kink_error
        The number by quadrature, and how far a kink between two nodes may put it off.
    proof
        What the rates of one event prove of it.
    rising
        What a mean under P proves of it, or None.
    """

    claimed: float
    value: Callable[[Nodes], float]
    kink_error: Callable[[Nodes, float], float]
    proof: Proof
    rising: Rising | None


def question_of(witness: Witness) -> Question:
    """Return what a witness claims to show."""
    at, claimed = witness.at, witness.claimed + witness.slack
    if witness.quantity == "epsilon":

        def shown(delta: float) -> float:
            # delta at the claimed epsilon says that epsilon is larger, not by how much
            return math.nextafter(claimed, math.inf) if delta > at else 0.0

        rising = Rising(_excess_over(claimed), claimed, shown)
        return Question(
            claimed, lambda n: epsilon_at(n, at), epsilon_error, epsilon_proof(at), rising
        )
    if witness.quantity == "Renyi divergence":
        rising = Rising(
            lambda ratio: (at - 1) * ratio,
            -math.inf,
            lambda mean: math.log(mean) / (at - 1) if mean > 0 else 0.0,
        )
        return Question(
            claimed, lambda n: renyi_at(n, at), lambda n, value: 0.0, renyi_proof(at), rising
        )
    if witness.quantity == "mu":
        rising = Rising(_excess_over(at), at, lambda mean: mean)
        return Question(
            gaussian_delta(at, claimed),
            lambda n: math.exp(log_delta(n, at)),
            lambda n, value: crossing_error(n, at),
            delta_proof(at),
            rising,
        )
    return Question(
        claimed,
        lambda n: power_at(n, at),
        lambda n, value: power_error(n, at),
        power_proof(at),
        None,
    )


def _excess_over(epsilon: float) -> Callable[[Array], Array]:
    """Return the log of 1 - e^(epsilon - ratio), whose mean under P is delta(epsilon)."""

    def log_excess(ratio: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(-np.expm1(np.minimum(epsilon - ratio, 0.0))))

    return log_excess

"""The worst-case search as a source of pairs for the judge."""

from __future__ import annotations

import functools
import math

from audit.claims.claim import Claim
from audit.constructions import Construction
from audit.curves.quantities import EpsilonAtDelta, Quantity, RenyiAtOrder
from audit.mechanism import Composition, NoisySGD, Release
from audit.search import Epsilon, RenyiDivergence, worst_case
from audit.search.evaluation import quick_seconds

# The default search: this many pairs, on mechanisms where that takes a second or two.
_DEFAULT_EVALUATIONS = 60
_MOST_SECONDS = 0.02  # for one pair
# ... of objectives that claims share: at these deltas and Renyi orders
_SHARED_DELTAS = tuple(10.0**-k for k in (1, 3, 5, 8, 12))
_SHARED_ORDERS = (2.0, 8.0, 32.0)
# Limit on the time of a requested search, as estimated from the sizes of the laws.
_MOST_ASKED_SECONDS = 60.0
# For mu and for the power of a test the search maximises epsilon.
_TYPICAL_DELTA = 1e-3


def searched_pair(claim: Claim, quantity: Quantity) -> Construction | None:
    """Return the pair that the worst-case search finds; None if there is no search.

    A claim with ``search`` gets its own search, for its quantity, with fewer pairs if that many
    would take minutes by the sizes of their laws. Any other claim on a bounded convex mechanism
    gets a small search, of an objective near the quantity, which it shares with the other claims on
    that mechanism. Both depend on the number of pairs and the seed, not on time: they find the same
    pair on every machine.
    """
    mechanism, asked = claim.mechanism, claim.search
    if mechanism is None or isinstance(mechanism, Composition):
        return None
    if asked is None:
        if claim.pair is not None or not _is_cheap(mechanism):
            return None
        return _found(mechanism, _shared(_objective(quantity)), _DEFAULT_EVALUATIONS, 0, False)
    affordable = _MOST_ASKED_SECONDS / max(quick_seconds(mechanism), 1e-6)
    evaluations = min(asked.evaluations, int(min(affordable, 1e9)))
    if evaluations == 0:
        return None
    return _found(mechanism, _objective(quantity), evaluations, asked.seed, asked.many_dimensions)


@functools.lru_cache(maxsize=256)
def _found(
    mechanism: NoisySGD,
    objective: Epsilon | RenyiDivergence,
    evaluations: int,
    seed: int,
    many_dimensions: bool,
) -> Construction | None:
    try:
        found = worst_case(
            mechanism,
            objective=objective,
            evaluations=evaluations,
            seed=seed,
            many_dimensions=many_dimensions,
        )
    except ValueError:  # no pair whose laws can be computed
        return None
    return found.construction


@functools.lru_cache(maxsize=256)
def _is_cheap(mechanism: NoisySGD) -> bool:
    return (
        mechanism.release is Release.LAST_ITERATE
        and mechanism.convex
        and mechanism.diameter is not None
        and quick_seconds(mechanism) <= _MOST_SECONDS
    )


def _objective(quantity: Quantity) -> Epsilon | RenyiDivergence:
    if isinstance(quantity, EpsilonAtDelta):
        return Epsilon(quantity.at)
    if isinstance(quantity, RenyiAtOrder):
        return RenyiDivergence(quantity.at)
    return Epsilon(_TYPICAL_DELTA)


def _shared(objective: Epsilon | RenyiDivergence) -> Epsilon | RenyiDivergence:
    if isinstance(objective, RenyiDivergence):
        return RenyiDivergence(_nearest(objective.alpha, _SHARED_ORDERS))
    return Epsilon(_nearest(objective.delta, _SHARED_DELTAS)) if objective.delta else objective


def _nearest(value: float, choices: tuple[float, ...]) -> float:
    return min(choices, key=lambda choice: abs(math.log(choice / value)))

"""Lower bounds from samples, for pairs whose exact law would take too long."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit.claims.claimed_numbers import ClaimedNumber
from audit.claims.quantities import EpsilonAtDelta
from audit.constructions.base import Construction
from audit.curves import Order

# With fewer trials than this, an anytime-valid test of the claimed numbers themselves is used.
FEWEST_FOR_INTERVALS = 20_000

# The sequential test's ladder of claims, as multiples of the claimed epsilon.
_LADDER = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0)


def sampled_bounds(
    pair: Construction, numbers: Sequence[ClaimedNumber], *, trials: int, error: float, seed: int
) -> list[tuple[float, Order]]:
    """Return a lower confidence bound for each number, and the order of the pair that gives it.

    With probability at least 1 - ``error`` none of them exceeds the pair's true number. Scores are
    the final iterates themselves.
    """
    # these import Numba, so not before samples are needed
    from audit.estimation import audit_samples
    from audit.simulation import final_iterates

    x, x_prime = final_iterates(pair, trials=trials, seed=seed)
    if trials < FEWEST_FOR_INTERVALS:
        return _sequential(numbers, x, x_prime, error)
    deltas = tuple(
        dict.fromkeys(n.quantity.delta for n in numbers if isinstance(n.quantity, EpsilonAtDelta))
    )
    audit = audit_samples(x, x_prime, confidence=1 - error, seed=seed + 1, deltas=deltas)
    return [number.quantity.sampled_bound(audit) for number in numbers]


def _sequential(
    numbers: Sequence[ClaimedNumber], x: np.ndarray, x_prime: np.ndarray, error: float
) -> list[tuple[float, Order]]:
    """Test each claimed epsilon, and multiples of it, by betting; the epsilons share the error.

    Each order of the pair has a test of its own, at half of the epsilon's share.
    """
    from audit.estimation import SequentialAudit

    tested = sum(isinstance(number.quantity, EpsilonAtDelta) for number in numbers)
    found = []
    for number in numbers:
        best = 0.0, Order.FORWARD
        if isinstance(number.quantity, EpsilonAtDelta):
            delta = number.quantity.delta
            top = number.value + number.slack
            ladder = [multiple * top for multiple in _LADDER] if top > 0 else [0.0, *_LADDER]
            share = error / tested / 2
            for order in Order:
                test = SequentialAudit(
                    [(epsilon, delta) for epsilon in ladder], confidence=1 - share, order=order
                )
                test.update(x, x_prime)
                bound = test.epsilon_lower(delta)
                if bound >= top and test.evidence[0].refuted_after is not None:
                    # the refuted claim is "at most the claimed epsilon", so epsilon is above it
                    bound = math.nextafter(bound, math.inf)
                best = max(best, (bound, order), key=lambda pair: pair[0])
        found.append(best)
    return found

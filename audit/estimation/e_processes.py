"""E-processes against claims at several deltas, and the lower bounds that they certify."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audit.estimation.sequential import SequentialAudit
from audit.numerics.display import ShortRepr

Array = NDArray[np.float64]

# A grid of epsilons up to this one is tested, in addition to the claimed ones.
FARTHEST, _SPACING = 15.0, 0.1


class EProcesses(ShortRepr):
    """Anytime-valid tests of claims (epsilon, delta) at once; deltas share the error equally.

    At each delta a grid of claims is tested together with the given claims. The bound is the
    largest epsilon that is refuted together with all smaller ones; see
    `SequentialAudit.epsilon_lower`. The grid ends at ``farthest``.
    """

    def __init__(
        self,
        claims: Sequence[tuple[float, float]],
        confidence: float,
        *,
        farthest: float = FARTHEST,
    ) -> None:
        self.claims = tuple((float(epsilon), float(delta)) for epsilon, delta in claims)
        self.deltas = tuple(sorted({delta for _, delta in self.claims}, reverse=True))
        self.error = (1 - confidence) / len(self.deltas)
        self._tests = {}
        for one in self.deltas:
            made = {epsilon for epsilon, delta in self.claims if delta == one}
            grid = sorted({*np.arange(0.0, farthest, _SPACING).tolist(), *made})
            self._tests[one] = SequentialAudit(
                [(epsilon, one) for epsilon in grid], confidence=1 - self.error
            )

    def update(self, scores: Array, scores_prime: Array) -> None:
        """Bet on new pairs of scores."""
        for tests in self._tests.values():
            tests.update(scores, scores_prime)

    def epsilon_lower(self, delta: float) -> float:
        """Return the certified lower bound at a delta of the claims.

        If "at most e" is refuted, epsilon is above e: the bound is the next floating-point number.
        """
        tests = self._tests[delta]
        bound = tests.epsilon_lower(delta)
        smallest = tests.evidence[0]  # the claim epsilon = 0
        return bound if smallest.refuted_after is None else math.nextafter(bound, math.inf)

    @property
    def all_refuted(self) -> bool:
        """Whether every claim is refuted."""
        return all(self.epsilon_lower(delta) > epsilon for epsilon, delta in self.claims)

    @property
    def log_e_values(self) -> tuple[float, ...]:
        """The logarithm of the current e-value against each claim."""
        found = []
        for epsilon, delta in self.claims:
            tests = self._tests[delta]
            found.append(tests.evidence[tests.claims.index((epsilon, delta))].log_e_value)
        return tuple(found)

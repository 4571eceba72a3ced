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
        grid = np.arange(0.0, farthest, _SPACING).tolist()
        tested = {*self.claims, *((epsilon, delta) for delta in self.deltas for epsilon in grid)}
        self._tests = SequentialAudit(sorted(tested), confidence=1 - self.error)
        self._places = {claim: j for j, claim in enumerate(self._tests.claims)}

    def update(self, scores: Array, scores_prime: Array) -> None:
        """Bet on new pairs of scores."""
        self._tests.update(scores, scores_prime)

    def epsilon_lower(self, delta: float) -> float:
        """Return the certified lower bound at a delta of the claims.

        If "at most e" is refuted, epsilon is above e: the bound is the next floating-point number.
        """
        bound = self._tests.epsilon_lower(delta)
        smallest = self._tests.evidence[self._places[0.0, delta]]
        return bound if smallest.refuted_after is None else math.nextafter(bound, math.inf)

    @property
    def all_refuted(self) -> bool:
        """Whether every claim is refuted."""
        return all(self.epsilon_lower(delta) > epsilon for epsilon, delta in self.claims)

    @property
    def log_e_values(self) -> tuple[float, ...]:
        """The logarithm of the current e-value against each claim."""
        evidence = self._tests.evidence
        return tuple(evidence[self._places[claim]].log_e_value for claim in self.claims)

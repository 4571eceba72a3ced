"""Runs and assumptions shared by the bounds of this package.

With s = eta sigma the noise of a step, X_(k+1) = Pi(phi_k(X_k) + s Z_k) and X' the same with
phi'_k, from a common start. The updates phi_k and phi'_k are c-Lipschitz. A step that uses the
differing record has |phi_k - phi'_k| <= v; in other steps the updates are equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.bounds.accounting.shift_allocation import geometric
from audit.bounds.accounting.update import contraction_gap, family_sensitivity
from audit.bounds.assumptions import (
    CONSTANT_STEP_SIZE,
    CONTRACTIVE_STEPS,
    CONVEX,
    FIXED_SIZE,
    LAST_ITERATE,
    UNCLIPPED,
    Assumption,
)
from audit.mechanism import Batching, NoisySGD

Array = NDArray[np.float64]


FORGETS = Assumption(
    "a bounded domain, or strongly convex losses with steps that contract by c < 1",
    lambda m: m.diameter is not None or m.contraction < 1,
    lambda m: f"diameter={m.diameter} and c={m.contraction:g}",
)
ASSUMPTIONS = (
    LAST_ITERATE,
    FIXED_SIZE,
    CONVEX,
    UNCLIPPED,
    CONTRACTIVE_STEPS,
    CONSTANT_STEP_SIZE,
    FORGETS,
)


@dataclass(frozen=True)
class Run:
    """Worst run that a mechanism allows, in numbers.

    The differing record of fixed batches is taken to be in the last one. A run in which j steps
    follow its last batch is a post-processing of a run that is j steps shorter, and that shorter
    run is among those of T steps (updates may be constant, which discards the first j steps).
    Shuffled batches are a mixture over positions, which both datasets share.

    Parameters
    ----------
    steps : int
        Number of steps T.
    noise : float
        Standard deviation s of a step's noise.
    shift : float
        Distance v by which a step that uses the record separates the iterates.
    gap : float
        Value of 1 - c, in [0, 1].
    diameter : float
        Diameter D; infinite if the domain is unbounded.
    period : int
        The record is used in the last step, and once in every ``period`` steps before.
    rate : float
        Probability of its use in these steps: below 1 for sampled batches, whose period is 1.
    """

    steps: int
    noise: float
    shift: float
    gap: float
    diameter: float
    period: int
    rate: float

    @classmethod
    def of(cls, mechanism: NoisySGD) -> Run:
        """Return the run of a mechanism that meets ``ASSUMPTIONS``."""
        m = mechanism
        sampled = m.batching is Batching.WITHOUT_REPLACEMENT and m.batch_size < m.dataset_size
        cycles = m.batching in (Batching.CYCLIC, Batching.SHUFFLED)
        sensitivity = family_sensitivity(m) if sampled else m.sensitivity
        return cls(
            steps=m.steps,
            noise=m.step_std,
            shift=m.constant_step_size * sensitivity / m.batch_size,
            gap=min(max(contraction_gap(m), 0.0), 1.0),
            diameter=math.inf if m.diameter is None else float(m.diameter),
            period=m.dataset_size // m.batch_size if cycles else 1,
            rate=m.sampling_rate if sampled else 1.0,
        )

    @property
    def contraction(self) -> float:
        """Lipschitz constant c of an update."""
        return 1.0 - self.gap

    @property
    def ratio(self) -> float:
        """Gaussian parameter v/s of a step that uses the record."""
        return self.shift / self.noise

    def meetings(self, steps: ArrayLike) -> Array:
        """Return the largest number of uses of the record in ``steps`` consecutive steps."""
        return np.asarray(np.ceil(np.asarray(steps, dtype=np.float64) / self.period))

    def tracked(self, steps: ArrayLike) -> Array:
        """Return a bound on the distance of the iterates after ``steps`` steps with shared noise.

        At most D, and at most v (1 + c^l + c^2l + ...) with one term per use of the record and l
        the period.
        """
        log_c = math.log1p(-self.gap) if self.gap < 1 else -700.0
        grown = self.shift * geometric(log_c * self.period, self.meetings(steps))
        return np.asarray(np.minimum(grown, self.diameter))

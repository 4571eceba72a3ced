"""Table 1 of paper 004: its parameters, its printed numbers, and the same numbers computed."""

from __future__ import annotations

from dataclasses import dataclass

from audit import bounds
from audit.mechanism import Batching, NoisySGD

# epsilon after so many epochs: by composition, by Renyi divergences, and by Theorem 4.5
PRINTED = {50: (30.51, 5.82, 4.34), 100: (49.88, 7.61, 5.60), 200: (83.83, 9.88, 7.58)}
DELTA = 1e-5
SIZE = 60_000  # records of MNIST
# the columns, in order, as entries of the catalogue
ENTRIES = ("bsa24.theorem_4_4", "bsa24.table_1_renyi", "bsa24.theorem_4_5")


@dataclass(frozen=True, kw_only=True)
class Level:
    """Three epsilons of one mechanism: Theorem 4.4, the Renyi bound, and Theorem 4.5."""

    composition: float
    renyi: float
    convergent: float

    @property
    def values(self) -> tuple[float, float, float]:
        """In the order of Table 1's columns."""
        return self.composition, self.renyi, self.convergent


def mechanism(epochs: int) -> NoisySGD:
    """Return the mechanism of Table 1 (section 4.4 of paper 004)."""
    return NoisySGD(
        steps=40 * epochs,
        dataset_size=SIZE,
        batch_size=SIZE // 40,
        step_size=0.05,
        noise_std=0.01,
        gradient_sensitivity=10.0,
        strong_convexity=0.002,
        smoothness=2.0,  # any that keeps a step a contraction: no epsilon depends on it
        batching=Batching.CYCLIC,
    )


def level(accounted: NoisySGD, delta: float) -> Level:
    """Return the three epsilons of a mechanism at a delta."""
    composition, renyi, convergent = (
        float(bounds.evaluate(id, accounted).epsilon(delta)) for id in ENTRIES
    )
    return Level(composition=composition, renyi=renyi, convergent=convergent)

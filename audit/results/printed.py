"""Numbers and choices that the papers print, computed again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from audit import bounds
from audit.bounds.bsa24_langevin import threshold_5_4
from audit.mechanism import Batching, NoisySGD

_AT22 = (
    "Altschuler, Talwar (2022), Privacy of Noisy Stochastic Gradient Descent: More Iterations "
    "without More Privacy Loss, "
)
_BSA24 = "Bok, Su, Altschuler (2024), Shifted Interpolation for Differential Privacy, "
_DELTA = 1e-5
_TABLE_1 = {50: (30.51, 5.82, 4.34), 100: (49.88, 7.61, 5.60), 200: (83.83, 9.88, 7.58)}
_COLUMNS = {
    "composition": "bsa24.theorem_4_4",
    "Renyi": "bsa24.table_1_renyi",
    "ours": "bsa24.theorem_4_5",
}


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A printed number, and what it comes to.

    ``tolerance`` is half a unit of the last printed digit, or what a comparison allows.
    """

    id: str
    citation: str
    statement: str
    expected: float
    found: float
    tolerance: float

    @property
    def verdict(self) -> str:
        """The word: ``holds``, or ``refuted`` where the two differ by more than the tolerance."""
        return "holds" if abs(self.found - self.expected) <= self.tolerance else "refuted"


def printed() -> tuple[Printed, ...]:
    """Return every printed number that is computed again; a fraction of a second."""
    return (*_table_1(), _pure_threshold(), _normal_tail(), _best_length(), _proper_choice())


def logistic_regression(epochs: int) -> NoisySGD:
    """Return the mechanism of Table 1 of paper 004 (its Appendix D.2)."""
    return NoisySGD(
        steps=40 * epochs,
        dataset_size=60_000,
        batch_size=1500,
        step_size=0.05,
        noise_std=0.01,
        gradient_sensitivity=10.0,
        strong_convexity=0.002,
        smoothness=2.0,
        batching=Batching.CYCLIC,
    )


def _table_1() -> list[Printed]:
    found = []
    for epochs, numbers in _TABLE_1.items():
        mechanism = logistic_regression(epochs)
        for (column, id), expected in zip(_COLUMNS.items(), numbers, strict=True):
            epsilon = float(bounds.evaluate(id, mechanism).epsilon(_DELTA))
            found.append(
                Printed(
                    id=f"bsa24.table_1.{column.lower()}_{epochs}",
                    citation=f"{_BSA24}Table 1",
                    statement=f"epsilon at delta = 1e-5 after {epochs} epochs, column {column}",
                    expected=expected,
                    found=epsilon,
                    tolerance=0.005,
                )
            )
    return found


def _pure_threshold() -> Printed:
    """Where mu = 2 sqrt(LD) says more than (2LD, 0): 2 Phi(sqrt x) - 1 = tanh x."""
    return Printed(
        id="bsa24.section_5_2",
        citation=f"{_BSA24}section 5.2",
        statement="the LD from which Corollary 5.4 says more than (2LD, 0)",
        expected=0.677,
        found=threshold_5_4(),
        tolerance=1e-3,  # it is rounded up, so that the claim is safe
    )


def _normal_tail() -> Printed:
    return Printed(
        id="at22.appendix_a_4_tail",
        citation=f"{_AT22}Appendix A.4",
        statement="P[N(0, 1) >= -0.1/sqrt(0.001)]",
        expected=0.999993,
        found=float(ndtr(0.1 / math.sqrt(0.001))),
        tolerance=5e-7,
    )


def _best_length() -> Printed:
    """Check the formula for T~ after (B.3), in units where alpha D^2/(2 eta^2 sigma_1^2) = 100."""
    contraction, composed, cost = 0.9, 0.01, 100.0

    def bound(length: float) -> float:
        grown = math.expm1(-2 * length * math.log(contraction))
        return length * composed + cost * (1 - contraction**2) / grown

    def stationary(gap: float) -> float:
        beta = 2 * cost * gap * math.log(contraction) / composed
        root = (2 - beta + math.sqrt((2 - beta) ** 2 - 4)) / 2
        return -math.log(root) / (2 * math.log(contraction))

    least = bound(stationary(1 - contraction**2))
    return Printed(
        id="at22.b_3_best_length",
        citation=f"{_AT22}Appendix B.3, the formula for the best T~",
        statement="(B.3)'s second term at the printed T~, over its least value (c = .9)",
        expected=1.0,
        found=bound(stationary((1 - contraction) ** 2)) / least,
        tolerance=1e-9,
    )


def _proper_choice() -> Printed:
    """a_t proportional to eta_t against a_t proportional to eta_t^2, D = 1."""
    etas = np.arange(1, 1001) ** -0.5
    expected = etas.size / float(etas.sum()) ** 2
    return Printed(
        id="at22.eq_5_7_proper_choice",
        citation=f"{_AT22}section 5.3",
        statement=(
            "the least sum of a_t^2/eta_t^2 with sum a_t = D = 1, claimed to be at a_t "
            "proportional to eta_t (eta_t = t^(-1/2), 1000 steps)"
        ),
        expected=expected,
        found=1 / float((etas**2).sum()),
        tolerance=1e-9,
    )

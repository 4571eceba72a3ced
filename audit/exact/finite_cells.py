"""Outcomes of repeated draws from two finite laws, as cells that need no cutting."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audit.constructions.explicit import Finite
from audit.curves.finite_pair import Cells
from audit.exact.cell_curve import Grid
from audit.exact.tables import UNIT

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FiniteCells(Grid):
    """Cells of one loss each.

    Parameters
    ----------
    outcomes : Cells
        The cells.
    """

    outcomes: Cells

    # nothing lies on a line
    points: Array = field(init=False, default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, pair: Finite) -> FiniteCells:
        """Return the counts of each outcome, a sufficient statistic of the draws.

        A logarithm, a product with it and a sum over outcomes err by a unit of rounding each, and
        log n! by five. Probabilities that are written down need not sum to 1 in their last digits.
        """
        counts = _counts(pair.times, len(pair.first))
        table = _log_factorials(pair.times)
        factorials = table[counts.astype(np.intp)]
        ways = table[-1] - factorials.sum(axis=1)
        units = UNIT * (6 + counts.shape[1])
        logs, errors, sizes = [], [], []
        for law in (pair.first, pair.second):
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(counts > 0, counts * np.log(law), 0.0)
            log_power = terms.sum(axis=1)
            size = np.where(np.isfinite(log_power), -log_power, 0.0)
            own = units * (size + table[-1] + factorials.sum(axis=1) + 2)
            sums = 2 * pair.times * abs(math.fsum(law) - 1)
            logs.append(log_power)
            sizes.append(units * (size + 1) + sums)
            errors.append(own + sums)
        some = (logs[0] > -np.inf) | (logs[1] > -np.inf)
        loss, slack = (logs[0] - logs[1])[some], (sizes[0] + sizes[1])[some]
        log_p, log_q = ((ways + log)[some] for log in logs)
        error_p, error_q = (error[some] for error in errors)
        return cls(Cells(log_p, log_q, loss - slack, loss + slack, error_p, error_q))

    def cells(self) -> Cells:
        """Return the cells."""
        return self.outcomes


def _log_factorials(most: int) -> Array:
    """Return log n! up to a number: of integers, and by Stirling's series for n above 32.

    The series errs by less than its next term, 1/(1188 n^9) (Whittaker and Watson 1927, section
    12.33), and the rounding of n log n is at most 1.4 times that of the sum.
    """
    n = np.arange(33.0, most + 1)
    series = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5) - 1 / (1680 * n**7)
    large = n * np.log(n) - n + (0.5 * np.log(2 * math.pi * n) + series)
    small = [math.log(math.factorial(k)) for k in range(min(most, 32) + 1)]
    return np.concatenate([small, large])


def _counts(times: int, outcomes: int) -> Array:
    """Return every way to spread ``times`` draws over the outcomes, shape (ways, outcomes)."""
    if outcomes == 1:
        return np.array([[float(times)]])
    rows = []
    for first in range(times + 1):
        rest = _counts(times - first, outcomes - 1)
        rows.append(np.column_stack([np.full(len(rest), float(first)), rest]))
    return np.concatenate(rows)

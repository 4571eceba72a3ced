"""Elementary symmetric polynomials on groups of outcomes."""

from __future__ import annotations

import math

from audit.numerics.symmetric_sums import SymmetricSums


def test_means_are_those_of_the_variables() -> None:
    """e_j has the mean C(n, j) mean^j; the counted rounding covers the difference."""
    found = SymmetricSums.of_lognormal(1.3, 0.2, 4).times(11, 300)
    for j, moment in enumerate(found.moments):
        expected = math.comb(11, j) * 0.2**j
        assert abs(float(moment.sum()) - expected) < found.rounding * expected
    assert found.moments.shape[1] < 330
    assert found.rounding < 1e-10

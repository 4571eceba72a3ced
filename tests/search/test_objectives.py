import math

import numpy as np
import pytest
from scipy.stats import norm

from audit.curves import GaussianCurve
from audit.search import Epsilon, RenyiDivergence

# Cells so fine that sums over them are integrals to five digits.
EDGES = np.linspace(-18, 18, 36_001)
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2
P, Q = (norm(mean).logpdf(MIDDLES) + np.log(EDGES[1] - EDGES[0]) for mean in (1.0, 0.0))
CURVE = GaussianCurve(1.0)


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-9])
def test_epsilon_of_cells(delta):
    assert Epsilon(delta).quick(P, Q) == pytest.approx(CURVE.epsilon(delta), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 6.0])
def test_divergence_of_cells(alpha):
    assert RenyiDivergence(alpha).quick(P, Q) == pytest.approx(alpha / 2, rel=1e-3)


def test_by_hand():
    # delta(epsilon) of (.6, .4) against (.2, .8) is .6 - .2 e^epsilon in the first order.
    p, q = np.log([0.6, 0.4]), np.log([0.2, 0.8])
    assert Epsilon(0.1).quick(p, q) == pytest.approx(math.log(0.5 / 0.2), rel=1e-12)
    assert Epsilon(0.1).quick(p, p) == 0.0
    with np.errstate(divide="ignore"):
        never = np.log([0.0, 1.0])
    assert Epsilon(0.1).quick(p, never) == math.inf
    assert RenyiDivergence(2.0).quick(p, never) == math.inf


def test_refusals():
    for objective, place in ((Epsilon, "delta"), (RenyiDivergence, "alpha")):
        with pytest.raises(ValueError, match=f"{place} must be .*, got 1"):
            objective(1)

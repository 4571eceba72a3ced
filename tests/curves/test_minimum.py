import numpy as np
import pytest

from audit.curves import GaussianCurve, MinimumCurve, RenyiCurve

ONE = GaussianCurve(1.0)
OTHER = RenyiCurve(lambda a: np.full_like(a, 0.9))  # loses at large delta, wins at small
BOTH = MinimumCurve((ONE, OTHER), ("gaussian", "bounded"))


def test_takes_the_better_of_each():
    deltas = np.geomspace(1e-15, 0.3, 30)
    values = np.asarray(BOTH.epsilon(deltas))
    assert values == pytest.approx(np.minimum(ONE.epsilon(deltas), OTHER.epsilon(deltas)))
    assert BOTH.delta(0.7) == min(ONE.delta(0.7), OTHER.delta(0.7))
    assert BOTH.beta(0.1) == max(ONE.beta(0.1), OTHER.beta(0.1))
    assert BOTH.renyi(5.0) == 0.9
    assert BOTH.renyi(1.1) == pytest.approx(0.55)


def test_says_which_component_won():
    assert BOTH.winner(0.3) == "gaussian"
    assert BOTH.winner(1e-30) == "bounded"


def test_is_symmetric_only_if_all_are():
    assert BOTH.symmetric


def test_refuses_bad_input():
    with pytest.raises(ValueError, match="curves must hold at least one curve, got none"):
        MinimumCurve((), ())
    with pytest.raises(ValueError, match=r"labels must be as many as curves \(1\), got 2"):
        MinimumCurve((ONE,), ("a", "b"))
    with pytest.raises(ValueError, match="curve must be a PrivacyCurve, got 3"):
        MinimumCurve((3,), ("a",))
    with pytest.raises(ValueError, match="delta must be in"):
        BOTH.winner(1.0)

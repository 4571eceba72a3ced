import math
import subprocess
import sys

import numpy as np
import pytest

from audit.numerics.roots import (
    bracketed_root,
    certified_crossing,
    decreasing_root,
    last_integer,
    root_from_below,
)


def test_one_root_between_two_ends():
    root = bracketed_root(lambda x: math.exp(x) - 2, 0.0, 3.0, xtol=1e-14)
    assert root == pytest.approx(math.log(2), abs=1e-14)
    with pytest.raises(ValueError, match="different signs"):
        bracketed_root(lambda x: x + 1, 0.0, 3.0, xtol=1e-14)


def test_decreasing_roots_of_rough_functions() -> None:
    targets = np.array([1e-12, 0.1, 0.5, 7.0])
    ends = np.zeros(4), np.full(4, 10.0)
    root = decreasing_root(lambda x: targets - x**3, *ends)
    np.testing.assert_allclose(root, np.cbrt(targets), rtol=1e-14)
    assert np.all(targets - root**3 <= 0)
    rough = decreasing_root(lambda x: targets - x**3, *ends, xtol=1e-3)
    assert np.all((rough >= root * (1 - 1e-14)) & (rough <= root + 1e-3))
    step = decreasing_root(lambda x: np.where(x < 1 / 3, np.inf, -np.inf), np.zeros(1), np.ones(1))
    assert 1 / 3 <= step[0] <= (1 / 3) * (1 + 1e-15)
    assert decreasing_root(lambda x: -x, np.zeros(0), np.ones(0)).size == 0


def test_laws_and_samples_load_without_what_is_slow_to_load():
    code = (
        "import sys, audit.exact, audit.simulation, audit_dimensions; "
        "slow = ('numba', 'scipy.optimize', 'scipy.stats'); "
        "print([m for m in slow if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("last", [3, 4, 17, 98])
def test_last_integer_of_a_condition(last):
    tried = []

    def holds(number):
        tried.append(number)
        return number <= last

    assert last_integer(holds, 3, 99) == last
    assert len(tried) <= 7
    assert not {3, 99} & set(tried)


def test_a_root_is_taken_from_below() -> None:
    for goal in np.linspace(0.01, 3.9, 50).tolist():
        root = root_from_below(lambda x, goal=goal: x * x - goal, 2.0)
        assert 0 <= goal - root * root < 1e-11
    assert root_from_below(lambda x: x + 1, 2.0) == 0.0
    assert root_from_below(lambda x: x - 3, 2.0) == 2.0


@pytest.mark.parametrize("goal", [2.0, 3e7, 9e8])
def test_a_crossing_before_the_farthest_place_is_found(goal: float) -> None:
    ends = [certified_crossing(lambda x: goal - x, 1.0, above=above) for above in (False, True)]
    assert goal * (1 - 1e-12) <= ends[0] < goal <= ends[1] <= goal * (1 + 1e-12)
    assert certified_crossing(lambda x: 1.0, 1.0, above=True) == math.inf
    assert certified_crossing(lambda x: 1.0, 1.0, above=False) == 1e9

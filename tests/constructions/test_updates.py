import math

import numpy as np
import pytest

from audit.constructions import PiecewiseLinear

LINE = PiecewiseLinear((-1.0, 0.0, 2.0), (0.5, 1.5, 1.0), (2.0, -3.0))


def test_values_inside_and_beyond_the_points():
    x = np.array([-2.0, -1.0, -0.5, 0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(LINE(x), [-1.5, 0.5, 1.0, 1.5, 1.25, 1.0, -2.0], rtol=1e-15)
    assert LINE.kinks == (-1.0, 0.0, 2.0)


def test_one_point_bends_once():
    hinge = PiecewiseLinear((0.5,), (0.0,), (0.0, 1.0))
    np.testing.assert_array_equal(hinge(np.array([-1.0, 0.5, 2.5])), [0.0, 0.0, 2.0])


def test_clipped_is_numpys_clip():
    x = np.linspace(-3, 3, 101)
    line = PiecewiseLinear.clipped(2.0, 0.25, 0.75)
    np.testing.assert_allclose(line(x), np.clip(2 * (x - 0.25), -0.75, 0.75), atol=1e-15)
    assert PiecewiseLinear.constant(0.3)(x).tolist() == [0.3] * 101


def test_totals_add_up_everywhere():
    x = np.linspace(-4, 4, 333)
    other = PiecewiseLinear.clipped(1.5, 0.3, 0.4)
    total = PiecewiseLinear.total([(0.5, LINE), (-2.0, other)])
    # a few roundings of numbers below 10
    np.testing.assert_allclose(total(x), 0.5 * LINE(x) - 2 * other(x), atol=2e-14)


def test_ranges_of_slopes_and_values():
    assert LINE.slope_range() == (-3.0, 2.0)
    assert LINE.slope_range(-1.0, 2.0) == (-0.25, 1.0)
    assert LINE.slope_range(0.0, 1.0) == (-0.25, -0.25)
    assert LINE.value_range(-1.0, 2.0) == (0.5, 1.5)
    assert LINE.value_range(-math.inf, 0.0) == (-math.inf, 1.5)
    assert LINE.value_range(2.5, 3.0) == (-2.0, -0.5)
    assert PiecewiseLinear.clipped(1.0, 0.0, 0.5).value_range(-math.inf, math.inf) == (-0.5, 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (), (1.0, 1.0)), "points and values must be one or more pairs"),
        (((0.0, 1.0), (0.0,), (1.0, 1.0)), "got 2, 1 and 2"),
        (((1.0, 0.0), (0.0, 0.0), (1.0, 1.0)), r"points must ascend, got \(1.0, 0.0\)"),
        (((0.0,), (math.nan,), (1.0, 1.0)), "values_0 must be a finite number, got nan"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        PiecewiseLinear(*arguments)

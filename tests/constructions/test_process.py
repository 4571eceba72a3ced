"""Processes and their update maps: parts, values and refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from audit.constructions import Affine, Mapped, PiecewiseLinear, Process, Segment, Step, Wall
from audit.constructions.process import DependentStep, Path, split

# from 0 to 1, and back again: what an epoch of two batches remembers
OUT = DependentStep((Affine(),), (1.0,), 1.0, ((0, 1),))
BACK = DependentStep((Affine(), Affine(1.0)), (1.0, 1.0), 1.0, ((1, 0), (2, 0)))
TURN = DependentStep((Affine(), Affine()), (1.0, 1.0), 1.0, ((0, 1), (1, 0)))
STEPS = tuple(Step((Affine(float(k)),), (1.0,), 1.0) for k in range(3))


def path(*segments: Segment, probability: float = 1.0) -> Path:
    return Path(probability, segments)


def sequence(segments: tuple[Segment, ...]) -> list[Step]:
    return list(path(*segments).steps())


def test_lengths_and_steps() -> None:
    own = path(Segment(STEPS, 2), Segment(STEPS[:1]), Segment(STEPS, 0), Segment(()))
    assert len(own) == 7
    assert list(own.steps()) == [*STEPS, *STEPS, STEPS[0]]
    assert Process(0.0, (own,)).distinct_steps() == STEPS


@pytest.mark.parametrize("count", range(12))
def test_splits_join_again(count: int) -> None:
    segments = (Segment(STEPS, 2), Segment(STEPS[1:], 1), Segment(()), Segment(STEPS[:2], 2))
    before, after = split(segments, count)
    whole = sequence(segments)
    assert sequence(before) == whole[:count]
    assert sequence(after) == whole[count:]
    assert all(len(s) for s in itertools.chain(before, after))


def test_truncated() -> None:
    own = Process(0.0, (path(Segment(STEPS, 4)),), -1.0, 1.0, Wall.ABSORB)
    assert list(own.truncated(7).paths[0].steps()) == sequence((Segment(STEPS, 4),))[:7]
    assert own.truncated(7).lower_wall is Wall.ABSORB
    with pytest.raises(ValueError, match="steps must be at most the process's 12, got 13"):
        own.truncated(13)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Step((), (), 1.0), r"weights must be one for each of the 0 maps, got 0"),
        (lambda: Step((Affine(),), (0.5, 0.5), 1.0), r"each of the 1 maps, got 2"),
        (lambda: Step((Affine(),), (0.9,), 1.0), r"weights must sum to 1, got 0.9"),
        (lambda: Step((Affine(), Affine(1.0)), (1.5, -0.5), 1.0), r"weights_0 must be in \[0, 1\]"),
        (lambda: Step((Affine(),), (1.0,), 0.0), r"noise_std must be a positive .* got 0.0"),
        (lambda: Affine(math.nan), r"shift must be a finite number, got nan"),
        (lambda: Segment(STEPS, -1), r"times must be a whole number of at least 0, got -1"),
        (lambda: Path(1.5, ()), r"probability must be in \[0, 1\], got 1.5"),
        (
            lambda: Process(0.0, (path(Segment(STEPS), probability=0.5),)),
            r"probabilities that sum to 1, got 0.5",
        ),
        (lambda: Process(0.0, ()), r"one step or more each, got lengths \[\]"),
        (
            lambda: Process(0.0, (path(Segment(STEPS), probability=0.5), path(probability=0.5))),
            r"one step or more each, got lengths \[3, 0\]",
        ),
        (
            lambda: Process(2.0, (path(Segment(STEPS)),), -1.0, 1.0),
            r"start must be in the domain \[-1, 1\], got 2.0",
        ),
        (lambda: Process(math.inf, (path(Segment(STEPS)),)), r"start must be a finite number"),
        (
            lambda: Process(1.0, (path(Segment(STEPS)),), 1.0, 1.0),
            r"lower must be below upper \(1\), got 1.0",
        ),
        (
            lambda: Process(0.0, (path(Segment((TURN,), 10**6), Segment((BACK,))),)),
            "moves must be given for each memory reached, got none for 0",
        ),
        (
            lambda: Process(0.0, (path(Segment((OUT,), 2)),)),
            "moves must be given for each memory reached, got none for 1",
        ),
    ],
)
def test_refusals(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()


def test_memories_that_are_never_reached_need_no_moves() -> None:
    assert Process(0.0, (path(Segment((TURN,), 10**6 + 1), Segment((BACK,))),))
    assert len(Process(0.0, (path(Segment((OUT, *STEPS, BACK), 10**6), Segment((OUT,))),)))


def test_maps() -> None:
    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(Affine(0.5, -2.0)(x), [2.5, 0.5, -3.5])
    own = Mapped(np.abs, (0.0,))
    np.testing.assert_array_equal(own(x), [1.0, 0.0, 2.0])
    assert own.kinks == (0.0,)
    assert Affine().kinks == ()
    assert len({Affine(0.0), Affine(-0.0), Affine()}) == 1


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
def test_bad_lines(arguments, message):
    with pytest.raises(ValueError, match=message):
        PiecewiseLinear(*arguments)

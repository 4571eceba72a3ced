"""Processes: their parts and their refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from audit.constructions import Affine, Mapped, Process, Segment, Step, Wall
from audit.constructions.process import Path, split

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
    ],
)
def test_refusals(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()


def test_maps() -> None:
    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(Affine(0.5, -2.0)(x), [2.5, 0.5, -3.5])
    own = Mapped(np.abs, (0.0,))
    np.testing.assert_array_equal(own(x), [1.0, 0.0, 2.0])
    assert own.kinks == (0.0,)
    assert Affine().kinks == ()
    assert len({Affine(0.0), Affine(-0.0), Affine()}) == 1

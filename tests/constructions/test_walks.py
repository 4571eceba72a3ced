"""The walks: their update maps, and what they refuse."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from audit import Batching, Relation
from audit.constructions import (
    Affine,
    BiasedWalk,
    DriftedWalk,
    Inadmissible,
    Mapped,
    PiecewiseLinear,
    Process,
    Segment,
    Step,
    TwoSidedWalk,
    Wall,
)
from audit.constructions.process import DependentStep, Path, split
from tests.choices import RELATIONS
from tests.mechanisms import noisy_sgd

mechanism = partial(
    noisy_sgd,
    steps=80,
    dataset_size=6,
    batch_size=2,
    step_size=0.1,
    noise_std=0.5,
    lipschitz=1.5,
    batching=Batching.WITHOUT_REPLACEMENT,
    smoothness=None,
)


def shifts(process, step: int = 0) -> dict[float, float]:  # type: ignore[no-untyped-def]
    """Displacements of one step of the first path, with their probabilities."""
    chosen = list(process.paths[0].steps())[step]
    return {round(phi.shift, 12): w for phi, w in zip(chosen.maps, chosen.weights, strict=True)}


def test_biased_walk_jumps_by_eta_l_over_b() -> None:
    symmetric, biased = BiasedWalk(mechanism()).processes()
    assert shifts(symmetric) == {0.0: pytest.approx(1)}
    assert shifts(biased) == {0.0: pytest.approx(2 / 3), 0.075: pytest.approx(1 / 3)}
    assert next(biased.paths[0].steps()).noise_std == pytest.approx(0.05)
    assert (biased.lower, biased.upper, biased.start) == (-0.5, 0.5, 0.0)


@pytest.mark.parametrize("relation", RELATIONS)
def test_biased_walk_is_the_same_in_both_relations(relation: Relation) -> None:
    assert shifts(BiasedWalk(mechanism(relation=relation)).processes()[1])[0.075] > 0


@pytest.mark.parametrize(("start", "jump"), [(-0.2, 0.075), (0.0, 0.075), (0.2, -0.075)])
def test_biased_walk_leaves_the_nearer_end(start: float, jump: float) -> None:
    assert jump in shifts(BiasedWalk(mechanism(), start=start).processes()[1])


def test_two_sided_walk_pushes_both_ways() -> None:
    first, second = TwoSidedWalk(mechanism()).processes()
    assert set(shifts(first)) == {0.0, 0.075}
    assert set(shifts(second)) == {0.0, -0.075}
    narrow = TwoSidedWalk(mechanism(gradient_sensitivity=1.0)).processes()[0]
    assert set(shifts(narrow)) == {0.0, 0.025}


def test_drift_is_the_displacement_of_a_step_by_the_others() -> None:
    first, second = DriftedWalk(mechanism(), drift=0.12).processes()
    assert set(shifts(first)) == {0.12, 0.135}  # the record took the place of one of the others
    assert set(shifts(second)) == {0.12, -0.015}
    full = mechanism(batching=Batching.FULL, batch_size=6)
    assert set(shifts(DriftedWalk(full, drift=0.12).processes()[0])) == {0.145}


def test_drift_under_zero_out() -> None:
    first, second = DriftedWalk(mechanism(relation=Relation.ZERO_OUT), drift=0.12).processes()
    assert set(shifts(first)) == {0.12, 0.135}
    assert set(shifts(second)) == {0.12, 0.06}


def test_poisson_divides_by_the_nominal_batch_size() -> None:
    m = mechanism(batching=Batching.POISSON, dataset_size=4)
    first, _ = DriftedWalk(m, drift=0.1).processes()
    found = shifts(first)
    # k others push by 0.05 each, the record by 0.075
    expected: dict[float, float] = {}
    for k in range(4):
        weight = math.comb(3, k) / 16
        for place in (round(0.05 * k, 12), round(0.05 * k + 0.075, 12)):
            expected[place] = expected.get(place, 0) + weight
    assert found == pytest.approx(expected, rel=1e-13)
    assert math.fsum(found.values()) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(("n", "b"), [(1, 1), (3, 3), (1000, 50), (5000, 1)])
def test_poisson_weights_arebinomial(n: int, b: int) -> None:
    from scipy.stats import binom

    from audit.constructions.batches import binomial

    weights = np.array(binomial(n - 1, b / n, 1 - b / n))
    expected = binom.pmf(np.arange(n), n - 1, b / n)
    matters = expected > 1e-250
    np.testing.assert_allclose(weights[matters], expected[matters], rtol=2e-12)
    assert math.fsum(weights) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 9])
def test_the_last_batch_of_a_cyclic_run_holds_the_record(steps: int) -> None:
    m = mechanism(batching=Batching.CYCLIC, steps=steps)
    process = TwoSidedWalk(m).processes()[0]
    holds = [0.075 in shifts(process, k) for k in range(steps)]
    assert holds == [(steps - 1 - k) % 3 == 0 for k in range(steps)]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_cyclic_positions(position: int) -> None:
    m = mechanism(batching=Batching.CYCLIC, steps=8)
    process = TwoSidedWalk(m, position=position).processes()[0]
    holds = [k for k in range(8) if 0.075 in shifts(process, k)]
    assert holds == list(range(position, 8, 3))


def test_shuffled_is_a_mixture_over_positions() -> None:
    m = mechanism(batching=Batching.SHUFFLED, steps=4)
    process = TwoSidedWalk(m).processes()[0]
    cyclic = [
        TwoSidedWalk(mechanism(batching=Batching.CYCLIC, steps=4), position=k).processes()[0]
        for k in range(3)
    ]
    assert [p.probability for p in process.paths] == pytest.approx([1 / 3] * 3)
    assert [p.segments for p in process.paths] == [c.paths[0].segments for c in cyclic]


def test_schedules_scale_pushes_and_noise() -> None:
    etas = (0.1, 0.2, 0.1, 0.4)
    process = TwoSidedWalk(
        mechanism(steps=4, step_size=etas, batching=Batching.CYCLIC, batch_size=6)
    ).processes()[0]
    steps = list(process.paths[0].steps())
    assert [s.noise_std for s in steps] == pytest.approx([0.5 * eta for eta in etas])
    assert [s.maps[0].shift for s in steps] == pytest.approx([0.25 * eta for eta in etas])
    cycle = TwoSidedWalk(
        mechanism(steps=4, step_size=etas, batching=Batching.CYCLIC), position=1
    ).processes()[0]
    assert [round(s.maps[0].shift, 12) for s in cycle.paths[0].steps()] == [0, 0.15, 0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: BiasedWalk(mechanism(strong_convexity=0.5, smoothness=2.0)),
            r"BiasedWalk needs strong_convexity = 0 .* got strong_convexity=0.5",
        ),
        (
            lambda: TwoSidedWalk(mechanism(strong_convexity=0.5)),
            r"TwoSidedWalk needs strong_convexity = 0",
        ),
        (
            lambda: DriftedWalk(mechanism(strong_convexity=0.5)),
            r"DriftedWalk needs strong_convexity = 0",
        ),
        (
            lambda: TwoSidedWalk(mechanism(relation=Relation.ZERO_OUT)),
            r"TwoSidedWalk needs relation='replace one' .* got relation='zero out'",
        ),
        (lambda: DriftedWalk(mechanism(), drift=0.16), r"DriftedWalk needs .*0\.15.*drift=0.16"),
        (lambda: DriftedWalk(mechanism(), drift=-0.16), r"DriftedWalk needs .*drift=-0.16"),
        (
            lambda: DriftedWalk(
                mechanism(dataset_size=1, batch_size=1, batching=Batching.FULL), drift=0.01
            ),
            r"needs another record to drift, got dataset_size=1, drift=0.01",
        ),
    ],
)
def test_inadmissible(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Inadmissible, match=message):
        make()


@pytest.mark.parametrize("kind", [BiasedWalk, TwoSidedWalk, DriftedWalk])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start": 0.51}, r"start must be in the domain \[-0.5, 0.5\], got 0.51"),
        ({"start": math.nan}, r"start must be a finite number, got nan"),
        ({"position": 0}, r"position must be None for without replacement batches, got 0"),
    ],
)
def test_bad_input(kind, given: dict[str, float], message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        kind(mechanism(), **given)


@pytest.mark.parametrize("position", [3, -1, 1.5])
def test_positions_are_checked_when_made(position: float) -> None:
    with pytest.raises(ValueError, match=rf"position must be .*, got {position}"):
        TwoSidedWalk(mechanism(batching=Batching.CYCLIC), position=position)  # type: ignore[arg-type]


def test_the_largest_drift_may_carry_rounding() -> None:
    DriftedWalk(mechanism(), drift=0.1 * 1.5 * (1 + 1e-15))
    full = mechanism(batching=Batching.FULL, batch_size=6)
    DriftedWalk(full, drift=-0.1 * 1.5 * 5 / 6)


def test_equal_maps_are_one() -> None:
    m = mechanism(batching=Batching.POISSON, dataset_size=300, batch_size=30)
    step = next(BiasedWalk(m).processes()[1].paths[0].steps())
    assert sorted(phi.shift for phi in step.maps) == pytest.approx([0.0, 0.005])
    assert all(isinstance(phi, Affine) for phi in step.maps)


# ------------------------------------- Processes and their update maps: parts, values and refusals


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

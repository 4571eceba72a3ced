"""Pairs of piecewise linear gradients, the same in all steps or changing over time."""

from __future__ import annotations

import dataclasses
import math
import re
from functools import partial

import numpy as np
import pytest

from audit import Batching, Losses, NoisySGD, Relation, Release, bounds, exact
from audit.constructions import (
    ChangingPair,
    Construction,
    DriftedWalk,
    GradientPair,
    HolderForm,
    HolderPair,
    Inadmissible,
    Phase,
    PiecewiseLinear,
    QuadraticPair,
    ResetWalk,
    TwoSidedWalk,
)
from audit.constructions.gradients import ZERO
from audit.constructions.holder import HolderUpdate
from audit.constructions.updates import gradient_step
from audit.curves import GaussianCurve
from audit.search import check_admissible
from tests.mechanisms import noisy_sgd
from tests.slow import slow

M = noisy_sgd(steps=12, dataset_size=4, step_size=0.5, noise_std=0.2, smoothness=1.5, diameter=2.0)
SAMPLED = dataclasses.replace(M, batching=Batching.WITHOUT_REPLACEMENT, batch_size=2)
constant = PiecewiseLinear.constant


def epsilon(pair):
    return exact.curve(pair).epsilon(1e-4)


@pytest.mark.parametrize("mechanism", [M, SAMPLED], ids=["full", "sampled"])
def test_special_cases(mechanism):
    # The negative gradients of a walk push right; 1e-9 is beyond what the laws' brackets allow.
    right, left = constant(-1.0), constant(1.0)
    walk = GradientPair(mechanism, record=right, record_prime=left)
    assert epsilon(walk) == pytest.approx(epsilon(TwoSidedWalk(mechanism)), rel=1e-9)
    share = 0.75 if mechanism is M else 1.0
    drifted = DriftedWalk(mechanism, drift=-0.5 * share * 0.4, start=0.6)
    same = GradientPair(mechanism, constant(0.4), right, left, start=0.6)
    assert epsilon(same) == pytest.approx(epsilon(drifted), rel=1e-9)
    reset = ResetWalk(mechanism, curvature=1.5, cap=0.9, centre=0.1)
    huber = PiecewiseLinear.clipped(1.5, 0.1, 0.9)
    assert epsilon(GradientPair(mechanism, huber, right, left)) == pytest.approx(
        epsilon(reset), rel=1e-9
    )


def test_a_shared_regulariser_makes_quadratics():
    m = dataclasses.replace(M, strong_convexity=0.5, gradient_sensitivity=1.0, lipschitz=None)
    shared = PiecewiseLinear((0.0,), (0.0,), (0.8, 0.8))
    pair = GradientPair(m, record=constant(-0.5), record_prime=constant(0.5), shared=shared)
    assert epsilon(pair) == pytest.approx(epsilon(QuadraticPair(m, 0.8)), rel=1e-9)
    zeroed = dataclasses.replace(m, relation=Relation.ZERO_OUT)
    one = GradientPair(zeroed, record=constant(-1.0), shared=shared)
    assert epsilon(one) == pytest.approx(epsilon(QuadraticPair(zeroed, 0.8)), rel=1e-9)


@pytest.mark.parametrize(
    ("batching", "bound"),
    [
        (Batching.POISSON, "accounting.poisson"),
        (Batching.RANDOM_ALLOCATION, "accounting.random_allocation"),
    ],
)
@pytest.mark.parametrize("start", [-9.0, 9.0])
def test_a_regulariser_does_not_tell_the_size_of_a_batch(batching, bound, start):
    """At one step the pairs are the worst ones, which |B|/b regularisers exceed by a third."""
    m = noisy_sgd(
        dataset_size=4,
        batch_size=2,
        step_size=0.5,
        lipschitz=0.5,
        strong_convexity=0.5,
        diameter=20.0,
        batching=batching,
        relation=Relation.ZERO_OUT,
    )
    line = PiecewiseLinear((0.0,), (0.0,), (0.5, 0.5))
    push = PiecewiseLinear.constant(-0.5)
    claimed = bounds.evaluate(bound, m).epsilon(1e-5)
    for pair in (
        QuadraticPair(m, curvature=0.5, start=start),
        GradientPair(m, record=push, shared=line, start=start),
    ):
        low, high = exact.curve(pair).epsilon_bracket(1e-5)
        assert low <= claimed
        assert high == pytest.approx(claimed, rel=1e-4)


def test_refusals():
    steep = PiecewiseLinear.clipped(1.6, 0.0, 0.5)
    with pytest.raises(Inadmissible, match=r"slopes of shared \+ others in \[0, 1.5\].*\[0, 1.6\]"):
        GradientPair(M, steep)
    falling = PiecewiseLinear((0.0, 1.0), (0.5, 0.0), (0.0, 0.0))
    with pytest.raises(Inadmissible, match=r"slopes of shared \+ record in .* got \[-0.5"):
        GradientPair(M, record=falling)
    GradientPair(dataclasses.replace(M, convex=False), record=falling)
    with pytest.raises(Inadmissible, match=r"needs others in \[-1, 1\], the Lipschitz constant"):
        GradientPair(M, constant(1.1))
    less = dataclasses.replace(M, gradient_sensitivity=1.5)
    with pytest.raises(Inadmissible, match=r"record and record_prime to differ by at most 1.5"):
        GradientPair(less, record=constant(1.0), record_prime=constant(-1.0))
    with pytest.raises(Inadmissible, match=r"record and others to differ by at most 1.5"):
        GradientPair(less, constant(-0.8), record=constant(0.75), record_prime=constant(-0.75))
    zeroed = dataclasses.replace(M, relation=Relation.ZERO_OUT)
    with pytest.raises(Inadmissible, match="record_prime to be zero for relation='zero out'"):
        GradientPair(zeroed, record_prime=constant(0.1))
    # a zeroed record keeps the regulariser, which then is its loss
    with pytest.raises(Inadmissible, match=r"slopes of shared in \[0, 1.5\].* got \[-1, -1\]"):
        GradientPair(
            dataclasses.replace(zeroed, dataset_size=1, batch_size=1, lipschitz=2.0),
            shared=PiecewiseLinear.linear(-1.0),
            record=PiecewiseLinear.linear(1.5),
        )
    alone = dataclasses.replace(M, dataset_size=1, batch_size=1)
    with pytest.raises(Inadmissible, match="others to be zero if dataset_size=1"):
        GradientPair(alone, constant(0.1))
    with pytest.raises(Inadmissible, match="shared to be zero if gradients are clipped"):
        GradientPair(
            dataclasses.replace(M, clip_norm=1.0), shared=PiecewiseLinear.clipped(1.0, 0.0, 0.5)
        )
    with pytest.raises(ValueError, match="start must be in the domain"):
        GradientPair(M, start=1.5)


CYCLIC = dataclasses.replace(M, batching=Batching.CYCLIC, batch_size=1)


def test_the_others_of_each_batch():
    left, right, record = constant(0.4), constant(-0.9), constant(-1.0)
    one = GradientPair(CYCLIC, record=record, others=left, others_after=right, position=1)
    same = GradientPair(CYCLIC, record=record, others_by_batch=((2, left), (2, right)), position=1)
    assert one.processes() == same.processes()
    # batches in the order of the cycle, whatever batch holds the record
    first = dataclasses.replace(same, position=0).processes()[0].paths[0].steps()
    shifts = [float(step.maps[0](np.array(0.0))) for step in first][:4]
    assert shifts == pytest.approx([0.5, -0.2, 0.45, 0.45])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"others_by_batch": ((3, constant(0.5)),)}, ValueError, "for the 4 batches .* got 3"),
        ({"others_by_batch": ((0, ZERO), (4, ZERO))}, ValueError, r"\[0\]\[0\] must be .* got 0"),
        (
            {"others_by_batch": ((4, constant(0.5)),), "others": constant(0.1)},
            ValueError,
            "others and others_after must not be given beside others_by_batch",
        ),
        (
            {"others_by_batch": ((3, ZERO), (1, constant(1.5)))},
            Inadmissible,
            r"needs others_by_batch\[1\] in \[-1, 1\]",
        ),
        ({"mechanism": M, "others_by_batch": ((1, ZERO),)}, Inadmissible, "batching='cyclic' if"),
    ],
)
def test_refusals_of_the_others_of_each_batch(changes, error, message):
    with pytest.raises(error, match=message):
        GradientPair(**{"mechanism": CYCLIC, **changes})


def test_one_narrow_piece_does_not_excuse_steep_ones():
    """Rounding makes the slope of a narrow piece uncertain, and of no other."""
    narrow = PiecewiseLinear((0.0, 1e-15, 0.5), (0.0, 0.0, 0.5 * 2.2), (0.0, 0.0))
    m = dataclasses.replace(M, lipschitz=2.0)
    with pytest.raises(Inadmissible, match=r"slopes of shared \+ others in \[0, 1.5\]"):
        GradientPair(m, others=narrow)
    for width in np.geomspace(1e-13, 1e-11, 9).tolist():  # some of these round up
        line = PiecewiseLinear((0.3, 0.3 + width), (0.45, 0.45 + 1.5 * width), (1.5, 1.5))
        assert GradientPair(m, others=line)
    bend = 0.1 + 2.0**-54 * 3  # between two points of shared
    shared = PiecewiseLinear((-0.5, 0.1, 0.5), (-0.7, 0.1 * 1.1, 0.55), (0.0, 0.0))
    others = PiecewiseLinear((bend - 1e-16, bend + 2e-16, 0.5), (0.0, 0.0, 0.1), (0.0, 0.0))
    assert GradientPair(dataclasses.replace(m, lipschitz=4.0), others=others, shared=shared)


def test_a_value_far_outside_of_the_domain_excuses_no_slope():
    """One of 1e16 there once let gradients through that are not strongly convex."""
    m = dataclasses.replace(M, strong_convexity=0.5, diameter=20.0)
    far = PiecewiseLinear((-2.0, 2.0, 10.0, 11.0), (1.0, -1.0, -1.0, 1e16), (0.0, 0.0))
    with pytest.raises(Inadmissible, match=r"slopes of shared \+ others in \[0.5, 1.5\]"):
        GradientPair(m, others=far, shared=PiecewiseLinear.linear(0.5))


@pytest.mark.parametrize("curvature", [1e-7, slow(1e-10), slow(1e-13), 1e-15])
def test_bends_far_out_do_not_round_what_a_step_moves(curvature):
    """Composition is exact for losses that are linear up to 1e-7; brackets were 31 % above it."""
    m = NoisySGD(
        steps=7, dataset_size=3, batch_size=3, step_size=0.3, noise_std=0.7, lipschitz=1.0,
        smoothness=curvature,
    )  # fmt: skip
    best = bounds.evaluate("bsa24.theorem_4_1", m).epsilon(1e-5)
    low, high = exact.curve(ResetWalk(m, curvature, cap=1.0)).epsilon_bracket(1e-5)
    assert best * (1 - 1e-6) < low <= best * (1 + 1e-15)
    assert high < best * (1 + 1e-9)


@pytest.mark.parametrize("reach", [2.0**20, 2.0**57, 2.0**90])
def test_bends_far_out_hide_no_slope(reach):
    """Gradients beside the domain of the noise rounded those within it to zero."""
    m = NoisySGD(
        steps=40, dataset_size=10, batch_size=10, step_size=1.0, noise_std=0.5, lipschitz=1.0,
        smoothness=1.0, strong_convexity=0.5,
    )  # fmt: skip
    far = PiecewiseLinear((-reach, reach), (-reach / 2, reach / 2), (0.5, 0.5))
    push = {"record": PiecewiseLinear.constant(-1.0), "record_prime": PiecewiseLinear.constant(1.0)}
    flat = PiecewiseLinear((-2.0, 2.0), (0.0, 0.0), (0.0, 0.0))
    pair = GradientPair(m, shared=far, others=flat, **push)
    near = GradientPair(m, shared=PiecewiseLinear.linear(0.5), **push)
    found, known = (exact.curve(one).epsilon_bracket(1e-5) for one in (pair, near))
    assert found[0] * (1 - 1e-9) <= known[1] <= found[1] * (1 + 1e-9)
    beyond = PiecewiseLinear((reach,), (reach / 2,), (0.5, 0.5))
    assert beyond.at(np.array([0.3])) == 0.15
    falling = PiecewiseLinear((-1.0, 1.0), (1.0, -1.0), (0.0, 0.0))
    with pytest.raises(Inadmissible, match=r"slopes of shared \+ others .* got \[-0.5, 0.5\]"):
        GradientPair(m, shared=far, others=falling, **push)


@pytest.mark.parametrize("points", [(-1e13, 1e13), (-0.3, 1e13), (-1.0, 1.0), (3.0, 700.0)])
def test_no_rounding_moves_a_state_farther_than_the_record_may(points):
    line = PiecewiseLinear(points, (0.3, -0.3), (0.0, 0.0))
    up, still = (gradient_step([(0.1, line)], shift=s, std=1e-3) for s in (1e-7 / 3, 0.0))
    states = np.array([0.0, *np.geomspace(1e-5, 1e3, 50)])
    states = np.concatenate([-states, states])
    assert np.all(np.array(up.values) - np.array(still.values) <= 1e-7 / 3)
    moved = still(states) - states
    assert np.all(np.abs(moved - 0.1 * line(states)) <= 2.0**-48 * (1 + np.abs(states)))


def test_a_centre_far_out_makes_no_loss_steeper():
    with pytest.raises(Inadmissible, match="curvature in"):
        ResetWalk(dataclasses.replace(M, diameter=None, smoothness=1.0), 1.0, cap=0.3, centre=1e15)


def test_gradients_of_two_other_records_differ_by_the_sensitivity():
    m = dataclasses.replace(CYCLIC, lipschitz=None, gradient_sensitivity=1.0)
    low, high = constant(-0.6), constant(0.6)
    with pytest.raises(Inadmissible, match=r"others_by_batch\[0\] and others_by_batch\[1\]"):
        GradientPair(m, others_by_batch=((2, low), (2, high)))
    near, far = constant(5.0), constant(5.5)  # what others would be is of no concern
    assert GradientPair(m, record=near, record_prime=far, others_by_batch=((2, near), (2, far)))


@pytest.mark.parametrize("batching", [one for one in Batching if one is not Batching.FULL])
def test_losses_of_batches_of_random_size_are_convex_without_the_regulariser(batching):
    most = 3 if "max_batch_size" in batching.fields else None
    m = dataclasses.replace(
        M, batching=batching, batch_size=2, max_batch_size=most, strong_convexity=0.1
    )
    line, concave = PiecewiseLinear.linear(0.15), PiecewiseLinear.linear(-0.05)
    if batching.has_random_size:
        with pytest.raises(Inadmissible, match=r"slopes of others in \[0, 1.5\]"):
            GradientPair(m, others=concave, shared=line)
        steep = PiecewiseLinear.linear(9.0), PiecewiseLinear.linear(-9.0)
        free = dataclasses.replace(
            m, strong_convexity=0.0, convex=False, lipschitz=None, gradient_sensitivity=20.0
        )
        with pytest.raises(Inadmissible, match=r"slopes of record in \[-1.5, 1.5\]"):
            GradientPair(
                free, record=steep[0], record_prime=steep[0], others=steep[0], shared=steep[1]
            )
    else:
        GradientPair(m, others=concave, shared=line)


@pytest.mark.parametrize("batching", [Batching.POISSON, Batching.WITHOUT_REPLACEMENT])
def test_a_regulariser_does_not_make_room_for_larger_gradients(batching):
    """In a batch of random size the record's own gradient is all that it adds."""
    m = dataclasses.replace(M, batching=batching, batch_size=2)
    left, right = constant(-1.0), constant(2.0)
    if batching is Batching.POISSON:
        with pytest.raises(Inadmissible, match=r"needs record in \[-1, 1\]"):
            GradientPair(m, record=right, shared=left)
    else:
        pair = GradientPair(m, record=right, shared=left)
        assert exact.curve(pair).epsilon_bracket(1e-5)[0] <= bounds.best(m, delta=1e-5).epsilon


VARIED = dataclasses.replace(M, noise_std=0.4, losses=Losses.CHANGING)
RIGHT, LEFT = constant(-1.0), constant(1.0)
KINK = PiecewiseLinear.clipped(1.5, 0.1, 0.9)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"batching": Batching.WITHOUT_REPLACEMENT, "batch_size": 2},
        slow({"batching": Batching.POISSON, "batch_size": 2}),
        {"batching": Batching.CYCLIC, "batch_size": 1},
        {"step_size": (0.5,) * 6 + (0.25,) * 6},
        {"relation": Relation.ZERO_OUT},
    ],
    ids=str,
)
def test_phases_with_the_same_losses_are_one_run(changes):
    m = dataclasses.replace(VARIED, **changes)
    second = constant(0.0) if m.relation is Relation.ZERO_OUT else LEFT
    fixed = GradientPair(
        dataclasses.replace(m, losses=Losses.FIXED), KINK, RIGHT, second, start=0.3
    )
    phases = tuple(Phase(steps, KINK, RIGHT, second) for steps in (1, 5, 3, 3))
    pair = ChangingPair(m, phases, start=0.3)
    check_admissible(pair)
    assert exact.curve(pair).epsilon(1e-4) == pytest.approx(
        exact.curve(fixed).epsilon(1e-4), rel=1e-9
    )


def test_pushes_that_change_sign_cancel_on_an_unbounded_domain():
    # there the last iterates are normal: the means differ by the sum of the pushes
    m = dataclasses.replace(VARIED, diameter=None)
    phases = (Phase(5, LEFT, RIGHT, LEFT), Phase(3, RIGHT, LEFT, RIGHT), Phase(4, RIGHT, RIGHT))
    apart = 0.5 * (2 / 4 * 5 - 2 / 4 * 3 + 1 / 4 * 4)
    mu = apart / (0.2 * math.sqrt(12))
    pair = ChangingPair(m, phases)
    low, high = exact.curve(pair).epsilon_bracket(1e-5)
    assert low * (1 - 1e-6) <= GaussianCurve(mu).epsilon(1e-5) <= high * (1 + 1e-6)


@dataclasses.dataclass(frozen=True)
class Disguised(Construction):
    """Processes of losses that change, offered as a pair of fixed losses."""

    changing: ChangingPair

    citation = "a test"

    def processes(self):
        return self.changing.processes()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"batching": Batching.WITHOUT_REPLACEMENT, "batch_size": 2},
        {"batching": Batching.CYCLIC, "batch_size": 1},
    ],
    ids=str,
)
def test_changing_losses_are_no_pair_of_fixed_ones(changes):
    m = dataclasses.replace(VARIED, **changes)
    fixed = dataclasses.replace(m, losses=Losses.FIXED)
    phases = (Phase(8, LEFT, RIGHT, LEFT), Phase(4, RIGHT, RIGHT, LEFT))
    changing = ChangingPair(m, phases)
    check_admissible(changing)
    with pytest.raises(Inadmissible, match=r"needs losses='changing'.* got losses='fixed'"):
        ChangingPair(fixed, phases)
    with pytest.raises(Inadmissible, match="fixed losses must give the same updates whenever"):
        check_admissible(Disguised(fixed, changing))


def test_refusals_of_phases():
    with pytest.raises(ValueError, match="phases must have 12 steps together, got 5"):
        ChangingPair(VARIED, (Phase(5),))
    with pytest.raises(Inadmissible, match=r"needs others in \[-1, 1\], the Lipschitz constant"):
        ChangingPair(VARIED, (Phase(6), Phase(6, constant(1.1))))
    with pytest.raises(Inadmissible, match="needs another batching, got batching='shuffled'"):
        ChangingPair(dataclasses.replace(VARIED, batching=Batching.SHUFFLED), (Phase(12),))
    with pytest.raises(Inadmissible, match="needs the release of the last iterate"):
        ChangingPair(dataclasses.replace(VARIED, release=Release.RANDOM_STOP), (Phase(12),))
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        Phase(0)
    with pytest.raises(ValueError, match="losses must be a Losses"):
        dataclasses.replace(VARIED, losses="changing")


# -------------------------------------- Pairs whose other records have gradients of infinite slope


HOLDER = noisy_sgd(
    steps=3, dataset_size=5, step_size=0.1, noise_std=2.0, lipschitz=2.0, smoothness=None,
    holder=(2 ** (2 / 3), 1 / 3),
)  # fmt: skip
_rough = partial(
    noisy_sgd,
    steps=3, dataset_size=4, noise_std=0.5, lipschitz=None, smoothness=None, diameter=2.0,
    gradient_sensitivity=3.0, holder=(1.0, 0.5),
)  # fmt: skip


def test_holder_updates_have_the_constant_that_they_claim() -> None:
    """The largest ratio |g(x) - g(y)| / |x - y|^p on a grid reaches the constant and no more."""
    x = np.linspace(-0.5, 0.5, 401)
    gaps = np.abs(x[:, None] - x)
    for form in HolderForm:
        gradient = x - HolderUpdate(0.0, 1.0, 1 / 3, form, 0.5)(x)
        rises = np.abs(gradient[:, None] - gradient)
        ratios = rises[gaps > 0] / gaps[gaps > 0] ** (1 / 3)
        assert np.max(ratios) == pytest.approx(form.constant(1 / 3), rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "parameters", "message"),
    [
        ({"holder": None}, {}, "HolderPair needs holder and diameter, got holder=None"),
        ({"diameter": None}, {}, "got diameter=None"),
        ({"smoothness": 1.0}, {}, "needs smoothness=None"),
        ({"lipschitz": 0.5}, {}, "needs the other records' gradients in"),
        ({}, {"scale": 1.1}, "needs |scale| times 1.5874 to be at most the Hoelder constant"),
        ({}, {"scale": -1.0}, "needs convex=False for form='signed', scale=-1"),
        ({}, {"form": HolderForm.ABSOLUTE}, "needs convex=False for form='absolute'"),
    ],
)
def test_holder_pairs_keep_the_assumptions(changes, parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        HolderPair(dataclasses.replace(HOLDER, **changes), **parameters)


def test_gradients_keep_the_holder_constant() -> None:
    # a slope over the whole domain may be constant D^(order - 1)
    limit = 2.0**-0.5
    check_admissible(QuadraticPair(_rough(), curvature=limit))
    for make in (
        lambda m: QuadraticPair(m, curvature=1.001 * limit),
        lambda m: GradientPair(m, others=PiecewiseLinear.linear(1.001 * limit)),
        lambda m: ResetWalk(m, curvature=3.0, cap=0.6),
    ):
        with pytest.raises(Inadmissible, match=r"Hoelder constant of order 0\.5 of at most 1, got"):
            make(_rough())
        make(_rough(holder=None))
    # the same total change is allowed where it takes less room: 0.6 over a width of 0.4
    ResetWalk(_rough(), curvature=1.5, cap=0.3)


def test_an_independent_check_of_the_holder_constant() -> None:
    class Unchecked(GradientPair):
        def __post_init__(self) -> None:
            pass

    # the record's gradient is 0, so that 3/4 of the others' slope is left in the mean
    limit = 2.0**-0.5 / 0.75
    check_admissible(Unchecked(_rough(), others=PiecewiseLinear.linear(0.999 * limit)))
    with pytest.raises(Inadmissible, match="moves with a Hoelder constant of at most 1, got"):
        check_admissible(Unchecked(_rough(), others=PiecewiseLinear.linear(1.001 * limit)))


def test_far_lines_are_steeper_than_any_power() -> None:
    with pytest.raises(Inadmissible, match=r"order 0\.5 of at most 1, got inf"):
        QuadraticPair(_rough(diameter=None), curvature=0.1)
    m = _rough(diameter=None, holder=(0.1, 1.0))
    QuadraticPair(m, curvature=0.1)

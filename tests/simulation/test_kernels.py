"""The compiled loops against their twin, draw by draw, and both paths against laws."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import audit.simulation as simulation
from audit.constructions import (
    Affine,
    BiasedWalk,
    Mapped,
    Process,
    QuadraticPair,
    ResetWalk,
    Segment,
    Step,
    TwoSidedWalk,
    UpdateMap,
    Wall,
)
from audit.constructions.process import Path
from audit.constructions.updates import PiecewiseLinear, PolynomialUpdate, PowerUpdate
from audit.simulation import final_iterates, samplers, simulate
from audit.simulation.blocks import Block, Stream
from audit.simulation.program import GENERAL, LINES, Piece, compiled, is_compilable, pieces
from audit.simulation.rng import LANES
from tests.exact.cases import process
from tests.mechanisms import noisy_sgd

from . import twin
from .cases import AFFINE, COMPILED, MAPPED, mechanism, noise


@pytest.mark.parametrize("name", COMPILED)
def test_kernel_is_its_twin_draw_by_draw(name: str) -> None:
    made = COMPILED[name]()
    trials = LANES + 40  # two groups of lanes, the last one short
    block = Block(0, 0, trials)
    sequence = block.sequence(3, Stream.X_PRIME)
    expected = twin.walk(made, sequence, trials)
    x = simulation.simulate(made, trials=trials, seed=3, stream=Stream.X_PRIME)
    # one more or less draw anywhere would change all later walks of the lane
    if name in AFFINE:
        assert np.array_equal(x, [walk[0] for walk in expected])  # every bit
    else:  # maps are applied in another form: some roundings of each step
        np.testing.assert_allclose(x, [walk[0] for walk in expected], rtol=0, atol=1e-12)
    table = compiled(made)
    general = table._replace(kind=np.full_like(table.kind, GENERAL))
    assert np.array_equal(samplers._walk(general, block, 3, Stream.X_PRIME), x)


def by_numpy(made: Process) -> Process:
    """Return the same walk with maps that no compiled loop knows."""
    hidden = replace(made, paths=tuple(_opaque(path) for path in made.paths))
    assert not is_compilable(hidden)
    return hidden


BY_NUMPY = (
    "slopes", "resets, Poisson", "Hölder", "random stop", "kinked", "reshuffled", "one wall",
    "paths of three lengths",
)  # fmt: skip


@pytest.mark.parametrize("name", BY_NUMPY)
def test_maps_have_the_same_law_by_numpy(name: str) -> None:
    made = COMPILED[name]()
    a = simulation.simulate(made, trials=60_000, seed=7)
    b = simulation.simulate(by_numpy(made), trials=60_000, seed=8)
    assert twin.same_law(a, b, made) > twin.LEVEL


def _opaque(path: Path) -> Path:
    def hidden(step: Step) -> Step:
        # a method, as pieces of maps themselves are known
        return replace(step, maps=tuple(Mapped(update.__call__) for update in step.maps))

    return replace(
        path, segments=tuple(Segment(tuple(map(hidden, g.steps)), g.times) for g in path.segments)
    )


def test_jumps_five_percent_too_large_are_seen() -> None:
    right = BiasedWalk(mechanism(noise_std=1.5)).processes()[1]
    wrong = BiasedWalk(mechanism(noise_std=1.5, lipschitz=2.1)).processes()[1]
    x, other = (simulation.simulate(made, trials=600_000, seed=2) for made in (right, wrong))
    y = simulation.simulate(by_numpy(right), trials=250_000, seed=3)
    assert twin.same_law(x, y, right) > twin.LEVEL > twin.same_law(other, y, right)


def test_absorbed_walks_stay() -> None:
    made = process(noise(0.4), times=2, start=0.1, lower=-0.5, lower_wall=Wall.ABSORB)
    x = simulation.simulate(made, trials=400_000, seed=10)
    law = stats.multivariate_normal([-0.1, -0.1], 0.16 * np.array([[1.0, 1.0], [1.0, 2.0]]))
    absorbed = 1 - float(law.cdf([0.5, 0.5]))  # the walk mirrored: both steps below 0.5
    assert stats.binomtest(int(np.sum(x == -0.5)), x.size, absorbed).pvalue > twin.LEVEL
    at_the_end = replace(made, start=-0.5)
    assert np.all(simulation.simulate(at_the_end, trials=10, seed=0) == -0.5)


def test_probabilities_of_any_size_are_exact_to_a_word() -> None:
    for rare in (1e-9, 1e-12, 2.0**-60, 1e-300, 0.3):
        program = compiled(process(noise(1.0, (1.0, rare), (0.0, 1 - rare))))
        word, _ = program.below.tolist()
        assert abs(word - rare * 2.0**64) <= 0.5
    weights = (0.25, 1e-9, 0.5, 0.25 - 1e-9)
    program = compiled(process(noise(1.0, *((float(k), w) for k, w in enumerate(weights)))))
    ascending = sorted(weights)
    below = program.below[:-1].astype(float)
    assert np.all(np.diff(below) > 0)
    assert below / 2**64 == pytest.approx(np.cumsum(ascending)[:-1], rel=1e-9)
    assert program.coefficients[0].tolist() == [1.0, 3.0, 0.0, 2.0]  # the shifts, rarest first


# ------------------------------------- Update maps as polynomials and powers on pieces of the line


MAPS: dict[str, UpdateMap] = {
    "affine": Affine(0.3, -0.7),
    "kinked": PiecewiseLinear((-1.0, 0.2, 1.5), (0.5, -0.5, 2.0), (-2.0, 0.0)),
    "one kink": PiecewiseLinear((0.2,), (1.0,), (-1.0, 3.0)),
    "clipped": PiecewiseLinear.clipped(2.0, 0.3, 1.0),
    "resets": ResetWalk(mechanism()).processes()[0].distinct_steps()[0].maps[0],
    "polynomial": Mapped(PolynomialUpdate((0.1, 1.2, 0.0, -0.2), centre=0.4)),
    "constant": Mapped(PolynomialUpdate((0.3,))),
    "Hölder": Mapped(PowerUpdate(0.2, 0.3, 0.1, 0.05, 0.9), (0.1,)),
}


def evaluated(parts: tuple[Piece, ...], x: float) -> float:
    piece = [p for p in parts if x >= p.edge][-1]
    t = x - piece.origin
    power = piece.factor * np.sign(t) * abs(t) ** piece.order
    return float(np.polynomial.polynomial.polyval(t, piece.coefficients) + power)


@pytest.mark.parametrize("name", MAPS)
def test_pieces_are_the_map(name: str) -> None:
    update = MAPS[name]
    x = np.concatenate([np.linspace(-3, 3, 601), np.array(update.kinks)])
    found = [evaluated(pieces(update), v) for v in x.tolist()]
    # values are below 10, each with a few roundings
    np.testing.assert_allclose(found, update(x), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", MAPS)
def test_one_step_without_much_noise_is_the_map(name: str) -> None:
    for start in (-2.0, -0.31, 0.1, 0.2, 1.7):
        made = process(Step((MAPS[name],), (1.0,), 1e-6), start=start)
        x = simulate(made, trials=100, seed=1)
        np.testing.assert_allclose(x, MAPS[name](np.array([start]))[0], rtol=0, atol=6e-6)


def test_what_is_not_known_is_not_compiled() -> None:
    assert pieces(Mapped(np.tanh)) == ()
    assert all(is_compilable(make()) for make in COMPILED.values())
    assert not any(is_compilable(make()) for make in MAPPED.values())


def test_common_walks_have_kinds_of_their_own() -> None:
    kinds = {name: set(compiled(make()).kind.tolist()) for name, make in COMPILED.items()}
    lines = ("symmetric", "cyclic", "two-sided, full", "biased", "schedule", "random stop")
    assert all(kinds[name] == {LINES} for name in lines)
    assert kinds["absorbing"] == kinds["resets, full"] == kinds["Hölder"] == {GENERAL}


def test_a_start_where_doubles_are_far_apart_is_refused() -> None:
    """Steps of .06 rounded to .125 there: samples certified 3.5 of at most 2.3."""
    m = noisy_sgd(steps=20, dataset_size=10, step_size=0.626, noise_std=1 / 0.626, diameter=None)
    with pytest.raises(ValueError, match=r"start must be within 4.2e\+06 standard deviations"):
        final_iterates(TwoSidedWalk(m, start=6e14), trials=10, seed=1)
    assert final_iterates(TwoSidedWalk(m, start=1e6), trials=10, seed=1)[0].shape == (10,)


def test_iterates_where_doubles_are_far_apart_are_refused() -> None:
    """The records of a batch move walks to where their noise is lost: 5.7 of at most 4.3."""
    n = 10**15
    m = noisy_sgd(
        steps=40_000, dataset_size=n, batch_size=n, noise_std=1.4e-13, strong_convexity=1e-4,
        lipschitz=None, gradient_sensitivity=1.0, diameter=None,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"^iterates must be within 2.2e\+10 .* got 4[0-9.]+$"):
        final_iterates(QuadraticPair(m, 1e-4, others=0.5), trials=10, seed=1)
    x, _ = final_iterates(QuadraticPair(m, 1e-4), trials=10, seed=1)
    assert np.all(np.abs(x) < 1e-10)


def test_walks_that_grow_beyond_all_doubles_are_refused() -> None:
    message = "update map must return finite numbers, got walks that grow beyond all doubles"
    cubic = Step((Mapped(PolynomialUpdate((0.0, 1.0, 0.0, 2.0))),), (1.0,), 0.1)
    line = Step((Affine(0.0, 1e30),), (1.0,), 0.1)
    for made in (
        process(cubic, times=50),
        process(line, times=20),
        process(line, times=20, lower=-0.5),  # where what is no number could pass for the end
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            simulate(made, trials=300, seed=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PolynomialUpdate(()), "coefficients must be one or more numbers, got ()"),
        (lambda: PolynomialUpdate((np.inf,)), "coefficients_0 must be a finite number, got inf"),
        (lambda: PowerUpdate(1.0, 0.0), "order must be a positive finite number, got 0.0"),
        (lambda: PowerUpdate(1.0, 17.0), "order must be in (0, 16], got 17.0"),
        (lambda: PowerUpdate(np.nan, 1.0), "pull must be a finite number, got nan"),
    ],
)
def test_bad_updates(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()  # type: ignore[operator]

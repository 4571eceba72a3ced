"""Update maps as polynomials and powers on pieces of the line."""

from __future__ import annotations

import re

import numpy as np
import pytest

from audit.constructions import Affine, Mapped, ResetWalk, Step, TwoSidedWalk, UpdateMap
from audit.constructions.updates import PiecewiseLinear, PolynomialUpdate, PowerUpdate
from audit.simulation import final_iterates, simulate
from audit.simulation.program import (
    GENERAL,
    LINES,
    Piece,
    compiled,
    is_compilable,
    pieces,
)
from tests.mechanisms import noisy_sgd

from .cases import COMPILED, MAPPED, mechanism, process

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

"""What the compiled loop knows of an update map: polynomials, and powers, on pieces of the line."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

from audit.constructions import Affine, UpdateMap
from audit.constructions.updates import Mapped, PiecewiseLinear, PolynomialUpdate, PowerUpdate


@dataclass(frozen=True)
class Piece:
    """A map from ``edge`` up to the next piece's edge, as a function of t = x - origin.

    The value is the sum of ``coefficients[k] t^k``, and ``factor sign(t) |t|^order``.
    """

    coefficients: tuple[float, ...]
    edge: float = -math.inf
    origin: float = 0.0
    factor: float = 0.0
    order: float = 1.0


@functools.singledispatch
def pieces(update: object) -> tuple[Piece, ...]:
    """Return the pieces of a map or function from left to right; none where it is not known."""
    return ()


@pieces.register
def _(update: Affine) -> tuple[Piece, ...]:
    return (Piece((float(update.shift), float(update.slope))),)


@pieces.register
def _(update: PiecewiseLinear) -> tuple[Piece, ...]:
    corners = list(zip(update.points, update.values, strict=True))
    left, right = update.slopes
    inner = [(v - u) / (b - a) for (a, u), (b, v) in itertools.pairwise(corners)]
    (first, value), *_ = corners
    return (
        Piece((value, left), origin=first),
        *(
            Piece((value, slope), edge=point, origin=point)
            for (point, value), slope in zip(corners, [*inner, right], strict=True)
        ),
    )


@pieces.register
def _(update: Mapped) -> tuple[Piece, ...]:
    return pieces(update.function)


@pieces.register
def _(update: PolynomialUpdate) -> tuple[Piece, ...]:
    return (Piece(tuple(map(float, update.coefficients)), origin=float(update.centre)),)


@pieces.register
def _(update: PowerUpdate) -> tuple[Piece, ...]:
    centre, slope = float(update.centre), float(update.slope)
    line = (slope * centre + float(update.shift), slope)
    return (Piece(line, origin=centre, factor=-float(update.pull), order=float(update.order)),)


def jumps(update: UpdateMap) -> bool:
    """Whether a step with this map counts as a jump: an affine map with a shift."""
    return isinstance(update, Affine) and update.shift != 0.0

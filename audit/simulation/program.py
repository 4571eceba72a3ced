"""A process as flat tables that a compiled loop can walk through.

An update map is compiled as `pieces`: polynomials, and powers, on pieces of the line. Only maps
whose pieces are known have tables; processes with other maps are sampled by NumPy
(`audit.simulation.samplers`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.constructions import Affine, DependentStep, Process, Step, UpdateMap, Wall
from audit.constructions.updates import (
    Mapped,
    PiecewiseLinear,
    PolynomialUpdate,
    PowerUpdate,
    Staircase,
)
from audit.numerics.arrays import Array, Integers

Words = NDArray[np.uint64]

LINES, GENERAL = 0, 1  # kinds of steps: one or two lines, or anything


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
def _(update: Staircase) -> tuple[Piece, ...]:
    steps = zip(update.values, update.edges, strict=False)
    return (
        Piece((float(update.stride), 1.0)),
        *(Piece((float(value),), edge=float(edge)) for value, edge in steps),
        Piece((-float(update.stride), 1.0), edge=float(update.edges[-1])),
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


class Tables(NamedTuple):
    """A process as flat arrays.

    Path ``p`` consists of segments ``first_segment[p]`` to ``first_segment[p + 1] - 1``; segment g
    runs through ``sequence[first_place[g] : first_place[g + 1]]``, ``times[g]`` times.

    Step ``s`` has rows ``first_row[s]`` to ``first_row[s + 1] - 1``, one for each memory of the
    batches that it may depend on, and a map for each entry of its rows. It draws entry
    ``first_entry[row] + k`` of its row where k of the row's words ``below`` are at most its 64
    random bits (that of the last entry, the most probable one, is not looked at), and ``after`` is
    the memory afterwards. Probabilities are off by 2^-64 at most.

    Its maps have ``pieces[s]`` pieces each, padded with pieces that begin at infinity: those of map
    k are ``first_piece[s] + k pieces[s]`` and on. Row d of ``coefficients`` holds that of t^d; step
    s needs rows 0 to ``degree[s]``.
    """

    start: float
    lower: float
    upper: float
    absorb_lower: float  # -inf where the lower end does not absorb
    absorb_upper: float  # +inf where the upper end does not absorb
    first_segment: Integers  # by path, and one more
    lengths: Integers  # by path
    paths_below: Words
    first_place: Integers  # by segment, and one more
    times: Integers
    sequence: Integers  # distinct steps
    kind: Integers  # by step
    noise_std: Array
    first_piece: Integers
    pieces: Integers
    degree: Integers
    curved: Integers  # 1 where a piece has a power
    depends: Integers  # 1 where the step depends on the memory of the batches
    edge: Array  # by piece
    origin: Array
    coefficients: Array
    factor: Array
    order: Array
    first_row: Integers  # by step, and one more
    first_entry: Integers  # by row, and one more
    below: Words
    after: Integers


def is_compilable(process: Process) -> bool:
    """Return whether the pieces of every update map of the process are known."""
    return all(pieces(m) for step in process.distinct_steps() for m in step.maps)


def compiled(process: Process) -> Tables:
    """Return the tables of a process whose maps all have known `pieces`."""
    steps = process.distinct_steps()
    index = {step: s for s, step in enumerate(steps)}
    tables = [_step_tables(step) for step in steps]
    flat = [piece for table in tables for piece in table.flat]
    rows = [row for table in tables for row in table.rows]
    segments = [[g for g in path.segments if len(g)] for path in process.paths]
    in_order = list(itertools.chain.from_iterable(segments))
    absorb_lower, absorb_upper = map(float, process.absorbing)
    absorbs = Wall.ABSORB in (process.lower_wall, process.upper_wall)
    open_ended = math.isinf(process.lower) or math.isinf(process.upper)
    deepest = max(len(piece.coefficients) for piece in flat)
    return Tables(
        start=float(process.start),
        lower=float(process.lower),
        upper=float(process.upper),
        absorb_lower=absorb_lower,
        absorb_upper=absorb_upper,
        first_segment=_offsets(len(part) for part in segments),
        lengths=_integers(len(path) for path in process.paths),
        paths_below=_words(path.probability for path in process.paths),
        first_place=_offsets(len(g.steps) for g in in_order),
        times=_integers(g.times for g in in_order),
        sequence=_integers(index[step] for g in in_order for step in g.steps),
        kind=_integers(
            GENERAL if absorbs or (open_ended and table.expands) else table.kind for table in tables
        ),
        noise_std=_floats(step.noise_std for step in steps),
        first_piece=_offsets(len(table.flat) for table in tables),
        pieces=_integers(len(table.flat) // table.maps for table in tables),
        degree=_integers(
            max(len(piece.coefficients) for piece in table.flat) - 1 for table in tables
        ),
        depends=_integers(isinstance(step, DependentStep) for step in steps),
        curved=_integers(any(piece.factor for piece in table.flat) for table in tables),
        edge=_floats(piece.edge for piece in flat),
        origin=_floats(piece.origin for piece in flat),
        coefficients=np.array(
            [
                [piece.coefficients[d] if d < len(piece.coefficients) else 0.0 for piece in flat]
                for d in range(deepest)
            ]
        ),
        factor=_floats(piece.factor for piece in flat),
        order=_floats(piece.order for piece in flat),
        first_row=_offsets(len(table.rows) for table in tables),
        first_entry=_offsets(len(row.below) for row in rows),
        below=np.array([word for row in rows for word in row.below], dtype=np.uint64),
        after=_integers(memory for row in rows for memory in row.after),
    )


class _StepTables(NamedTuple):
    kind: int
    maps: int
    flat: list[Piece]  # pieces of all maps, padded to one number each
    expands: bool  # states may leave the finite numbers, which the general kind alone looks for
    rows: list[_Row]  # by memory of the batches


class _Row(NamedTuple):
    """Transition probabilities from one memory state, the largest last."""

    below: list[int]
    after: list[int]


def _step_tables(step: Step) -> _StepTables:
    memories = 1 + max(before for before, _ in step.moves) if isinstance(step, DependentStep) else 1
    maps: list[UpdateMap] = []
    rows = []
    for memory in range(memories):
        taken = [entry for entry in step.transitions(memory) if entry[1] > 0]
        taken = sorted(taken, key=lambda entry: entry[1]) or [(step.maps[0], 1.0, memory)]
        maps += [update for update, _, _ in taken]
        words = [*_words(weight for _, weight, _ in taken).tolist(), 2**64 - 1]
        rows.append(_Row(words, [after for _, _, after in taken]))
    flat = _padded(maps)
    straight = len(flat) == len(maps) and all(
        len(piece.coefficients) == 2 and piece.origin == 0 and piece.factor == 0 for piece in flat
    )
    is_line = straight and not isinstance(step, DependentStep)
    return _StepTables(
        kind=LINES if is_line and len(maps) <= 2 else GENERAL,
        maps=len(maps),
        flat=flat,
        expands=any(abs(c) > 1 for piece in flat for c in piece.coefficients[1:]),
        rows=rows,
    )


def _padded(maps: Iterable[UpdateMap]) -> list[Piece]:
    """Return the pieces of all maps, as many for each."""
    parts = [pieces(m) for m in maps]
    most = max(map(len, parts))
    padding = Piece((0.0,), edge=math.inf)
    return [piece for part in parts for piece in (*part, *[padding] * (most - len(part)))]


def _words(weights: Iterable[float]) -> Words:
    """Return 2^64 times the cumulative shares of all weights but the last, from exact sums."""
    sums = list(itertools.accumulate(map(Fraction, weights)))
    largest = 2**64 - 1
    return np.array([min(round(s * 2**64 / sums[-1]), largest) for s in sums[:-1]], dtype=np.uint64)


def _floats(values: Iterable[float]) -> Array:
    return np.array(list(values), dtype=np.float64)


def _integers(values: Iterable[int]) -> Integers:
    return np.array(list(values), dtype=np.int64)


def _offsets(lengths: Iterable[int]) -> Integers:
    return _integers(itertools.accumulate(lengths, initial=0))

"""Probabilities of the cells of chains X <- clip(phi(X) + s Z, lower, upper), in ball arithmetic.

Maps phi consist of affine pieces. Without walls and with one piece each, the law is a mixture of
normals. Otherwise the integrals over the state are replaced by Gauss-Legendre sums, one step after
the other. The probability of a cell as a function of an earlier state is, past one step, a Gaussian
average of a function with values in [0, 1]: entire and at most exp(y^2/(2 s^2)) at imaginary part
y. On a panel of width h where maps have slopes up to c, the sum with n nodes therefore errs by at
most

    (h/2) (64/15) exp((1 + c^2) b^2/(2 s^2))/(s sqrt(2 pi)) rho^(-2n)/(1 - rho^-2)

with b = (h/4)(rho - 1/rho), for every rho > 1 (Trefethen 2008, Theorem 4.5). Weights are positive
and rows sum to 1 up to that error, so the errors of steps add up. Where maps are constant nothing
is approximated. A chain on an unbounded line is ended when it leaves a window; the mass that is
then missing is added to the upper end of every cell.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from flint import arb, arb_mat, ctx

from audit_verify.laws import (
    Cell,
    Normals,
    TooLongError,
    mixture_masses,
    normal,
    normal_masses,
)

Map = tuple[tuple[float, arb, arb], ...]  # from each point on: slope, shift; the first is -inf
Segment = tuple[int, tuple["Step", ...]]  # repetitions, steps
Motion = tuple[arb, arb, arb]  # x -> a x + b + N(0, v)
Branches = dict[object, tuple[int, arb, Motion]]  # memory, probability, motion
Option = tuple[int, int, arb, Motion]  # memory before, after, probability, motion

_MOST_NORMALS = 5000
_MOST_STATES = 12_000
_MOST_SECONDS = 600.0
_ENTRY, _PRODUCT = 6e-6, 5e-8  # seconds of a transition probability, and of a product
_PANEL = 4  # largest width of a panel, in standard deviations of a step
_FEW = 4  # maps of a step that are taken one by one
_STAY: Motion = (arb(1), arb(0), arb(0))


@dataclass(frozen=True, eq=False)
class Step:
    """A step: (memory before, memory after, probability, map) of each move, and the noise."""

    moves: tuple[tuple[int, int, arb, Map], ...]
    std: arb


@dataclass(frozen=True, eq=False)
class Path:
    """Steps that are taken with a probability.

    With ``skips`` the first 0 to ``skips`` of them are left out, with ``stops`` any number of the
    last but all, equally likely.
    """

    probability: arb
    segments: tuple[Segment, ...]
    skips: int = 0
    stops: bool = False

    def __len__(self) -> int:
        return sum(times * len(steps) for times, steps in self.segments)


@dataclass(frozen=True, eq=False)
class Chain:
    """A start, walls (None: no wall) and paths."""

    start: float
    walls: tuple[float | None, float | None]
    paths: tuple[Path, ...]

    @property
    def steps(self) -> list[Step]:
        """The distinct steps."""
        every = (s for path in self.paths for _, steps in path.segments for s in steps)
        return list({id(step): step for step in every}.values())


def chain_cells(chains: Sequence[Chain], partition: dict[str, Any], bits: int) -> list[Cell]:
    """Return the cells of two chains: intervals between cuts, and the walls.

    ``bits`` is the wanted accuracy: errors of quadrature are below about 2^-bits.
    """
    if chains[0].walls != chains[1].walls:
        raise ValueError("pair.second must have the walls of pair.first")
    cuts = [arb(cut) for cut in partition["cuts"]]
    mixtures = [_mixture(chain) for chain in chains]
    if None not in mixtures:
        return list(zip(*(mixture_masses(cuts, m) for m in mixtures if m), strict=True))
    grid = _Grid(chains, partition.get("window", [None, None]), bits)
    return list(zip(*(_Law(chain, grid, cuts).masses() for chain in chains), strict=True))


# ---------------------------------------------------------------------------- normal laws


def _mixture(chain: Chain) -> Normals | None:
    """Return a chain's law as a mixture of normals; None with walls, bends or many branches."""
    steps = chain.steps
    straight = all(len(phi) == 1 for step in steps for *_, phi in step.moves)
    if chain.walls != (None, None) or not straight:
        return None
    motions = {id(step): _motions(step) for step in steps}
    found: list[tuple[arb, Motion]] = []
    for path in chain.paths:
        branches: Branches = {}
        enter, leave, entered = path.probability / (path.skips + 1), arb(1) / len(path), 0
        for times, options in _runs(path, motions):
            for option in itertools.chain.from_iterable(itertools.repeat(options, times)):
                if entered <= path.skips:
                    entered += 1
                    branches = _merged([*branches.values(), (0, enter, _STAY)])
                branches = _merged(
                    [
                        (after, p * q, _then(m, n))
                        for (memory, p, m), (before, after, q, n) in itertools.product(
                            branches.values(), option
                        )
                        if memory == before
                    ]
                )
                if path.stops:
                    found += [(p * leave, motion) for _, p, motion in branches.values()]
                if len(branches) + len(found) > _MOST_NORMALS:
                    return None
        found += [] if path.stops else [(p, motion) for _, p, motion in branches.values()]
    return [(p, a * chain.start + b, v.sqrt()) for p, (a, b, v) in found]


def _runs(path: Path, motions: dict[int, list[Option]]) -> list[tuple[int, list[list[Option]]]]:
    """Return the motions of the segments; a segment without a choice is one motion."""
    found = []
    for times, steps in path.segments:
        options = [motions[id(step)] for step in steps]
        alone = all(len(option) == 1 for option in options)
        if alone and not path.skips and not path.stops:
            once = reduce(_then, (motion for option in options for *_, motion in option), _STAY)
            options, times = [[(0, 0, arb(1), _power(once, times))]], 1
        found.append((times, options))
    return found


def _motions(step: Step) -> list[Option]:
    variance = step.std * step.std
    return [(i, j, weight, (*phi[0][1:], variance)) for i, j, weight, phi in step.moves]


def _merged(options: Sequence[tuple[int, arb, Motion]]) -> Branches:
    """Return motions with their probabilities; those that may be equal are one, in wider balls."""
    found: Branches = {}
    scale = arb(2) ** (ctx.prec - 24)
    for memory, weight, motion in options:
        key = memory, *((x * scale).mid().floor().str(400, radius=False) for x in motion)
        if key in found:
            _, known, other = found[key]
            (a, b, v), (c, d, w) = motion, other
            weight, motion = weight + known, (a.union(c), b.union(d), v.union(w))
        found[key] = memory, weight, motion
    return found


def _then(first: Motion, second: Motion) -> Motion:
    (a, b, v), (c, d, w) = first, second
    return c * a, c * b + d, c * c * v + w


def _power(motion: Motion, times: int) -> Motion:
    result = _STAY
    while times:
        if times & 1:
            result = _then(result, motion)
        motion, times = _then(motion, motion), times >> 1
    return result


# ---------------------------------------------------------------------------- quadrature


class _Grid:
    """Panels between the ends and the kinks of all maps, with the nodes on them.

    A panel where all maps are constant is one state: only its probability matters.
    """

    def __init__(self, chains: Sequence[Chain], window: Sequence[float | None], bits: int) -> None:
        ends = [
            w if wall is None else wall for wall, w in zip(chains[0].walls, window, strict=True)
        ]
        if ends[0] is None or ends[1] is None or not ends[0] < ends[1]:
            raise ValueError("partition.window must have an end on each side without a wall")
        self.low, self.high = float(ends[0]), float(ends[1])
        steps = [step for chain in chains for step in chain.steps]
        self.std = min(float(step.std.lower()) for step in steps)
        maps = list({id(phi): phi for step in steps for *_, phi in step.moves}.values())
        kinks = {piece[0] for phi in maps for piece in phi[1:]}
        inner = sorted(x for x in kinks if self.low < x < self.high)
        steepest = max((abs(piece[1]).upper() for phi in maps for piece in phi), key=float)
        order = 8
        while (
            order < 2000 and not self._error(_PANEL * self.std, steepest, order) < arb(2) ** -bits
        ):
            order += 4
        roots = [arb.legendre_p_root(order, i, weight=True) for i in range(order)]
        # (point, weight) of a node, or both ends of a panel where maps are constant
        self.nodes: list[tuple[arb, arb, bool]] = []
        self.error = arb(0)
        for a, b in itertools.pairwise([self.low, *inner, self.high]):
            if all(piece_at(phi, a)[1] == 0 for phi in maps):
                self.nodes.append((arb(a), arb(b), True))
                continue
            count = math.ceil((b - a) / (_PANEL * self.std))
            if len(self.nodes) + count * order > _MOST_STATES:
                raise TooLongError(f"the law would take more than {_MOST_STATES} nodes")
            half = (arb(b) - arb(a)) / (2 * count)
            self.error += count * self._error(float(2 * half.upper()), steepest, order)
            for k in range(count):
                centre = a + (2 * k + 1) * half
                self.nodes += [(centre + half * x, half * w, False) for x, w in roots]

    def _error(self, width: float, steepest: arb, order: int) -> arb:
        """Return the least bound of the docstring over some values of rho."""
        s, h = arb(self.std), arb(width)
        growth = 1 + steepest * steepest

        def bound(rho: arb) -> arb:
            reach = h / 4 * (rho - 1 / rho) / s
            exponent = growth * reach * reach / 2 - 2 * order * rho.log()
            return h / 2 * 64 / 15 * exponent.exp() / (s * (2 * arb.pi()).sqrt()) / (1 - rho**-2)

        best = math.sqrt(32 * order / float(growth)) * self.std / width
        rhos = [arb(max(best * factor, 1.05)) for factor in (0.8, 1.0, 1.2)]
        return min((bound(rho).upper() for rho in rhos), key=float)


def piece_at(phi: Map, x: float) -> tuple[float, arb, arb]:
    """Return the piece of a map that holds from a point on."""
    return phi[bisect.bisect_right(phi, x, key=lambda piece: piece[0]) - 1]


State = dict[int, arb_mat]  # by memory: masses of states in rows


class _Law:
    """The law of one chain on a grid.

    States are a memory and one of: the lower wall, the nodes, the upper wall, the start.
    """

    def __init__(self, chain: Chain, grid: _Grid, cuts: Sequence[arb]) -> None:
        self.chain, self.grid = chain, grid
        self.walls = tuple(wall is not None for wall in chain.walls)
        self.low, self.high = arb(grid.low), arb(grid.high)
        inner = [(x + w) / 2 if flat else x for x, w, flat in grid.nodes]
        self.places = [float(x.mid()) for x, *_ in grid.nodes]
        self.widest = max((float(w.upper()) for _, w, flat in grid.nodes if not flat), default=0.0)
        self.points = [self.low, *inner, self.high, arb(chain.start)]
        self.size = len(self.points)
        edges = [max(cut, self.low) for cut in cuts] if self.walls[0] else list(cuts)
        edges = [min(cut, self.high) for cut in edges] if self.walls[1] else edges
        self.edges = [*([self.low] * self.walls[0]), *edges, *([self.high] * self.walls[1])]
        start = {grid.low: 0, grid.high: self.size - 2}.get(chain.start, self.size - 1)
        self.begin = arb_mat([[arb(i == start) for i in range(self.size)]])
        self._tables: dict[object, tuple[list[list[int]] | None, arb_mat]] = {}

    def masses(self) -> list[arb]:
        """Return the masses of the cells, from the lower to the upper wall."""
        self._check_time()
        total = arb_mat(1, len(self.edges) + 1)
        for path in self.chain.paths:
            total = total + self._path(path) * path.probability
        steps = max(map(len, self.chain.paths))
        error = 2 * steps * self.grid.error.upper()
        if not error < 1:
            raise TooLongError("quadrature does not reach the noise of a step")
        masses = [arb(x.mid(), x.rad() + error).nonnegative_part() for x in total.entries()]
        # what left the window, and moves that are too rare to be followed
        half = (1 - sum(masses, arb(0))).nonnegative_part().upper() / 2
        return [x + arb(half, half) for x in masses]

    def _check_time(self) -> None:
        maps = {(id(phi), id(s.std)): phi for s in self.chain.steps for *_, phi in s.moves}
        rows = [
            len(phi) if all(p[1] == 0 for p in phi[1:-1]) else self.size for phi in maps.values()
        ]
        seconds = sum(rows) * self.size * _ENTRY
        for path in self.chain.paths:
            for times, steps in path.segments:
                moves = sum(len(step.moves) for step in steps)
                each = min(
                    times * moves * max(rows), (moves + 2 * times.bit_length()) * self.size**2
                )
                seconds += each * self.size * _PRODUCT
        if seconds > _MOST_SECONDS:
            raise TooLongError(f"the law on {self.size} states would take about {seconds:.2g} s")

    def _path(self, path: Path) -> arb_mat:
        """Return the masses of the cells at the end of a path."""
        *opening, (times, last) = [(t, steps) for t, steps in path.segments if t and steps]
        if path.skips or path.stops:
            return self._released(path)
        state = {0: self.begin}
        for segment in (*opening, (times - 1, last), (1, last[:-1])):
            state = self._repeated(state, *segment)
        return self._cells(state, last[-1])

    def _released(self, path: Path) -> arb_mat:
        """Return the masses of the cells where the beginning or the end is random."""
        total, taken = arb_mat(1, len(self.edges) + 1), 0
        state: State = {}
        for times, steps in path.segments:
            for step in itertools.chain.from_iterable(itertools.repeat(steps, times)):
                taken += 1
                if taken <= path.skips + 1:
                    entering = self.begin * (1 / arb(path.skips + 1))
                    state[0] = state[0] + entering if 0 in state else entering
                if path.stops or taken == len(path):
                    share = arb(1) / len(path) if path.stops else arb(1)
                    total = total + self._cells(state, step) * share
                state = self._after(state, step)
        return total

    def _cells(self, state: State, step: Step) -> arb_mat:
        return reduce(operator.add, self._after(state, step, final=True).values())

    def _repeated(self, state: State, times: int, steps: tuple[Step, ...]) -> State:
        if times * len(steps) > 3 * self.size and set(state) == {0}:
            power = self._once(steps)
            if power is not None:
                return {0: _applied(state[0], power, times)}
        for step in itertools.chain.from_iterable(itertools.repeat(steps, times)):
            state = self._after(state, step)
        return state

    def _once(self, steps: tuple[Step, ...]) -> arb_mat | None:
        """Return the transition matrix of steps; None if it depends on a memory."""
        unit = [[arb(i == j) for j in range(self.size)] for i in range(self.size)]
        state = reduce(self._after, steps, {0: arb_mat(unit)})
        return state[0] if set(state) == {0} else None

    def _after(self, state: State, step: Step, *, final: bool = False) -> State:
        """Return the law after a step: of the states, or of the cells if it is the final one."""
        found: State = {}
        if not state.keys() <= {before for before, *_ in step.moves}:
            raise ValueError("maps must be given for every memory that is reached")
        if len(step.moves) > _FEW and all((i, j) == (0, 0) for i, j, *_ in step.moves):
            return {0: state[0] * self._dense(step, final)}
        parts: dict[tuple[int, int], arb_mat] = {}
        for before, after, weight, phi in step.moves:
            if before in state:
                part, key = state[before] * weight, (id(phi), after)
                parts[key] = parts[key] + part if key in parts else part
        maps = {id(phi): phi for *_, phi in step.moves}
        for (number, after), masses in parts.items():
            moved = self._moved(masses, maps[number], step.std, final)
            found[after] = found[after] + moved if after in found else moved
        return found

    def _dense(self, step: Step, final: bool) -> arb_mat:
        """Return the transition matrix of a step with many maps."""
        key = id(step), final
        if key not in self._tables:
            total = arb_mat(self.size, len(self.edges) + 1 if final else self.size)
            for _, _, weight, phi in step.moves:
                groups, table = self._table(phi, step.std, final)
                if groups is not None:
                    own = table.tolist()
                    place = {i: k for k, group in enumerate(groups) for i in group}
                    table = arb_mat([own[place[i]] for i in range(self.size)])
                total = total + table * weight
            self._tables[key] = None, total
        return self._tables[key][1]

    def _moved(self, masses: arb_mat, phi: Map, std: arb, final: bool) -> arb_mat:
        key = id(phi), id(std), final
        if key not in self._tables:
            self._tables[key] = self._table(phi, std, final)
        groups, table = self._tables[key]
        if groups is not None:
            rows = masses.tolist()
            masses = arb_mat(
                [[sum((row[i] for i in group), arb(0)) for group in groups] for row in rows]
            )
        return masses * table

    def _table(self, phi: Map, std: arb, final: bool) -> tuple[list[list[int]] | None, arb_mat]:
        """Return the transition probabilities from each place that a map leads to.

        The states that lead to a place are listed where several do.
        """
        places: dict[object, list[int]] = {}
        means = []
        for number, x in enumerate(self.points):
            _, slope, shift = piece_at(phi, float(x.mid()))
            mean = slope * x + shift
            key = mean.man_exp() if mean.is_exact() else number
            if key not in places:
                means.append(mean)
            places.setdefault(key, []).append(number)
        masses = self._cell_masses if final else self._state_masses
        groups = None if len(places) == self.size else list(places.values())
        return groups, arb_mat([masses(mean, std) for mean in means])

    def _cell_masses(self, mean: arb, std: arb) -> list[arb]:
        """Return the masses of the cells; those far from the mean have less than 2^-precision."""
        centre, reach = float(mean.mid()), _reach() * float(std.upper())
        low = bisect.bisect_left(self.edges, centre - reach, key=_float)
        high = bisect.bisect_right(self.edges, centre + reach, key=_float)
        near = normal_masses(self.edges[low:high], mean, std)
        far = arb(0, 2.0 ** (1 - ctx.prec))
        wider = [mass + far for mass in near]
        return [far] * low + wider + [far] * (len(self.edges) - high)

    def _state_masses(self, mean: arb, std: arb) -> list[arb]:
        unit = 1 / (std * (2 * arb.pi()).sqrt())
        centre, reach = float(mean.mid()), _reach() * float(std.upper())
        far = arb(0, float(unit.upper()) * self.widest * 2.0**-ctx.prec)
        row = [normal((self.low - mean) / std) if self.walls[0] else arb(0)]
        for (x, w, flat), place in zip(self.grid.nodes, self.places, strict=True):
            if flat:
                row.append(normal_masses([x, w], mean, std)[1])
            elif abs(place - centre) > reach:
                row.append(far)
            else:
                z = (x - mean) / std
                row.append(w * unit * (-z * z / 2).exp())
        row.append(normal((mean - self.high) / std) if self.walls[1] else arb(0))
        return [*row, arb(0)]


def _reach() -> float:
    """Return the deviations beyond which a normal law and its density are below 2^-precision."""
    return math.sqrt(2 * math.log(2) * ctx.prec) + 1e-6


def _float(x: arb) -> float:
    return float(x.mid())


def _applied(state: arb_mat, power: arb_mat, times: int) -> arb_mat:
    while times:
        if times & 1:
            state = state * power
        times >>= 1
        power = power * power if times else power
    return state

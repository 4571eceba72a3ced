"""Probabilities of the cells of chains X <- clip(phi(X) + s Z, lower, upper), in ball arithmetic.

Without walls and with affine maps, the law is a mixture of normals. Otherwise the integrals over
the state are replaced by Gauss-Legendre sums, one step after the other. The probability of a cell
as a function of an earlier state is, past one step, a Gaussian average of a function with values in
[0, 1]: entire and at most exp(y^2/(2 s^2)) at imaginary part y. On a panel of width h where maps
have slopes up to c, the sum with n nodes therefore errs by at most

    (h/2) (64/15) exp((1 + c^2) b^2/(2 s^2))/(s sqrt(2 pi)) rho^(-2n)/(1 - rho^-2)

with b = (h/4)(rho - 1/rho), for every rho > 1 (Trefethen 2008, Theorem 4.5). Weights are positive
and rows sum to 1 up to that error, so the errors of steps add up. Where maps are constant nothing
is approximated. A chain on an unbounded line is ended when it leaves a window; the mass that is
then missing is added to the upper end of every cell.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from flint import arb, arb_mat

from audit_verify.laws import Cell, Normals, mixture_masses, normal, normal_masses, probabilities

Plain = Mapping[str, Any]
Line = tuple[float, float, arb, arb]  # on [left, right): slope and intercept
Motion = tuple[arb, arb, arb]  # x -> a x + b + N(0, v)
Branches = dict[object, tuple[arb, Motion]]

_MOST_NORMALS = 5000
_MOST_STATES = 4000
_MOST_PRODUCTS = 4e11
_PANEL = 4  # largest width of a panel, in standard deviations of a step
_STAY: Motion = (arb(1), arb(0), arb(0))


class TooLongError(Exception):
    """The law takes too long to compute; the message says why."""


def chain_cells(pair: Plain, partition: Plain, bits: int) -> list[Cell]:
    """Return the cells of two chains: intervals between cuts, and the walls.

    ``bits`` is the wanted accuracy: errors of quadrature are below about 2^-bits.
    """
    laws = pair["first"], pair["second"]
    if any(laws[0][key] != laws[1][key] for key in ("lower", "upper")):
        raise ValueError("pair.second must have the walls of pair.first")
    cuts = [arb(cut) for cut in partition["cuts"]]
    mixtures = [_mixture(law) for law in laws]
    if None not in mixtures:
        return list(zip(*(mixture_masses(cuts, m) for m in mixtures if m), strict=True))
    grid = _Grid(laws, partition.get("window", [None, None]), bits)
    return list(zip(*(_Chain(law, grid, cuts).masses() for law in laws), strict=True))


def lines(phi: Plain) -> list[Line]:
    """Return the affine pieces of a map, from left to right."""
    if "edges" in phi:
        ends, stride = [-math.inf, *phi["edges"], math.inf], arb(phi["stride"])
        inner = [(arb(0), arb(value)) for value in phi["values"]]
        pieces = [(arb(1), stride), *inner, (arb(1), -stride)]
    else:
        ends = [-math.inf, *phi["points"], math.inf]
        points, values = ([arb(x) for x in phi[key]] for key in ("points", "values"))
        rises = zip(itertools.pairwise(values), itertools.pairwise(points), strict=True)
        left, right = map(arb, phi["slopes"])
        slopes = [left, *((w - v) / (b - a) for (v, w), (a, b) in rises), right]
        through = zip(slopes, [points[0], *points], [values[0], *values], strict=True)
        pieces = [(slope, value - slope * point) for slope, point, value in through]
    return [(*ends[i : i + 2], *piece) for i, piece in enumerate(pieces)]


def steps_of(law: Plain) -> Iterator[Plain]:
    """Yield the steps of all segments of all paths, once each."""
    for path in law["paths"]:
        for segment in path["segments"]:
            yield from segment["steps"]


def path_length(path: Plain) -> int:
    """Return the number of steps of a path."""
    return sum(len(segment["steps"]) * segment["times"] for segment in path["segments"])


# ---------------------------------------------------------------------------- normal laws


def _mixture(law: Plain) -> Normals | None:
    """Return a chain's law as a mixture of normals; None with walls, bends or many branches."""
    if law["lower"] is not None or law["upper"] is not None:
        return None
    found: list[tuple[arb, arb, arb]] = []
    chances = probabilities([path["probability"] for path in law["paths"]])
    for chance, path in zip(chances, law["paths"], strict=True):
        branches = _merged([(chance, _STAY)])
        for segment in path["segments"]:
            steps = [_motions(step) for step in segment["steps"]]
            if None in steps:
                return None
            times = segment["times"]
            if all(len(step) == 1 for step in steps if step):
                once = reduce(_then, (m for step in steps if step for _, m in step.values()), _STAY)
                steps, times = [_merged([(arb(1), _power(once, times))])], 1
            for step in itertools.chain.from_iterable(itertools.repeat(steps, times)):
                pairs = itertools.product(branches.values(), (step or {}).values())
                branches = _merged([(p * q, _then(m, n)) for (p, m), (q, n) in pairs])
                if len(branches) > _MOST_NORMALS:
                    return None
        found += [(p, a * law["start"] + b, v.sqrt()) for p, (a, b, v) in branches.values()]
    return found if len(found) <= _MOST_NORMALS else None


def _motions(step: Plain) -> Branches | None:
    """Return the motions that a step draws from; None if a map has bends or a memory."""
    if any("edges" in m or "from" in m or len(lines(m)) > 2 for m in step["maps"]):
        return None
    if any(m["slopes"][0] != m["slopes"][1] for m in step["maps"]):
        return None
    variance = arb(step["noise_std"]) * arb(step["noise_std"])
    weights = probabilities([phi["weight"] for phi in step["maps"]])
    motions = [(*lines(phi)[0][2:], variance) for phi in step["maps"]]
    return _merged(list(zip(weights, motions, strict=True)))


def _merged(options: Sequence[tuple[arb, Motion]]) -> Branches:
    """Return motions with their probabilities, those that are exactly equal as one."""
    found: Branches = {}
    for weight, motion in options:
        exact = all(x.is_exact() for x in motion)
        key = tuple(x.man_exp() for x in motion) if exact else len(found)
        found[key] = (found[key][0] + weight if key in found else weight, motion)
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

    def __init__(self, laws: Sequence[Plain], window: Sequence[float | None], bits: int) -> None:
        walls = laws[0]["lower"], laws[0]["upper"]
        ends = [own if wall is None else wall for wall, own in zip(walls, window, strict=True)]
        if ends[0] is None or ends[1] is None or not ends[0] < ends[1]:
            raise ValueError("partition.window must have an end on each side without a wall")
        self.low, self.high = float(ends[0]), float(ends[1])
        steps = [step for law in laws for step in steps_of(law)]
        self.std = min(step["noise_std"] for step in steps)
        maps = {json.dumps(phi): lines(phi) for step in steps for phi in step["maps"]}
        pieces = [line for found in maps.values() for line in found]
        kinks = {end for line in pieces for end in line[:2]}
        inner = sorted(x for x in kinks if self.low < x < self.high)
        steepest = max((abs(line[2]).upper() for line in pieces), key=float)
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
            if all(line[2] == 0 for line in pieces if line[0] <= a < line[1]):
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


class _Chain:
    """The law of one chain on a grid.

    States are a memory and one of: the lower wall, the nodes, the upper wall, the start.
    """

    def __init__(self, law: Plain, grid: _Grid, cuts: Sequence[arb]) -> None:
        self.law, self.grid = law, grid
        self.walls = law["lower"] is not None, law["upper"] is not None
        self.low, self.high = arb(grid.low), arb(grid.high)
        memories = [max(m["from"], m["to"]) for s in steps_of(law) for m in s["maps"] if "to" in m]
        self.memories = 1 + max(memories, default=0)
        inner = [(x + w) / 2 if flat else x for x, w, flat in grid.nodes]
        self.points = [self.low, *inner, self.high, arb(law["start"])]
        self.size = len(self.points)
        edges = [max(cut, self.low) for cut in cuts] if self.walls[0] else list(cuts)
        edges = [min(cut, self.high) for cut in edges] if self.walls[1] else edges
        self.edges = [*([self.low] * self.walls[0]), *edges, *([self.high] * self.walls[1])]
        self._matrices: dict[str, arb_mat] = {}

    def masses(self) -> list[arb]:
        """Return the masses of the cells, from the lower to the upper wall."""
        steps = max(path_length(path) for path in self.law["paths"])
        if steps * (self.memories * self.size) ** 2 > _MOST_PRODUCTS:
            raise TooLongError(f"{steps} steps on {self.memories * self.size} states")
        total = [arb(0)] * (len(self.edges) + 1)
        chances = probabilities([path["probability"] for path in self.law["paths"]])
        for chance, path in zip(chances, self.law["paths"], strict=True):
            total = [a + chance * b for a, b in zip(total, self._path(path), strict=True)]
        error = 2 * steps * self.grid.error.upper()
        if not error < 1:
            raise TooLongError("quadrature does not reach the noise of a step")
        total = [arb(x.mid(), x.rad() + error).nonnegative_part() for x in total]
        lost = (1 - sum(total, arb(0))).nonnegative_part()
        if all(self.walls):
            if lost > 0:
                raise ValueError("maps must be given for every memory that is reached")
            return total
        half = lost.upper() / 2
        return [x + arb(half, half) for x in total]

    def _path(self, path: Plain) -> list[arb]:
        start = [arb(0)] * (self.memories * self.size)
        ends = {self.law["lower"]: 0, self.law["upper"]: self.size - 2}
        start[ends.get(self.law["start"], self.size - 1)] = arb(1)
        state = arb_mat([start])
        *opening, last = [s for s in path["segments"] if s["times"] and s["steps"]]
        for segment in opening:
            state = self._repeated(state, segment["steps"], segment["times"])
        state = self._repeated(state, last["steps"], last["times"] - 1)
        state = self._repeated(state, last["steps"][:-1], 1)
        cells = self._after(state, last["steps"][-1], final=True).entries()
        width = len(self.edges) + 1
        return [sum(cells[i::width], arb(0)) for i in range(width)]

    def _repeated(self, state: arb_mat, steps: Sequence[Plain], times: int) -> arb_mat:
        if times * len(steps) <= 3 * state.ncols():
            for step in itertools.chain.from_iterable(itertools.repeat(steps, times)):
                state = self._after(state, step)
            return state
        power = reduce(lambda a, b: a * b, (self._matrix(step) for step in steps))
        while times:
            if times & 1:
                state = state * power
            times >>= 1
            power = power * power if times else power
        return state

    def _after(self, state: arb_mat, step: Plain, *, final: bool = False) -> arb_mat:
        """Return the law after a step: of the state, or of the cells if it is the final one."""
        held = [i for i, mass in enumerate(state.entries()) if not mass.is_zero()]
        if len(held) == 1:  # the start
            return arb_mat(self._table(step, held, final=final))
        return state * self._matrix(step, final=final)

    def _matrix(self, step: Plain, *, final: bool = False) -> arb_mat:
        key = json.dumps([step, final])
        if key not in self._matrices:
            states = range(self.memories * self.size)
            self._matrices[key] = arb_mat(self._table(step, states, final=final))
        return self._matrices[key]

    def _table(self, step: Plain, states: Sequence[int], *, final: bool) -> list[list[arb]]:
        """Return the transition probabilities of a step from some states."""
        width = len(self.edges) + 1 if final else self.size
        table = {state: [arb(0)] * (self.memories * width) for state in states}
        for before, after, weight, phi in self._parts(step):
            own = [i - before * self.size for i in states if i // self.size == before]
            rows = self._rows(phi, own, arb(step["noise_std"]), final)
            for number, row in zip(own, rows, strict=True):
                target = table[before * self.size + number]
                for j, value in enumerate(row, start=after * width):
                    target[j] += weight * value
        return list(table.values())

    def _parts(self, step: Plain) -> Iterator[tuple[int, int, arb, Plain]]:
        """Yield (memory before, memory after, probability, map) of a step."""
        for memory in range(self.memories):
            own = [phi for phi in step["maps"] if phi.get("from", memory) == memory]
            for weight, phi in zip(probabilities([m["weight"] for m in own]), own, strict=True):
                yield memory, phi.get("to", memory), weight, phi

    def _rows(self, phi: Plain, numbers: Sequence[int], std: arb, final: bool) -> list[list[arb]]:
        """Return the probabilities of states, or of cells, after a map from each of some states."""
        pieces, rows = lines(phi), []
        masses: Callable[[arb, arb], list[arb]] = self._state_masses
        if final:
            masses = self._cell_masses
        for number in numbers:
            x = self.points[number]
            side = {0: "lower_wall", self.size - 2: "upper_wall"}.get(number)
            slope, shift = next(line[2:] for line in pieces if float(x.mid()) < line[1])
            row = masses(slope * x + shift, std)
            if side is not None and self.law[side] == "absorb":
                row = [arb(0)] * len(row)
                row[0 if number == 0 else -1 if final else -2] = arb(1)
            rows.append(row)
        return rows

    def _cell_masses(self, mean: arb, std: arb) -> list[arb]:
        return normal_masses(self.edges, mean, std)

    def _state_masses(self, mean: arb, std: arb) -> list[arb]:
        unit = 1 / (std * (2 * arb.pi()).sqrt())
        row = [normal((self.low - mean) / std) if self.walls[0] else arb(0)]
        for x, w, flat in self.grid.nodes:
            z = (x - mean) / std
            row.append(
                normal_masses([x, w], mean, std)[1] if flat else w * unit * (-z * z / 2).exp()
            )
        row.append(normal((mean - self.high) / std) if self.walls[1] else arb(0))
        return [*row, arb(0)]

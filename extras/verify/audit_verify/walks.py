"""Probabilities of the cells of chains X <- clip(phi(X) + s Z, lower, upper), in ball arithmetic.

Maps phi consist of affine pieces. Without walls and with one piece each, the law is a mixture of
normals. Otherwise the integrals over the state are replaced by Gauss-Legendre sums, one step after
the other, so that it is a mixture of normals around the nodes. The probability of a cell as a
function of an earlier state is, past one step, a Gaussian average of a function with values in
[0, 1]: entire and at most exp(y^2/(2 s^2)) at imaginary part y. On a panel of width h where maps
have slopes up to c, the sum with n nodes therefore errs by at most

    (h/2) (64/15) exp((1 + c^2) b^2/(2 s^2))/(s sqrt(2 pi)) rho^(-2n)/(1 - rho^-2)

with b = (h/4)(rho - 1/rho), for every rho > 1 (Trefethen 2008, Theorem 4.5). Weights are positive
and rows sum to 1 up to that error, so the errors of steps add up. Where maps are constant nothing
is approximated. A chain on an unbounded line is ended when it leaves a window; the mass that is
then missing is added to the upper end of every cell.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from flint import arb, arb_mat, ctx

from audit_verify import laws
from audit_verify.laws import Cell, Plain, TooLongError, require

Map = tuple[tuple[float, arb, arb], ...]  # from each point on: slope, shift; the first is -inf
Moves = dict[tuple[int, int], list[tuple[arb, Map]]]  # by memories before, after
Segment = tuple[int, tuple["Step", ...]]  # repetitions, steps
Normal = tuple[arb, arb, arb]  # weight, mean, variance
State = dict[int, Any]  # by memory: masses, which can be added and scaled
Table = dict[Any, arb_mat]  # tiles by their place; None: a row of balls for what is in no tile

_START = operator.itemgetter(0)  # of a piece
_MAX_NORMALS = 5000
_MAX_STATES = 12_000
_MAX_SECONDS, _MAX_GIGABYTES = 600.0, 6.0
_ENTRY, _PRODUCT = 6e-6, 5e-8  # seconds of a transition probability, and of a product
_NARROWEST = 4  # width of the narrowest panels, in standard deviations of a step
_FEW = 4  # maps of a step that are taken one by one
_TILE = 48  # rows and columns of a part of a table


@dataclass(frozen=True, eq=False)
class Step:
    """A step: the probabilities and maps of its moves, and the noise.

    Moves that are too rare to be followed have at most the probability ``lost`` together.
    """

    moves: Moves
    std: arb
    lost: arb

    @property
    def maps(self) -> list[Map]:
        """The maps of all moves."""
        return [phi for own in self.moves.values() for _, phi in own]


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
        parts = (part for path in self.paths for part in path.segments)
        return list(dict.fromkeys(step for _, steps in parts for step in steps))


def piece_at(phi: Map, x: float) -> tuple[float, arb, arb]:
    """Return the piece of a map that holds from a point on."""
    return phi[bisect.bisect_right(phi, x, key=_START) - 1]


def _image(phi: Map, x: arb) -> tuple[arb, arb]:
    """Return a ball around the slope at a point and one around its image.

    A ball that is not on one side of a kink has both.
    """
    first, last = (bisect.bisect_right(phi, end, key=_START) for end in (x.lower(), x.upper()))
    near = phi[first - 1 : last]
    slopes, images = [a for _, a, _ in near], [a * x + b for _, a, b in near]
    return reduce(arb.union, slopes), reduce(arb.union, images)


def pieces(plain: Sequence[Sequence[float | None]]) -> Map:
    """Return a function from [from, slope, shift] of its pieces; the first has no 'from'."""
    starts = [-math.inf if x is None else float(x) for x, _, _ in plain]
    ascend = starts[0] == -math.inf and all(a < b for a, b in itertools.pairwise(starts))
    require(ascend, "pieces must begin with null and ascend")
    return tuple((x, arb(a), arb(b)) for x, (_, a, b) in zip(starts, plain, strict=True))


def chain_cells(chains: Sequence[Chain], partition: Plain, bits: int) -> list[Cell]:
    """Return the cells of two chains: intervals between cuts, and the walls.

    ``bits`` is the wanted accuracy: errors of quadrature are below about 2^-bits.
    """
    require(chains[0].walls == chains[1].walls, "pair.second must have the walls of pair.first")
    cuts = [arb(cut) for cut in partition["cuts"]]
    found = [straight_law(chain) for chain in chains]
    if None in found:
        grid = _Grid(chains, partition.get("window", [None, None]), bits)
        found = [grid.law(chain) for chain in chains]
    return list(zip(*(law.masses(cuts) for law in found if law), strict=True))


@dataclass(frozen=True)
class ClippedNormals:
    """A mixture of normals between walls, up to an ``error`` of each mass and what is ``lost``.

    Without ``lost``, it is what the mixture lacks.
    """

    normals: list[Normal]
    walls: tuple[float | None, float | None]
    error: arb
    lost: arb | None

    def masses(self, cuts: Sequence[arb]) -> list[arb]:
        """Return the masses of the lower wall, the intervals between cuts and the upper wall."""
        low, high = ([] if wall is None else [arb(wall)] for wall in self.walls)
        inner: list[arb] = [min([max([cut, *low]), *high]) for cut in cuts]
        mixture = [(p, [laws.normal_tails(mean, v.sqrt())]) for p, mean, v in self.normals]
        found = laws.mixture_masses([*low, *inner, *high], mixture)
        masses = [arb(x.mid(), x.rad() + self.error).nonnegative_part() for x in found]
        lacks = (1 - sum(masses, arb(0))).nonnegative_part().upper()
        half = (lacks if self.lost is None else self.lost) / 2
        return [x + arb(half, half.upper()) for x in masses]


# ---------------------------------------------------------------------------- laws after steps


class _Law:
    """Laws of a state and a memory: masses of some kind, by memory."""

    def move(self, masses: Any, step: Step, ends: tuple[int, int]) -> Any:
        """Return masses after the moves of a step from one memory to another."""
        raise NotImplementedError

    def normals(self, masses: Any) -> Iterable[Normal]:
        """Return masses as normal laws."""
        raise NotImplementedError

    def moved(self, state: State, step: Step) -> State:
        """Return the law after a step."""
        found: State = {}
        for ends in _left(state, step):
            _add(found, ends[1], self.move(state[ends[0]], step, ends))
        return found

    def repeated(self, state: State, times: int, steps: tuple[Step, ...]) -> State:
        """Return the law after the steps of a segment."""
        return reduce(self.moved, _unrolled(times, steps), state)

    def ended(self, chain: Chain, start: Any) -> list[Normal]:
        """Return the law after the last step, as a mixture of normals."""
        ends: dict[tuple[int, Step], Any] = {}  # masses before the last map, by map and step
        maps = {id(phi): phi for step in chain.steps for phi in step.maps}
        for path in chain.paths:
            for state, step in self._endings(path, start * path.probability):
                for memories in _left(state, step):
                    for weight, phi in step.moves[memories]:
                        _add(ends, (id(phi), step), state[memories[0]] * weight)
        return [
            moved
            for (key, step), masses in ends.items()
            for moved in _through(self.normals(masses), [(arb(1), maps[key])], step.std)
        ]

    def _endings(self, path: Path, start: Any) -> Iterator[tuple[State, Step]]:
        """Yield the state before each step that may be the last one, and the step."""
        share = start * (1 / arb((path.skips + 1) * (len(path) if path.stops else 1)))
        state, taken = {0: share}, 0
        *opening, (most, last) = [(t, steps) for t, steps in path.segments if t and steps]
        for times, steps in (*opening, (most - 1, last), (1, last)):
            after = taken + times * len(steps)
            entered = taken > path.skips or not path.skips
            if entered and taken < after < len(path) and not path.stops:
                state, taken = self.repeated(state, times, steps), after
                continue
            for step in _unrolled(times, steps):
                if 0 < taken <= path.skips:
                    _add(state, 0, share)
                taken += 1
                if path.stops or taken == len(path):
                    yield state, step
                if taken < len(path):
                    state = self.moved(state, step)


def _unrolled(times: int, steps: tuple[Step, ...]) -> Iterator[Step]:
    return itertools.chain.from_iterable(itertools.repeat(steps, times))


def _left(state: State, step: Step) -> list[tuple[int, int]]:
    """Return the memories before and after the moves from a state."""
    known = {before for before, _ in step.moves}
    require(state.keys() <= known, "maps must be given for every memory that is reached")
    return [ends for ends in step.moves if ends[0] in state]


def _add(found: dict[Any, Any], key: Any, masses: Any) -> None:
    found[key] = found[key] + masses if key in found else masses


def _through(law: Iterable[Normal], moves: Iterable[tuple[arb, Map]], std: arb) -> Iterator[Normal]:
    """Yield normal laws after maps, of one piece if the laws have a variance, and their noise."""
    for (chance, phi), (weight, mean, variance) in itertools.product(moves, law):
        slope, moved = _image(phi, mean)
        yield chance * weight, moved, slope * slope * variance + std * std


class _Normals:
    """A mixture of normals; those that may be equal are one, in wider balls."""

    def __init__(self, law: Iterable[Normal]) -> None:
        self.law: dict[object, Normal] = {}
        for weight, mean, variance in law:
            key = tuple(x.str(ctx.dps - 7, radius=False) for x in (mean, variance))
            p, m, v = self.law.get(key, (arb(0), mean, variance))
            self.law[key] = weight + p, mean.union(m), variance.union(v)
        if len(self.law) > _MAX_NORMALS:
            raise TooLongError("a mixture of normals would be too large")

    def __mul__(self, factor: arb) -> _Normals:
        return _Normals((p * factor, mean, v) for p, mean, v in self.law.values())

    def __add__(self, other: _Normals) -> _Normals:
        return _Normals([*self.law.values(), *other.law.values()])


class _Straight(_Law):
    """Laws of chains without walls and bends."""

    def move(self, masses: _Normals, step: Step, ends: tuple[int, int]) -> _Normals:
        return _Normals(_through(masses.law.values(), step.moves[ends], step.std))

    def normals(self, masses: _Normals) -> Iterable[Normal]:
        return masses.law.values()

    def repeated(self, state: State, times: int, steps: tuple[Step, ...]) -> State:
        if any(len(step.maps) > 1 or (0, 0) not in step.moves for step in steps):
            return super().repeated(state, times, steps)
        once = reduce(_then, steps)
        return self.moved(state, _powered(once, once, times - 1, _then))


def _then(first: Step, second: Step) -> Step:
    """Return two steps as one: x -> a x + b + N(0, s^2), and the like."""
    ((_, a, b),), ((_, c, d),) = *first.maps, *second.maps
    std = (c * c * first.std * first.std + second.std * second.std).sqrt()
    return Step({(0, 0): [(arb(1), ((-math.inf, c * a, c * b + d),))]}, std, arb(0))


def _powered(first: Any, factor: Any, times: int, product: Callable[[Any, Any], Any]) -> Any:
    """Return ``first`` times a power of a factor, by squares."""
    while times:
        first = product(first, factor) if times & 1 else first
        times >>= 1
        factor = product(factor, factor) if times else factor
    return first


def straight_law(chain: Chain) -> ClippedNormals | None:
    """Return the law of a chain; None with walls, bends or many branches."""
    straight = all(len(phi) == 1 for step in chain.steps for phi in step.maps)
    if chain.walls != (None, None) or not straight:
        return None
    start = _Normals([(arb(1), arb(chain.start), arb(0))])
    try:
        law = _Straight().ended(chain, start)
    except TooLongError:
        return None
    lost = max(map(len, chain.paths)) * max((step.lost for step in chain.steps), key=float)
    return ClippedNormals(law, chain.walls, arb(0), lost.upper())


class _Grid(_Law):
    """Panels between the ends and the kinks of all maps, with the nodes on them.

    A panel where all maps are constant is one state: only its probability matters.
    """

    def __init__(self, chains: Sequence[Chain], window: Sequence[float | None], bits: int) -> None:
        walls = chains[0].walls
        ends = [w if wall is None else wall for wall, w in zip(walls, window, strict=True)]
        self.low, self.high = (math.nan if end is None else float(end) for end in ends)
        ascend = self.low < self.high
        require(ascend, "partition.window must have an end on each side without a wall")
        steps = [step for chain in chains for step in chain.steps]
        self.std = math.nextafter(min(float(step.std.lower()) for step in steps), 0.0)
        maps = list({id(phi): phi for step in steps for phi in step.maps}.values())
        kinks = {piece[0] for phi in maps for piece in phi[1:]}
        inner = sorted(x for x in kinks if self.low < x < self.high)
        self.steepest = max((abs(piece[1]).upper() for phi in maps for piece in phi), key=float)
        # (point, cuts, place) of states whose mass is that of an interval between cuts, if any
        self.lumps: list[tuple[arb, list[arb], int]] = [(arb(c.start), [], 0) for c in chains]
        for i, end in enumerate((arb(self.low), arb(self.high))):
            self.lumps.append((end, [] if walls[i] is None else [end], i))
        self.nodes: list[tuple[arb, arb]] = []  # point, weight
        self.error = arb(0)
        roots = cache(
            lambda order: [arb.legendre_p_root(order, i, weight=True) for i in range(order)]
        )
        for a, b in itertools.pairwise([self.low, *inner, self.high]):
            if all(piece_at(phi, a)[1] == 0 for phi in maps):
                self.lumps.append(((arb(a) + arb(b)) / 2, [arb(a), arb(b)], 1))
                continue
            count, order = self._panels(b - a, bits)
            if len(self.nodes) + count * order > _MAX_STATES:
                raise TooLongError(f"the law would take more than {_MAX_STATES} nodes")
            half = (arb(b) - arb(a)) / (2 * count)
            self.error += count * self._error(float(2 * half.upper()), order)
            for k in range(count):
                centre = a + (2 * k + 1) * half
                self.nodes += [(centre - half * x, half * w) for x, w in roots(order)]  # ascend
        self.points = [x for x, _, _ in self.lumps] + [x for x, _ in self.nodes]
        # about the share of the tiles of a table that are not empty
        share = 2 * self._beyond(max((s.std for s in steps), key=float)) / (self.high - self.low)
        self.share = min(1.0, share + (3 + float(self.steepest)) * _TILE / len(self.points))
        self._tables: dict[object, Table] = {}

    def _panels(self, length: float, bits: int) -> tuple[int, int]:
        """Return the fewest panels of an interval, and nodes on each, that err by 2^-bits each."""
        most, found = max(math.ceil(length / (_NARROWEST * self.std)), 1), []
        for count in sorted({math.ceil(most / 2**k) for k in range(most.bit_length() + 1)}):
            order = 8
            while order < _MAX_STATES and not self._error(length / count, order) < arb(2) ** -bits:
                order += max(order // 16, 4)
            found.append((count, order))
        return min(found, key=math.prod)

    def _error(self, width: float, order: int) -> arb:
        """Return the bound of the docstring, at the rho where its exponent is least."""
        s, h = arb(self.std), arb(width)
        growth = 1 + self.steepest * self.steepest
        ratio = self.std / width
        rho = arb(math.exp(math.asinh(16 * order * ratio * ratio / float(growth)) / 2))
        reach = h / 4 * (rho - 1 / rho) / s
        exponent = growth * reach * reach / 2 - 2 * order * rho.log()
        unit = h / 2 * 64 / 15 / (s * (2 * arb.pi()).sqrt())
        return (unit * exponent.exp() / (1 - rho**-2)).upper()

    def _beyond(self, std: arb) -> float:
        """Return a distance of the mean at which densities are below the last bit."""
        beyond = 1.01 * float(std.upper()) * math.sqrt(2 * math.log(2) * ctx.prec)
        return beyond + 2.0**-48 * max(-self.low, self.high)  # places are doubles

    def law(self, chain: Chain) -> ClippedNormals:
        """Return the law of a chain."""
        keys = {_balls(phi, step.std) for step in chain.steps for phi in step.maps}
        size = len(self.points)
        self._tables = {key: self._tables[key] for key in keys & self._tables.keys()}
        sums = sum(len(own) > _FEW for step in chain.steps for own in step.moves.values())
        gigabytes = (len(keys) + sums) * self.share * size**2 * (48 + ctx.prec / 8) / 1e9
        seconds = len(keys) * self.share * size**2 * _ENTRY
        for times, steps in (part for path in chain.paths for part in path.segments):
            moves = sum(len(step.maps) for step in steps)
            each = min(times * moves * self.share, (moves + 2 * times.bit_length()) * size)
            seconds += each * size**2 * _PRODUCT
        for much, most, unit in ((gigabytes, _MAX_GIGABYTES, "GB"), (seconds, _MAX_SECONDS, "s")):
            if much > most:
                raise TooLongError(f"the law on {size} states would take about {much:.2g} {unit}")
        error = 2 * max(map(len, chain.paths)) * self.error.upper()
        if not error < 1:
            raise TooLongError("quadrature does not reach the noise of a step")
        place = next(i for i, x in enumerate(self.points) if x == chain.start)
        start = arb_mat([[arb(i == place) for i in range(size)]])
        return ClippedNormals(self.ended(chain, start), chain.walls, error, None)

    def normals(self, masses: arb_mat) -> Iterable[Normal]:
        rows: list[tuple[arb, arb]] = list(zip(masses.entries(), self.points, strict=True))
        return [(mass, x, arb(0)) for mass, x in rows if not mass.is_zero()]

    def move(self, masses: arb_mat, step: Step, ends: tuple[int, int]) -> arb_mat:
        moves = step.moves[ends]
        if len(moves) <= _FEW:
            parts = (_after(masses * p, self._table(phi, step.std)) for p, phi in moves)
            return reduce(operator.add, parts)
        if (step, ends) not in self._tables:
            found: Table = {}
            for weight, phi in moves:
                for place, tile in self._table(phi, step.std).items():
                    _add(found, place, tile * weight)
            self._tables[step, ends] = found
        return _after(masses, self._tables[step, ends])

    def repeated(self, state: State, times: int, steps: tuple[Step, ...]) -> State:
        size = len(self.points)
        if times * len(steps) * self.share > 3 * size and set(state) == {0}:
            unit = [[arb(i == j) for j in range(size)] for i in range(size)]
            once = super().repeated({0: arb_mat(unit)}, 1, steps)
            if set(once) == {0}:  # it does not depend on a memory
                return {0: _powered(state[0], once[0], times, operator.mul)}
        return super().repeated(state, times, steps)

    def _table(self, phi: Map, std: arb) -> Table:
        """Return the probabilities of moves between states, but for those below the last bit."""
        key = _balls(phi, std)
        if key in self._tables:
            return self._tables[key]
        beyond = self._beyond(std)
        spread, size, none = std * arb(2).sqrt(), len(self.points), arb(0)
        unit = 1 / (spread * arb.pi().sqrt())
        nodes = [(x / spread, w * unit) for x, w in self.nodes]
        places = [float(x.mid()) for x, _ in self.nodes]

        def row(mean: arb) -> list[arb]:
            tails, middle, centre = laws.normal_tails(mean, std), float(mean.mid()), mean / spread
            masses = [laws.between(cuts, tails)[i] if cuts else none for _, cuts, i in self.lumps]
            first, last = (bisect.bisect(places, middle + end) for end in (-beyond, beyond))
            near = [w * (-(x - centre) * (x - centre)).exp() for x, w in nodes[first:last]]
            return masses + [none] * first + near + [none] * (len(nodes) - last)

        means = [_image(phi, x)[1] for x in self.points]
        little = arb(0, arb(2) ** -ctx.prec)
        found: Table = {None: arb_mat([[none] * len(self.lumps) + [w * little for _, w in nodes]])}
        for i in range(0, size, _TILE):
            rows = [row(mean) for mean in means[i : i + _TILE]]
            for j in range(0, size, _TILE):
                part = [masses[j : j + _TILE] for masses in rows]
                if any(masses != [none] * _TILE for masses in part):
                    found[i // _TILE, j // _TILE] = arb_mat(part)
        return self._tables.setdefault(key, found)


def _balls(phi: Map, std: arb) -> object:
    """Return the exact balls of a map and its noise, by which equal moves are known."""
    balls = (std, *itertools.chain.from_iterable(piece[1:] for piece in phi))
    exact = tuple(part.man_exp() for ball in balls for part in (ball.mid(), ball.rad()))
    return tuple(piece[0] for piece in phi), exact


def _after(masses: arb_mat, table: Table) -> arb_mat:
    """Return rows of masses times a table.

    Masses are not negative, and the balls of what is in no tile are around 0: where a row adds up
    to T, its products with those of a column add up to a number in T times their ball.
    """
    rows, size = masses.tolist(), masses.ncols()
    parts = [arb_mat([row[i : i + _TILE] for row in rows]) for i in range(0, size, _TILE)]
    found: dict[int, arb_mat] = {}
    for place, tile in table.items():
        if place is not None:
            _add(found, place[1], parts[place[0]] * tile)
    none = arb_mat(len(rows), _TILE)
    sums = [found.get(j, none).tolist() for j in range(len(parts))]
    joined = [[x for part in row for x in part][:size] for row in zip(*sums, strict=True)]
    total = arb_mat([[sum(row, arb(0))] for row in rows])
    return arb_mat(joined) + total * table[None]


def chains_of(pair: Plain) -> tuple[Chain, Chain]:
    """Return the two chains of a process that is written out."""
    return _chain(pair["first"], "pair.first"), _chain(pair["second"], "pair.second")


def _chain(law: Plain, name: str) -> Chain:
    low, high, start = law["lower"], law["upper"], law["start"]
    ends = [-math.inf if low is None else low, math.inf if high is None else high]
    inside = ends[0] < ends[1] and ends[0] <= start <= ends[1]
    require(inside, f"{name}.start must be between the walls, got {start!r}")
    steps = [s for path in law["paths"] for part in path["segments"] for s in part["steps"]]
    memories = 1 + max((phi.get("to", 0) for s in steps for phi in s["maps"]), default=0)

    @cache  # equal steps are one
    def step_of(text: str) -> Step:
        moves: Moves = defaultdict(list)
        plain = json.loads(text)
        for memory in range(memories):
            own = [phi for phi in plain["maps"] if phi.get("from", memory) == memory]
            weights = [phi["weight"] for phi in own]
            weights = laws.probabilities(weights, f"{name}.maps.weight") if own else []
            for phi, weight in zip(own, weights, strict=True):
                moves[memory, phi.get("to", memory)].append((weight, pieces(phi["pieces"])))
        return Step(moves, arb(plain["noise_std"]), arb(0))

    chances = laws.probabilities([path["probability"] for path in law["paths"]], f"{name}.paths")
    paths = []
    for chance, path in zip(chances, law["paths"], strict=True):
        parts = (
            (part["times"], tuple(step_of(json.dumps(one)) for one in part["steps"]))
            for part in path["segments"]
        )
        paths.append(Path(chance, tuple(parts)))
        require(len(paths[-1]) > 0, f"{name}.paths must be of one step or more each")
    return Chain(start, (low, high), tuple(paths))

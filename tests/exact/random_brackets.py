"""Random brackets of exact laws, judged by references in ball arithmetic.

``python -m tests.exact.random_brackets COUNT [SEED]`` prints what becomes of so many settings.

The masses of cells are those of `audit_verify`, which shares no line with the package. Cells end
where the likelihood ratio takes the values that decide, and close around these places, so that the
cells have the divergences of the laws but for the square of the smallest distance. Whatever the
cells, their divergences are at most those of the laws: an upper end below them is certainly wrong.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from audit import Batching
from audit.claims import witness
from audit.constructions import Affine, BiasedWalk, Construction, DriftedWalk, TwoSidedWalk, kinds
from audit.constructions.explicit import (
    Densities,
    ExplicitPair,
    Finite,
    LaplaceMixtures,
    Mixture,
    Mixtures,
)
from audit.constructions.explicit_laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    RandomisedResponse,
)
from audit.curves import Order
from audit.curves.brackets import BracketError
from audit.exact import curve
from audit_verify import laws, walks
from audit_verify.laws import Cell, Draw, TooLongError, bounds, excess, gaussian_delta
from tests.bounds.grid import any_mechanism
from tests.exact.cases import Pair, noisy, process
from tests.mechanisms import noisy_sgd

Array = NDArray[np.float64]
AnyPair = Construction | ExplicitPair

QUANTITIES = ("epsilon", "delta", "renyi", "mu", "beta", "power", "total variation", "pure")
# Relative error of the references: that of cells that end next to the places that decide.
TOLERANCE = 1e-14
# Half widths of cells around such a place, in deviations, and points of a deviation that are
# looked at.
_AROUND = np.array([1e-13, 1e-10, 1e-7, 1e-4])
_POINTS = 40
_FARTHEST = 45.0
_BITS = 400  # of explicit laws, whose masses are relatively accurate
_MAX_BITS, _MAX_NODES, UNKNOWN = 1000, 900, "no reference"
_NONE = np.zeros(0)


@dataclass(frozen=True)
class Question:
    """A quantity at a place, in one order of the pair."""

    quantity: str
    at: float
    order: Order

    def bracket(self, found: Any) -> tuple[float, float]:
        """Return what the package answers."""
        if self.quantity == "mu":  # at the epsilon that proves it
            mu = found.mu_bracket(self.order)
            object.__setattr__(self, "at", mu.epsilon)
            return mu.low, mu.high
        name = {"pure": "epsilon", "total variation": "delta"}.get(self.quantity, self.quantity)
        return getattr(found, f"{name}_bracket")(self.at, self.order)  # type: ignore[no-any-return]


class Reference:
    """Masses of cells, and losses at points, of a pair in the order FORWARD.

    Parameters
    ----------
    masses
        Returns the cells between cuts, which rise; atoms come first and last.
    logs
        Log densities of both laws at points, on a line between ``ends``.
    centres, scales
        Where the losses may turn, and how fast.
    floor
        Log density below which those of ``logs`` are not known.
    """

    def __init__(
        self,
        masses: Callable[[Sequence[float]], list[Cell]],
        logs: Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]] | None,
        centres: Array,
        scales: Array,
        ends: tuple[float, float] = (-math.inf, math.inf),
        *,
        atoms: bool = False,
        kinks: Array = _NONE,
        limits: tuple[float, ...] = (),
        floor: float = -math.inf,
    ) -> None:
        self.masses, self.logs, self.ends, self.atoms = masses, logs, ends, atoms
        self.kinks, self.limits, self.floor = kinks, limits, floor
        self.centres = np.unique(centres)
        self.scale = float(scales.min()) if scales.size else 1.0
        self.points = self._grid(centres, scales)
        if self.points.size:
            self.losses = self.loss(self.points)
            for _ in range(4):  # closer around extreme losses, not those of rounding far away
                at = np.flatnonzero(np.diff(np.sign(np.diff(self.losses))))
                at = at[self.seen[at + 1]]
                at = at[np.argsort(self.losses[at + 1])]
                at = np.unique(np.concatenate([at[:60], at[-60:]]))
                more = np.linspace(self.points[at], self.points[at + 2], 120).ravel()
                self.points = np.union1d(self.points, more)
                self.losses = self.loss(self.points)

    def _grid(self, centres: Array, scales: Array) -> Array:
        if self.logs is None:
            return np.zeros(0)
        near = np.arange(-_FARTHEST, _FARTHEST, 1 / _POINTS)
        far = np.geomspace(_FARTHEST, 1e8, 400)
        offsets = np.concatenate([-far[::-1], near, far])
        if centres.size > 12:  # nodes of one width
            low, high = float(centres.min()), float(centres.max())
            count = int((high - low) / self.scale * _POINTS) + 2
            points = np.concatenate([np.linspace(low, high, count), low + offsets * self.scale])
            points = np.concatenate([points, high + offsets * self.scale])
        else:
            points = (centres[:, None] + scales[:, None] * offsets).ravel()
        inside = points[(points > self.ends[0]) & (points < self.ends[1])]
        finite = [end for end in self.ends if math.isfinite(end)]
        return np.unique(np.concatenate([inside, finite]))

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Points where losses are known: near to some normal, as squared distances round.

        Log densities below ``floor`` are those of errors of the masses.
        """
        at = np.searchsorted(self.centres, self.points)
        ends = np.concatenate([[-np.inf], self.centres, [np.inf]])
        apart = np.minimum(self.points - ends[at], ends[at + 1] - self.points) / self.scale
        near = 4e-16 * apart**2 <= 1e-10 * (1 + np.abs(self.losses))
        if self.floor > -math.inf and self.logs is not None:
            near &= np.minimum(*self.logs(self.points)) > self.floor
        return np.asarray(near)

    def loss(self, points: NDArray[Any]) -> Array:
        assert self.logs is not None
        p, q = self.logs(points)
        return np.asarray(p - q, dtype=np.float64)

    def largest(self, sign: int) -> float:
        """Return the largest loss around the point of the largest one that is known."""
        known = np.flatnonzero(self.seen)
        at = int(known[np.argmax(sign * self.losses[known])])
        ends = self.points[max(at - 1, 0)], self.points[min(at + 1, self.points.size - 1)]
        for _ in range(8):
            points = np.linspace(*ends, 101)
            losses = sign * self.loss(points)
            best = int(np.argmax(losses))
            ends = points[max(best - 1, 0)], points[min(best + 1, 100)]
        return float(losses[best])

    def roots(self, level: float) -> Array:
        """Return where the loss takes a value."""
        if self.points.size < 2:
            return np.zeros(0)
        above = self.losses > level
        at = np.flatnonzero(above[1:] != above[:-1])
        rising = above[at + 1]
        # losses of nearly equal laws are far below the rounding of doubles
        low, high = (self.points[k].astype(np.longdouble) for k in (at, at + 1))
        for _ in range(70):
            middle = 0.5 * (low + high)
            up = (self.loss(middle) > level) == rising
            low, high = np.where(up, low, middle), np.where(up, middle, high)
        return np.asarray(0.5 * (low + high), dtype=np.float64)

    def cells(self, levels: Sequence[float], order: Order) -> list[Cell]:
        """Return cells that have the divergences of the laws where a loss decides."""
        sign = 1 if order is Order.FORWARD else -1
        roots = [self.roots(sign * x) for x in levels if math.isfinite(x)]
        places = np.concatenate([self.kinks, *roots])
        cuts = np.concatenate(
            [places, *(places + s * w * self.scale for w in _AROUND for s in (-1, 1))]
        )
        cuts = np.unique(cuts[(cuts > self.ends[0]) & (cuts < self.ends[1])])
        found = self.masses(cuts.tolist())
        return found if order is Order.FORWARD else [(q, p) for p, q in found]


def _log_sum(logs: NDArray[Any]) -> NDArray[Any]:
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(logs - top).sum(axis=-1)))


def _limits(both: Sequence[tuple[Array, Array, Array]]) -> tuple[float, float]:
    """Return the losses of two mixtures at both ends of the line: of their outermost normals."""
    found = []
    for side in (-1, 1):
        ends = []
        for logs, means, stds in both:
            outermost = max(zip(stds.tolist(), (side * means).tolist(), strict=True))
            own = (stds == outermost[0]) & (side * means == outermost[1])
            ends.append((outermost, float(np.logaddexp.reduce(logs[own]))))
        (p, log_p), (q, log_q) = ends
        found.append(log_p - log_q if p == q else math.inf if p > q else -math.inf)
    return found[0], found[1]


def _normal_logs(
    weights: Array, means: Array, stds: Array
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the log density of a mixture; ``weights`` are logarithms."""

    def logs(points: NDArray[Any]) -> NDArray[Any]:
        found = []
        for some in np.array_split(points, max(points.size * means.size // 2_000_000, 1)):
            z = (some[:, None] - means) / stds
            found.append(_log_sum(weights - np.log(stds) - z * z / 2))
        return np.concatenate(found) - math.log(math.sqrt(2 * math.pi))

    return logs


def explicit_reference(pair: ExplicitPair) -> Reference:
    """Return the reference of a draw from explicit laws."""
    ctx.prec = _BITS
    plain = witness.plain_pair(pair)
    given = pair.distributions()

    def masses(cuts: Sequence[float]) -> list[Cell]:
        return laws.explicit_cells(plain, {"cuts": cuts})

    if isinstance(given, Finite):
        return Reference(lambda _: _counts(given, masses([])), None, _NONE, _NONE)
    if isinstance(given, Mixtures):
        both = given.first, given.second
        parts = []
        for law in both:
            kept = [k for k, w in enumerate(law.weights) if w > 0]
            w, m, s = (np.array(x)[kept] for x in (law.weights, law.means, law.stds))
            parts.append((np.log(w), m, s))
        means, stds = (np.concatenate([getattr(law, n) for law in both]) for n in ("means", "stds"))
        p, q = (_normal_logs(*part) for part in parts)
        return Reference(masses, lambda x: (p(x), q(x)), means, stds, limits=_limits(parts))
    if isinstance(given, LaplaceMixtures):
        means = np.array(given.means)

        def laplace(x: NDArray[Any], weights: Sequence[float]) -> NDArray[Any]:
            with np.errstate(divide="ignore"):
                logs = np.log(weights) - np.abs(x[:, None] - means) / given.scale
                return _log_sum(logs) - math.log(2 * given.scale)

        return Reference(
            masses,
            lambda x: (laplace(x, given.first), laplace(x, given.second)),
            means,
            np.full(means.size, given.scale),
            kinks=means,
        )
    assert isinstance(given, Densities)
    middle, slope = 0.5 * (given.low + given.high), given.slope
    width = (given.high - given.low) / 40
    top = math.log(slope / 2) - math.log(math.sinh(slope * (given.high - given.low) / 2))
    return Reference(
        masses,
        lambda x: (top + slope * (x - middle), top - slope * (x - middle)),
        np.array([middle]),
        np.array([width]),
        (given.low, given.high),
    )


def _counts(given: Finite, cells: list[Cell]) -> list[Cell]:
    """Return the cells of the counts of outcomes of repeated draws."""
    found = []
    for counts in _compositions(given.times, len(cells)):
        ways = arb(math.factorial(given.times)) / math.prod(map(math.factorial, counts))
        both = (ways, ways)
        for (p, q), n in zip(cells, counts, strict=True):
            both = both[0] * p**n, both[1] * q**n
        found.append(both)
    return found


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def walk_reference(pair: Construction, bits: int) -> Reference:
    """Return the reference of two walks, with errors of masses below 2^-bits."""
    ctx.prec = bits + 80
    first, second = (witness._process(process) for process in pair.processes())
    both = walks.chains_of({"first": first, "second": second})
    ends = (-math.inf, math.inf)
    found = [walks.straight_law(chain) for chain in both]
    if None not in found:
        ctx.prec = _BITS
        both = walks.chains_of({"first": first, "second": second})
        found = [walks.straight_law(chain) for chain in both]
    else:
        if None in both[0].walls:
            raise TooLongError("a line needs a window")
        grid = walks._Grid(both, (None, None), bits)
        nodes = len(grid.nodes)
        steps = max(len(path) for chain in both for path in chain.paths)
        if nodes > _MAX_NODES or (steps > 1 and nodes > 2 * _MAX_NODES):
            raise TooLongError("many nodes")
        found, ends = [grid.law(chain) for chain in both], (grid.low, grid.high)

    def masses(cuts: Sequence[float]) -> list[Cell]:
        given = [arb(cut) for cut in cuts]
        return list(zip(*(law.masses(given) for law in found), strict=True))

    columns = []
    for law in found:
        every = [(p.mid(), float(mean.mid()), float(v.sqrt().mid())) for p, mean, v in law.normals]
        kept = [(float(p.log()), *rest) for p, *rest in every if p > 0 and float(p.log()) > -3e8]
        columns.append(np.array(kept).T)
    if any(own.size == 0 for own in columns):
        raise TooLongError("no density")
    parts = [_normal_logs(*own) for own in columns]
    means, stds = (np.concatenate([own[k] for own in columns]) for k in (1, 2))
    atoms = math.isfinite(ends[0])
    floor = -(bits - 40) * math.log(2) if atoms else -math.inf
    limits = () if atoms else _limits([(own[0], own[1], own[2]) for own in columns])
    return Reference(
        masses,
        lambda x: (parts[0](x), parts[1](x)),
        means,
        stds,
        ends,
        atoms=atoms,
        limits=limits,
        floor=floor,
    )


# ---------------------------------------------------------------------------- judging


def judged(question: Question, bracket: tuple[float, float], reference: Reference) -> str:
    """Return what is wrong with a bracket; empty if nothing is."""
    low, high = bracket
    judges = {"delta": _delta, "total variation": _delta, "epsilon": _epsilon, "pure": _pure}
    judges |= {"mu": _mu, "power": _power, "beta": _power, "renyi": _renyi}
    return judges[question.quantity](question, low, high, reference)


def _excess(cells: list[Cell], epsilon: arb) -> Cell:
    return bounds(lambda own: excess(own, epsilon), [Draw(cells)])


def _delta(question: Question, low: float, high: float, reference: Reference) -> str:
    epsilon = question.at
    least, most = _excess(reference.cells([epsilon], question.order), arb(epsilon))
    if arb(high) < least:
        return f"high {high!r} below {least}"
    if arb(low) > most * (1 + TOLERANCE):
        return f"low {low!r} above {most}"
    return ""


def _epsilon(question: Question, low: float, high: float, reference: Reference) -> str:
    ends = [end for end in (low, high) if math.isfinite(end)]
    cells = reference.cells(ends, question.order)
    if math.isfinite(high):
        least, _ = _excess(cells, arb(high))
        if least > arb(question.at):
            return f"high {high!r} has delta {least}"
    elif low == math.inf and sum((p for p, q in cells if q.is_zero()), arb(0)) < arb(question.at):
        return "infinite"
    if 0 < low < math.inf:
        # epsilon is at least low if delta is still reached just before
        _, most = _excess(cells, arb(low) * (1 - arb(TOLERANCE)))
        if most * (1 + TOLERANCE) < arb(question.at):
            return f"low {low!r} has delta {most}"
    return ""


def _pure(question: Question, low: float, high: float, reference: Reference) -> str:
    cells = reference.cells([], question.order)
    sign = 1 if question.order is Order.FORWARD else -1
    losses = [0.0]
    seen = True
    if reference.points.size:
        losses.append(reference.largest(sign))
        # in a valley between far normals the largest loss may be where losses are not known
        seen = bool(reference.seen[np.argmax(sign * reference.losses)])
    for p, q in cells if reference.points.size == 0 else (cells[0], cells[-1]):
        if p > 0:
            # of a ball that is wide, the least loss
            loss = math.inf if q.is_zero() else float((p.lower() / q.upper()).log().lower())
            losses.append(loss)
    most = max(losses + [sign * limit for limit in reference.limits])
    slack = 1e-10 * (1 + abs(most))  # the rounding of losses at the points that are seen
    if high < most - slack:
        return f"high {high!r} below {most!r}"
    seen &= all(p.rel_accuracy_bits() > 40 or p.is_zero() for cell in cells for p in cell)
    if seen and low > most + slack:
        return f"low {low!r} above {most!r}"
    return ""


def _mu(question: Question, low: float, high: float, reference: Reference) -> str:
    _, most = _excess(reference.cells([question.at], question.order), arb(question.at))
    if low > 0 and most * (1 + TOLERANCE) < gaussian_delta(arb(question.at), arb(low)):
        return f"low {low!r} is not proven at epsilon {question.at!r}"
    return ""


def _power(question: Question, low: float, high: float, reference: Reference) -> str:
    order = question.order.other  # the alternative first

    def spent(level: float) -> arb:
        return sum(
            (q for p, q in reference.cells([level], order) if p > q * arb(level).exp()), arb(0)
        )

    alpha = arb(question.at)
    least, most = -1e4, 1e4
    for _ in range(60):
        level = 0.5 * (least + most)
        if most - least < 1e-11 * max(1.0, abs(level)):
            break
        least, most = (level, most) if spent(level) > alpha else (least, level)
    cells = reference.cells([least, most], order)
    _, above = _excess(cells, arb(most))
    upper = above + arb(most).exp() * alpha
    ranked = sorted(cells, key=lambda c: _key(*c), reverse=True)
    left, won = alpha, arb(0)
    for p, q in ranked:
        if q < left:
            left, won = (left - q).lower(), won + p
        else:
            won += (left / q.upper()).lower() * p if q.upper() > 0 else p
            break
    if question.quantity == "beta":
        if arb(low) > (1 - won.lower()) * (1 + arb(TOLERANCE)):
            return f"low {low!r} above {1 - won}"
        if arb(high) < (1 - upper.upper()) * (1 - arb(TOLERANCE)) - won * arb(1e-20):
            return f"high {high!r} below {1 - upper}"
        return ""
    if arb(high) < won.lower():
        return f"high {high!r} below {won}"
    if arb(low) > upper * (1 + TOLERANCE):
        return f"low {low!r} above {upper}"
    return ""


def _key(p: arb, q: arb) -> float:
    if p.upper() <= 0:
        return -math.inf
    return float((p.mid() / q.mid()).log()) if q.mid() > 0 and p.mid() > 0 else math.inf


def _renyi(question: Question, low: float, high: float, reference: Reference) -> str:
    alpha = question.at
    cells = reference.cells([], question.order)
    total = -math.inf
    ends = cells if reference.points.size == 0 else []
    if reference.atoms:
        ends = [cells[0], cells[-1]]
        if any(one.rad() > 1e-15 * abs(one.mid()) for end in ends for one in end):
            return UNKNOWN  # beyond walls far away, below the reference's bits
    infinite = False
    for p, q in ends:
        if p.mid() > 0:
            if q.is_zero():
                infinite = True
            else:
                term = alpha * float(p.mid().log()) + (1 - alpha) * float(q.mid().log())
                total = float(np.logaddexp(total, term))
    slack = 1e-13 * alpha * (1 + abs(total) if math.isfinite(total) else 1.0)
    if reference.points.size:
        assert reference.logs is not None
        edges = np.union1d(_wide(reference.points), reference.kinks)
        nodes, weights = np.polynomial.legendre.leggauss(20)
        half = np.longdouble(0.5) * np.diff(edges.astype(np.longdouble))[:, None]
        x = (edges[:-1, None] + half * (1 + nodes)).ravel()
        logs = reference.logs(x)
        log_p, log_q = logs if question.order is Order.FORWARD else logs[::-1]
        terms = alpha * log_p + (1 - alpha) * log_q + np.log((half * weights).ravel())
        total = float(np.logaddexp(total, float(_log_sum(terms[None])[0])))
        top = terms[terms > terms.max() - 60]
        at = np.flatnonzero(terms > terms.max() - 60)
        infinite = at.min(initial=1) == 0 or at.max(initial=0) == terms.size - 1
        infinite = infinite and math.isinf(reference.ends[0])
        slack = (
            1e-13 * alpha * (1 + float(np.abs(log_p[at]).max() + np.abs(log_q[at]).max()))
            + 1e-15 * top.size
        )
    if infinite:
        return "" if math.isinf(high) else f"high {high!r} of an infinite divergence"
    true = max(total / (alpha - 1), 0.0)
    slack /= alpha - 1
    if low > true + slack:
        return f"low {low!r} above {true!r}"
    return f"high {high!r} below {true!r}" if high < true - slack else ""


def _wide(points: Array) -> Array:
    """Return points without those that are closer together than quadrature needs."""
    kept = [0]
    gap = np.diff(points)
    size = float(np.median(gap))
    for k in range(1, points.size):
        if points[k] - points[kept[-1]] >= 0.5 * size or k == points.size - 1:
            kept.append(k)
    return points[kept]


# ---------------------------------------------------------------------------- settings


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10 ** rng.uniform(math.log10(low), math.log10(high)))


def _mixture(rng: np.random.Generator, count: int, spread: float, stds: Sequence[float]) -> Mixture:
    weights = (
        np.exp(rng.uniform(math.log(1e-12), 0.0, count))
        if rng.random() < 0.4
        else rng.dirichlet(np.ones(count))
    )
    weights = np.maximum(weights, 1e-300)
    weights = weights / math.fsum(weights)
    means = rng.uniform(-spread, spread, count)
    return Mixture(tuple(weights.tolist()), tuple(means.tolist()), tuple(stds))


def mixtures(rng: np.random.Generator) -> Mixtures:
    """Mixtures of one width or several, close or far, nearly equal or not."""
    spread = _log(rng, 1e-2, 30)
    counts = rng.integers(1, 5, 2)
    width = _log(rng, 1e-3, 1e3) if rng.random() < 0.3 else 1.0
    if rng.random() < 0.6:
        stds = [[width] * int(n) for n in counts]
    else:
        stds = [(width * rng.uniform(0.3, 3.0, n)).tolist() for n in counts]
    first = _mixture(rng, int(counts[0]), spread * width, stds[0])
    if rng.random() < 0.3:  # a mean moves, by a little or by much
        moved = np.array(first.means)
        moved[int(rng.integers(moved.size))] += _log(rng, 1e-9, 3) * width
        return Mixtures(first, Mixture(first.weights, tuple(moved.tolist()), first.stds))
    return Mixtures(first, _mixture(rng, int(counts[1]), spread * width, stds[1]))


def nasty(rng: np.random.Generator) -> ExplicitPair:
    """Two modes, turning ratios, far bumps, atoms only."""
    kind = int(rng.integers(5))
    if kind == 0:  # the ratio has a maximum between two bumps
        gap, weight = rng.uniform(2, 40), _log(rng, 1e-12, 0.5)
        return Mixtures(
            Mixture((1 - weight, weight), (0.0, gap), (1.0, 1.0)),
            Mixture((1 - weight, weight), (_log(rng, 1e-6, 1), gap), (1.0, 1.0)),
        )
    if kind == 1:  # wide against narrow
        return Mixtures(
            Mixture((1.0,), (0.0,), (1.0,)),
            Mixture((1.0,), (rng.uniform(-3, 3),), (_log(rng, 0.2, 5),)),
        )
    if kind == 2:  # bumps far apart
        far = _log(rng, 1e2, 1e6)
        return Mixtures(
            Mixture((0.5, 0.5), (0.0, far), (1.0, 1.0)), Mixture((0.5, 0.5), (0.3, far), (1.0, 1.0))
        )
    if kind == 3:
        p = rng.dirichlet(np.ones(4))
        q = p * np.exp(_log(rng, 1e-12, 1) * rng.normal(size=4))
        return Finite(tuple((p / math.fsum(p)).tolist()), tuple((q / math.fsum(q)).tolist()))
    mu = _log(rng, 1e-12, 1e-3)
    return Mixtures(
        Mixture((0.5, 0.5), (0.0, 3.0), (1.0, 1.0)), Mixture((0.5, 0.5), (mu, 3.0 + mu), (1.0, 1.0))
    )


def textbook(rng: np.random.Generator) -> ExplicitPair:
    kind, rate = int(rng.integers(5)), 1.0 if rng.random() < 0.5 else _log(rng, 1e-6, 0.99)
    if kind == 0:
        return Gaussian(sensitivity=_log(rng, 1e-9, 50), noise_std=1.0, sampling_rate=rate)
    if kind == 1:
        return Laplace(sensitivity=_log(rng, 1e-3, 300), scale=1.0, sampling_rate=rate)
    if kind == 2:
        outcomes, times = int(rng.integers(2, 5)), int(rng.integers(1, 12))
        return RandomisedResponse(
            epsilon=_log(rng, 1e-6, 20), outcomes=outcomes, sampling_rate=rate, times=times
        )
    if kind == 3:
        return DiscreteLaplace(
            sensitivity=int(rng.integers(1, 8)), scale=_log(rng, 0.3, 30), sampling_rate=rate
        )
    return DiscreteGaussian(
        sensitivity=int(rng.integers(1, 4)), noise_std=_log(rng, 0.5, 5), sampling_rate=rate
    )


def laplace(rng: np.random.Generator) -> ExplicitPair:
    if rng.random() < 0.3:
        low = rng.uniform(-3, 1)
        return Densities(_log(rng, 1e-3, 30), low, low + _log(rng, 1e-2, 10))
    count = int(rng.integers(2, 6))
    both = rng.dirichlet(np.ones(count), 2)
    both = both / np.array([[math.fsum(row)] for row in both])
    means = rng.uniform(-1, 1, count) * _log(rng, 1e-2, 50)
    first, second = (tuple(row.tolist()) for row in both)
    return LaplaceMixtures(1.0, tuple(means.tolist()), first, second)


def registered(rng: np.random.Generator) -> Construction:
    """A random member of a random construction for a small mechanism."""
    while True:
        m = any_mechanism(rng, int(rng.integers(100)))
        names = list(kinds())
        kind = kinds()[names[int(rng.integers(len(names)))]]
        pair = next(kind.random(m, rng), None)
        if pair is not None:
            return pair


def walk(rng: np.random.Generator) -> Construction:
    """Walks of many steps, or on long or short domains."""
    steps = int(10 ** rng.uniform(0, 6)) if rng.random() < 0.5 else int(rng.integers(1, 30))
    wide = rng.random() < 0.2
    if wide:
        steps = int(rng.integers(1, 3))
    size = _log(rng, 20, 1000) if wide else _log(rng, 1e-3, 16)
    batching = [Batching.FULL, Batching.WITHOUT_REPLACEMENT, Batching.POISSON][int(rng.integers(3))]
    n = int(rng.integers(2, 5))
    push = _log(rng, 1e-3, 3) * (size if wide else 1.0)
    m = noisy_sgd(
        steps=steps,
        dataset_size=n,
        batch_size=n if batching is Batching.FULL else int(rng.integers(1, n)),
        lipschitz=push,
        smoothness=None,
        diameter=size,
        batching=batching,
    )
    kind = int(rng.integers(3))
    start = rng.uniform(-0.5, 0.5) * size
    if kind == 0:
        return TwoSidedWalk(m, start=start)
    if kind == 1:
        return BiasedWalk(m, start=start)
    return DriftedWalk(m, drift=rng.uniform(-0.5, 0.5) * push, start=start)


def bumps(rng: np.random.Generator) -> Construction:
    """One step of maps 2 to 30 deviations apart with weights of 1e-12 to 1/2, between walls."""
    gap, weight = rng.uniform(2, 30), _log(rng, 1e-12, 1)
    weights = rng.permutation([1 / (1 + weight), weight / (1 + weight)])
    means = np.array([-gap / 2, gap / 2])
    moved, others = means, weights
    kind = int(rng.integers(3))  # the second law moves a bump, lacks one, or mirrors the weights
    if kind == 0:
        moved = means + np.array([rng.uniform(1, 4), 0.0])
    elif kind == 1:
        moved = np.array([means[0], means[0] + rng.uniform(0.3, 1) * gap])
    else:
        others = weights[::-1]
    sides = ((means, weights), (moved, others))
    steps = (
        noisy(*(Affine(float(x)) for x in shifts), weights=tuple(chances.tolist()))
        for shifts, chances in sides
    )
    return Pair(*(process(step, lower=-22.0, upper=22.0) for step in steps))


KINDS: dict[str, tuple[float, Callable[[np.random.Generator], AnyPair]]] = {
    "mixtures": (0.22, mixtures),
    "nasty": (0.2, nasty),
    "textbook": (0.14, textbook),
    "laplace": (0.1, laplace),
    "registered": (0.24, registered),
    "walk": (0.06, walk),
    "bumps": (0.04, bumps),
}


def questions(rng: np.random.Generator, found: Any, explicit: bool) -> list[Question]:
    """Return random questions to a curve."""
    asked = []
    for quantity in rng.permutation(QUANTITIES)[:5]:
        order = Order.FORWARD if rng.random() < 0.5 else Order.REVERSE
        name, at = str(quantity), 0.0
        if name == "epsilon":
            exponent = (-300, -12) if rng.random() < 0.35 and explicit else (-14, -0.3)
            at = float(10 ** rng.uniform(*exponent))
        elif name == "delta":
            scale = max(found.epsilon_bracket(1e-9, order)[0], 1e-9)
            at = float(rng.uniform(-0.5, 1.3) * min(scale, 600.0))
        elif name == "renyi":
            at = 1 + _log(rng, 1e-2, 100)
        elif name in ("power", "beta"):
            at = _log(rng, 1e-9, 0.99)
        asked.append(Question(name, at, order))
    if rng.random() < 0.3:  # a ratio that touches e^epsilon
        order = Order.FORWARD if rng.random() < 0.5 else Order.REVERSE
        low, _ = found.epsilon_bracket(0.0, order)
        if 0 < low < 600:
            asked.append(Question("delta", low * (1 - _log(rng, 1e-12, 1e-3)), order))
    return asked


@dataclass
class Outcome:
    """What became of a bracket."""

    kind: str
    pair: str
    question: Question
    bracket: tuple[float, float]
    word: str
    details: str = ""

    @property
    def width(self) -> float:
        low, high = self.bracket
        return (high - low) / max(low, 1e-300) if high > low else 0.0


def outcomes(number: int, seed: int) -> list[Outcome]:
    """Return what became of the brackets of a setting."""
    rng = np.random.default_rng([seed, number])
    names, parts = list(KINDS), np.array([share for share, _ in KINDS.values()])
    kind = names[int(rng.choice(len(names), p=parts / parts.sum()))]
    return judged_pair(kind, rng)


def judged_pair(kind: str, rng: np.random.Generator) -> list[Outcome]:
    """Return what became of the brackets of a random pair of a kind."""
    pair = KINDS[kind][1](rng)
    explicit = isinstance(pair, ExplicitPair)
    nothing = Question("curve", 0.0, Order.FORWARD)
    try:
        found = curve(pair)
        asked = questions(rng, found, explicit)
        brackets = [question.bracket(found) for question in asked]
    except ValueError as error:
        word = "bracket error" if isinstance(error, BracketError) else "refused"
        return [Outcome(kind, repr(pair), nothing, (0.0, math.inf), word, str(error))]
    try:
        if isinstance(pair, ExplicitPair):
            reference = explicit_reference(pair)
        else:
            reference = walk_reference(pair, _bits(asked, brackets))
    except (TooLongError, ValueError) as error:
        return [
            Outcome(kind, repr(pair), q, b, UNKNOWN, str(error))
            for q, b in zip(asked, brackets, strict=True)
        ]
    done = []
    for question, bracket in zip(asked, brackets, strict=True):
        wrong = judged(question, bracket, reference)
        word = wrong if wrong == UNKNOWN else "wrong" if wrong else "true"
        done.append(Outcome(kind, repr(pair), question, bracket, word, wrong))
    return done


def _bits(asked: list[Question], brackets: list[tuple[float, float]]) -> int:
    bits = 80.0
    for question, (low, high) in zip(asked, brackets, strict=True):
        most = 80.0
        if question.quantity == "epsilon":
            most = (
                80 - math.log2(question.at) + (high if math.isfinite(high) else low) / math.log(2)
            )
        elif question.quantity in ("delta", "total variation"):
            most = 80 + max(question.at, 0) / math.log(2) - math.log2(max(high, 1e-300))
        elif question.quantity in ("power", "beta"):
            most = 80 - math.log2(question.at) - math.log2(max(low, 1e-60))
        bits = max(bits, most)
    if bits > _MAX_BITS:
        raise TooLongError(f"{bits:.0f} bits")
    return math.ceil(bits)


def main() -> None:
    """Count the outcomes of settings, and print those that are wrong or wide."""
    count, seed, first = (*(int(word) for word in sys.argv[1:4]), 0, 0)[:3]
    words, widths = Counter[str](), list[float]()
    for number in range(first, first + count):
        begun = time.process_time()
        for found in outcomes(number, seed):
            words[f"{found.kind}: {found.word}"] += 1
            known = found.word in ("true", UNKNOWN)
            if known and found.bracket[0] <= 50 and math.isfinite(found.bracket[1]):
                widths.append(found.width)
            if not known or (widths and found.width == widths[-1] > 1e-6):
                print(number, found, flush=True)
        if (spent := time.process_time() - begun) > 20:
            print(number, f"took {spent:.0f} s", flush=True)
    print(dict(sorted(words.items())))
    median, most, largest = np.quantile(widths, [0.5, 0.95, 1.0])
    print(f"relative widths: median {median:.2g}, 95% {most:.2g}, largest {largest:.2g}")


if __name__ == "__main__":
    main()

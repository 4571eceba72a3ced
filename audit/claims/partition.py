"""The finite partition that decides a refutation: the cells of a witness, and their scores.

The probabilities of the cells alone exceed the claimed number, so that whoever checks a witness
needs no search. Only `_line_of` depends on how laws are computed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from audit.constructions.explicit import Mixture, Mixtures
from audit.curves import Order
from audit.curves.quantities import (
    ClaimedNumber,
    EpsilonAtDelta,
    Mu,
    PowerAtAlpha,
    Quantity,
    RenyiAtOrder,
)
from audit.numerics.arrays import Array, Flags
from audit.numerics.normal import gaussian_delta

Plain = Mapping[str, Any]
Density = Callable[[Array], Array]

_NAMES = ("first", "second")
_POINTS = 20_001  # at which the loss of one draw is evaluated
_LOG_DENSITY, _MIN_LOG_DENSITY = -80.0, -680.0  # log density, where a line without walls may end
_BISECTIONS, _FAR = 60, 1e100
_MAX_CELLS, _MIN_CELLS = 4000, 64
_SUM_REACH = 11.0  # standard deviations of a sum of scores
_RARE_MASS = 1e-18  # probability of the losses of all draws whose scores are cut off
_COORDINATE_CELLS = 80
_BITS = 50  # accuracy of the masses of cells, relative to that of the rarest one
_MAX_SCORES, _LEAST_MODULUS, _MAX_MODULUS, _MAX_TIMES = 19_000, 4096, 2**20, 10**6
_MIN_GAP = 1e-4  # relative; cells that are merged hide about as much


@dataclass(frozen=True, eq=False)
class _Line:
    """Two log densities on a line: P first, Q second; ``points`` cover what matters.

    Vectors lie on it in a ``direction``.
    """

    points: Array
    log_p: Density
    log_q: Density
    direction: tuple[float, ...] | None = None

    @cached_property
    def logs(self) -> tuple[Array, Array]:
        """Both log densities at the points."""
        return self.log_p(self.points), self.log_q(self.points)

    @cached_property
    def losses(self) -> Array:
        """Losses at the points."""
        return self.loss(self.points)

    def loss(self, x: Array) -> Array:
        """Return log p - log q; 0 where neither law has mass."""
        with np.errstate(invalid="ignore"):
            loss = self.log_p(x) - self.log_q(x)
        return np.nan_to_num(loss, nan=0.0, posinf=1e300, neginf=-1e300)

    def shares(self, power: float) -> Array:
        """Return masses of the points under the density p^power q^(1 - power), normalised."""
        widths = np.gradient(self.points)
        with np.errstate(invalid="ignore"):
            logs = power * self.logs[0] + (1 - power) * self.logs[1]
        logs = np.nan_to_num(logs, nan=-np.inf, posinf=-np.inf) + np.log(widths)
        return np.asarray(np.exp(logs - logsumexp(logs)))


@dataclass(frozen=True)
class _Goal:
    """Question that the cells must decide, and the relative ``gap`` that the claim leaves."""

    quantity: Quantity
    at: float  # where the witness compares
    claimed: float
    certified: float
    gap: float

    @property
    def number(self) -> float:
        """The certified number, or the claimed one where that is infinite."""
        return self.certified if math.isfinite(self.certified) else self.claimed


def partition_of(
    plain: Plain,
    law: Any,
    number: ClaimedNumber,
    order: Order,
    at: float,
    certified: float,
    walls: tuple[float, float] = (-math.inf, math.inf),
) -> dict[str, Any]:
    """Return the partition that decides whether a pair refutes a claimed number.

    ``plain`` is the pair as plain numbers, and ``law`` the exact curve of a process, which holds
    its two laws as ``first`` and ``second``; ``walls`` are the ends of its domain. What the law is
    certified to have at ``at``, ``certified``, decides how fine the cells are.

    The partition has ``cuts`` between intervals of a line, or of each coordinate; ``scores`` of the
    cells and a ``modulus`` for several draws; ``window`` and ``direction`` where a law needs them;
    ``parts`` for different draws; ``bits`` where masses need many. Raises ``ValueError`` if none is
    known.
    """
    quantity, claimed = number.quantity, number.value + number.slack
    swap = order is Order.REVERSE
    product = plain["kind"] == "product"
    parts = plain["parts"] if product else [plain]
    times = sum(int(part.get("times", 1)) for part in parts)
    if times > _MAX_TIMES:
        raise ValueError(f"times must be at most {_MAX_TIMES:g} for a partition, got {times}")
    alone = times == 1 or quantity.adds_up
    gap = 1e-3
    if math.isfinite(certified) and certified > claimed:
        # a power is above its alpha where it says anything
        least = at if isinstance(quantity, PowerAtAlpha) else 0.0
        gap = min((certified - claimed) / max(certified - least, 1e-300), 1.0)
    # two outcomes have losses: every count then has a sum of its own
    apart = plain["kind"] == "finite" and len(plain["first"]) <= 2
    merges = isinstance(quantity, RenyiAtOrder | PowerAtAlpha) or not (alone or apart)
    if gap < _MIN_GAP and merges:
        raise ValueError(
            f"claimed must be at least {_MIN_GAP:g} below the certified number, relatively, "
            f"for a partition, got {claimed!r} and {certified!r}"
        )
    goal = _Goal(quantity, at, claimed, certified, gap)
    sums_goal = goal
    if isinstance(quantity, Mu):  # a claim of the epsilon ``at``, where the law has this delta
        delta = float(gaussian_delta(np.array(at), np.array(goal.number)))
        sums_goal = _Goal(EpsilonAtDelta(delta), delta, at, at, gap)
    if plain["kind"] == "finite":
        return {} if alone else _finite_scores(plain, sums_goal, swap)
    lines = [line for part in parts if (line := _line(part, law, swap)) is not None]
    if len(lines) < len(parts):  # vectors on a plane
        if alone:
            return {"cuts": _coordinate_cuts(plain).tolist()}
        return _vector_scores(plain, sums_goal, swap)
    sums: Plain = {}
    if alone:
        each = replace(goal, claimed=claimed / times, certified=certified / times)
        if math.isinf(certified) and isinstance(quantity, EpsilonAtDelta):
            # the loss of one draw may be as large as it takes
            each, lines = goal, [_reaching(line, claimed) for line in lines]
        own = [_cuts(line, each) for line in lines]
    else:
        draws = [(line, int(part["times"])) for line, part in zip(lines, parts, strict=True)]
        own, sums = _line_scores(draws, sums_goal)
    if product:
        return {**sums, "parts": own}
    partition = {**sums, **own[0]}
    if lines[0].direction is not None:
        partition["direction"] = list(lines[0].direction)
    if plain["kind"] in ("run", "process"):
        partition |= _reach(lines[0], goal, np.array(partition["cuts"]), walls)
    return partition


def _line(plain: Plain, law: Any, swap: bool) -> _Line | None:
    """Return both laws on a line, the one that comes first as P; None if they are not on one."""
    kind, direction = plain["kind"], None
    if kind == "laplacemixtures":
        means, scale = np.array(plain["means"]), plain["scale"]
        points = np.unique(np.linspace(means.min(), means.max(), _POINTS))
        points = np.concatenate([[points[0] - scale], points, [points[-1] + scale]])
        laws = [_laplace_density(plain[name], means, scale) for name in _NAMES]
    elif kind == "densities":
        points = np.linspace(plain["low"], plain["high"], _POINTS)
        laws = [_exponential_density(s * plain["slope"], points[[0, -1]]) for s in (1, -1)]
    else:
        mixtures = None
        if kind == "mixtures":
            mixtures = [Mixture(**plain[name]) for name in _NAMES]
        elif kind == "normalvectors":
            found = _on_a_line(plain)
            if found is None:
                return None
            direction, mixtures = found
        elif hasattr(law.first, "mean"):  # normal laws in closed form
            mixtures = [Mixture((1.0,), (one.mean,), (one.std,)) for one in (law.first, law.second)]
        if mixtures is not None:
            from audit.exact.explicit_curves import single_curve  # takes a while to import

            law = single_curve(Mixtures(mixtures[0], mixtures[1]))
        low, high = law.ends
        points = np.linspace(low, high, _POINTS)
        laws = [law.first.log_density, law.second.log_density]
    log_p, log_q = laws[::-1] if swap else laws
    return _Line(points, log_p, log_q, direction)


def _reach(line: _Line, goal: _Goal, cuts: Array, walls: tuple[float, float]) -> dict[str, Any]:
    """Return the window and the bits that the cells of a chain need.

    Beyond the window, which a chain without walls has, both laws have far less mass than where the
    number is decided: at the cuts, or between quantiles of p^alpha q^(1 - alpha).
    """
    sums = isinstance(goal.quantity, RenyiAtOrder)
    places = cuts
    if sums:
        spared = min((goal.at - 1) * goal.gap / 8, 0.05)  # share of the sum on each side
        first, last = np.searchsorted(np.cumsum(line.shares(goal.at)), (spared, 1 - spared))
        places = line.points[first : last + 1]
    logs = np.minimum(line.log_p(places), line.log_q(places))
    rarest = max(float(np.min(logs, initial=0.0)), _MIN_LOG_DENSITY)
    found: dict[str, Any] = {}
    if sums or len(cuts) == 1:  # all that matters may be rare
        # sums of powers need fewer bits of each cell than a difference of two masses
        own = _BITS // 2 if sums else _BITS
        found["bits"] = max(math.ceil(own - rarest / math.log(2)), _BITS)
    if np.isfinite(walls).all():
        return found
    depth = max(min(rarest, _LOG_DENSITY) + _LOG_DENSITY / 2, _MIN_LOG_DENSITY)
    seen = np.maximum(*line.logs) > depth
    ends = line.points[seen][0], line.points[seen][-1]
    window = [
        None if math.isfinite(wall) else float(end) for wall, end in zip(walls, ends, strict=True)
    ]
    return found | {"window": window}


def _reaching(line: _Line, loss: float) -> _Line:
    """Return a line whose points go on to where the loss is larger, if they have to."""
    while np.max(line.losses) <= loss and np.ptp(line.points) < _FAR:
        line = replace(line, points=2 * line.points - np.mean(line.points))
    return line


def _laplace_density(weights: list[float], means: Array, scale: float) -> Density:
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    return lambda x: np.asarray(logsumexp(logs - np.abs(x[:, None] - means) / scale, axis=1))


def _exponential_density(slope: float, ends: Array) -> Density:
    """Return the log density that is proportional to exp(slope x) between two ends."""
    total = logsumexp(slope * ends, b=np.sign(slope) * np.array([-1, 1])) - math.log(abs(slope))
    return lambda x: slope * x - total


def _means(plain: Plain) -> list[Array]:
    """Return the values of C g under both laws of vectors."""
    strategy = np.array(plain["strategy"], dtype=float)
    return [np.array(plain[name]["vectors"]) @ strategy.T for name in _NAMES]


def _on_a_line(plain: Plain) -> tuple[tuple[float, ...], list[Mixture]] | None:
    """Return the direction of the line of all values of C g, and both laws; None without one."""
    means = _means(plain)
    offsets = np.concatenate(means) - means[1][0]
    far = offsets[int(np.argmax(np.linalg.norm(offsets, axis=1)))]
    length = float(np.linalg.norm(far))
    line = far / length if length else np.eye(far.size)[0]
    off = offsets - np.outer(offsets @ line, line)
    if float(np.max(np.abs(off))) > 1e-9 * length:
        return None
    std = plain["noise_std"] * float(np.linalg.norm(line))
    return tuple(line.tolist()), [
        Mixture(tuple(plain[name]["weights"]), tuple(own @ line), (std,) * len(own))
        for name, own in zip(_NAMES, means, strict=True)
    ]


def _cuts(line: _Line, goal: _Goal) -> dict[str, Any]:
    """Return the cuts for one draw."""
    if isinstance(goal.quantity, RenyiAtOrder):
        hidden = max(goal.gap * goal.number / 4, 1e-300)
        return {"cuts": _renyi_cuts(line, goal.at, hidden).tolist()}
    cuts = _crossings(line, np.array([_level(line, goal)]))
    # atoms shift the level of a test: the event may end at another cut
    if isinstance(goal.quantity, PowerAtAlpha):
        cuts = np.union1d(cuts, _quantile_cuts(line, goal.gap))
    return {"cuts": cuts.tolist()}


def _level(line: _Line, goal: _Goal) -> float:
    """Return the loss at which the deciding event ends."""
    known = goal.quantity.deciding_loss(goal.at, goal.claimed)
    if known is not None:
        return known
    losses, claimed = line.losses, goal.claimed
    if not isinstance(goal.quantity, PowerAtAlpha):  # the largest loss
        # just above the claimed number: an event that is as likely as possible
        largest = min(float(np.max(losses)), goal.certified)
        return min(claimed + 1e-3 * max(1.0, claimed), (claimed + largest) / 2)
    rank = np.argsort(losses, kind="stable")
    place = int(np.searchsorted(np.cumsum(line.shares(1.0)[rank]), goal.at))
    return float(losses[rank][min(place, rank.size - 1)])


def _crossings(line: _Line, levels: Array) -> Array:
    """Return the points where the loss crosses one of ascending levels, by bisection."""
    x, step = line.points, np.searchsorted(levels, line.losses)
    crossed = [
        (x[i], x[i + 1], level)
        for i in np.flatnonzero(step[1:] != step[:-1])
        for level in levels[min(step[i], step[i + 1]) : max(step[i], step[i + 1])]
    ]
    if not crossed:
        return np.empty(0)
    a, b, goal = np.array(crossed).T
    starts_below = line.loss(a) <= goal
    for _ in range(_BISECTIONS):
        middle = (a + b) / 2
        below = (line.loss(middle) <= goal) == starts_below
        a, b = np.where(below, middle, a), np.where(below, b, middle)
    return np.unique((a + b) / 2)


def _renyi_cuts(line: _Line, alpha: float, hidden: float) -> Array:
    """Return cuts of cells that hide at most a part of the Renyi divergence.

    With m the normalised density of p^alpha q^(1 - alpha), cells of width h hide the integral of
    (alpha/24) m (loss' h)^2, which is least for widths inverse to w = (m loss'^2)^(1/3).
    """
    widths = np.gradient(line.points)
    slopes = np.gradient(np.clip(line.losses, -1e100, 1e100), line.points)
    weights = np.cbrt(line.shares(alpha) * (slopes * widths) ** 2)
    count = math.sqrt(alpha * float(weights.sum()) ** 3 / (24 * hidden))
    count = math.ceil(min(max(count, _MIN_CELLS), _MAX_CELLS))
    below = np.cumsum(weights / weights.sum() + 0.1 / weights.size)  # some cells everywhere
    places = np.searchsorted(below, np.linspace(0, below[-1], count)[1:-1])
    return np.unique(line.points[np.clip(places, 1, line.points.size - 2)])


def _quantile_cuts(line: _Line, gap: float) -> Array:
    """Return quantiles of p, of q and between them, as many as a gap needs."""
    count = int(min(max(4 / math.sqrt(gap), _MIN_CELLS), _MAX_CELLS))
    found = []
    for power in (0.5, 0.0, 1.0):
        below = np.cumsum(line.shares(power))
        goals = np.concatenate([np.linspace(0, 1, count), np.geomspace(1e-12, 0.5, count // 4)])
        goals = np.unique(np.concatenate([goals, 1 - goals]))
        places = np.searchsorted(below, goals[1:-1])
        found.append(line.points[np.clip(places, 1, line.points.size - 2)])
    return np.unique(np.concatenate(found))


@dataclass(frozen=True, eq=False)
class _Draws:
    """Losses of one draw, their masses under P, and the number of draws."""

    losses: Array
    masses: Array
    times: int

    def only(self, kept: Flags) -> _Draws:
        """Return the draws without other losses, with normalised masses."""
        masses = self.masses[kept]
        return _Draws(self.losses[kept], masses / masses.sum(), self.times)

    def tilted(self, theta: float) -> tuple[Array, float]:
        """Return masses under P^(1 + theta) Q^(-theta), normalised, and the log of their sum."""
        logs = np.log(self.masses) + theta * self.losses
        total = float(logsumexp(logs))
        return np.exp(logs - total), total


def _tilt(draws: Sequence[_Draws], goal: _Goal) -> float:
    """Return the tilt under which the sum of losses is where the number is decided."""
    if not isinstance(goal.quantity, EpsilonAtDelta):
        return -0.5
    probability = min(max(goal.at, 1e-300), 0.5)

    def reached(theta: float) -> bool:
        slope, total = 0.0, 0.0
        for draw in draws:
            weights, log_sum = draw.tilted(theta)
            slope += draw.times * float(weights @ draw.losses)
            total += draw.times * log_sum
        return bool(slope >= goal.number or theta * slope - total >= -math.log(probability))

    low, high = 0.0, 1.0
    while high < 1e6 and not reached(high):
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return low


def _scoring(
    draws: Sequence[_Draws], goal: _Goal
) -> tuple[float, list[tuple[float, float]], Plain]:
    """Return the unit of scores, their limits for each kind of draw, and the modulus and bits.

    The limits cut off what no sum of draws that matters contains.
    """
    draws = [draw.only(draw.masses > 0) for draw in draws]
    counts, bits = np.array([draw.times for draw in draws]), _BITS
    times = int(counts.sum())
    if not isinstance(goal.quantity, PowerAtAlpha):
        # the largest losses are rarer than what the claim lacks: they may have lower scores
        mass = goal.at if isinstance(goal.quantity, EpsilonAtDelta) else goal.number
        rare = 1e-3 * goal.gap * mass / times
        draws = [_without_largest(draw, rare) for draw in draws]
        # masses of sums are rounded down: fine enough for what the claim lacks
        bits = max(math.ceil(10 - math.log2(max(rare, 1e-300))), bits)
    theta = _tilt(draws, goal)
    means, spreads = [], []  # of the sum, and of one draw: tilted, under P and under Q
    for tilt in (theta, 0.0, -1.0):
        found = [_moments(draw.losses, draw.tilted(tilt)[0]) for draw in draws]
        mean, variance = (counts @ np.array(found)).tolist()
        means.append(mean)
        spreads.append(math.sqrt(variance / times))
    weights = [draw.tilted(theta)[0] for draw in draws]
    limits = []  # of losses
    for draw, own in zip(draws, weights, strict=True):
        rank = np.argsort(draw.losses)
        losses, heaviest = draw.losses[rank], np.maximum(own, draw.masses)[rank]
        low = losses[_place(heaviest, _RARE_MASS / times)]
        high = losses[::-1][_place(heaviest[::-1], _RARE_MASS / times)]
        limits.append((float(low), float(high)))
    widths = [high - low for low, high in limits]
    # rounding hides a part of the variance, and of power and distance at most that part
    allowed = times * min(spreads[:2]) ** 2 / 12 * min(max(goal.gap, 1e-4), 0.06)
    if theta > 0:  # and of delta at most theta^2/2 times the variance; the claim lacks more
        lacks = -math.expm1(-theta * goal.gap * goal.number)
        allowed = min(lacks / (6 * theta**2), times * spreads[0] ** 2 / 12 * 0.06)
    kept = [np.clip(draw.losses, *end) for draw, end in zip(draws, limits, strict=True)]
    unit = max(widths)
    while unit > 0 and allowed < sum(
        count * _moments(losses - unit * np.rint(losses / unit), own)[1]
        for losses, own, count in zip(kept, weights, counts, strict=True)
    ):
        unit /= 1.5
    moved = max(means) - min(means)
    # of the sum of losses
    reach = 2 * (_SUM_REACH * math.sqrt(times) * max(spreads) + moved + max(widths))
    reach = min(reach, sum(n * width for n, width in zip(counts.tolist(), widths, strict=True)))
    unit = min(unit, reach / _LEAST_MODULUS)  # atoms are rounded, not spread
    # where the largest losses are alike
    unit = max(unit, max(widths) / _MAX_SCORES, reach / _MAX_MODULUS)
    modulus = max(16, math.ceil(reach / unit) + 2 * len(draws))
    return unit, limits, {"modulus": modulus, "bits": bits}


def _without_largest(draw: _Draws, mass: float) -> _Draws:
    """Return a draw without its largest losses of a given mass."""
    rank = np.argsort(draw.losses)[::-1]
    return draw.only(draw.losses <= draw.losses[rank][_place(draw.masses[rank], mass)])


def _place(masses: Array, mass: float) -> int:
    """Return the first place up to which masses sum to more than ``mass``, or the last one."""
    return min(int(np.searchsorted(np.cumsum(masses), mass, side="right")), masses.size - 1)


def _moments(losses: Array, masses: Array) -> tuple[float, float]:
    """Return mean and variance."""
    mean = float(masses @ losses)
    return mean, float(masses @ (losses - mean) ** 2)


def _line_scores(
    lines: Sequence[tuple[_Line, int]], goal: _Goal
) -> tuple[list[dict[str, Any]], Plain]:
    """Return the cuts and scores of each kind of draw, and the modulus and bits of their sum."""
    draws = [_Draws(line.losses, line.shares(1.0), times) for line, times in lines]
    unit, limits, sums = _scoring(draws, goal)
    found = []
    for (line, _), (low, high) in zip(lines, limits, strict=True):
        levels = unit * (np.arange(round(low / unit), round(high / unit), dtype=np.float64) + 0.5)
        cuts = _crossings(line, levels)
        ends = np.concatenate([line.points[:1], cuts, line.points[-1:]])
        losses = line.loss((ends[1:] + ends[:-1]) / 2)
        found.append({"cuts": cuts.tolist(), "scores": _scores(losses, unit, low, high)})
    return found, sums


def _scores(losses: Array, unit: float, low: float, high: float) -> list[int]:
    """Return losses within limits as multiples of a unit."""
    return [int(score) for score in np.rint(np.clip(losses, low, high) / unit)]


def _finite_scores(plain: Plain, goal: _Goal, swap: bool) -> dict[str, Any]:
    times = int(plain["times"])
    laws = [np.array(plain[name], dtype=float) for name in _NAMES]
    p, q = laws[::-1] if swap else laws
    shared = (p > 0) & (q > 0)
    scores = np.full(p.size, None)
    if not shared.any():
        return {"scores": scores.tolist(), "modulus": 1}
    sums: Plain
    losses = np.log(p[shared]) - np.log(q[shared])
    different = np.unique(np.round(losses, 12))
    if different.size <= 2:  # all sums are apart
        losses, high = losses - different[0], float(np.ptp(different))
        unit, low, sums = high or 1.0, 0.0, {"modulus": 1 + times * (different.size - 1)}
    else:
        unit, [(low, high)], sums = _scoring([_Draws(losses, p[shared], times)], goal)
    found = _scores(losses, unit, low, high)
    scores[shared] = found
    # outcomes that one law alone has stand apart: P's if they decide, else those that weigh more
    if goal.certified < math.inf and np.sum(q[p == 0]) > np.sum(p[q == 0]):
        scores[q == 0] = max(found)
    else:
        scores[p == 0] = min(found)
    return {"scores": scores.tolist(), **sums}


def _coordinate_cuts(plain: Plain) -> Array:
    means = np.concatenate(_means(plain))
    if means.shape[1] > 2:
        rows = means.shape[1]
        raise ValueError(f"strategy must have values on a line or plane, got {rows} rows")
    std = plain["noise_std"]
    return np.linspace(means.min() - 8 * std, means.max() + 8 * std, _COORDINATE_CELLS)


def _vector_scores(plain: Plain, goal: _Goal, swap: bool) -> dict[str, Any]:
    cuts = _coordinate_cuts(plain)
    std, times = plain["noise_std"], int(plain["times"])
    ends = np.concatenate([[2 * cuts[0] - cuts[1]], cuts, [2 * cuts[-1] - cuts[-2]]])
    middles = (ends[1:] + ends[:-1]) / 2
    places = np.array(list(itertools.product(middles, repeat=len(plain["strategy"]))))
    logs = []
    for name, means in zip(_NAMES, _means(plain), strict=True):
        squares = np.sum((places[:, None, :] - means) ** 2, axis=2)
        weights = np.array(plain[name]["weights"])
        logs.append(logsumexp(-squares / (2 * std**2), axis=1, b=weights))
    log_p, log_q = logs[::-1] if swap else logs
    masses = np.exp(log_p - logsumexp(log_p))
    losses = log_p - log_q
    unit, [limits], sums = _scoring([_Draws(losses, masses, times)], goal)
    return {"cuts": cuts.tolist(), "scores": _scores(losses, unit, *limits), **sums}

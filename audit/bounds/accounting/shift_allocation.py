"""Optimal shifts of a run, for updates that are Lipschitz or have a Hoelder modulus.

Chien and Li (2025, equation (11)) bound the privacy loss of the last k steps by

    sum over t of s_t^2/beta_t + a_t^2/(1 - beta_t),  where  sum over t of c^-(t - tau + 1) a_t >= d

with tau = T - k, s_t the shift of a step that meets the differing record (0 otherwise), d a bound
on the distance at tau and c the Lipschitz constant of a noiseless update. The best beta_t is
s_t/(s_t + a_t), which leaves the sum of b_t^2 with b_t = s_t + a_t. The optimality conditions are
b_t = max(s_t, theta c^-(t - tau + 1)) for one number theta: beta_j = min(1, c^j s/theta). They are
solved exactly, for all lengths at once.

With Hoelder continuous gradients, two iterates at distance z are at most g(z) = z + C z^order apart
after one noiseless update, C the step size times the Hoelder constant (Lemma 3.8). Going back from
the end with shifts a_t, the distance that they absorb is A_T = 0, A_t = h(A_(t+1) + a_t), h the
inverse of g (Theorem 3.7). The sum of b_t^2 is stationary where

    b_(t-1) = max(s_(t-1), b_t g'(A_t)),

so one number, the distance A_(T-1) that the last step absorbs, determines the whole run; it is
found by shooting backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from audit.numerics.arrays import Array

Number = TypeVar("Number", float, Array)

MIN_LOG = -700.0
"""Logarithm of a contraction that is 0."""
_LARGE_LOG = 40.0  # of a ratio r; r^(k - 1) is the sum up to its rounding
_SCANNED_LENGTHS = 1024  # lengths that are tried one by one
_MAX_SHIFT = 1e150  # largest shift; truncating larger ones is valid
_STARTS = 1024
_REFINED_LENGTHS = 12  # number of cheapest lengths whose start is refined
_MAX_LENGTHS = 4096  # lengths that are tried
_FINE_STARTS = 33  # starts per length and round
_ROUNDS = 6


def geometric(log_ratio: float, count: ArrayLike) -> Array:
    """Return 1 + r + ... + r^(count - 1) with r = e^log_ratio; infinite where it overflows."""
    terms = np.asarray(count, dtype=np.float64)
    if log_ratio == 0:
        return terms
    with np.errstate(over="ignore"):
        if log_ratio > _LARGE_LOG:  # r alone may overflow
            return np.asarray(np.exp(log_ratio * (terms - 1)) * (terms > 0))
        return np.asarray(np.expm1(log_ratio * terms) / np.expm1(log_ratio))


@dataclass(frozen=True)
class Meetings:
    """Steps that use the differing record: one in every ``period`` of ``steps``.

    position: Position of the record's step in the cycle, from 0.
    """

    steps: int
    period: int = 1
    position: int = 0

    @property
    def after_last(self) -> int:
        """Number of steps after the last meeting, below ``period``."""
        return (self.steps - 1 - self.position) % self.period

    @property
    def total(self) -> int:
        """Number of meetings."""
        return int(self.before(self.steps))

    def before(self, steps: ArrayLike) -> Array:
        """Return the number of meetings in the first ``steps`` steps."""
        done = np.asarray(steps, dtype=np.float64)
        return np.asarray(np.maximum(np.floor((done - 1 - self.position) / self.period) + 1, 0))


@dataclass(frozen=True)
class LipschitzShifts:
    """Least sums of b_t^2 for updates with Lipschitz constant ``1 + excess``.

    meetings: Steps that use the record.
    shift: Distance s by which the record's two gradients separate the iterates.
    excess: Value of c - 1: eta L for smooth losses, 0 for convex ones, -eta m for strongly convex.
    """

    meetings: Meetings
    shift: float
    excess: float

    @property
    def log_contraction(self) -> float:
        """Logarithm of c."""
        if self.excess <= -1:
            return MIN_LOG
        return float(max(np.log1p(self.excess), MIN_LOG))

    def grown(self, steps: ArrayLike) -> Array:
        """Return the distance to which the shifts of the first ``steps`` steps grow."""
        meetings = self.meetings
        met = meetings.before(steps)
        since = np.asarray(steps, dtype=np.float64) - 1 - meetings.position
        since = np.where(met > 0, since - (met - 1) * meetings.period, 0)
        log_c = self.log_contraction
        with np.errstate(over="ignore"):
            sums = np.maximum(geometric(log_c * meetings.period, met), 1.0)
            return self.shift * np.where(met > 0, np.exp(log_c * since) * sums, 0.0)

    def costs(self, lengths: ArrayLike, distances: ArrayLike) -> Array:
        """Return the least sum of b_t^2 over the last k steps.

        Valid despite rounding: b_t = max(s_t, theta w_t) satisfies the constraint for the computed
        theta, and the cost is that of the same steps.
        """
        k = np.asarray(lengths, dtype=np.float64)
        asked = np.asarray(distances, dtype=np.float64)
        distance = np.where(np.isinf(asked), 0.0, asked)
        log_c, period, after = self.log_contraction, self.meetings.period, self.meetings.after_last
        decay = -abs(log_c)
        # weights w_i = e^(decay i), the largest first: from the end if the maps contract
        if log_c <= 0:
            first = np.full_like(k, after)
            target = np.exp(log_c * k) * distance
        else:
            first = np.mod(k - 1 - after, period)
            target = np.exp(log_c) * distance
        met = np.floor((k - 1 - first) / period) + 1
        free = _free_squares(decay, k, first, met, period)
        active = self._active(decay, first, met, free, target)
        squares = free + np.exp(2 * decay * first) * geometric(2 * decay * period, active)
        sums = np.exp(decay * first) * geometric(decay * period, active)
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = (target + self.shift * sums) ** 2 / squares
        needed = np.where((squares == 0) & (target == 0), 0.0, needed)
        with np.errstate(over="ignore"):
            costs = needed + (met - active) * self.shift**2
        return np.where(np.isinf(asked), np.inf, costs)

    def _active(self, decay: float, first: Array, met: Array, free: Array, target: Array) -> Array:
        """Return how many meetings, those of the largest weights, have b_t above s."""
        period, shift = self.meetings.period, self.shift
        if shift == 0 or decay == 0:
            # equal weights: all or none
            above = target > shift * (free if decay == 0 else 0)
            return np.where(above, met, 0.0)
        # the j-th largest weight is w r^j, and q steps are above s as long as
        # (target/s + w (1 - r^q)/(1 - r)) w r^(q - 1) > free + w^2 (1 - r^2q)/(1 - r^2),
        # which is quadratic in r^(q - 1); everything below is a sum of positive terms
        log_ratio, largest = decay * period, np.exp(decay * first)
        ratio, gap, square = np.exp(log_ratio), -np.expm1(log_ratio), -np.expm1(2 * log_ratio)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            needed = target / shift / largest * square
            others = free / largest / largest * square
            more = needed - others
            root = np.sqrt(gap**2 + needed**2 + 2 * (1 + ratio) * more + 2 * gap * others)
            below = 2 * others + gap - needed
            growth = np.where(below > 0, 2 * more / (root + below), (root - below) / 2)
            growth = np.where(below > 0, growth, growth / (1 + others))
            count = np.ceil(np.log1p(growth) / -log_ratio)
        # without another step to absorb it, any distance needs one
        least = np.where((free == 0) & (target > 0), 1.0, 0.0)
        return np.asarray(np.clip(np.where(more > 0, count, 0.0), least, met))


def _free_squares(decay: float, k: Array, first: Array, met: Array, period: int) -> Array:
    """Sum of the squared weights of the steps that do not meet the record, without subtraction."""
    if period == 1:
        return np.zeros_like(k)
    twice = 2 * decay
    last = first + np.maximum(met - 1, 0) * period
    between = np.exp(twice * (first + 1)) * geometric(twice, period - 1)
    between = between * geometric(twice * period, np.maximum(met - 1, 0))
    tail = np.exp(twice * (last + 1)) * geometric(twice, np.maximum(k - 1 - last, 0))
    return np.where(met > 0, geometric(twice, first) + between + tail, geometric(twice, k))


def smallest(cost: Callable[[Array], Array], longest: int) -> tuple[float, int]:
    """Return the smallest cost over the lengths 1..longest, and a length that attains it.

    Lengths up to 1024 are all tried. Beyond, a grid that is fine at both ends is refined around its
    three lowest points until neighbours are tried. Missing a length loosens the bound; it stays
    valid.
    """
    if longest <= _SCANNED_LENGTHS:
        lengths = np.arange(1, longest + 1, dtype=np.float64)
        return _lowest(cost(lengths), lengths)
    ends = np.geomspace(1, longest, _SCANNED_LENGTHS // 4)
    lengths = np.unique(np.rint(np.concatenate([ends, longest + 1 - ends])))
    values = cost(lengths)
    found = [_lowest(values, lengths)]
    inner = np.pad(values, 1, constant_values=np.inf)
    dips = np.flatnonzero((values <= inner[:-2]) & (values <= inner[2:]))
    dips = dips[np.argsort(values[dips], kind="stable")][:3]
    low, high = lengths[np.maximum(dips - 1, 0)], lengths[np.minimum(dips + 1, lengths.size - 1)]
    rows = np.arange(dips.size)
    while np.any(high - low > 2):  # the minimum itself has been tried
        fine = np.rint(np.linspace(low, high, 65, axis=1))
        costs = cost(fine.ravel()).reshape(fine.shape)
        found.append(_lowest(costs.ravel(), fine.ravel()))
        best = np.argmin(costs, axis=1)
        # to the next distinct lengths, as rounding may repeat some
        step = np.ceil((high - low) / 64)
        low, high = (
            np.maximum(fine[rows, best] - step, low),
            np.minimum(fine[rows, best] + step, high),
        )
    return min(found)


def _lowest(values: Array, lengths: Array) -> tuple[float, int]:
    place = int(np.argmin(values))
    return float(values[place]), int(lengths[place])


@dataclass(frozen=True)
class HolderModulus:
    """Modulus g(z) = z + constant z^order for z >= 0.

    ``constant`` is the step size times the Hoelder constant, ``order`` in (0, 1] its order.
    """

    constant: float
    order: float

    def __call__(self, z: Number) -> Number:
        """Return g(z), of a float as a float: distances are tracked step by step."""
        grown: Number = z + self.constant * z**self.order
        return grown

    def slope(self, z: ArrayLike) -> Array:
        """Return g'(z); infinite at 0 for orders below 1."""
        distance = np.asarray(z, dtype=np.float64)
        if self.order == 1 or self.constant == 0:
            return np.full_like(distance, 1 + self.constant)
        with np.errstate(divide="ignore", over="ignore"):
            return 1 + self.constant * self.order * distance ** (self.order - 1)

    def inverse(self, y: ArrayLike) -> Array:
        """Return h(y), at most the true value up to rounding.

        In closed form for orders 1/2 and 1 (Chien and Li 2025, Lemma 3.9). Otherwise by Newton's
        method from the left, where tangents of the concave g never overshoot the root.
        """
        target = np.asarray(y, dtype=np.float64)
        if self.order == 1 or self.constant == 0:
            return target / (1 + self.constant)
        if self.order == 0.5:
            half = self.constant / 2
            return (target / (half + np.sqrt(half**2 + target))) ** 2
        with np.errstate(over="ignore"):
            powered = (target / (2 * self.constant)) ** (1 / self.order)
        z = np.minimum(target / 2, powered)
        inside = (z > 0) & np.isfinite(target)
        for _ in range(60):
            step = np.where(inside, (target - self(z)) / self.slope(np.where(inside, z, 1)), 0)
            if np.all(step <= 1e-15 * z):
                break
            z = z + np.maximum(step, 0)
        return z


@dataclass(frozen=True)
class HolderShifts:
    """Small sums of b_t^2 for updates whose distances grow by ``modulus``.

    Every value belongs to feasible shifts and is valid; it need not be the smallest.
    """

    meetings: Meetings
    shift: float
    modulus: HolderModulus

    def costs(self, distances: Array) -> Array:
        """Return a sum of b_t^2 over the last k steps, k = 1..len(distances).

        ``distances[k - 1]`` is the distance that the shifts must absorb; infinite for lengths to
        skip. Absorbing it all in the first step is always possible.
        """
        widest = float(np.max(distances[np.isfinite(distances)], initial=0.0))
        at_once = self._at_once(distances)
        if widest == 0:
            return at_once
        starts = widest * np.geomspace(1e-9, 1, _STARTS)
        table = self._shoot(starts, distances)
        costs = np.min(table, axis=1)
        if not np.any(np.isfinite(costs)):
            return at_once
        costs = self._refined(costs, table, starts, distances)
        return np.minimum(costs, at_once)

    def _at_once(self, distances: Array) -> Array:
        """Return the costs of absorbing the distance in the first step."""
        met = np.arange(distances.size) % self.meetings.period == self.meetings.after_last
        first = np.where(met, self.shift, 0.0)
        rest = (np.cumsum(met) - met) * self.shift**2
        return np.asarray(rest + (first + self.modulus(distances)) ** 2)

    def _refined(self, costs: Array, table: Array, starts: Array, distances: Array) -> Array:
        """Refine the start of the cheapest lengths to where the distance is just absorbed."""
        best = costs.copy()
        lengths = np.argsort(costs, kind="stable")[:_REFINED_LENGTHS]
        lengths = lengths[np.isfinite(costs[lengths])]
        places = np.argmin(table[lengths], axis=1)
        low = starts[np.maximum(places - 1, 0)]
        high = starts[np.minimum(places + 1, starts.size - 1)]
        rows = np.arange(lengths.size)
        for _ in range(_ROUNDS):
            fine = np.linspace(low, high, _FINE_STARTS, axis=1)
            found = self._shoot(fine.ravel(), distances[: int(np.max(lengths)) + 1])
            size = found.shape[0]
            best[:size] = np.minimum(best[:size], np.min(found, axis=1))
            own = found[lengths].reshape(lengths.size, lengths.size, _FINE_STARTS)[rows, rows]
            places = np.argmin(own, axis=1)
            low = fine[rows, np.maximum(places - 1, 0)]
            high = fine[rows, np.minimum(places + 1, _FINE_STARTS - 1)]
        return best

    def _shoot(self, starts: Array, distances: Array) -> Array:
        """Return the costs of all starts and lengths; infinite if the distance is not absorbed.

        Shape ``(len(distances), len(starts))``.
        """
        period, after = self.meetings.period, self.meetings.after_last
        table = np.full((distances.size, starts.size), np.inf)
        absorbed = np.zeros_like(starts)
        total = np.zeros_like(starts)
        price = np.zeros_like(starts)
        lowest = np.inf
        for back in range(distances.size):
            shift = self.shift if back % period == after else 0.0
            if back == 0:
                size = shift + self.modulus(starts)
                absorbed = starts
            else:
                size = np.maximum(shift, price)
                absorbed = self.modulus.inverse(absorbed + (size - shift))
            total = total + size**2
            with np.errstate(over="ignore"):
                price = np.minimum(size * self.modulus.slope(absorbed), _MAX_SHIFT)
            enough = absorbed >= distances[back]
            table[back] = np.where(enough, total, np.inf)
            lowest = min(lowest, float(np.min(table[back])))
            if float(np.min(total)) > lowest:
                break
        return table


def cheapest_holder(
    meetings: Meetings,
    shift: float,
    modulus: HolderModulus,
    distance: Callable[[ArrayLike], Array],
    length: int | None = None,
) -> float:
    """Return a small sum of b_t^2 of a run, over all lengths or for a given one.

    ``distance`` maps a number of steps to the distance after them. Order 1 is solved exactly.
    Composition, the length that starts with distance 0, is always among the choices.
    """
    steps = meetings.steps
    if modulus.order == 1 or modulus.constant == 0:
        exact = LipschitzShifts(meetings, shift, modulus.constant)

        def cost(lengths: Array) -> Array:
            return exact.costs(lengths, distance(steps - lengths))

        if length is not None:
            return float(cost(np.array([float(length)]))[0])
        return smallest(cost, steps)[0]
    if length is not None:
        needed = np.full(length, np.inf)
        needed[-1] = float(distance(steps - length))
        return float(HolderShifts(meetings, shift, modulus).costs(needed)[-1])
    lengths = np.arange(1, min(steps, _MAX_LENGTHS) + 1)
    costs = HolderShifts(meetings, shift, modulus).costs(distance(steps - lengths))
    return min(float(np.min(costs)), meetings.total * shift**2)

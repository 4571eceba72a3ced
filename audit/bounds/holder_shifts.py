"""Cheap shifts for updates with Hoelder continuous gradients, found by shooting backwards.

Two iterates at distance z are at most g(z) = z + C z^order apart after one noiseless update, C the
step size times the Hoelder constant (Chien and Li 2025, Lemma 3.8). Going back from the end with
shifts a_t, the distance that they absorb is A_T = 0, A_t = h(A_(t+1) + a_t), h the inverse of g
(their Theorem 3.7). The sum of b_t^2, b_t = s_t + a_t, is stationary where

    b_(t-1) = max(s_(t-1), b_t g'(A_t)),

so one number, the distance A_(T-1) that the last step absorbs, determines the whole run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.bounds.shift_allocation import LipschitzShifts, Meetings, smallest

Array = NDArray[np.float64]

_LARGEST = 1e150  # of a shift: larger ones are cut, which is valid
_STARTS = 1024
_REFINED = 12  # lengths whose start is refined, the cheapest
_LONGEST = 4096  # lengths that are tried
_FINE = 33  # starts of one of them in one round
_ROUNDS = 6


@dataclass(frozen=True)
class HolderModulus:
    """g(z) = z + constant z^order, for z >= 0 and order in (0, 1]."""

    constant: float
    order: float

    def __call__(self, z: ArrayLike) -> Array:
        """Return g(z)."""
        distance = np.asarray(z, dtype=np.float64)
        return distance + self.constant * distance**self.order

    def slope(self, z: ArrayLike) -> Array:
        """Return g'(z); infinite at 0 for orders below 1."""
        distance = np.asarray(z, dtype=np.float64)
        if self.order == 1 or self.constant == 0:
            return np.full_like(distance, 1 + self.constant)
        with np.errstate(divide="ignore", over="ignore"):
            return 1 + self.constant * self.order * distance ** (self.order - 1)

    def inverse(self, y: ArrayLike) -> Array:
        """Return h(y), at most the true value up to rounding.

        Closed for orders 1/2 and 1 (their Lemma 3.9). Otherwise by Newton's method from the left,
        where the tangent of the concave g never reaches beyond the root.
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

    Every value belongs to feasible shifts, so it is valid; it need not be the smallest.
    """

    meetings: Meetings
    shift: float
    modulus: HolderModulus

    def costs(self, distances: Array) -> Array:
        """Return a sum of b_t^2 over the last k steps, k = 1..len(distances).

        ``distances[k - 1]`` is the distance that the shifts must absorb, infinite for lengths that
        are not asked for. To absorb it all in the first step is always possible.
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
        """Narrow the start of the cheapest lengths down to where the distance is just absorbed."""
        best = costs.copy()
        lengths = np.argsort(costs, kind="stable")[:_REFINED]
        lengths = lengths[np.isfinite(costs[lengths])]
        places = np.argmin(table[lengths], axis=1)
        low = starts[np.maximum(places - 1, 0)]
        high = starts[np.minimum(places + 1, starts.size - 1)]
        rows = np.arange(lengths.size)
        for _ in range(_ROUNDS):
            fine = np.linspace(low, high, _FINE, axis=1)
            found = self._shoot(fine.ravel(), distances[: int(np.max(lengths)) + 1])
            size = found.shape[0]
            best[:size] = np.minimum(best[:size], np.min(found, axis=1))
            own = found[lengths].reshape(lengths.size, lengths.size, _FINE)[rows, rows]
            places = np.argmin(own, axis=1)
            low = fine[rows, np.maximum(places - 1, 0)]
            high = fine[rows, np.minimum(places + 1, _FINE - 1)]
        return best

    def _shoot(self, starts: Array, distances: Array) -> Array:
        """Return the costs of all starts and lengths, infinite where the distance is not absorbed.

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
                price = np.minimum(size * self.modulus.slope(absorbed), _LARGEST)
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
    """Return a small sum of b_t^2 of a run, over all lengths or for the one given.

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
    lengths = np.arange(1, min(steps, _LONGEST) + 1)
    costs = HolderShifts(meetings, shift, modulus).costs(distance(steps - lengths))
    return min(float(np.min(costs)), meetings.total * shift**2)

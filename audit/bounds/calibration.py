"""Inversion of bounds: the least noise, or the largest number of steps, for a budget."""

from __future__ import annotations

import math
from collections.abc import Callable

from audit.numerics.roots import last_integer

RELATIVE_TOLERANCE = 1e-6
MAX_STEPS = 10**9

_MAX_FACTOR = 1e18  # largest factor on the mechanism's noise that is tried
_MAX_EVALUATIONS = 200


class _Probe:
    """Evaluator of a bound that records why it failed."""

    def __init__(
        self, bound: Callable[[float], float], target: float, goal: str = "epsilon"
    ) -> None:
        self.bound, self.target, self.goal = bound, target, goal
        self.error: ValueError | None = None
        self.least = math.inf

    def excess(self, value: float) -> float:
        """Return log(epsilon/target), at most 0 if the budget is met; inf if the bound fails.

        For target 0 only the sign is meaningful.
        """
        try:
            epsilon = self.bound(value)
        except ValueError as error:  # the value violates an assumption or the range of an option
            self.error = error
            return math.inf
        self.least = min(self.least, epsilon)
        if epsilon <= self.target:
            return math.log(epsilon / self.target) if epsilon > 0 else -math.inf
        return math.log(epsilon / self.target) if self.target > 0 else math.inf

    def refuse(self, what: str) -> ValueError:
        """Return the error to raise if nothing meets the budget."""
        if math.isinf(self.least) and self.error is not None:
            return self.error
        return ValueError(
            f"{self.goal} must be at least {self.least:.6g} to be met provably by any {what}, "
            f"got {self.target!r}"
        )


def least_noise(
    bound: Callable[[float], float],
    target: float,
    start: float,
    name: str = "noise_std",
    tolerance: float = RELATIVE_TOLERANCE,
    goal: str = "epsilon",
) -> float:
    """Return a noise that meets the budget, at most ``tolerance`` (relative) above the least one.

    ``bound`` is epsilon, which decreases in the noise; a ``ValueError`` counts as not met.
    """
    probe = _Probe(bound, target, goal)
    value, excess, factor = start, probe.excess(start), 2.0
    met = excess <= 0
    while True:
        before, excess_before = value, excess
        value *= 1 / factor if met else factor
        factor = min(factor * factor, 1e6)
        excess = probe.excess(value)
        if (excess <= 0) is not met:
            break
        if not start / _MAX_FACTOR < value < start * _MAX_FACTOR:
            if not met:
                raise probe.refuse(name)
            raise ValueError(
                f"{goal} must be smaller for a least {name}: every {name} down to "
                f"{value:.3g} meets it, got {target!r}"
            )
    if met:
        return _narrow(probe, value, before, excess, excess_before, tolerance)[1]
    return _narrow(probe, before, value, excess_before, excess, tolerance)[1]


def needed_noise(
    bound: Callable[[float], float],
    target: float,
    enough: float,
    tolerance: float = RELATIVE_TOLERANCE,
) -> float:
    """Return a noise that misses the budget, nearly the largest one; 0 if none is found.

    ``bound`` is a lower bound on epsilon, ``enough`` a noise that meets the budget.
    """

    def certified(value: float) -> float:
        try:
            return bound(value)
        except ValueError:
            return 0.0

    probe = _Probe(certified, target)
    high, meets = enough, probe.excess(enough)
    width = tolerance
    while width < math.log(_MAX_FACTOR):
        low = enough * math.exp(-width)
        fails = probe.excess(low)
        if fails > 0:
            return _narrow(probe, low, high, fails, meets, tolerance)[0]
        high, meets, width = low, fails, 4 * width
    return 0.0


def _narrow(
    probe: _Probe, low: float, high: float, fails: float, meets: float, tolerance: float
) -> tuple[float, float]:
    """Narrow a bracket in logarithms: ``low`` misses the budget, and ``high`` meets it."""
    x_low, x_high = math.log(low), math.log(high)
    width = 0.9 * tolerance
    side = 0
    for count in range(_MAX_EVALUATIONS):
        if x_high - x_low <= width:
            break
        if math.isfinite(fails) and math.isfinite(meets) and count % 4 != 3:
            x = x_low + (x_high - x_low) * fails / (fails - meets)  # regula falsi, Illinois
        else:
            x = (x_low + x_high) / 2
        # a step past the root tightens the bracket from the other side
        x = min(max(x, x_low + 0.4 * width), x_high - 0.4 * width)
        value = probe.excess(math.exp(x))
        if value <= 0:
            x_high, high, meets = x, math.exp(x), value
            fails = fails / 2 if side == -1 else fails
            side = -1
        else:
            x_low, low, fails = x, math.exp(x), value
            meets = meets / 2 if side == 1 else meets
            side = 1
    return low, high


def most_steps(bound: Callable[[int], float], target: float, unit: int) -> int:
    """Return the largest multiple of ``unit`` that meets the budget, assuming monotonicity."""
    probe = _Probe(lambda value: bound(int(value)), target)
    count, low = 1, 0
    while True:
        meets = probe.excess(count * unit) <= 0
        if meets:
            low = count
        elif low:
            break
        if 2 * count * unit > MAX_STEPS:
            if low:
                raise ValueError(
                    f"epsilon must be smaller for a largest number of steps: {low * unit} steps "
                    f"still meet it, got {target!r}"
                )
            raise probe.refuse("steps")
        count *= 2
    return unit * last_integer(lambda middle: probe.excess(middle * unit) <= 0, low, count)

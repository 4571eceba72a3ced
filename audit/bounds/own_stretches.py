"""Steps in a row that the coupling recursion takes as one.

A stretch of q steps is described by the parameters of one step, (c, v, s), and by whether it is
one. From distance r, with noise shared and no walls, the distance becomes c r + v at its end.

Merging q steps of one kind gives c' = c^q, v' = v (1 + c + ... + c^(q-1)) and
s'^2 = s^2 (1 + c^2 + ... + c^(2(q-1))), and of the options of one step these are left:

- Parallel, to distance z: step i changes the distance from z_(i-1) to z_i = c z_(i-1) + v - x_i at
  a log-weight of parameter x_i/s, so that the parameters add up in squares. The least sum with
  z_q = z is (c' r + v' - z)^2/s'^2, with x_i proportional to c^(q-i); all z_i >= 0 then.
- Shifted reflection at one weight and one local distance z <= r in every step, until the two come
  to z; then parallel moves that keep z, of the parameters of composition, to the end. (Composition
  for fewer steps than q costs no more: H is convex in the weight, and more noise in a weight of the
  same mean only raises its mean.) The distance beyond z is that of a killed walk
  (`audit.bounds.own_survival`) to which v is added before each step. Adding all of v at once,
  before the first step, makes the walk larger in law and killed later, since K(r) + a, where K(r)
  is positive, is below K(r + a) in law; so does leaving out the walls on the way. Of q steps one
  is left, with the means c'(r - z) + v' apart and noise s'. What the walk comes to is charged the
  larger of H and the cost of having come to z, which rises with the distance, so that the larger
  walk bounds the charge.

A stretch that meets the record every l-th step, at the end of each period, is merged for c = 1. The
shifts up to a step must not exceed r and what the record has added before: their sums are a path
under a staircase, and the least sum of squares is that of the taut string, the convex hull from
below of its ends and of the corners of the staircase, each just before a meeting. (Composition over
the last of these steps costs no more than over all of them: from distance 0 in the midst of the
best path, smaller shifts do.)
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.bounds.own_shared import Run
from audit.bounds.shift_allocation import geometric

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """Parameters of a stretch.

    Parameters
    ----------
    count
        q, how many steps it stands for.
    contraction, shift, noise
        c', v' and s'.
    meetings, period
        How often the record is met, and in how many steps once; period 1 for each step or none.
    rate
        The chance that the record is in the batch, 1 for fixed batches.
    """

    count: int
    contraction: float
    shift: float
    noise: float
    meetings: int = 1
    period: int = 1
    rate: float = 1.0

    @property
    def merged(self) -> bool:
        """Whether it stands for more than one step."""
        return self.count > 1

    def before_noise(self, distance: Array) -> Array:
        """Return c' r + v', the distance without noise."""
        return np.asarray(self.contraction * distance + self.shift)

    def parallel(self, start: float, end: float) -> float:
        """Return the parameter of moving from distance ``start`` to ``end``; 0 where it is free."""
        total = self.contraction * start + self.shift - end
        if total <= 0:
            return 0.0
        if self.period == 1 or self.meetings == 0:
            return total / self.noise
        one = self.shift / self.meetings
        corners = [
            (j * self.period - 1.0, start + (j - 1) * one) for j in range(1, self.meetings + 1)
        ]
        return _taut(corners, (float(self.count), total)) * math.sqrt(self.count) / self.noise


def _taut(corners: list[tuple[float, float]], end: tuple[float, float]) -> float:
    """Return the root of the sum of squared rises, step by step, of the string from (0, 0)."""
    hull = [(0.0, 0.0)]
    for x, y in [*corners, end]:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    rises = ((y1 - y0) ** 2 / (x1 - x0) for (x0, y0), (x1, y1) in itertools.pairwise(hull))
    return math.sqrt(sum(rises))


def _repeated(run: Run, count: int, shift: float, meetings: int) -> Stretch:
    """Merge ``count`` steps, each with the same shift."""
    log_c = math.log1p(-run.gap) if run.gap < 1 else -700.0
    return Stretch(
        count,
        run.contraction**count,
        shift * float(geometric(log_c, count)),
        run.noise * math.sqrt(float(geometric(2 * log_c, count))),
        meetings=meetings,
        rate=run.rate,
    )


def merging(run: Run, width: float, rounds: int) -> int:
    """Return how many steps to merge: noise up to ``width``, and ``rounds`` stretches or more."""
    if run.rate < 1:
        return 1  # the batch of each step is drawn anew
    count = max(min(int((width / run.noise) ** 2), run.steps // rounds), 1)
    if run.gap > 0:
        count = max(min(count, int(0.25 / run.gap)), 1)
    return count


def stretches(run: Run, merged: int) -> tuple[Stretch, ...]:
    """Return the stretches that are repeated, from the last step of the run backward."""
    length = run.period
    if length == 1:
        return (_repeated(run, merged, run.shift, 1),)
    if merged >= length and run.gap == 0:
        n = merged // length
        noise = run.noise * math.sqrt(n * length)
        return (Stretch(n * length, 1.0, n * run.shift, noise, meetings=n, period=length),)
    idle = length - 1
    parts = -(-idle // merged)
    counts = [(idle + k) // parts for k in range(parts)]
    return (
        _repeated(run, 1, run.shift, 1),
        *(_repeated(run, count, 0.0, 0) for count in counts),
    )

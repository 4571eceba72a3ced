"""The shifts of the bound `own.modulus`: a search over the distance before the last shift.

The theorem and its proof are in `audit.bounds.own.modulus`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.bounds.own.modulus import Modulus, modulus_of, whole_gradient
from audit.bounds.own.parallel_moves import least_mu
from audit.bounds.own.run import WorstRun
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD, Relation
from audit.numerics.arrays import Array
from audit.numerics.compiled import compiled_loop

_LONGEST = 1 << 20  # steps over which shifts are spread
_UP = 1 + 64 * 2.0**-53  # roundings of one step: products, a root or a power, and sums
_COST_UP = 1 + 4 * _LONGEST * 2.0**-53  # of sums of up to _LONGEST squares
_LONG = 1 << 15
_TRACKED = 1 << 25  # steps over which distances grow one by one
_STARTS = 192
_FINE = 48  # a third of it for long runs
_ROUNDS = 3
_DIPS = 3
_COMPOSED = 2

_Step = tuple[float, float, float, float, float, float, float]  # modulus, push and speed


@compiled_loop
def _reach(step: _Step, z: float) -> float:
    """Return the largest distance after a step's updates, min(w(z) + push, z + speed)."""
    factor, jump, scale, square, order, push, speed = step
    if z <= 0:
        return push
    w = min(factor * z, z + jump)
    if scale < math.inf:
        w = min(w, z + scale * z**order)
    return min(min(w, math.sqrt(z * z + square)) + push, z + speed)


@compiled_loop
def _slope(step: _Step, z: float) -> float:
    """Return the derivative of `_reach` at z > 0."""
    factor, _, scale, square, order, push, _ = step
    reach = _reach(step, z)
    if reach == factor * z + push:
        return factor
    if reach == math.sqrt(z * z + square) + push:
        return z / math.sqrt(z * z + square)
    if scale < math.inf and reach == z + scale * z**order + push:
        return float(1 + scale * order * z ** (order - 1))
    return 1.0


@compiled_loop
def _before(step: _Step, reach: float) -> float:
    """Return the largest distance from which a step reaches at most ``reach``, up to rounding."""
    factor, jump, scale, square, order, push, speed = step
    y = reach - push
    distance = max(y - jump, reach - speed)
    if factor < math.inf:
        distance = max(distance, y / factor)
    if y > 0 and y * y > square:
        distance = max(distance, math.sqrt(y * y - square))
    if scale < math.inf and y > 0:
        z = min(y / 2, (y / (2 * scale)) ** (1 / order)) if scale > 0 else y
        for _ in range(60):  # from the left, where tangents of the concave function end below y
            if not z > 0:
                break
            gain = (y - z - scale * z**order) / (1 + scale * order * z ** (order - 1))
            z += max(gain, 0.0)
            if gain <= 1e-14 * z:
                break
        distance = max(distance, z)
    return max(distance, 0.0)


@compiled_loop
def _track(
    free: _Step, met: _Step, steps: int, period: int, diameter: float, distances: Array
) -> None:
    """Fill ``distances[k]`` with a bound on the distance before the last k steps."""
    longest = distances.size - 1
    z, t, stable = 0.0, 0, 0
    while True:
        left = steps - t
        if left <= longest:
            distances[left] = z
        if left == 0:
            return
        if t == _TRACKED:
            distances[:left] = diameter
            return
        before = z
        z = min(_reach(met if (left - 1) % period == 0 else free, z) * _UP, diameter)
        stable = stable + 1 if z == before and t > 0 else 0
        t += 1
        if stable > period:  # nothing changes any more
            t = max(t, steps - longest)


@compiled_loop
def _paid(
    free: _Step,
    met: _Step,
    period: int,
    diameter: float,
    first: int,
    before: float,
    limit: float,
    distances: Array,
    sizes: Array,
) -> float:
    """Return the cost of the shifts that leave ``before`` at the last of them.

    That step is followed by ``first`` others. The shifts are found backwards, with
    x_i = x_(i+1) w'(z_i), until they begin at ``distances[k]``, k steps before the end; then they
    are paid forwards. The cost is infinite where it exceeds ``limit``.
    """
    z = before
    step = met if first % period == 0 else free
    price = _reach(step, z)
    spent = price * price
    price *= _slope(step, z)
    left = first + 1
    while not z >= distances[left]:
        if left + 1 == distances.size or spent > limit or not z > 0:
            return math.inf
        step = met if left % period == 0 else free
        z = _before(step, z + price)
        sizes[left] = price
        spent += price * price
        price = min(price * _slope(step, z), 1e150) if z > 0 else 0.0
        left += 1
    z, total = distances[left], 0.0
    for b in range(left - 1, first - 1, -1):
        reach = _reach(met if b % period == 0 else free, z) * _UP
        size = reach if b == first else min(sizes[b], reach)
        total += size * size
        z = min((reach - size) * _UP + 1e-15 * reach, diameter) if size < reach else 0.0
    return total


@dataclass(frozen=True)
class Coupling:
    """Runs of a mechanism, as shifts see them.

    steps: Number of steps T.
    period: The record is used in the last step, and once in every ``period`` steps before.
    shift: Distance v by which a step that uses the record separates the iterates.
    diameter: Diameter D; infinite if the domain is unbounded.
    free, met: Modulus of a step without and with the record.
    speed: The most by which any step separates two iterates.
    """

    steps: int
    period: int
    shift: float
    diameter: float
    free: Modulus
    met: Modulus
    speed: float = math.inf

    @classmethod
    def of(cls, mechanism: NoisySGD) -> Coupling:
        """Return the worst runs of a mechanism with fixed batches."""
        m = mechanism
        b = m.batch_size
        cycles = m.batching.repeats
        free = modulus_of(m)
        # a zeroed record may keep a regulariser, which moves with the others
        apart = m.relation is Relation.REPLACE_ONE and m.strong_convexity == 0
        apart = apart and m.sensitivity >= 2 * whole_gradient(m)
        return cls(
            steps=m.steps,
            period=m.dataset_size // b if cycles else 1,
            shift=m.constant_step_size * m.sensitivity / b,
            diameter=math.inf if m.diameter is None else float(m.diameter),
            free=free,
            met=modulus_of(m, (b - 1) / b) if apart else free,
            speed=2 * m.constant_step_size * whole_gradient(m),
        )

    @property
    def keeps_distances(self) -> bool:
        """True if updates increase no distance, but for what the record adds."""
        return self.met.factor <= 1 and (self.period == 1 or self.free.factor <= 1)

    @property
    def _steps(self) -> tuple[_Step, _Step]:
        """A step without the record, and one with it."""
        return (*self.free.parts, 0.0, self.speed), (*self.met.parts, self.shift, self.speed)

    def distances(self) -> Array:
        """Return bounds on the distance before the last k steps, k = 0, 1, ...."""
        distances = np.zeros(min(self.steps, _LONGEST) + 1)
        _track(*self._steps, self.steps, self.period, self.diameter, distances)
        return distances

    def least_square(self) -> float:
        """Return a small sum of squared shifts."""
        one, uses = self.shift**2, -(-self.steps // self.period)
        cycle = one if self.period == 1 or uses == 1 else min(one, self._cycle())
        best = one + (uses - 1) * cycle
        distances = self.distances()
        for count in range(min(uses, _COMPOSED) + 1):  # uses of the record after the last shift
            rest = one + (count - 1) * cycle if count else 0.0
            first = (count - 1) * self.period + 1 if count else 0
            best = min(best, rest + self._least(first, best - rest, distances))
        return best

    def _cycle(self) -> float:
        """Return the least sum of squares from one use of the record until before the next one."""
        if self.period >= _LONGEST:
            return math.inf
        distances = np.full(self.period + 2, math.inf)
        distances[-1] = 0.0
        return self._least(1, self.shift**2, distances, self.shift)

    def _least(
        self, first: int, limit: float, distances: Array, widest: float | None = None
    ) -> float:
        """Return the least sum of squares if the distance is 0 when ``first`` steps are left."""
        ends = distances[first + 1 :]
        if widest is None:
            widest = float(ends.max(initial=0.0))
        if widest == 0:
            return limit
        sizes = np.zeros(distances.size)
        best = limit
        fine = _FINE if distances.size < _LONG else _FINE // 3
        starts = widest * np.geomspace(1, 1e-9, _STARTS)
        for _ in range(_ROUNDS + 1):
            values = np.empty(starts.size)
            for i, start in enumerate(starts):
                values[i] = _COST_UP * _paid(
                    *self._steps,
                    self.period,
                    self.diameter,
                    first,
                    float(start),
                    2 * best,
                    distances,
                    sizes,
                )
                best = min(best, float(values[i]))
            places = np.argsort(values, kind="stable")[:_DIPS]
            places = places[np.isfinite(values[places])]
            if places.size == 0:
                break
            last = starts.size - 1
            nearby = [
                np.linspace(starts[max(place - 1, 0)], starts[min(place + 1, last)], fine)
                for place in places
            ]
            starts = np.unique(np.concatenate(nearby))
        return best


def shifts_curve(mechanism: NoisySGD) -> GaussianCurve:
    """Return the curve of a mechanism whose updates need not be contractions."""
    coupling = Coupling.of(mechanism)
    if not coupling.keeps_distances:
        return GaussianCurve(math.sqrt(coupling.least_square()) / mechanism.step_std)
    run = WorstRun(
        steps=coupling.steps,
        noise=mechanism.step_std,
        shift=coupling.shift,
        gap=0.0,
        diameter=coupling.diameter,
        period=coupling.period,
        rate=1.0,
    )
    return GaussianCurve(least_mu(run))

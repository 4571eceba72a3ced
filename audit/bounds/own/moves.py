"""Bounds by moves: shifts of the noise that bring two runs together, at a cost of their squares.

Theorem 9 of "Our own theorems" in the documentation. `own.parallel_moves`: where updates contract,
the least cost is that of a weighted taut string, the sum of rise^2/run over the edges of a lower
convex hull (Theorem 6). `own.modulus`: otherwise shifts are found by a search over the distance
before the last one. Whatever is found, the distances are computed again, rounded upward, and the
last shift takes what is left.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from audit.bounds.accounting.iteration import cyclic_squares
from audit.bounds.accounting.shift_allocation import smallest
from audit.bounds.assumptions import (
    CONTRACTIVE_STEPS,
    CONVEX,
    ROUNDING,
    UNCLIPPED,
    Assumption,
    constant_step_size,
    fields,
)
from audit.bounds.own.run import WorstRun
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.mechanism import NoisySGD, Relation
from audit.numerics.arrays import Array
from audit.numerics.hulls import lower_hull

_UNITS = 8 * 1024 * 2.0**-53  # exponentials of up to -700, and quotients of their differences
_MAX_LOG = 300.0  # logarithm
_MAX_STEPS = 1 << 20  # steps over which shifts are spread
_COST_ROUND_UP = 1 + 4 * _MAX_STEPS * 2.0**-53  # rounding of sums of up to _MAX_STEPS squares
_LONG_RUN = 1 << 15
_STARTS = 192
_FINE_STARTS = 48  # a third of it for long runs
_ROUNDS = 3
_DIPS = 3
_COMPOSED = 2

# --- updates that contract ---


@bound("own.parallel_moves")
def parallel_moves(mechanism: NoisySGD) -> PrivacyCurve:
    """Return G(mu) with the least mu of shifts that couple the last k steps, at the best k.

    It is never above Theorems 4.4 to 4.6 of Bok, Su and Altschuler (2024), nor above Theorem A.1 of
    Chien and Li (2025), and needs no whole number of epochs. On full batches it is Theorem 3.3 of
    Bok, Su and Altschuler.
    """
    return GaussianCurve(least_mu(WorstRun.of(mechanism)))


def taut_string(points: Iterable[tuple[float, float]]) -> float:
    """Return the sum of rise^2/run over the lower convex hull of (0, 0) and ``points``."""
    hull = lower_hull([(0.0, 0.0), *points])
    return sum((y1 - y0) ** 2 / (x1 - x0) for (x0, y0), (x1, y1) in itertools.pairwise(hull))


def least_squares(run: WorstRun, lengths: ArrayLike, starts: ArrayLike) -> Array:
    """Return the least mu^2 of moves over the last k steps of a run from distances before them.

    Coordinates and differences are sums and products of positive terms; the page of the theorem
    proves by how much costs are raised for their rounding.
    """
    squares = cyclic_squares(run.shift, run.log_contraction, run.period, lengths, starts)
    raised = 1 + _UNITS * (1 + np.sqrt(np.asarray(lengths, dtype=np.float64)))
    return np.asarray(squares * raised / run.noise**2)


def least_mu(run: WorstRun) -> float:
    """Return the least parameter of moves over the last k steps of a run, at the best k.

    The distance before them is at most that of `WorstRun.tracked`, which grows with the uses of the
    record alone, so that only k that begin just after one, and k = T, can be best. Of many k not
    all are tried; every k gives a bound.
    """
    period, steps = run.period, run.steps
    whole = float(least_squares(run, steps, 0.0))
    if steps <= period:
        return math.sqrt(whole)

    def cost(cycles: Array) -> Array:
        lengths = np.minimum(cycles * period, steps)
        return least_squares(run, lengths, run.tracked(steps - lengths))

    return math.sqrt(min(whole, smallest(cost, (steps - 1) // period)[0]))


# --- updates with any modulus of continuity ---


@dataclass(frozen=True)
class Modulus:
    """Modulus w(z) = min(factor z, z + jump, z + scale z^order, sqrt(z^2 + square)), w(0) = 0.

    factor, jump, scale, square: Nonnegative numbers; infinite where a part is not known.
    order: Hoelder order, in (0, 1].
    """

    factor: float = math.inf
    jump: float = math.inf
    scale: float = math.inf
    square: float = math.inf
    order: float = 1.0

    @property
    def known(self) -> bool:
        """True if w is finite."""
        return min(self.factor, self.jump, self.scale, self.square) < math.inf


def whole_gradient(mechanism: NoisySGD) -> float:
    """Return a bound on a record's gradient with its regulariser; infinite if there is none.

    A regulariser, which the Lipschitz constant leaves out, is assumed for strongly convex losses
    only.
    """
    m = mechanism
    bound = m.gradient_bound if m.strong_convexity == 0 else m.clip_norm
    return math.inf if bound is None else bound


def modulus_of(mechanism: NoisySGD, share: float = 1.0) -> Modulus:
    """Return the modulus of the update that a share of a batch makes."""
    m = mechanism
    if share == 0:
        return Modulus(1.0)
    eta = m.constant_step_size * share
    largest = 2 * whole_gradient(m)
    convex = m.convex and UNCLIPPED.holds(m)
    factor = scale = square = math.inf
    order = 1.0
    if m.smoothness is not None:
        factor = 1 + eta * m.smoothness
        if convex:
            factor = max(abs(1 - eta * m.strong_convexity), abs(1 - eta * m.smoothness))
            if CONTRACTIVE_STEPS.holds(m):
                factor = min(factor, 1.0)
    hoelder = [(m.smoothness, 1.0)] if m.smoothness is not None else []
    if m.holder is not None:
        hoelder.append(m.holder)
        if m.holder[1] > 0:
            scale, order = eta * m.holder[0], m.holder[1]
        else:
            largest = min(largest, m.holder[0])
    if convex:
        square = min([(eta * largest) ** 2, *(_excess(eta, largest, *pair) for pair in hoelder)])
    return Modulus(factor, eta * largest, scale, square * (1 + ROUNDING), order)


def _excess(eta: float, largest: float, constant: float, order: float) -> float:
    """Return the largest eta^2 u^2 - 4 eta p/(1+p) H^(-1/p) u^(1+1/p) over u <= ``largest``."""
    if constant == 0:
        return 0.0
    if order == 1:
        surplus = 1 - 2 / (eta * constant) + 4e-16
        return (eta * largest) ** 2 * surplus if surplus > 0 else 0.0
    # logarithm of the u that is best without a limit
    top = (order * math.log(eta / 2) + math.log(constant)) / (1 - order)
    size = min(math.log(largest), top)
    if size > _MAX_LOG:
        return math.inf
    lost = 0.0
    if order > 0:
        lost = 2 * order / (1 + order) * math.exp((size - top) * (1 / order - 1))
    most = eta**2 * math.exp(2 * size) * (1 - lost)
    return float(most * (1 + ROUNDING / (1 - order)))


@dataclass(frozen=True)
class Coupling:
    """Runs of a mechanism, as shifts see them.

    run: The run, as if its updates contracted.
    free, met: Modulus of a step without and with the record.
    speed: The most by which any step separates two iterates.
    """

    run: WorstRun
    free: Modulus
    met: Modulus
    speed: float = math.inf

    @classmethod
    def of(cls, mechanism: NoisySGD) -> Coupling:
        """Return the worst runs of a mechanism with fixed batches."""
        m = mechanism
        b = m.batch_size
        free = modulus_of(m)
        # a zeroed record may keep a regulariser, which moves with the others
        apart = m.relation is Relation.REPLACE_ONE and m.strong_convexity == 0
        apart = apart and m.sensitivity >= 2 * whole_gradient(m)
        met = modulus_of(m, (b - 1) / b) if apart else free
        return cls(WorstRun.of(m, gap=0.0), free, met, 2 * m.constant_step_size * whole_gradient(m))

    @property
    def keeps_distances(self) -> bool:
        """True if updates increase no distance, but for what the record adds."""
        return self.met.factor <= 1 and (self.run.period == 1 or self.free.factor <= 1)

    @property
    def _updates(self) -> tuple[Any, Any]:
        """A step without the record and one with it, as the compiled loops take them."""
        free, met = astuple(self.free), astuple(self.met)
        return (*free, 0.0, self.speed), (*met, self.run.shift, self.speed)

    def distances(self) -> Array:
        """Return bounds on the distance before the last k steps, k = 0, 1, ...."""
        from audit.bounds.own.kernels import track  # compiled loops are slow to import

        run = self.run
        distances = np.zeros(min(run.steps, _MAX_STEPS) + 1)
        track(*self._updates, run.steps, run.period, run.diameter, distances)
        return distances

    def least_square(self) -> float:
        """Return a small sum of squared shifts."""
        period = self.run.period
        one, uses = self.run.shift**2, -(-self.run.steps // period)
        cycle = one if period == 1 or uses == 1 else min(one, self._cycle())
        best = one + (uses - 1) * cycle
        distances = self.distances()
        for count in range(min(uses, _COMPOSED) + 1):  # uses of the record after the last shift
            rest = one + (count - 1) * cycle if count else 0.0
            first = (count - 1) * period + 1 if count else 0
            widest = float(distances[first + 1 :].max(initial=0.0))
            best = min(best, rest + self._least(first, best - rest, distances, widest))
        return best

    def _cycle(self) -> float:
        """Return the least sum of squares from one use of the record until before the next one."""
        if self.run.period >= _MAX_STEPS:
            return math.inf
        distances = np.full(self.run.period + 2, math.inf)
        distances[-1] = 0.0
        return self._least(1, self.run.shift**2, distances, self.run.shift)

    def _least(self, first: int, limit: float, distances: Array, widest: float) -> float:
        """Return the least sum of squares if the distance is 0 when ``first`` steps are left."""
        from audit.bounds.own.kernels import paid  # compiled loops are slow to import

        if widest == 0:
            return limit
        (free, met), sizes, best = self._updates, np.zeros(distances.size), limit
        fine = _FINE_STARTS if distances.size < _LONG_RUN else _FINE_STARTS // 3
        starts = widest * np.geomspace(1, 1e-9, _STARTS)
        for _ in range(_ROUNDS + 1):
            values = np.empty(starts.size)
            for i, start in enumerate(starts.tolist()):
                run = (self.run.period, self.run.diameter, first, start, 2 * best, distances, sizes)
                values[i] = _COST_ROUND_UP * paid(free, met, *run)
                best = min(best, float(values[i]))
            places = np.argsort(values, kind="stable")[:_DIPS]
            places = places[np.isfinite(values[places])]
            if places.size == 0:
                break
            low, high = np.maximum(places - 1, 0), np.minimum(places + 1, starts.size - 1)
            starts = np.unique(np.linspace(starts[low], starts[high], fine))
        return best


MODULUS = Assumption(
    "a bound on how far an update takes two points apart: smooth losses, Hoelder gradients or "
    "bounded gradients without a regulariser",
    lambda m: constant_step_size(m) and modulus_of(m).known,
    fields("smoothness", "holder", "lipschitz", "clip_norm", "strong_convexity"),
)


@bound("own.modulus", modulus=MODULUS)
def modulus(mechanism: NoisySGD) -> PrivacyCurve:
    """Return G(mu) with a small mu of shifts for the modulus of the mechanism's updates.

    Losses may be non-smooth, have Hoelder gradients, be smooth with any step size, or have clipped
    gradients, convex or not. For convex smooth losses and eta <= 2/M it is `own.parallel_moves`.
    """
    if all(one.holds(mechanism) for one in (CONVEX, UNCLIPPED, CONTRACTIVE_STEPS)):
        return parallel_moves(mechanism)
    coupling = Coupling.of(mechanism)
    if coupling.keeps_distances:
        return GaussianCurve(least_mu(coupling.run))
    return GaussianCurve(math.sqrt(coupling.least_square()) / mechanism.step_std)

"""Fresh batches of a fixed size, without replacement, under replace-one.

Of a batch that holds the record the other b - 1 records are as random as b - 1 of a batch that does
not, so that the two are coupled to differ in one place: with probability q = b/n the record's
gradient stands there, u or v, else that of another record, w, which both datasets share. All three
are of norm at most C. In units of the sensitivity 2 C a step is, given the rest, at most

    (1-q) N(0, z^2) + q N(1, z^2)  against  N(0, z^2)                                  (P, Q)

at every epsilon >= 0 (Balle, Barthe and Gaboardi 2018, Theorem 2: with M_0 = N(w), M_1 = N(u) and
M_1' = N(v) the divergence is q times one between N(u) and mixtures of N(w) and N(v), both of which
are at most 2 C away; Zhu, Dong and Wang 2022, Theorem 11). Others of gradient -C, v = -C and u = C
attain it. In the other order, which is the same for replace-one, u and v change places.

No one step attains (P, Q) on both sides of epsilon = 0. What dominates the steps, and can be
composed, is the pair that has the losses of (P, Q) above 0 and their mirror images below; what is
attained in a run is the composition of (P, Q), in either order. The two enclose the worst pair of
datasets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from audit.curves import Order
from audit.curves.brackets import Bracket
from audit.curves.duality import profile_points, tradeoff_from_profile
from audit.curves.renyi import RenyiCurve
from audit.dominating.closed_form import DeltaLimits
from audit.dominating.curve import (
    ComposedCurve,
    DominatingCurve,
    EnclosedCurve,
    GaussianDominatingCurve,
    GridComposition,
)
from audit.dominating.layer import Layer, TooManyCells
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.poisson import check_bounded, poisson_curve
from audit.dominating.runs import Answer, MixtureRun
from audit.dominating.sampled_gaussian import mirrored_renyi
from audit.mechanism import NoisySGD, Relation
from audit.numerics.arrays import Array

MAX_GRID = 1 << 20
"""Most grid points of a composition by default."""

_ENCLOSED_GRID = 1 << 18  # the same where the ends differ by more than a grid adds in any case
_MIN_GRID, _MAX_CELLS = 1 << 12, 1 << 21
COARSE_GRID = 1 << 13
"""Points of a grid for moments."""

_GRID_ERROR = 1e-6  # target for epsilon, relative to the spread of the composed loss
_SMALL_DELTA = 1e-18  # grids of larger deltas end where all steps have masses below 1e-26
_TRADEOFF_DELTA = 1e-8  # delta of the last point of a tradeoff function's profile
_POINTS = 4096  # points of that profile
_MANY_EPSILONS = 16  # epsilons that share one transform, whose errors are absolute
_MIN_GAP, _PER_DECADE = 1e-6, 20  # alpha - 1, and how many orders


@dataclass(frozen=True, eq=False)
class MirroredCurve(DominatingCurve):
    """Curve of mirrored runs on a grid of losses, equal in both orders.

    runs: The composed runs.
    interval: Interval of the grid, in nats.
    divergences: The Renyi divergences, which bound the smallest deltas as well.
    """

    runs: tuple[MixtureRun, ...]
    interval: float
    divergences: RenyiCurve
    same: bool = field(default=True, init=False)
    _known: dict[tuple[bool, bool, float], GridComposition] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def limits(self) -> DeltaLimits | None:  # type: ignore[override]
        """Proven bounds that every bracket is compared with."""
        whole = DeltaLimits.of([run.limits for run in self.runs])
        return replace(whole, two_sided=True)

    def _side(self, above: bool, small: bool, interval: float) -> GridComposition:
        """Return a composition on one side, with the losses that small deltas need or without."""
        key = above, small, interval
        if key not in self._known:
            tails = log_tails(sum(run.times for run in self.runs), 0.0 if small else 1.0)
            # rare, far losses need no fine grid
            reach = max(run.pair.losses(tails)[1] for run in self.runs)
            interval = max(interval, reach / _MAX_CELLS)
            self._known[key] = GridComposition(
                [run.mirrored(above, interval, tails) for run in self.runs]
            )
        return self._known[key]

    def _ask(
        self, above: bool, small: bool, question: Callable[[GridComposition], Answer]
    ) -> Answer:
        """Return the answer of one side; if it needs too many cells, that of a coarser grid."""
        interval = self.interval
        while True:
            try:
                return question(self._side(above, small, interval))
            except TooManyCells as error:
                interval *= error.cells / _MAX_CELLS

    def _epsilon_ends(self, delta: float, order: Order) -> Bracket:
        high = self._most_epsilon(delta)
        low = self._ask(False, delta < _SMALL_DELTA, lambda side: side.epsilon(delta))
        return low, high

    def _delta_ends(self, epsilon: float, order: Order) -> Bracket:
        high = float(self._delta(np.array([epsilon]), order)[0])
        low = self._ask(False, high < _SMALL_DELTA, lambda side: side.delta(epsilon))
        return low, high

    def errors(self, delta: float, order: Order | None = None) -> dict[str, float]:
        """Return what the width of the bracket of epsilon at ``delta`` consists of."""
        low, high = (
            self._ask(one, delta < _SMALL_DELTA, lambda side: side) for one in (False, True)
        )
        return ComposedCurve(low, high, same=True).errors(delta, order)

    def _epsilon(self, delta: Array, order: Order) -> Array:
        return np.array([self._most_epsilon(one) for one in delta.tolist()])

    def _most_epsilon(self, delta: float) -> float:
        small = delta < _SMALL_DELTA
        high = self._ask(True, small, lambda side: side.epsilon(delta))
        return (
            min(high, float(self.divergences.epsilon(delta))) if small or high == math.inf else high
        )

    def _delta(self, epsilon: Array, order: Order) -> Array:
        few = epsilon.size < _MANY_EPSILONS  # many share one transform
        most = self._ask(
            True, False, lambda side: side.deltas(epsilon) if few else side.profile(epsilon)
        )
        small = most < _SMALL_DELTA
        if small.any():
            far = epsilon[small]
            most[small] = self._ask(True, True, lambda side: side.deltas(far))
            most[small] = np.minimum(most[small], self.divergences.delta(far))
        return most

    def _beta(self, alpha: Array, order: Order) -> Array:
        return tradeoff_from_profile(alpha, *self._profile)

    @cached_property
    def _profile(self) -> tuple[Array, Array]:
        points = profile_points(float(self.epsilon(_TRADEOFF_DELTA)), _POINTS)
        return points, self._ask(True, False, lambda side: side.profile(points))

    def _renyi(self, alpha: Array, order: Order) -> Array:
        return np.asarray(self.divergences.renyi(alpha))


def mirrored_curve(
    runs: Sequence[MixtureRun], divergence: Callable[[Array], Array], largest_grid: int = MAX_GRID
) -> MirroredCurve:
    """Return the curve of runs of known Renyi divergences."""
    moments = mirrored_moments(runs, divergence)
    return MirroredCurve(tuple(runs), _interval(runs, largest_grid), moments)


def mirrored_moments(
    runs: Sequence[MixtureRun], divergence: Callable[[Array], Array]
) -> RenyiCurve:
    """Return the bound by Renyi divergences, searched at the orders that matter."""
    # the best order for a delta above e^-500000 is below 1000 deviations of the loss: high orders
    # cost most, where a step is weak
    weakest = math.hypot(
        *(run.pair.rate * math.sqrt(run.times) * run.pair.mean / run.pair.noise for run in runs)
    )
    highest = min(max(1e3 / max(weakest, 1e-9), 10 * _MIN_GAP), 1e6)
    return RenyiCurve(
        divergence,
        search=(_MIN_GAP, highest),
        points=1 + math.ceil(_PER_DECADE * math.log10(highest / _MIN_GAP)),
        refinements=0,
    )


def _interval(runs: Sequence[MixtureRun], largest_grid: int) -> float:
    """Return the grid interval of a composition."""
    tails = log_tails(sum(run.times for run in runs))
    variance = window = reach = 0.0
    for run in runs:
        most = run.pair.losses(tails)[1]
        pair, times = run.mirrored(True, most / COARSE_GRID, tails)
        layer = Layer([(None, pair, times)])
        variance += float(layer.cumulants[2, 0])
        window += layer.size * layer.interval
        reach = max(reach, most)
    # spreading losses over the grid raises their mean by about steps * interval^2 / 12, and their
    # variance by twice that
    spread, steps = math.sqrt(variance), sum(run.times for run in runs)
    wanted = min(
        math.sqrt(12 * _GRID_ERROR * spread / steps), math.sqrt(6 * _GRID_ERROR / steps) * spread
    )
    width = max(window, reach)
    return min(max(wanted, width / largest_grid), width / _MIN_GRID)


def without_replacement(m: NoisySGD, accuracy: float) -> DominatingCurve:
    """Return bounds from both sides for steps on batches without replacement, replace-one.

    Brackets of Poisson batches under zero-out are the lower ends.
    """
    if m.relation is not Relation.REPLACE_ONE:
        raise ValueError(
            "relation must be 'replace one' for batches without replacement, because no pair is "
            f"known for others, got {m.relation.value!r}"
        )
    check_bounded(m)
    z, rate, left = m.noise_multiplier, m.sampling_rate, m.skipping_rate
    attained = poisson_curve(
        z, rate, m.steps, Relation.ZERO_OUT, accuracy=accuracy, skipping_rate=left
    )
    if isinstance(attained, GaussianDominatingCurve):
        return attained
    run = MixtureRun(MixturePair(rate, z, 1.0, False, left), m.steps)

    def divergence(alpha: Array) -> Array:
        return m.steps * mirrored_renyi(alpha, rate, 1 / z)

    return EnclosedCurve((), mirrored_curve([run], divergence, _ENCLOSED_GRID), attained)

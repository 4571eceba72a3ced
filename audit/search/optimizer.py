"""Search for the neighbouring pair that is easiest to distinguish."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from audit import exact, validate
from audit.constructions import Construction, GradientPair, Inadmissible, suggested_members
from audit.curves.quantities import EpsilonAtDelta
from audit.mechanism import Losses, NoisySGD
from audit.numerics import display
from audit.numerics.arrays import Array
from audit.numerics.display import Marks, ShortRepr
from audit.search.admissible import check_admissible
from audit.search.evaluation import Clock, OutOfTime, quick_value
from audit.search.families import Family, all_families
from audit.search.objectives import Bracket, Epsilon, ExactCurve, Objective, tightest_bound

Progress = Callable[[float, float], object]

_SEED_SHARE = 0.25  # share of the time after which suggested pairs are left out
_SHORTLIST = 2  # candidates whose fine laws are computed at the end
_TIE_TOLERANCE = 1e-6  # relative; closer candidates count as one
_QUICK_ACCURACY = 0.99  # quick values are more accurate than this
# Duration of a certificate in quick values, at least, and a margin because pairs differ.
_MIN_CERTIFICATE, _MARGIN = 4.0, 1.5
_LAW_SHARE = 0.8  # share of the time of a certificate for its law
_GOAL_TOLERANCE = 1e-9  # relative; a pair this close to an upper bound cannot be improved


@dataclass(frozen=True)
class Found(ShortRepr):
    """The pair that a search found; the certificate is the construction and its law."""

    construction: Construction  #: An admissible pair, which passes `audit.search.check_admissible`.
    law: ExactCurve  #: Its exact privacy curve.
    bracket: Bracket  #: (low, high) of the objective on that curve; ``low`` is certified.
    evaluations: int  #: Number of pairs tried beside the suggested ones.
    seconds: float  #: Wall time, in seconds.
    seed: int  #: Seed of the initial points.

    def _repr_html_(self) -> str:
        marks = []
        for delta in display.FEW_DELTAS:
            quantity, exact = EpsilonAtDelta(delta), self.law.epsilon_bracket(delta)
            id, upper = tightest_bound(self.construction.mechanism, quantity)
            label = f"{quantity.name}{quantity.at_where}"
            marks.append(Marks(label, exact=exact, upper=upper if id else None))
        return display.sandwich(repr(self.construction), marks)


def worst_case(
    mechanism: NoisySGD,
    *,
    budget: float | None = None,
    seed: int,
    delta: float | None = None,
    objective: Objective | None = None,
    evaluations: int | None = None,
    hints: Sequence[tuple[float, float, float]] = (),
    many_dimensions: bool = False,
    progress: Progress | None = None,
) -> Found:
    """Search the admissible pairs of a mechanism for the one that is easiest to distinguish.

    The members that the registered constructions suggest are tried first. Then every family of
    `audit.search.families` is sampled and then refined: first in drift and start
    alone, then with curvature, then with free shapes. If losses change, so does the drift. The
    order of the pairs depends on ``seed`` only, and the budget ends the search. With
    ``evaluations`` alone the result is the same on every machine.

    Parameters
    ----------
    mechanism : NoisySGD
        The mechanism whose assumptions every pair satisfies.
    budget : float, optional
        Time limit in seconds, above 0; by default none. It includes the certificate, which is
        computed less finely if the time requires it; a law that is being computed when the time
        ends is abandoned.
    seed : int
        Seed of the initial points; a non-negative integer.
    delta : float, optional
        Maximise epsilon at this delta.
    objective : Objective, optional
        Maximise this objective instead; exactly one of ``delta`` and ``objective`` must be given.
    evaluations : int, optional
        Maximum number of pairs to try beside the suggested ones; by default no limit. This or
        ``budget`` must be given.
    hints : sequence of (float, float, float), optional
        Initial points: a gradient of the other records, a start point, and in [-1, 1] how far the
        other records lean to one of the record's two gradients.
    many_dimensions : bool, default: False
        Whether domains in many dimensions may cancel a gradient of all records
        (`audit.constructions.cone`). The found bound then holds for the class of all dimensions and
        all convex domains of the diameter, and need not hold on a ball or an interval.
    progress : callable, optional
        Called as ``progress(seconds spent, best so far)`` after each pair.

    Returns
    -------
    Found
        The best pair with its certificate.

    Raises
    ------
    ValueError
        If an argument is out of its range, or no admissible pair has laws that can be computed
        within the budget.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=10, dataset_size=1000, batch_size=1000, step_size=1.0,
    ...                    noise_std=0.2, lipschitz=20.0, smoothness=1.0, diameter=1.0)
    >>> found = worst_case(m, delta=1e-5, evaluations=20, seed=0)
    >>> found.bracket[0] > audit.exact.curve(audit.constructions.TwoSidedWalk(m)).epsilon(1e-5)
    True
    """
    validate.instance(NoisySGD, mechanism=mechanism)
    if budget is not None:
        validate.positive(budget=budget)
    elif evaluations is None:
        raise ValueError("budget or evaluations must be given, got neither")
    validate.integer(0, seed=seed)
    refusal = mechanism.uncovered((*GradientPair.covers, Losses.CHANGING))
    if refusal is not None:
        raise ValueError(f"the search {refusal}")
    if delta is not None and objective is None:
        objective = Epsilon(delta)
    elif delta is not None or objective is None:
        raise ValueError("delta or objective must be given, and not both")
    if evaluations is not None:
        validate.integer(1, evaluations=evaluations)
    clock = Clock(math.inf if budget is None else budget)
    evaluator = _Evaluator(objective, clock, evaluations or 10**9, progress, seed)
    with contextlib.suppress(_Finished, OutOfTime):
        for pair in suggested_members(mechanism):
            if clock.spent > _SEED_SHARE * clock.limit:
                break
            if isinstance(pair, Construction):
                evaluator.value(pair, counts=False)
        if _is_tight(mechanism, evaluator):
            raise _Finished
        members = list(all_families(mechanism, many_dimensions=many_dimensions))
        first = np.array([members[0].locate(*hint) for hint in hints])
        if hints and not members[0].has_kicks:
            _refined(members[0], 0, [], first, evaluator)
            first = first[:0]
        _explore(members, evaluator, seed, first)
    found = evaluator.certified()
    if found is None:
        ended = "no pair is admissible" if clock.left > 0 else "budget must be larger"
        raise ValueError(
            "mechanism must have a pair whose laws can be computed, got none: "
            + (evaluator.refusal or ended)
        )
    return replace(found, evaluations=evaluator.count, seconds=clock.spent)


class _Finished(Exception):
    """The budget is spent, or the best pair attains an upper bound."""


@dataclass
class _Evaluator:
    """Evaluate pairs until the budget is spent, and keep the best.

    Under a time limit the first pair is certified at once, so that there is always a certificate
    and the duration of another one is known.
    """

    objective: Objective
    clock: Clock
    evaluations: int
    progress: Progress | None
    initial_seed: int
    count: int = 0
    best: list[tuple[float, Construction]] = field(default_factory=list)
    refusal: str = ""
    certificates: float = 0.0  # duration of a certificate, in quick values
    first: Found | None = None
    known: dict[Construction, Found] = field(default_factory=dict)
    longest: float = 0.0  # seconds that a pair took

    def value(self, pair: Construction, *, counts: bool = True) -> float:
        """Return the objective of a pair, -inf if it cannot be computed."""
        if self.count >= self.evaluations or self.clock.left < self.reserve:
            raise _Finished
        self.count += counts
        began = self.clock.spent
        try:
            value = quick_value(pair, self.objective, self.clock)
        except OutOfTime:
            self.refusal = "budget must be larger for this mechanism: one law takes longer"
            raise
        except ValueError as error:
            self.refusal = str(error)
            return -math.inf
        self.longest = max(0.8 * self.longest, self.clock.spent - began)
        if not math.isnan(value) and value > -math.inf:
            self._keep(value, pair)
            if self.first is None and self.clock.is_limited:
                began = self.clock.spent
                self.first = self._certificate(pair)
                taken = self.clock.spent - began
                self.certificates = max(taken / self.longest, _MIN_CERTIFICATE)
        if self.progress is not None:
            self.progress(self.clock.spent, self.best[0][0] if self.best else 0.0)
        if value == math.inf:
            raise _Finished
        return value

    @property
    def reserve(self) -> float:
        """Seconds that one more pair and a certificate take."""
        return (1 + _MARGIN * self.certificates) * self.longest

    def certified(self) -> Found | None:
        """Compute fine laws of the shortlist and return the largest certificate."""
        best = self.first
        for quick, pair in self.best:
            if quick < _QUICK_ACCURACY * self.best[0][0]:
                break
            if self.clock.left <= 0:
                break
            found = self._certificate(pair)
            if found is not None and (best is None or found.bracket[0] > best.bracket[0]):
                best = found
        return best

    def _certificate(self, pair: Construction) -> Found | None:
        """Return the certificate of a pair; None if its law cannot be computed in time."""
        if pair in self.known:
            return self.known[pair]
        try:
            check_admissible(pair)
            # its numbers take time too
            law = exact.curve(pair, progress=self.clock.up_to(_LAW_SHARE).check)
            bracket = self.objective.bracket(law)
        except (ValueError, OutOfTime) as error:
            self.refusal = str(error)
            return None
        self.known[pair] = Found(
            pair, law, bracket, self.count, self.clock.spent, self.initial_seed
        )
        return self.known[pair]

    def _keep(self, value: float, pair: Construction) -> None:
        if any(value == o or abs(value - o) <= _TIE_TOLERANCE * abs(o) for o, _ in self.best):
            return
        self.best.append((value, pair))
        self.best.sort(key=lambda one: -one[0])
        # quick values err by more than some gradients differ from a quadratic with a known optimum
        known = [one for one in self.best if not isinstance(one[1], GradientPair)]
        self.best = [one for one in self.best if one in self.best[:_SHORTLIST] or one in known[:1]]


def _is_tight(mechanism: NoisySGD, evaluator: _Evaluator) -> bool:
    """Return whether the best pair so far attains an upper bound."""
    _, bound = tightest_bound(mechanism, evaluator.objective.quantity)
    if not evaluator.best or evaluator.best[0][0] < _QUICK_ACCURACY * bound:
        return False
    found = evaluator.certified()
    return found is not None and found.bracket[1] >= bound * (1 - _GOAL_TOLERANCE)


def _explore(members: list[Family], evaluator: _Evaluator, seed: int, first: Array) -> None:
    """Sample and refine, stage by stage, then again from other points until the budget is spent.

    All families are tried in drift and start; only the best of them continue to later stages. The
    points ``first`` of the first family are tried before all others.
    """
    sequence = np.random.SeedSequence(seed)
    for round_ in range(10**6):
        tried = evaluator.count
        ranked: list[_LocalOptimum] = []
        for stage, going_on in enumerate((len(members), 2, 1)):
            owners = list(dict.fromkeys(optimum.family for optimum in ranked)) or members
            before, ranked = ranked, []
            for family in owners[:going_on]:
                own = [optimum for optimum in before if optimum.family == family]
                if stage and not family.stages[stage]:
                    ranked += own
                    continue
                inherited = [np.concatenate([p.point, family.neutral(stage)]) for p in own[:2]]
                points = _sampled(family, stage, round_, sequence.spawn(1)[0])
                if first.size:
                    points, first = np.concatenate([first, points]), first[:0]
                ranked += _refined(family, stage, inherited, points, evaluator)
            ranked.sort(key=lambda optimum: -optimum.value)
        if evaluator.count == tried:  # no pair is admissible
            return


@dataclass(frozen=True, eq=False)
class _LocalOptimum:
    """The end point of a local search, and its objective."""

    value: float
    family: Family
    point: Array


def _sampled(family: Family, stage: int, round_: int, sequence: np.random.SeedSequence) -> Array:
    """Return the initial points, shape (count, dimension)."""
    dimension = len(family.names(stage))
    count = 2 ** min(4 + stage + round_, 8)
    if dimension == 0:
        return np.zeros((1, 0))
    from scipy.stats import qmc  # takes a while to import

    sobol = qmc.Sobol(dimension, rng=np.random.default_rng(sequence))
    points = np.asarray(sobol.random(count))
    if stage or round_:
        return points
    corners = family.corners()
    # there is no room for random points beside those that are known to be good
    return corners if family.has_kicks else np.concatenate([corners, points])


def _refined(
    family: Family,
    stage: int,
    inherited: list[Array],
    points: Array,
    evaluator: _Evaluator,
) -> list[_LocalOptimum]:
    """Return the local optima of searches from the best points of a stage."""
    from scipy.optimize import minimize  # takes a while to import

    def loss(point: Array) -> float:
        outside = float(np.sum(np.maximum(point - 1, 0) + np.maximum(-point, 0)))
        try:
            pair = family.pair(point, stage)
        except Inadmissible as error:
            evaluator.refusal = str(error)
            return 0.0
        value = evaluator.value(pair)
        return outside - value if math.isfinite(value) else outside

    losses = [(loss(point), tuple(point)) for point in points]
    starts = [
        *inherited,
        *(np.array(point) for _, point in sorted(losses)[: 2 if stage or family.has_kicks else 3]),
    ]
    results = []
    for start in starts:
        if start.size == 0:
            results.append(_LocalOptimum(-losses[0][0], family, start))
            continue
        sides = np.where(start <= 0.92, 0.08, -0.08)  # corners inside the cube
        ended = minimize(
            loss,
            start,
            method="Nelder-Mead",
            options={
                "initial_simplex": np.vstack([start, start + np.diag(sides)]),
                "maxfev": 30 * start.size + 20,
                "xatol": 1e-4,
                "fatol": 1e-7,
            },
        )
        results.append(_LocalOptimum(-float(ended.fun), family, np.clip(ended.x, 0, 1)))
    return sorted(results, key=lambda optimum: -optimum.value)

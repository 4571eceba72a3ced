"""The result of a pair: certified lower bound, exact value, claimed upper bounds, verdicts."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from audit import bounds, estimation, exact, results
from audit.constructions import BiasedWalk, Construction
from audit.curves import Order, PrivacyCurve
from audit.curves.quantities import EpsilonAtDelta, RenyiAtOrder
from audit.estimation import Audit
from audit.exact import GaussianPairCurve, LawCurve
from audit.mechanism import Batching, NoisySGD, Release
from audit.numerics.arrays import Array
from audit.progress import Report
from audit.results import Verdict, judge_upper_bound
from audit.scenario.definition import RunContext
from audit.scenario.pair import PairSetting, SearchPlan, at_position
from audit.scenario.user_mechanism import sampled_evidence
from audit.search import Found, worst_case
from audit.simulation import final_iterates

ExactCurve = LawCurve | GaussianPairCurve
PairNumber = EpsilonAtDelta | RenyiAtOrder

_SHOWN_MASS = 1e-7  # a law's figure leaves out tails lighter than this
_BINS = 80
SECONDS = 5.0  # between checkpoints; a shorter run keeps none
# Altschuler and Talwar 2022: the burn-in D n / (L eta) of Theorem 3.1, and 0.75 of it in the proof
# of Theorem 4.1.
_LOWER_BURN_IN = 0.75
_THEOREM_3_1 = "Altschuler and Talwar 2022, Theorem 3.1"
_THEOREM_4_1 = "Altschuler and Talwar 2022, Theorem 4.1"
_SEARCH_SECONDS = 1e9  # the number of evaluations ends a search: every machine finds the same pair


@dataclass(frozen=True)
class EvaluatedBound:
    """An entry of the catalogue for one mechanism: its curve, and why it is not judged."""

    entry: bounds.Entry
    curve: PrivacyCurve | None
    reason: str | None

    def row(self, quantity: PairNumber, certified: float) -> results.BoundRow:
        """Return what the curve says of a number, judged by a certified lower bound on it."""
        claimed = None if self.curve is None or self.reason else quantity.upper_bound(self.curve)
        verdict, ratio = Verdict.NOT_APPLICABLE, None
        if claimed is not None:
            verdict = judge_upper_bound(claimed, certified)
            ratio = claimed / certified if 0 < certified < math.inf else None
        return results.BoundRow(
            id=self.entry.id,
            citation=str(self.entry.cite),
            status=self.entry.status,
            value=claimed,
            ratio=ratio,
            reason=self.reason,
            verdict=verdict,
        )


def run_pair(setting: PairSetting, context: RunContext) -> results.PairResult:
    """Compute, sample and bound a pair."""
    progress, threads, deltas = context.progress, context.threads, setting.deltas
    mechanism = setting.pair.mechanism
    steps = sorted({*setting.steps_shown, mechanism.steps})
    curves = curves_against_steps(
        setting.pair, steps, threads, progress.stage(f"{setting.name}: exact laws")
    )
    curve = curves[steps.index(mechanism.steps)]
    evaluated = evaluated_bounds(mechanism, with_best(mechanism, context.bounds, deltas))
    own = {delta: by_order(curve, EpsilonAtDelta(delta)) for delta in deltas}
    others = [
        _other_pair(pair, exact.curve(pair, threads=threads), deltas)
        for pair in setting.other_pairs
    ]
    if setting.search is not None:
        report = progress.stage(f"{setting.name}: search")
        found = _search(setting.search, mechanism, context.seed, report)
        by = results.FoundBy(
            delta=setting.search.delta, evaluations=found.evaluations, seed=found.seed
        )
        others.append(_other_pair(found.construction, found.law, deltas, by))
    against_steps = epsilon_against_steps(
        setting.pair,
        steps,
        curves,
        deltas[-1],
        context.bounds,
        progress.stage(f"{setting.name}: bounds against steps"),
    )
    drawing = progress.stage(f"{setting.name}: {setting.trials:,} samples a side", "steps")
    x, x_prime = final_iterates(
        setting.pair,
        trials=setting.trials,
        seed=context.seed,
        backend=context.workers,
        folder=context.folder,
        progress=drawing,
        record_every=SECONDS,
    )
    audited = estimation.audit_samples(
        x, x_prime, confidence=context.confidence, deltas=deltas, seed=context.seed
    )

    def at_delta(index: int, delta: float) -> results.AtDelta:
        """Compare what is known of epsilon, with bounds against the largest of all pairs."""
        lows = [(own[delta].worst.low, setting.pair.name)]
        lows += [(other.epsilons[index].epsilon.low, other.pair.name) for other in others]
        certified, by = max(lows)
        rows = tuple(bound.row(EpsilonAtDelta(delta), certified) for bound in evaluated)
        sound = {
            row.id: row.value
            for row in rows
            if row.sound and row.value is not None and row.value < math.inf
        }
        return results.AtDelta(
            delta=delta,
            sampled=sampled_evidence(audited.evidence(delta)),
            exact=own[delta],
            certified=results.Certified(epsilon=certified, by=by),
            bounds=rows,
            best=bounds.tightest(sound) if sound else None,
            estimates=(),
            errors=curve.errors(delta),
        )

    return results.PairResult(
        **setting.heading(context.seed),
        mechanism=mechanism,
        derived=_derived(mechanism),
        pair=setting.pair,
        trials=setting.trials,
        deltas=tuple(at_delta(index, delta) for index, delta in enumerate(deltas)),
        renyi=tuple(at_order(a, curve, audited, evaluated) for a in setting.renyi_orders),
        other_pairs=tuple(others),
        positions=tuple(
            _at_position((setting.pair, *setting.other_pairs), position, deltas, context)
            for position in setting.positions
        ),
        audit=audited.record(),
        laws=laws(curve, x, x_prime),
        tradeoff=tradeoff(curve, audited, evaluated),
        epsilon_against_steps=against_steps,
    )


def _other_pair(
    pair: Construction, law: ExactCurve, deltas: Sequence[float], by: results.FoundBy | None = None
) -> results.OtherPair:
    """Return a pair with its exact epsilon at each delta, in the worse order."""
    epsilons = (
        results.EpsilonAtDelta(delta=d, epsilon=by_order(law, EpsilonAtDelta(d)).worst)
        for d in deltas
    )
    return results.OtherPair(pair=pair, epsilons=tuple(epsilons), found_by=by)


def _search(plan: SearchPlan, mechanism: NoisySGD, seed: int, report: Report) -> Found:
    """Return the best pair found; it is admissible, and its law is exact."""
    tried = itertools.count(1)
    return worst_case(
        mechanism,
        delta=plan.delta,
        budget=_SEARCH_SECONDS,
        seed=seed,
        evaluations=plan.evaluations,
        many_dimensions=plan.many_dimensions,
        progress=lambda seconds, best: report(next(tried), plan.evaluations),
    )


def _derived(mechanism: NoisySGD) -> results.Derived:
    stds = mechanism.step_sizes * mechanism.noise_std
    return results.Derived(
        step_std=float(stds[0]) if np.ptp(stds) == 0 else None,
        sensitivity=mechanism.sensitivity,
        diameter_in_step_std=(
            None if mechanism.diameter is None else mechanism.diameter / float(stds.min())
        ),
        sampling_rate=mechanism.sampling_rate,
        epochs=mechanism.epochs,
    )


# numbers with their brackets


def by_order(curve: ExactCurve, quantity: PairNumber) -> results.ByOrder:
    """Return a number in either order and the worse of the two, all inside their brackets."""
    found = []
    for order in (Order.FORWARD, Order.REVERSE):
        low, high = map(float, quantity.bracket(curve, order))
        value = getattr(curve, quantity.asked)(quantity.at, order=order)
        found.append((float(min(max(value, low), high)), low, high))
    forward, reverse, worst = (results.Number(*one) for one in (*found, map(max, *found)))
    return results.ByOrder(forward=forward, reverse=reverse, worst=worst)


# claimed bounds, and the rows that compare them with certified values


def evaluated_bounds(
    mechanism: NoisySGD, names: Sequence[str], position: int | None = None
) -> tuple[EvaluatedBound, ...]:
    """Evaluate the named entries of the catalogue for the mechanism.

    With a ``position`` an entry that speaks about one record is evaluated for the first record of
    that batch of the cycle; others speak about every record alike.
    """
    evaluated = []
    for name in names:
        entry = bounds.entry(name)
        curve, reason = None, None
        if entry.status is bounds.Status.ASYMPTOTIC:
            reason = "a rate without constants is never judged"
        try:
            at = position
            options = {} if at is None else entry.record_scope.options_at(mechanism, at)
            curve = entry.evaluate(mechanism, **options)
        except bounds.NotApplicable as error:
            reason = str(error)
        evaluated.append(EvaluatedBound(entry, curve, reason))
    return tuple(evaluated)


def with_best(
    mechanism: NoisySGD, names: Sequence[str], deltas: Sequence[float]
) -> tuple[str, ...]:
    """Return names of bounds and, after them, the tightest that the catalogue proves per delta."""
    best = []
    for delta in deltas:
        with contextlib.suppress(bounds.NotApplicable):
            best.append(bounds.best(mechanism, delta=delta).id)
    return tuple(dict.fromkeys([*names, *best]))


def at_order(
    alpha: float, curve: ExactCurve, audited: Audit, evaluated: tuple[EvaluatedBound, ...]
) -> results.AtOrder:
    """Compare what is known of the Renyi divergence of one order, for the setting's own pair."""
    known = by_order(curve, RenyiAtOrder(alpha))
    return results.AtOrder(
        order=alpha,
        sampled_lower=audited.renyi_lower(alpha),
        exact=known,
        bounds=_judged(evaluated, RenyiAtOrder(alpha), known.worst.low),
    )


def _judged(
    evaluated: Sequence[EvaluatedBound], quantity: PairNumber, certified: float
) -> tuple[results.BoundRow, ...]:
    """Return the rows of the bounds that apply."""
    return tuple(one.row(quantity, certified) for one in evaluated if one.reason is None)


def _at_position(
    pairs: Sequence[Construction], position: int, deltas: Sequence[float], context: RunContext
) -> results.AtPosition:
    """Return the exact epsilons of the pairs moved to one batch of the cycle, and the bounds.

    The certified epsilon is the largest of all pairs.
    """
    mechanism = pairs[0].mechanism
    curves = [
        (pair.name, exact.curve(at_position(pair, position), threads=context.threads))
        for pair in pairs
    ]
    evaluated = evaluated_bounds(mechanism, context.bounds, position)

    def at(delta: float) -> results.PositionAtDelta:
        known = tuple(
            results.NamedEpsilon(pair=name, epsilon=by_order(curve, EpsilonAtDelta(delta)).worst)
            for name, curve in curves
        )
        certified = max(one.epsilon.low for one in known)
        rows = _judged(evaluated, EpsilonAtDelta(delta), certified)
        return results.PositionAtDelta(delta=delta, pairs=known, certified=certified, bounds=rows)

    index = position * mechanism.batch_size + 1
    return results.AtPosition(position=position, index=index, deltas=tuple(map(at, deltas)))


# curves of the figures


def curves_against_steps(
    pair: Construction, steps: Sequence[int], threads: int, progress: Report
) -> list[ExactCurve]:
    """Exact curves of the pair's mechanism with each number of steps."""
    m = pair.mechanism
    if (
        m.batching.repeats
        or isinstance(m.step_size, tuple)
        or m.release is not Release.LAST_ITERATE
    ):
        # the record's place, or the mixture over lengths, depends on how many steps there are
        curves = [exact.curve(with_steps(pair, t), threads=threads) for t in steps]
        progress(1, 1)
        return curves
    longest = with_steps(pair, steps[-1])
    return list(exact.curves(longest, steps, threads=threads, progress=progress))


def with_steps(pair: Construction, steps: int) -> Construction:
    """Return the same construction for the mechanism with another number of steps."""
    m = pair.mechanism
    if isinstance(m.step_size, tuple) and steps > m.steps:
        raise ValueError(
            f"steps_shown must be at most the {m.steps} steps of the schedule, got {steps}"
        )
    size = m.step_size[:steps] if isinstance(m.step_size, tuple) else m.step_size
    return dataclasses.replace(pair, mechanism=dataclasses.replace(m, steps=steps, step_size=size))


def epsilon_against_steps(
    pair: Construction,
    steps: Sequence[int],
    curves: Sequence[ExactCurve],
    delta: float,
    names: Sequence[str],
    progress: Report,
) -> results.EpsilonAgainstSteps:
    """Exact epsilon and the named bounds after each number of steps."""
    values: dict[str, list[float | None]] = {name: [] for name in names}
    for done, count in enumerate(steps, 1):
        for bound in evaluated_bounds(with_steps(pair, count).mechanism, names):
            values[bound.entry.id].append(
                None if bound.curve is None else float(bound.curve.epsilon(delta))
            )
        progress(done, len(steps))
    return results.EpsilonAgainstSteps(
        delta=delta,
        steps=tuple(steps),
        exact=tuple(by_order(curve, EpsilonAtDelta(delta)).worst for curve in curves),
        bounds=tuple(
            results.BoundCurve(id=name, values=tuple(row))
            for name, row in values.items()
            if any(value is not None for value in row)
        ),
        burn_in=_burn_in(pair),
    )


def _burn_in(pair: Construction) -> results.BurnIn | None:
    """Return the burn-in of Altschuler and Talwar 2022; None where no theorem has one.

    Theorem 4.1 is on the biased walk; Theorem 3.1 takes convex, smooth and Lipschitz losses.
    """
    m = pair.mechanism
    if m.diameter is None or isinstance(m.step_size, tuple):
        return None
    steps = m.diameter * m.dataset_size / (m.steepest_gradient * m.constant_step_size)
    if isinstance(pair, BiasedWalk):
        return results.BurnIn(steps=_LOWER_BURN_IN * steps, theorem=_THEOREM_4_1)
    meets = (
        m.convex
        and m.strong_convexity == 0
        and m.lipschitz is not None
        and m.smoothness is not None
        and m.constant_step_size <= 2 / m.smoothness
        and m.batching in (Batching.FULL, Batching.WITHOUT_REPLACEMENT)
        and m.release is Release.LAST_ITERATE
    )
    return results.BurnIn(steps=steps, theorem=_THEOREM_3_1) if meets else None


def laws(curve: ExactCurve, x: Array, x_prime: Array) -> results.Laws:
    """Densities on a grid and histograms, over the range where either law has mass."""
    if isinstance(curve, exact.GaussianPairCurve):
        ends, means, std = (-np.inf, np.inf), (curve.first.mean, curve.second.mean), curve.first.std
        low, high = min(means) - 5.5 * std, max(means) + 5.5 * std
        grid = np.linspace(low, high, 401)
    else:
        places = _edges(curve)
        ends = float(places[0]), float(places[-1])
        low, high = _shown_range(curve, places)
        # even points, and finer ones beside the walls, where a biased walk crowds
        left = np.linspace(places[0], places[min(8, len(places) - 1)], 81)
        right = np.linspace(places[max(-9, -len(places))], places[-1], 81)
        grid = np.union1d(np.linspace(low, high, 401), np.concatenate([left, right]))
        grid = grid[(grid >= low) & (grid <= high)]
    edges = np.linspace(low, high, _BINS + 1)

    def law_curves(law: exact.Law, sample: Array) -> results.LawCurves:
        inner = sample[(sample != ends[0]) & (sample != ends[1])]
        counts, _ = np.histogram(inner, bins=edges)
        left, right = (float(np.mean(sample == end)) if np.isfinite(end) else 0.0 for end in ends)
        atoms = law.atoms
        return results.LawCurves(
            density=_floats(law.density(grid)),
            histogram=_floats(counts / (sample.size * np.diff(edges))),
            atoms=(float(atoms[0]), float(atoms[1])),
            atom_frequencies=(left, right),
        )

    return results.Laws(
        grid=_floats(grid),
        edges=_floats(edges),
        ends=ends,
        first=law_curves(curve.first, x),
        second=law_curves(curve.second, x_prime),
    )


def _edges(curve: LawCurve) -> Array:
    """Even points at most four deviations apart, over the domain or where a line is not empty."""
    low, high = curve.ends
    std = min(curve.first.narrowest, curve.second.narrowest)
    return np.linspace(low, high, max(1, math.ceil((high - low) / (4 * std) * (1 - 1e-12))) + 1)


def _shown_range(curve: LawCurve, edges: Array) -> tuple[float, float]:
    left = np.minimum(curve.first.cdf(edges), curve.second.cdf(edges))
    inside = np.maximum(curve.first.cdf(edges), curve.second.cdf(edges)) > _SHOWN_MASS
    below = left < 1 - _SHOWN_MASS
    first, last = int(np.argmax(inside)), len(edges) - 1 - int(np.argmax(below[::-1]))
    return (
        float(edges[0 if first == 0 else first - 1]),
        float(edges[-1 if last >= len(edges) - 2 else last + 1]),
    )


def tradeoff(
    curve: ExactCurve, audited: Audit, evaluated: tuple[EvaluatedBound, ...]
) -> results.TradeoffCurves:
    """Tradeoff functions on a grid that is even on the normal scale."""
    alpha = ndtr(np.linspace(-6.0, 3.5, 39))
    return results.TradeoffCurves(
        alpha=_floats(alpha),
        exact=_floats(curve.beta(alpha)),
        sampled_upper=_floats(audited.beta_upper(alpha)),
        bounds=tuple(
            results.BoundCurve(id=bound.entry.id, values=_floats(bound.curve.beta(alpha)))
            for bound in evaluated
            if bound.curve is not None
        ),
    )


def _floats(values: float | Array) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())

"""Settings that attack one mechanism with a neighbouring pair, and their results.

A result compares the certified lower bound, the exact value and the claimed upper bounds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtr

# rooms that take a while to import are loaded when a setting runs, as ``audit.exact``
import audit
from audit import estimation, results, search, simulation, validate
from audit.codec import decode, encode
from audit.constructions import BiasedWalk, Construction, decode_pair, kinds
from audit.curves import Order
from audit.curves.quantities import EpsilonAtDelta, RenyiAtOrder
from audit.mechanism import Batching, NoisySGD, Release, decode_mechanism, encode_mechanism
from audit.numerics.arrays import Array
from audit.scenario.definition import Plain, RunContext, Setting, load, reference, setting_kind

if TYPE_CHECKING:
    from audit.curves import PrivacyCurve
    from audit.exact import GaussianPairCurve, LawCurve

    ExactCurve = LawCurve | GaussianPairCurve

PairNumber = EpsilonAtDelta | RenyiAtOrder

_SHOWN_MASS = 1e-7  # a law's figure leaves out tails lighter than this
_BINS = 80
SECONDS = 5.0  # between checkpoints; a shorter run keeps none
_BURN_IN = "Altschuler and Talwar 2022, Theorem"
_SEARCH_SECONDS = 1e9  # the number of evaluations ends a search: every machine finds the same pair


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """Worst-case search whose best pair is added to a setting's other pairs."""

    delta: float  #: Delta at which the search maximises epsilon.
    #: Number of pairs to try; the search ends earlier if a pair attains an upper bound.
    evaluations: int
    #: Whether domains in many dimensions may cancel a gradient of all records
    #: (`audit.constructions.cone`).
    many_dimensions: bool = False

    def __post_init__(self) -> None:
        validate.half_open_unit(delta=self.delta)
        validate.integer(1, evaluations=self.evaluations)


@setting_kind
@dataclass(frozen=True, kw_only=True)
class PairSetting(Setting):
    """One mechanism, the pair that attacks it, and what is computed.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a pair is not one of neighbouring datasets.
    """

    key: ClassVar[str] = "pair"
    beside: ClassVar[Mapping[str, Any]] = {"mechanism": NoisySGD}

    #: Construction that is computed and sampled; its mechanism is that of the setting.
    pair: Construction
    #: More constructions for the same mechanism, computed only.
    other_pairs: tuple[Construction, ...] = ()
    deltas: tuple[float, ...]  #: Deltas at which epsilons are compared, one or more.
    renyi_orders: tuple[float, ...] = ()  #: Orders of Renyi divergences.
    trials: int  #: Number of samples of each of the two laws.
    steps_shown: tuple[int, ...] = ()  #: Numbers of steps in the figure of epsilon against T.
    #: Batches of the cycle, from 0, for whose records the leak is computed (cyclic batches).
    positions: tuple[int, ...] = ()
    search: SearchPlan | None = None  #: Search whose best pair is added to the others.

    def __post_init__(self) -> None:
        if not self.deltas:
            raise validate.fail("deltas", "one or more numbers in [0, 1)", self.deltas)
        validate.half_open_unit(**{f"deltas[{i}]": d for i, d in enumerate(self.deltas)})
        validate.above_one(**{f"renyi_orders[{i}]": a for i, a in enumerate(self.renyi_orders)})
        validate.integer(1000, trials=self.trials)
        validate.integer(1, **{f"steps_shown[{i}]": t for i, t in enumerate(self.steps_shown)})
        for pair in (self.pair, *self.other_pairs):
            if not pair.is_neighbouring:
                raise validate.fail("pair", "a pair of neighbouring datasets", pair)
            for position in self.positions:
                at_position(pair, position)  # refuses a batch that the cycle does not have

    @classmethod
    def read_fields(cls, values: Plain, where: str, folders: Sequence[Path]) -> Plain:
        """Take the mechanism out, and return the pairs, which need it."""
        if "mechanism" not in values:
            problem = f"must be given for a setting with the key {cls.key}, got nothing"
            raise ValueError(f"{where}.mechanism {problem}")
        mechanism = decode_mechanism(values.pop("mechanism"), f"{where}.mechanism")
        others = decode(tuple[Any, ...], values.get("other_pairs", ()), f"{where}.other_pairs")
        return {
            "pair": _read_pair(values["pair"], mechanism, f"{where}.pair", folders),
            "other_pairs": tuple(
                _read_pair(other, mechanism, f"{where}.other_pairs[{i}]", folders)
                for i, other in enumerate(others)
            ),
        }

    def own_plain(self) -> Plain:
        """Return the keys and values of this kind; each pair with its own kind's fields."""
        plain = super().own_plain()
        plain["pair"] = _own_fields(self.pair)
        plain["other_pairs"] = [_own_fields(other) for other in self.other_pairs]
        return {"mechanism": encode_mechanism(self.pair.mechanism), **plain}

    def run(self, context: RunContext) -> results.PairResult:
        """Compute, sample and bound the setting."""
        progress, threads, deltas = context.progress, context.threads, self.deltas
        mechanism = self.pair.mechanism
        curves = self._curves(context)
        curve = curves[mechanism.steps]
        evaluated = evaluated_bounds(mechanism, with_best(mechanism, context.bounds, deltas))
        own = {delta: by_order(curve, EpsilonAtDelta(delta)) for delta in deltas}
        computed: list[tuple[Construction, ExactCurve, results.FoundBy | None]] = [
            (pair, audit.exact.curve(pair, threads=threads), None) for pair in self.other_pairs
        ]
        if (plan := self.search) is not None:
            report, tried = progress.stage(f"{self.name}: search"), itertools.count(1)
            found = search.worst_case(
                mechanism,
                delta=plan.delta,
                budget=_SEARCH_SECONDS,
                seed=context.seed,
                evaluations=plan.evaluations,
                many_dimensions=plan.many_dimensions,
                progress=lambda seconds, best: report(next(tried), plan.evaluations),
            )
            by = results.FoundBy(delta=plan.delta, evaluations=found.evaluations, seed=found.seed)
            computed.append((found.construction, found.law, by))
        others = tuple(
            results.OtherPair(
                pair=pair,
                epsilons=tuple(
                    results.EpsilonAtDelta(delta=d, epsilon=by_order(law, EpsilonAtDelta(d)).worst)
                    for d in deltas
                ),
                found_by=by,
            )
            for pair, law, by in computed
        )
        against_steps = self._against_steps(curves, context)
        x, x_prime = simulation.final_iterates(
            self.pair,
            trials=self.trials,
            seed=context.seed,
            backend=context.workers,
            folder=context.folder,
            progress=progress.stage(f"{self.name}: {self.trials:,} samples a side", "steps"),
            record_every=SECONDS,
        )
        audited = estimation.audit_samples(
            x, x_prime, confidence=context.confidence, deltas=deltas, seed=context.seed
        )

        def at_delta(index: int, delta: float) -> results.AtDelta:
            """Compare what is known of epsilon, with bounds against the largest of all pairs."""
            lows = [(own[delta].worst.low, self.pair.name)]
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
                sampled=results.SampledEvidence.of(audited.evidence(delta)),
                exact=own[delta],
                certified=results.Certified(epsilon=certified, by=by),
                bounds=rows,
                best=audit.bounds.tightest(sound) if sound else None,
                estimates=(),
                errors=curve.errors(delta),
            )

        def at_order(alpha: float) -> results.AtOrder:
            """Compare what is known of one Renyi divergence, for the setting's own pair."""
            asked = RenyiAtOrder(alpha)
            known = by_order(curve, asked)
            rows = tuple(one.row(asked, known.worst.low) for one in evaluated if one.reason is None)
            return results.AtOrder(
                order=alpha,
                sampled_lower=audited.renyi_lower(alpha),
                exact=known,
                bounds=rows,
            )

        return results.PairResult(
            **self._heading(context.seed),
            mechanism=mechanism,
            derived=_derived(mechanism),
            pair=self.pair,
            trials=self.trials,
            deltas=tuple(at_delta(index, delta) for index, delta in enumerate(deltas)),
            renyi=tuple(map(at_order, self.renyi_orders)),
            other_pairs=others,
            positions=tuple(self._at_position(one, context) for one in self.positions),
            audit=audited.record(),
            laws=laws(curve, x, x_prime),
            tradeoff=tradeoff(curve, audited, evaluated),
            epsilon_against_steps=against_steps,
        )

    def _curves(self, context: RunContext) -> dict[int, ExactCurve]:
        """Return the exact curves by the number of steps: those shown, and the mechanism's own."""
        m, threads = self.pair.mechanism, context.threads
        steps = sorted({*self.steps_shown, m.steps})
        progress = context.progress.stage(f"{self.name}: exact laws")
        curves: Iterable[ExactCurve]
        whole = m.batching.repeats or m.release is not Release.LAST_ITERATE
        if whole or isinstance(m.step_size, tuple):
            # the record's place, or the mixture over lengths, depends on how many steps there are
            curves = [audit.exact.curve(with_steps(self.pair, t), threads=threads) for t in steps]
            progress(1, 1)
        else:
            longest = with_steps(self.pair, steps[-1])
            curves = audit.exact.curves(longest, steps, threads=threads, progress=progress)
        return dict(zip(steps, curves, strict=True))

    def _against_steps(
        self, curves: Mapping[int, ExactCurve], context: RunContext
    ) -> results.EpsilonAgainstSteps:
        """Return the exact epsilon and the named bounds after each number of steps."""
        delta = self.deltas[-1]
        progress = context.progress.stage(f"{self.name}: bounds against steps")
        values: dict[str, list[float | None]] = {name: [] for name in context.bounds}
        for done, steps in enumerate(curves, 1):
            for bound in evaluated_bounds(with_steps(self.pair, steps).mechanism, context.bounds):
                value = None if bound.curve is None else float(bound.curve.epsilon(delta))
                values[bound.entry.id].append(value)
            progress(done, len(curves))
        return results.EpsilonAgainstSteps(
            delta=delta,
            steps=tuple(curves),
            exact=tuple(by_order(one, EpsilonAtDelta(delta)).worst for one in curves.values()),
            bounds=tuple(
                results.BoundCurve(id=name, values=tuple(row))
                for name, row in values.items()
                if any(value is not None for value in row)
            ),
            burn_in=burn_in(self.pair),
        )

    def _at_position(self, position: int, context: RunContext) -> results.AtPosition:
        """Return the exact epsilons of the pairs moved to one batch of the cycle, and the bounds.

        The certified epsilon is the largest of all pairs.
        """
        mechanism, threads = self.pair.mechanism, context.threads
        curves = [
            (pair.name, audit.exact.curve(at_position(pair, position), threads=threads))
            for pair in (self.pair, *self.other_pairs)
        ]
        evaluated = evaluated_bounds(mechanism, context.bounds, position)

        def at(delta: float) -> results.PositionAtDelta:
            asked = EpsilonAtDelta(delta)
            known = tuple(
                results.NamedEpsilon(pair=name, epsilon=by_order(curve, asked).worst)
                for name, curve in curves
            )
            certified = max(one.epsilon.low for one in known)
            rows = tuple(one.row(asked, certified) for one in evaluated if one.reason is None)
            return results.PositionAtDelta(
                delta=delta, pairs=known, certified=certified, bounds=rows
            )

        index = position * mechanism.batch_size + 1
        return results.AtPosition(
            position=position, index=index, deltas=tuple(map(at, self.deltas))
        )


def _read_pair(
    plain: Any, mechanism: NoisySGD, where: str, folders: Sequence[Path]
) -> Construction:
    """Return the construction that plain data stands for; ``module:class`` names one of a user."""
    kind = plain.get("kind") if isinstance(plain, Mapping) else plain
    if isinstance(kind, str) and ":" in kind:
        found = load(kind, name=f"{where}.kind", folders=folders)
        name = getattr(found, "__name__", "")
        if kinds().get(name) is not found:
            raise validate.fail(f"{where}.kind", "a class decorated with @construction", kind)
        plain = {**plain, "kind": name} if isinstance(plain, Mapping) else name
    return decode_pair(plain, mechanism, where)


def _own_fields(pair: Construction) -> dict[str, Any]:
    """Return the kind of a pair and its fields, without the mechanism."""
    plain: dict[str, Any] = encode(pair)
    del plain["mechanism"]
    return {**plain, "kind": reference(type(pair)) or plain["kind"]}


def at_position(pair: Construction, position: int) -> Construction:
    """Return the same construction with the differing record in another batch of the cycle."""
    if "position" not in {field.name for field in dataclasses.fields(pair)}:
        raise ValueError(f"positions must be empty for a {pair.name}, got {position}")
    return dataclasses.replace(pair, position=position)  # type: ignore[call-arg]


@dataclass(frozen=True)
class EvaluatedBound:
    """An entry of the catalogue for one mechanism: its curve, and why it is not judged."""

    entry: audit.bounds.Entry
    curve: PrivacyCurve | None
    reason: str | None

    def row(self, quantity: PairNumber, certified: float) -> results.BoundRow:
        """Return what the curve says of a number, judged by a certified lower bound on it."""
        claimed = None if self.curve is None or self.reason else quantity.upper_bound(self.curve)
        verdict, ratio = results.Verdict.NOT_APPLICABLE, None
        if claimed is not None:
            verdict = results.judge_upper_bound(claimed, certified)
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


def _derived(mechanism: NoisySGD) -> results.Derived:
    stds, diameter = mechanism.step_sizes * mechanism.noise_std, mechanism.diameter
    return results.Derived(
        step_std=float(stds[0]) if np.ptp(stds) == 0 else None,
        sensitivity=mechanism.sensitivity,
        diameter_in_step_std=None if diameter is None else diameter / float(stds.min()),
        sampling_rate=mechanism.sampling_rate,
        epochs=mechanism.epochs,
    )


def by_order(curve: ExactCurve, quantity: PairNumber) -> results.ByOrder:
    """Return a number in either order and the worse of the two, all inside their brackets."""
    found = []
    for order in (Order.FORWARD, Order.REVERSE):
        low, high = map(float, quantity.bracket(curve, order))
        value = getattr(curve, quantity.asked)(quantity.at, order=order)
        found.append((float(min(max(value, low), high)), low, high))
    forward, reverse, worst = (results.Number(*one) for one in (*found, map(max, *found)))
    return results.ByOrder(forward=forward, reverse=reverse, worst=worst)


def evaluated_bounds(
    mechanism: NoisySGD, names: Sequence[str], position: int | None = None
) -> tuple[EvaluatedBound, ...]:
    """Evaluate the named entries of the catalogue for the mechanism.

    With a ``position`` an entry that speaks about one record is evaluated for the first record of
    that batch of the cycle; others speak about every record alike.
    """
    evaluated = []
    for name in names:
        entry = audit.bounds.entry(name)
        scope, curve, reason = entry.record_scope, None, None
        if entry.status is audit.bounds.Status.ASYMPTOTIC:
            reason = "a rate without constants is never judged"
        try:
            options = {} if position is None else scope.options_at(mechanism, position)
            curve = entry.evaluate(mechanism, **options)
        except audit.bounds.NotApplicable as error:
            reason = str(error)
        evaluated.append(EvaluatedBound(entry, curve, reason))
    return tuple(evaluated)


def with_best(
    mechanism: NoisySGD, names: Sequence[str], deltas: Sequence[float]
) -> tuple[str, ...]:
    """Return names of bounds and, after them, the tightest that the catalogue proves per delta."""
    best = []
    for delta in deltas:
        with contextlib.suppress(audit.bounds.NotApplicable):
            best.append(audit.bounds.best(mechanism, delta=delta).id)
    return tuple(dict.fromkeys([*names, *best]))


def with_steps(pair: Construction, steps: int) -> Construction:
    """Return the same construction for the mechanism with another number of steps."""
    m = pair.mechanism
    if isinstance(m.step_size, tuple) and steps > m.steps:
        raise validate.fail("steps_shown", f"at most the {m.steps} steps of the schedule", steps)
    size = m.step_size[:steps] if isinstance(m.step_size, tuple) else m.step_size
    return dataclasses.replace(pair, mechanism=dataclasses.replace(m, steps=steps, step_size=size))


def burn_in(pair: Construction) -> results.BurnIn | None:
    """Return the burn-in of Altschuler and Talwar 2022; None where no theorem has one.

    Theorem 3.1 has D n / (L eta), for convex, smooth and Lipschitz losses; the proof of Theorem 4.1
    has 0.75 of it, for the biased walk.
    """
    m = pair.mechanism
    if m.diameter is None or isinstance(m.step_size, tuple):
        return None
    steps = m.diameter * m.dataset_size / (m.steepest_gradient * m.constant_step_size)
    if isinstance(pair, BiasedWalk):
        return results.BurnIn(steps=0.75 * steps, theorem=f"{_BURN_IN} 4.1")
    meets = (
        m.convex
        and m.strong_convexity == 0
        and m.lipschitz is not None
        and m.smoothness is not None
        and m.constant_step_size <= 2 / m.smoothness
        and m.batching in (Batching.FULL, Batching.WITHOUT_REPLACEMENT)
        and m.release is Release.LAST_ITERATE
    )
    return results.BurnIn(steps=steps, theorem=f"{_BURN_IN} 3.1") if meets else None


def laws(curve: ExactCurve, x: Array, x_prime: Array) -> results.Laws:
    """Densities on a grid and histograms, over the range where either law has mass."""
    if isinstance(curve, audit.exact.GaussianPairCurve):
        ends, means, std = (-np.inf, np.inf), (curve.first.mean, curve.second.mean), curve.first.std
        low, high = min(means) - 5.5 * std, max(means) + 5.5 * std
        grid = np.linspace(low, high, 401)
    else:
        # even points at most four deviations apart, between which the range is rounded outwards
        std = min(curve.first.narrowest, curve.second.narrowest)
        width = curve.ends[1] - curve.ends[0]
        number = max(1, math.ceil(width / (4 * std) * (1 - 1e-12))) + 1
        places = np.linspace(*curve.ends, number)
        ends = float(places[0]), float(places[-1])
        cdfs = [law.cdf(places) for law in (curve.first, curve.second)]
        first = int(np.argmax(np.max(cdfs, axis=0) > _SHOWN_MASS))
        beyond = int(np.argmax(np.min(cdfs, axis=0)[::-1] < 1 - _SHOWN_MASS))
        low, high = places[max(first - 1, 0)], places[number - 1 - max(beyond - 1, 0)]
        # even points, and finer ones beside the walls, where a biased walk crowds
        left = np.linspace(places[0], places[min(8, len(places) - 1)], 81)
        right = np.linspace(places[max(-9, -len(places))], places[-1], 81)
        grid = np.union1d(np.linspace(low, high, 401), np.concatenate([left, right]))
        grid = grid[(grid >= low) & (grid <= high)]
    edges = np.linspace(low, high, _BINS + 1)

    def law_curves(law: audit.exact.Law, sample: Array) -> results.LawCurves:
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


def tradeoff(
    curve: ExactCurve, audited: estimation.Audit, evaluated: tuple[EvaluatedBound, ...]
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

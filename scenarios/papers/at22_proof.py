"""The proof of the lower bound of Altschuler and Talwar 2022, checked step by step.

The proof (section 4 and appendix A.4) shows that a symmetric walk omega and a biased walk omega'
are distinguishable through the auxiliary process omega''. Every probability that it estimates on
the way is computed here, exactly or in a bracket, and sampled.

The theorem's claim on the Renyi divergence is also read at noise below the theorem's threshold, for
each order of the pair. At sigma = threshold / sqrt(r) the claim (4.1) grows like r. The divergence
of the symmetric walk from the biased one does not: with probability (1 - b/n)^T no jump happens, so
it stays below T ln(1/(1 - b/n)), and the claim, read for that order alone, becomes false.

Far below the threshold the walks are too long for exact laws. Certified ranges come from events:
D_alpha(P || Q) >= alpha/(alpha - 1) log P(S) - log Q(S) for any S, with P(S) and Q(S) bounded by
the walk's largest excursions. The clamped walk is Lindley's process: with S_t the unclamped sum,
its value is at least min(S_T, D/2 + min_t(S_T - S_t)), and a symmetric walk exceeds c only by
ending there from its start or from the lower wall.
"""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import log_ndtr, logsumexp

from audit import validate
from audit.claims import Verdict, judge_interval
from audit.constructions import BiasedWalk, Process, Wall
from audit.curves import Order
from audit.estimation import clopper_pearson
from audit.exact import Law, LawCurve, curves, law
from audit.mechanism import NoisySGD
from audit.results import Chart, Findings, FoundTable, Series, Statement
from audit.scenario import Progress, study
from audit.simulation import count_thresholds
from papers.at22_auxiliary_walk import (
    SPREAD,
    AuxiliaryEvents,
    auxiliary_events,
    auxiliary_process,
    burn_in,
    check,
)

PAPER = "Altschuler and Talwar 2022"
RATIOS = (1.0, 4.0, 25.0, 100.0, 1e3, 1e4, 1e5, 375.0**2, 1e6)
Bracket = tuple[float, float]

# Footnote 9 and appendix A.4.
_DIAMETER_CONSTANT, _NOISE_CONSTANT, _RENYI_CONSTANT, _RENYI_ORDER = 1e3, 1e-3, 1e-7, 100.0
_POSITIVE = 0.5 * math.exp(0.1) + 0.01  # what (A.2) asks of the biased walk
# Deviations kept below omega'': what is cut off is lighter than 1e-40.
_TAIL = 14.0
_SAMPLED_CONFIDENCE = 0.999  # of each sampled interval, shown beside the exact values
_EXACT = "exact law"
_FORWARD = "events {omega <= 0}; no jump at all"
_REVERSE = "event {omega >= c}, the best c"
_ORDERS = {Order.FORWARD: "X from X'", Order.REVERSE: "X' from X"}


@study
@dataclass(frozen=True, kw_only=True)
class LowerBoundProof:
    """Check the statements of the proof for a biased walk.

    Parameters
    ----------
    mechanism
        On a bounded domain, with one step size, at least T-bar = 0.75 D n/(eta L) steps, and full
        batches or batches that are drawn in every step.
    start
        The first iterate of both walks.
    trials
        How many walks of omega and of omega' are sampled.
    auxiliary_trials
        How many of omega''; its events are computed exactly, so the samples need not be many.
    sample_seed
        The seed of all samples; None for that of the setting. With the seed of another setting on
        the same pair, the samples of omega and omega' are those of that setting.
    steps_shown
        Numbers of steps at which the computation of the pair's laws stops on its way. They change
        the laws by rounding errors alone; with those of another setting on the same pair, the laws
        are those of that setting.

    Raises
    ------
    ValueError
        If a parameter is not as said.
    """

    mechanism: NoisySGD
    start: float = 0.0
    trials: int = 1_000_000
    auxiliary_trials: int = 200_000
    sample_seed: int | None = None
    steps_shown: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        validate.integer(1, trials=self.trials, auxiliary_trials=self.auxiliary_trials)
        if self.sample_seed is not None:
            validate.integer(0, sample_seed=self.sample_seed)
        validate.integer(1, **{f"steps_shown[{i}]": s for i, s in enumerate(self.steps_shown)})
        check(self.mechanism)

    def find(self, *, seed: int, threads: int, progress: Progress) -> Findings:
        """Compute the laws of the three walks, sample them, and judge what the proof claims."""
        walk = BiasedWalk(self.mechanism, start=self.start)
        laws = _laws(walk, self.steps_shown, threads)
        counts = self._counts(walk, seed, threads, progress)
        events = _events(walk, laws, counts)
        domination = _domination(laws.curve.second, laws.auxiliary, walk.direction)
        renyi = _renyi_rows(laws.curve, walk)
        rows = below_threshold(walk, laws.curve)
        return Findings(
            statements=(
                *(event.statement for event in events),
                domination.statement,
                _renyi_statement(renyi),
            ),
            tables=(
                _conditions(walk),
                _events_table(events),
                _renyi_table(renyi),
                _below_threshold_table(rows),
            ),
            charts=(domination.chart,),
            notes=(_below_threshold_note(rows),),
        )

    def _counts(self, walk: BiasedWalk, seed: int, threads: int, progress: Progress) -> Counts:
        seed = seed if self.sample_seed is None else self.sample_seed
        pair_steps = 2 * self.trials * self.mechanism.steps
        all_steps = pair_steps + self.auxiliary_trials * burn_in(self.mechanism)
        # the walk that is biased to the left is counted from 0 on downwards
        threshold = 0.0 if walk.direction > 0 else math.nextafter(0.0, math.inf)
        counted = count_thresholds(
            walk,
            thresholds=(threshold,),
            trials=self.trials,
            seed=seed,
            threads=threads,
            progress=lambda done, _: progress(done, all_steps),
        )
        first, second = (int(count[0]) for count in counted)
        if walk.direction < 0:
            first, second = self.trials - first, self.trials - second
        return Counts(
            trials=self.trials,
            first=first,
            second=second,
            auxiliary=auxiliary_events(
                walk,
                trials=self.auxiliary_trials,
                seed=seed,
                threads=threads,
                progress=lambda done, _: progress(pair_steps + done, all_steps),
            ),
        )


@dataclass(frozen=True)
class Laws:
    """The exact laws of a biased walk's pair, of omega'', and of omega'' until it meets a wall."""

    curve: LawCurve
    auxiliary: Law
    touching: Law


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of walks that end beyond 0: of omega, omega' and omega'', ``trials`` each."""

    trials: int
    first: int
    second: int
    auxiliary: AuxiliaryEvents


@dataclass(frozen=True)
class Event:
    """An event of the proof: what is claimed of its probability, the exact value, and samples."""

    name: str
    claim: str
    claimed: Bracket
    exact: Bracket
    note: str
    count: int
    trials: int

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim, by the exact value."""
        return judge_interval(*self.exact, *self.claimed)

    @property
    def statement(self) -> Statement:
        """The claim as a statement; what is found is the lower end of the exact bracket."""
        low, high = self.exact
        return Statement(
            claim=self.name,
            citation=f"{PAPER}, appendix A.4",
            expected=self.claim,
            found=low,
            error=high - low,
            verdict=self.verdict,
        )


@dataclass(frozen=True)
class Domination:
    """Whether omega' is farther along than omega'' everywhere."""

    statement: Statement
    chart: Chart


@dataclass(frozen=True, kw_only=True)
class BelowThreshold:
    """The claim at the threshold's variance over ``ratio``, and what is certain of each order."""

    ratio: float
    noise_std: float
    claimed: float
    forward: Bracket
    reverse: Bracket
    forward_from: str
    reverse_from: str

    @property
    def worst(self) -> Bracket:
        """The range of the larger divergence."""
        return max(self.forward[0], self.reverse[0]), max(self.forward[1], self.reverse[1])

    def verdict(self, found: Bracket) -> Verdict:
        """Return the verdict on the claim, read for the divergence in this range."""
        return judge_interval(*found, self.claimed, math.inf)


def claimed_renyi(walk: BiasedWalk) -> float:
    """Return the Renyi divergence of order 100 that the theorem claims is exceeded, (4.1)."""
    m = walk.mechanism
    steps = min(m.steps, burn_in(m))
    return (
        _RENYI_CONSTANT
        * _RENYI_ORDER
        * (m.steepest_gradient / (m.dataset_size * m.noise_std)) ** 2
        * steps
    )


def _laws(walk: BiasedWalk, steps_shown: tuple[int, ...], threads: int) -> Laws:
    auxiliary = auxiliary_process(walk)
    absorbing = dataclasses.replace(auxiliary, lower_wall=Wall.ABSORB, upper_wall=Wall.ABSORB)
    with ThreadPoolExecutor(min(2, threads)) as pool:
        computed = tuple(pool.map(_law, (auxiliary, absorbing)))
    steps = walk.mechanism.steps
    stops = sorted({step for step in steps_shown if step < steps} | {steps})
    found = curves(walk, stops, threads=threads)[-1]
    if not isinstance(found, LawCurve):  # the domain is bounded, so it is never normal
        raise TypeError(f"the walk must have computed laws, got {type(found).__name__}")
    return Laws(found, *computed)


def _law(process: Process) -> Law:
    found = law(process, tail=_TAIL)
    if not isinstance(found, Law):  # it has one wall, so it is never normal
        raise TypeError(f"omega'' must have a computed law, got {type(found).__name__}")
    return found


def _conditions(walk: BiasedWalk) -> FoundTable:
    m = walk.mechanism
    diameter = float(m.diameter or math.inf)
    least = _DIAMETER_CONSTANT * m.constant_step_size * m.steepest_gradient
    most = math.sqrt(_NOISE_CONSTANT / burn_in(m)) * diameter / m.constant_step_size
    rows = (
        ("D >= 1000 eta L", diameter, least, diameter >= least * (1 - 1e-9)),
        ("sigma <= sqrt(0.001/T-bar) D/eta", m.noise_std, most, m.noise_std <= most * (1 + 1e-9)),
        ("T >= T-bar", m.steps, burn_in(m), m.steps >= burn_in(m)),
    )
    unmet = [condition for condition, _, _, holds in rows if not holds]
    return FoundTable(
        caption=(
            f"Conditions of the theorem: {', '.join(unmet)} not met"
            if unmet
            else "Conditions of the theorem: all are met"
        ),
        columns=("condition", "value", "limit", "holds"),
        rows=tuple((c, value, limit, "yes" if h else "no") for c, value, limit, h in rows),
    )


def _events(walk: BiasedWalk, laws: Laws, counts: Counts) -> tuple[Event, ...]:
    right = walk.direction > 0
    side = ">=" if right else "<="
    ahead = (0.0, math.inf) if right else (-math.inf, 0.0)
    behind = (-math.inf, -1e-300) if right else (1e-300, math.inf)
    touched = math.exp(laws.touching.log_atoms[1 if right else 0])
    concentrated = _concentration(walk)
    both = (max(0.0, concentrated - touched), concentrated)
    fails = -math.expm1(math.log(concentrated))
    pair, auxiliary, counted = laws.curve, laws.auxiliary, counts.auxiliary
    omega = _bracket(pair.first, *ahead)
    omega_prime = _complement(_bracket(pair.second, *behind))
    omega_second = _complement(_bracket(auxiliary, *behind), auxiliary.lost_mass)
    log_behind = pair.second.log_probability(*behind)
    return (
        Event(f"P[omega_T {side} 0]", "= 1/2 (to 7 digits)", (0.5 - 1e-7, 0.5 + 1e-7), omega, "",
              counts.first, counts.trials),
        Event(f"P[omega'_T {side} 0]", "> 0.56", (_POSITIVE, 1.0), omega_prime,
              f"1 - e^{log_behind:.1f}", counts.second, counts.trials),
        Event(f"P[omega''_T {side} 0]", f">= {_POSITIVE:.4f} (A.2)", (_POSITIVE, 1.0),
              omega_second, f"1 - {auxiliary.probability(*behind):.2e}", counted.positive,
              counted.trials),
        Event("P[(i): the bias is within 15% of its mean]", ">= 0.99", (0.99, 1.0),
              (concentrated, concentrated), f"1 - {fails:.3e}", counted.concentrated,
              counted.trials),
        Event("P[(ii): omega'' never reaches the wall]", ">= 0.99", (0.99, 1.0),
              (1 - touched, 1 - touched), f"1 - {touched:.2e}", counted.unprojected,
              counted.trials),
        Event("P[E]: (i) and (ii)", ">= 0.9 (A.1)", (0.9, 1.0), both,
              f"1 - {1 - both[0]:.3e} or more", counted.both, counted.trials),
    )  # fmt: skip


def _concentration(walk: BiasedWalk) -> float:
    """P[(i)]: the number of jumps, binomial, is within 15% of its mean."""
    m = walk.mechanism
    rate, mean = m.sampling_rate, burn_in(m) * m.sampling_rate
    low = math.ceil((1 - SPREAD) * mean * (1 - 1e-12))
    high = math.floor((1 + SPREAD) * mean * (1 + 1e-12))
    jumps = stats.binom(burn_in(m), rate)
    return float(1 - (jumps.cdf(low - 1) + jumps.sf(high)))


def _bracket(law: Law, low: float, high: float) -> Bracket:
    """Probability of an interval with its errors, as in `LawCurve`."""
    log_value = law.log_probability(low, high)
    value, error = math.exp(log_value), float(law.error_at(np.array(log_value)))
    return max(0.0, value * math.exp(-error)), min(1.0, value * math.exp(error) + law.lost_mass)


def _complement(bracket: Bracket, lost: float = 0.0) -> Bracket:
    return max(0.0, 1 - bracket[1] - lost), min(1.0, 1 - bracket[0])


def _events_table(events: tuple[Event, ...]) -> FoundTable:
    def row(event: Event) -> tuple[str | float, ...]:
        low, high = clopper_pearson(event.count, event.trials, confidence=_SAMPLED_CONFIDENCE)
        sampled = (event.count, event.trials, float(low), float(high))
        return (event.name, event.claim, *event.exact, event.note, *sampled, event.verdict.value)

    wrong = [event.name for event in events if event.verdict is Verdict.REFUTED]
    return FoundTable(
        caption=(
            "Events of the proof: "
            + (f"the claims on {', '.join(wrong)} are refuted" if wrong else "no claim is refuted")
            + f" (each sampled interval has confidence {_SAMPLED_CONFIDENCE:g})"
        ),
        columns=(
            "event",
            "claim",
            "exact, at least",
            "exact, at most",
            "that is",
            "walks in it",
            "of",
            "sampled, at least",
            "sampled, at most",
            "verdict",
        ),
        rows=tuple(row(event) for event in events),
    )


def _domination(biased: Law, auxiliary: Law, direction: float) -> Domination:
    """Compare distribution functions: omega' must be farther along than omega'' everywhere."""
    low, high = max(biased.lower, auxiliary.lower), min(biased.upper, auxiliary.upper)
    x = np.linspace(low, high, 201)
    if direction > 0:
        log_biased = [biased.log_probability(-math.inf, float(v)) for v in x]
        log_auxiliary = [auxiliary.log_probability(-math.inf, float(v)) for v in x]
    else:
        log_biased = [biased.log_probability(float(v), math.inf) for v in x]
        log_auxiliary = [auxiliary.log_probability(float(v), math.inf) for v in x]
    with np.errstate(invalid="ignore"):
        margins = np.nan_to_num(np.subtract(log_auxiliary, log_biased), nan=0.0)  # both empty
    margin = float(np.min(margins))
    slack = sum(law.quadrature + law.rounding + law.lost_mass for law in (biased, auxiliary))
    verdict = Verdict.CONSISTENT if margin >= -10 * slack else Verdict.REFUTED
    words = (
        "The biased walk's distribution function nowhere exceeds the auxiliary walk's beyond "
        "numerical error: consistent with domination"
        if verdict is Verdict.CONSISTENT
        else "The biased walk's distribution function exceeds the auxiliary walk's: domination is "
        "refuted"
    )
    values = (
        ("auxiliary walk omega''", np.exp(log_auxiliary)),
        ("biased walk omega' (X')", np.exp(log_biased)),
    )
    return Domination(
        statement=Statement(
            claim="omega'' is dominated by omega' at every point",
            citation=f"{PAPER}, section 4",
            expected="log of the ratio of distribution functions at least 0",
            found=margin,
            error=10 * slack,
            verdict=verdict,
        ),
        chart=Chart(
            name="domination",
            title="Stochastic domination",
            caption=f"{words} (smallest margin {margin:.2g}).",
            x_label="last iterate x",
            y_label="distribution function at x",
            series=tuple(
                Series(name=name, x=tuple(x.tolist()), y=tuple(y.tolist())) for name, y in values
            ),
            y_logarithmic=True,
        ),
    )


def _renyi_rows(pair: LawCurve, walk: BiasedWalk) -> BelowThreshold:
    return BelowThreshold(
        ratio=1.0,
        noise_std=walk.mechanism.noise_std,
        claimed=claimed_renyi(walk),
        forward=pair.renyi_bracket(_RENYI_ORDER, Order.FORWARD),
        reverse=pair.renyi_bracket(_RENYI_ORDER, Order.REVERSE),
        forward_from=_EXACT,
        reverse_from=_EXACT,
    )


def _renyi_statement(row: BelowThreshold) -> Statement:
    low, high = row.worst
    return Statement(
        claim=f"Renyi divergence of order {_RENYI_ORDER:g}, in one of the two orders of the pair",
        citation=f"{PAPER}, Theorem 4.1",
        expected=f"at least {row.claimed:.6g}",
        found=low,
        error=high - low,
        verdict=row.verdict(row.worst),
    )


def _renyi_table(row: BelowThreshold) -> FoundTable:
    ranges = ((_ORDERS[Order.FORWARD], row.forward), (_ORDERS[Order.REVERSE], row.reverse))
    return FoundTable(
        caption=(
            f"Renyi divergence of order {_RENYI_ORDER:g}: the claim, at least {row.claimed:.6g} in "
            f"one of the two orders, is {row.verdict(row.worst).value}"
        ),
        columns=("divergence", "claimed, at least", "exact, at least", "exact, at most"),
        rows=tuple(
            (words, row.claimed, *found) for words, found in (*ranges, ("the larger", row.worst))
        ),
    )


def below_threshold(walk: BiasedWalk, pair: LawCurve) -> tuple[BelowThreshold, ...]:
    """Return a row for each ratio r of squared noise: the claim, and what is certain of it.

    ``forward`` is the symmetric against the biased walk. The first row is at the walk's own noise,
    from the exact curve; an infinite upper end means that no bound is known.
    """
    rows = [_renyi_rows(pair, walk)]
    for ratio in RATIOS[1:]:
        noise = walk.mechanism.noise_std / math.sqrt(ratio)
        scaled = BiasedWalk(dataclasses.replace(walk.mechanism, noise_std=noise), start=walk.start)
        rows.append(
            BelowThreshold(
                ratio=ratio,
                noise_std=noise,
                claimed=claimed_renyi(scaled),
                forward=forward_range(scaled, _RENYI_ORDER),
                reverse=reverse_range(scaled, _RENYI_ORDER),
                forward_from=_FORWARD,
                reverse_from=_REVERSE,
            )
        )
    return tuple(rows)


def _below_threshold_table(rows: tuple[BelowThreshold, ...]) -> FoundTable:
    return FoundTable(
        caption=(
            "The claimed lower bound on the Renyi divergence as the noise falls below its "
            "threshold (r is the threshold's variance over the noise's)"
        ),
        columns=(
            "r",
            "σ",
            "claimed, at least",
            "X from X', at least",
            "X from X', at most",
            "X from X', by",
            "claim for X from X'",
            "X' from X, at least",
            "X' from X, at most",
            "X' from X, by",
            "claim for X' from X",
            "claim for the larger",
        ),
        rows=tuple(
            (
                row.ratio,
                row.noise_std,
                row.claimed,
                *row.forward,
                row.forward_from,
                row.verdict(row.forward).value,
                *row.reverse,
                row.reverse_from,
                row.verdict(row.reverse).value,
                row.verdict(row.worst).value,
            )
            for row in rows
        ),
    )


def _below_threshold_note(rows: tuple[BelowThreshold, ...]) -> str:
    """Return what the table below the threshold shows."""
    refuted = sum(row.verdict(row.worst) is Verdict.REFUTED for row in rows)
    counted = f"{refuted} of {len(rows)} rows" if refuted else "no row"
    parts = [f"Read for the worse of the two orders, the claim is refuted in {counted}."]
    for order, words in _ORDERS.items():
        wrong = [
            row.ratio
            for row in rows
            if row.verdict(row.forward if order is Order.FORWARD else row.reverse)
            is Verdict.REFUTED
        ]
        since = f"from r = {min(wrong):.6g} on" if wrong else "in no row"
        parts.append(f"Read for {words} alone it is refuted {since}.")
    return " ".join(parts)


def forward_range(walk: BiasedWalk, alpha: float) -> Bracket:
    """Certified range of D_alpha(symmetric || biased) for a walk from the middle."""
    m = walk.mechanism
    half, spread, jump, rate = _sizes(walk)
    high = math.inf if rate == 1 else -m.steps * math.log1p(-rate)
    if walk.start != 0:
        return 0.0, high
    jumps = np.arange(m.steps + 1)
    log_weights = stats.binom.logpmf(jumps, m.steps, rate)
    log_end = logsumexp(log_weights + log_ndtr(-jumps * jump / spread))
    log_fall = math.log(m.steps) + float(log_ndtr(-half / spread))
    low = alpha / (alpha - 1) * math.log(0.5) - float(np.logaddexp(log_end, log_fall))
    return max(0.0, low), high


def reverse_range(walk: BiasedWalk, alpha: float) -> Bracket:
    """Certified range of D_alpha(biased || symmetric) for a walk from the middle."""
    m = walk.mechanism
    half, spread, jump, rate = _sizes(walk)
    if walk.start != 0:
        return 0.0, math.inf
    jumps = np.arange(m.steps + 1)
    log_weights = stats.binom.logpmf(jumps, m.steps, rate)
    best = 0.0
    for c in np.linspace(0.02, 0.99, 98) * half:
        log_end = float(logsumexp(log_weights + log_ndtr((c - jumps * jump) / spread)))
        log_fall = math.log(m.steps) + float(log_ndtr((c - half) / spread))
        log_misses = float(np.logaddexp(log_end, log_fall))
        if log_misses >= -1e-12:
            continue
        log_p = math.log(-math.expm1(log_misses))
        log_q = np.logaddexp(
            log_ndtr(-c / spread), math.log(m.steps) + log_ndtr(-(c + half) / spread)
        )
        best = max(best, alpha / (alpha - 1) * log_p - float(log_q))
    return best, math.inf


def _sizes(walk: BiasedWalk) -> tuple[float, float, float, float]:
    """Half the diameter, the noise of all steps together, the jump, and its probability."""
    m = walk.mechanism
    half = math.inf if m.diameter is None else m.diameter / 2
    jump = m.constant_step_size * m.steepest_gradient / m.batch_size
    return half, m.step_std * math.sqrt(m.steps), jump, m.sampling_rate

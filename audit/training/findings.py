"""Bounds and findings of audits with one canary or many: verdicts, tables, charts and caveats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from audit.curves import Order
from audit.estimation import (
    Audit,
    Canaries,
    Evidence,
    JudgedClaim,
    JudgedScores,
    OneRunAudit,
    WeightedColumns,
    judge_scores,
)
from audit.estimation.judge import distinct_if_few
from audit.estimation.sequential import EProcesses
from audit.numerics.arrays import Array
from audit.numerics.number_format import Rounding, short
from audit.results import Chart, Drawn, Findings, FoundTable, Series, Statement, UserClaim
from audit.results.result import ScoreHistograms
from audit.training.design import Design, Scored, Trial, analysis_seed
from audit.training.plan import fewest

_ASSUMPTIONS = {
    Canaries.ARBITRARY: "No assumption is made on the dependence between canaries.",
    Canaries.INDEPENDENT: (
        "These numbers assume that canaries are independent: the score of a canary depends on its "
        "own coin and its own noise only. For a mechanism without this property they are not "
        "bounds."
    ),
}
_BINS = 40
_MAX_RANGE = 1e300  # range of an axis; drawing needs margins
_MAX_POINTS = 400  # points of a curve


@dataclass(frozen=True, eq=False)
class Judged:
    """The verdicts on trainings with one canary or with many."""

    scores: JudgedScores  # x of included canaries, in the order of the trials
    trainings: int  # including those that only chose how columns are combined
    # for an anytime-valid audit, after each pair of trainings, shape (pairs, claims)
    log_e_values: Array | None = None


def judge(design: Design, trials: Iterable[Scored], *, confidence: float, seed: int) -> Judged:
    """Return the bounds that the trials certify; early stopping skips the remaining trials."""
    if design.anytime:
        return _anytime(design, trials, confidence)
    many = design.canaries > 1
    ran = list(_of_one_width(trials))
    if many:
        first = np.concatenate([scores for _, scores in ran])
        second = np.concatenate([trial.included for trial, _ in ran])
    else:
        sides: dict[bool, list[Array]] = {True: [], False: []}
        for trial, scores in ran:
            sides[trial.included[0]].append(_combined(design, trial, scores))
        first, second = map(np.array, sides.values())
    judged = judge_scores(
        (first, second),
        design.claims,
        confidence=confidence,
        seed=analysis_seed(seed),
        favours=Order.FORWARD,  # high scores indicate the canary
        columns=design.columns if first.ndim > 1 else None,
        canaries=design.assume if many else None,
    )
    return Judged(judged, len(ran))


def _anytime(design: Design, trials: Iterable[Scored], confidence: float) -> Judged:
    tests = EProcesses([(one.epsilon, one.delta) for one in design.claims], confidence)
    pairs, logs = [], []
    pair: dict[bool, float] = {}
    for trial, columns in _of_one_width(trials):
        pair[trial.included[0]] = float(_combined(design, trial, columns))
        if len(pair) < 2:
            continue
        pairs.append((pair[True], pair[False]))
        tests.update(pairs[-1][:1], pairs[-1][1:])
        pair = {}
        logs.append(tests.log_e_values)
        if design.early_stop and tests.all_refuted:
            break
    if not logs:
        raise ValueError(f"minutes must be long enough for two trainings, got {design.minutes!r}")
    x, x_prime = np.array(pairs).T
    judged = judge_scores((x, x_prime), design.claims, confidence=confidence, anytime=True)
    return Judged(judged, 2 * len(logs), np.array(logs))


def _of_one_width(trials: Iterable[Scored]) -> Iterator[Scored]:
    width = None
    for trial, scores in trials:
        width = width or len(scores)
        if len(scores) != width:
            raise ValueError(
                f"{trial.described} must give {width} scores like earlier trials, got {len(scores)}"
            )
        yield trial, scores


def _combined(design: Design, trial: Trial, scores: tuple[float, ...]) -> Array:
    """Return one number, or all columns if a part of the trainings chooses how to combine them."""
    weights: tuple[float, ...] = (1.0,) * len(scores)
    if isinstance(design.columns, WeightedColumns):
        weights = design.columns.weights
    elif design.columns is not None:
        return np.array(scores)
    if len(scores) != len(weights):
        raise ValueError(
            f"columns.weights must hold one number for each of {len(scores)} scores, "
            f"got {len(weights)}"
        )
    try:  # rounded once, so that no library affects the bits
        total = math.fsum(score * weight for score, weight in zip(scores, weights, strict=True))
    except (OverflowError, ValueError):
        total = math.nan
    if not math.isfinite(total):
        raise ValueError(f"{trial.described} must give scores with a finite sum, got {total}")
    return np.array(total)


def training_findings(design: Design, judged: Judged, confidence: float) -> Findings:
    """Return the findings of an audit of trainings."""
    scores = judged.scores
    numbers = {"scores": tuple(scores.x.tolist()), "scores_prime": tuple(scores.x_prime.tolist())}
    if design.canaries > 1:
        found = one_run_findings(scores, design.claims)
        return replace(found, numbers={**found.numbers, **numbers})
    charts = list(_histograms(scores.x, scores.x_prime))
    if judged.log_e_values is not None:
        error = cast(EProcesses, scores.audit).error
        charts.append(_evidence(design, judged.log_e_values, error))
    rows: list[dict[str, float | str]] = []
    for delta, one in _by_delta(design, scores):
        error, counts = _counts(scores, delta)
        rows.append(
            {
                "delta": delta,
                "Certified lower bound on epsilon": rounded_down(one.certified),
                "Largest bound that this many trainings can certify": rounded_down(one.largest),
                "Error spent": error,
                "Counts": counts,
            }
        )
    return Findings(
        statements=_statements(design.claims, scores, "epsilon", "training"),
        tables=(_table("Certified lower bounds, simultaneous over all deltas", rows),),
        charts=tuple(charts),
        notes=tuple(_notes(design, judged, confidence)),
        numbers=numbers,
    )


def one_run_findings(judged: JudgedScores, claims: Sequence[UserClaim]) -> Findings:
    """Return the findings of an audit of many canaries, from the verdicts on the claims."""
    audited = cast(OneRunAudit, judged.audit)
    independent = audited.assumption is Canaries.INDEPENDENT
    quantity = "epsilon of independent canaries" if independent else "epsilon"
    bounds = {claim.delta: audited.evidence(claim.delta) for claim in claims}
    rows = [
        {
            "delta": delta,
            "Certified lower bound on epsilon": rounded_down(bound.value),
            "Right guesses": bound.counts.correct,
            "Guesses": bound.counts.guesses,
            "Canaries": bound.counts.canaries,
            "Error spent": 1 - bound.confidence,
            "Largest bound that this many guesses can certify": bound.sampling_limit,
        }
        for delta, bound in bounds.items()
    ]
    return Findings(
        statements=_statements(claims, judged, quantity, "mechanism"),
        tables=(_table("Certified lower bounds from the guesses", rows),),
        notes=(
            _ASSUMPTIONS[audited.assumption],
            f"The inclusion of {audited.canaries} canaries is guessed from their scores; "
            f"{audited.pilot} other canaries were used to choose the number of guesses. The bound "
            "is a certified lower bound, and a claim below it is refuted.",
            *_uninformative(judged),
            *repeated(judged.x, judged.x_prime),
        ),
        numbers={"canaries": audited.assumption.value, "mu_lower": audited.mu_lower()},
    )


def _table(caption: str, rows: Sequence[Mapping[str, float | str]]) -> FoundTable:
    columns, values = tuple(rows[0]), tuple(tuple(row.values()) for row in rows)
    return FoundTable(caption=caption, columns=columns, rows=values)


def _statements(
    claims: Sequence[UserClaim], judged: JudgedScores, quantity: str, subject: str
) -> tuple[Statement, ...]:
    return tuple(
        Statement(
            claim=_labelled(claim, quantity),
            citation=f"claimed by the {subject}'s author",
            expected=claim.epsilon,
            # rounded down, but not below a claim that the bound refutes
            found=max(
                rounded_down(one.certified),
                claim.epsilon if one.certified > claim.epsilon else 0.0,
            ),
            verdict=one.verdict,
        )
        for claim, one in zip(claims, judged, strict=True)
    )


def _labelled(claim: UserClaim, quantity: str) -> str:
    """Return the quantity that a claim bounds, after the claim's name if it has one."""
    name = f"{claim.name}: " if claim.name else ""
    return f"{name}{quantity} at delta {claim.delta:g}"


def rounded_down(value: float) -> float:
    """Round a lower bound down to five decimals, so that the printed value is still a bound."""
    return math.floor(value * 1e5) / 1e5


def _by_delta(design: Design, judged: JudgedScores) -> list[tuple[float, JudgedClaim]]:
    """Return the bound at each delta, the largest delta first."""
    found = {claim.delta: one for claim, one in zip(design.claims, judged, strict=True)}
    return [(delta, found[delta]) for delta in design.deltas]


def _counts(judged: JudgedScores, delta: float) -> tuple[float, str]:
    """Return the error that was spent on a delta, and the counts of the bound in words."""
    if not isinstance(judged.audit, Audit):
        return cast(EProcesses, judged.audit).error, f"{judged.x.size} pairs of trainings"
    evidence: Evidence = judged.audit.evidence(delta)
    event = f"score {evidence.tail.value.split()[1]} {evidence.threshold:.6g}"
    sides = ("with", "without") if evidence.order is Order.FORWARD else ("without", "with")
    return evidence.error_spent, (
        f"{event} in {evidence.first_count} of {evidence.first_total} trainings {sides[0]} the "
        f"canary, and in {evidence.second_count} of {evidence.second_total} {sides[1]}"
    )


def _uninformative(judged: JudgedScores) -> list[str]:
    """Return why no claim could be refuted, as a note."""
    why = judged.uninformative
    return [f"{why[0].upper()}{why[1:]}."] if why else []


def _notes(design: Design, judged: Judged, confidence: float) -> list[str]:
    scores = judged.scores
    method = "anytime-valid e-processes"
    if isinstance(scores.audit, Audit):
        method = f"{scores.audit.thresholds.title}, for a number of trainings fixed in advance"
    notes = [
        f"{judged.trainings} trainings, half of them with the canary, scored by {design.train}. "
        f"Method: {method}; all bounds hold simultaneously with confidence "
        f"{short(confidence, 6, Rounding.DOWN)}. A claim is refuted if the certified lower bound "
        "exceeds it.",
        *_reach(design, scores, confidence),
        "The histograms only describe the scores: an epsilon read from them, or from a normal "
        "distribution fitted to them, is not a bound.",
    ]
    if design.early_stop:
        notes.append(
            "The audit stops as soon as every claim is refuted, so the bounds are barely above the "
            "claims; more trainings might certify more."
        )
    return [*notes, *_uninformative(scores), *caveats(scores.x, scores.x_prime)]


def repeated(x: Array, x_prime: Array) -> list[str]:
    """Return whether scores of canaries seem to count twice, as a note."""
    both = np.concatenate([x, x_prime])
    distinct = distinct_if_few(both)
    if not distinct:
        return []
    return [
        f"Scores repeat: only {distinct} of {both.size} canaries have a score of their own. Unless "
        "the score takes few values, rows or the noise of trainings count twice, and the bounds "
        "are invalid."
    ]


def caveats(x: Array, x_prime: Array) -> list[str]:
    """Return what scores of trainings with and without the canary show to be wrong with them."""
    sides, notes = (("with", x), ("without", x_prime)), []
    constant = [side for side, given in sides if np.all(given == given[0])]
    if constant and np.unique([*x, *x_prime]).size > 1:
        notes.append(
            f"All scores {' and '.join(constant)} the canary are equal: either no noise reaches "
            "them, or the training does not draw its randomness from its seed."
        )
    repeats = [
        f"{distinct} of {given.size} {side}"
        for side, given in sides
        if side not in constant and (distinct := distinct_if_few(given))
    ]
    if repeats:
        notes.append(
            f"Scores repeat: only {' and '.join(repeats)} the canary are distinct. Unless the "
            "score takes few values (a count, for example), trainings probably share a random "
            "generator. The bounds are then invalid: create the generator from the seed."
        )
    return notes


def _reach(design: Design, judged: JudgedScores, confidence: float) -> Iterator[str]:
    """Say what this many trainings can certify at most, and how many a larger claim needs."""
    limits = ", ".join(
        f"epsilon {rounded_down(one.largest):.4g} at delta {delta:g}"
        for delta, one in _by_delta(design, judged)
    )
    yield f"This many trainings can certify at most {limits}, whatever the training leaks."
    for claim, one in zip(design.claims, judged, strict=True):
        if claim.epsilon >= one.largest:
            needed = fewest(claim, confidence=confidence, early_stop=design.anytime)
            number = "more than 100,000" if needed is None else f"{needed:,}"
            yield (
                f"{_labelled(claim, f'epsilon {claim.epsilon:g}')} could not be refuted by this "
                f"many: it takes at least {number} trainings, and more if scores do not reveal the "
                "canary perfectly (`audit.training.plan`)."
            )


def _histograms(x: Array, x_prime: Array) -> Iterator[Chart]:
    """Yield the histograms of both sides; none if the scores are too far apart for an axis."""
    if float(max(x.max(), x_prime.max())) - float(min(x.min(), x_prime.min())) > _MAX_RANGE:
        return
    found = ScoreHistograms.of(x, x_prime, min(_BINS, max(5, round(math.sqrt(x.size)))))
    sides = ("with the canary", found.first), ("without it", found.second)
    yield Chart(
        name="scores",
        title="Scores of the trainings",
        caption="Share of trainings in each bin, with and without the canary.",
        x_label="score",
        y_label="share of trainings",
        series=tuple(
            Series(name=name, x=found.edges, y=(*shares, shares[-1]), drawn=Drawn.STEPS)
            for name, shares in sides
        ),
    )


def _evidence(design: Design, log_e_values: Array, error: float) -> Chart:
    every = max(1, len(log_e_values) // _MAX_POINTS)
    kept = np.unique(np.append(np.arange(0, len(log_e_values), every), len(log_e_values) - 1))
    pairs = tuple((kept + 1).astype(float))
    return Chart(
        name="evidence",
        title="Evidence against the claims",
        caption="The e-value of each claim against the number of pairs of trainings, one with and "
        "one without the canary. A claim is refuted once its e-value and those of all smaller "
        "claims have reached the line.",
        x_label="pairs of trainings",
        y_label="e-value (logarithm to base 10)",
        series=(
            *(
                Series(
                    name=_labelled(claim, f"epsilon ≤ {claim.epsilon:g}"),
                    x=pairs,
                    y=tuple(column[kept] / math.log(10)),
                )
                for claim, column in zip(design.claims, log_e_values.T, strict=True)
            ),
            Series(name="refuted", x=(pairs[0], pairs[-1]), y=(-math.log10(error),) * 2),
        ),
    )

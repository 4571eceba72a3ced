"""Findings of an audit with one canary: verdicts, tables, charts and caveats."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from audit.results import (
    Chart,
    Drawn,
    Findings,
    FoundTable,
    Series,
    Statement,
    Verdict,
    judge_upper_bound,
)
from audit.training.design import Design
from audit.training.many_canaries import labelled, rounded_down
from audit.training.one_canary import Judged
from audit.training.plan import fewest
from audit.training.useless import useless

Array = NDArray[np.float64]

_BINS = 40
_WIDEST = 1e300  # range of an axis; drawing needs margins
_FEW, _MOSTLY = 10, 0.9  # distinct scores: as many as labels or guesses have; a share of all
_MOST_POINTS = 400  # points of a curve


def of_one_canary(design: Design, judged: Judged, confidence: float) -> Findings:
    """Return the findings of an audit with one canary."""
    certified = {one.delta: one for one in judged.certified}
    directed = judged.log_e_values is None  # e-processes test both orders
    certifies = any(one.epsilon > 0 for one in judged.certified)
    why = useless(judged.scores, judged.scores_prime, directed=directed, certifies=certifies)

    def verdict(epsilon: float, delta: float) -> Verdict:
        found = judge_upper_bound(epsilon, certified[delta].epsilon, certified[delta].largest)
        return Verdict.INCONCLUSIVE if why and found is Verdict.CONSISTENT else found

    charts = list(_histograms(judged))
    if judged.log_e_values is not None:
        charts.append(_evidence(design, judged.log_e_values, judged.certified[0].error))
    return Findings(
        statements=tuple(
            Statement(
                claim=labelled(claim, "epsilon"),
                citation="claimed by the training's author",
                expected=claim.epsilon,
                found=_found(claim.epsilon, certified[claim.delta].epsilon),
                verdict=verdict(claim.epsilon, claim.delta),
            )
            for claim in design.claims
        ),
        tables=(
            FoundTable(
                caption="Certified lower bounds, simultaneous over all deltas",
                columns=(
                    "delta",
                    "Certified lower bound on epsilon",
                    "Largest bound that this many trainings can certify",
                    "Error spent",
                    "Counts",
                ),
                rows=tuple(
                    (
                        one.delta,
                        rounded_down(one.epsilon),
                        rounded_down(one.largest),
                        one.error,
                        one.counts,
                    )
                    for one in judged.certified
                ),
            ),
        ),
        charts=tuple(charts),
        notes=tuple(_notes(design, judged, confidence, why)),
        numbers={
            "scores": tuple(judged.scores.tolist()),
            "scores_prime": tuple(judged.scores_prime.tolist()),
        },
    )


def _found(claimed: float, certified: float) -> float:
    """Round a bound down, but not below a claim that it refutes."""
    rounded = rounded_down(certified)
    return max(rounded, claimed) if certified > claimed else rounded


def _notes(design: Design, judged: Judged, confidence: float, why: str) -> list[str]:
    notes = [
        f"{judged.trainings} trainings, half of them with the canary, scored by {design.train}. "
        f"Method: {judged.method}; all bounds hold simultaneously with confidence {confidence:g}. "
        "A claim is refuted if the certified lower bound exceeds it.",
        *_reach(design, judged, confidence),
        "The histograms only describe the scores: an epsilon read from them, or from a normal "
        "distribution fitted to them, is not a bound.",
    ]
    if design.early_stop:
        notes.append(
            "The audit stops as soon as every claim is refuted, so the bounds are barely above the "
            "claims; more trainings might certify more."
        )
    if why:
        notes.append(why)
    constant = [
        side
        for side, scores in (("with", judged.scores), ("without", judged.scores_prime))
        if np.all(scores == scores[0])
    ]
    if constant and not why:
        notes.append(
            f"All scores {' and '.join(constant)} the canary are equal: either no noise reaches "
            "them, or the training does not draw its randomness from its seed."
        )
    repeats = [
        f"{distinct} of {scores.size} {side}"
        for side, scores in (("with", judged.scores), ("without", judged.scores_prime))
        if _FEW < (distinct := np.unique(scores).size) < _MOSTLY * scores.size
    ]
    if repeats:
        notes.append(
            f"Scores repeat: only {' and '.join(repeats)} the canary are distinct. Unless the "
            "score takes few values (a count, for example), trainings probably share a random "
            "generator created when their module was imported. The bounds are then invalid: create "
            "the generator from the seed."
        )
    return notes


def _reach(design: Design, judged: Judged, confidence: float) -> Iterator[str]:
    """Say what this many trainings can certify at most, and how many a larger claim needs."""
    limits = ", ".join(
        f"epsilon {rounded_down(one.largest):.4g} at delta {one.delta:g}"
        for one in judged.certified
    )
    yield f"This many trainings can certify at most {limits}, whatever the training leaks."
    largest = {one.delta: one.largest for one in judged.certified}
    for claim in design.claims:
        if claim.epsilon >= largest[claim.delta]:
            needed = fewest(claim, confidence=confidence, early_stop=design.anytime)
            number = "more than 100,000" if needed is None else f"{needed:,}"
            yield (
                f"{labelled(claim, f'epsilon {claim.epsilon:g}')} could not be refuted by this "
                f"many: it takes at least {number} trainings, and more if scores do not reveal the "
                "canary perfectly (`audit.training.plan`)."
            )


def _histograms(judged: Judged) -> Iterator[Chart]:
    """Yield the histograms of both sides; none if the scores are too far apart for an axis."""
    both = np.concatenate([judged.scores, judged.scores_prime])
    low, high = float(np.min(both)), float(np.max(both))
    if high - low > _WIDEST:
        return
    if low == high:
        low, high = low - 0.5, high + 0.5
    bins = min(_BINS, max(5, round(math.sqrt(judged.scores.size))))
    edges = np.linspace(low, high, bins + 1)
    sides = ("with the canary", judged.scores), ("without it", judged.scores_prime)
    yield Chart(
        name="scores",
        title="Scores of the trainings",
        caption="Share of trainings in each bin, with and without the canary.",
        x_label="score",
        y_label="share of trainings",
        series=tuple(
            Series(name=name, x=tuple(edges), y=(*shares, shares[-1]), drawn=Drawn.STEPS)
            for name, scores in sides
            for shares in [(np.histogram(scores, bins=edges)[0] / scores.size).tolist()]
        ),
    )


def _evidence(design: Design, log_e_values: Array, error: float) -> Chart:
    every = max(1, len(log_e_values) // _MOST_POINTS)
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
                    name=labelled(claim, f"epsilon ≤ {claim.epsilon:g}"),
                    x=pairs,
                    y=tuple(column[kept] / math.log(10)),
                )
                for claim, column in zip(design.claims, log_e_values.T, strict=True)
            ),
            Series(name="refuted", x=(pairs[0], pairs[-1]), y=(-math.log10(error),) * 2),
        ),
    )

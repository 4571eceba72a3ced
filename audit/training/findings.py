"""What trainings with one canary show, as findings: verdicts, tables, charts and caveats."""

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
from audit.training.many_canaries import in_words, rounded_down
from audit.training.one_canary import Judged
from audit.training.plan import fewest
from audit.training.useless import useless

Array = NDArray[np.float64]

_BINS = 40
_WIDEST = 1e300  # of an axis: drawing needs margins
_FEW, _MOSTLY = 10, 0.9  # distinct scores: no more are an answer or a guess; a share of all
_MOST_POINTS = 400  # of a curve


def of_one_canary(design: Design, judged: Judged, confidence: float) -> Findings:
    """Return the findings of an audit with one canary."""
    certified = {one.delta: one for one in judged.certified}
    directed = judged.log_e_values is None  # e-processes look both ways
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
                claim=in_words(claim, "epsilon"),
                citation="claimed by the training's author",
                expected=claim.epsilon,
                found=_found(claim.epsilon, certified[claim.delta].epsilon),
                verdict=verdict(claim.epsilon, claim.delta),
            )
            for claim in design.claims
        ),
        tables=(
            FoundTable(
                caption="What the trainings certify, all deltas together",
                columns=(
                    "delta",
                    "Certified lower bound on epsilon",
                    "Most that so many trainings could certify",
                    "Error spent",
                    "Rests on",
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
        f"What certifies: {judged.method}, at confidence {confidence:g} for all that is said. "
        "A claim is refuted where the certified lower bound is above it.",
        *_reach(design, judged, confidence),
        "The histograms describe the scores; what is read from them, or from a normal law fitted "
        "to them, is no bound.",
    ]
    if design.early_stop:
        notes.append(
            "The audit ends when every claim is refuted: a bound that has just passed the claims "
            "is then all that it found, and more trainings might show more."
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
            f"All scores {' and '.join(constant)} the canary are equal: no noise reaches them, or "
            "the training does not take its randomness from its seed."
        )
    repeats = [
        f"{distinct} of {scores.size} {side}"
        for side, scores in (("with", judged.scores), ("without", judged.scores_prime))
        if _FEW < (distinct := np.unique(scores).size) < _MOSTLY * scores.size
    ]
    if repeats:
        notes.append(
            f"Scores repeat: {' and '.join(repeats)} the canary differ. If they are not of a kind "
            "that takes few values, as a count does, trainings share a generator that their module "
            "made when it was imported, and the numbers here are no bounds: make it from the seed."
        )
    return notes


def _reach(design: Design, judged: Judged, confidence: float) -> Iterator[str]:
    """Say what so many trainings could certify at most, and how many a claim beyond it needs."""
    limits = ", ".join(
        f"epsilon {rounded_down(one.largest):.4g} at delta {one.delta:g}"
        for one in judged.certified
    )
    yield f"So many trainings can certify at most {limits}, whatever the training leaks."
    largest = {one.delta: one.largest for one in judged.certified}
    for claim in design.claims:
        if claim.epsilon >= largest[claim.delta]:
            needed = fewest(claim, confidence=confidence, early_stop=design.anytime)
            number = "more than 100,000" if needed is None else f"{needed:,}"
            yield (
                f"{in_words(claim, f'epsilon {claim.epsilon:g}')} could not be refuted by so few: "
                f"it takes {number} trainings at the very least, and more where scores do not give "
                "the canary away (`audit.training.plan`)."
            )


def _histograms(judged: Judged) -> Iterator[Chart]:
    """Yield the histograms of both sides; none of scores too far apart for an axis."""
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
        caption="The share of trainings in each bin, with the canary and without it.",
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
        caption="The e-value of each claim after so many pairs of trainings, one with the canary "
        "and one without it. A claim is refuted once its e-value and those of all smaller claims "
        "have reached the line.",
        x_label="pairs of trainings",
        y_label="e-value (logarithm to base 10)",
        series=(
            *(
                Series(
                    name=in_words(claim, f"epsilon ≤ {claim.epsilon:g}"),
                    x=pairs,
                    y=tuple(column[kept] / math.log(10)),
                )
                for claim, column in zip(design.claims, log_e_values.T, strict=True)
            ),
            Series(name="refuted", x=(pairs[0], pairs[-1]), y=(-math.log10(error),) * 2),
        ),
    )

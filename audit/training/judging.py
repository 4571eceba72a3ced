"""The bounds that the scores of many trainings certify."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.estimation import JudgedScores, WeightedColumns, judge_scores
from audit.estimation.sequential import EProcesses
from audit.training.design import Design, Scored, Trial, analysis_seed

Array = NDArray[np.float64]


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
    sides: tuple[list[Array], list[Array]] = ([], [])
    ran = list(trials if many else _of_one_width(trials))
    for trial, scores in ran:
        if not many:
            sides[0 if trial.included[0] else 1].append(_combined(design, trial, scores))
            continue
        sides[0].append(np.array(scores))
        sides[1].append(np.array(trial.included))
    first, second = (np.concatenate(side) if many else np.array(side) for side in sides)
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
    scores: tuple[list[float], ...] = ([], [])
    logs = []
    pair: dict[bool, float] = {}
    for trial, columns in _of_one_width(trials):
        pair[trial.included[0]] = float(_combined(design, trial, columns))
        if len(pair) < 2:
            continue
        tests.update(np.array([pair[True]]), np.array([pair[False]]))
        for side, canary in zip(scores, (True, False), strict=True):
            side.append(pair[canary])
        pair = {}
        logs.append(tests.log_e_values)
        if design.early_stop and tests.all_refuted:
            break
    if not logs:
        raise ValueError(f"minutes must be long enough for two trainings, got {design.minutes!r}")
    x, x_prime = (np.array(side, dtype=np.float64) for side in scores)
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

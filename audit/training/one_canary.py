"""One canary and many trainings: what the scores with it and without it certify."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.curves import Order
from audit.estimation import (
    Audit,
    Evidence,
    OrderStatistics,
    PilotSplit,
    SequentialAudit,
    WeightedColumns,
    audit_samples,
    combine,
)
from audit.results.verdicts import UserClaim
from audit.training.design import Design, Scored, Trial, analysis_seed

Array = NDArray[np.float64]

# The e-processes test a grid of epsilons up to here, besides those that are claimed.
FARTHEST, _SPACING = 15.0, 0.1
_METHODS = {OrderStatistics: "order statistics", PilotSplit: "a pilot split"}


@dataclass(frozen=True)
class CertifiedEpsilon:
    """What trainings certify at one delta.

    Attributes
    ----------
    delta
        Where epsilon is asked for.
    epsilon
        The certified lower bound.
    largest
        What so many trainings would certify if each score gave the canary away.
    error
        The part of 1 - confidence that this delta used.
    counts
        What the bound rests on, in words.
    """

    delta: float
    epsilon: float
    largest: float
    error: float
    counts: str


@dataclass(frozen=True, eq=False)
class Judged:
    """Scores of trainings, and what they certify.

    Attributes
    ----------
    scores, scores_prime
        One number a training: those with the canary and without it, in the order of the trials.
    certified
        One entry a delta, the largest delta first.
    method
        What certifies, in words.
    log_e_values
        For an anytime-valid audit: logarithms of the e-values against each claim after each pair
        of trainings, shape (pairs, claims).
    choosing
        Trainings that only chose how columns become one score.
    """

    scores: Array
    scores_prime: Array
    certified: tuple[CertifiedEpsilon, ...]
    method: str
    log_e_values: Array | None = None
    choosing: int = 0

    @property
    def trainings(self) -> int:
        """How many trainings count, those too that only chose how columns become a score."""
        return self.scores.size + self.scores_prime.size + self.choosing


class EProcesses:
    """Anytime-valid tests of all claims at once; deltas share the error equally.

    At each delta a grid of claims is tested together with those that are made. The bound is the
    largest epsilon that is refuted together with all smaller ones; see
    `SequentialAudit.epsilon_lower`. The grid ends at ``farthest``.
    """

    def __init__(
        self, claims: Sequence[UserClaim], confidence: float, *, farthest: float = FARTHEST
    ) -> None:
        self.claims = tuple(claims)
        deltas = sorted({claim.delta for claim in claims}, reverse=True)
        self.error = (1 - confidence) / len(deltas)
        self._tests = {}
        for delta in deltas:
            made = {float(claim.epsilon) for claim in claims if claim.delta == delta}
            grid = sorted({*np.arange(0.0, farthest, _SPACING).tolist(), *made})
            self._tests[delta] = SequentialAudit(
                [(epsilon, delta) for epsilon in grid], confidence=1 - self.error
            )

    def update(self, scores: Array, scores_prime: Array) -> None:
        """Bet on fresh pairs of trainings."""
        for tests in self._tests.values():
            tests.update(scores, scores_prime)

    def epsilon_lower(self, delta: float) -> float:
        """Return the certified lower bound at a delta of the claims.

        Where "at most e" is refuted, epsilon is above e: the bound is the next number.
        """
        tests = self._tests[delta]
        bound = tests.epsilon_lower(delta)
        smallest = tests.evidence[0]  # the claim of 0
        return bound if smallest.refuted_after is None else math.nextafter(bound, math.inf)

    @property
    def all_refuted(self) -> bool:
        """Whether every claim is refuted."""
        return all(self.epsilon_lower(claim.delta) > claim.epsilon for claim in self.claims)

    @property
    def log_e_values(self) -> tuple[float, ...]:
        """The logarithm of the e-value against each claim, now."""
        found = []
        for claim in self.claims:
            tests = self._tests[claim.delta]
            place = tests.claims.index((float(claim.epsilon), float(claim.delta)))
            found.append(tests.evidence[place].log_e_value)
        return tuple(found)


def judge(
    design: Design,
    trials: Iterable[Scored],
    *,
    confidence: float,
    seed: int,
) -> Judged:
    """Return what the trials certify; an early stop leaves the rest of them where they are.

    Raises
    ------
    ValueError
        If trials give different numbers of scores, or too few trials ran.
    """
    if design.anytime:
        return _anytime(design, trials, confidence)
    rows: tuple[list[Array], list[Array]] = ([], [])
    for trial, scores in _of_one_width(trials):
        rows[0 if trial.included[0] else 1].append(_combined(design, trial, scores))
    drawn = analysis_seed(seed)
    x, x_prime = (np.array(side) for side in rows)
    choosing = 0
    if x.ndim > 1:
        assert design.columns is not None  # `_combined`
        x, x_prime, how = combine(
            x, x_prime, columns=design.columns, seed=drawn, delta=min(design.deltas)
        )
        choosing = sum(how.choosing)

    found = audit_fixed(x, x_prime, design.deltas, confidence, drawn)
    best = audit_fixed(*told_apart(x.size, x_prime.size), design.deltas, confidence, drawn)
    certified = tuple(
        CertifiedEpsilon(
            delta=delta,
            epsilon=found.epsilon_lower(delta),
            largest=best.epsilon_lower(delta),
            error=found.evidence(delta).error_spent,
            counts=_counts(found.evidence(delta)),
        )
        for delta in design.deltas
    )
    method = f"{_METHODS[type(found.thresholds)]} of a number of trainings fixed beforehand"
    return Judged(x, x_prime, certified, method, choosing=choosing)


def _anytime(design: Design, trials: Iterable[Scored], confidence: float) -> Judged:
    tests = EProcesses(design.claims, confidence)
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
    size = len(scores[0])
    if not size:
        raise ValueError(f"minutes must be enough for two trainings, got {design.minutes!r}")
    best = EProcesses(design.claims, confidence)
    best.update(*told_apart(size, size))
    certified = tuple(
        CertifiedEpsilon(
            delta=delta,
            epsilon=tests.epsilon_lower(delta),
            largest=best.epsilon_lower(delta),
            error=tests.error,
            counts=f"{size} pairs of trainings",
        )
        for delta in design.deltas
    )
    x, x_prime = (np.array(side, dtype=np.float64) for side in scores)
    return Judged(x, x_prime, certified, "e-processes, valid at any time", np.array(logs))


def _of_one_width(
    trials: Iterable[Scored],
) -> Iterator[Scored]:
    width = None
    for trial, scores in trials:
        width = width or len(scores)
        if len(scores) != width:
            raise ValueError(
                f"{trial.described} must give {width} scores, as the ones before, got {len(scores)}"
            )
        yield trial, scores


def _combined(design: Design, trial: Trial, scores: tuple[float, ...]) -> Array:
    """Return one number, or all columns where a part of the trainings is to choose.

    Raises
    ------
    ValueError
        If there are not as many columns as weights, or their sum overflows.
    """
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
    try:  # rounded once, so that the bits depend on no library
        total = math.fsum(score * weight for score, weight in zip(scores, weights, strict=True))
    except (OverflowError, ValueError):
        total = math.nan
    if not math.isfinite(total):
        raise ValueError(f"{trial.described} must give scores with a finite sum, got {total}")
    return np.array(total)


def audit_fixed(
    scores: Array, scores_prime: Array, deltas: Sequence[float], confidence: float, seed: int
) -> Audit:
    """Return what scores of a fixed number of trainings certify; high ones speak for the canary."""
    return audit_samples(
        scores,
        scores_prime,
        confidence=confidence,
        seed=seed,
        deltas=deltas,
        favours=Order.FORWARD,
    )


def told_apart(first: int, second: int) -> tuple[Array, Array]:
    """Return scores of which each gives away whether the canary was in."""
    return np.ones(first), np.zeros(second)


def _counts(evidence: Evidence) -> str:
    event = f"score {evidence.tail.value.split()[1]} {evidence.threshold:.6g}"
    sides = ("with", "without") if evidence.order is Order.FORWARD else ("without", "with")
    return (
        f"{event} in {evidence.first_count} of {evidence.first_total} trainings {sides[0]} the "
        f"canary, and in {evidence.second_count} of {evidence.second_total} {sides[1]}"
    )

"""Certify epsilon from the scores of many trainings with and without one canary."""

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

# The e-processes test a grid of epsilons up to this one, in addition to the claimed ones.
FARTHEST, _SPACING = 15.0, 0.1
_METHODS = {OrderStatistics: "order statistics", PilotSplit: "a pilot split"}


@dataclass(frozen=True)
class CertifiedEpsilon:
    """The certified epsilon at one delta.

    Attributes
    ----------
    delta
        The delta of the bound.
    epsilon
        The certified lower bound.
    largest
        The bound that this many trainings would certify if each score revealed the canary.
    error
        The part of 1 - confidence that was spent on this delta.
    counts
        The counts that the bound is computed from, in words.
    """

    delta: float
    epsilon: float
    largest: float
    error: float
    counts: str


@dataclass(frozen=True, eq=False)
class Judged:
    """The scores of trainings and the bounds that they certify.

    Attributes
    ----------
    scores, scores_prime
        One number per training, with and without the canary, in the order of the trials.
    certified
        One entry per delta, largest delta first.
    method
        The method of certification, in words.
    log_e_values
        For an anytime-valid audit: logarithms of the e-values against each claim after each pair of
        trainings, shape (pairs, claims).
    choosing
        Number of trainings that were only used to choose how columns are combined.
    """

    scores: Array
    scores_prime: Array
    certified: tuple[CertifiedEpsilon, ...]
    method: str
    log_e_values: Array | None = None
    choosing: int = 0

    @property
    def trainings(self) -> int:
        """Number of trainings, including those that only chose how columns are combined."""
        return self.scores.size + self.scores_prime.size + self.choosing


class EProcesses:
    """Anytime-valid tests of all claims at once; deltas share the error equally.

    At each delta a grid of claims is tested together with the given claims. The bound is the
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
        """Bet on new pairs of trainings."""
        for tests in self._tests.values():
            tests.update(scores, scores_prime)

    def epsilon_lower(self, delta: float) -> float:
        """Return the certified lower bound at a delta of the claims.

        If "at most e" is refuted, epsilon is above e: the bound is the next floating-point number.
        """
        tests = self._tests[delta]
        bound = tests.epsilon_lower(delta)
        smallest = tests.evidence[0]  # the claim epsilon = 0
        return bound if smallest.refuted_after is None else math.nextafter(bound, math.inf)

    @property
    def all_refuted(self) -> bool:
        """Whether every claim is refuted."""
        return all(self.epsilon_lower(claim.delta) > claim.epsilon for claim in self.claims)

    @property
    def log_e_values(self) -> tuple[float, ...]:
        """The logarithm of the current e-value against each claim."""
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
    """Return the bounds that the trials certify; early stopping skips the remaining trials.

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
    best = audit_fixed(*revealing_scores(x.size, x_prime.size), design.deltas, confidence, drawn)
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
    method = f"{_METHODS[type(found.thresholds)]}, for a number of trainings fixed in advance"
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
        raise ValueError(f"minutes must be long enough for two trainings, got {design.minutes!r}")
    best = EProcesses(design.claims, confidence)
    best.update(*revealing_scores(size, size))
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
    return Judged(x, x_prime, certified, "anytime-valid e-processes", np.array(logs))


def _of_one_width(
    trials: Iterable[Scored],
) -> Iterator[Scored]:
    width = None
    for trial, scores in trials:
        width = width or len(scores)
        if len(scores) != width:
            raise ValueError(
                f"{trial.described} must give {width} scores like earlier trials, got {len(scores)}"
            )
        yield trial, scores


def _combined(design: Design, trial: Trial, scores: tuple[float, ...]) -> Array:
    """Return one number, or all columns if a part of the trainings chooses how to combine them.

    Raises
    ------
    ValueError
        If the numbers of columns and weights differ, or the sum overflows.
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
    try:  # rounded once, so that no library affects the bits
        total = math.fsum(score * weight for score, weight in zip(scores, weights, strict=True))
    except (OverflowError, ValueError):
        total = math.nan
    if not math.isfinite(total):
        raise ValueError(f"{trial.described} must give scores with a finite sum, got {total}")
    return np.array(total)


def audit_fixed(
    scores: Array, scores_prime: Array, deltas: Sequence[float], confidence: float, seed: int
) -> Audit:
    """Certify from scores of a fixed number of trainings; high scores indicate the canary."""
    return audit_samples(
        scores,
        scores_prime,
        confidence=confidence,
        seed=seed,
        deltas=deltas,
        favours=Order.FORWARD,
    )


def revealing_scores(first: int, second: int) -> tuple[Array, Array]:
    """Return scores that reveal without error whether the canary was included."""
    return np.ones(first), np.zeros(second)


def _counts(evidence: Evidence) -> str:
    event = f"score {evidence.tail.value.split()[1]} {evidence.threshold:.6g}"
    sides = ("with", "without") if evidence.order is Order.FORWARD else ("without", "with")
    return (
        f"{event} in {evidence.first_count} of {evidence.first_total} trainings {sides[0]} the "
        f"canary, and in {evidence.second_count} of {evidence.second_total} {sides[1]}"
    )

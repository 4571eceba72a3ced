"""The result of a user-defined mechanism: what its scores certify, and two estimators beside."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit import estimation
from audit.curves import Order
from audit.estimation import Audit, SequentialAudit
from audit.results import (
    AtDelta,
    BoundRow,
    Certified,
    Estimate,
    Estimator,
    RefutedAfter,
    ScoreHistograms,
    UserClaim,
    UserMechanismResult,
    judge_upper_bound,
)
from audit.results.comparisons import CLAIMED
from audit.scenario.run_pair import sampled_evidence
from audit.scenario.user_mechanism import UserMechanismSetting

Array = NDArray[np.float64]

# Claims that the sequential audit tests beside the user's: a grid up to this epsilon.
_FARTHEST, _GRID = 12.0, 61
_BINS = 80

_ESTIMATORS: dict[type, Estimator] = {
    estimation.PilotSplit: Estimator.PILOT_SPLIT,
    estimation.OrderStatistics: Estimator.ORDER_STATISTICS,
}


@dataclass(frozen=True)
class _Audited:
    """The audit that certifies, with all of the error, and two beside it with an error each."""

    audit: Audit
    band: Audit
    sequential: dict[float, SequentialAudit]

    def lower(self, delta: float) -> dict[Estimator, float]:
        """Return what each certifies of one record."""
        return {
            _ESTIMATORS[type(self.audit.thresholds)]: self.audit.per_record_epsilon_lower(delta),
            Estimator.SIMULTANEOUS_BAND: self.band.per_record_epsilon_lower(delta),
            Estimator.SEQUENTIAL: _sequential_lower(self.sequential[delta], self.audit.group_size),
        }


def _sequential_lower(audited: SequentialAudit, group_size: int) -> float:
    """Return the largest epsilon that is refuted together with all smaller ones; one delta."""
    bound = 0.0
    by_epsilon = sorted(zip(audited.claims, audited.evidence, strict=True), key=lambda one: one[0])
    for (epsilon, _), evidence in by_epsilon:
        if evidence.refuted_after is None:
            break
        bound = epsilon / group_size
    return bound


def audit_scores(
    setting: UserMechanismSetting, *, confidence: float, seed: int
) -> UserMechanismResult:
    """Draw or read the scores, certify lower bounds, and judge the claims.

    The default of `estimation.audit_samples` certifies and judges: with probability at least
    ``confidence`` its lower bounds are at most the true epsilons, at all deltas together. A claim
    is refuted if the bound exceeds it. The simultaneous band and the sequential audit are shown
    beside; each is right with ``confidence`` by itself, the sequential one at each delta by itself,
    so the largest of the three certifies nothing.

    Raises
    ------
    ValueError
        If the scores cannot be had, or are not finite numbers.
    """
    x, x_prime = setting.source.draw(seed)
    trials = min(len(x), len(x_prime))
    columns = None
    if x.ndim > 1 or x_prime.ndim > 1 or setting.columns is not None:
        x, x_prime, columns = estimation.combine(
            x,
            x_prime,
            columns=setting.columns or estimation.LinearScore(),
            seed=seed,
            delta=min(setting.all_deltas),
        )
    # a score that was learned points at the first dataset, whatever its columns do
    learned = columns is not None and columns.towards_first
    favours = Order.FORWARD if learned else setting.favours
    audited = _audited(setting, x, x_prime, favours, confidence, seed)
    return UserMechanismResult(
        name=setting.name,
        title=setting.title,
        summary=setting.summary,
        seed=seed,
        wall_seconds=None,
        source=setting.source.described,
        trials=trials,
        deltas=tuple(_at_delta(delta, setting, audited) for delta in setting.all_deltas),
        audit=replace(audited.audit, columns=columns).record(),
        scores=score_histograms(x, x_prime),
    )


def _audited(
    setting: UserMechanismSetting,
    x: Array,
    x_prime: Array,
    favours: Order | None,
    confidence: float,
    seed: int,
) -> _Audited:
    deltas = setting.all_deltas
    pairs = min(x.size, x_prime.size)
    sequential = {}
    for delta in deltas:
        claimed = {claim.epsilon for claim in setting.claims if claim.delta == delta}
        grid = sorted({*np.linspace(0.0, _FARTHEST, _GRID).tolist(), *claimed})
        one = SequentialAudit(
            [estimation.group_claim(epsilon, delta, setting.group_size) for epsilon in grid],
            confidence=confidence,
        )
        one.update(x[:pairs], x_prime[:pairs])
        sequential[delta] = one
    return _Audited(
        estimation.audit_samples(
            x,
            x_prime,
            confidence=confidence,
            deltas=deltas,
            seed=seed,
            favours=favours,
            group_size=setting.group_size,
        ),
        estimation.audit_samples(
            x,
            x_prime,
            confidence=confidence,
            deltas=deltas,
            thresholds=estimation.SimultaneousBand(),
            group_size=setting.group_size,
        ),
        sequential,
    )


def _at_delta(delta: float, setting: UserMechanismSetting, audited: _Audited) -> AtDelta:
    lower = audited.lower(delta)
    certified = audited.audit.per_record_epsilon_lower(delta)
    sampled = sampled_evidence(audited.audit.per_record_evidence(delta).evidence)
    made = [claim for claim in setting.claims if claim.delta == delta]
    rows = tuple(_judged(claim, certified) for claim in made)
    claimed = {row.id: claim.epsilon for row, claim in zip(rows, made, strict=True) if row.stands}
    return AtDelta(
        delta=delta,
        sampled=replace(
            sampled,
            epsilon=certified,
            largest_certifiable=sampled.largest_certifiable / setting.group_size,
        ),
        exact=None,
        certified=Certified(epsilon=certified, by="samples"),
        bounds=rows,
        best=min(claimed, key=claimed.__getitem__, default=None),
        estimates=tuple(
            Estimate(
                estimator=estimator,
                epsilon=epsilon,
                refuted_after=(
                    _refuted_after(setting, audited.sequential[delta], delta)
                    if estimator is Estimator.SEQUENTIAL
                    else ()
                ),
            )
            for estimator, epsilon in lower.items()
        ),
    )


def _refuted_after(
    setting: UserMechanismSetting, audited: SequentialAudit, delta: float
) -> tuple[RefutedAfter, ...]:
    after = {
        claim: evidence.refuted_after
        for claim, evidence in zip(audited.claims, audited.evidence, strict=True)
    }
    size = setting.group_size
    return tuple(
        RefutedAfter(
            claim=claim.name,
            pairs=after[estimation.group_claim(claim.epsilon, claim.delta, size)],
        )
        for claim in setting.claims
        if claim.delta == delta
    )


def _judged(claim: UserClaim, certified: float) -> BoundRow:
    return BoundRow(
        id=claim.name,
        citation="claimed by the mechanism's author",
        status=CLAIMED,
        value=claim.epsilon,
        ratio=claim.epsilon / certified if certified > 0 else None,
        reason=None,
        verdict=judge_upper_bound(claim.epsilon, certified),
    )


def score_histograms(x: Array, x_prime: Array) -> ScoreHistograms:
    """Histograms of two samples of scores, shares of each per bin, over the range of both."""
    low, high = float(min(x.min(), x_prime.min())), float(max(x.max(), x_prime.max()))
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, _BINS + 1)
    first, second = (
        tuple((np.histogram(sample, bins=edges)[0] / sample.size).tolist())
        for sample in (x, x_prime)
    )
    return ScoreHistograms(edges=tuple(edges.tolist()), first=first, second=second)

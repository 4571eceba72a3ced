"""The result of a user-defined mechanism: what its scores certify, and two estimators beside."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np

from audit import estimation, results
from audit.estimation import Audit, JudgedClaim, JudgedScores, SequentialAudit
from audit.results import Estimate, Estimator
from audit.results.result import CLAIMED
from audit.scenario.definition import heading
from audit.scenario.run_pair import sampled_evidence
from audit.scenario.shipped import scenarios_folder
from audit.scenario.user_mechanism import UserMechanismSetting

# Claims that the sequential audit tests beside the user's: a grid up to this epsilon.
_MAX_GRID_EPSILON, _GRID = 12.0, 61
_BINS = 80
_SHUFFLE = 1000  # of the generators made from the setting's seed

_ESTIMATORS: dict[type, Estimator] = {
    estimation.PilotSplit: Estimator.PILOT_SPLIT,
    estimation.OrderStatistics: Estimator.ORDER_STATISTICS,
}


def audit_scores(
    setting: UserMechanismSetting, *, confidence: float, seed: int
) -> results.UserMechanismResult:
    """Draw or read the scores, certify lower bounds, and judge the claims.

    The default of `estimation.audit_samples` certifies and judges: with probability at least
    ``confidence`` its lower bounds are at most the true epsilons, at all deltas together. A claim
    is judged by `estimation.judge_scores`. The simultaneous band and the sequential audit are shown
    beside; each is right with ``confidence`` by itself, the sequential one at each delta by itself,
    so the largest of the three certifies nothing.
    """
    given = setting.own.draw(seed, folders=[Path.cwd(), scenarios_folder()])
    judged = estimation.judge_scores(
        given,
        setting.claims,
        confidence=confidence,
        seed=seed,
        deltas=setting.deltas,
        favours=setting.favours,
        columns=setting.columns,
        group_size=setting.group_size,
    )
    band = estimation.audit_samples(
        judged.x,
        judged.x_prime,
        confidence=confidence,
        deltas=setting.all_deltas,
        thresholds=estimation.SimultaneousBand(),
        group_size=setting.group_size,
    )
    rows = [_row(*one) for one in zip(setting.claims, judged, strict=True)]
    assert isinstance(judged.audit, Audit)

    def at_delta(delta: float, audit: Audit = judged.audit) -> results.AtDelta:
        claims = zip(setting.claims, rows, strict=True)
        own = tuple(row for claim, row in claims if claim.delta == delta)
        standing = {row.id: row.value for row in own if row.stands and row.value is not None}
        certified = audit.per_record_epsilon_lower(delta)
        estimators = (
            (_ESTIMATORS[type(audit.thresholds)], certified),
            (Estimator.SIMULTANEOUS_BAND, band.per_record_epsilon_lower(delta)),
        )
        sampled = sampled_evidence(audit.per_record_evidence(delta).evidence)
        limit = sampled.largest_certifiable / setting.group_size
        return results.AtDelta(
            delta=delta,
            sampled=replace(sampled, epsilon=certified, largest_certifiable=limit),
            exact=None,
            certified=results.Certified(epsilon=certified, by="samples"),
            bounds=own,
            best=min(standing, key=standing.__getitem__, default=None),
            estimates=(
                *(Estimate(estimator=by, epsilon=e, refuted_after=()) for by, e in estimators),
                _sequential(setting, judged, delta, confidence, seed),
            ),
        )

    return results.UserMechanismResult(
        **heading(setting, seed),
        source=setting.own.described,
        trials=min(map(len, given)),
        deltas=tuple(map(at_delta, setting.all_deltas)),
        audit=judged.audit.record(),
        scores=results.ScoreHistograms.of(judged.x, judged.x_prime, _BINS),
    )


def _sequential(
    setting: UserMechanismSetting, judged: JudgedScores, delta: float, confidence: float, seed: int
) -> Estimate:
    """Return what a sequential audit says of the claims at one delta, tested beside a grid.

    It certifies the largest epsilon that is refuted together with all smaller ones.
    """
    claims = [claim for claim in setting.claims if claim.delta == delta]
    grid = np.linspace(0.0, _MAX_GRID_EPSILON, _GRID).tolist()
    tested = {
        epsilon: estimation.group_claim(epsilon, delta, setting.group_size)
        for epsilon in sorted({*grid, *(claim.epsilon for claim in claims)})
    }
    audited = SequentialAudit([*tested.values()], confidence=confidence)
    x, x_prime = judged.x, judged.x_prime
    if setting.own.function is None:  # a file's rows may be sorted, and each pair must be a draw
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SHUFFLE,)))
        x, x_prime = random.permutation(x), random.permutation(x_prime)
    pairs = min(x.size, x_prime.size)
    audited.update(x[:pairs], x_prime[:pairs])
    found = dict(zip(audited.claims, audited.evidence, strict=True))
    after = {epsilon: found[claim].refuted_after for epsilon, claim in tested.items()}
    refuted = itertools.takewhile(lambda epsilon: after[epsilon] is not None, after)
    return Estimate(
        estimator=Estimator.SEQUENTIAL,
        epsilon=max((tested[epsilon][0] for epsilon in refuted), default=0.0) / setting.group_size,
        refuted_after=tuple(
            results.RefutedAfter(claim=claim.name, pairs=after[claim.epsilon]) for claim in claims
        ),
    )


def _row(claim: results.UserClaim, judged: JudgedClaim) -> results.BoundRow:
    return results.BoundRow(
        id=claim.name,
        citation="claimed by the mechanism's author",
        status=CLAIMED,
        value=claim.epsilon,
        ratio=claim.epsilon / judged.certified if judged.certified > 0 else None,
        reason=judged.reason or None,
        verdict=judged.verdict,
    )

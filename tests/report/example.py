"""A made-up result of three settings, with numbers like those of real runs.

The epsilons are typed in. One setting has a refuted bound, one an inapplicable one, and the last
is as extreme as the constants of Altschuler and Talwar 2022.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from audit.bounds import Status
from audit.constructions import BiasedWalk, DriftedWalk, TwoSidedWalk
from audit.curves import Order
from audit.estimation import AuditRecord, Tail, audit_samples
from audit.mechanism import Batching, NoisySGD
from audit.results import (
    AtDelta,
    AtOrder,
    BoundCurve,
    BoundRow,
    BurnIn,
    ByOrder,
    Certified,
    Derived,
    Environment,
    EpsilonAgainstSteps,
    EpsilonAtDelta,
    Estimate,
    Estimator,
    Number,
    OtherPair,
    PairResult,
    Provenance,
    RefutedAfter,
    Result,
    SampledEvidence,
    ScenarioHeading,
    ScoreHistograms,
    SettingResult,
    Statement,
    StudyResult,
    TradeoffCurves,
    UserMechanismResult,
    Verdict,
)
from tests.scenario.studies import Everything

from .example_laws import TRIALS, floats, full_batch_laws, normal_laws, paper_laws


def around(value: float, error: float = 4e-12) -> Number:
    return Number(value, value - error, value + error)


def at_least(value: float) -> Number:
    return Number(value, value, math.inf)


def bound(
    name: str,
    value: float | None,
    certified: float,
    *,
    citation: str = "A made-up claim",
    reason: str | None = None,
    status: Any = Status.AS_PRINTED,
) -> BoundRow:
    """A claim, judged; without a value it does not apply."""
    verdict = Verdict.NOT_APPLICABLE
    if value is not None:
        verdict = Verdict.unless(value < certified)
    return BoundRow(
        id=name,
        citation=citation,
        status=status,
        value=value,
        ratio=None if value is None else value / certified,
        reason=reason,
        verdict=verdict,
    )


def tightest_id(bounds: tuple[BoundRow, ...]) -> str | None:
    standing = [b for b in bounds if b.stands and b.value is not None and math.isfinite(b.value)]
    return min(standing, key=lambda b: b.value or 0.0).id if standing else None


def at_delta(
    delta: float,
    sampled: float,
    forward: Number,
    reverse: Number,
    bounds: tuple[BoundRow, ...],
    limit: float,
) -> AtDelta:
    worst = max(forward, reverse, key=lambda value: value.low)
    return AtDelta(
        delta=delta,
        sampled=evidence(sampled, limit),
        exact=ByOrder(forward=forward, reverse=reverse, worst=worst),
        certified=Certified(epsilon=worst.low, by="TwoSidedWalk"),
        bounds=bounds,
        best=tightest_id(bounds),
        estimates=(),
        errors={"cells": 2e-13, "rounding": 3e-14},
    )


def evidence(epsilon: float, limit: float = 11.9) -> SampledEvidence:
    return SampledEvidence(
        epsilon=epsilon,
        order=Order.REVERSE,
        tail=Tail.AT_LEAST,
        threshold=0.3125,
        count=41,
        total=500_000,
        count_prime=183_211,
        total_prime=500_000,
        error_spent=0.0071,
        largest_certifiable=limit,
    )


def with_setting(result: Result, index: int, **changes: Any) -> Result:
    """The result with some fields of one setting changed."""
    settings = list(result.settings)
    settings[index] = replace(settings[index], **changes)
    return replace(result, settings=tuple(settings))


def with_row(setting: PairResult, index: int, **changes: Any) -> PairResult:
    """The setting with some fields of one of its deltas changed."""
    rows = list(setting.deltas)
    rows[index] = replace(rows[index], **changes)
    return replace(setting, deltas=tuple(rows))


def with_bound(setting: PairResult, row: int, index: int, **changes: Any) -> PairResult:
    """The setting with some fields of one bound at one of its deltas changed."""
    bounds = list(setting.deltas[row].bounds)
    bounds[index] = replace(bounds[index], **changes)
    found = tuple(bounds)
    return with_row(setting, row, bounds=found, best=tightest_id(found))


_ALPHA = ndtr(np.linspace(-6.0, 3.5, 77))


def _gaussian_beta(mu: float) -> tuple[float, ...]:
    return floats(ndtr(-ndtri(_ALPHA) - mu))


def _tradeoff(exact: float, sampled: float, bounds: dict[str, float]) -> TradeoffCurves:
    ceiling = np.maximum(np.asarray(_gaussian_beta(sampled)), 9e-6 * (1 - _ALPHA))
    return TradeoffCurves(
        alpha=floats(_ALPHA),
        exact=_gaussian_beta(exact),
        sampled_upper=floats(np.minimum(ceiling, 1 - _ALPHA)),
        bounds=tuple(BoundCurve(id=n, values=_gaussian_beta(mu)) for n, mu in bounds.items()),
    )


_COMPOSITION = "Bok, Su and Altschuler 2024, Theorem 4.1"
_FULL = "Bok, Su and Altschuler 2024, Theorem 4.3"
_STOCHASTIC = "Bok, Su and Altschuler 2024, Theorem 4.8"
_APPENDIX = "Altschuler and Talwar 2022, Appendix B.1"
_STEPS = (1, 3, 10, 30, 60, 100, 150, 200, 300, 500, 700, 1000)
_MECHANISM = NoisySGD(
    steps=1000,
    dataset_size=20,
    batch_size=20,
    step_size=0.1,
    noise_std=0.5,
    lipschitz=1.0,
    smoothness=1.0,
    strong_convexity=0.0,
    convex=True,
    diameter=1.0,
)
_NEEDS_FULL = "bsa24.theorem_4_3 needs batching = full, got batching='without replacement'"


def _derived(mechanism: NoisySGD) -> Derived:
    return Derived(
        step_std=mechanism.step_std,
        sensitivity=mechanism.sensitivity,
        diameter_in_step_std=20.0,
        sampling_rate=mechanism.sampling_rate,
        epochs=mechanism.epochs,
    )


@cache
def _audit() -> AuditRecord:
    rng = np.random.default_rng(2)
    x, x_prime = rng.normal(size=2000), rng.normal(1.0, size=2000)
    audit = audit_samples(x, x_prime, confidence=0.95, deltas=(1e-5,), seed=7).record()
    return replace(audit, mu_lower=replace(audit.mu_lower, value=1.0423))


def _renyi(order: float, value: float) -> AtOrder:
    return AtOrder(
        order=order,
        sampled_lower=value * 0.93,
        exact=ByOrder(forward=around(value), reverse=around(value), worst=around(value)),
        bounds=(
            bound("bsa24.theorem_4_1", 9 * value, value),
            bound("at22.b_1", None, value, reason="it does not apply"),
        ),
    )


def _full_batch() -> PairResult:
    rows = (
        (1e-2, 2.2931, 2.48093112345, 13.81, 5.417, 13.81, 6.98, 3.01),
        (1e-5, 2.6107, 3.08728040761, 22.91, 9.6614, 22.91, 11.32, 2.95),
    )
    return PairResult(
        name="full_batch",
        title="Full batches, a domain of 20 step deviations",
        summary="Every step uses every record & the two walks drift apart, a little at each step.",
        seed=11,
        wall_seconds=12.4,
        mechanism=_MECHANISM,
        derived=_derived(_MECHANISM),
        pair=TwoSidedWalk(_MECHANISM),
        trials=TRIALS,
        deltas=tuple(
            at_delta(
                delta,
                sampled,
                around(exact),
                around(exact),
                (
                    bound("bsa24.theorem_4_1", composed, exact, citation=_COMPOSITION),
                    bound("bsa24.theorem_4_3", full, exact, citation=_FULL),
                    bound("bsa24.theorem_4_8", stochastic, exact, citation=_STOCHASTIC),
                    bound("at22.b_1", renyi, exact, citation=_APPENDIX),
                    bound("example.theorem_1", wrong, exact),
                    bound("example.theorem_2", math.inf, exact),
                ),
                11.9,
            )
            for delta, sampled, exact, composed, full, stochastic, renyi, wrong in rows
        ),
        renyi=tuple(
            _renyi(order, value)
            for order, value in ((2.0, 0.8123456789), (8.0, 1.93123456), (32.0, 2.71123))
        ),
        other_pairs=(
            OtherPair(
                pair=DriftedWalk(_MECHANISM, drift=-0.02),
                epsilons=(
                    EpsilonAtDelta(delta=1e-2, epsilon=around(2.2190714)),
                    EpsilonAtDelta(delta=1e-5, epsilon=around(3.0112345678)),
                ),
                found_by=None,
            ),
        ),
        positions=(),
        audit=_audit(),
        laws=full_batch_laws(3.0),
        tradeoff=_tradeoff(
            1.1,
            1.04,
            {"bsa24.theorem_4_1": 6.3, "bsa24.theorem_4_3": 2.1, "example.theorem_1": 1.0},
        ),
        epsilon_against_steps=EpsilonAgainstSteps(
            delta=1e-5,
            steps=_STEPS,
            exact=tuple(around(3.08728040761 * (1 - math.exp(-t / 70))) for t in _STEPS),
            bounds=tuple(
                BoundCurve(id=name, values=values)
                for name, values in (
                    ("bsa24.theorem_4_1", tuple(0.72 * math.sqrt(t) for t in _STEPS)),
                    ("bsa24.theorem_4_8", tuple(0.72 * math.sqrt(t) for t in _STEPS)),
                    ("bsa24.theorem_4_3", tuple(None if t < 150 else 9.6614 for t in _STEPS)),
                    ("at22.b_1", tuple(min(0.8 * math.sqrt(t), 11.32) for t in _STEPS)),
                    ("example.theorem_1", (2.95,) * len(_STEPS)),
                )
            ),
            burn_in=BurnIn(steps=150.0, theorem="Altschuler and Talwar 2022, Theorem 3.1"),
        ),
    )


def _sampled() -> PairResult:
    mechanism = replace(
        _MECHANISM,
        steps=150,
        dataset_size=10,
        batch_size=2,
        noise_std=0.2,
        batching=Batching.WITHOUT_REPLACEMENT,
    )
    exact = 17.0911011604
    return replace(
        _full_batch(),
        name="sampled",
        title="Small batches, sampled without replacement",
        summary="The second walk jumps by 2.5 step deviations whenever the record is in the batch.",
        mechanism=mechanism,
        derived=replace(_derived(mechanism), diameter_in_step_std=50.0),
        pair=BiasedWalk(mechanism),
        deltas=(
            at_delta(
                1e-3,
                9.4415,
                around(exact),
                around(4.30194685093),
                (
                    bound("bsa24.theorem_4_8", 131.2, exact, citation=_STOCHASTIC),
                    bound("bsa24.theorem_4_10", 118.04, exact, citation=_STOCHASTIC),
                    bound("bsa24.theorem_4_3", None, exact, citation=_FULL, reason=_NEEDS_FULL),
                ),
                11.4,
            ),
        ),
        other_pairs=(),
        laws=normal_laws(),
        tradeoff=_tradeoff(3.2, 3.0, {"bsa24.theorem_4_8": 14.0, "bsa24.theorem_4_10": 11.5}),
        epsilon_against_steps=EpsilonAgainstSteps(
            delta=1e-3,
            steps=(1, 10, 40, 80, 150),
            exact=tuple(around(v) for v in (1.02, 4.81, 10.42, 14.2, exact)),
            bounds=(
                BoundCurve(id="bsa24.theorem_4_8", values=(8.1, 30.2, 66.1, 95.2, 131.2)),
                BoundCurve(id="bsa24.theorem_4_10", values=(8.1, 30.2, 66.1, 91.5, 118.04)),
            ),
            burn_in=BurnIn(steps=75.0, theorem="Altschuler and Talwar 2022, Theorem 4.1"),
        ),
    )


def _paper() -> PairResult:
    mechanism = replace(
        _MECHANISM,
        steps=7500,
        dataset_size=10,
        batch_size=1,
        step_size=0.001,
        noise_std=0.3651483716701107,
        batching=Batching.WITHOUT_REPLACEMENT,
    )
    rows = (
        (1e-2, 11.302, 210.16410861, 128.70383492, 1762.31, 11.31),
        (1e-5, 11.311, 237.80228292, 128.74498012, 2218.4, 11.32),
    )
    exact = (9.1, 21.2, 52.0, 88.1, 120.6, 152.0, 181.9, 208.2, 237.80228)
    claimed = (211.0, 388.0, 744.0, 1080.0, 1341.0, 1570.0, 1777.0, 1960.0, 2218.4)
    return replace(
        _sampled(),
        name="paper",
        title="The constants of the paper's footnote 9",
        summary="The two laws hardly overlap: no number of samples comes near the exact value.",
        mechanism=mechanism,
        derived=replace(_derived(mechanism), diameter_in_step_std=2738.6),
        pair=BiasedWalk(mechanism),
        deltas=tuple(
            at_delta(
                delta,
                sampled,
                around(forward, 3e-7),
                around(reverse, 3e-7),
                (
                    bound("bsa24.theorem_4_8", claim, forward, citation=_STOCHASTIC),
                    bound("bsa24.theorem_4_3", None, forward, citation=_FULL, reason=_NEEDS_FULL),
                ),
                limit,
            )
            for delta, sampled, forward, reverse, claim, limit in rows
        ),
        renyi=(
            AtOrder(
                order=100.0,
                sampled_lower=10.2,
                exact=ByOrder(
                    forward=around(380.418, 4e-4),
                    reverse=at_least(128.7312),
                    worst=at_least(380.4176),
                ),
                bounds=(bound("bsa24.theorem_4_8", 4417.2, 380.4176),),
            ),
        ),
        laws=paper_laws(),
        tradeoff=_tradeoff(14.6, 4.4, {"bsa24.theorem_4_8": 61.0}),
        epsilon_against_steps=EpsilonAgainstSteps(
            delta=1e-5,
            steps=(100, 300, 1000, 2000, 3000, 4000, 5000, 6000, 7500),
            exact=tuple(around(v, 1e-6) for v in exact),
            bounds=(BoundCurve(id="bsa24.theorem_4_8", values=claimed),),
            burn_in=BurnIn(steps=7500.0, theorem="Altschuler and Talwar 2022, Theorem 4.1"),
        ),
    )


@cache
def pair_settings() -> tuple[PairResult, PairResult, PairResult]:
    """Full batches, batches without replacement, and the constants of a paper."""
    return _full_batch(), _sampled(), _paper()


@cache
def example() -> Result:
    return result(*pair_settings())


def result(*settings: SettingResult, name: str = "at22_lower_bound") -> Result:
    """The example's heading and provenance, with these settings."""
    return Result(
        scenario=ScenarioHeading(
            name=name,
            title="Clamped symmetric against biased random walks",
            summary="The pair with which the privacy loss of Noisy-SGD is shown to stop growing.",
            reference="Altschuler and Talwar 2022, section 4 and run_report A.4",
        ),
        provenance=Provenance(
            version="0.1.0",
            seed=7,
            command="audit scenario=at22_lower_bound",
            environment=Environment(
                started="2025-01-02T03:04:05+00:00",
                wall_seconds=98.2,
                threads=2,
                commit="0123456789abcdef0123456789abcdef01234567",
                commit_dirty=True,
                python="3.11.9",
                packages={"numpy": "2.1.0", "scipy": "1.15.0"},
            ),
        ),
        confidence=0.95,
        settings=settings,
    )


def bare(setting: PairResult) -> PairResult:
    """The setting without claims, orders, other pairs and steps before the last one."""
    curves = setting.epsilon_against_steps
    return replace(
        setting,
        summary="",
        deltas=tuple(replace(row, bounds=(), best=None) for row in setting.deltas),
        renyi=(),
        other_pairs=(),
        tradeoff=replace(setting.tradeoff, bounds=()),
        epsilon_against_steps=replace(
            curves, steps=curves.steps[-1:], exact=curves.exact[-1:], bounds=(), burn_in=None
        ),
        wall_seconds=None,
    )


def user_mechanism() -> UserMechanismResult:
    """A setting of samples only, one claim refuted and one not."""
    citation = "claimed by the mechanism's author"
    bounds = (
        bound("tight", 1.5, 2.0, citation=citation, status="claimed"),
        bound("loose", 5.0, 2.0, citation=citation, status="claimed"),
    )
    refuted_after = (
        RefutedAfter(claim="tight", pairs=12345),
        RefutedAfter(claim="loose", pairs=None),
    )
    return UserMechanismResult(
        name="own",
        title="My training",
        summary="",
        seed=3,
        wall_seconds=1.5,
        source="mine:run",
        trials=1000,
        deltas=(
            AtDelta(
                delta=1e-2,
                sampled=evidence(2.0),
                exact=None,
                certified=Certified(epsilon=2.0, by="samples"),
                bounds=bounds,
                best="loose",
                estimates=(
                    Estimate(estimator=Estimator.PILOT_SPLIT, epsilon=2.0, refuted_after=()),
                    Estimate(
                        estimator=Estimator.SEQUENTIAL, epsilon=1.8, refuted_after=refuted_after
                    ),
                ),
            ),
        ),
        audit=_audit(),
        scores=ScoreHistograms(edges=(0.0, 1.0, 2.0), first=(0.75, 0.25), second=(0.5, 0.5)),
    )


def study(name: str = "powers", *, wrong: bool = False, unclear: bool = False) -> StudyResult:
    """A study with two statements, a table and two charts with every kind of series."""
    found = Everything(size=12, wrong=wrong).find(
        seed=4, threads=1, confidence=0.95, progress=lambda done, total: None
    )
    growing = Statement(
        claim="Squares grow without end",
        citation="this package",
        expected="infinite",
        found=math.inf,
        verdict=Verdict.INCONCLUSIVE if unclear else Verdict.HOLDS,
    )
    return StudyResult(
        name=name,
        title=f"About {name}",
        summary="In words.",
        seed=4,
        wall_seconds=0.5,
        function="tests.powers:Powers",
        parameters={"size": 20, "colour": "blue", "centre.x": 0.5, "limits": (1, 2), "left": None},
        findings=replace(found, statements=(found.statements[0], growing)),
    )


def mixed() -> Result:
    """A comparison beside two studies, one of which has a refuted statement."""
    return result(pair_settings()[0], study(), study("roots", wrong=True))

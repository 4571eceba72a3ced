"""A stored result of three settings, with claims beside that are refuted and infinite.

One setting has inapplicable bounds, and the last is as extreme as the constants of Altschuler and
Talwar 2022.
"""

from __future__ import annotations

import io
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from audit.bounds import Status
from audit.report import load
from audit.results import (
    AtDelta,
    BoundCurve,
    BoundRow,
    Certified,
    Environment,
    Estimate,
    Estimator,
    Number,
    PairResult,
    RefutedAfter,
    Result,
    SampledEvidence,
    ScoreHistograms,
    SettingResult,
    Statement,
    StudyResult,
    UserMechanismResult,
    Verdict,
)
from tests.scenario.studies import Everything

STORED = Path(__file__).resolve().parents[2] / "results" / "at22_lower_bound"
WRONG = "example.theorem_1"


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


def evidence(epsilon: float, limit: float = 11.9) -> SampledEvidence:
    sampled = pair_settings()[0].deltas[0].sampled
    return replace(sampled, epsilon=epsilon, largest_certifiable=limit)


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


@cache
def stored() -> Result:
    return load(STORED)


@cache
def pair_settings() -> tuple[PairResult, PairResult, PairResult]:
    """Full batches, batches without replacement, and the constants of a paper."""
    full, sampled, paper = map(_without_the_stronger_pair, stored().settings)
    for index, row in enumerate(full.deltas):
        low = row.certified.epsilon
        made_up = (
            bound(WRONG, (1.05, 0.9555)[index] * low, low),
            bound("example.theorem_2", math.inf, low),
        )
        claims = (*(claim for claim in row.bounds if claim.value is not None), *made_up)
        full = with_row(full, index, bounds=claims, best=tightest_id(claims))
    steps, tradeoff = full.epsilon_against_steps, full.tradeoff
    low = BoundCurve(id=WRONG, values=(0.95 * steps.exact[-1].low,) * len(steps.steps))
    high = BoundCurve(id=WRONG, values=tuple(1.01 * beta for beta in tradeoff.exact))
    full = replace(
        full,
        epsilon_against_steps=replace(steps, bounds=(*steps.bounds, low)),
        tradeoff=replace(tradeoff, bounds=(*tradeoff.bounds, high)),
    )
    return full, sampled, replace(paper, renyi=paper.renyi[-1:])


def _without_the_stronger_pair(setting: SettingResult) -> PairResult:
    """The setting as if its own pair were the strongest that is known."""
    assert isinstance(setting, PairResult)
    setting = replace(setting, other_pairs=setting.other_pairs[:1])
    for index, row in enumerate(setting.deltas):
        assert row.exact is not None
        low = row.exact.worst.low
        claims = tuple(
            one if one.value is None else replace(one, ratio=one.value / low) for one in row.bounds
        )
        certified = Certified(epsilon=low, by=setting.pair.name)
        setting = with_row(
            setting, index, certified=certified, bounds=claims, best=tightest_id(claims)
        )
    return setting


@cache
def example() -> Result:
    return result(*pair_settings())


def result(*settings: SettingResult, name: str = "at22_lower_bound") -> Result:
    """The stored heading and provenance, on a machine, with these settings."""
    environment = Environment(
        started="2025-01-02T03:04:05+00:00",
        wall_seconds=98.2,
        threads=2,
        commit="0123456789abcdef0123456789abcdef01234567",
        commit_dirty=True,
        python="3.11.9",
        packages={"numpy": "2.1.0", "scipy": "1.15.0"},
    )
    return replace(
        stored(),
        scenario=replace(stored().scenario, name=name),
        provenance=replace(stored().provenance, environment=environment),
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
        audit=pair_settings()[0].audit,
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
    """A comparison beside a study with a refuted statement."""
    return result(pair_settings()[0], study("roots", wrong=True))


def draw_one_pixel(patch: pytest.MonkeyPatch) -> None:
    """Let every PNG be one pixel, which takes no time; drawings as SVG are whole."""

    def one_pixel(canvas: FigureCanvasAgg, file: io.BytesIO, **_: Any) -> None:
        Image.new("RGB", (1, 1)).save(file, "PNG")

    patch.setattr(FigureCanvasAgg, "print_png", one_pixel)

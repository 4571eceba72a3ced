"""One training run with many canaries, audited from their scores and coins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.adapters.scores import read_scores, read_table
from audit.estimation.one_run import Canaries
from audit.estimation.score_source import one_alternative
from audit.isolation import call
from audit.results.verdicts import UserClaim
from audit.scenario.kinds import RunContext, Setting, check_claims, heading, setting_kind
from audit.scenario.user_code import load

if TYPE_CHECKING:
    from audit.results import StudyResult

Array = NDArray[np.float64]


@setting_kind
@dataclass(frozen=True, kw_only=True)
class OneRunSetting(Setting):
    """Scores of canaries of one run, the coins that included them, and what is claimed."""

    key: ClassVar[str] = "one_run"
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("function", "number"),
        ("scores", "coins"),
        ("file", "score", "member"),
    )

    claims: tuple[UserClaim, ...]  #: What is claimed of one canary in or out, one or more.
    canaries: Canaries  #: What is assumed of how canaries depend on each other.
    #: ``package.module:function``, called as ``function(number, seed)``: it tosses so many fair
    #: coins, runs the mechanism once, and returns scores and coins, shapes (number,) each.
    function: str | None = None
    number: int | None = None  #: The number of canaries, for a function.
    #: A file of scores instead of a function: .npy, .npz, .parquet, or text such as .csv with or
    #: without a header.
    scores: Path | None = None
    coins: Path | None = None  #: The file of their coins.
    #: Or one file and its columns: see `audit.adapters.scores.read_table`.
    file: Path | None = None
    score: str | None = None  #: Name of its column of scores.
    #: Name of its column of 0 and 1. A fair coin of its own must have decided on each row's
    #: membership.
    member: str | None = None
    #: Where the guesses are chosen to be sharp; by default the delta of the first claim.
    delta: float | None = None

    def __post_init__(self) -> None:
        check_claims(self.claims)
        one_alternative(self)
        if self.number is not None:
            validate.integer(4, number=self.number)
        if self.delta is not None:
            validate.closed_unit(delta=self.delta)

    def draw(self, seed: int) -> tuple[Any, Any]:
        """Return scores and coins."""
        if self.file is not None:
            table = read_table(self.file, score=str(self.score), member=str(self.member))
            return table.scores, table.member
        if self.scores is not None and self.coins is not None:
            return read_scores(self.scores), read_scores(self.coins, name="coins")
        function = str(self.function)
        kind = "a function of (number, seed) that returns scores and coins"
        message = f"{function} must be {kind}, got"
        drawn = call(load(function), self.number, seed, message=message)
        try:
            scores, coins = drawn
        except (TypeError, ValueError):
            named = f"what {function} returns"
            raise validate.fail(named, "scores and coins", type(drawn).__name__) from None
        return scores, coins

    def run(self, context: RunContext) -> StudyResult:
        """Audit the run, and judge the claims."""
        from audit.estimation import judge_scores  # takes a while to import
        from audit.results import StudyResult
        from audit.training.findings import one_run_findings

        context.progress.stage(f"{self.name}: canaries of one run")
        judged = judge_scores(
            self.draw(context.seed),
            self.claims,
            confidence=context.confidence,
            seed=context.seed,
            canaries=self.canaries,
            planned_delta=self.delta,
        )
        return StudyResult(
            **heading(self, context.seed),
            function="audit.estimation:audit_one_run",
            parameters={
                "scores of": self.function or str(self.file or self.scores),
                "canaries": self.canaries.value,
                "confidence": context.confidence,
            },
            findings=one_run_findings(judged, self.claims),
        )

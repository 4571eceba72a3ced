"""Settings that audit what a user names: scores of a mechanism, canaries of one run, a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from audit import validate
from audit.adapters.scores import read_scores, read_table
from audit.codec import decode, encode
from audit.curves import Order
from audit.estimation.one_run import Canaries
from audit.estimation.score_source import Columns, ScoreSource, one_alternative
from audit.estimation.verdicts import UserClaim as UserClaim
from audit.isolation import call
from audit.scenario.definition import RunContext, Setting, check_claims, heading, load, setting_kind
from audit.scenario.shipped import scenarios_folder
from audit.training.design import Design

if TYPE_CHECKING:
    from audit.results import StudyResult, UserMechanismResult


@setting_kind
@dataclass(frozen=True, kw_only=True)
class UserMechanismSetting(Setting):
    """Scores of a user-defined mechanism, and claims about it.

    Raises
    ------
    ValueError
        If a parameter is out of range, or claims share a name.
    """

    key: ClassVar[str] = "own"

    own: ScoreSource  #: Source of the scores; ``trials`` may be written beside it.
    claims: tuple[UserClaim, ...]  #: Claims, at least one.
    #: Deltas at which epsilon is certified; defaults to those of the claims.
    deltas: tuple[float, ...] = ()
    #: How several numbers per run are combined into one score; `LinearScore` by default.
    columns: Columns | None = None
    #: Number of records in which the two datasets differ. Claims are about one record.
    group_size: int = 1
    #: Dataset that high scores can only support, known beforehand: FORWARD for dataset 0, REVERSE
    #: for dataset 1; None for either. It gives tighter bounds.
    favours: Order | None = None

    def __post_init__(self) -> None:
        validate.integer(1, group_size=self.group_size)
        check_claims(self.claims)
        validate.half_open_unit(**{f"deltas[{i}]": d for i, d in enumerate(self.deltas)})

    @property
    def all_deltas(self) -> tuple[float, ...]:
        """Deltas at which epsilon is certified, the largest first."""
        return tuple(sorted({*self.deltas, *(c.delta for c in self.claims)}, reverse=True))

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the keys of a setting of this kind, with the hints of their values."""
        return {**super().keys(), "trials": int | None}

    @classmethod
    def read_fields(
        cls, values: dict[str, Any], where: str, folders: Sequence[Path]
    ) -> dict[str, Any]:
        """Move ``trials`` to the source of the scores, which it may stand beside."""
        if "trials" in values and isinstance(values["own"], Mapping):
            values["own"] = {"trials": values.pop("trials"), **values["own"]}
        return {}

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values of a scenario file."""
        plain = encode(self, defaults=False) | {"deltas": encode(self.deltas)}
        if self.columns is not None:
            plain["columns"] = encode(self.columns)
        trials = {key: plain["own"].pop(key) for key in ("trials",) if key in plain["own"]}
        del plain["name"]
        return {"title": self.title, "summary": self.summary, **plain, **trials}

    def run(self, context: RunContext) -> UserMechanismResult:
        """Draw or read the scores, certify lower bounds, and judge the claims."""
        # estimators take a while to import, which a misspelt scenario must not
        from audit.scenario.run_user_mechanism import audit_scores

        context.progress.stage(f"{self.name}: scores of {self.own.described}")
        return audit_scores(self, confidence=context.confidence, seed=context.seed)


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """Scores of canaries of one run, the coins that included them, and what is claimed."""

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


@setting_kind
@dataclass(frozen=True, kw_only=True)
class OneRunSetting(Setting):
    """Audit of one run with many canaries."""

    key: ClassVar[str] = "one_run"

    one_run: OneRun  #: The canaries and the claims.

    def run(self, context: RunContext) -> StudyResult:
        """Audit the run, and judge the claims."""
        from audit.estimation import judge_scores  # takes a while to import
        from audit.results import StudyResult
        from audit.training.findings import one_run_findings

        context.progress.stage(f"{self.name}: canaries of one run")
        asked = self.one_run
        judged = judge_scores(
            asked.draw(context.seed),
            asked.claims,
            confidence=context.confidence,
            seed=context.seed,
            canaries=asked.canaries,
            planned_delta=asked.delta,
        )
        return StudyResult(
            **heading(self, context.seed),
            function="audit.estimation:audit_one_run",
            parameters={
                "scores of": asked.function or str(asked.file or asked.scores),
                "canaries": asked.canaries.value,
                "confidence": context.confidence,
            },
            findings=one_run_findings(judged, asked.claims),
        )


@setting_kind
@dataclass(frozen=True, kw_only=True)
class TrainingSetting(Setting):
    """Training, its claims, and its audit; see `audit.training.run`."""

    key: ClassVar[str] = "training"

    #: Fields of `audit.training.Design`. The scenario's ``threads`` is the number of simultaneous
    #: trainings.
    design: Design
    folders: tuple[Path, ...] = ()  #: Folders where the module of the training is searched for.

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the keys of a training, one of which holds the fields of its design."""
        return {"title": str, "summary": str, cls.key: Design}

    @classmethod
    def read_fields(
        cls, values: dict[str, Any], where: str, folders: Sequence[Path]
    ) -> dict[str, Any]:
        """Take the fields of the design out, and return the design and the folders."""
        design: Design = decode(Design, values.pop(cls.key), f"{where}.{cls.key}")
        return {"design": design, "folders": tuple(folders)}

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values of a scenario file."""
        return {
            "title": self.title,
            "summary": self.summary,
            self.key: encode(self.design, defaults=False),
        }

    def run(self, context: RunContext) -> StudyResult:
        """Train, certify, and judge the claims; an interrupted run resumes."""
        from audit.training import Processes, audited  # estimators take a while to import

        folders = [*self.folders, Path.cwd(), scenarios_folder()]
        with Processes(context.threads, folders=folders) as processes:
            found = audited(
                self.design,
                confidence=context.confidence,
                seed=context.seed,
                folder=context.folder,
                processes=processes,
                progress=context.progress.stage(f"{self.name}: trainings", "trainings"),
            )
        return found.study(
            name=self.name, title=self.title, summary=self.summary, seed=context.seed
        )

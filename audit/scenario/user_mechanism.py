"""Settings that audit what a user names: scores of a mechanism, canaries of one run, a training."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

# loaded when they are used, as a misspelt scenario must be refused at once
from audit import estimation, results, training, validate
from audit.adapters.scores import read_scores, read_table
from audit.codec import decode, encode
from audit.constructions.registry import kind_in_words
from audit.curves import Order
from audit.estimation.one_run import Canaries
from audit.estimation.score_source import Columns, ScoreSource, one_alternative
from audit.estimation.verdicts import UserClaim as UserClaim
from audit.isolation import call
from audit.numerics.arrays import Array
from audit.scenario.definition import Plain, RunContext, Setting, load, setting_kind
from audit.scenario.folders import scenarios_folder
from audit.training.design import Design

# Claims that the sequential audit tests beside the user's: a grid up to this epsilon.
_MAX_GRID_EPSILON, _GRID = 12.0, 61
_BINS = 80
_SHUFFLE = 1000  # of the generators made from the setting's seed


def check_claims(claims: Sequence[UserClaim]) -> None:
    """Raise ``ValueError`` unless there are claims, each with a name of its own."""
    names = [claim.name for claim in claims]
    if not names or not all(names) or len(set(names)) < len(names):
        raise validate.fail("claims", "one or more, each with a name of its own", names)


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
    beside: ClassVar[Mapping[str, Any]] = {"trials": int | None}

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
    def read_fields(cls, values: Plain, where: str, folders: Sequence[Path]) -> Plain:
        """Move ``trials`` to the source of the scores, which it may stand beside."""
        if "trials" in values and isinstance(values["own"], Mapping):
            values["own"] = {"trials": values.pop("trials"), **values["own"]}
        return {}

    def own_plain(self) -> Plain:
        """Return the keys and values that are those of this kind, without most defaults."""
        plain: Plain = encode(self, defaults=False) | {"deltas": encode(self.deltas)}
        del plain["name"]
        if self.columns is not None:
            plain["columns"] = encode(self.columns)
        if "trials" in plain["own"]:
            plain["trials"] = plain["own"].pop("trials")
        return plain

    def run(self, context: RunContext) -> results.UserMechanismResult:
        """Draw or read the scores, certify lower bounds, and judge the claims."""
        context.progress.stage(f"{self.name}: scores of {self.own.described}")
        return audit_scores(self, confidence=context.confidence, seed=context.seed)


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
    rows = {
        claim: results.BoundRow(
            id=claim.name,
            citation="claimed by the mechanism's author",
            status="claimed",
            value=claim.epsilon,
            ratio=claim.epsilon / one.certified if one.certified > 0 else None,
            reason=one.reason or None,
            verdict=one.verdict,
        )
        for claim, one in zip(setting.claims, judged, strict=True)
    }
    x, x_prime = judged.x, judged.x_prime
    if setting.own.function is None:  # a file's rows may be sorted, and each pair must be a draw
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SHUFFLE,)))
        x, x_prime = random.permutation(x), random.permutation(x_prime)
    pairs = [side[: min(x.size, x_prime.size)] for side in (x, x_prime)]
    assert isinstance(judged.audit, estimation.Audit)

    def at_delta(delta: float, audit: estimation.Audit = judged.audit) -> results.AtDelta:
        own = {claim: row for claim, row in rows.items() if claim.delta == delta}
        standing = {claim.name: claim.epsilon for claim, row in own.items() if row.stands}
        first, second = (
            results.Estimate(
                estimator=results.Estimator(kind_in_words(type(one.thresholds).__name__)),
                epsilon=one.per_record_epsilon_lower(delta),
                refuted_after=(),
            )
            for one in (audit, band)
        )
        sampled = results.SampledEvidence.of(audit.per_record_evidence(delta).evidence)
        limit = sampled.largest_certifiable / setting.group_size
        return results.AtDelta(
            delta=delta,
            sampled=replace(sampled, epsilon=first.epsilon, largest_certifiable=limit),
            exact=None,
            certified=results.Certified(epsilon=first.epsilon, by="samples"),
            bounds=tuple(own.values()),
            best=min(standing, key=standing.__getitem__, default=None),
            estimates=(first, second, _sequential(setting, pairs, delta, confidence)),
        )

    return results.UserMechanismResult(
        **setting._heading(seed),
        source=setting.own.described,
        trials=min(map(len, given)),
        deltas=tuple(map(at_delta, setting.all_deltas)),
        audit=judged.audit.record(),
        scores=results.ScoreHistograms.of(judged.x, judged.x_prime, _BINS),
    )


def _sequential(
    setting: UserMechanismSetting, pairs: Sequence[Array], delta: float, confidence: float
) -> results.Estimate:
    """Return what a sequential audit of pairs says of the claims at one delta, beside a grid.

    It certifies the largest epsilon that is refuted together with all smaller ones.
    """
    claims = [claim for claim in setting.claims if claim.delta == delta]
    grid = np.linspace(0.0, _MAX_GRID_EPSILON, _GRID).tolist()
    tested = {
        epsilon: estimation.group_claim(epsilon, delta, setting.group_size)
        for epsilon in sorted({*grid, *(claim.epsilon for claim in claims)})
    }
    audited = estimation.SequentialAudit([*tested.values()], confidence=confidence)
    audited.update(*pairs)
    found = dict(zip(audited.claims, audited.evidence, strict=True))
    after = {epsilon: found[claim].refuted_after for epsilon, claim in tested.items()}
    refuted = itertools.takewhile(lambda epsilon: after[epsilon] is not None, after)
    return results.Estimate(
        estimator=results.Estimator.SEQUENTIAL,
        epsilon=max((tested[epsilon][0] for epsilon in refuted), default=0.0) / setting.group_size,
        refuted_after=tuple(
            results.RefutedAfter(claim=claim.name, pairs=after[claim.epsilon]) for claim in claims
        ),
    )


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

    def run(self, context: RunContext) -> results.StudyResult:
        """Audit the run, and judge the claims."""
        from audit.training.findings import one_run_findings

        context.progress.stage(f"{self.name}: canaries of one run")
        asked = self.one_run
        judged = estimation.judge_scores(
            asked.draw(context.seed),
            asked.claims,
            confidence=context.confidence,
            seed=context.seed,
            canaries=asked.canaries,
            planned_delta=asked.delta,
        )
        return results.StudyResult(
            **self._heading(context.seed),
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
    beside: ClassVar[Mapping[str, Any]] = {"training": Design}
    hidden: ClassVar[tuple[str, ...]] = ("name", "design", "folders")

    #: Fields of `audit.training.Design`. The scenario's ``threads`` is the number of simultaneous
    #: trainings.
    design: Design
    folders: tuple[Path, ...] = ()  #: Folders where the module of the training is searched for.

    @classmethod
    def read_fields(cls, values: Plain, where: str, folders: Sequence[Path]) -> Plain:
        """Take the fields of the design out, and return the design and the folders."""
        design: Design = decode(Design, values.pop(cls.key), f"{where}.{cls.key}")
        return {"design": design, "folders": tuple(folders)}

    def own_plain(self) -> Plain:
        """Return the fields of the design that differ from their defaults, under one key."""
        return {self.key: encode(self.design, defaults=False)}

    def run(self, context: RunContext) -> results.StudyResult:
        """Train, certify, and judge the claims; an interrupted run resumes."""
        folders = [*self.folders, Path.cwd(), scenarios_folder()]
        with training.Processes(context.threads, folders=folders) as processes:
            found = training.audited(
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

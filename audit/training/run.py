"""Audit a training: run it many times, certify what its scores leak, and judge the claims."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.estimation import Canaries, Columns
from audit.isolation import UserCodeError
from audit.progress import Progress, on_terminal
from audit.results import (
    Findings,
    Provenance,
    Result,
    ScenarioHeading,
    StudyResult,
    UserClaim,
    Verdict,
    to_json,
)
from audit.results.provenance import current_environment, package_version
from audit.simulation.sealed_files import write_whole
from audit.training import one_canary
from audit.training.design import (
    Argument,
    Design,
    Scored,
    analysis_seed,
    claims_of,
    reference_to,
)
from audit.training.engine import Processes, opened
from audit.training.findings import of_one_canary
from audit.training.many_canaries import one_run_findings

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainingAudit:
    """Trainings that ran, their scores, and what they certify.

    Attributes
    ----------
    design
        What was chosen beforehand.
    trainings
        How many ran and count.
    scores, scores_prime
        One canary: one number a training, with the canary and without it. Many canaries: the
        scores of those that were in, and of those that were out.
    findings
        The verdicts, tables and charts of the report.
    started, wall_seconds, processes
        When this start of the audit began, how long it took, and on how many processes.
    """

    design: Design
    trainings: int
    scores: Array
    scores_prime: Array
    findings: Findings
    started: str
    wall_seconds: float
    processes: int

    def epsilon_lower(self, delta: float) -> float:
        """Return the certified lower bound on epsilon at a delta of the claims.

        With probability at least the confidence the true values are above the bounds at all
        deltas of the claims.
        """
        for claim, statement in zip(self.design.claims, self.findings.statements, strict=True):
            if claim.delta == delta:
                return float(statement.found)
        raise validate.fail("delta", "that of a claim", delta)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict on each claim, in the order of the claims."""
        return tuple(statement.verdict for statement in self.findings.statements)

    @property
    def verdict(self) -> Verdict:
        """The worst of the verdicts."""
        worst = Verdict.REFUTED, Verdict.INCONCLUSIVE
        return next((one for one in worst if one in self.verdicts), Verdict.CONSISTENT)

    def study(self, *, name: str, title: str, summary: str, seed: int) -> StudyResult:
        """Return the audit as a setting of a result."""
        design = self.design
        return StudyResult(
            name=name,
            title=title,
            summary=summary,
            seed=seed,
            wall_seconds=round(self.wall_seconds, 3),
            function=design.train,
            parameters={
                **{f"arguments.{key}": value for key, value in design.arguments.items()},
                "canaries": design.canaries,
                "trainings": self.trainings,
                "trials": design.trials,
                "minutes": design.minutes,
                "early_stop": design.early_stop,
            },
            findings=self.findings,
        )


def audited(
    design: Design,
    *,
    confidence: float,
    seed: int,
    folder: Path | None = None,
    processes: Processes | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> TrainingAudit:
    """Run the trainings of a design, and judge its claims; `run` does it for a function.

    Parameters
    ----------
    design
        What is trained and claimed.
    confidence, seed, folder
        As for `run`.
    processes
        Where trainings run; a single process by default.
    progress
        Called with the trainings that are done, and all.
    """
    validate.open_unit(confidence=confidence)
    validate.integer(0, seed=seed)
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    with ExitStack() as stack:
        processes = processes or stack.enter_context(Processes())
        trials = stack.enter_context(
            opened(
                design,
                confidence=confidence,
                seed=seed,
                folder=folder,
                processes=processes,
                progress=progress,
            )
        )
        judge = _one_canary if design.canaries == 1 else _many_canaries
        trainings, scores, scores_prime, findings = judge(design, trials, confidence, seed)
    seconds = time.perf_counter() - clock
    return TrainingAudit(
        design, trainings, scores, scores_prime, findings, started, seconds, processes.number
    )


_Judgement = tuple[int, Array, Array, Findings]


def _one_canary(
    design: Design, trials: Iterable[Scored], confidence: float, seed: int
) -> _Judgement:
    judged = one_canary.judge(design, trials, confidence=confidence, seed=seed)
    findings = of_one_canary(design, judged, confidence)
    return judged.trainings, judged.scores, judged.scores_prime, findings


def _many_canaries(
    design: Design, trials: Iterable[Scored], confidence: float, seed: int
) -> _Judgement:
    """Judge several trainings as one run of all their canaries, which they are together."""
    ran = list(trials)
    scores = np.concatenate([np.array(scores) for _, scores in ran])
    coins = np.concatenate([np.array(trial.included) for trial, _ in ran])
    findings = one_run_findings(
        scores,
        coins.astype(np.float64),
        design.claims,
        canaries=design.assume,
        delta=None,
        confidence=confidence,
        seed=analysis_seed(seed),
    )
    numbers = {
        **findings.numbers,
        "scores": tuple(scores[coins].tolist()),
        "scores_prime": tuple(scores[~coins].tolist()),
    }
    return len(ran), scores[coins], scores[~coins], replace(findings, numbers=numbers)


def run(
    train: Callable[..., Any] | str,
    *,
    claims: Sequence[UserClaim | tuple[float, float]],
    confidence: float,
    seed: int,
    trials: int | None = None,
    minutes: float | None = None,
    early_stop: bool = False,
    canaries: int = 1,
    assume: Canaries = Canaries.ARBITRARY,
    columns: Columns | None = None,
    arguments: Mapping[str, Argument] | None = None,
    processes: int | Processes = 1,
    seconds: float = 3600.0,
    gigabytes: float = 16.0,
    folder: Path | str | None = None,
    progress: Progress | None = None,
) -> TrainingAudit:
    """Train many times with a canary and without it, and certify how much the scores leak.

    Parameters
    ----------
    train
        A function of a module, or its name ``"module:function"``: worker processes import it. With
        one canary it is called as ``train(canary, seed)`` and returns the score of one training:
        a number, an array of them, or an iterator of such by step (``canary`` is a bool, and says
        whether the canary is among the records). With more it is called as
        ``train(included, seed)``, ``included`` a boolean array of shape (canaries,), and returns
        an array of one score a canary, or an iterator of such by step, which are added up.
        All randomness comes from ``seed``, a whole number in [0, 2^32); the global generators of
        ``random``, NumPy and PyTorch are seeded with it before each call. A generator that the
        module itself makes when it is imported is not: trainings would repeat each other in
        several processes. A high score speaks for the canary: minus its loss, how far the last
        iterate went its way, or `gradient_score` at each step.
    claims
        Pairs (epsilon, delta), or `audit.results.UserClaim` with names: what is claimed of one
        canary in or out.
    confidence
        In (0, 1): the probability with which all that is certified is right.
    seed
        Seeds and coins of all trials are spawned from it, and known before anything runs.
    trials
        Trainings in all; with one canary half of them have it.
    minutes
        After so long no further training starts; those that run are waited for. It counts all
        starts of the same audit. At least one of trials and minutes is needed.
    early_stop
        End once all claims are refuted. With ``early_stop`` or ``minutes`` e-processes certify,
        which may be looked at after every pair of trainings and need more of them for the same
        bound; else `audit.estimation.audit_samples` does.
    canaries, assume
        How many canaries each training has, and what is assumed of how they depend on each other.
        With many, one trial may do; several are one run of more canaries.
    columns
        How several scores of a training become one; their sum by default.
    arguments
        Further keyword arguments of ``train``, plain values.
    processes
        Trainings at a time, each in a process of its own that is used again; or `Processes`, which
        several audits share, and which say how many threads numerical libraries have (otherwise
        one: sums depend on it in their last bits).
    seconds, gigabytes
        The limits of one training.
    folder
        Where finished trials are kept. The same call goes on from them, after a kill too, and ends
        with the same bits; an anytime-valid audit may be given more trials or minutes. The result
        is written there as ``result.json``, from which ``audit-report`` draws a report.
    progress
        Where progress is shown; on the terminal by default.

    Returns
    -------
    TrainingAudit
        Its bounds hold together with probability at least ``confidence``, if ``train`` uses
        nothing but its seed and each score comes from one training.

    Raises
    ------
    ValueError
        If an argument is out of its range, the folder belongs to another audit, or a training
        fails (`audit.isolation.UserCodeError`, which names the trial and its seed): leaving out
        the trials that fail would choose among them. Finished trials stay in the folder.

    Examples
    --------
    ::

        found = audit.training.run("my_training:train", claims=[(2.0, 1e-5)], trials=400,
                                   confidence=0.95, seed=1, processes=8, folder="runs/mine")
        found.verdict, found.epsilon_lower(1e-5)
    """
    design = Design(
        train=reference_to(train),
        claims=claims_of(claims),
        trials=trials,
        minutes=minutes,
        early_stop=early_stop,
        canaries=canaries,
        assume=assume,
        columns=columns,
        arguments=dict(arguments or {}),
        seconds=seconds,
        gigabytes=gigabytes,
    )
    place = None if folder is None else Path(folder)
    with ExitStack() as stack:
        if not isinstance(processes, Processes):
            processes = stack.enter_context(Processes(processes, folders=[Path.cwd()]))
        shown = progress or stack.enter_context(on_terminal())
        try:
            found = audited(
                design,
                confidence=confidence,
                seed=seed,
                folder=place,
                processes=processes,
                progress=shown.stage(_stage(design, confidence), "trainings"),
            )
        except (UserCodeError, KeyboardInterrupt) as error:
            if place is not None and place.is_dir():
                error.add_note(
                    f"finished trainings are kept in {place}, and the same call goes on from them"
                )
            raise
    if place is not None:
        name = design.train.partition(":")[2]
        title = f"Audit of {design.train}"
        result = joined({name: found}, name=name, title=title, confidence=confidence, seed=seed)
        write_whole(place / "result.json", to_json(result).encode())
    return found


def _stage(design: Design, confidence: float) -> str:
    """Return what runs, and what it could certify at most, where that is known beforehand."""
    if design.canaries > 1 or design.anytime or design.trials is None:
        return design.train
    sides = one_canary.told_apart(design.trials // 2, design.trials // 2)
    best = one_canary.audit_fixed(*sides, design.deltas, confidence, 0)
    delta = design.deltas[0]
    most = f"epsilon {best.epsilon_lower(delta):.3g} at delta {delta:g}"
    return f"{design.train} (can certify {most} at most)"


def joined(
    audits: Mapping[str, TrainingAudit],
    *,
    name: str,
    title: str,
    confidence: float,
    seed: int,
    summary: str = "",
    summaries: Mapping[str, str] | None = None,
) -> Result:
    """Return one result of several audits, such as a right training and broken ones.

    Parameters
    ----------
    audits
        By their titles, in order; each has the confidence for itself.
    name, title, summary
        A short name for files, and words for people.
    confidence, seed
        Those of the audits.
    summaries
        Words on single audits, by their titles.

    Returns
    -------
    Result
        What `audit.report.write` draws, and `audit.results.to_json` stores.
    """
    settings = tuple(
        found.study(
            name="_".join(one.lower().split()),
            title=one,
            summary=(summaries or {}).get(one, ""),
            seed=seed,
        )
        for one, found in audits.items()
    )
    seconds = sum(found.wall_seconds for found in audits.values())
    started = min(found.started for found in audits.values())
    return Result(
        scenario=ScenarioHeading(name=name, title=title, summary=summary, reference=""),
        provenance=Provenance(
            version=package_version(),
            seed=seed,
            command="audit.training.run",
            environment=current_environment(
                started=started,
                wall_seconds=round(seconds, 3),
                threads=max(found.processes for found in audits.values()),
            ),
        ),
        confidence=confidence,
        settings=settings,
    )

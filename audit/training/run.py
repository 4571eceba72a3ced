"""Run a training many times, certify how much its scores leak, and judge the claims."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audit import validate
from audit.codec.atomic import write_atomic
from audit.curves import Order
from audit.estimation import Canaries, Columns, judge_scores
from audit.estimation.judge import separated
from audit.estimation.verdicts import user_claim
from audit.isolation import UserCodeError
from audit.numerics.arrays import Array
from audit.numerics.display import ShortRepr
from audit.numerics.number_format import Rounding, short
from audit.progress import StageProgress, on_terminal
from audit.results import (
    Findings,
    Result,
    ScenarioHeading,
    StudyResult,
    UserClaim,
    Verdict,
    to_json,
)
from audit.results.result import provenance_of
from audit.training.design import Argument, Design, reference_to
from audit.training.engine import Processes, opened
from audit.training.findings import caveats, judge, repeated, training_findings


@dataclass(frozen=True, eq=False)
class TrainingAudit(ShortRepr):
    """The scores of completed trainings and the bounds that they certify."""

    design: Design  #: The design of the audit.
    trainings: int  #: Number of trainings that ran and were used.
    #: With one canary: one score per training with the canary. With several: the scores of the
    #: included ones.
    scores: Array
    scores_prime: Array  #: Those without the canary, or of the excluded ones.
    findings: Findings  #: The verdicts, tables and charts of the report.
    started: str  #: Start of this run of the audit, ISO 8601 in UTC.
    wall_seconds: float  #: Duration of this run of the audit, in seconds.
    processes: int  #: Number of processes.

    def __str__(self) -> str:
        """Return a line for each claim, and doubts about the scores or about a verdict."""
        lines = []
        for one in self.findings.statements:
            claimed = f"{float(one.expected):g}"
            certified = short(float(one.found), 6, Rounding.DOWN)
            if one.verdict is Verdict.REFUTED and float(certified) <= float(claimed):
                certified = f"more than {claimed}"
            lines.append(
                f"{one.verdict.value}: {one.claim}: certified {certified}, claimed {claimed}, "
                f"{self.trainings} trainings"
            )
        if self.verdict is Verdict.INCONCLUSIVE:
            lines += self.findings.notes
        else:
            doubts = caveats if self.design.canaries == 1 else repeated
            lines += doubts(self.scores, self.scores_prime)
        return "\n".join(lines)

    def epsilon_lower(self, delta: float) -> float:
        """Return the certified lower bound on epsilon at a delta of the claims.

        Parameters
        ----------
        delta : float
            A delta of one of the claims.

        Returns
        -------
        float
            The bound; those at all deltas hold simultaneously.

        Raises
        ------
        ValueError
            If ``delta`` is not that of a claim.
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
        """Convert the audit to a setting of a stored result.

        Parameters
        ----------
        name, title, summary : str
            Short name of the setting, used in file names; title and description for readers.
        seed : int
            Seed of the audit.

        Returns
        -------
        StudyResult
            The setting.
        """
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
    """Run the trainings of a design and judge its claims; see `run`."""
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
        judged = judge(design, trials, confidence=confidence, seed=seed)
    return TrainingAudit(
        design=design,
        trainings=judged.trainings,
        scores=judged.scores.x,
        scores_prime=judged.scores.x_prime,
        findings=training_findings(design, judged, confidence),
        started=started,
        wall_seconds=time.perf_counter() - clock,
        processes=processes.number,
    )


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
    progress: StageProgress | None = None,
) -> TrainingAudit:
    """Train many times with and without a canary, and certify how much the scores leak.

    Parameters
    ----------
    train : callable or str
        A function of a module, or its name ``"module:function"``, which worker processes import.
        With one canary it is called as ``train(canary, seed)``, where the bool ``canary`` says
        whether to include the canary, and returns the score of one training: a number, an array of
        scores, or an iterator over the scores of each step. With several canaries it is called as
        ``train(included, seed)`` with a boolean array of shape (canaries,), and returns an array of
        that shape, or an iterator over such arrays, one per step, which are added up.

        All randomness must come from ``seed``, an integer in [0, 2^32). The global generators of
        ``random``, NumPy and PyTorch are seeded with it before each call; a generator that the
        module creates on import is not. A high score must indicate the canary: for example minus
        its loss, `iterate_score`, or the sum of `gradient_score` over the steps.
    claims : sequence of UserClaim or (float, float)
        The claims about adding or removing one canary; pairs are (epsilon, delta).
    confidence : float
        Confidence level of all bounds together, in (0, 1).
    seed : int
        Seed of the audit, and of the seeds and coins of all trials.
    trials : int, optional
        Number of trainings; with one canary half of them include it.
    minutes : float, optional
        Time, in minutes, after which no further training starts; running trainings finish. All
        starts of the same audit count. At least one of ``trials`` and ``minutes`` is needed.
    early_stop : bool, optional
        Whether to stop once all claims are refuted. With ``early_stop`` or ``minutes`` the bounds
        come from e-processes, which need more trainings for the same bound, and otherwise from
        `audit.estimation.audit_samples`.
    canaries : int, optional
        Number of canaries of each training. With many canaries one trial can be enough; several
        trials count as one run with more canaries.
    assume : Canaries, optional
        The assumption about the dependence between several canaries; by default none.
    columns : Columns, optional
        How several scores of one training are combined; by default by their sum.
    arguments : mapping of str to bool, int, float or str, optional
        Further keyword arguments of ``train``.
    processes : int or Processes, optional
        Number of simultaneous trainings, each in a process that is reused; or a `Processes` object,
        which several audits can share and which sets the number of threads of numerical libraries
        (one by default, because sums depend on it in their last bits).
    seconds, gigabytes : float, optional
        Limits on the time (s) and the memory (1e9 bytes) of one training.
    folder : pathlib.Path or str, optional
        Where finished trials are stored. The same call resumes from them, also after a kill, and
        gives the same bits; an anytime-valid audit may be given more trials or minutes. The result
        is written there as ``result.json``, from which ``audit-report`` makes a report.
    progress : Progress, optional
        Where progress is displayed; by default on the terminal.

    Returns
    -------
    TrainingAudit
        The scores, bounds and verdicts. The bounds hold simultaneously with probability at least
        ``confidence``, provided that ``train`` draws all randomness from its seed.

    Raises
    ------
    ValueError
        If an argument is out of its range, the folder belongs to another audit, or a training fails
        (`audit.isolation.UserCodeError`). A failure ends the audit, because leaving out failed
        trials would select among them. Finished trials stay in the folder.

    Examples
    --------
    ::

        found = audit.training.run("my_training:train", claims=[(2.0, 1e-5)], trials=400,
                                   confidence=0.95, seed=1, processes=8, folder="runs/mine")
        found.verdict, found.epsilon_lower(1e-5)
    """
    validate.instance(Sequence, claims=claims)
    validate.instance(Canaries, assume=assume)
    validate.instance(Mapping, arguments=arguments or {})
    if folder is not None and not isinstance(folder, Path | str):
        raise validate.fail("folder", "a path", folder)
    design = Design(
        train=reference_to(train),
        claims=tuple(user_claim(one, f"claims[{i}]") for i, one in enumerate(claims)),
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
                    f"finished trainings are stored in {place}; the same call resumes from them"
                )
            raise
    if place is not None:
        name = design.train.partition(":")[2]
        title = f"Audit of {design.train}"
        result = joined({name: found}, name=name, title=title, confidence=confidence, seed=seed)
        write_atomic(place / "result.json", to_json(result).encode())
    return found


def _stage(design: Design, confidence: float) -> str:
    """Return the name of the training and, if known in advance, the largest certifiable bound."""
    if design.canaries > 1 or design.anytime or design.trials is None:
        return design.train
    sides = separated(design.trials // 2, design.trials // 2)
    best = judge_scores(sides, design.claims, confidence=confidence, favours=Order.FORWARD)
    delta = design.deltas[0]
    most = max(one.certified for one in best if one.claim.quantity.at == delta)
    return f"{design.train} (can certify at most epsilon {most:.3g} at delta {delta:g})"


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
    """Combine several audits into one result, such as a correct training and broken variants.

    Parameters
    ----------
    audits : mapping of str to TrainingAudit
        The audits by title, in order; the confidence level holds for each separately.
    name, title : str
        Short name of the result, used in file names, and title for readers.
    confidence, seed : float, int
        Confidence level and seed of the audits.
    summary : str, optional
        Description for readers.
    summaries : mapping of str to str, optional
        Descriptions of single audits by title.

    Returns
    -------
    Result
        The result, which `audit.report.write` renders and `audit.results.to_json` stores.

    Examples
    --------
    ::

        audits = {"Correct": correct, "Without noise": broken}
        result = joined(audits, name="mine", title="My training", confidence=0.95, seed=1)
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
        provenance=provenance_of(
            seed=seed,
            command="audit.training.run",
            started=started,
            wall_seconds=seconds,
            threads=max(found.processes for found in audits.values()),
        ),
        confidence=confidence,
        settings=settings,
    )

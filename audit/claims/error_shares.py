"""Work on several claims: their order, their threads, and the error that samples share.

The error is held over all claims by Holm's procedure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

from audit import validate
from audit.claims.claim import Claim
from audit.claims.judgement import Evidence, Judgement
from audit.mechanism import Composition, NoisySGD
from audit.results import Verdict

_Task = TypeVar("_Task")
_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True)
class ErrorShare:
    """The part of an error budget that samples may spend on one claim."""

    spent: float  #: The error.
    #: The error for which tests are planned. While it stays the same, tests at several errors are
    #: the same tests, and one that errs at some error also errs at every larger one.
    planned: float


def may_be_sampled(claim: Claim) -> bool:
    """Return whether samples may refute the claim; this is known before any are drawn."""
    return claim.budget.trials > 0 or claim.samples is not None


def equal_share(claims: Iterable[Claim], error: float) -> ErrorShare:
    """Return the part of an error budget that each claim may spend, before any is refuted.

    A union bound over the claims that may be sampled (Bonferroni). Their number follows from the
    claims, so nothing depends on the samples. Claims without trials cannot spend their part.
    """
    validate.open_unit(error=error)
    each = error / max(sum(map(may_be_sampled, claims)), 1)
    return ErrorShare(each, each)


def step_down(
    judgements: Sequence[Judgement],
    error: float,
    again: Callable[[Sequence[int], float], Sequence[Judgement]],
) -> tuple[Judgement, ...]:
    """Judge the claims that an equal split did not refute at the larger shares that are left.

    Holm (1979): while m claims may be sampled and k of them are refuted, each of the others may
    spend error / (m - k). The first true claim to be refuted is refuted at most at error / t, where
    t is the number of true claims, as every claim before it is false; its test errs at error / t
    then, and the union of t such events has at most the probability ``error``. Exact evidence
    refutes without an error. Claims that stay unrefuted keep their first judgement: the bounds at
    an equal split hold simultaneously. ``again`` judges the claims of some numbers at a larger
    error, planned as before.
    """
    from audit.estimation import holm  # imports Numba

    judged = list(judgements)
    family = [k for k, one in enumerate(judged) if may_be_sampled(one.claim)]
    levels = {k: _level(judged[k]) for k in family}
    spent = {k: judged[k].error for k in family}
    # else no share is left over, or none is needed
    while 0 < sum(level < 1 for level in levels.values()) < len(family):
        refuted = holm(list(levels.values()), error=error)
        left = [k for k, known in zip(family, refuted.tolist(), strict=True) if not known]
        larger = error / max(len(left), 1)
        sampled = [k for k in left if 0 < spent[k] < larger]
        if not sampled:
            break
        for k, one in zip(sampled, again(sampled, larger), strict=True):
            levels[k], spent[k] = _level(one), larger
            if levels[k] < 1:
                judged[k] = replace(one, seconds=judged[k].seconds + one.seconds)
    return tuple(judged)


def _level(judgement: Judgement) -> float:
    """Return the error of the evidence that contradicts a claim; 1 if none does."""
    contradicted = Verdict.REFUTED
    if judgement.claim.statement.exceeded:
        contradicted = Verdict.CONSISTENT
    if judgement.verdict is not contradicted or judgement.evidence is None:
        return 1.0
    return judgement.error if judgement.evidence is Evidence.SAMPLED else 0.0


def work_order(claims: Sequence[Claim]) -> list[int]:
    """Return the indices of claims in the order of work, in which neighbours share the most.

    Claims of one quantity on one mechanism are adjacent, sorted by their deltas, orders or alphas.
    """
    groups: dict[tuple[NoisySGD | Composition | None, type | None], list[tuple[float, int]]] = {}
    for number, claim in enumerate(claims):
        first = next(iter(claim.statement.quantities), None)
        place = 0.0 if first is None or first.at is None else first.at
        groups.setdefault((claim.mechanism, type(first)), []).append((place, number))
    return [number for group in groups.values() for _, number in sorted(group)]


def in_threads(
    function: Callable[[_Task], _Outcome], tasks: Sequence[_Task], jobs: int
) -> tuple[_Outcome, ...]:
    """Return the results of a function for each task, in the order of the tasks.

    The threads do not keep the process alive: an interrupt is raised here at once, whatever they
    are doing. Nothing here is a pipe, into which user code might write.
    """
    futures: list[Future[_Outcome]] = [Future() for _ in tasks]
    waiting = iter(list(zip(tasks, futures, strict=True)))
    stopped = threading.Event()

    def work() -> None:
        for task, future in waiting:
            if stopped.is_set():
                return
            try:
                future.set_result(function(task))
            except BaseException as error:
                future.set_exception(error)

    for _ in range(min(jobs, len(tasks))):
        threading.Thread(target=work, daemon=True).start()
    try:
        return tuple(future.result() for future in futures)
    finally:
        stopped.set()

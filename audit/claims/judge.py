"""The judge: tries to refute a claim, with every error taken against the refutation.

Every number of a claim is compared with certified lower bounds (`audit.claims.evidence`). One that
exceeds it refutes it, with a witness; a theorem that proves less contradicts both, and is an error.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from audit import validate
from audit.claims.candidates import KnownPair, KnownPairs, candidates_for
from audit.claims.claim import Claim, Numbers, UserPair, apart
from audit.claims.evidence import Collected, ErrorShare, LowerBound, Recorded, collect, witness_of
from audit.claims.judgement import Evidence, Judgement
from audit.claims.sources import InvalidClaim, NothingClaimed, claimed_numbers, workers_for
from audit.codec import decode, encode
from audit.constructions import Construction, all_kinds, decode_any_pair
from audit.constructions.explicit_laws import AllIterates
from audit.curves import Order
from audit.curves.brackets import BracketError
from audit.curves.quantities import Quantity
from audit.isolation import Limits, UserCodeError
from audit.mechanism import Composition, NoisySGD
from audit.numerics.number_format import Rounding, short
from audit.results import Verdict
from audit.search import tightest_bound
from audit.validate import shown

_Task = TypeVar("_Task")
_Outcome = TypeVar("_Outcome")

Plain = Mapping[str, Any]

_SEARCH_S = 60.0  # limit on the search of a worker, in seconds


class Shared(contextlib.AbstractContextManager["Shared"]):
    """Resources shared by claims that are judged together: exact laws, and workers for user code.

    Modules of users are searched for beside the claims ``files``. If ``exhaustive``, all pairs are
    tried even after one has refuted a claim.
    """

    def __init__(self, files: Iterable[Path] = (), *, exhaustive: bool = False) -> None:
        self.pairs = KnownPairs()
        self.workers = workers_for(files)
        self.exhaustive = exhaustive

    def __exit__(self, *exception: object) -> None:
        self.workers.close()


def judge(claim: Claim, *, error: float = 0.05, shared: Shared | None = None) -> Judgement:
    """Judge one claim, like `judge_all`."""
    (judgement,) = judge_all([claim], error=error, shared=shared)
    return judgement


def judge_all(
    claims: Sequence[Claim],
    *,
    error: float = 0.05,
    jobs: int = 1,
    progress: Callable[[Judgement], None] | None = None,
    shared: Shared | None = None,
) -> tuple[Judgement, ...]:
    """Judge several claims that share one error budget, in the order of the claims.

    Whatever goes wrong with a claim is a verdict, and nothing is raised. Pairs of neighbouring
    datasets that fit the mechanism are tried, the exact law of each first. If the law would take
    longer than the budget's seconds and the budget has trials, samples are drawn. The number of a
    claim that is closest to being refuted is reported.

    ``REFUTED`` only if a certified lower bound exceeds a claimed number. ``CONSISTENT`` if pairs
    were tried and none refutes. ``INCONCLUSIVE`` if no pair could be tried, if samples are all that
    there is and could not have refuted, or, for a claim that a mechanism is not private, if neither
    side is proven. ``NOT_APPLICABLE`` if nothing is claimed about this mechanism. ``ERROR`` if the
    claim cannot be evaluated, or a computed number contradicts itself or a theorem.

    With probability at least 1 - ``error`` no true claim among them is refuted: the claims that may
    draw samples share the error equally (`equal_share`), and the shares of refuted claims go to the
    others (`step_down`), whose samples are drawn again from the same seeds. Exact evidence spends
    nothing. ``progress`` is called with the first judgement of each claim when it is made, possibly
    from another thread.
    """
    validate.integer(1, jobs=jobs)
    share = equal_share(claims, error)
    if shared is None:
        files = dict.fromkeys(c.location.file for c in claims if c.location is not None)
        with Shared(files) as own:
            return judge_all(claims, error=error, jobs=jobs, progress=progress, shared=own)

    def one(number: int) -> Judgement:
        judgement = _judge(claims[number], share, shared)
        if progress is not None:
            progress(judgement)
        return judgement

    def again(numbers: Sequence[int], larger: float) -> Sequence[Judgement]:
        more = ErrorShare(larger, share.planned)
        return in_threads(lambda number: _judge(claims[number], more, shared), numbers, jobs)

    shared.pairs.expect(claims)
    order = work_order(claims)
    judged = dict(zip(order, in_threads(one, order, jobs), strict=True))
    return step_down([judged[number] for number in range(len(claims))], error, again)


def judge_numbers(claim: Claim, *, batches: range | None, shared: Shared) -> Judgement:
    """Judge finite numbers that are claimed of the mechanism of a claim, like `judge`.

    ``batches`` may hold the differing record; None for any. Errors of the evidence are raised.
    """
    assert isinstance(claim.statement, Numbers)
    assert claim.mechanism is not None
    assert not isinstance(claim.pair, UserPair)
    found = Collected(claim=claim, numbers=claim.statement.numbers, share=ErrorShare(0.5, 0.5))
    candidates = shared.pairs.of(claim.pair or claim.mechanism, batches)
    collect(found, candidates, exhaustive=shared.exhaustive)
    return _judgement(found)


def _judge(claim: Claim, error: ErrorShare, shared: Shared) -> Judgement:
    """Return the judgement of a claim, whatever goes wrong: it must not stop the others."""
    began = time.perf_counter()
    try:
        if isinstance(claim.pair, UserPair):
            judgement = _in_worker(claim, claim.pair, error, shared)
        else:
            numbers = claimed_numbers(claim, shared.workers)
            found = Collected(claim=claim, numbers=numbers, share=error)
            if claim.samples is not None:
                found.add_recorded(claim.samples)
            else:
                candidates = candidates_for(claim, shared.pairs)
                collect(found, candidates, exhaustive=shared.exhaustive)
            judgement = _judgement(found)
    except NothingClaimed as reason:
        judgement = Judgement(claim=claim, verdict=Verdict.NOT_APPLICABLE, message=str(reason))
    except (InvalidClaim, UserCodeError, BracketError) as reason:
        judgement = Judgement(claim=claim, verdict=Verdict.ERROR, message=str(reason))
    except Exception as reason:
        text = " ".join(f"{type(reason).__name__}: {reason}".split())
        judgement = Judgement(claim=claim, verdict=Verdict.ERROR, message=text)
    return replace(judgement, seconds=time.perf_counter() - began)


def _in_worker(claim: Claim, pair: UserPair, error: ErrorShare, shared: Shared) -> Judgement:
    """Judge a claim on a pair of a user-defined class, in a process that imports the class.

    A pair is evaluated thousands of times, so the whole claim is judged there, as plain data. It
    may take the budget's ``callable_seconds`` in addition to its ``seconds``.
    """
    budget = claim.budget
    seconds = budget.callable_seconds + 3 * budget.seconds + _SEARCH_S * (claim.search is not None)
    with shared.workers.function(
        pair.kind,
        task=f"{__name__}:judged_by_worker",
        limits=Limits(seconds=seconds, gigabytes=budget.callable_gigabytes),
        name="pair.kind",
    ) as judged:
        plain = encode(replace(claim, pair=None, location=None))
        answer = judged(pair.kind, pair.fields, plain, encode(error), shared.exhaustive)
    found: Judgement = decode(Judgement, answer, given={"claim": claim})
    return found


def judged_by_worker(
    cls: Any, reference: str, fields: Plain, plain: Plain, error: Plain, exhaustive: bool
) -> dict[str, Any]:
    """Judge a claim on a pair of a user's class, in its worker; plain data comes and goes."""
    if cls not in all_kinds().values():
        wrong = f"pair.kind must name a registered construction, got {shown(reference)}"
        raise UserCodeError(wrong)
    claim = decode(Claim, plain)
    assert not isinstance(claim.mechanism, Composition)  # claims files refuse it beside a pair
    try:
        pair = decode_any_pair({**fields, "kind": cls.__name__}, claim.mechanism)
    except ValueError as reason:  # the fields are invalid
        raise UserCodeError(" ".join(str(reason).split())) from None
    share, shared = decode(ErrorShare, error), _of_worker(exhaustive=exhaustive)
    found = _judge(replace(claim, pair=pair), share, shared)
    if found.verdict is Verdict.ERROR:
        raise UserCodeError(found.message)
    return {name: encode(value) for name, value in vars(found).items() if name != "claim"}


_of_worker = functools.cache(Shared)  # resources shared by the claims of a worker


def _judgement(found: Collected) -> Judgement:
    """Return the verdict on a claim, of what was collected; a fault is raised unless it refutes."""
    if found.fault is not None and not found.refuted:
        raise found.fault
    numbers = tuple(found.numbers)
    judgement = Judgement(
        claim=found.claim,
        verdict=Verdict.INCONCLUSIVE,
        claimed=numbers[0].value,
        quantity=numbers[0].quantity,
        numbers=numbers,
        pairs_left=found.left,
    )
    if not found.bounds:
        reason = "; ".join(dict.fromkeys(found.reasons))
        nothing = "no pair of neighbouring datasets is available for this mechanism"
        return replace(judgement, message=reason or nothing)
    closest = found.closest
    verdict, message = _verdict(found)
    witness = None
    if verdict is Verdict.REFUTED and closest.refutes:
        try:
            witness = witness_of(found.claim, closest)
        except ValueError as error:
            message += f" (no witness: {error})"
    return replace(
        judgement,
        verdict=verdict,
        claimed=closest.number.value,
        certified=closest.low,
        quantity=closest.number.quantity,
        order=closest.order,
        pair=closest.known.name,
        pairs_tried=found.tried,
        evidence=closest.evidence,
        error=found.spent,
        witness=witness,
        message=message,
    )


def _verdict(found: Collected) -> tuple[Verdict, str]:
    """Return the verdict of the closest bound, and why."""
    closest, exceeded = found.closest, found.claim.statement.exceeded
    quantity, known = closest.number.quantity, closest.known
    # with the digits that tell them apart
    texts = apart(closest.low, closest.number.value, 6)
    low, claimed = (short(float(text), len(text), Rounding.NEAREST) for text in texts)
    numbers = f"certified {quantity.name} {low}{quantity.at_where}, claimed {claimed}"
    if isinstance(known, Recorded):
        verb = "exceed" if closest.refutes else "do not exceed"
        says = (
            f"the samples {verb} it at confidence {short(1 - found.spent, 6, Rounding.DOWN)}: "
            f"{quantity.name}{known.of} at least {low}{quantity.at_where}, claimed {claimed}"
            f"{known.how}; {known.digests}"
        )
    elif closest.refutes:
        says = f"a pair exceeds it: {numbers}" if exceeded else numbers
    else:
        within = f" within {found.claim.budget.seconds:g} s" if found.left else ""
        left = f" ({found.left} more were left)" if found.left else ""
        verb = "exceed" if exceeded else "refute"
        says = f"none of the {found.tried} pairs tried{within} {verb}s it{left}: {numbers}"
        if found.tried == 1:
            says = f"the pair tried{within} does not {verb} it{left}: {numbers}"
    if closest.refutes:
        if contradiction := _contradiction(closest):
            return Verdict.ERROR, contradiction
        return Verdict.CONSISTENT if exceeded else Verdict.REFUTED, says
    proven = "" if isinstance(known, Recorded) else _proven(found, known, numbers)
    if proven:
        return Verdict.REFUTED if exceeded else Verdict.CONSISTENT, proven
    reason = closest.inconclusive if exceeded else found.inconclusive
    verdict = Verdict.INCONCLUSIVE if exceeded or reason else Verdict.CONSISTENT
    return verdict, f"{reason}; {says}" if reason else says


def _proven(found: Collected, known: KnownPair, numbers: str) -> str:
    """Return why the number of the closest bound is at most the claimed one; empty if unknown."""
    claim, number = found.claim, found.closest.number
    quantity = number.quantity
    if not claim.statement.exceeded:
        if not isinstance(known.pair, AllIterates):
            return ""
        # the pair dominates all others, so that its upper end is a proof
        own = [one for one in found.bounds if one.number is number and one.known is known]
        high = max(one.high for one in own)  # the worse of both orders
        if high > number.value:
            return ""
        return f"the dominating pair has at most {short(high, 6, Rounding.UP)}: {numbers}"
    if claim.mechanism is None:
        law = known.law()  # the laws are all that the claim is about
        high = max(quantity.bracket(law, order)[1] for order in Order)
        if high < number.value - number.slack:
            most = short(high, 6, Rounding.UP)
            return f"the laws have {quantity.name} at most {most}{quantity.at_where}"
    id, least = _least_upper_bound(claim.mechanism, quantity, slow=True)
    if least >= number.value:
        return ""
    return f"{id} proves: {quantity.name} at most {short(least, 6, Rounding.UP)}{quantity.at_where}"


def _contradiction(bound: LowerBound) -> str:
    """Return why a certified number cannot be right, as a theorem proves less; empty if it may.

    Theorems that take seconds are left out.
    """
    pair, quantity = bound.known.pair, bound.number.quantity
    if bound.evidence is not Evidence.EXACT or not isinstance(pair, Construction | AllIterates):
        return ""
    id, least = _least_upper_bound(pair.mechanism, quantity, slow=False)
    if bound.low <= least:
        return ""
    low, proven = apart(bound.low, least, 6)
    return (
        f"certified {quantity.name} {low}{quantity.at_where} of {bound.known.name} in "
        f"{bound.order.value} order exceeds {proven}, which {id} proves: one of the two is wrong"
    )


def _least_upper_bound(
    mechanism: NoisySGD | Composition | None, quantity: Quantity, *, slow: bool
) -> tuple[str, float]:
    """Return the id and the value of the tightest sound bound, with what it may err by."""
    if not isinstance(mechanism, NoisySGD):
        return "", math.inf
    id, value = tightest_bound(mechanism, quantity, slow=slow)
    return id, value * (1 + 1e-9)


# ---- several claims: their order, their threads, and the error that samples share


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

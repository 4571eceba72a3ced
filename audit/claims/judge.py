"""Judge claims within one error budget, and verify their refutations.

The verifier, ``audit-verify``, is a distribution of its own (``extras/verify``), which shares no
code with this package and runs in a process of its own. A refutation that it contradicts is an
error of one of the two.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib.util
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from audit import validate
from audit.claims.candidates import KnownPairs, candidates_for
from audit.claims.claim import Claim, Numbers, Search, UserPair
from audit.claims.claims_file import InputError, load
from audit.claims.evidence import Collected, ErrorShare, Evidence, Judgement, collect, judgement_of
from audit.claims.sources import InvalidClaim, NothingClaimed, claimed_numbers, workers_for
from audit.claims.witness import Witness
from audit.codec import decode, encode
from audit.codec.schemas import json_text
from audit.constructions import all_kinds, decode_any_pair
from audit.curves.brackets import BracketError
from audit.isolation import Limits, UserCodeError
from audit.mechanism import Composition
from audit.results import Verdict
from audit.validate import shown

_Task = TypeVar("_Task")
_Outcome = TypeVar("_Outcome")

Plain = Mapping[str, Any]

_SEARCH_S = 60.0  # limit on the search of a worker, in seconds
# Default bound on the probability that a run refutes any true claim.
DEFAULT_ERROR = 0.01
SECONDS = 60.0  # limit on the time of one verification
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from audit_verify import run; run()"


@dataclass(frozen=True)
class Checked:
    """The outcome of checking claims files."""

    #: One judgement for each claim that could be read, in the order of the files.
    judgements: tuple[Judgement, ...]
    complaints: tuple[InputError, ...]  #: What could not be read or evaluated.
    error: float  #: Bound on the probability of refuting any true claim among them.
    seed: int | None = None  #: The seed that replaced those in the files; None if theirs were used.

    @property
    def status(self) -> int:
        """The exit status: 2 for a broken file, 1 for an unexpected verdict, 0 otherwise."""
        return 2 if self.complaints else 1 if self.failures else 0

    @property
    def failures(self) -> tuple[Judgement, ...]:
        """Judgements with an unexpected verdict that fail a build."""
        return tuple(j for j in self.judgements if j.mark == "FAIL")

    @property
    def warnings(self) -> tuple[Judgement, ...]:
        """Judgements with an unexpected verdict that only warn."""
        return tuple(j for j in self.judgements if j.mark == "warn")


def check(
    paths: Iterable[str | Path],
    *,
    error: float,
    seed: int | None = None,
    search: int | None = None,
    jobs: int = 1,
    exhaustive: bool = False,
    progress: Callable[[int, int], None] | None = None,
    begin: Callable[[Sequence[str]], None] | None = None,
    verify: bool = False,
) -> Checked:
    """Judge every readable claim of several files.

    Parameters
    ----------
    paths : iterable of str or pathlib.Path
        Claims files; the files that they include are read too.
    error : float
        Bound, in (0, 1), on the probability of refuting any true claim among all of them.
    seed : int, optional
        Seed of all samples; replaces the seeds in the files.
    search : int, optional
        Number of pairs that the worst-case search tries for every claim; replaces the numbers in
        the files.
    jobs : int, optional
        Number of claims that are judged at the same time.
    exhaustive : bool, optional
        Whether to try all pairs even after one has refuted a claim; the best certified number is
        then the best of all pairs.
    progress : callable, optional
        Called with (done, total) as claims are judged.
    begin : callable, optional
        Called with the ids of all claims before any of their code runs.
    verify : bool, optional
        Whether ``audit-verify`` verifies each exact refutation, a minute each at most.

    Returns
    -------
    Checked
        The judgements, and complaints about broken files and claims, which raise nothing.

    Raises
    ------
    ValueError
        If ``error`` is not in (0, 1), ``jobs`` is below 1, or ``seed`` or ``search`` is negative.

    Examples
    --------
    ::

        checked = check(["claims.yaml"], error=0.01)
        checked.status, [judgement.verdict for judgement in checked.judgements]
    """
    validate.open_unit(error=error)
    validate.integer(1, jobs=jobs)
    loaded = load(paths)
    claims = loaded.claims
    if begin is not None:
        begin([claim.id for claim in claims])
    if seed is not None:
        claims = tuple(with_seed(claim, seed) for claim in claims)
    if search is not None:
        first = Search(evaluations=search)
        wanted = (replace(one.search or first, evaluations=search) for one in claims)
        claims = tuple(replace(c, search=s) for c, s in zip(claims, wanted, strict=True))
    judgements: tuple[Judgement, ...] = ()
    if claims:
        # output of user constructions must not mix with the results
        with (
            Shared(loaded.files, exhaustive=exhaustive) as shared,
            contextlib.redirect_stdout(sys.stderr),
        ):
            judgements = judge_all(claims, error=error, jobs=jobs, progress=progress, shared=shared)
        if verify:
            judgements = in_threads(with_verification, judgements, jobs)
    wrong = (complaint(judgement) for judgement in judgements if judgement.verdict is Verdict.ERROR)
    return Checked(judgements, (*loaded.complaints, *wrong), error, seed)


def check_file(
    path: str | Path, *, error: float = DEFAULT_ERROR, jobs: int = 1
) -> tuple[Judgement, ...]:
    """Judge every claim of one file and of the files that it includes.

    Parameters
    ----------
    path : str or pathlib.Path
        The claims file.
    error : float, optional
        Bound, in (0, 1), on the probability of refuting any true claim.
    jobs : int, optional
        Number of claims that are judged at the same time.

    Returns
    -------
    tuple of Judgement
        One judgement for each claim, in the order of the files.

    Raises
    ------
    ValueError
        If anything in the files is broken: one line per complaint, with file and line number.

    Examples
    --------
    ::

        for judgement in check_file("claims.yaml"):
            print(judgement.claim.id, judgement.verdict.value, judgement.certified)
    """
    if not isinstance(path, str | Path):
        raise validate.fail("path", "a str or a Path", path)
    checked = check([path], error=error, jobs=jobs)
    if checked.complaints:
        raise ValueError("\n".join(str(wrong) for wrong in checked.complaints))
    return checked.judgements


def with_seed(claim: Claim, seed: int) -> Claim:
    """Return the claim with another seed for its samples."""
    return replace(claim, budget=replace(claim.budget, seed=seed))


def complaint(judgement: Judgement) -> InputError:
    """Return the complaint about a claim that could not be evaluated."""
    place = judgement.claim.location
    message = f"claim {judgement.claim.id!r}: {judgement.message}"
    return InputError(place.file if place else Path(), place.line if place else None, message)


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
    progress: Callable[[int, int], None] | None = None,
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
    nothing. ``progress`` is called with (done, total), possibly from another thread, when a claim
    has its first judgement.
    """
    validate.integer(1, jobs=jobs)
    share = equal_share(claims, error)
    if shared is None:
        files = dict.fromkeys(c.location.file for c in claims if c.location is not None)
        with Shared(files) as own:
            return judge_all(claims, error=error, jobs=jobs, progress=progress, shared=own)

    done = itertools.count(1)

    def one(number: int) -> Judgement:
        judgement = _judge(claims[number], share, shared)
        if progress is not None:
            progress(next(done), len(claims))
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
    return judgement_of(found)


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
            judgement = judgement_of(found)
    except NothingClaimed as reason:
        judgement = Judgement(claim=claim, verdict=Verdict.NOT_APPLICABLE, message=str(reason))
    except (InvalidClaim, UserCodeError, BracketError) as reason:
        judgement = Judgement(claim=claim, verdict=Verdict.ERROR, message=str(reason))
    except Exception as reason:
        text = " ".join(f"{type(reason).__name__}: {reason}".split())
        judgement = Judgement(claim=claim, verdict=Verdict.ERROR, message=text)
    return replace(judgement, seconds=time.perf_counter() - began)


def _in_worker(claim: Claim, pair: UserPair, error: ErrorShare, shared: Shared) -> Judgement:
    """Judge a claim on a pair of a user's class, as plain data in a process that imports it.

    It may take the budget's ``callable_seconds`` in addition to its ``seconds``.
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


def may_be_sampled(claim: Claim) -> bool:
    """Return whether samples may refute the claim; this is known before any are drawn."""
    return claim.budget.trials > 0 or claim.samples is not None


def equal_share(claims: Iterable[Claim], error: float) -> ErrorShare:
    """Return the part of an error budget that each claim may spend, before any is refuted.

    A union bound over the claims that may be sampled (Bonferroni), whose number is known before.
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
    """Return indices in the order of work: by mechanism and quantity, then by delta or order."""
    firsts: dict[Any, int] = {}

    def place(number: int) -> tuple[int, float, int]:
        claim = claims[number]
        quantity = next(iter(claim.statement.quantities), None)
        group = firsts.setdefault((claim.mechanism, type(quantity)), number)
        return group, getattr(quantity, "at", None) or 0.0, number

    return sorted(range(len(claims)), key=place)


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


class Outcome(enum.StrEnum):
    """The answer of the verifier."""

    VERIFIED = "verified"
    COUNTS_VERIFIED = "verified but for the draws"
    NOT_VERIFIED = "not verified"
    NOT_IN_TIME = "not verified in time"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True)
class Verification:
    """The answer of the verifier, and its reason in one line."""

    outcome: Outcome
    reason: str

    @property
    def line(self) -> str:
        """Outcome and reason in one line."""
        return f"{self.outcome}: {self.reason}"


def verify(witness: Witness | Mapping[str, Any], *, seconds: float = SECONDS) -> Verification:
    """Return what the verifier says about a witness within some seconds.

    It is contradicted if the verifier does not find the refutation, or refuses the witness.
    """
    text = witness.to_json() if isinstance(witness, Witness) else json_text(dict(witness))
    content = json.loads(text)
    exact = content["evidence"] == Evidence.EXACT
    if content["partition" if exact else "samples"] is None:
        lacks = "no partition is known that decides it", "its bound combines several events"
        return Verification(Outcome.NOT_VERIFIED, lacks[not exact])
    found = importlib.util.find_spec("audit_verify")
    if found is None or found.origin is None or importlib.util.find_spec("flint") is None:
        return Verification(Outcome.NOT_VERIFIED, "audit-verify is not installed")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "witness.json"
        file.write_text(text, encoding="utf-8")
        package = str(Path(found.origin).parents[1])
        command = [sys.executable, "-I", "-c", _PROGRAM, package, str(file)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return Verification(Outcome.NOT_IN_TIME, f"the limit is {seconds:g} s")
    verified = Outcome.VERIFIED if exact else Outcome.COUNTS_VERIFIED
    answers = (verified, Outcome.CONTRADICTED, Outcome.CONTRADICTED, Outcome.NOT_IN_TIME)
    if done.stdout and done.returncode in range(len(answers)):
        return Verification(answers[done.returncode], done.stdout.splitlines()[0])
    reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]  # it was stopped, or failed
    return Verification(Outcome.NOT_VERIFIED, f"audit-verify did not answer ({reason})")


def with_verification(judgement: Judgement, *, seconds: float = SECONDS) -> Judgement:
    """Return a judgement with its refutation verified; an error if the verifier contradicts it.

    Of samples the counts are verified. Other judgements are returned as they are; a refutation that
    could not be verified says why.
    """
    if judgement.verdict is not Verdict.REFUTED:
        return judgement
    if judgement.witness is None:
        found = Verification(Outcome.NOT_VERIFIED, "there is no witness")
    else:
        found = verify(judgement.witness, seconds=seconds)
    verdict, message = Verdict.REFUTED, judgement.message
    if found.outcome is Outcome.CONTRADICTED:
        verdict = Verdict.ERROR
        message = f"audit-verify does not confirm the refutation: {found.reason}"
    elif found.outcome in (Outcome.NOT_VERIFIED, Outcome.NOT_IN_TIME):
        message += f"; {found.line}"
    return replace(judgement, verdict=verdict, verification=found.outcome.value, message=message)

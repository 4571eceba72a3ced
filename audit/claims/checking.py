"""Judge all claims of several files within one error budget, and verify their refutations.

The verifier, ``audit-verify``, is a distribution of its own (``extras/verify``), which shares no
code with this package and runs in a process of its own. A refutation that it contradicts is an
error of one of the two.
"""

from __future__ import annotations

import contextlib
import enum
import importlib.util
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit import validate
from audit.claims.claim import Claim, Search
from audit.claims.claims_file import InputError, load
from audit.claims.judgement import Evidence, Judgement
from audit.claims.witness import Witness
from audit.codec.schemas import json_text
from audit.results import Verdict

# Default bound on the probability that a run refutes any true claim.
DEFAULT_ERROR = 0.01


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
        from audit.claims.judge import Shared, in_threads, judge_all  # it needs every room

        done = itertools.count(1)

        def advance(_: Judgement) -> None:
            if progress is not None:
                progress(next(done), len(claims))

        # output of user constructions must not mix with the results
        with (
            Shared(loaded.files, exhaustive=exhaustive) as shared,
            contextlib.redirect_stdout(sys.stderr),
        ):
            judgements = judge_all(claims, error=error, jobs=jobs, progress=advance, shared=shared)
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


# ---- verification

SECONDS = 60.0  # limit on the time of one verification
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from audit_verify import run; run()"


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

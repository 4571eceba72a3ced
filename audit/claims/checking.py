"""Judge all claims of several files within one error budget."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit import validate
from audit.claims.claim import Claim, Search, Severity
from audit.claims.claims_file import load
from audit.claims.judgement import Judgement
from audit.claims.parts import InputError
from audit.claims.verification import with_verification
from audit.claims.work import in_threads
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
        return self._unexpected(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Judgement, ...]:
        """Judgements with an unexpected verdict that only warn."""
        return self._unexpected(Severity.WARN)

    def _unexpected(self, severity: Severity) -> tuple[Judgement, ...]:
        return tuple(
            j
            for j in self.judgements
            if j.claim.severity is severity
            and not j.as_expected
            and j.verdict is not Verdict.ERROR  # reported as a complaint
        )


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
        claims = tuple(_with_search(claim, search) for claim in claims)
    judgements: tuple[Judgement, ...] = ()
    if claims:
        from audit.claims.judge import Shared, judge_all  # imported late: it needs every room

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
        judgements = tuple(in_threads(with_verification, judgements, jobs))
    return Checked(
        judgements,
        (*loaded.complaints, *(complaint(j) for j in judgements if j.verdict is Verdict.ERROR)),
        error,
        seed,
    )


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
    return dataclasses.replace(claim, budget=dataclasses.replace(claim.budget, seed=seed))


def _with_search(claim: Claim, evaluations: int) -> Claim:
    """Return the claim with this many evaluations of the worst-case search, from its own seed."""
    seed = 0 if claim.search is None else claim.search.seed
    return dataclasses.replace(claim, search=Search(evaluations=evaluations, seed=seed))


def complaint(judgement: Judgement) -> InputError:
    """Return the complaint about a claim that could not be evaluated."""
    place = judgement.claim.location
    message = " ".join(f"claim {judgement.claim.id!r}: {judgement.message}".split())
    return InputError(place.file if place else Path(), place.line if place else None, message)

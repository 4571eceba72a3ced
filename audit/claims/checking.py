"""Judge all claims of some files within one error budget."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit import validate
from audit.claims.claim import Claim, Search, Severity
from audit.claims.claims_file import load
from audit.claims.judgement import Judgement
from audit.claims.yaml_tree import Complaint
from audit.results import Verdict

# The default probability that a run refutes any true claim.
DEFAULT_ERROR = 0.01


@dataclass(frozen=True)
class Checked:
    """The outcome of checking claims files.

    Attributes
    ----------
    judgements
        One for each claim that could be read, in the order of the files.
    complaints
        What could not be read or evaluated.
    error
        The probability allowed for refuting any true claim among them.
    seed
        The seed that stood in for the files' own; None where they were used.
    """

    judgements: tuple[Judgement, ...]
    complaints: tuple[Complaint, ...]
    error: float
    seed: int | None = None

    @property
    def status(self) -> int:
        """The exit status: 2 for a broken file, 1 for an unexpected verdict, 0 for neither."""
        return 2 if self.complaints else 1 if self.failures else 0

    @property
    def failures(self) -> tuple[Judgement, ...]:
        """Judgements that are not as expected and fail a build."""
        return self._unexpected(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Judgement, ...]:
        """Judgements that are not as expected and only warn."""
        return self._unexpected(Severity.WARN)

    def _unexpected(self, severity: Severity) -> tuple[Judgement, ...]:
        return tuple(
            j
            for j in self.judgements
            if j.claim.severity is severity
            and not j.as_expected
            and j.verdict is not Verdict.ERROR  # among the complaints
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
) -> Checked:
    """Judge every claim of the files that can be read.

    Parameters
    ----------
    paths
        Claims files; what they include is read too.
    error
        The probability allowed for refuting any true claim among all of them together.
    seed
        The seed of all samples, instead of those that the files state.
    search
        How many pairs the worst-case search tries for every claim, instead of what the files say.
    jobs
        How many claims are judged at a time.
    exhaustive
        Whether all pairs are tried, also after one has refuted a claim: the best certified number
        is then the best of all pairs.
    progress
        Called with (done, total) as claims are done.

    Raises
    ------
    ValueError
        If ``error`` is not in (0, 1), ``jobs`` below 1, or ``seed`` or ``search`` below 0. Broken
        files and claims raise nothing: they are among the ``complaints``.
    """
    validate.open_unit(error=error)
    validate.integer(1, jobs=jobs)
    loaded = load(paths)
    claims = loaded.claims
    if seed is not None:
        claims = tuple(with_seed(claim, seed) for claim in claims)
    if search is not None:
        claims = tuple(_with_search(claim, search) for claim in claims)
    judgements = _judged(claims, loaded.files, error, jobs, exhaustive, progress)
    return Checked(
        judgements,
        (*loaded.complaints, *(complaint(j) for j in judgements if j.verdict is Verdict.ERROR)),
        error,
        seed,
    )


def check_file(
    path: str | Path, *, error: float = DEFAULT_ERROR, jobs: int = 1
) -> tuple[Judgement, ...]:
    """Judge every claim of one file, and of those that it includes.

    Raises
    ------
    ValueError
        If anything in the files is broken: one line a complaint, with file and line number.
    """
    checked = check([path], error=error, jobs=jobs)
    if checked.complaints:
        raise ValueError("\n".join(str(wrong) for wrong in checked.complaints))
    return checked.judgements


def _judged(
    claims: Sequence[Claim],
    files: Sequence[Path],
    error: float,
    jobs: int,
    exhaustive: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[Judgement, ...]:
    if not claims:
        return ()
    from audit.claims.judge import Shared, judge_all  # late: it needs every room of the package

    done: list[str] = []

    def advance(judgement: Judgement) -> None:
        done.append(judgement.claim.id)
        if progress is not None:
            progress(len(done), len(claims))

    # what constructions of users print is no outcome
    with (
        Shared(files, exhaustive=exhaustive) as shared,
        contextlib.redirect_stdout(sys.stderr),
    ):
        return judge_all(claims, error=error, jobs=jobs, progress=advance, shared=shared)


def with_seed(claim: Claim, seed: int) -> Claim:
    """Return the claim with another seed for its samples."""
    return dataclasses.replace(claim, budget=dataclasses.replace(claim.budget, seed=seed))


def _with_search(claim: Claim, evaluations: int) -> Claim:
    """Return the claim with so many evaluations of the worst-case search, from its own seed."""
    seed = 0 if claim.search is None else claim.search.seed
    return dataclasses.replace(claim, search=Search(evaluations=evaluations, seed=seed))


def complaint(judgement: Judgement) -> Complaint:
    """Return what is wrong with a claim that could not be evaluated."""
    place = judgement.claim.location
    message = " ".join(f"claim {judgement.claim.id!r}: {judgement.message}".split())
    return Complaint(place.file if place else Path(), place.line if place else None, message)

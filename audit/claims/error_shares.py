"""The error of claims that samples may refute, held over all of them by Holm's procedure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from audit import validate
from audit.claims.claim import Claim
from audit.claims.judgement import Evidence, Judgement
from audit.results import Verdict


@dataclass(frozen=True)
class ErrorShare:
    """The part of an error budget that samples may spend on one claim."""

    spent: float  #: The error.
    #: The error for which tests are planned. While it stays the same, tests at several errors are
    #: the same tests, and one that errs at some error also errs at every larger one.
    planned: float

    def divided(self, number: int) -> ErrorShare:
        """Return one of equal parts."""
        return ErrorShare(self.spent / number, self.planned / number)


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
    while family:
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

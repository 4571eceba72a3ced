"""Certified lower bounds on a claim's numbers, in the order of their cost.

Each kind of evidence is a generator, which adds the outcome of one pair at a time: exact laws of
the pairs that fit, explicit and dominating ones among them, fast ones first; the pair of a
worst-case search; and samples of the pairs whose laws take too long. `collected` runs them until a
number is refuted or the budget is spent. Scores that a user recorded take the place of all pairs.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audit import estimation, simulation  # Numba is imported where samples are needed
from audit.claims.candidates import Candidates, Deadline, KnownPair, LawTooSlow, NoExactLaw
from audit.claims.claim import Budget, Claim, Samples
from audit.claims.error_shares import ErrorShare
from audit.claims.judgement import Evidence, Judgement, Verdict
from audit.claims.sources import InvalidClaim
from audit.claims.witness import witness_of
from audit.claims.wording import described
from audit.constructions import Construction
from audit.curves import Order
from audit.curves.brackets import BracketError
from audit.curves.quantities import ClaimedNumber

# Estimated times decide which pairs are tried, so that they are the same on every machine; a clock
# stops the work only if an estimate was wrong by this factor.
_DEADLINE_FACTOR = 3.0


@dataclass(frozen=True)
class LowerBound:
    """The bound that one pair certifies on one claimed number, in one order.

    ``inconclusive`` is why its samples could not have refuted the number; else empty. ``audit`` is
    the audit of the samples.
    """

    number: ClaimedNumber
    low: float
    high: float
    order: Order
    known: KnownPair
    evidence: Evidence
    inconclusive: str = ""
    audit: estimation.Audit | None = None

    @property
    def refutes(self) -> bool:
        """Whether the claimed number is contradicted."""
        return self.number.refuted_by(self.low)

    @property
    def tightness(self) -> tuple[bool, float]:
        """A sort key: refutations first, then the bounds closest to the claimed number."""
        return not self.refutes, self.number.ratio(self.low)


@dataclass
class Collected:
    """All bounds on the numbers of a claim, and their cost."""

    #: At least one if any pair could be tried.
    bounds: list[LowerBound] = field(default_factory=list)
    tried: int = 0  #: Number of pairs that were tried.
    left: int = 0  #: Number of pairs left when the budget ended.
    error: float = 0.0  #: The error that was spent on samples.
    reasons: list[str] = field(default_factory=list)  #: Why pairs gave no evidence.
    #: The first error with a pair that has a law; no verdict other than a refutation may ignore it.
    fault: Exception | None = None

    @property
    def closest(self) -> LowerBound:
        """The bound that refutes, or comes closest to refuting."""
        return min(self.bounds, key=lambda bound: bound.tightness)

    @property
    def refuted(self) -> bool:
        """Whether a number is contradicted."""
        return any(bound.refutes for bound in self.bounds)

    @property
    def inconclusive(self) -> str:
        """Why no evidence could have contradicted a number; empty if some could."""
        return self.closest.inconclusive if all(b.inconclusive for b in self.bounds) else ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A claim's numbers, and the evidence that may be had on them."""

    #: The claim. Exact laws are computed while the sum of their estimated times is within the
    #: seconds of its budget; a pair that alone takes longer is sampled if there are trials. Only a
    #: search that the claim asks for is made even if the budget left pairs out.
    claim: Claim
    numbers: Sequence[ClaimedNumber]  #: The claimed numbers.
    candidates: Candidates  #: The pairs, in the order in which they are tried.
    #: Searches for one more pair, against the number that is closest to being refuted.
    search: Callable[[ClaimedNumber], KnownPair | None]
    error: ErrorShare  #: The error that samples may spend.
    #: Whether to try the other pairs after one refutes. A pair that refutes is always evaluated for
    #: all numbers, in both orders.
    exhaustive: bool

    @property
    def costly(self) -> list[KnownPair]:
        """The pairs whose laws alone take longer than the budget's seconds."""
        return [
            known for known in self.candidates.pairs if known.seconds > self.claim.budget.seconds
        ]


def collected(case: Case) -> Collected:
    """Return the bounds that the pairs certify, up to the first pair that refutes a number."""
    found, deadline = Collected(), Deadline(_DEADLINE_FACTOR * case.claim.budget.seconds)
    for _ in itertools.chain(
        _by_laws(case, found, deadline), _by_search(case, found, deadline), _by_samples(case, found)
    ):
        if found.refuted and not case.exhaustive:
            break
    return found


def _by_laws(case: Case, found: Collected, deadline: Deadline) -> Iterator[None]:
    """Add what the exact laws of the candidates certify, within the budget's seconds."""
    planned = 0.0
    for known in case.candidates.pairs:
        if known.seconds > case.claim.budget.seconds:
            continue
        planned += known.seconds
        if found.bounds and (planned > case.claim.budget.seconds or deadline.passed):
            found.left += 1
        else:
            until = deadline.at if found.bounds else math.inf
            _by_law(case, known, found, deadline, until)
        yield


def _by_search(case: Case, found: Collected, deadline: Deadline) -> Iterator[None]:
    """Add what the pair of a worst-case search certifies, unless pairs were left out before."""
    if found.left and case.claim.search is None:
        return
    known = case.search(found.closest.number if found.bounds else case.numbers[0])
    if known is not None:
        _by_law(case, known, found, deadline, searched=True)
        yield


def _by_law(
    case: Case,
    known: KnownPair,
    found: Collected,
    deadline: Deadline,
    until: float = math.inf,
    *,
    searched: bool = False,
) -> None:
    """Add a pair's bounds on all numbers; none if another pair has larger ones.

    A refutation does not stop this: the law is available, and draws may confirm the clearest
    refutation but not the first one, which may rely on rarer events.
    """
    bounds: list[LowerBound] = []
    try:
        for number in case.numbers:
            for order in Order:
                bracket = case.candidates.bracket(
                    known, number.quantity, order, deadline, law_until=until
                )
                if bracket is not None:
                    bounds.append(LowerBound(number, *bracket, order, known, Evidence.EXACT))
        found.tried += 1
    except LawTooSlow:
        found.left += 1
    except NoExactLaw as reason:  # earlier bounds remain valid
        if not searched:  # a pair that was searched for explains nothing
            found.tried += bool(bounds)
            found.reasons.append(" ".join(str(reason).split()))
    except (ValueError, ArithmeticError) as fault:  # none of its bounds can be trusted
        if isinstance(fault, BracketError):
            fault = BracketError(f"{described(known.pair)}: {fault}")
        found.fault = found.fault or fault
        return
    found.bounds += bounds


def _by_samples(case: Case, found: Collected) -> Iterator[None]:
    """Add what samples of the costly pairs certify.

    The choice of sampled pairs depends on their sizes only, before any sample is drawn.
    """
    costly, budget = case.costly, case.claim.budget
    if costly and budget.trials == 0:
        found.left += len(costly)
        found.reasons.append(_too_slow(costly, budget))
        return
    for index, known in enumerate(costly):
        assert isinstance(known.pair, Construction)  # explicit laws take no time
        judged = judge_by_draws(
            known.pair,
            case.numbers,
            trials=budget.trials,
            error=case.error.divided(len(costly)),
            seed=budget.seed + 2 * index,
        )
        audit = judged.audit if isinstance(judged.audit, estimation.Audit) else None
        sampled = Evidence.SAMPLED
        found.bounds += (
            LowerBound(n, one.certified, math.inf, one.order, known, sampled, one.reason, audit)
            for n, one in zip(case.numbers, judged, strict=True)
        )
        found.tried += 1
        found.error = case.error.spent
        yield


def judge_by_draws(
    pair: Construction,
    numbers: Sequence[ClaimedNumber],
    *,
    trials: int,
    error: ErrorShare,
    seed: int,
) -> estimation.JudgedScores:
    """Judge each number by samples of a pair; scores are the final iterates themselves.

    With probability at least 1 - ``error.spent`` no bound exceeds the pair's true number.
    """
    return estimation.judge_scores(
        simulation.final_iterates(pair, trials=trials, seed=seed),
        numbers,
        confidence=1 - error.spent,
        planned_confidence=1 - error.planned,
        seed=seed + 1,
    )


def _too_slow(costly: Sequence[KnownPair], budget: Budget) -> str:
    least = min(costly, key=lambda known: known.seconds)
    if math.isinf(least.seconds):
        return f"{described(least.pair)} has no exact law, and the budget has no trials"
    return (
        f"the exact law of {described(least.pair)} would take about {least.seconds:.2g} s, "
        f"more than the budget's {budget.seconds:g} s, and the budget has no trials"
    )


# ---- scores that a user recorded


def judge_by_samples(
    claim: Claim, samples: Samples, numbers: Sequence[ClaimedNumber], error: ErrorShare
) -> Judgement:
    """Return the judgement on a claim about samples.

    A false refutation has probability at most ``error.spent``.
    """
    try:
        given = samples.source.draw(claim.budget.seed)
        judged = estimation.judge_scores(
            given,
            numbers,
            confidence=1 - error.spent,
            planned_confidence=1 - error.planned,
            seed=claim.budget.seed,
            favours=samples.favours,
            columns=samples.columns,
            group_size=samples.group_size,
        )
    except (ImportError, ValueError) as reason:
        raise InvalidClaim(f"samples: {' '.join(str(reason).split())}") from None
    digests = f"scores {_digest(given[0])} and {_digest(given[1])}"
    number, closest = min(
        zip(numbers, judged, strict=True),
        key=lambda one: (one[1].verdict is not Verdict.REFUTED, one[0].ratio(one[1].certified)),
    )
    refuted = closest.verdict is Verdict.REFUTED
    # one number within reach is enough to judge the claim
    verdict = Verdict.CONSISTENT if Verdict.CONSISTENT in judged.verdicts else closest.verdict
    if claim.statement.exceeded:
        verdict = Verdict.CONSISTENT if refuted else Verdict.INCONCLUSIVE
    elif refuted:
        verdict = Verdict.REFUTED
    why = f"{closest.reason}; " if verdict is Verdict.INCONCLUSIVE and closest.reason else ""
    witness = None
    if verdict is Verdict.REFUTED and isinstance(judged.audit, estimation.Audit):
        witness = witness_of(
            claim,
            number,
            pair=None,
            order=closest.order,
            bracket=(closest.certified, math.inf),
            evidence=Evidence.SAMPLED,
            audit=judged.audit,
            construction=digests,
        )
    says = "exceed" if refuted else "do not exceed"
    how, combined = "", judged.columns
    if combined is not None:
        how = f", {combined.number} columns by {combined.choice.kind}"
        if any(combined.choosing):
            used = f"{combined.choosing[0]} and {combined.choosing[1]} rows"
            how += f" (chosen with {used}, which certify nothing)"
    kind = "scores" if combined is None else "rows"
    sizes = f"samples of {len(given[0])} and {len(given[1])} {kind}"
    name, group = number.quantity.name, samples.group_size
    if group > 1:
        sizes += f" that differ in {group} records"
        name += " of one record"
        how += f", from a pair that differs in {group} records"
    return Judgement(
        claim=claim,
        verdict=verdict,
        claimed=number.value,
        certified=closest.certified,
        quantity=number.quantity,
        order=closest.order,
        pair=sizes,
        evidence=Evidence.SAMPLED,
        error=error.spent,
        numbers=tuple(numbers),
        witness=witness,
        message=(
            f"{why}the samples {says} it at confidence {1 - error.spent:g}: {name} "
            f"at least {closest.certified:.6g}{number.quantity.at_where}, "
            f"claimed {number.value:.6g}{how}; {digests}"
        ),
    )


def _digest(values: NDArray[np.float64]) -> str:
    """Return the beginning of the SHA-256 of the scores, which identifies them."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:12]

"""Certified lower bounds on a claim's numbers, in the order of their cost.

Each kind of evidence is a generator, which adds the outcome of one pair at a time: exact laws of
the pairs that fit, explicit and dominating ones among them, fast ones first; the pair of a
worst-case search; and samples of the pairs whose laws take too long. `collect` runs them until a
number is refuted or the budget is spent. Scores that a user recorded take the place of all pairs.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import ClassVar

import numpy as np

from audit import estimation, simulation  # Numba is imported where samples are needed
from audit.claims.candidates import Candidates, Deadline, KnownPair, LawTooSlow, NoExactLaw
from audit.claims.claim import Claim, Samples
from audit.claims.judgement import Evidence
from audit.claims.partition import partition_of
from audit.claims.sources import InvalidClaim
from audit.claims.witness import COUNTS, LAWS, Witness, counted, mechanism_of, plain_pair
from audit.constructions import Construction
from audit.constructions.explicit import ExplicitPair
from audit.constructions.explicit_laws import AllIterates
from audit.curves import Order
from audit.curves.brackets import Bracket, BracketError
from audit.curves.quantities import ClaimedNumber, Mu
from audit.numerics.number_format import Rounding, short

# Estimated times decide which pairs are tried, so that they are the same on every machine; a clock
# stops the work only if an estimate was wrong by this factor.
_DEADLINE_FACTOR = 3.0


@dataclass(frozen=True)
class ErrorShare:
    """The part of an error budget that samples may spend on one claim."""

    spent: float  #: The error.
    #: The error for which tests are planned. While it stays the same, tests at several errors are
    #: the same tests, and one that errs at some error also errs at every larger one.
    planned: float


@dataclass(frozen=True)
class Recorded:
    """Recorded scores in words: their number, how they were combined, and their digests."""

    pair: ClassVar[None] = None

    name: str
    of: str  # what a bound is of, where the pair differs in several records
    how: str
    digests: str


@dataclass(frozen=True)
class LowerBound:
    """The bound that one pair, or recorded scores, certify on one number, in one order.

    ``inconclusive`` is why its samples or its law could not have refuted the number; else empty.
    ``audit`` is the audit of the samples.
    """

    number: ClaimedNumber
    low: float
    high: float
    order: Order
    known: KnownPair | Recorded
    evidence: Evidence
    inconclusive: str = ""
    audit: estimation.Audit | None = None

    @property
    def refutes(self) -> bool:
        """Whether the claimed number is contradicted."""
        return self.number.refuted_by(self.low)


def witness_of(claim: Claim, bound: LowerBound) -> Witness:
    """Return the witness of a refuted number.

    Raises ``ValueError`` if the pair cannot be written as numbers.
    """
    number, order, known = bound.number, bound.order, bound.known
    quantity, pair, exact = number.quantity, known.pair, bound.evidence is Evidence.EXACT
    law = None
    if exact and isinstance(known, KnownPair):
        with contextlib.suppress(NoExactLaw):  # the partition of vectors on a plane needs none
            law = known.law()
    at = quantity.witness_at(law, order, number.value)
    plain = None if pair is None else plain_pair(pair)
    partition = None
    if plain is not None and exact:
        place = math.inf if law is None else quantity.proven_at(law, order, at)
        walls = -math.inf, math.inf
        if isinstance(pair, Construction):
            process, _ = pair.processes()
            walls = process.lower, process.upper
        # where no partition is known, the verdict says that it is not verified
        with contextlib.suppress(ValueError, ArithmeticError, IndexError):
            certified = min(bound.low, place)
            partition = partition_of(plain, law, number, order, at, certified, walls)
    entry, _ = claim.bound
    p, q = ("first", "second") if order is Order.FORWARD else ("second", "first")
    head = f"Let P be the law called '{p}' under 'pair', and Q the one called '{q}'."
    samples = None if bound.audit is None else counted(bound.audit, number)
    laws = () if plain is None else LAWS[plain["kind"]]
    counts = () if samples is None else (COUNTS,)
    return Witness(
        claim=claim.id,
        citation=claim.citation or ("" if entry is None else str(entry.cite)),
        quantity=quantity.name,
        at=at,
        claimed=number.value,
        slack=number.slack,
        order=order,
        bracket=(bound.low, bound.high if math.isfinite(bound.high) else None),
        evidence=bound.evidence,
        construction=known.digests if isinstance(known, Recorded) else known.name,
        pair=plain,
        partition=partition,
        mechanism=None if pair is None or plain is None else mechanism_of(pair, plain),
        recipe=(head, *laws, *quantity.recipe(at, number.value), *counts),
        version=version("noisy-sgd-audit"),
        samples=samples,
    )


@dataclass(kw_only=True)
class Collected:
    """The bounds on the numbers of a claim, what they cost, and the evidence that is left."""

    #: The claim. Exact laws are computed while the sum of their estimated times is within the
    #: seconds of its budget; a pair that alone takes longer is sampled if there are trials. Only a
    #: search that the claim asks for is made even if the budget left pairs out.
    claim: Claim
    numbers: Sequence[ClaimedNumber]  #: The claimed numbers.
    share: ErrorShare  #: The error that samples may spend.
    bounds: list[LowerBound] = field(default_factory=list)  #: Empty if no pair could be tried.
    tried: int = 0  #: Number of pairs that were tried.
    left: int = 0  #: Number of pairs left when the budget ended.
    spent: float = 0.0  #: The error that was spent on samples.
    reasons: list[str] = field(default_factory=list)  #: Why pairs gave no evidence.
    #: The first error with a pair that has a law; no verdict other than a refutation may ignore it.
    fault: Exception | None = None

    @property
    def closest(self) -> LowerBound:
        """The bound that refutes, or comes closest to refuting."""
        return min(self.bounds, key=lambda one: (not one.refutes, one.number.ratio(one.low)))

    @property
    def refuted(self) -> bool:
        """Whether a number is contradicted."""
        return any(bound.refutes for bound in self.bounds)

    @property
    def inconclusive(self) -> str:
        """Why no evidence, or not the law that decides, could have contradicted a number."""
        if all(bound.inconclusive for bound in self.bounds):
            return self.closest.inconclusive
        laws = (bound for bound in self.bounds if bound.evidence is Evidence.EXACT)
        return next((bound.inconclusive for bound in laws if bound.inconclusive), "")

    def add_brackets(
        self, known: KnownPair, bounds: Iterator[LowerBound], *, searched: bool = False
    ) -> None:
        """Add a pair's bounds on all numbers.

        A refutation does not stop this: the law is available, and draws may confirm the clearest
        refutation but not the first one, which may rely on rarer events.
        """
        added: list[LowerBound] = []
        try:
            added.extend(bounds)
            self.tried += 1
        except LawTooSlow:
            self.left += 1
        except NoExactLaw as reason:  # earlier bounds remain valid
            if not searched:  # a pair that was searched for explains nothing
                self.tried += bool(added)
                self.reasons.append(" ".join(str(reason).split()))
        except (ValueError, ArithmeticError) as fault:  # none of its bounds can be trusted
            if isinstance(fault, BracketError):
                fault = BracketError(f"{known.name}: {fault}")
            self.fault = self.fault or fault
            return
        self.bounds += added

    def add_scores(self, judged: estimation.JudgedScores, known: KnownPair | Recorded) -> None:
        """Add what samples certify."""
        audit = judged.audit if isinstance(judged.audit, estimation.Audit) else None
        sampled = Evidence.SAMPLED
        self.bounds += (
            LowerBound(n, one.certified, math.inf, one.order, known, sampled, one.reason, audit)
            for n, one in zip(self.numbers, judged, strict=True)
        )
        self.spent = self.share.spent

    def add_recorded(self, samples: Samples) -> None:
        """Add the bounds that recorded scores certify.

        A false refutation has probability at most ``share.spent``.
        """
        seed, group = self.claim.budget.seed, samples.group_size
        try:
            given = samples.draw(seed)
            judged = estimation.judge_scores(
                given,
                self.numbers,
                confidence=1 - self.share.spent,
                planned_confidence=1 - self.share.planned,
                seed=seed,
                favours=samples.favours,
                columns=samples.columns,
                group_size=group,
            )
        except (ImportError, ValueError) as reason:
            raise InvalidClaim(f"samples: {' '.join(str(reason).split())}") from None
        how, combined = "", judged.columns
        if combined is not None:
            how = f", {combined.number} columns by {combined.choice.kind}"
            if any(combined.choosing):
                used = f"{combined.choosing[0]} and {combined.choosing[1]} rows"
                how += f" (chosen with {used}, which certify nothing)"
        sizes = f"samples of {len(given[0])} and {len(given[1])} {'rows' if combined else 'scores'}"
        of = " of one record" if group > 1 else ""
        if group > 1:
            sizes += f" that differ in {group} records"
            how += f", from a pair that differs in {group} records"
        few = filter(None, map(estimation.judge.distinct_if_few, (judged.x, judged.x_prime)))
        if distinct := min(few, default=0):
            sizes += f", only {distinct} of a side distinct"
            how += " (scores repeat: the bound is invalid if a run counts twice)"
        hashes = (hashlib.sha256(np.ascontiguousarray(one).tobytes()) for one in given)
        digests = "scores " + " and ".join(one.hexdigest()[:12] for one in hashes)
        self.add_scores(judged, Recorded(sizes, of, how, digests))


def collect(found: Collected, candidates: Candidates, *, exhaustive: bool) -> None:
    """Add the bounds that the pairs certify, up to the first pair that refutes a number.

    If ``exhaustive``, the other pairs are tried after one refutes. A pair that refutes is always
    evaluated for all numbers, in both orders.
    """
    for _ in itertools.chain(_by_laws(found, candidates), _by_samples(found, candidates)):
        if found.refuted and not exhaustive:
            break


def _by_laws(found: Collected, candidates: Candidates) -> Iterator[None]:
    """Add what the exact laws of the candidates certify, within the budget's seconds.

    Then what the pair of a worst-case search certifies, against the number that is closest to being
    refuted, unless pairs were left out before.
    """
    planned, seconds = 0.0, found.claim.budget.seconds
    deadline = Deadline(_DEADLINE_FACTOR * seconds)

    def bounds_of(known: KnownPair, until: float) -> Iterator[LowerBound]:
        for number, order in itertools.product(found.numbers, Order):
            ends = candidates.bracket(known, number.quantity, order, deadline, until)
            if ends is not None:  # else another pair has a larger number
                unsure = _too_coarse(number, ends, known)
                yield LowerBound(number, *ends, order, known, Evidence.EXACT, unsure)

    for known in candidates.pairs:
        if known.seconds > seconds:
            continue
        planned += known.seconds
        if found.bounds and (planned > seconds or deadline.passed):
            found.left += 1
        else:
            until = deadline.at if found.bounds else math.inf
            found.add_brackets(known, bounds_of(known, until))
        yield
    if found.left and found.claim.search is None:
        return
    number = found.closest.number if found.bounds else found.numbers[0]
    searched = candidates.searched(found.claim, number.quantity)
    if searched is not None:
        found.add_brackets(searched, bounds_of(searched, math.inf), searched=True)
        yield


def _too_coarse(number: ClaimedNumber, bracket: Bracket, known: KnownPair) -> str:
    """Return why laws that a claim is all about, known from one side, do not decide it; or ""."""
    (low, high), quantity = bracket, number.quantity
    # of mu an upper end is often unknown, where tails are light
    unknown = low == 0 or (high >= quantity.largest and not isinstance(quantity, Mu))
    # what encloses the worst of all losses is wide where no pair is known to be the worst
    wide = not isinstance(known.pair, AllIterates) and high < math.inf and high - low > 0.01 * high
    open_ended = (unknown or wide) and high - number.value > 1e-3 * (1 + number.value)
    if not open_ended or not isinstance(known.pair, ExplicitPair) or number.refuted_by(low):
        return ""
    ends = f"{short(low, 6, Rounding.DOWN)} to {short(high, 6, Rounding.UP)}"
    return f"{quantity.name} of {known.name} is only known to be from {ends}"


def _by_samples(found: Collected, candidates: Candidates) -> Iterator[None]:
    """Add what samples of the pairs certify whose laws alone take longer than the budget.

    The choice of sampled pairs depends on their sizes only, before any sample is drawn; they share
    the error equally. Scores are the final iterates themselves.
    """
    budget, share = found.claim.budget, found.share
    costly = [known for known in candidates.pairs if known.seconds > budget.seconds]
    if costly and budget.trials == 0:
        found.left += len(costly)
        least = min(costly, key=lambda known: known.seconds)
        told = f"{least.name} has no exact law, and the budget has no trials"
        if math.isfinite(least.seconds):
            told = (
                f"the exact law of {least.name} would take about {least.seconds:.2g} s, "
                f"more than the budget's {budget.seconds:g} s, and the budget has no trials"
            )
        found.reasons.append(told)
        return
    for index, known in enumerate(costly):
        assert isinstance(known.pair, Construction)  # explicit laws take no time
        seed = budget.seed + 2 * index  # of the draws; the scores have the next one
        judged = estimation.judge_scores(
            simulation.final_iterates(known.pair, trials=budget.trials, seed=seed),
            found.numbers,
            confidence=1 - share.spent / len(costly),
            planned_confidence=1 - share.planned / len(costly),
            seed=seed + 1,
        )
        found.add_scores(judged, known)
        found.tried += 1
        yield

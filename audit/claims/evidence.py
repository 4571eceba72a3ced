"""The evidence on a claim, and the judgement on it.

Pairs are tried one after the other, the cheapest evidence first: exact laws, a worst-case search,
samples. Scores that a user recorded take their place. A certified lower bound that exceeds a
claimed number refutes it, with a witness; a theorem that proves less contradicts both.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import ClassVar

import numpy as np

from audit import estimation, simulation  # Numba is imported where samples are needed
from audit.claims.candidates import Candidates, Deadline, KnownPair, LawTooSlow, NoExactLaw
from audit.claims.claim import Claim, Expected, LooseBy, Samples, Severity, apart, tidy
from audit.claims.partition import partition_of
from audit.claims.sources import InvalidClaim
from audit.claims.witness import COUNTS, LAWS, Witness, counted, mechanism_of, plain_pair
from audit.claims.witness import Evidence as Evidence
from audit.constructions import Construction
from audit.constructions.explicit import ExplicitPair
from audit.constructions.explicit_laws import AllIterates
from audit.curves import Order
from audit.curves.brackets import Bracket, BracketError
from audit.curves.quantities import AnyQuantity, ClaimedNumber, Mu, Quantity
from audit.mechanism import Composition, NoisySGD
from audit.numerics import display
from audit.numerics.display import Marks, ShortRepr
from audit.numerics.number_format import Rounding, number, short, telling
from audit.results import Verdict as Verdict
from audit.results import judge_interval as judge_interval
from audit.results import judge_upper_bound as judge_upper_bound
from audit.search import tightest_bound

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


@dataclass(frozen=True, kw_only=True)
class Judgement(ShortRepr):
    """The verdict on one claim, and its evidence."""

    claim: Claim  #: The claim.
    verdict: Verdict  #: The verdict.
    #: The claimed number at the point where the claim is tightest; None if there is none.
    claimed: float | None = None
    certified: float | None = None  #: The best certified lower bound there; None if there is none.
    #: The quantity of these numbers and where it is taken; None if nothing is claimed.
    quantity: AnyQuantity | None = None
    order: Order | None = None  #: The order of the pair at that point.
    pair: str = ""  #: The construction that certifies.
    pairs_tried: int = 0  #: Number of pairs that were tried.
    pairs_left: int = 0  #: Number of pairs left when the budget ended.
    evidence: Evidence | None = None  #: The kind of evidence; None if there is none.
    #: Bound on the probability that this judgement refutes a true claim; 0 for exact evidence.
    error: float = 0.0
    #: All numbers of the claim; empty if nothing is claimed.
    numbers: tuple[ClaimedNumber, ...] = ()
    #: For a refutation, everything that is needed to verify it.
    witness: Witness | None = None
    #: For a refutation, the answer of ``audit-verify``; empty if it was not asked.
    verification: str = ""
    message: str = ""  #: One line that explains the verdict.
    seconds: float = 0.0  #: Time spent, in seconds.

    def _repr_html_(self) -> str:
        quantity = self.quantity
        label = "claim" if quantity is None else f"{quantity.name}{quantity.at_where}"
        upper = None if self.claim.statement.exceeded else self.claimed  # that is a lower bound
        return display.sandwich(str(self), [Marks(label, self.certified, upper=upper)])

    def __str__(self) -> str:
        """Return the verdict in one line, and the expected one if it differs.

        ``claim 'x' refuted: certified epsilon 1.31 > claimed 1.00 at delta 1e-5``
        """
        expected, ratio = self.claim.expected, self.tightness
        head = f"claim {self.claim.id!r} {self.verdict.value}"
        # an unexpected refutation needs no more words
        if not self.as_expected and self.verdict is not Verdict.REFUTED:
            consistent = self.verdict is Verdict.CONSISTENT
            if isinstance(expected, LooseBy) and consistent and ratio is not None:
                digits = telling(expected.loose_by, ratio, 4)
                loose, most = number(ratio, digits, Rounding.DOWN), expected.loose_by
                head += f" but loose by {loose}, expected at most {most:.{max(6, digits)}g}"
            else:
                head += f", expected {expected.value}"
        return f"{head}: {self._comparison or self.message}"

    @property
    def _comparison(self) -> str:
        """The comparison that decides; empty if the verdict has another reason."""
        claimed, certified, quantity = self.claimed, self.certified, self.quantity
        decided = self.verdict in (Verdict.CONSISTENT, Verdict.REFUTED)
        if claimed is None or certified is None or quantity is None or not decided:
            return ""
        if self.claim.statement.exceeded:
            return ""
        left, right = apart(certified, claimed)
        sign = ">" if certified > claimed else "<="
        return f"certified {quantity.name} {left} {sign} claimed {right}{tidy(quantity.at_where)}"

    @property
    def where(self) -> str:
        """Place of the tightest claim: ``"delta 1e-05"``, ``"order 4"`` or ``"alpha 0.05"``."""
        return "" if self.quantity is None else self.quantity.where

    @property
    def tightness(self) -> float | None:
        """Claimed over certified: 1 is exact, below 1 refuted; None if either is missing."""
        if self.claimed is None or self.certified is None:
            return None
        if self.certified == 0:
            return None if self.claimed == 0 else float("inf")
        return self.claimed / self.certified

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the expected one."""
        expected = self.claim.expected
        if isinstance(expected, Expected):
            return self.verdict.value == expected.value
        ratio = self.tightness
        return (
            self.verdict is Verdict.CONSISTENT and ratio is not None and ratio <= expected.loose_by
        )

    @property
    def mark(self) -> str:
        """The verdict as a check reports it: ok, FAIL, warn or broken."""
        if self.verdict is Verdict.ERROR:
            return "broken"
        if self.as_expected:
            return "ok"
        return "FAIL" if self.claim.severity is Severity.ERROR else "warn"


def witness_of(claim: Claim, bound: LowerBound) -> Witness:
    """Return the witness of a refuted number; ``ValueError`` if the pair cannot be written."""
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
        """Add the bounds that recorded scores certify, at the error ``share.spent``."""
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
    """Add the bounds that the pairs certify, up to the first that refutes unless ``exhaustive``.

    A pair that refutes is always evaluated for all numbers, in both orders.
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
    deadline = Deadline(time.perf_counter() + _DEADLINE_FACTOR * seconds)

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
        if found.bounds and (planned > seconds or time.perf_counter() > deadline.at):
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


def judgement_of(found: Collected) -> Judgement:
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
    """Return why a certified number is wrong, as a theorem that takes no time proves; or ""."""
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

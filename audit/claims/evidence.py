"""Certify a claim's numbers with pairs, within the claim's budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from audit.claims.claim import Budget
from audit.claims.error_shares import ErrorShare
from audit.claims.judgement import Evidence
from audit.claims.known_pairs import Candidates, Deadline, KnownPair, LawTooSlow, NoExactLaw
from audit.claims.sampled import judge_by_draws
from audit.claims.wording import described
from audit.constructions import Construction
from audit.curves import Order
from audit.curves.brackets import BracketError
from audit.curves.quantities import ClaimedNumber

# Estimated times decide which pairs are tried, so that they are the same on every machine; a clock
# stops the work only if an estimate was wrong by this factor.
_PATIENCE = 3.0


@dataclass(frozen=True)
class Finding:
    """The bound that one pair certifies on one claimed number, in one order.

    ``inconclusive`` is why its samples could not have refuted the number; else empty.
    """

    number: ClaimedNumber
    low: float
    high: float
    order: Order
    known: KnownPair
    evidence: Evidence
    inconclusive: str = ""

    @property
    def refutes(self) -> bool:
        """Whether the claimed number is contradicted."""
        return self.number.refuted_by(self.low)

    @property
    def tightness(self) -> tuple[bool, float]:
        """A sort key: refutations first, then the findings closest to the claimed number."""
        return not self.refutes, self.number.ratio(self.low)


@dataclass
class Found:
    """All findings on a claim, and their cost.

    Attributes
    ----------
    findings
        At least one if any pair could be tried.
    tried, left
        Number of pairs that were tried, and number left when the budget ended.
    error
        The error that was spent on samples.
    reasons
        Why pairs gave no evidence.
    fault
        An error with a pair that has a law; no verdict other than a refutation may ignore it.
    """

    findings: list[Finding] = field(default_factory=list)
    tried: int = 0
    left: int = 0
    error: float = 0.0
    reasons: list[str] = field(default_factory=list)
    fault: Exception | None = None

    @property
    def closest(self) -> Finding:
        """The finding that refutes, or comes closest to refuting."""
        return min(self.findings, key=lambda finding: finding.tightness)

    @property
    def refuted(self) -> bool:
        """Whether a number is contradicted."""
        return any(finding.refutes for finding in self.findings)

    @property
    def inconclusive(self) -> str:
        """Why no evidence could have contradicted a number; empty if some could."""
        return self.closest.inconclusive if all(f.inconclusive for f in self.findings) else ""

    def fail(self, known: KnownPair, fault: Exception, before: int) -> None:
        """Record an error with a pair, and drop its findings: those from number ``before`` on."""
        if isinstance(fault, BracketError):
            fault = BracketError(f"{described(known.pair)}: {fault}")
        self.fault = self.fault or fault
        del self.findings[before:]


def evidence(
    candidates: Candidates,
    numbers: Sequence[ClaimedNumber],
    budget: Budget,
    *,
    error: ErrorShare,
    exhaustive: bool,
    search: Callable[[ClaimedNumber], KnownPair | None],
    always_search: bool,
) -> Found:
    """Return the bounds that the pairs certify, up to the first pair that refutes a number.

    Parameters
    ----------
    candidates
        The pairs, in the order in which they are tried.
    numbers
        The claimed numbers.
    budget
        Exact laws are computed while the sum of their estimated times is within its seconds. A pair
        that alone takes longer is sampled if there are trials.
    error
        The error that samples may spend.
    exhaustive
        Whether to try the other pairs after one refutes. A pair that refutes is always evaluated
        for all numbers, in both orders.
    search
        Searches for one more pair, against the number that is closest to being refuted.
    always_search
        Whether to search even if the budget left pairs out.
    """
    found = Found()
    costly: list[KnownPair] = []
    planned = 0.0
    deadline = Deadline(_PATIENCE * budget.seconds)
    for known in candidates.pairs:
        if known.seconds > budget.seconds:
            costly.append(known)
            continue
        planned += known.seconds
        ended = planned > budget.seconds or deadline.passed
        if found.findings and ended:
            found.left += 1
            continue
        before = len(found.findings)
        try:
            until = deadline.at if found.findings else math.inf
            for finding in _exact(candidates, known, numbers, deadline, until):
                found.findings.append(finding)
        except LawTooSlow:
            found.left += 1
        except NoExactLaw as reason:  # earlier findings remain valid
            found.reasons.append(" ".join(str(reason).split()))
            found.tried += len(found.findings) > before
        except (ValueError, ArithmeticError) as fault:
            found.fail(known, fault, before)
        else:
            found.tried += 1
        if found.refuted and not exhaustive:
            return found
    if always_search or not found.left:
        number = found.closest.number if found.findings else numbers[0]
        more = search(number)
        if more is not None:
            before = len(found.findings)
            try:
                for finding in _exact(candidates, more, numbers, deadline, math.inf):
                    found.findings.append(finding)
                found.tried += 1
            except NoExactLaw:
                pass
            except (ValueError, ArithmeticError) as fault:
                found.fail(more, fault, before)
        if found.refuted and not exhaustive:
            return found
    if costly and budget.trials == 0:
        found.left += len(costly)
        found.reasons.append(_too_long(costly, budget))
    elif costly:
        _sample(found, costly, numbers, budget, error, exhaustive)
    return found


def _exact(
    candidates: Candidates,
    known: KnownPair,
    numbers: Sequence[ClaimedNumber],
    deadline: Deadline,
    until: float,
) -> Iterator[Finding]:
    """Yield a pair's bounds on all numbers; nothing if another pair has larger ones.

    A refutation does not stop this: the law is available, and draws may confirm the clearest
    refutation but not the first one, which may rely on rarer events.
    """
    for number in numbers:
        for order in Order:
            bracket = candidates.bracket(known, number.quantity, order, deadline, law_until=until)
            if bracket is not None:
                yield Finding(number, *bracket, order, known, Evidence.EXACT)


def _sample(
    found: Found,
    costly: Sequence[KnownPair],
    numbers: Sequence[ClaimedNumber],
    budget: Budget,
    error: ErrorShare,
    exhaustive: bool,
) -> None:
    # the choice of sampled pairs depends on their sizes only, before any sample is drawn
    share = error.divided(len(costly))
    found.error = error.spent
    for index, known in enumerate(costly):
        pair = known.pair
        assert isinstance(pair, Construction)  # explicit laws take no time
        judged = judge_by_draws(
            pair, numbers, trials=budget.trials, error=share, seed=budget.seed + 2 * index
        )
        found.tried += 1
        found.findings += [
            Finding(number, one.certified, math.inf, one.order, known, Evidence.SAMPLED, one.reason)
            for number, one in zip(numbers, judged, strict=True)
        ]
        if found.refuted and not exhaustive:
            return


def _too_long(costly: Sequence[KnownPair], budget: Budget) -> str:
    least = min(costly, key=lambda known: known.seconds)
    if math.isinf(least.seconds):
        return f"{described(least.pair)} has no exact law, and the budget has no trials"
    return (
        f"the exact law of {described(least.pair)} would take about {least.seconds:.2g} s, "
        f"more than the budget's {budget.seconds:g} s, and the budget has no trials"
    )

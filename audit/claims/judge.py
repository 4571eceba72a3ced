"""The judge: tries to refute a claim, with every error taken against the refutation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from audit import bounds, validate
from audit.claims.claim import Budget, Claim, UserPair
from audit.claims.error_shares import ErrorShare, error_shares, step_down
from audit.claims.evidence import Finding, Found, evidence
from audit.claims.judgement import Evidence, Judgement
from audit.claims.known_pairs import Candidates, KnownPair, KnownPairs, Pair
from audit.claims.score_files import judge_by_samples
from audit.claims.searched import searched_pair
from audit.claims.sources import InvalidClaim, NothingClaimed, claimed_numbers
from audit.claims.user_code import workers_for
from audit.claims.user_pairs import judge_apart
from audit.claims.witness import Witness, describable, witness_of
from audit.claims.wording import described
from audit.claims.work import in_threads, work_order
from audit.constructions import Construction
from audit.constructions.explicit import Repeated
from audit.constructions.explicit_laws import AllIterates
from audit.curves import Order
from audit.curves.brackets import BracketError
from audit.curves.quantities import ClaimedNumber, Quantity
from audit.mechanism import Composition, NoisySGD
from audit.results import Verdict

Progress = Callable[[Judgement], None]


class Shared:
    """Resources shared by claims that are judged together: exact laws, and workers for user code.

    Parameters
    ----------
    files
        The claims files, whose folders are searched for user modules.
    exhaustive
        Whether to try all pairs even after one has refuted a claim.
    """

    def __init__(self, files: Iterable[Path] = (), *, exhaustive: bool = False) -> None:
        self.pairs = KnownPairs()
        self.workers = workers_for(files)
        self.exhaustive = exhaustive

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def expect(self, claims: Iterable[Claim]) -> None:
        """Register claims in advance, so that shared quantities are computed together."""
        found: dict[NoisySGD | Composition | Pair, list[Quantity]] = {}
        for claim in claims:
            subject = claim.mechanism if claim.pair is None else claim.pair
            if subject is not None and not isinstance(subject, UserPair):
                found.setdefault(subject, []).extend(claim.statement.quantities)
        for subject, quantities in found.items():
            self.pairs.expect(subject, quantities)

    def close(self) -> None:
        """Terminate the workers."""
        self.workers.close()


def judge(
    claim: Claim,
    *,
    error: float = 0.05,
    planned_error: float | None = None,
    shared: Shared | None = None,
) -> Judgement:
    """Judge one claim.

    Pairs of neighbouring datasets that fit the mechanism are tried, the exact law of each first. If
    the law would take longer than the budget's seconds and the budget has trials, samples are
    drawn. The number of the claim that is closest to being refuted is reported.

    Parameters
    ----------
    claim : Claim
        The claim and its budget.
    error : float, optional
        Bound, in (0, 1), on the probability that sampled evidence refutes a true claim. Exact
        evidence spends nothing.
    planned_error : float, optional
        Error, in (0, 1), for which tests of samples are planned; by default ``error``.
    shared : Shared, optional
        Resources shared with other claims; by default none.

    Returns
    -------
    Judgement
        ``REFUTED`` only if a certified lower bound exceeds a claimed number. ``CONSISTENT`` if
        pairs were tried and none refutes. ``INCONCLUSIVE`` if no pair could be tried, if samples
        are all that there is and could not have refuted (`audit.estimation.judge_scores`), or, for
        a claim that a mechanism is not private, if neither side is proven. ``NOT_APPLICABLE`` if
        nothing is claimed about this mechanism. ``ERROR`` if the claim cannot be evaluated, or a
        computed number contradicts itself or a theorem; nothing is raised.

    Raises
    ------
    ValueError
        If an error is not in (0, 1).
    """
    planned = error if planned_error is None else planned_error
    validate.open_unit(error=error, planned_error=planned)
    share = ErrorShare(error, planned)
    if shared is not None:
        return _judge(claim, share, shared)
    with Shared(() if claim.location is None else (claim.location.file,)) as own:
        own.expect([claim])
        return _judge(claim, share, own)


def _judge(claim: Claim, error: ErrorShare, shared: Shared) -> Judgement:
    began = time.perf_counter()
    try:
        judgement = _judged(claim, error, shared)
    except NothingClaimed as reason:
        judgement = Judgement(claim=claim, verdict=Verdict.NOT_APPLICABLE, message=str(reason))
    except (InvalidClaim, BracketError) as reason:
        judgement = Judgement(claim=claim, verdict=Verdict.ERROR, message=str(reason))
    except Exception as reason:  # one bad claim must not stop the others
        text = " ".join(f"{type(reason).__name__}: {reason}".split())
        judgement = Judgement(claim=claim, verdict=Verdict.ERROR, message=text)
    return replace(judgement, seconds=time.perf_counter() - began)


def judge_all(
    claims: Sequence[Claim],
    *,
    error: float = 0.05,
    jobs: int = 1,
    progress: Progress | None = None,
    shared: Shared | None = None,
) -> tuple[Judgement, ...]:
    """Judge several claims that share one error budget, in the order of the claims.

    With probability at least 1 - ``error`` no true claim among them is refuted: the claims that may
    draw samples share the error equally (`error_shares`), which is decided before anything is
    drawn. The shares of refuted claims go to the others (`step_down`), whose samples are drawn
    again from the same seeds. Exact evidence spends nothing. ``progress`` is called with the first
    judgement of each claim when it is made, possibly from another thread.
    """
    validate.integer(1, jobs=jobs)
    shares = error_shares(claims, error)
    if not shares:
        return ()
    share = shares[0]
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

    shared.expect(claims)
    order = work_order(claims)
    judged = dict(zip(order, in_threads(one, order, jobs), strict=True))
    return step_down([judged[number] for number in range(len(claims))], error, again)


def judge_numbers(
    claim: Claim, numbers: Sequence[ClaimedNumber], *, batches: range | None, shared: Shared
) -> Judgement:
    """Judge the numbers that a statement claims for the mechanism of a claim.

    Like `judge` without samples, for a statement that was evaluated before.

    Parameters
    ----------
    claim : Claim
        The claim, whose statement is not evaluated; its citation must be given.
    numbers : sequence of ClaimedNumber
        The finite numbers that it claims, at least one.
    batches : range or None
        Batches of the cycle that may hold the differing record; None for any.
    shared : Shared
        Resources shared with other claims.

    Returns
    -------
    Judgement
        The verdict; errors of the evidence are raised.
    """
    mechanism = claim.mechanism
    assert mechanism is not None
    if claim.pair is None:
        candidates = _fitting(mechanism, batches, shared.pairs)
    else:
        assert not isinstance(claim.pair, UserPair)
        candidates = shared.pairs.alone(claim.pair)

    def search(number: ClaimedNumber) -> KnownPair | None:
        return _found(claim, number, batches, shared.pairs)

    return _by_pairs(
        claim, tuple(numbers), candidates, search, error=ErrorShare(0.5, 0.5), shared=shared
    )


def _judged(claim: Claim, error: ErrorShare, shared: Shared) -> Judgement:
    if isinstance(claim.pair, UserPair):
        return judge_apart(
            claim, claim.pair, error, exhaustive=shared.exhaustive, workers=shared.workers
        )
    numbers = claimed_numbers(claim, shared.workers)
    if claim.samples is not None:
        return judge_by_samples(claim, claim.samples, numbers, error)
    candidates = _candidates(claim, shared.pairs)

    def search(number: ClaimedNumber) -> KnownPair | None:
        return _searched(claim, number, shared.pairs)

    return _by_pairs(claim, numbers, candidates, search, error=error, shared=shared)


def _by_pairs(
    claim: Claim,
    numbers: tuple[ClaimedNumber, ...],
    candidates: Candidates,
    search: Callable[[ClaimedNumber], KnownPair | None],
    *,
    error: ErrorShare,
    shared: Shared,
) -> Judgement:
    """Return the verdict that the candidates and the search give."""
    found = evidence(
        candidates,
        numbers,
        claim.budget,
        error=error,
        exhaustive=shared.exhaustive,
        search=search,
        always_search=claim.search is not None,
    )
    if found.fault is not None and not found.refuted:
        raise found.fault
    if not found.findings:
        reason = "; ".join(dict.fromkeys(found.reasons))
        return Judgement(
            claim=claim,
            verdict=Verdict.INCONCLUSIVE,
            claimed=numbers[0].value,
            quantity=numbers[0].quantity,
            numbers=numbers,
            pairs_left=found.left,
            message=reason or "no pair of neighbouring datasets is available for this mechanism",
        )
    closest = found.closest
    verdict, message = _verdict(claim, found)
    contradiction = _contradiction(closest) if closest.refutes else ""
    if contradiction:
        verdict, message = Verdict.ERROR, contradiction
    witness = None
    if verdict is Verdict.REFUTED and closest.refutes:
        witness, lack = _witness(claim, closest)
        message += lack
    return Judgement(
        claim=claim,
        verdict=verdict,
        claimed=closest.number.value,
        certified=closest.low,
        quantity=closest.number.quantity,
        order=closest.order,
        pair=described(closest.known.pair),
        pairs_tried=found.tried,
        pairs_left=found.left,
        evidence=closest.evidence,
        error=found.error,
        numbers=numbers,
        witness=witness,
        message=message,
    )


def _verdict(claim: Claim, found: Found) -> tuple[Verdict, str]:
    closest = found.closest
    quantity, claimed = closest.number.quantity, closest.number.value
    place = f" at {quantity.where}" if quantity.where else ""
    numbers = f"certified {quantity.name} {closest.low:.6g}{place}, claimed {claimed:.6g}"
    if not claim.statement.exceeded:
        if closest.refutes:
            return Verdict.REFUTED, numbers
        if isinstance(closest.known.pair, AllIterates) and closest.high <= claimed:
            # the pair dominates all others, so its upper end is a proof
            proven = f"the dominating pair has at most {closest.high:.6g}"
            return Verdict.CONSISTENT, f"{proven}: {numbers}"
        tried = f"{_unsuccessful(found, claim.budget, 'refute')}: {numbers}"
        if found.inconclusive:
            return Verdict.INCONCLUSIVE, f"{found.inconclusive}; {tried}"
        return Verdict.CONSISTENT, tried
    if closest.refutes:  # the number is exceeded, as claimed
        return Verdict.CONSISTENT, f"a pair exceeds it: {numbers}"
    assert claim.mechanism is not None or claim.pair is not None
    if claim.mechanism is None:
        law = closest.known.law()  # the laws are all that the claim is about
        high = max(quantity.bracket(law, order)[1] for order in Order)
        if high < claimed - closest.number.slack:
            return Verdict.REFUTED, f"the laws have {quantity.name} at most {high:.6g}{place}"
    upper = _least_upper_bound(claim.mechanism, closest.number.quantity)
    if upper is not None and upper[1] < claimed:
        return (
            Verdict.REFUTED,
            f"{upper[0]} proves: {quantity.name} at most {upper[1]:.6g}{place}",
        )
    return Verdict.INCONCLUSIVE, f"{_unsuccessful(found, claim.budget, 'exceed')}: {numbers}"


def _unsuccessful(found: Found, budget: Budget, verb: str) -> str:
    """Return how many pairs did not refute, and how many were left for lack of time."""
    within = f" within {budget.seconds:g} s" if found.left else ""
    left = f" ({found.left} more were left)" if found.left else ""
    if found.tried == 1:
        return f"the pair tried{within} does not {verb} it{left}"
    return f"none of the {found.tried} pairs tried{within} {verb}s it{left}"


def _contradiction(finding: Finding) -> str:
    """Return why a certified number cannot be right, as a theorem proves less; empty if it may.

    Bounds that take seconds are left out.
    """
    pair, quantity = finding.known.pair, finding.number.quantity
    if finding.evidence is not Evidence.EXACT or not isinstance(pair, Construction | AllIterates):
        return ""
    upper = _least_upper_bound(pair.mechanism, quantity, slow=False)
    if upper is None or finding.low <= upper[1]:
        return ""
    place = f" at {quantity.where}" if quantity.where else ""
    return (
        f"certified {quantity.name} {finding.low:.6g}{place} of {described(pair)} in "
        f"{finding.order.value} order exceeds {upper[1]:.6g}, which {upper[0]} proves: "
        "one of the two is wrong"
    )


def _least_upper_bound(
    mechanism: NoisySGD | Composition | None, quantity: Quantity, *, slow: bool = True
) -> tuple[str, float] | None:
    """Return the tightest sound bound of the catalogue on a quantity: its id and its value."""
    if mechanism is None or isinstance(mechanism, Composition):
        return None
    found = []
    for id in bounds.applicable(mechanism):
        entry = bounds.entry(id)
        if entry.status.sound and (slow or not entry.slow):
            value = quantity.upper_bound(entry.evaluate(mechanism))
            if value is not None:
                found.append((value * (1 + 1e-9), id))
    if not found:
        return None
    value, id = min(found)
    return id, value


def _candidates(claim: Claim, known: KnownPairs) -> Candidates:
    """Return the pairs to try: the one that the claim names, or all that fit."""
    mechanism = claim.mechanism
    entry, options = claim.bound
    batches = _allowed_batches(claim)
    if claim.pair is not None:
        assert not isinstance(claim.pair, UserPair)  # judged apart
        runs = 1 if entry is None else entry.released_runs(options)
        return known.alone(_checked_pair(claim, claim.pair, batches, runs))
    if mechanism is None:
        raise InvalidClaim("mechanism or pair must be given, got neither")
    for name in () if entry is None else entry.other_runs:
        if name in options:
            raise InvalidClaim(f"pair must be given for a bound with the option {name!r}")
    return _fitting(mechanism, batches, known)


def _fitting(
    mechanism: NoisySGD | Composition, batches: range | None, known: KnownPairs
) -> Candidates:
    """Return the pairs that fit a mechanism, with their records in one of the allowed batches."""

    def placed(pairs: Iterable[Pair]) -> Iterable[Pair]:
        found = (_placed(pair, batches) for pair in pairs if describable(pair))
        return dict.fromkeys(pair for pair in found if pair is not None)

    return known.candidates(mechanism, batches, placed)


def _searched(claim: Claim, number: ClaimedNumber, known: KnownPairs) -> KnownPair | None:
    """Return the pair that the worst-case search finds for a number; None without a search."""
    entry, options = claim.bound
    if entry is not None and any(name in options for name in entry.other_runs):
        return None
    return _found(claim, number, _allowed_batches(claim), known)


def _found(
    claim: Claim, number: ClaimedNumber, batches: range | None, known: KnownPairs
) -> KnownPair | None:
    found = searched_pair(claim, number.quantity)
    placed = None if found is None else _placed(found, batches)
    return None if placed is None else known.one(placed)


def _allowed_batches(claim: Claim) -> range | None:
    """Return the batches that may contain the record; None for any."""
    entry, options = claim.bound
    if entry is None or not isinstance(claim.mechanism, NoisySGD):
        return None
    return entry.record_scope.batches(claim.mechanism, options)


def _checked_pair(claim: Claim, pair: Pair, batches: range | None, runs: int) -> Pair:
    """Return the pair that a claim names, with its record where the statement requires it.

    Raises ``InvalidClaim`` if the pair cannot test the statement, or a witness cannot hold it.
    """
    if isinstance(pair, Repeated) and pair.times > runs:
        raise InvalidClaim(
            f"Repeated needs a bound on at least {pair.times} tasks, got tasks={runs}"
        )
    if not describable(pair):
        raise InvalidClaim(
            f"pair must have piecewise linear updates, which a witness can describe, "
            f"got {pair.name}"
        )
    mechanism = getattr(pair, "mechanism", None)
    if mechanism is not None and mechanism != claim.mechanism:
        raise InvalidClaim(
            f"pair must be of the claim's mechanism, got {described(pair)} of another"
        )
    placed = _placed(pair, batches)
    if placed is None:
        raise InvalidClaim(
            f"pair must differ in a record that the bound is about, got {described(pair)}"
        )
    return placed


def _placed(pair: Pair, batches: range | None) -> Pair | None:
    """Return the pair with its record in one of the allowed batches; None if it is in another.

    A pair without a given position takes the last allowed one.
    """
    if batches is None or not isinstance(pair, Construction):
        return pair
    if not hasattr(pair, "position"):  # a user's, without a choice of the batch
        return None
    if pair.position is None:
        return replace(pair, position=batches[-1])  # type: ignore[call-arg]
    return pair if pair.position in batches else None


def _witness(claim: Claim, finding: Finding) -> tuple[Witness | None, str]:
    quantity, order = finding.number.quantity, finding.order
    law = finding.known.law() if finding.evidence is Evidence.EXACT else None
    at = quantity.witness_at(None, order)
    if law is not None:
        at = finding.known.witness_at(quantity, order)
    try:
        witness = witness_of(
            claim,
            finding.number,
            at=at,
            pair=finding.known.pair,
            order=finding.order,
            bracket=(finding.low, finding.high),
            evidence=finding.evidence,
            law=law,
        )
    except ValueError as error:
        return None, f" (no witness: {error})"
    return witness, ""

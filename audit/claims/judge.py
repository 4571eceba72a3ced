"""The judge: tries to refute a claim, with every error taken against the refutation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache

from audit import bounds, validate
from audit.claims.candidates import candidate_pairs, named_pair
from audit.claims.claim import Claim, NotPrivate, NotRenyi
from audit.claims.evidence import ExactEvidence, exact_evidence
from audit.claims.judgement import Judgement
from audit.claims.pairs import Pair, described
from audit.claims.places import check_named, check_runs, placed, positions
from audit.claims.points import BadClaim, ClaimsNothing, Point, Quantity, points_of
from audit.claims.sampled import FEWEST_FOR_INTERVALS, exact_seconds, sampled_bounds
from audit.claims.verdicts import Verdict
from audit.claims.witness import Witness, witness_of
from audit.constructions.base import Construction
from audit.mechanism import NoisySGD, Order

Progress = Callable[[Judgement], None]
Compute = Callable[[Pair], ExactEvidence]

_MOST_LAWS = 64  # exact laws that are kept while a file is judged


@dataclass(frozen=True)
class _Finding:
    """What one pair certifies at one point, in one order."""

    point: Point
    low: float
    high: float
    order: Order
    pair: Pair
    kind: str  # of the evidence
    epsilon: float | None = None  # where a mu is proven

    @property
    def refutes(self) -> bool:
        return self.point.refuted_by(self.low)

    @property
    def tightness(self) -> tuple[bool, float]:
        """Sorts refutations first, then what comes closest to the claimed number."""
        return not self.refutes, self.point.ratio(self.low)


def judge(claim: Claim, *, error: float = 0.05) -> Judgement:
    """Judge one claim.

    Pairs of neighbouring datasets that fit the mechanism are tried, the exact law of each first;
    where that would take longer than the budget's seconds and the budget has trials, samples are
    drawn. Of all numbers of the claim the one that comes closest to being refuted is reported.

    Parameters
    ----------
    claim
        What is claimed, of what, and what may be spent.
    error
        In (0, 1): the probability with which sampled evidence may refute a true claim. Exact
        evidence spends nothing.

    Returns
    -------
    Judgement
        ``REFUTED`` only if a certified lower bound is above a claimed number. ``CONSISTENT`` if
        pairs were tried and none refutes. ``INCONCLUSIVE`` if none could be tried, or, for a claim
        that a mechanism is not private, if neither side is proven. ``NOT_APPLICABLE`` if nothing
        is claimed of this mechanism. ``ERROR`` if the claim cannot be evaluated; nothing is raised.

    Raises
    ------
    ValueError
        If ``error`` is not in (0, 1).
    """
    validate.open_unit(error=error)
    return _judge(claim, error, exact_evidence)


def _judge(claim: Claim, error: float, compute: Compute) -> Judgement:
    began = time.perf_counter()
    try:
        judgement = _judged(claim, error, compute)
    except ClaimsNothing as reason:
        judgement = Judgement(claim=claim, verdict=Verdict.NOT_APPLICABLE, message=str(reason))
    except BadClaim as reason:
        judgement = Judgement(claim=claim, verdict=Verdict.ERROR, message=str(reason))
    except Exception as reason:  # one bad claim must not keep the others from being judged
        text = " ".join(f"{type(reason).__name__}: {reason}".split())
        judgement = Judgement(claim=claim, verdict=Verdict.ERROR, message=text)
    return replace(judgement, seconds=time.perf_counter() - began)


def judge_all(
    claims: Sequence[Claim],
    *,
    error: float = 0.05,
    jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[Judgement, ...]:
    """Judge many claims that share one error budget; judgements in the order of the claims.

    With probability at least 1 - ``error`` no true claim of them all is refuted: the claims that
    may draw samples share the error equally (`error_shares`), which is settled before anything is
    drawn. Exact evidence spends nothing. ``progress`` is called with each judgement when it is
    made, possibly from another thread.
    """
    validate.integer(1, jobs=jobs)
    shares = error_shares(claims, error)
    # claims often share a mechanism, and then all its pairs
    compute = lru_cache(maxsize=_MOST_LAWS)(exact_evidence)

    def one(task: tuple[Claim, float]) -> Judgement:
        judgement = _judge(*task, compute)
        if progress is not None:
            progress(judgement)
        return judgement

    with ThreadPoolExecutor(jobs) as pool:
        return tuple(pool.map(one, zip(claims, shares, strict=True)))


def error_shares(claims: Sequence[Claim], error: float) -> tuple[float, ...]:
    """Return what each claim may spend of an error budget: equal parts for those with trials.

    A union bound over the claims that may be sampled (Bonferroni); how many there are is written in
    the claims, so nothing depends on what the samples say. Claims without trials get the same
    number and cannot spend it.
    """
    validate.open_unit(error=error)
    sampled = sum(claim.budget.trials > 0 for claim in claims)
    return (error / max(sampled, 1),) * len(claims)


def _judged(claim: Claim, error: float, compute: Compute) -> Judgement:
    points = points_of(claim)
    findings, untried, spent = _evidence(claim, points, error, compute)
    if not findings:
        reason = untried or "no pair of neighbouring datasets is at hand for this mechanism"
        return Judgement(
            claim=claim,
            verdict=Verdict.INCONCLUSIVE,
            claimed=points[0].claimed,
            where=points[0].where,
            message=reason,
        )
    closest = min(findings, key=lambda finding: finding.tightness)
    verdict, message = _verdict(claim, closest)
    witness = None
    if verdict is Verdict.REFUTED and closest.refutes:
        witness, lack = _witness(claim, closest)
        message += lack
    return Judgement(
        claim=claim,
        verdict=verdict,
        claimed=closest.point.claimed,
        certified=closest.low,
        where=closest.point.where,
        order=closest.order,
        pair=described(closest.pair),
        evidence=closest.kind,
        error=spent,
        witness=witness,
        message=message,
    )


def _verdict(claim: Claim, closest: _Finding) -> tuple[Verdict, str]:
    name, where = closest.point.quantity.value, closest.point.where
    place = f" at {where}" if where else ""
    numbers = f"certified {name} {closest.low:.6g}{place}, claimed {closest.point.claimed:.6g}"
    if not isinstance(claim.statement, NotRenyi | NotPrivate):
        if closest.refutes:
            return Verdict.REFUTED, numbers
        return Verdict.CONSISTENT, f"no pair tried refutes it: {numbers}"
    if closest.refutes:  # the number that the claim says is exceeded
        return Verdict.CONSISTENT, f"a pair exceeds it: {numbers}"
    assert claim.mechanism is not None or claim.pair is not None
    upper = _least_upper_bound(claim.mechanism, closest.point)
    if upper is not None and upper[1] < closest.point.claimed:
        return Verdict.REFUTED, f"{upper[0]} proves: {name} at most {upper[1]:.6g}{place}"
    return Verdict.INCONCLUSIVE, f"no pair tried exceeds it: {numbers}"


def _least_upper_bound(mechanism: NoisySGD | None, point: Point) -> tuple[str, float] | None:
    """Return the sound bound of the catalogue that says least at a point, and what it says."""
    if mechanism is None or point.at is None:
        return None
    found = []
    for id in bounds.applicable(mechanism):
        entry = bounds.entry(id)
        if entry.status.sound:
            curve = entry.evaluate(mechanism)
            ask = curve.epsilon if point.quantity is Quantity.EPSILON else curve.renyi
            found.append((float(ask(point.at)) * (1 + 1e-9), id))
    if not found:
        return None
    value, id = min(found)
    return id, value


def _evidence(
    claim: Claim, points: Sequence[Point], error: float, compute: Compute
) -> tuple[list[_Finding], str, float]:
    """Return all findings, why pairs were left out, and the error that was spent."""
    deadline = time.perf_counter() + claim.budget.seconds
    findings: list[_Finding] = []
    costly: list[Construction] = []
    failures: list[str] = []
    reached: dict[Point, float] = {}
    for pair in _pairs(claim):
        left = deadline - time.perf_counter()
        if (findings or costly) and left <= 0:
            break
        if isinstance(pair, Construction) and exact_seconds(pair) > claim.budget.seconds:
            costly.append(pair)
            continue
        try:
            evidence = compute(pair)
        except ValueError as reason:  # no law to be had at this precision
            failures.append(" ".join(str(reason).split()))
            continue
        findings += _exact_findings(pair, evidence, points, reached)
    if not costly or claim.budget.trials == 0:
        if costly:
            failures.append("exact laws would take longer than the budget's seconds")
        return findings, "; ".join(dict.fromkeys(failures)), 0.0
    # which pairs are sampled is settled by their sizes, before any sample is drawn
    share = error / len(costly)
    kind = "sampled" if claim.budget.trials >= FEWEST_FOR_INTERVALS else "sequential"
    for number, pair in enumerate(costly):
        lows = sampled_bounds(
            pair,
            points,
            trials=claim.budget.trials,
            error=share,
            seed=claim.budget.seed + 2 * number,
        )
        findings += [
            _Finding(point, low, math.inf, order, pair, kind)
            for point, (low, order) in zip(points, lows, strict=True)
        ]
    return findings, "", error


def _exact_findings(
    pair: Pair, evidence: ExactEvidence, points: Sequence[Point], reached: dict[Point, float]
) -> list[_Finding]:
    """Return what a pair certifies; nothing where another one has ``reached`` more."""
    findings = []
    for point in points:
        for order in Order:
            if point in reached and not evidence.exceeds(point, order, reached[point]):
                continue
            low, high = evidence.bracket(point, order)
            reached[point] = max(low, reached.get(point, 0.0))
            finding = _Finding(point, low, high, order, pair, "exact")
            if point.quantity is Quantity.MU and finding.refutes:
                finding = replace(finding, epsilon=evidence.mu_place(order))
            findings.append(finding)
    return findings


def _pairs(claim: Claim) -> Iterator[Pair]:
    mechanism, statement = claim.mechanism, claim.statement
    allowed = None if mechanism is None else positions(statement, mechanism)
    if claim.pair is None:
        if mechanism is None:
            raise BadClaim("mechanism or pair must be given, got neither")
        check_runs(statement)
        seen: set[Pair | None] = {None}
        for candidate in candidate_pairs(mechanism):
            pair = placed(candidate, allowed)
            if pair is not None and pair not in seen:
                seen.add(pair)
                yield pair
        return
    check_named(statement, *claim.pair)
    try:
        named = named_pair(mechanism, *claim.pair)
    except ValueError as error:
        raise BadClaim(" ".join(str(error).split())) from None
    there = placed(named, allowed)
    if there is None:
        raise BadClaim(
            f"pair must differ in a record that the bound is about, got {described(named)}"
        )
    yield there


def _witness(claim: Claim, finding: _Finding) -> tuple[Witness | None, str]:
    try:
        witness = witness_of(
            claim,
            finding.point,
            pair=finding.pair,
            order=finding.order,
            bracket=(finding.low, finding.high),
            evidence=finding.kind,
            epsilon=finding.epsilon,
        )
    except ValueError as error:
        return None, f" (no witness: {error})"
    return witness, ""

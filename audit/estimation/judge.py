"""Judge claims by scores, with one rule for every way of recording them.

A claim is *refuted* if the certified lower bound exceeds it. Otherwise it is *consistent* only if
the audit could have refuted it, and *inconclusive* if not:

- **Reach.** Scores that separate the two sides perfectly, as many and at the same confidence, do
  not certify more than the claim.
- **Information.** The same audit at confidence 0.999, or its own if that is higher, does not
  certify that the two sides have different laws (its bound on epsilon at delta 0 is 0; for
  e-processes, at every delta of the claims), or scores lie significantly against a declared
  direction, even if a rare event favours it.

The rule only ever turns "consistent" into "inconclusive": true claims are refuted as often as the
estimators do. If both sides have one law, "consistent" has probability at most 0.001.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from audit import validate
from audit.adapters.scores import CanaryScores
from audit.curves import Order
from audit.curves.quantities import ClaimedNumber as ClaimedNumber
from audit.curves.quantities import EpsilonAtDelta
from audit.estimation.one_run import Canaries
from audit.estimation.one_run_scores import OneRunAudit, audit_one_run
from audit.estimation.result import Audit, pair_deltas
from audit.estimation.samples import audit_samples
from audit.estimation.score_source import (
    Columns,
    CombinedColumns,
    LinearScore,
    ScoreSource,
    WeightedColumns,
    combine,
    sample,
)
from audit.estimation.sequential import EProcesses
from audit.estimation.verdicts import UserClaim, Verdict, user_claim
from audit.numerics import display
from audit.numerics.arrays import Array
from audit.numerics.display import Marks, ShortRepr

AnyAudit = Audit | EProcesses | OneRunAudit

_EQUALITY_ERROR = 0.001  # at which the sides are certified to differ, if the audit's is larger
_FEW_SCORES, _COMMON_SHARE = 10, 0.9  # distinct scores of labels, and a share of all
# Standard errors by which scores lie the other way; scores of the right sign never do.
_REVERSED_DEVIATIONS = 5.0
_ORDER_DEVIATIONS = 5.0  # by which scores are more like the next ones than independent draws


@dataclass(frozen=True)
class JudgedClaim:
    """The verdict on one claim."""

    claim: ClaimedNumber
    verdict: Verdict  # REFUTED, CONSISTENT or INCONCLUSIVE
    certified: float  # the certified lower bound, for one record
    order: Order  # the order of the pair that gives it
    largest: float  # the bound that as many perfectly separated scores would certify
    reason: str  # why the claim is inconclusive, in one line; otherwise empty


@dataclass(frozen=True, eq=False)
class JudgedScores(ShortRepr):
    """The verdicts on claims, in their order, and the audit that they rest on."""

    claims: tuple[JudgedClaim, ...]  #: The verdicts; the object itself is iterated over them.
    audit: AnyAudit  #: The bounds, which hold simultaneously.
    x: Array  #: The certifying scores of the first side, one per run or per canary.
    x_prime: Array  #: Those of the other side.
    #: How several numbers per run were combined; None if there was one.
    columns: CombinedColumns | None
    uninformative: str  #: Why the scores could refute no claim, in one line; empty if they could.

    def _repr_html_(self) -> str:
        marks = []
        for one in self.claims:
            quantity = one.claim.quantity
            label = f"{quantity.name}{quantity.at_where}"
            marks.append(Marks(label, one.certified, upper=one.claim.value))
        return display.sandwich(", ".join(one.verdict.value for one in self.claims), marks)

    def __iter__(self) -> Iterator[JudgedClaim]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def __getitem__(self, number: int) -> JudgedClaim:
        return self.claims[number]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts, in the order of the claims."""
        return tuple(one.verdict for one in self.claims)


def judge_scores(
    scores: ScoreSource | CanaryScores | tuple[ArrayLike, ArrayLike],
    claims: Sequence[ClaimedNumber | UserClaim | tuple[float, float]],
    *,
    confidence: float,
    seed: int = 0,
    deltas: Sequence[float] = (),
    favours: Order | None = None,
    columns: Columns | None = None,
    group_size: int = 1,
    anytime: bool = False,
    canaries: Canaries | None = None,
    planned_delta: float | None = None,
    planned_confidence: float | None = None,
) -> JudgedScores:
    """Judge claims by scores: the rule behind claims files, scenarios and `audit.training`.

    Parameters
    ----------
    scores : ScoreSource, CanaryScores or (array_like, array_like)
        Scores of independent runs on the two datasets: (x, x_prime), or a source of them. With
        ``canaries``, the scores of many canaries and their coins.
    claims : sequence of ClaimedNumber, UserClaim or (float, float)
        The claims; a pair is (epsilon, delta).
    confidence : float
        Confidence level of all bounds together, in (0, 1).
    seed : int, optional
        Seed of ties, random splits and drawn scores. To be chosen before looking at the data.
    deltas : sequence of float, optional
        More deltas whose bounds share the error.
    favours, columns : Order, Columns, optional
        As for `audit_samples`: a direction known beforehand, and how several numbers are combined.
    group_size : int, optional
        Number of records in which the datasets differ. Claims are about one record.
    anytime : bool, optional
        Whether the number of runs was open: e-processes certify x and x_prime, pairs in order.
        Groups of records, and columns other than `WeightedColumns`, need a fixed number.
    canaries : Canaries, optional
        The assumption about many canaries of one run; see `audit_one_run`.
    planned_delta : float, optional
        The delta for which the guesses about canaries are chosen; by default the first claim's.
    planned_confidence : float, optional
        As for `audit_samples`.

    Returns
    -------
    JudgedScores
        The verdicts; a true claim is refuted with probability at most 1 - confidence.

    Raises
    ------
    ValueError
        If the scores cannot be had, there are too few, or an argument is out of its range.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> x, x_prime = generator.normal(2.0, size=1000), generator.normal(0.0, size=1000)
    >>> judged = judge_scores((x, x_prime), [(2.0, 1e-5), (9.0, 1e-5)], confidence=0.95)
    >>> [one.verdict.value for one in judged]
    ['refuted', 'inconclusive']
    >>> judged[1].reason
    'this many scores certify at most 5.8, whatever their values'
    """
    claims = validate.listed("pairs (epsilon, delta)", claims=claims)
    made = tuple(_claim(claim, f"claims[{i}]") for i, claim in enumerate(claims))
    if not made:
        raise validate.fail("claims", "one or more", claims)
    deltas = validate.listed("numbers in [0, 1)", deltas=deltas)
    validate.open_unit(confidence=confidence)
    validate.instance(bool, anytime=anytime)
    if planned_delta is not None:
        validate.half_open_unit(planned_delta=planned_delta)
    strict = max(confidence, 1 - _EQUALITY_ERROR)
    if (anytime or canaries is not None) and group_size != 1:
        raise validate.fail("group_size", "1 with anytime or canaries", group_size)
    if canaries is not None:
        if anytime or columns is not None:
            raise ValueError("anytime and columns must be left out with canaries, got one of them")
        return _one_run(scores, made, canaries, planned_delta, (confidence, strict), seed)
    if isinstance(scores, ScoreSource):
        x, x_prime = scores.draw(seed)
    elif isinstance(scores, CanaryScores):
        x, x_prime = scores.x, scores.x_prime
    else:
        given = _pair_of("(x, x_prime) or a source of scores", scores)
        x, x_prime = sample("x", given[0]), sample("x_prime", given[1])
    validate.same_precision(x=x, x_prime=x_prime)
    asked = (one.quantity.at for one in made if isinstance(one.quantity, EpsilonAtDelta))
    named = sorted({*deltas, *asked}, reverse=True)
    combined = None
    if x.ndim > 1 or x_prime.ndim > 1 or columns is not None:
        if anytime and not isinstance(columns, WeightedColumns):
            raise validate.fail("columns", "WeightedColumns with anytime", columns)
        x, x_prime, combined = combine(
            x,
            x_prime,
            columns=columns or LinearScore(),
            seed=seed,
            delta=min(pair_deltas(named, group_size), default=0.0),
        )
        if combined.towards_first:  # a learned score, whatever its columns do
            favours = Order.FORWARD

    if anytime:
        _check_order(x=x, x_prime=x_prime)

    def audited(x: Array, x_prime: Array, confidence: float) -> Audit | EProcesses:
        if anytime:
            tests = EProcesses([(one.value, _delta(one)) for one in made], confidence)
            tests.update(x, x_prime)
            return tests
        return audit_samples(
            x,
            x_prime,
            confidence=confidence,
            seed=seed,
            deltas=named,
            favours=favours,
            group_size=group_size,
            planned_confidence=planned_confidence,
        )

    found = audited(x, x_prime, confidence)
    best = audited(*separated(x.size, x_prime.size, favours), confidence)
    differ = found if strict == confidence else audited(x, x_prime, strict)
    if isinstance(found, Audit):
        found = replace(found, columns=combined)
    else:
        favours = None  # both directions are tested
    tested = (0.0,) if isinstance(differ, Audit) else differ.deltas
    informative = any(differ.epsilon_lower(delta) > 0 for delta in tested)
    sides = (x, x_prime) if favours is not Order.REVERSE else (x_prime, x)
    why = _uninformative(*sides, directed=favours is not None, informative=informative)
    verdicts = tuple(_judged(one, found, _bound(best, one)[0], why) for one in made)
    return JudgedScores(verdicts, found, x, x_prime, combined, why)


def distinct_if_few(scores: Array) -> int:
    """Return the number of distinct scores if runs seem to count twice, else 0."""
    distinct = np.unique(scores).size
    labels = distinct <= _FEW_SCORES and np.all(scores == np.round(scores))
    return 0 if labels or distinct >= _COMMON_SHARE * scores.size else distinct


def _check_order(**sides: Array) -> None:
    """Refuse scores of which each resembles the next one, in value or in size."""
    from scipy.stats import rankdata  # takes a while to import

    for name, scores in sides.items():
        if 2 * np.unique(scores).size < scores.size:
            continue  # ranks of labels may follow each other by chance
        centred = rankdata(scores) - (scores.size + 1) / 2
        sizes = np.abs(centred) - np.mean(np.abs(centred))
        for ranks in (centred, sizes):
            alike = ranks[1:] @ ranks[:-1] * math.sqrt(scores.size)
            if alike > _ORDER_DEVIATIONS * (ranks @ ranks):
                requirement = "independent draws in the order of the runs"
                raise ValueError(f"{name} must be {requirement}, got each like the one before it")


def separated(first: int, second: int, favours: Order | None = None) -> tuple[Array, Array]:
    """Return scores that tell without error which dataset they belong to."""
    high = 0.0 if favours is Order.REVERSE else 1.0
    return np.full(first, high), np.full(second, 1.0 - high)


def _one_run(
    scores: ScoreSource | CanaryScores | tuple[ArrayLike, ArrayLike],
    claims: tuple[ClaimedNumber, ...],
    canaries: Canaries,
    planned_delta: float | None,
    confidences: tuple[float, float],
    seed: int,
) -> JudgedScores:
    """Judge by many canaries of one run, each included by a fair coin."""
    if isinstance(scores, CanaryScores):
        seen, coins = scores.scores, scores.member
    else:
        seen, coins = _pair_of("(scores, coins) or CanaryScores for many canaries", scores)
    planned = _delta(claims[0]) if planned_delta is None else planned_delta
    found, differ = (
        audit_one_run(seen, coins, delta=planned, confidence=one, seed=seed, canaries=canaries)
        for one in confidences
    )
    flat, included = np.ravel(np.asarray(seen, dtype=np.float64)), np.ravel(coins).astype(np.bool_)
    sides = flat[included], flat[~included]
    why = _uninformative(*sides, directed=True, informative=differ.epsilon_lower(0.0) > 0)
    verdicts = tuple(_judged(one, found, found.epsilon_limit(_delta(one)), why) for one in claims)
    return JudgedScores(verdicts, found, *sides, None, why)


def _pair_of(requirement: str, scores: object) -> tuple[Any, Any]:
    """Return the parts of scores that are given as a pair; refuse what is no pair."""
    if not isinstance(scores, tuple | list | np.ndarray) or len(scores) != 2:
        raise validate.fail("scores", requirement, scores)
    return scores[0], scores[1]


def _claim(claim: ClaimedNumber | UserClaim | tuple[float, float], name: str) -> ClaimedNumber:
    if isinstance(claim, ClaimedNumber):
        return claim
    made = user_claim(claim, name)
    return ClaimedNumber(EpsilonAtDelta(float(made.delta)), float(made.epsilon))


def _delta(claim: ClaimedNumber) -> float:
    if not isinstance(claim.quantity, EpsilonAtDelta):
        raise validate.fail("claims", "epsilons at a delta for this kind of scores", claim)
    return claim.quantity.at


def _bound(audit: AnyAudit, claim: ClaimedNumber) -> tuple[float, Order]:
    """Return the certified lower bound on a claimed number, and the order that gives it."""
    if not isinstance(audit, Audit):
        return audit.epsilon_lower(_delta(claim)), Order.FORWARD
    return claim.quantity.sampled_bound(audit)


def _judged(claim: ClaimedNumber, audit: AnyAudit, largest: float, why: str) -> JudgedClaim:
    certified, order = _bound(audit, claim)
    if claim.refuted_by(certified):
        return JudgedClaim(claim, Verdict.REFUTED, certified, order, largest, "")
    reason = why
    if not claim.refuted_by(largest):
        reason = f"this many scores certify at most {largest:.3g}, whatever their values"
    verdict = Verdict.INCONCLUSIVE if reason else Verdict.CONSISTENT
    return JudgedClaim(claim, verdict, certified, order, largest, reason)


def _uninformative(first: Array, second: Array, *, directed: bool, informative: bool) -> str:
    """Return why scores could refute nothing; high scores of ``first`` if ``directed``."""
    both = np.concatenate([first, second])
    if np.all(both == both[0]):
        return "all scores are equal, so they carry no information"
    if directed and first.size and second.size:
        from scipy.stats import rankdata  # takes a while to import

        # means detect a few large scores, ranks detect shifts under heavy tails
        scaled = both / np.max(np.abs(both))  # sums of large scores would overflow
        sides = np.split(np.stack([scaled, rankdata(both)]), [first.size], axis=1)
        gap = np.mean(sides[0], axis=1) - np.mean(sides[1], axis=1)
        error = np.hypot(*(np.std(side, axis=1) / math.sqrt(side.shape[1]) for side in sides))
        if np.any(gap < -_REVERSED_DEVIATIONS * error):
            return "scores are low where they should be high: return minus the score"
    if not informative:
        return (
            "no difference between the scores of both sides is certified, and a training that "
            "never includes its canary looks like this: audit with less noise, which must be "
            "refuted, or run more often"
        )
    return ""

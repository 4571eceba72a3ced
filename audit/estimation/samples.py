"""Lower bounds on privacy loss from two samples of scores, and the number of scores they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from audit import validate
from audit.curves import Order, PrivacyCurve
from audit.estimation.order_statistics import OrderStatistics
from audit.estimation.pilot_split import PilotSplit
from audit.estimation.regions import Rates
from audit.estimation.result import AnyThresholds, Audit, pair_deltas
from audit.estimation.score_source import Columns, LinearScore, combine
from audit.estimation.thresholds import (
    EventRates,
    FixedThresholds,
    Question,
    Summary,
    Thresholds,
    certified_counts,
)

MIN_FOR_PILOT = 20_000  # scores from which on a pilot split is at least as tight as fixed ranks
# Sample sizes of normal approximations, such as those of statsmodels for two proportions, are too
# small: for randomised response of epsilon 0.2 against 0 they promise power 0.8 from 310 runs a
# side, where the audit has 0.42 and needs 718.
_MIN_TRIALS = 10
_RATIO = 1.01  # the number of trials is accurate to one per cent
_TRIALS_GROWTH = 4


def audit_samples(
    samples: ArrayLike,
    samples_prime: ArrayLike,
    *,
    confidence: float,
    seed: int | None = None,
    deltas: Sequence[float] = (),
    favours: Order | None = None,
    thresholds: AnyThresholds | None = None,
    columns: Columns | None = None,
    group_size: int = 1,
    planned_confidence: float | None = None,
) -> Audit:
    """Certify lower bounds on the privacy loss of a pair from independent samples of both laws.

    The error 1 - confidence is divided between tests, and ``thresholds`` decides how these are
    chosen. By default they are `OrderStatistics`, tightest with few scores, if either sample has
    fewer than 20,000 scores, and otherwise a `PilotSplit`, tightest for one delta. With the others,
    `SimultaneousBand` and `FixedThresholds` (whose counts add up, see `Summary`), all scores
    certify.

    Parameters
    ----------
    samples, samples_prime : array_like
        Scores of the first and of the second mechanism of the pair, shapes (n,) and (n',), at least
        4 each for a pilot split: independent draws, finite, ties allowed. Scores must not have been
        fitted to these draws. Only events of high or of low scores are tested, so a good score is
        monotone in the likelihood ratio.
    confidence : float
        Confidence level of all bounds together, in (0, 1).
    seed : int, optional
        Seed of the pilot split, or of tie-breaking at order statistics; both need one, a
        non-negative integer. Choose it before looking at the data: trying several seeds and keeping
        the largest bound invalidates the confidence level. A pilot split should have another one
        than the generator that drew the samples.
    deltas : sequence of float, optional
        The deltas, in [0, 1), that the result reports. With a pilot split each has its own tests
        and its own part of the error. Any other delta is answered too, from all tests together.
    favours : Order, optional
        The law that high scores can only favour, if known before looking at the data: FORWARD for
        the first, for example if ``samples`` are scores of an included record; REVERSE for the
        second. Events against it are not tested, and the others get their error. A wrong
        declaration costs power, never validity. By default either.
    thresholds : OrderStatistics, PilotSplit, SimultaneousBand or FixedThresholds, optional
        How thresholds are chosen; by default `OrderStatistics` or `PilotSplit`, whichever is
        tighter for this many scores.
    columns : LinearScore, BestColumn, LearnedColumns or WeightedColumns, optional
        How several numbers per run, shapes (n, d) and (n', d), are combined into one score. All but
        the last one use a part of the runs for the choice, which certifies nothing, and need a
        seed.
    group_size : int, optional
        Number of records in which the two datasets differ. The bounds are for the pair;
        `Audit.per_record_epsilon_lower` gives the bound for one record, and ``deltas`` are those of
        one record.
    planned_confidence : float, optional
        Confidence for which a pilot chooses the tests; by default ``confidence``. Audits of the
        same samples at several confidences make the same tests if this is the same.

    Returns
    -------
    Audit
        The bounds. With probability at least ``confidence`` all its lower bounds, for all arguments
        simultaneously, are at most the true values.

    Raises
    ------
    ValueError
        If a sample is empty, not finite or too short, a number is out of its range, a delta is
        named twice, ``seed`` is missing, or ``favours`` contradicts that of ``thresholds``.

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> scores = generator.normal(2.0, 1.0, size=1000)  # the pair is 2-GDP: epsilon(1e-5) = 10.0
    >>> scores_prime = generator.normal(0.0, 1.0, size=1000)
    >>> found = audit_samples(scores, scores_prime, confidence=0.95, seed=1, deltas=[1e-5])
    >>> round(found.epsilon_lower(1e-5), 2), round(found.mu_lower(), 2)
    (3.31, 1.87)
    """
    if thresholds is not None and not isinstance(thresholds, AnyThresholds):
        requirement = "an OrderStatistics, PilotSplit, SimultaneousBand or FixedThresholds"
        raise validate.fail("thresholds", requirement, thresholds)
    validate.integer(1, group_size=group_size)
    named, combined = _named(deltas), None
    record_deltas: tuple[float, ...] = ()
    if group_size > 1:
        named, record_deltas = pair_deltas(named, group_size), named
    # ragged samples have no dimension, and are refused below
    if columns is not None or getattr(validate.real_numbers(samples=samples), "ndim", 0) == 2:
        delta = min(named, default=0.0)
        samples, samples_prime, combined = combine(
            samples, samples_prime, columns=columns or LinearScore(), seed=seed, delta=delta
        )
        if favours is None and thresholds is None and combined.towards_first:
            favours = Order.FORWARD
    first = validate.real_sample(samples=samples)
    second = validate.real_sample(samples_prime=samples_prime)
    validate.same_precision(samples=samples, samples_prime=samples_prime)
    size = min(first.size, second.size)
    choice = default_thresholds(size) if thresholds is None else thresholds
    if favours is not None:
        validate.instance(Order, favours=favours)
        if favours not in choice.favours:
            known = ", ".join(order.value for order in choice.favours)
            raise validate.fail("favours", f"one of those of thresholds ({known})", favours.value)
        choice = replace(choice, favours=(favours,))
    validate.open_unit(confidence=confidence)
    planned = confidence if planned_confidence is None else planned_confidence
    validate.open_unit(planned_confidence=planned)
    if seed is not None:
        validate.integer(0, seed=seed)
    question = Question(
        first=first,
        second=second,
        error=1 - float(confidence),
        planned_error=1 - float(planned),
        deltas=named,
        seed=None if seed is None else int(seed),
    )
    return Audit(
        confidence=float(confidence),
        deltas=named,
        seed=question.seed,
        thresholds=choice,
        columns=combined,
        group_size=int(group_size),
        record_deltas=record_deltas,
        **vars(choice.certify(question)),
    )


def audit_counts(
    summary: Summary,
    *,
    confidence: float,
    deltas: Sequence[float] = (),
    favours: Sequence[Order] = (Order.FORWARD, Order.REVERSE),
    rates: Rates = Rates.SEPARATE,
) -> Audit:
    """Certify lower bounds on the privacy loss of a pair from counts at fixed thresholds.

    Equivalent to `audit_samples` with ``FixedThresholds(summary.thresholds, favours, rates)`` on
    all counted scores.

    Parameters
    ----------
    summary : Summary
        The counts of all blocks, added up.
    confidence, deltas : float, sequence of float, optional
        As for `audit_samples`.
    favours, rates : sequence of Order, Rates, optional
        Fields of `FixedThresholds`, to be chosen before looking.

    Returns
    -------
    Audit
        The bounds.

    Raises
    ------
    ValueError
        As for `audit_samples`, or if either law has no scores.

    Examples
    --------
    >>> from audit.estimation import Summary
    >>> counts = Summary(
    ...     thresholds=(1.0,), first=(833,), first_total=1000, second=(161,), second_total=1000
    ... )
    >>> round(audit_counts(counts, confidence=0.95).epsilon_lower(0.0), 2)
    1.45
    """
    validate.instance(Summary, summary=summary)
    validate.integer(1, first_total=summary.first_total, second_total=summary.second_total)
    validate.open_unit(confidence=confidence)
    choice = FixedThresholds(summary.thresholds, tuple(favours), rates)
    return Audit(
        confidence=float(confidence),
        deltas=_named(deltas),
        seed=None,
        thresholds=choice,
        **vars(certified_counts(choice, summary, 1 - float(confidence))),
    )


def default_thresholds(size: int) -> OrderStatistics | PilotSplit:
    """Return the tighter choice for ``size`` scores, which carry no information about the laws."""
    return OrderStatistics() if size < MIN_FOR_PILOT else PilotSplit()


def _named(deltas: Sequence[float]) -> tuple[float, ...]:
    values = validate.listed("a sequence of numbers in [0, 1)", deltas=deltas)
    for delta in values:
        validate.half_open_unit(deltas=delta)
    named = tuple(float(delta) for delta in values)
    if len(set(named)) < len(named):
        raise validate.fail("deltas", "distinct", named)
    return named


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """The number of trials that refute a claim about an assumed mechanism."""

    epsilon: float  #: The claimed epsilon.
    delta: float  #: Its delta.
    confidence: float  #: Confidence level of the audit.
    power: float  #: The requested probability of refuting.
    true_epsilon: float  #: Epsilon of the assumed mechanism at ``delta``.
    trials: int | None  #: Runs on each of the two datasets; None if no allowed number refutes.
    #: The probability of refuting with ``trials`` runs, or with the largest allowed number; 0 if
    #: the claim is true.
    reached: float
    #: How `audit_samples` chooses thresholds for that many runs; empty if the claim is true.
    strategy: str

    @property
    def refutable(self) -> bool:
        """Whether the claim is false for the assumed mechanism."""
        return self.true_epsilon > self.epsilon


def plan(
    assumed: PrivacyCurve,
    *,
    epsilon: float,
    delta: float,
    confidence: float,
    power: float = 0.8,
    directed: bool = False,
    thresholds: AnyThresholds | None = None,
    largest: int = 10**8,
) -> TrialPlan:
    """Return the number of trials that refutes "epsilon at delta" with a given power.

    Parameters
    ----------
    assumed : PrivacyCurve
        The privacy curve of the two laws of the score, such as ``GaussianCurve(mu)``,
        ``PureCurve(epsilon)`` (randomised response) or the exact curve of a pair. Scores are
        assumed to rank outcomes by their likelihood ratio, as an optimal attack does.
    epsilon, delta : float
        The claim: epsilon at least 0, delta in [0, 1).
    confidence : float
        Confidence level of the audit, in (0, 1).
    power : float, optional
        The probability of refuting the claim, in (0, 1).
    directed : bool, optional
        Whether the audit is told in advance which law has the larger scores (``favours`` of
        `audit_samples`).
    thresholds : OrderStatistics, PilotSplit or SimultaneousBand, optional
        How thresholds are chosen; by default as in `audit_samples`.
    largest : int, optional
        Largest number of trials to consider.

    Returns
    -------
    TrialPlan
        The plan. Its number of trials is accurate to one per cent. The power is that of the audit's
        own tests, from random draws: its standard error is 0.01 for ranks, 0.05 for a pilot
        (without the tests that serve every delta) and 0.025 for a band.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    >>> from audit.curves import GaussianCurve
    >>> from audit.estimation import plan
    >>> found = plan(GaussianCurve(3.0), epsilon=0.5, delta=1e-2, confidence=0.95)
    >>> found.refutable, found.trials
    (True, 10)
    """
    validate.instance(PrivacyCurve, assumed=assumed)
    validate.nonnegative(epsilon=epsilon)
    validate.half_open_unit(delta=delta)
    validate.open_unit(confidence=confidence, power=power)
    validate.integer(_MIN_TRIALS, largest=largest)
    true_epsilon = float(assumed.epsilon(delta))
    rates = EventRates.of(assumed)

    def audited(trials: int) -> tuple[Thresholds, float]:
        """Return how an audit of this many trials per dataset chooses thresholds, and its power."""
        choice = default_thresholds(trials) if thresholds is None else thresholds
        validate.instance(Thresholds, thresholds=choice)
        if directed:
            choice = replace(choice, favours=(Order.FORWARD,))
        claim = float(epsilon), float(delta)
        return choice, choice.power(rates, trials, claim=claim, error=1 - confidence)

    trials, reached, strategy = None, 0.0, ""
    if true_epsilon > epsilon:
        trials = smallest(lambda n: audited(n)[1] >= power, largest)
        choice, reached = audited(largest if trials is None else trials)
        strategy = choice.kind
    return TrialPlan(
        epsilon=float(epsilon),
        delta=float(delta),
        confidence=float(confidence),
        power=float(power),
        true_epsilon=true_epsilon,
        trials=trials,
        reached=reached,
        strategy=strategy,
    )


def smallest(
    enough: Callable[[int], bool], largest: int, *, least: int = _MIN_TRIALS, step: float = _RATIO
) -> int | None:
    """Return the smallest number that is enough, too large by ``step`` at most, or None."""
    low, high = least - 1, least
    while not enough(high):
        if high >= largest:
            return None
        low, high = high, min(_TRIALS_GROWTH * high, largest)
    while high > low + 1 and high > low * step:
        middle = max(low + 1, min(high - 1, round(math.sqrt(low * high))))
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high

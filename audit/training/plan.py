"""Plan the number of trainings that refute a claim if a training leaks as much as assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit import estimation, validate
from audit.curves import Order, PrivacyCurve
from audit.estimation import SequentialAudit, audit_samples
from audit.estimation.judge import separated
from audit.estimation.samples import smallest
from audit.estimation.sequential import EProcesses
from audit.estimation.thresholds import EventRates
from audit.estimation.verdicts import UserClaim, user_claim
from audit.numerics.arrays import Array

_DRAWS = 200  # simulated audits, to find the number of trainings that an e-process needs


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """The number of trainings that an audit needs."""

    claim: UserClaim  #: The claim to refute.
    confidence: float  #: Confidence level of the audit, in (0, 1).
    early_stop: bool  #: Whether the audit stops once the claim is refuted.
    power: float  #: The requested probability of refuting, in (0, 1).
    true_epsilon: float  #: Epsilon of the assumed distributions at the claim's delta.
    #: Number of trainings that refute the claim with that probability; None if the assumed
    #: distributions satisfy the claim, or more than ``largest`` are needed.
    trials: int | None
    #: Number of trainings that would refute the claim if each score revealed the canary.
    fewest: int | None


def plan(
    assumed: PrivacyCurve,
    *,
    claim: UserClaim | tuple[float, float],
    confidence: float,
    power: float = 0.8,
    early_stop: bool = False,
    largest: int = 10**6,
) -> TrainingPlan:
    """Return the number of trainings with one canary that refutes a claim with a given power.

    Parameters
    ----------
    assumed : PrivacyCurve
        That of the scores if the claim is false, as for `audit.estimation.plan`, such as
        `audit.exact.dominating_curve` of the training with less noise; a weaker attack than an
        optimal one needs more trainings.
    claim : UserClaim or (float, float)
        The claim to refute; a pair is (epsilon, delta).
    confidence, power : float
        As for `audit.estimation.plan`.
    early_stop : bool, optional
        Whether the audit stops once the claim is refuted.
    largest : int, optional
        Largest number of trainings to consider.

    Returns
    -------
    TrainingPlan
        Without early stopping the number of trainings is that of `audit.estimation.plan`, accurate
        to one per cent. With early stopping it is a quantile of 200 simulated audits.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from audit.curves import GaussianCurve
    >>> from audit.training import plan
    >>> found = plan(GaussianCurve(3.0), claim=(0.5, 1e-2), confidence=0.95)
    >>> found.fewest, found.trials
    (12, 20)
    """
    made = user_claim(claim, "claim")
    validate.open_unit(confidence=confidence, power=power)
    validate.integer(8, largest=largest)
    least = fewest(made, confidence=confidence, early_stop=early_stop, largest=largest)
    true_epsilon = float(assumed.epsilon(made.delta))
    pairs = None
    if true_epsilon > made.epsilon and least is not None:
        if early_stop:
            pairs = _anytime(assumed, made, confidence, power, largest // 2)
        else:
            pairs = estimation.plan(
                assumed,
                epsilon=made.epsilon,
                delta=made.delta,
                confidence=confidence,
                power=power,
                directed=True,
                largest=max(largest // 2, 10),
            ).trials
    return TrainingPlan(
        claim=made,
        confidence=confidence,
        early_stop=early_stop,
        power=power,
        true_epsilon=true_epsilon,
        trials=None if pairs is None else 2 * pairs,
        fewest=least,
    )


def _refutes(
    sides: tuple[Array, Array], claim: UserClaim, confidence: float, early_stop: bool, seed: int
) -> bool:
    """Return whether an audit of these scores, with and without the canary, refutes the claim."""
    if early_stop:
        # larger epsilons do not affect whether this one is refuted
        tests = EProcesses([(claim.epsilon, claim.delta)], confidence, farthest=claim.epsilon)
        tests.update(*sides)
        return tests.all_refuted
    found = audit_samples(
        *sides, confidence=confidence, seed=seed, deltas=(claim.delta,), favours=Order.FORWARD
    )
    return found.epsilon_lower(claim.delta) > claim.epsilon


def fewest(
    claim: UserClaim, *, confidence: float, early_stop: bool, largest: int = 10**5
) -> int | None:
    """Return the fewest trainings that refute a claim if each score reveals the canary."""

    def enough(pairs: int) -> bool:
        return _refutes(separated(pairs, pairs), claim, confidence, early_stop, 0)

    pairs = smallest(enough, largest // 2, least=4, step=1.0)
    return None if pairs is None else 2 * pairs


def _anytime(
    assumed: PrivacyCurve, claim: UserClaim, confidence: float, power: float, largest: int
) -> int | None:
    """Return the number of pairs by which the required share of simulated audits refutes."""
    rates = EventRates.of(assumed)
    drawn = np.random.default_rng(0)  # the same draws for every plan
    claims = [(claim.epsilon, claim.delta)]
    tests = [SequentialAudit(claims, confidence=confidence) for _ in range(_DRAWS)]
    pairs = 0
    while pairs < largest:
        more = min(max(pairs, 50), largest - pairs)
        for test in tests:  # all audits run, so that the draws are the same for every power
            test.update(*rates.draw(more, drawn))
        pairs += more
        ended = sorted(test.evidence[0].refuted_after or math.inf for test in tests)
        needed = ended[math.ceil(power * _DRAWS) - 1]
        if needed < math.inf:
            return int(needed)
    return None

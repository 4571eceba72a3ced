"""How many trainings refute a claim, if a training leaks as much as is assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit import estimation, validate
from audit.curves import PrivacyCurve
from audit.estimation import SequentialAudit
from audit.estimation.planner import EventRates
from audit.results.verdicts import UserClaim
from audit.training.design import claims_of
from audit.training.one_canary import EProcesses, audit_fixed, told_apart

Array = NDArray[np.float64]

_DRAWS = 200  # audits that are simulated to find the trainings that an e-process needs


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How many trainings an audit needs.

    Attributes
    ----------
    claim
        What is to be refuted.
    confidence, early_stop
        Of the audit.
    power
        The chance to refute that was asked for.
    true_epsilon
        Epsilon of the assumed law of the scores at the claim's delta.
    trials
        Trainings in all that refute with that chance; None where the claim is true of the assumed
        law, or more than ``largest`` are needed.
    fewest
        Trainings in all that could refute at all: if each score gave the canary away.
    """

    claim: UserClaim
    confidence: float
    early_stop: bool
    power: float
    true_epsilon: float
    trials: int | None
    fewest: int | None
    assumed: PrivacyCurve

    def chance(self, trials: int, *, repeats: int, seed: int) -> float:
        """Return the share of audits of so many trainings that refute, in a simulation.

        The audits are those that `audit.training.run` makes, and the scores are drawn from the
        assumed law: a check of ``trials``.
        """
        rates = EventRates.of(self.assumed)
        drawn = np.random.default_rng(seed)
        refuted = 0
        for repeat in range(repeats):
            x, x_prime = rates.draw(trials // 2, drawn)
            refuted += self._refuted(x, x_prime, repeat)
        return refuted / repeats

    def _refuted(self, x: Array, x_prime: Array, seed: int) -> bool:
        if self.early_stop:
            # larger epsilons do not matter for whether this one is refuted
            tests = EProcesses([self.claim], self.confidence, farthest=self.claim.epsilon)
            tests.update(x, x_prime)
            return tests.all_refuted
        return _refutes(x, x_prime, self.claim, self.confidence, seed)


def plan(
    assumed: PrivacyCurve,
    *,
    claim: UserClaim | tuple[float, float],
    confidence: float,
    power: float = 0.8,
    early_stop: bool = False,
    largest: int = 10**6,
) -> TrainingPlan:
    """Return how many trainings with one canary refute a claim with a given chance.

    Parameters
    ----------
    assumed
        The privacy curve of the scores' laws if the claim is false: ``GaussianCurve(mu)``, or
        `audit.exact.dominating_curve` of the training with less noise. Scores are taken to rank
        outcomes by their likelihood ratio, as a best attack does; a weaker one needs more.
    claim
        A pair (epsilon, delta), or a `UserClaim`.
    confidence, early_stop
        Of the audit.
    power
        In (0, 1), the chance to refute.
    largest
        No more trainings than so many are considered.

    Returns
    -------
    TrainingPlan
        Without an early stop the number is that of `audit.estimation.plan`, found to a per cent.
        With one it is a quantile of 200 simulated audits.

    Examples
    --------
    >>> from audit.curves import GaussianCurve
    >>> from audit.training import plan
    >>> found = plan(GaussianCurve(2.0), claim=(2.0, 1e-5), confidence=0.95)
    >>> found.fewest, found.trials
    (42, 282)
    """
    (made,) = claims_of([claim])
    validate.open_unit(confidence=confidence, power=power)
    validate.integer(8, largest=largest)
    least = fewest(made, confidence=confidence, early_stop=early_stop, largest=largest)
    true_epsilon = float(assumed.epsilon(made.delta))
    trials = None
    if true_epsilon > made.epsilon and least is not None:
        if early_stop:
            trials = _anytime(assumed, made, confidence, power, largest)
        else:
            found = estimation.plan(
                assumed,
                epsilon=made.epsilon,
                delta=made.delta,
                confidence=confidence,
                power=power,
                directed=True,
                largest=max(largest // 2, 10),
            )
            trials = None if found.trials is None else 2 * found.trials
    return TrainingPlan(
        claim=made,
        confidence=confidence,
        early_stop=early_stop,
        power=power,
        true_epsilon=true_epsilon,
        trials=trials,
        fewest=least,
        assumed=assumed,
    )


def _refutes(x: Array, x_prime: Array, claim: UserClaim, confidence: float, seed: int) -> bool:
    found = audit_fixed(x, x_prime, (claim.delta,), confidence, seed)
    return found.epsilon_lower(claim.delta) > claim.epsilon


def fewest(
    claim: UserClaim, *, confidence: float, early_stop: bool, largest: int = 10**5
) -> int | None:
    """Return the fewest trainings that could refute a claim if each score gave the canary away.

    None if they are more than ``largest``.
    """

    def refuted(pairs: int) -> bool:
        x, x_prime = told_apart(pairs, pairs)
        if not early_stop:
            return _refutes(x, x_prime, claim, confidence, 0)
        tests = EProcesses([claim], confidence, farthest=claim.epsilon)
        tests.update(x, x_prime)
        return tests.all_refuted

    low, high = 3, 4
    while not refuted(high):
        if high >= largest // 2:
            return None
        low, high = high, min(2 * high, largest // 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return 2 * high


def _anytime(
    assumed: PrivacyCurve, claim: UserClaim, confidence: float, power: float, largest: int
) -> int | None:
    """Return how many trainings have ended with a refutation in so many of all simulated audits."""
    rates = EventRates.of(assumed)
    drawn = np.random.default_rng(0)  # the same draws whatever is planned
    tests = [
        SequentialAudit([(claim.epsilon, claim.delta)], confidence=confidence)
        for _ in range(_DRAWS)
    ]
    pairs = 0
    while pairs < largest // 2:
        more = min(max(pairs, 50), largest // 2 - pairs)
        for test in tests:  # all of them, so that the draws are the same for every power
            test.update(*rates.draw(more, drawn))
        pairs += more
        ended = sorted(test.evidence[0].refuted_after or math.inf for test in tests)
        needed = ended[math.ceil(power * _DRAWS) - 1]
        if needed < math.inf:
            return 2 * int(needed)
    return None

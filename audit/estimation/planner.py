"""Plan the number of trials that an audit needs to refute a claim about a known mechanism.

The audit is that of `audit_samples`, including its choice of thresholds, which knows its power.
Sample sizes of normal approximations, such as those of statsmodels for two proportions, are too
small: for randomised response of epsilon 0.2 against 0 they promise power 0.8 from 310 runs a side,
where the audit has 0.42 and needs 718.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from audit import validate
from audit.curves import Order, PrivacyCurve
from audit.estimation.result import AnyThresholds
from audit.estimation.samples import default_thresholds
from audit.estimation.thresholds import EventRates, Thresholds

_FEWEST = 10
_STEP = 1.01  # the number of trials is accurate to one per cent
_LEAN = 1.004  # guesses lean to the other side, so that both ends of the bracket move
_GROWTH = 4


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """The number of trials that refute a claim about an assumed mechanism.

    Attributes
    ----------
    epsilon, delta : float
        The claim.
    confidence : float
        Confidence level of the planned audit.
    power : float
        The requested probability of refuting the claim.
    true_epsilon : float
        Epsilon of the assumed mechanism at ``delta``.
    trials : int or None
        Runs on each of the two datasets; None if no allowed number refutes.
    reached : float
        The probability of refuting with ``trials`` runs, or with the largest allowed number; 0 if
        the claim is true.
    strategy : str
        How `audit_samples` chooses thresholds for that many runs; empty if the claim is true.
    """

    epsilon: float
    delta: float
    confidence: float
    power: float
    true_epsilon: float
    trials: int | None
    reached: float
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
        own tests: for ranks, from 2000 draws of the counts (standard error 0.01); for a pilot, the
        binomial sum of the leading test and draws of the other order's test, averaged over 8
        pilots, without the tests that serve every delta; for a band, from 400 simulated audits.

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
    validate.integer(_FEWEST, largest=largest)
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
        trials = _smallest(lambda n: audited(n)[1], float(power), largest)
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


def _smallest(power: Callable[[int], float], enough: float, largest: int) -> int | None:
    """Return the smallest number with enough power, to one per cent.

    The normal score of a test's power is nearly linear in the square root of the number.
    """

    def excess(n: int) -> float:
        return float(ndtri(np.clip(power(n), 1e-12, 1 - 1e-12)) - ndtri(enough))

    low, high = _FEWEST - 1, _FEWEST
    short, ample = -1.0, excess(high)
    while ample < 0:
        if high == largest:
            return None
        low, short = high, ample
        high = min(_GROWTH * high, largest)
        ample = excess(high)
    lean = 1.0
    while high > low + 1 and high > low * _STEP:
        share = np.clip(short / (short - ample), 0.05, 0.95)
        guess = lean * (math.sqrt(low) + share * (math.sqrt(high) - math.sqrt(low))) ** 2
        middle = max(low + 1, min(high - 1, round(guess)))
        value = excess(middle)
        if value < 0:
            low, short, lean = middle, value, _LEAN
        else:
            high, ample, lean = middle, value, 1 / _LEAN
    return high

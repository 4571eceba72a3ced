"""Group privacy: relate a pair that differs in k records to a claim about one record.

If every pair that differs in one record is (epsilon, delta)-private in both orders, a pair that
differs in k records is (k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1))-private (Vadhan
2017, "The complexity of differential privacy", Lemma 2.2): a chain of k steps leads from one
dataset to the other, and the i-th step adds e^{(i - 1) epsilon} delta. A claim about one record is
therefore refuted by a pair that differs in k records at that larger delta, and

    epsilon of a record at delta  >=  largest e with  epsilon of the pair at delta_k(e) > k e.

The epsilon of the pair at the same delta, divided by k, is not such a bound: it is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from audit import validate
from audit.estimation.evidence import Evidence
from audit.numerics.roots import root_from_below

# Assumed epsilon of one record when the pair's delta is planned; the scaled delta depends on it.
_PLANNED_EPSILON = 1.0


@dataclass(frozen=True, kw_only=True)
class PerRecordEpsilon:
    """The certified epsilon of one record, from a pair that differs in several records."""

    epsilon: float  #: The certified epsilon of one record, and its delta.
    delta: float  #: The certified epsilon of one record, and its delta.
    group_size: int  #: Number of records in which the pair differs.
    pair_delta: float  #: The delta of the scaled claim, at which the pair was evaluated.
    evidence: Evidence  #: The pair's epsilon at that delta, and the counts.


def pair_deltas(deltas: Iterable[float], group_size: int) -> tuple[float, ...]:
    """Return the deltas to be named in the audit of a pair, given those for one record."""
    scaled = (group_claim(_PLANNED_EPSILON, delta, group_size)[1] for delta in deltas)
    return tuple(dict.fromkeys(min(delta, 0.5) for delta in scaled))


def group_claim(epsilon: float, delta: float, group_size: int) -> tuple[float, float]:
    """Scale a claim about one record to pairs that differ in ``group_size`` records."""
    validate.nonnegative(epsilon=epsilon)
    validate.closed_unit(delta=delta)
    validate.integer(1, group_size=group_size)
    if delta == 0 or group_size == 1:
        return float(group_size * epsilon), float(delta)
    if epsilon * (group_size - 1) > 700:
        return float(group_size * epsilon), 1.0
    factor = math.fsum(math.exp(i * epsilon) for i in range(group_size))
    return float(group_size * epsilon), min(1.0, delta * factor)


def per_record_epsilon(lower: Callable[[float], float], delta: float, group_size: int) -> float:
    """Convert lower bounds for a pair that differs in k records to a bound for one record.

    Parameters
    ----------
    lower : callable
        A lower bound on the epsilon of the pair as a function of delta in [0, 1), decreasing in
        delta. If it holds at all deltas simultaneously with some confidence, so does the result.
    delta : float
        The delta, in [0, 1], for one record.
    group_size : int
        Number of records k, at least 1.

    Returns
    -------
    float
        The supremum, at least 0, of all e whose scaled claim `group_claim` is below the lower
        bound. No true claim "every pair that differs in one record is (e, delta)-private" has a
        smaller e.

    Raises
    ------
    ValueError
        If a value is out of its range.

    Examples
    --------
    A pure bound of 3 for pairs that differ in 2 records gives 1.5 for each record. For delta > 0
    the pair is evaluated at a larger delta, where its epsilon is smaller.

    >>> per_record_epsilon(lambda delta: 3.0 - delta, 0.0, 2)
    1.5
    """
    validate.closed_unit(delta=delta)
    validate.integer(1, group_size=group_size)

    def missing(epsilon: float) -> float:
        group_epsilon, group_delta = group_claim(epsilon, delta, group_size)
        return group_epsilon - (lower(group_delta) if group_delta < 1 else 0.0)

    top = lower(delta) / group_size if delta < 1 else 0.0
    return root_from_below(missing, top) if top > 0 else 0.0

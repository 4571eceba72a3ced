"""Group privacy: what a pair that differs in k records says of a claim about one record.

If every pair that differs in one record is (epsilon, delta)-private in both orders, a pair that
differs in k records is (k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1))-private (Vadhan
2017, Lemma 2.2): k steps from one dataset to the other, the i-th adding e^{(i - 1) epsilon} delta.
So a claim about records is refuted by a pair of groups at its own, larger delta, and

    epsilon of a record at delta  >=  largest e with  epsilon of the pair at delta_k(e) > k e.

The epsilon of the pair at the same delta, divided by k, is no such bound: it is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from audit import validate
from audit.estimation.evidence import Evidence
from audit.numerics.roots import bracketed_root

# Epsilon of one record for which a pair's delta is planned: the scaled delta depends on it.
_PLANNED_EPSILON = 1.0


@dataclass(frozen=True)
class Group:
    """How many records a pair differs in, and the deltas of claims about one of them.

    Attributes
    ----------
    size
        k, at least 1.
    deltas
        The deltas, for one record, that a result reports.
    """

    size: int
    deltas: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        validate.integer(1, group_size=self.size)

    def pair_deltas(self) -> tuple[float, ...]:
        """Return the deltas at which the pair should be sharp, where each is paid for."""
        scaled = (group_claim(_PLANNED_EPSILON, delta, self.size)[1] for delta in self.deltas)
        return tuple(dict.fromkeys(min(delta, 0.5) for delta in scaled))


@dataclass(frozen=True, kw_only=True)
class PerRecordEpsilon:
    """What a pair that differs in several records certifies of each of them.

    Parameters
    ----------
    epsilon, delta
        The certified epsilon of one record at this delta.
    group_size
        How many records the pair differs in.
    pair_delta
        The delta of the scaled claim, where the pair was looked at.
    evidence
        The pair's epsilon at that delta, and the counts.
    """

    epsilon: float
    delta: float
    group_size: int
    pair_delta: float
    evidence: Evidence


def group_claim(epsilon: float, delta: float, group_size: int) -> tuple[float, float]:
    """Scale a claim about one record to pairs that differ in ``group_size`` records.

    Parameters
    ----------
    epsilon, delta
        The claim about one record: a finite number of at least 0, and one in [0, 1].
    group_size
        k, a whole number of at least 1.

    Returns
    -------
    k epsilon, and delta (e^{k epsilon} - 1) / (e^epsilon - 1), at most 1: then nothing is claimed.

    Examples
    --------
    >>> group_claim(1.0, 1e-6, 2)
    (2.0, 3.718281828459045e-06)
    """
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
    """Turn lower bounds for a pair that differs in k records into one for a single record.

    Parameters
    ----------
    lower
        Epsilon of the pair at a delta in [0, 1), a lower bound that falls with delta; if it holds
        with some confidence at all deltas together, so does the result.
    delta
        In [0, 1), for one record.
    group_size
        k, a whole number of at least 1.

    Returns
    -------
    A number that no claim "every pair that differs in one record is (e, delta)-private" can be
    below: the supremum of all e whose scaled claim `group_claim` the lower bound exceeds; >= 0.

    Examples
    --------
    A pure bound of 3 for pairs that differ in 2 records is one of 1.5 for each; with delta > 0 the
    pair is looked at where its epsilon is smaller.

    >>> per_record_epsilon(lambda delta: 3.0 - delta, 0.0, 2)
    1.5
    """
    validate.closed_unit(delta=delta)
    validate.integer(1, group_size=group_size)

    def excess(epsilon: float) -> float:
        group_epsilon, group_delta = group_claim(epsilon, delta, group_size)
        return (lower(group_delta) if group_delta < 1 else 0.0) - group_epsilon

    top = lower(delta) / group_size if delta < 1 else 0.0
    if top <= 0:
        return 0.0
    if excess(top) >= 0:  # delta does not grow
        return top
    if excess(0.0) <= 0:
        return 0.0
    root = bracketed_root(excess, 0.0, top, xtol=1e-12)
    while root > 0 and excess(root) < 0:
        root = max(root - 1e-12 * max(root, 1.0), 0.0)
    return root

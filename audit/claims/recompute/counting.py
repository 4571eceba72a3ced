"""Certificates from counts: an event that was fixed before, and Clopper-Pearson limits.

An event is counted under both laws. Where log p - log q is a formula, draws of P alone will do, or
draws of a normal law that goes where it matters (importance sampling): a variable that is not
negative has at least the mean that the counts above a ladder of levels prove. Which event, levels
or normal law are taken follows from the law by quadrature; that the certificate holds does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from audit.claims.recompute.numbers import ratios
from audit.claims.recompute.plainlaws import Nodes

Array = NDArray[np.float64]

ERROR = 1e-6  # of each limit, and of a whole ladder
_LEVELS = 300
_LARGEST_LOG = 700.0


def upper_limit(hits: Array | float, draws: float, error: float = ERROR) -> Array:
    """Clopper-Pearson upper limit of a probability."""
    count = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        limit = beta.isf(error, count + 1, np.maximum(draws - count, 1e-300))
    return np.asarray(np.where(count >= draws, 1.0, limit))


def lower_limit(hits: Array | float, draws: float, error: float = ERROR) -> Array:
    """Clopper-Pearson lower limit of a probability."""
    count = np.asarray(hits, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        limit = beta.ppf(error, np.maximum(count, 1e-300), draws - count + 1)
    return np.asarray(np.where(count <= 0, 0.0, limit))


@dataclass(frozen=True)
class Event:
    """{log p - log q > level}; its rates under P and Q by quadrature, to plan with."""

    level: float
    rate_p: float
    rate_q: float


# (rate under P, rate under Q) -> the number that an event of these rates proves
Proof = Callable[[Array, Array], Array]


def renyi_proof(alpha: float) -> Proof:
    """Renyi divergence of the two-point laws of an event."""

    def proof(p: Array, q: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inside = alpha * np.log(p) + (1 - alpha) * np.log(q)
            outside = alpha * np.log1p(-p) + (1 - alpha) * np.log1p(-q)
            value = np.logaddexp(inside, outside) / (alpha - 1)
        return np.asarray(np.where(p > q, np.nan_to_num(value, nan=0.0, neginf=0.0), 0.0))

    return proof


def epsilon_proof(delta: float) -> Proof:
    """Return log((P(S) - delta)/Q(S)), which epsilon at ``delta`` is not below."""

    def proof(p: Array, q: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(p - delta) - np.log(q)
        return np.asarray(np.nan_to_num(value, nan=0.0, neginf=0.0))

    return proof


def delta_proof(epsilon: float) -> Proof:
    """P(S) - e^epsilon Q(S)."""

    def proof(p: Array, q: Array) -> Array:
        return np.asarray(p - math.exp(epsilon) * q)

    return proof


def power_proof(alpha: float) -> Proof:
    """Power 1 - Q(S) of rejecting P outside S, where that has type I error at most ``alpha``."""

    def proof(p: Array, q: Array) -> Array:
        return np.asarray(np.where(1 - p <= alpha, 1 - q, 0.0))

    return proof


def unlucky(rate: Array, draws: int) -> Array:
    """Return hits that are not undercut but by three standard deviations, to plan with."""
    mean = rate * draws
    return np.asarray(np.maximum(mean - 3 * np.sqrt(mean * (1 - rate)) - 1, 0.0))


def lucky(rate: Array, draws: int) -> Array:
    """Return hits that are not exceeded but by three standard deviations, to plan with."""
    mean = rate * draws
    return np.asarray(np.minimum(mean + 3 * np.sqrt(mean * (1 - rate)) + 1, float(draws)))


def best_event(nodes: Nodes, proof: Proof, draws: int) -> tuple[Event, float]:
    """Return the event that is expected to prove most with so many draws, and how much."""
    ratio = ratios(nodes)
    rank = np.argsort(-ratio, kind="stable")
    p, q = np.cumsum(np.exp(nodes.log_p[rank])), np.cumsum(np.exp(nodes.log_q[rank]))
    # a threshold between two nodes that differ
    level = ratio[rank]
    cut = np.flatnonzero(level[:-1] > level[1:] + 1e-12)
    if cut.size == 0:
        return Event(0.0, 1.0, 1.0), 0.0
    if cut.size > 4000:
        cut = cut[:: cut.size // 4000]
    p, q = np.clip(p[cut], 0, 1), np.clip(q[cut], 0, 1)
    few, many = unlucky(p, draws), lucky(q, draws)
    planned = proof(lower_limit(few, draws), upper_limit(many, draws))
    best = int(np.argmax(planned))
    # just above the ratio of the first node that is out, so that nothing hangs on its rounding
    middle = float(level[cut[best]] + level[cut[best] + 1]) / 2
    threshold = middle if math.isfinite(middle) else float(level[cut[best]]) - 1e-9
    return Event(threshold, float(p[best]), float(q[best])), float(planned[best])


@dataclass(frozen=True)
class Ladder:
    """Rising ``levels`` of a variable W, and the rises of a rising function g >= 0 at each."""

    levels: Array
    rises: Array

    def mean_at_least(self, hits: Array, draws: int) -> float:
        """Return a lower limit of E[g(W)] from how many draws had W above each level.

        g(W) is at least the sum of the rises at the levels below W; the levels share the error.
        """
        return float(np.sum(self.rises * lower_limit(hits, draws, ERROR / self.levels.size)))


def ladder(
    values: Array, log_masses: Array, log_g: Callable[[Array], Array], least: float = -math.inf
) -> Ladder:
    """Return levels above ``least`` at quantiles of a variable, finer in its upper tail.

    ``values`` and ``log_masses`` are the variable and its law by quadrature.
    """
    rank = np.argsort(values, kind="stable")
    beyond = np.cumsum(np.exp(log_masses[rank][::-1]))[::-1]  # P(W >= this)
    half = _LEVELS // 2
    goals = np.concatenate([np.linspace(1 - 1e-3, 0.02, half), np.geomspace(0.02, 1e-8, half)])
    places = np.searchsorted(-beyond, -goals)
    levels = values[rank][places[places < rank.size]]
    levels = np.unique(levels[np.isfinite(levels) & (levels > least)])
    levels = levels[log_g(levels) < _LARGEST_LOG]
    if math.isfinite(least) or levels.size == 0:
        levels = np.concatenate([[least], levels])
    return Ladder(levels, np.diff(np.exp(log_g(levels)), prepend=0.0))

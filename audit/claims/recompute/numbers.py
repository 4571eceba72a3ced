"""What two laws at nodes say: epsilon, Renyi divergence, delta, power; by sums only.

Smooth integrands are summed to many digits. Where log p - log q crosses a level between two nodes
the integrand has a kink, and a sum is off by what these two nodes weigh, no more than twice:
``crossing_error``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from audit.claims.recompute.plainlaws import Nodes

Array = NDArray[np.float64]


def ratios(nodes: Nodes) -> Array:
    """Log p - log q at the nodes; -inf where P has no mass."""
    with np.errstate(invalid="ignore"):
        ratio = nodes.log_p - nodes.log_q
    return np.where(np.isneginf(nodes.log_p), -np.inf, ratio)


def log_delta(nodes: Nodes, epsilon: float) -> float:
    """Log of the sum of max(p - e^epsilon q, 0)."""
    ratio = ratios(nodes)
    chosen = ratio > epsilon
    if not chosen.any():
        return -math.inf
    gain = np.log(-np.expm1(np.minimum(epsilon - ratio[chosen], -1e-300)))
    return float(logsumexp(nodes.log_p[chosen] + gain))


def crossing_error(nodes: Nodes, epsilon: float) -> float:
    """Return how far the sum in `log_delta` may be off; 0 for finite laws."""
    if nodes.x is None:
        return 0.0
    ratio = ratios(nodes)
    above = ratio > epsilon
    gains = np.exp(nodes.log_p) * -np.expm1(np.minimum(epsilon - ratio, 0.0))
    kinks = np.flatnonzero(above[1:] != above[:-1])
    return float(2 * np.sum(_without_atoms(nodes, gains)[np.concatenate([kinks, kinks + 1])]))


def epsilon_error(nodes: Nodes, epsilon: float) -> float:
    """Return how far `epsilon_at` may be off: delta falls by e^epsilon Q(S) for each unit."""
    off = crossing_error(nodes, epsilon)
    chosen = ratios(nodes) > epsilon
    if off == 0 or not chosen.any():
        return 0.0
    slope = float(np.exp(epsilon + logsumexp(nodes.log_q[chosen])))
    return off / slope if slope > 0 else math.inf


def power_error(nodes: Nodes, alpha: float) -> float:
    """Return how far `power_at` may be off: the nodes where the test's event ends."""
    if nodes.x is None:
        return 0.0
    ratio = ratios(nodes)
    rank = np.argsort(ratio, kind="stable")
    spent = np.cumsum(np.exp(nodes.log_p[rank]))
    level = ratio[rank][min(int(np.searchsorted(spent, alpha)), rank.size - 1)]
    inside = ratio <= level
    kinks = np.flatnonzero(inside[1:] != inside[:-1])
    ends = np.unique(np.concatenate([kinks, kinks + 1]))
    masses = _without_atoms(nodes, np.exp(np.maximum(nodes.log_p, nodes.log_q)))
    return float(2 * np.sum(masses[ends]))


def _without_atoms(nodes: Nodes, masses: Array) -> Array:
    """Put the masses of the nodes next to them in the atoms' places: an atom has no kink."""
    if not nodes.atoms:
        return masses
    p = np.exp(nodes.log_p)
    ends = np.maximum(masses[[1, -2]], p[[1, -2]])
    return np.concatenate([ends[:1], masses[1:-1], ends[1:]])


def epsilon_at(nodes: Nodes, delta: float) -> float:
    """Return the epsilon at which delta(epsilon) falls to ``delta``, by bisection."""
    low, high = 0.0, 1.0
    if log_delta(nodes, low) <= math.log(delta):
        return 0.0
    while log_delta(nodes, high) > math.log(delta):
        low, high = high, 2 * high
        if high > 1e9:
            return math.inf
    for _ in range(100):
        middle = (low + high) / 2
        if log_delta(nodes, middle) > math.log(delta):
            low = middle
        else:
            high = middle
    return low


def renyi_at(nodes: Nodes, alpha: float) -> float:
    """Renyi divergence of order ``alpha``."""
    seen = np.isfinite(nodes.log_p)
    logs = nodes.log_p[seen] + (alpha - 1) * ratios(nodes)[seen]
    return float(logsumexp(logs)) / (alpha - 1)


def power_at(nodes: Nodes, alpha: float) -> float:
    """Q(reject) of the best test with P(reject) = ``alpha``."""
    rank = np.argsort(ratios(nodes), kind="stable")
    p, q = np.exp(nodes.log_p[rank]), np.exp(nodes.log_q[rank])
    spent, won = np.cumsum(p), np.cumsum(q)
    return float(np.interp(alpha, np.concatenate([[0], spent]), np.concatenate([[0], won])))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return what mu-GDP allows: Phi(-e/mu + mu/2) - e^e Phi(-e/mu - mu/2)."""
    at = epsilon / mu
    return float(ndtr(mu / 2 - at) - math.exp(epsilon) * ndtr(-mu / 2 - at))

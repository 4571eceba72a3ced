"""Bets against "epsilon at delta is at most e": their payoffs, and how one is chosen from the past.

Write c = e^epsilon, and (p, q) for the probabilities of an event S under the law that is suspected
to favour it and under the other law. The claim says p - c q <= delta for every S and in both
orders. A bet is an event, a point (y, x) on the line y - c x = delta, and a stake u >= 0. A new
pair of independent draws, with indicators a and b of falling into S, multiplies the wealth by

    (1 + u (a - y)) (1 - c u (b - x)),        0 <= u y <= 1, 0 <= c u (1 - x) <= 1.

Both factors are nonnegative, and their expectations A and B satisfy
A + B = 2 + u ((p - y) - c (q - x)) = 2 + u (p - c q - delta) <= 2 under the claim, so
A B <= ((A + B) / 2)^2 <= 1: the wealth is a nonnegative supermartingale if the bet was fixed
before the pair was seen, and exceeds 1 / error at some time with probability at most ``error``
(Ville 1939).

For an alternative (p, q), take as (y, x) the point of the line nearest to (p, q) in
Kullback-Leibler divergence, and the stake u = (p - y) / (y (1 - y)). This bet is the likelihood
ratio of (p, q) and (y, x), the growth-optimal e-variable (Turner, Ly and Grünwald 2024, Theorem 1;
Grünwald, de Heide and Koolen 2024); no payoff 1 + u (a - c b - delta) grows faster on average.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit.numerics.compiled import compiled

Array = NDArray[np.float64]

# Columns of a table of bets, one row per claim.
THRESHOLD, LOW_TAIL, REVERSED, IN_FIRST, OUT_FIRST, IN_SECOND, OUT_SECOND, ACTIVE = range(8)
COLUMNS = 8

_HALVINGS = 60
_KEEP = 1 - 1e-9  # share used of the largest stake that cannot lose everything


@compiled
def _divergence(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


@compiled
def nearest_null(p: float, q: float, ratio: float, delta: float) -> float:
    """Return x of the point (delta + ratio x, x) nearest to (p, q), p - ratio q > delta.

    The Kullback-Leibler divergence is convex along the line.
    """
    low, high = 0.0, min((1 - delta) / ratio, 1.0)
    for _ in range(_HALVINGS):
        x = 0.5 * (low + high)
        y = delta + ratio * x
        slope = -ratio * (p - y) / (y * (1 - y)) - (q - x) / (x * (1 - x))
        if slope > 0:
            high = x
        else:
            low = x
    return 0.5 * (low + high)


@compiled
def _counts(
    first: Array, second: Array, ranks: NDArray[np.intp], low_tail: bool
) -> tuple[Array, Array, Array]:
    """Return thresholds at ranks of the favouring sample, and both samples' scores beyond them."""
    n = first.size
    thresholds = np.empty(ranks.size)
    inside_first = np.empty(ranks.size)
    inside_second = np.empty(ranks.size)
    for k in range(ranks.size):
        t = first[n - 1 - ranks[k]] if low_tail else first[ranks[k]]
        thresholds[k] = t
        if low_tail:
            inside_first[k] = np.searchsorted(first, t, side="right")
            inside_second[k] = np.searchsorted(second, t, side="right")
        else:
            inside_first[k] = n - np.searchsorted(first, t)
            inside_second[k] = n - np.searchsorted(second, t)
    return thresholds, inside_first, inside_second


@compiled
def choose_bets(
    first: Array,
    second: Array,
    ranks: NDArray[np.intp],
    ratios: Array,
    deltas: Array,
    orders: tuple[bool, bool],
    pseudo_count: float,
    caution: float,
    shrinkage: float,
) -> Array:
    """Choose one bet a claim from ascending past scores of X and X', equally many.

    Candidate thresholds are ``ranks`` of the favouring sample. The estimated growth is lowered by
    ``caution`` standard errors; the estimated alternative is pulled to the claim by z^2 /
    (z^2 + shrinkage), z^2 twice the log likelihood ratio of the past. Returns (claims, COLUMNS).
    """
    n = first.size
    bets = np.zeros((ratios.size, COLUMNS))
    best = np.full(ratios.size, -np.inf)
    for side in range(4):
        low_tail, reverse = side // 2 == 1, side % 2 == 1
        if not orders[1 if reverse else 0]:
            continue
        lead, other = (second, first) if reverse else (first, second)
        thresholds, inside_lead, inside_other = _counts(lead, other, ranks, low_tail)
        for k in range(ranks.size):
            p = (inside_lead[k] + pseudo_count) / (n + 2 * pseudo_count)
            q = (inside_other[k] + pseudo_count) / (n + 2 * pseudo_count)
            for j in range(ratios.size):
                ratio, delta = ratios[j], deltas[j]
                if not p - ratio * q > delta:
                    continue
                x = nearest_null(p, q, ratio, delta)
                y = delta + ratio * x
                growth = _divergence(p, y) + _divergence(q, x)
                value = growth - caution * math.sqrt(2 * growth / n)
                if not value > best[j]:
                    continue
                best[j] = value
                bets[j, ACTIVE] = 0.0
                if value <= 0:
                    continue
                stake = (p - y) / (y * (1 - y)) * 2 * n * growth / (2 * n * growth + shrinkage)
                stake = min(stake, _KEEP / y, _KEEP / (ratio * (1 - x)))
                bets[j, THRESHOLD] = thresholds[k]
                bets[j, LOW_TAIL] = 1.0 if low_tail else 0.0
                bets[j, REVERSED] = 1.0 if reverse else 0.0
                bets[j, IN_FIRST] = math.log1p(stake * (1 - y))
                bets[j, OUT_FIRST] = math.log1p(-stake * y)
                bets[j, IN_SECOND] = math.log1p(-ratio * stake * (1 - x))
                bets[j, OUT_SECOND] = math.log1p(ratio * stake * x)
                bets[j, ACTIVE] = 1.0
    return bets


@compiled
def play(
    samples: Array,
    samples_prime: Array,
    bets: Array,
    seen: int,
    barrier: float,
    wealth: Array,
    peak: Array,
    crossed: NDArray[np.int64],
) -> None:
    """Play the bets on new pairs, in place.

    ``wealth`` and ``peak`` (running maximum) are logarithms, shape (claims + 1,); the last entry is
    the average of all claims' wealths. ``crossed`` holds the number of pairs, including ``seen``
    earlier ones, after which each first reached ``barrier`` (a logarithm); 0 for never.
    """
    claims = bets.shape[0]
    for i in range(samples.size):
        largest = -np.inf
        for j in range(claims):
            if bets[j, ACTIVE] != 0.0:
                x, x_prime = samples[i], samples_prime[i]
                if bets[j, REVERSED] != 0.0:
                    x, x_prime = x_prime, x
                t = bets[j, THRESHOLD]
                if bets[j, LOW_TAIL] != 0.0:
                    inside, inside_prime = x <= t, x_prime <= t
                else:
                    inside, inside_prime = x >= t, x_prime >= t
                wealth[j] += bets[j, IN_FIRST] if inside else bets[j, OUT_FIRST]
                wealth[j] += bets[j, IN_SECOND] if inside_prime else bets[j, OUT_SECOND]
                if wealth[j] > peak[j]:
                    peak[j] = wealth[j]
                    if crossed[j] == 0 and wealth[j] >= barrier:
                        crossed[j] = seen + i + 1
            largest = max(largest, wealth[j])
        # The average is at most the largest wealth, so it peaks only if that exceeds its old peak.
        if largest > peak[claims] or i == samples.size - 1:
            total = 0.0
            for j in range(claims):
                total += math.exp(wealth[j] - largest)
            wealth[claims] = largest + math.log(total / claims)
            if wealth[claims] > peak[claims]:
                peak[claims] = wealth[claims]
                if crossed[claims] == 0 and wealth[claims] >= barrier:
                    crossed[claims] = seen + i + 1

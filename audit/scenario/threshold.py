"""Paper 000's Renyi claim at noise below the theorem's threshold, order by order.

At sigma = threshold / sqrt(r) the claim (4.1) grows like r. The divergence of the symmetric walk
against the biased one does not: with probability (1 - b/n)^T no jump happens, so it stays below
T ln(1/(1 - b/n)), and the claim, read for that order alone, becomes false.

Far below the threshold the walks are too long for exact laws. Certified ranges come from events:
D_alpha(P || Q) >= alpha/(alpha - 1) log P(S) - log Q(S) for any S, with P(S) and Q(S) bounded by
the walk's largest excursions. The clamped walk is Lindley's process: with S_t the unclamped sum,
its value is at least min(S_T, D/2 + min_t(S_T - S_t)), and a symmetric walk exceeds c only by
ending there from its start or from the lower wall.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import log_ndtr, logsumexp

from audit.claims import judge_interval
from audit.constructions import AuxiliaryWalk, BiasedWalk
from audit.exact import LawCurve
from audit.mechanism import Order

Array = NDArray[np.float64]

RATIOS = (1.0, 4.0, 25.0, 100.0, 1e3, 1e4, 1e5, 375.0**2, 1e6)

_EXACT = "exact law"
_FORWARD = "events {omega <= 0}; no jump at all"
_REVERSE = "event {omega >= c}, the best c"


def below(
    walk: AuxiliaryWalk,
    curve: LawCurve,
    alpha: float,
    claimed: Callable[[BiasedWalk], float],
) -> list[dict[str, Any]]:
    """Return a row for each ratio r of squared noise: the claim, and what is certain of it.

    ``forward`` is the symmetric against the biased walk. The first row is at the walk's own noise,
    from the exact curve; a null upper end means that no bound is known.
    """
    rows = []
    for ratio in RATIOS:
        scaled = _scaled(walk, ratio)
        if ratio == 1:
            forward = curve.renyi_bracket(alpha, Order.FORWARD)
            reverse = curve.renyi_bracket(alpha, Order.REVERSE)
        else:
            forward, reverse = forward_range(scaled, alpha), reverse_range(scaled, alpha)
        claim = claimed(scaled)
        verdicts = [judge_interval(*values, claim, math.inf) for values in (forward, reverse)]
        worst = max(forward[0], reverse[0]), max(forward[1], reverse[1])
        rows.append(
            {
                "ratio": ratio,
                "noise_std": scaled.mechanism.noise_std,
                "claimed": claim,
                "forward": forward,
                "forward_from": _EXACT if ratio == 1 else _FORWARD,
                "forward_verdict": verdicts[0].value,
                "reverse": reverse,
                "reverse_from": _EXACT if ratio == 1 else _REVERSE,
                "reverse_verdict": verdicts[1].value,
                "verdict": judge_interval(*worst, claim, math.inf).value,
            }
        )
    return rows


def forward_range(walk: BiasedWalk, alpha: float) -> tuple[float, float]:
    """Certified range of D_alpha(symmetric || biased) for a walk from the middle."""
    m = walk.mechanism
    half, spread, jump, rate = _sizes(walk)
    high = math.inf if rate == 1 else -m.steps * math.log1p(-rate)
    if walk.start != 0:
        return 0.0, high
    jumps = np.arange(m.steps + 1)
    log_weights = stats.binom.logpmf(jumps, m.steps, rate)
    log_end = logsumexp(log_weights + log_ndtr(-jumps * jump / spread))
    log_fall = math.log(m.steps) + float(log_ndtr(-half / spread))
    low = alpha / (alpha - 1) * math.log(0.5) - float(np.logaddexp(log_end, log_fall))
    return max(0.0, low), high


def reverse_range(walk: BiasedWalk, alpha: float) -> tuple[float, float]:
    """Certified range of D_alpha(biased || symmetric) for a walk from the middle."""
    m = walk.mechanism
    half, spread, jump, rate = _sizes(walk)
    if walk.start != 0:
        return 0.0, math.inf
    jumps = np.arange(m.steps + 1)
    log_weights = stats.binom.logpmf(jumps, m.steps, rate)
    best = 0.0
    for c in np.linspace(0.02, 0.99, 98) * half:
        log_end = float(logsumexp(log_weights + log_ndtr((c - jumps * jump) / spread)))
        log_fall = math.log(m.steps) + float(log_ndtr((c - half) / spread))
        log_misses = float(np.logaddexp(log_end, log_fall))
        if log_misses >= -1e-12:
            continue
        log_p = math.log(-math.expm1(log_misses))
        log_q = np.logaddexp(
            log_ndtr(-c / spread), math.log(m.steps) + log_ndtr(-(c + half) / spread)
        )
        best = max(best, alpha / (alpha - 1) * log_p - float(log_q))
    return best, math.inf


def _scaled(walk: AuxiliaryWalk, ratio: float) -> AuxiliaryWalk:
    noise = walk.mechanism.noise_std / math.sqrt(ratio)
    return dataclasses.replace(walk, mechanism=dataclasses.replace(walk.mechanism, noise_std=noise))


def _sizes(walk: BiasedWalk) -> tuple[float, float, float, float]:
    """Half the diameter, the noise of all steps together, the jump, and its probability."""
    m = walk.mechanism
    half = math.inf if m.diameter is None else m.diameter / 2
    jump = m.constant_step_size * m.steepest_gradient / m.batch_size
    return half, m.step_std * math.sqrt(m.steps), jump, m.sampling_rate

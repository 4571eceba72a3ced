"""Shuffled batches: certified lower bounds from explicit adversaries, and a proven upper bound.

The n records are put into a random order and cut into T batches: once before the run, or again in
every epoch. No dominating pair is known, so the two ends belong to different pairs.

Upper end: given the order, one step an epoch meets the record. That is one Gaussian mechanism an
epoch, composed, and hiding the order cannot hurt (quasi-convexity): sqrt(E)/z-GDP.

Lower end, zero-out (Chua et al. 2024, section 4): every other record's gradient is -1, in units of
the clipping norm, and the record's is 1 under X and 0 under X'. After the same constant is taken
off, the batch sums of an epoch are N(0, z^2), but for one at a random place: N(2, z^2) under X and
N(1, z^2) under X'. With other gradients of 0 the means are 1 and 0, the pair of random allocation.
For replace-one, in units of the sensitivity, the record has 1 more than the others under X and the
same as they under X', which is that pair too. These statistics of the sums of an epoch are taken:

- the largest one, whose law has a closed form;
- for the means 2 and 1, the mean of exp(c x_t/z^2), with its law under both hypotheses;
- for the means 1 and 0, the same with c = 1, which is sufficient.

If an epoch leaves records out, the record is one of them with the same probability under X and X';
the largest sum is taken alone. If the order is drawn once, the sums of the batch at one place,
added up over the epochs, are sufficient: one epoch at noise z/sqrt(E).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from audit import validate
from audit.dominating.curve import GaussianDominatingCurve
from audit.dominating.enclosed import EnclosedCurve
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair, dominated
from audit.dominating.grid_composition import GridComposition
from audit.dominating.random_allocation import TAIL, allocation_side, summand
from audit.mechanism import Relation
from audit.numerics.convex_order import iid_sum
from audit.numerics.normal import log_ndtr_error

Array = NDArray[np.float64]

# Cells of the laws; lower bounds lose the square of their width.
CELLS = 1024
_REACH = 10.0
_LARGEST_CELLS = 4 * CELLS, 1 << 17
# Cells whose log masses err by more are left out, under both laws.
_MOST_ERROR = 1e-9
# Among 1, 1.5, ..., 4 this exponent gives the largest epsilon, or nearly, at noise multipliers from
# 1 to 4, 20 to 1000 steps and delta from 1e-6 to 1e-2: within 1 % of the likelihood ratio's.
_EXPONENT = 2.5
# Below it probabilities underflow, and the largest sum alone is as good.
_LEAST_NOISE = 0.12


def shuffled(
    noise_multiplier: float,
    *,
    steps_per_epoch: int,
    steps: int,
    fresh: bool,
    relation: Relation,
    used: float = 1.0,
) -> EnclosedCurve:
    """Return bounds from both sides for all iterates under shuffled batches.

    ``fresh`` epochs have a new order each; a batch of an epoch holds the record with probability
    ``used``. The lower end uses whole epochs only, if there is one. The noise multiplier is over
    the sensitivity of one record: twice the clipping norm for replace-one.
    """
    validate.positive(noise_multiplier=noise_multiplier)
    validate.integer(1, steps_per_epoch=steps_per_epoch, steps=steps)
    validate.instance(bool, fresh=fresh)
    validate.instance(Relation, relation=relation)
    validate.positive(used=used)
    validate.closed_unit(used=used)
    if relation is Relation.ADD_REMOVE:
        raise ValueError(
            "relation must be 'zero out' or 'replace one' for shuffled batches, because removing "
            "a record moves others to other batches, got 'add remove'"
        )
    whole, rest = divmod(steps, steps_per_epoch)
    meetings = whole + (rest > 0)
    epochs, seen = (whole, steps_per_epoch) if whole else (1, rest)
    noise = noise_multiplier if fresh else noise_multiplier / math.sqrt(epochs)
    times = epochs if fresh else 1
    of, with_means = steps_per_epoch / used, used == 1 and noise > _LEAST_NOISE
    pairs: list[GridPair] = []
    if relation is Relation.ZERO_OUT:
        pairs.append(largest_sum(noise, seen, of, (2.0, 1.0)))
        if whole and with_means:
            pairs.append(mean_of_powers(noise, steps_per_epoch, (2.0, 1.0), _EXPONENT))
    one_or_none = [largest_sum(noise, seen, of, (1.0, 0.0))]
    if with_means:
        one_or_none.append(allocation_side(noise, False, seen, steps_per_epoch, cells=CELLS))
    # the record may have either gradient under X
    pairs += [*one_or_none, *(pair.swapped() for pair in one_or_none)]
    return EnclosedCurve(
        tuple(GridComposition([(pair, times)]) for pair in pairs),
        GaussianDominatingCurve(math.sqrt(meetings) / noise_multiplier),
    )


def largest_sum(
    noise_multiplier: float, steps: int, of: float, means: tuple[float, float]
) -> GridPair:
    """Return a pair dominated by the largest sum of the first ``steps`` of an epoch of ``of``.

    ``means`` are those of the record's batch under X and X'; those of the others are 0.
    """
    z, (up, other) = noise_multiplier, means
    start, stop = -_REACH * z, max(means) + _REACH * z
    least, most = _LARGEST_CELLS
    cells = min(max(least, math.ceil((stop - start) / (0.01 * z * z))), most)
    edges = np.linspace(start, stop, cells)
    (log_p, error_p), (log_q, error_q) = (
        _log_cells(edges, z, steps, of, mean) for mean in (up, other)
    )
    # cells that underflow under one law are dropped under both, which is an event
    error = np.maximum(error_p, error_q)
    both = np.isfinite(log_p) & np.isfinite(log_q) & (error < _MOST_ERROR)
    log_p, log_q = log_p[both], log_q[both]
    span = float(np.ptp(log_p - log_q))
    return dominated(log_p, log_q, max(span, 1e-12) / cells, rounding=float(error[both].max()))


def _log_cells(edges: Array, z: float, steps: int, of: float, mean: float) -> tuple[Array, Array]:
    """Log probability that the largest sum lies below, between and above the edges; and errors."""
    share = min(steps / of, 1.0)
    places = edges / z, (edges - mean) / z
    slips = (4 * UNIT_ROUNDOFF * (np.abs(edges) + mean) / z for _ in places)
    errors = [log_ndtr_error(x, slip) for x, slip in zip(places, slips, strict=True)]
    logs = [log_ndtr(x) for x in places]
    low = np.logaddexp(
        logs[0] + (math.log1p(-share) if share < 1 else -np.inf), logs[1] + math.log(share)
    )
    tail = (1 - share) * ndtr(-places[0]) + share * ndtr(-places[1])
    near = tail < 0.5
    one = np.where(near, np.log1p(-np.minimum(tail, 0.5)), low)
    # of a mixture at most the larger error; of 1 - tail likewise, as both are those of 1 - Phi
    few = 8 + (4 / (1 - share) if share < 1 else 0)  # units of weights, which 1 - share rounds
    units = np.where(near, few * tail, few + 4 * np.abs(low))
    error = np.maximum(*errors) + UNIT_ROUNDOFF * units
    log_cdf = (steps - 1) * logs[0] + one
    error = steps * errors[0] + error + 2 * UNIT_ROUNDOFF * np.abs(log_cdf)
    upper, lower = np.append(log_cdf, 0.0), np.concatenate([[-np.inf], log_cdf])
    slip = np.append(error, 0.0) + np.concatenate([[0.0], error])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.minimum(lower - upper, 0.0)
        rest = np.log(-np.expm1(gap))
        # log(1 - e^d) moves by the error of d over e^-d - 1, twice that while it is small
        share_of_gap = np.where(gap > -np.inf, 2 * slip / np.expm1(-gap), 0.0)
        total = np.append(error, 0.0) + share_of_gap
        total = total + UNIT_ROUNDOFF * (8 + 4 * np.abs(rest) + 2 * np.abs(upper + rest))
        return np.asarray(upper + rest), total


def mean_of_powers(
    noise_multiplier: float, steps: int, means: tuple[float, float], exponent: float
) -> GridPair:
    """Return a pair dominated by the mean of exp(c x_t/z^2), c the exponent, in a whole epoch.

    With Y_t = exp(c x_t/z^2 - c^2/(2 z^2)) the likelihood ratio of the mixture with mean a against
    N(0, z^2 I) is the mean of exp((a x_t - a^2/2)/z^2) = Y_t^(a/c) exp(a (c - a)/(2 z^2)).
    """
    z, c = noise_multiplier, exponent
    law = summand(z / c, False, steps, CELLS, powers=tuple(a / c for a in means))
    law = iid_sum(law, steps, cells=CELLS, tail=TAIL)
    logs, size = [], float(np.abs(law.points).max())
    for a, moments in zip(means, law.moments[2:], strict=True):
        factor = (a / c - 1) * math.log(steps) + a * (c - a) / (2 * z * z)
        size = max(size, abs(factor))
        with np.errstate(divide="ignore"):
            logs.append(np.log(moments) + a / c * law.points + factor)
    both = np.isfinite(logs[0]) & np.isfinite(logs[1])
    # exponents, their sums, and logarithms of the moments
    rounding = law.rounding + UNIT_ROUNDOFF * (32 + 16 * size)
    return dominated(logs[0][both], logs[1][both], law.interval, rounding=rounding)

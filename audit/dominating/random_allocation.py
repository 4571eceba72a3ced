"""Random allocation and shuffled batches: the place of a record in an epoch is random.

Random allocation: in every epoch of T steps each record is in k of them, chosen at random.

For k = 1 ("balls and bins", Chua et al. 2024) the dominating pair of an epoch is the uniform
mixture over t of N(e_t, z^2 I) against N(0, z^2 I) in T dimensions, z the noise multiplier (Feldman
and Shenfeld 2025). Its likelihood ratio is S = (1/T) sum exp(x_t/z^2 - 1/(2 z^2)), a
mean of independent lognormal variables under N(0, z^2 I): delta is E(S - e^eps)_+ for removal and
E(1 - e^eps S)_+ for addition. Both are expectations of convex functions of S, so that laws above
and below S in the convex order give both sides (`audit.numerics.convex_order`).

For k > 1 the upper side is the composition of k allocations of one in T/k steps, since a random set
of k steps is one of each block of a random partition (Feldman and Shenfeld 2025). The likelihood
ratio is e_k/C(T, k), e_k the elementary symmetric polynomial of the T lognormal variables; the
lower side is its mean on groups of outcomes (`audit.numerics.symmetric_sums`), or the pair of the
mean of the outputs.

Shuffled batches have certified lower bounds from explicit adversaries, and a proven upper bound.

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
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, ndtr

from audit import validate
from audit.curves import GaussianCurve
from audit.dominating.closed_form import DeltaLimits
from audit.dominating.curve import (
    ComposedCurve,
    DominatingCurve,
    EnclosedCurve,
    GaussianDominatingCurve,
    GridComposition,
)
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair, dominated
from audit.dominating.mixture import MixturePair, log_tails
from audit.mechanism import NoisySGD, Relation
from audit.numerics.arrays import Array
from audit.numerics.convex_order import (
    GridLaw,
    add,
    halved,
    iid_sum,
    normal_exponential,
    point,
    trimmed,
)
from audit.numerics.normal import log_ndtr_error
from audit.numerics.symmetric_sums import SymmetricSums

# Grid points of the law of S; the width of a bracket falls with their square.
CELLS = 4096
_MAX_NOISE = 1e8  # noise multiplier; with more, grid points coincide
# Probability and share of the mean that one truncation may move.
TAIL = 1e-20
# Groups of outcomes of the lower side for k > 1, for each cell, and most products of an addition.
_GROUPS_PER_CELL, _MAX_PRODUCTS = 0.4, 1e8
# The mean of the outputs serves larger k. Up to it, products below the range of doubles cost less
# than 1e-284 in all, and so such a share of larger masses.
_MAX_SYMMETRIC_ORDER, _MIN_MASS, _LOST_SHARE = 100, 1e-270, 1e-14


def random_allocation(
    noise_multiplier: float,
    *,
    steps_per_epoch: int,
    steps: int,
    participations: int = 1,
    cells: int = CELLS,
) -> DominatingCurve:
    """Return the curve of all iterates under random allocation and add/remove.

    Zero-out has the same pair, since the batches of the other records do not depend on the record.
    A record is in k = ``participations`` of the T steps of an epoch; an incomplete last epoch
    releases its first steps only. For k > 1 the ends belong to two pairs. The width of a bracket is
    inversely quadratic in ``cells``, the grid points of the law of S.
    """
    validate.positive(noise_multiplier=noise_multiplier)
    validate.integer(1, steps_per_epoch=steps_per_epoch, steps=steps, participations=participations)
    if participations > steps_per_epoch:
        raise validate.fail(
            "participations", f"at most steps_per_epoch ({steps_per_epoch})", participations
        )
    if participations == steps_per_epoch:  # every step, whatever the epochs are
        participations = steps_per_epoch = 1
    epochs, rest = divmod(steps, steps_per_epoch)
    if participations == 1:
        runs = [(steps_per_epoch, steps_per_epoch, epochs), (rest, steps_per_epoch, 1)]
        lower = _composed(noise_multiplier, False, runs, cells)
        upper = _composed(noise_multiplier, True, runs, cells)
    else:
        # an incomplete epoch: counted in full above, not at all below
        low = _k_of_t(noise_multiplier, steps_per_epoch, participations, cells)
        size, larger = divmod(steps_per_epoch, participations)
        most = epochs + (rest > 0)
        runs = [(size, size, (participations - larger) * most), (size + 1, size + 1, larger * most)]
        nothing = GridPair.nothing(False, low.interval)
        lower = GridComposition([(low, epochs), (nothing, int(not epochs))])
        upper = _composed(noise_multiplier, True, runs, cells)
    touched = participations * (epochs + (rest > 0))
    # one Gaussian step per participation, at a known position
    mu = math.sqrt(touched) / noise_multiplier
    unamplified = GaussianCurve(mu)
    return ComposedCurve(
        lower,
        upper,
        lambda alpha, _: np.asarray(unamplified.renyi(alpha)),
        limits=DeltaLimits.unsampled(mu, f"{steps} steps of random allocation"),
    )


def likelihood_ratio(
    noise_multiplier: float, above: bool, steps: int, of: int, *, cells: int = CELLS
) -> GridLaw:
    """Return the law of S under Q for the first ``steps`` of an epoch of ``of`` steps."""
    law = iid_sum(summand(noise_multiplier, above, of, cells), steps, cells=cells, tail=TAIL)
    if steps < of:
        law = trimmed(add(law, point(above, law.interval, 1 - steps / of)), TAIL)
    return law


def summand(
    noise_multiplier: float, above: bool, of: int, cells: int, powers: tuple[float, ...] = ()
) -> GridLaw:
    """Return the law of exp(x/z^2 - 1/(2 z^2))/T."""
    scale = 1 / noise_multiplier
    reach = math.sqrt(2 * math.log(1 / TAIL))
    if noise_multiplier > _MAX_NOISE:
        wanted = f"at most {_MAX_NOISE:g} for random allocation"
        raise validate.fail("noise_multiplier", wanted, noise_multiplier)
    interval = (scale + 2 * reach) * scale / cells
    location = -0.5 * scale * scale - math.log(of)
    try:
        return normal_exponential(above, interval, location, scale, tail=TAIL, powers=powers)
    except ValueError:
        raise validate.fail(
            "noise_multiplier", "at least about 0.04 for random allocation", noise_multiplier
        ) from None


def _composed(
    noise_multiplier: float, above: bool, runs: Sequence[tuple[int, int, int]], cells: int
) -> GridComposition:
    """Compose allocations, each (steps, steps of the epoch, repetitions)."""
    laws = [
        (likelihood_ratio(noise_multiplier, above, steps, of, cells=cells), times)
        for steps, of, times in runs
        if steps and times
    ]
    finest = min(law.interval for law, _ in laws)
    parts = []
    for law, times in laws:
        while law.interval > 1.5 * finest:
            law = halved(law)
        parts.append((_pair(law), times))
    return GridComposition(parts)


def _pair(law: GridLaw) -> GridPair:
    """Return one side of the pair (S Q, Q)."""
    grow = np.exp(law.points)
    cells = law.above, law.interval, law.first, law.means * grow, law.masses * grow
    return GridPair(*cells, law.beyond, law.zero, law.rounding)


def _k_of_t(noise_multiplier: float, steps: int, k: int, cells: int) -> GridPair:
    """Return the lower side of an epoch: of groups of outcomes, or of their mean if k is large."""
    mu = k / (noise_multiplier * math.sqrt(steps)) * (1 - 8 * UNIT_ROUNDOFF)
    gaussian = MixturePair(1.0, 1 / mu, 1.0, two_sided=False)  # pair of the outputs' mean
    if k <= _MAX_SYMMETRIC_ORDER:
        most = math.sqrt(_MAX_PRODUCTS / ((k + 1) * (k + 2) / 2))
        groups = math.ceil(min(cells * _GROUPS_PER_CELL, most))
        # in units that make C(T, k) the k-th power of 1, so that e_k is the likelihood ratio
        places = np.arange(k)
        unit = math.exp(-float(np.log((steps - places) / (k - places)).sum()) / k)
        law = SymmetricSums.of_lognormal(1 / noise_multiplier, unit, k).times(steps, groups)
        q, p = _merged_tails(law.moments[0], law.moments[k])
        loss = np.log(p) - np.log(q)
        if float(p @ loss) > 0.5 * mu * mu:  # Kullback-Leibler divergences
            # cells that are as fine as the groups lose nothing more
            interval = float(np.ptp(loss)) / (4 * cells)
            unit_error = 2 * k * (k + 4) * (1 + math.log(steps)) * UNIT_ROUNDOFF
            rounding = law.rounding + unit_error + _LOST_SHARE
            return dominated(np.log(p), np.log(q), interval, rounding=rounding)
    return gaussian.grid_pairs(mu * (mu + 20) / cells, log_tails(steps))[0]


def _merged_tails(q: Array, p: Array) -> tuple[Array, Array]:
    """Merge groups that products below the range of doubles may have cost some of their mass."""
    small = np.minimum(q, p) < _MIN_MASS
    q, p = np.append(q[~small], q[small].sum()), np.append(p[~small], p[small].sum())
    q[0], p[0] = q[0] + q[-1], p[0] + p[-1]
    return q[:-1], p[:-1]


# Cells of the laws of shuffled batches; lower bounds lose the square of their width.
_SHUFFLED_CELLS = 1024
_REACH = 10.0
_MAX_SUM_CELLS = 4 * _SHUFFLED_CELLS, 1 << 17
# Cells whose log masses err by more are left out, under both laws.
_MAX_ERROR = 1e-9
# Among 1, 1.5, ..., 4 this exponent gives the largest epsilon, or nearly, at noise multipliers from
# 1 to 4, 20 to 1000 steps and delta from 1e-6 to 1e-2: within 1 % of the likelihood ratio's.
_EXPONENT = 2.5
# Below it probabilities underflow, and the largest sum alone is as good.
_MIN_NOISE = 0.12


def shuffled(m: NoisySGD, accuracy: float) -> EnclosedCurve:
    """Return bounds from both sides for all iterates under shuffled batches.

    A batch of an epoch holds the record with probability ``used``. The lower end uses whole epochs
    only, if there is one.
    """
    if m.gradient_sensitivity is not None or m.gradient_bound is None:
        raise ValueError(
            "gradient_sensitivity must be None for shuffled batches, because the gradients of "
            f"their lower ends differ by twice their bound, got {m.gradient_sensitivity!r}"
        )
    if m.relation is Relation.ADD_REMOVE:
        raise ValueError(
            "relation must be 'zero out' or 'replace one' for shuffled batches, because removing "
            "a record moves others to other batches, got 'add remove'"
        )
    steps_per_epoch, fresh = m.steps_per_epoch, m.batching.renews
    used = steps_per_epoch * m.batch_size / m.dataset_size
    whole, rest = divmod(m.steps, steps_per_epoch)
    meetings = whole + (rest > 0)
    epochs, seen = (whole, steps_per_epoch) if whole else (1, rest)
    z = m.noise_multiplier
    noise = z if fresh else z / math.sqrt(epochs)
    times = epochs if fresh else 1
    of, with_means = steps_per_epoch / used, used == 1 and noise > _MIN_NOISE
    pairs: list[GridPair] = []
    if m.relation is Relation.ZERO_OUT:
        pairs.append(largest_sum(noise, seen, of, (2.0, 1.0)))
        if whole and with_means:
            pairs.append(mean_of_powers(noise, steps_per_epoch, (2.0, 1.0), _EXPONENT))
    one_or_none = [largest_sum(noise, seen, of, (1.0, 0.0))]
    if with_means:
        ratio = likelihood_ratio(noise, False, seen, steps_per_epoch, cells=_SHUFFLED_CELLS)
        one_or_none.append(_pair(ratio))
    # the record may have either gradient under X
    pairs += [*one_or_none, *(pair.swapped() for pair in one_or_none)]
    return EnclosedCurve(
        tuple(GridComposition([(pair, times)]) for pair in pairs),
        GaussianDominatingCurve(math.sqrt(meetings) / z),
    )


def largest_sum(
    noise_multiplier: float, steps: int, of: float, means: tuple[float, float]
) -> GridPair:
    """Return a pair dominated by the largest sum of the first ``steps`` of an epoch of ``of``.

    ``means`` are those of the record's batch under X and X'; those of the others are 0.
    """
    z, (up, other) = noise_multiplier, means
    start, stop = -_REACH * z, max(means) + _REACH * z
    least, most = _MAX_SUM_CELLS
    cells = math.ceil(min(max(least, (stop - start) / (0.01 * z) / z), most))
    edges = np.linspace(start, stop, cells)
    (log_p, error_p), (log_q, error_q) = (
        _log_cells(edges, z, steps, of, mean) for mean in (up, other)
    )
    # cells that underflow under one law are dropped under both, which is an event
    error = np.maximum(error_p, error_q)
    both = np.isfinite(log_p) & np.isfinite(log_q) & (error < _MAX_ERROR)
    if not both.any():  # so little noise that all cells underflow
        return GridPair.nothing(False, 1.0)
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
    # a mixture has at most the larger error; so has 1 - tail, whose errors are those of 1 - Phi
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
    law = summand(z / c, False, steps, _SHUFFLED_CELLS, powers=tuple(a / c for a in means))
    law = iid_sum(law, steps, cells=_SHUFFLED_CELLS, tail=TAIL)
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

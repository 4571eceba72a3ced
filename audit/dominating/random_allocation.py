"""Random allocation: in every epoch of T steps each record is in k of them, chosen at random.

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
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit import validate
from audit.curves import GaussianCurve
from audit.dominating.closed_form import DeltaLimits
from audit.dominating.curve import ComposedCurve, DominatingCurve
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair, dominated
from audit.dominating.grid_composition import GridComposition
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
from audit.numerics.normal import log_interval, log_interval_error
from audit.numerics.symmetric_sums import SymmetricSums

# Grid points of the law of S; the width of a bracket falls with their square.
CELLS = 4096
# Probability and share of the mean that one truncation may move.
TAIL = 1e-20
# Groups of outcomes of the lower side for k > 1, for each cell, and most products of an addition.
_GROUPS_A_CELL, _MOST_PRODUCTS = 0.4, 1e8
# The mean of the outputs serves larger k. Up to it, products below the range of doubles cost less
# than 1e-284 in all, and so such a share of larger masses.
_MOST_SYMMETRIC, _LEAST_MASS, _LOST_SHARE = 100, 1e-270, 1e-14


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
        runs = [
            (size, size, (participations - larger) * most),
            (size + 1, size + 1, larger * most),
        ]
        lower = GridComposition([(low, epochs)]) if epochs else _nothing(low.interval)
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


def allocation_side(
    noise_multiplier: float, above: bool, steps: int, of: int, *, cells: int = CELLS
) -> GridPair:
    """Return one side of the pair of the first ``steps`` of an epoch of ``of`` steps."""
    return _pair(likelihood_ratio(noise_multiplier, above, steps, of, cells=cells))


def summand(
    noise_multiplier: float, above: bool, of: int, cells: int, powers: tuple[float, ...] = ()
) -> GridLaw:
    """Return the law of exp(x/z^2 - 1/(2 z^2))/T."""
    scale = 1 / noise_multiplier
    reach = math.sqrt(2 * math.log(1 / TAIL))
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
    return GridPair(
        law.above,
        law.interval,
        law.first,
        law.means * grow,
        law.masses * grow,
        law.beyond,
        law.zero,
        law.rounding,
    )


def _k_of_t(noise_multiplier: float, steps: int, k: int, cells: int) -> GridPair:
    """Return the lower side of an epoch: of groups of outcomes, or of their mean if k is large."""
    mu = k / (noise_multiplier * math.sqrt(steps))
    if k <= _MOST_SYMMETRIC:
        most = math.sqrt(_MOST_PRODUCTS / ((k + 1) * (k + 2) / 2))
        groups = math.ceil(min(cells * _GROUPS_A_CELL, most))
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
    edges = np.concatenate([[-np.inf], np.linspace(-10.0, 10.0 + mu, cells), [np.inf]])
    low, high = edges[:-1], edges[1:]
    # a mean that is rounded, and a difference
    ends, moved = ((low - mu, high - mu), (low, high)), 8 * UNIT_ROUNDOFF * (10 + 2 * mu)
    log_p, log_q = (log_interval(a, b) for a, b in ends)
    rounding = max(float(log_interval_error(a, b, moved).max()) for a, b in ends)
    return dominated(log_p, log_q, mu * (mu + 20) / cells, rounding=rounding)


def _merged_tails(q: Array, p: Array) -> tuple[Array, Array]:
    """Merge groups that products below the range of doubles may have cost some of their mass."""
    small = np.minimum(q, p) < _LEAST_MASS
    q, p = np.append(q[~small], q[small].sum()), np.append(p[~small], p[small].sum())
    q[0], p[0] = q[0] + q[-1], p[0] + p[-1]
    return q[:-1], p[:-1]


def _nothing(interval: float) -> GridComposition:
    """Return a release without information."""
    return GridComposition([(GridPair(False, interval, 0, np.ones(1), np.ones(1)), 1)])

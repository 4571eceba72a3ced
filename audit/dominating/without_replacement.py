"""Fresh batches of a fixed size, without replacement, under replace-one.

Of a batch that holds the record the other b - 1 records are as random as b - 1 of a batch that does
not, so that the two are coupled to differ in one place: with probability q = b/n the record's
gradient stands there, u or v, else that of another record, w, which both datasets share. All three
are of norm at most C. In units of the sensitivity 2 C a step is, given the rest, at most

    (1-q) N(0, z^2) + q N(1, z^2)  against  N(0, z^2)                                  (P, Q)

at every epsilon >= 0 (Balle, Barthe and Gaboardi 2018, Theorem 2: with M_0 = N(w), M_1 = N(u) and
M_1' = N(v) the divergence is q times one between N(u) and mixtures of N(w) and N(v), both of which
are at most 2 C away; Zhu, Dong and Wang 2022, Theorem 11). Others of gradient -C, v = -C and u = C
attain it. In the other order, which is the same for replace-one, u and v change places.

No one step attains (P, Q) on both sides of epsilon = 0. What dominates the steps, and can be
composed, is the pair that has the losses of (P, Q) above 0 and their mirror images below; what is
attained in a run is the composition of (P, Q), in either order. The two enclose the worst pair of
datasets.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.dominating.curve import DominatingCurve, GaussianDominatingCurve, compose
from audit.dominating.enclosed import EnclosedCurve
from audit.dominating.grid import mirrored
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.poisson import poisson_curve
from audit.dominating.runs import grid_width
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import Relation

Array = NDArray[np.float64]

# The two ends differ by more than this in any case.
_FINEST = 1e-5
_CELLS = 1 << 18


def without_replacement(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    *,
    accuracy: float,
    skipping_rate: float | None = None,
) -> DominatingCurve:
    """Return bounds from both sides for T steps on batches without replacement, replace-one.

    Parameters
    ----------
    noise_multiplier : float
        Noise multiplier z, the standard deviation of a step's noise over the sensitivity 2C.
    sampling_rate : float
        Sampling rate q = b/n, in (0, 1]; 1 for full batches.
    steps : int
        Number of steps T.
    accuracy : float
        Target for the relative width of the lower side's brackets.
    skipping_rate : float, optional
        As in `poisson_curve`.

    Returns
    -------
    DominatingCurve
        The curve.

    Raises
    ------
    ValueError
        If an argument is out of range, or single losses are too large for double precision.

    Examples
    --------
    >>> low, high = without_replacement(1.0, 0.1, 20, accuracy=1e-6).epsilon_bracket(1e-5)
    >>> 0.9 < low / high <= 1
    True
    """
    validate.positive(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)
    validate.closed_unit(sampling_rate=sampling_rate)
    validate.integer(1, steps=steps)
    validate.positive(accuracy=accuracy)
    attained = poisson_curve(
        noise_multiplier,
        sampling_rate,
        steps,
        Relation.ZERO_OUT,
        accuracy=accuracy,
        skipping_rate=skipping_rate,
    )
    if isinstance(attained, GaussianDominatingCurve):
        return attained
    pair = MixturePair(sampling_rate, noise_multiplier, 1.0, False, skipping_rate)
    tails = log_tails(steps)
    reach = float(np.ptp(pair.losses(tails)))
    width = grid_width(pair.spread(), steps, reach, max(accuracy, _FINEST))
    lower, upper = (mirrored(side) for side in pair.grid_pairs(max(width, reach / _CELLS), tails))

    def moments(alpha: Array, order: Order) -> Array:
        orders = (
            np.asarray(sampled_gaussian_renyi(alpha, sampling_rate, noise_multiplier, one))
            for one in Order
        )
        return steps * of_both_orders(alpha, *orders)

    limits = None if attained.limits is None else replace(attained.limits, two_sided=True)
    both = replace(compose([(lower, upper, steps)], moments, same=True), limits=limits)
    return EnclosedCurve((), both, attained)


def of_both_orders(alpha: Array, forward: Array, reverse: Array) -> Array:
    """Bound the Renyi divergence of a step by those of the Poisson pair, in both orders.

    The moment less 1 is at most what both have: r^a + r^(1-a) >= 1 + r for likelihood ratios r < 1.
    """
    gap = alpha - 1
    with np.errstate(over="ignore"):
        more = np.expm1(gap * forward) + np.expm1(gap * reverse)
        near = np.log1p(more) / gap
    far = np.logaddexp(gap * forward, gap * reverse) / gap
    return np.asarray(np.where(np.isfinite(more), near, far))

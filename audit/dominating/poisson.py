"""Full and Poisson batches: T independent steps on one pair of normal mixtures.

In units of the sensitivity S of one record's gradient (C, or 2C for replace-one), with q the
sampling rate and z the noise multiplier, one step's pair dominates, and is attained where the
others' gradients are 0 and the record's is C (against -C for replace-one):

- zero-out and add/remove: (1-q) N(0, z^2) + q N(1, z^2) against N(0, z^2) (Zhu, Dong and Wang 2022,
  Theorem 11, after Mironov, Talwar and Zhang 2019);
- replace-one: (1-q) N(0, z^2) + q N(1/2, z^2) against (1-q) N(0, z^2) + q N(-1/2, z^2) (Schuchardt
  et al. 2024).

Why the record's gradients u, v of norm at most C are worst at v = -u: delta(epsilon) is the mean of
(sum of c_i Z_i)_+ over likelihood ratios Z_i = e^(X_i - Var X_i/2) of 0, u and v, with
c = ((1-q)(1-a), q, -a q) for a = e^epsilon >= 1. By Gaussian interpolation its derivative along a
path of distances D_ij = |i - j|^2 is minus a quarter of the sum of D'_ij c_i c_j w_ij with w >= 0
(the function is homogeneous, as in Kahane's inequality). Larger D_uv and D_0u raise it, so v is
opposite to u and |u| = C. Then along r = |v| the terms of D_0v and D_uv add up to a multiple of
2 r (c_0 Z_0 + c_u Z_u) + 2 C c_u Z_u, which is positive where the sum vanishes. The case a < 1 is
that of the other order.

For q = 1 both are N(1, z^2) against N(0, z^2), whose T-fold composition has a closed form.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.curves import Order
from audit.dominating.curve import DominatingCurve, GaussianDominatingCurve
from audit.dominating.mixture import MixturePair
from audit.dominating.runs import MixtureRun, RefinedCurve
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import Relation

Array = NDArray[np.float64]


def poisson_curve(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    relation: Relation,
    *,
    accuracy: float,
    skipping_rate: float | None = None,
) -> DominatingCurve:
    """Return the privacy of T steps on Poisson batches, all iterates released.

    The noise multiplier is over the sensitivity: 2C for replace-one, C otherwise; add/remove is for
    a divisor that both datasets share. ``skipping_rate`` is 1 - q, where it has more digits than
    1 - ``sampling_rate``. ``accuracy`` is the target of relative widths.
    """
    validate.positive(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)
    validate.closed_unit(sampling_rate=sampling_rate)
    validate.integer(1, steps=steps)
    validate.instance(Relation, relation=relation)
    validate.positive(accuracy=accuracy)
    if sampling_rate == 1:
        return GaussianDominatingCurve(math.sqrt(steps) / noise_multiplier)
    two_sided = relation is Relation.REPLACE_ONE
    mean = 0.5 if two_sided else 1.0
    pair = MixturePair(sampling_rate, noise_multiplier, mean, two_sided, skipping_rate)

    def moments(alpha: Array, order: Order) -> Array:
        once = sampled_gaussian_renyi(alpha, sampling_rate, noise_multiplier, order)
        return steps * np.asarray(once)

    known = None if two_sided else moments
    return RefinedCurve((MixtureRun(pair, steps),), accuracy, known, same=two_sided)

"""Tight accountants: the privacy of all iterates of clipped DP-SGD, for any losses.

The bounds are tight because some losses attain the composed pair (`audit.dominating`), and they
hold for the last iterate by post-processing.
"""

from __future__ import annotations

import math
from dataclasses import replace

from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.dominating import SAMPLERS, dominating_curve
from audit.mechanism import Batching, NoisySGD, Release

ACCURACY = 3e-5
"""Relative width of the brackets; the bounds are their upper ends."""


@bound("accounting.full_batch")
def full_batch(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of Gaussian mechanisms (Dong, Roth and Su 2022).

    At most ceil(T b/n) steps of cyclic batches use the record; z is the noise multiplier.
    """
    return SAMPLERS[mechanism.batching](mechanism, ACCURACY)


@bound("accounting.poisson")
def poisson(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of the privacy loss distributions of Poisson sampled steps.

    The numerical composition of Koskela, Jaelkoe and Honkela (2020), with all errors rounded up;
    about 3e-5 (relative) above the exact epsilon of the pair.
    """
    return SAMPLERS[Batching.POISSON](mechanism, ACCURACY)


@bound("accounting.actual_divisor")
def actual_divisor(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of steps that release the batch size together with the noisy sum.

    The noisy mean is a function of the two. See `audit.dominating.actual_divisor`.
    """
    return dominating_curve(replace(mechanism, release=Release.ALL_ITERATES), accuracy=ACCURACY)


@bound("accounting.random_allocation")
def random_allocation(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of the privacy loss distributions of epochs (Feldman and Shenfeld 2025).

    Computed by doubling in the convex order, with all errors rounded up. Allocation to k of T steps
    is k-fold composition of allocation to 1 of T/k steps.
    """
    return SAMPLERS[Batching.RANDOM_ALLOCATION](mechanism, ACCURACY)


@bound("accounting.shuffled")
def shuffled(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of one Gaussian mechanism per epoch, given the order.

    Shuffling amplifies privacy by less than accountants for Poisson batches claim: at low noise the
    adversaries of Chua et al. (2024) come within 1e-5 of this bound.
    """
    epochs = -(-mechanism.steps // mechanism.steps_per_epoch)
    return GaussianCurve(math.sqrt(epochs) / mechanism.noise_multiplier)


@bound("accounting.truncated_poisson")
def truncated_poisson(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of mixtures of steps that truncate the batch and steps that do not.

    At most the epsilon of dp-accounting for ``TruncatedSubsampledGaussianDpEvent``.
    """
    return SAMPLERS[Batching.TRUNCATED_POISSON](mechanism, ACCURACY)

"""Tight accountants: the privacy of all iterates of clipped DP-SGD, for any losses.

The bounds are tight because some losses attain the composed pair (`audit.dominating`), and they
hold for the last iterate by post-processing. `audit.epsilon` names the statements ``accounting.*``
as those that its upper ends prove.
"""

from __future__ import annotations

import math
from dataclasses import replace

from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.dominating import dominating_curve
from audit.mechanism import NoisySGD, Release

ACCURACY = 3e-5
"""Relative width of the brackets; the bounds are their upper ends."""


@bound("accounting.full_batch")
def all_iterates(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of the steps' (or epochs') dominating pairs, with all errors rounded up.

    Gaussian mechanisms for fixed batches (Dong, Roth and Su 2022), and numerical composition for
    others (Koskela, Jaelkoe and Honkela 2020; Feldman and Shenfeld 2025): about 3e-5 (relative)
    above the exact epsilon of the pair. Truncated Poisson batches have at most the epsilon of
    dp-accounting for ``TruncatedSubsampledGaussianDpEvent``.
    """
    return dominating_curve(replace(mechanism, release=Release.ALL_ITERATES), accuracy=ACCURACY)


@bound("accounting.shuffled")
def shuffled(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of one Gaussian mechanism per epoch, given the order.

    Shuffling amplifies privacy by less than accountants for Poisson batches claim: at low noise the
    adversaries of Chua et al. (2024) come within 1e-5 of this bound.
    """
    epochs = -(-mechanism.steps // mechanism.steps_per_epoch)
    return GaussianCurve(math.sqrt(epochs) / mechanism.noise_multiplier)

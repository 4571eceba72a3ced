"""Bok, Su and Altschuler (2024): statements beside the theorems.

Where the convergent bounds begin to improve on composition, and the lemmas on one step.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import ndtr

from audit import validate
from audit.curves import GaussianCurve
from audit.mechanism import NoisySGD


def _crossing_time(mechanism: NoisySGD, batch: int) -> float:
    """Return D b/(eta S), the number of shifts that cross the domain."""
    m = mechanism
    assert m.diameter is not None
    return m.diameter * batch / (m.constant_step_size * m.sensitivity)


def threshold_4_3(mechanism: NoisySGD) -> float:
    """Return the number of steps, 4 D n/(eta S), after which Theorem 4.3 is below Theorem 4.1.

    Stated after Theorem 4.3. Exact if D n/(eta S) is an integer, otherwise up to the ceiling.
    """
    return 4 * _crossing_time(mechanism, mechanism.dataset_size)


def threshold_4_5(mechanism: NoisySGD) -> float:
    """Return the number of epochs, about c^(2l-2) (1-c^2)/(1-c^l)^2, from which 4.5 beats 4.4.

    Stated after Theorem 4.6 ("roughly").
    """
    c, length = mechanism.contraction, mechanism.dataset_size // mechanism.batch_size
    return float(c ** (2 * length - 2) * (1 - c**2) / (1 - c**length) ** 2)


def threshold_4_6(mechanism: NoisySGD) -> float:
    """Return the number of epochs, about 4 D b/(eta l S), from which Theorem 4.6 beats 4.4.

    Stated after Theorem 4.6 ("roughly").
    """
    length = mechanism.dataset_size // mechanism.batch_size
    return 4 * _crossing_time(mechanism, mechanism.batch_size) / length


def threshold_5_4() -> float:
    """Return the L D above which Corollary 5.4 improves on (2 L D, 0)-DP in total variation.

    The root of 2 Phi(sqrt(x)) - 1 = tanh(x) (section 5.2, "L D > 0.677").
    """

    def gap(x: float) -> float:
        return float(2 * ndtr(math.sqrt(x)) - 1 - math.tanh(x))

    return float(brentq(gap, 0.1, 2.0, xtol=1e-14))


def lemma_3_1(shift: float, noise_std: float) -> GaussianCurve:
    """Return the factor G(s/sigma) for one step with different updates (Lemma 3.1).

    If ||phi - phi'|| <= s everywhere, the pair phi(X) + N(0, sigma^2), phi'(X') + N(0, sigma^2) is
    at least as hard to distinguish as (X, X') composed with the curve returned.
    """
    return lemma_3_2(shift, noise_std, interpolation=1.0, contraction=0.0, distance=0.0)


def lemma_3_2(
    shift: float, noise_std: float, *, interpolation: float, contraction: float, distance: float
) -> GaussianCurve:
    """Return the factor G(lambda (c z + s)/sigma) of one interpolated step (Lemma 3.2).

    With phi, phi' c-Lipschitz, ||phi - phi'|| <= s and ||X - X~|| <= z, the pair
    lambda phi(X) + (1 - lambda) phi'(X~) + N(0, sigma^2), phi'(X') + N(0, sigma^2) is at least as
    hard to distinguish as (X~, X') composed with the curve returned.
    """
    validate.positive(noise_std=noise_std)
    validate.nonnegative(
        shift=shift, interpolation=interpolation, contraction=contraction, distance=distance
    )
    return GaussianCurve(interpolation * (contraction * distance + shift) / noise_std)

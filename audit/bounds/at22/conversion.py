"""Altschuler and Talwar (2022): Lemma 2.5, a conversion from Renyi to (epsilon, delta)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from audit.bounds.at22.fixed_batches import b_1
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.tails import TailCurve
from audit.mechanism import NoisySGD

Array = NDArray[np.float64]


@bound("at22.conversion")
def conversion(mechanism: NoisySGD) -> PrivacyCurve:
    """Lemma 2.5 at the best order; never below ``at22.b_1``, which converts the same tightly."""
    rho = float(b_1(mechanism).renyi(2.0)) / 2
    if rho == 0:
        return TailCurve.gaussian(0.0, rho=0.0)

    def epsilon_at(delta: Array) -> Array:
        return np.asarray(rho + 2 * np.sqrt(-rho * np.log(delta)))

    def delta_at(epsilon: Array) -> Array:
        over = np.minimum(np.maximum(epsilon - rho, 0.0) / (2 * math.sqrt(rho)), 1e100)
        return np.asarray(np.exp(-np.square(over)))

    return TailCurve(epsilon_at, delta_at, rho=rho)

"""Accountants under test: what `example.claims.yaml` calls.

They need ``pip install dp-accounting``.
"""

from __future__ import annotations

from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant

from audit import NoisySGD


def gaussian_composition(mechanism: NoisySGD, delta: float) -> float:
    """Return epsilon for full batches: each step is a Gaussian mechanism, every step released."""
    return _composed(mechanism, delta, mechanism.sensitivity)


def half_the_sensitivity(mechanism: NoisySGD, delta: float) -> float:
    """Return epsilon as an accountant that takes L where it should take 2L."""
    return _composed(mechanism, delta, mechanism.sensitivity / 2)


def _composed(mechanism: NoisySGD, delta: float, sensitivity: float) -> float:
    noise_multiplier = mechanism.noise_std * mechanism.dataset_size / sensitivity
    accountant = PLDAccountant().compose(GaussianDpEvent(noise_multiplier), mechanism.steps)
    return float(accountant.get_epsilon(delta))

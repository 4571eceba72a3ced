"""Altschuler and Talwar (2022): rates without constants.

A rate is plotted with the constant 1. It is not a bound and is never judged. Theorem 3.1 with
constants follows from the form of Theorem 4.10 of Bok, Su and Altschuler (2024) for
sigma >= 16 sqrt(2) L/b; the printed range starts at half of that.
"""

from __future__ import annotations

import math

from audit.bounds.assumptions import Assumption
from audit.bounds.at22.small_batches import largest_order
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.curves.tails import TailCurve
from audit.mechanism import NoisySGD

_TWICE_EIGHT = 8 * math.sqrt(2)
LARGE_NOISE = Assumption(
    "sigma > 8 sqrt(2) L/b",
    lambda m: m.lipschitz is not None and m.noise_std > _TWICE_EIGHT * m.lipschitz / m.batch_size,
    lambda m: f"noise_std={m.noise_std!r} with lipschitz={m.lipschitz} and b={m.batch_size}",
)
BALANCED_STEP_SIZE = Assumption(
    "eta = 2/(M + m)",
    lambda m: (
        m.smoothness is not None
        and math.isclose(
            m.constant_step_size * (m.smoothness + m.strong_convexity), 2, rel_tol=1e-9
        )
    ),
    lambda m: f"step_size={m.step_size!r} and smoothness={m.smoothness!r}",
)


def _lipschitz(mechanism: NoisySGD) -> float:
    assert mechanism.lipschitz is not None  # an assumption of the entries
    return mechanism.lipschitz


def _crossing(mechanism: NoisySGD, step_size: float) -> float:
    """Return T-bar = ceil(D n/(L eta))."""
    assert mechanism.diameter is not None  # an assumption of the entries
    ratio = mechanism.diameter / _lipschitz(mechanism) * mechanism.dataset_size / step_size
    return float(math.ceil(ratio)) if ratio < 1e15 else ratio


def _rate(mechanism: NoisySGD, steps: float, highest: float = math.inf) -> RenyiCurve:
    """Return alpha L^2/(n^2 sigma^2) steps."""
    ratio = _lipschitz(mechanism) / mechanism.dataset_size / mechanism.noise_std
    line = RenyiCurve.linear(ratio * ratio * steps)
    return line if math.isinf(highest) else RenyiCurve(line.divergence, highest=highest)


def _highest(mechanism: NoisySGD) -> float:
    """Return alpha*(b/n, b sigma/(2 sqrt(2) L)); b/n >= 1/5 needs no range (footnote 8)."""
    if mechanism.sampling_rate >= 0.2:
        return math.inf
    noise = mechanism.batch_size * mechanism.noise_std / (2 * math.sqrt(2) * _lipschitz(mechanism))
    return max(largest_order(mechanism.sampling_rate, noise), 1 + 1e-9)


@bound("at22.theorem_3_1", large_noise=LARGE_NOISE)
def theorem_3_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate for small batches: alpha L^2/(n^2 sigma^2) min{T, ceil(D n/(L eta))} (Theorem 3.1)."""
    crossing = _crossing(mechanism, mechanism.constant_step_size)
    return _rate(mechanism, min(mechanism.steps, crossing), _highest(mechanism))


@bound("at22.theorem_5_1", balanced_step_size=BALANCED_STEP_SIZE, large_noise=LARGE_NOISE)
def theorem_5_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate for strongly convex losses: alpha L^2/(n^2 sigma^2) min{T, T-bar} (Theorem 5.1).

    T-bar = kappa log(alpha D^2/(eta^2 sigma_1^2 Q kappa)) with sigma_1^2 = sigma^2/2 and
    Q = 16 alpha L^2/(n^2 sigma^2), as its proof has it; at least 1.
    """
    assert mechanism.smoothness is not None  # assumptions of the entry
    assert mechanism.diameter is not None
    kappa = mechanism.smoothness / mechanism.strong_convexity
    crossing = mechanism.diameter / mechanism.constant_step_size / _lipschitz(mechanism)
    inside = (crossing * mechanism.dataset_size) ** 2 / (8 * kappa)
    length = max(kappa * math.log(inside), 1.0) if inside > 1 else 1.0
    return _rate(mechanism, min(mechanism.steps, length), _highest(mechanism))


@bound("at22.eq_5_5")
def eq_5_5(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate for cyclic batches: (alpha L^2/sigma^2) (1/b^2 + min{T, T-bar}/n^2) (equation (5.5))."""
    crossing = _crossing(mechanism, mechanism.constant_step_size)
    cycles = (mechanism.dataset_size / mechanism.batch_size) ** 2
    return _rate(mechanism, cycles + min(mechanism.steps, crossing))


@bound("at22.eq_1_3")
def eq_1_3(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate in DP (Remark 1.4), stated for epsilon up to about 1; there is no Renyi part."""
    steps = min(mechanism.steps, _crossing(mechanism, mechanism.constant_step_size))
    ratio = _lipschitz(mechanism) / mechanism.dataset_size / mechanism.noise_std
    return TailCurve.gaussian(ratio * math.sqrt(steps))


@bound("at22.example_5_8")
def example_5_8(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate for eta_t = eta t^-c (Example 5.8).

    T^c is 1/eta_T: the bound of Theorem 3.1 "with eta replaced by eta_T". The last step size of the
    schedule is taken, whatever its form.
    """
    crossing = _crossing(mechanism, float(mechanism.step_sizes[-1]))
    return _rate(mechanism, min(mechanism.steps, crossing))

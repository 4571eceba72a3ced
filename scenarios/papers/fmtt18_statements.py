"""Feldman, Mironov, Talwar and Thakurta (2018): statements beside the theorems on privacy.

Lemma 25, the noise of Appendix B, and section 5 and Appendix C on the excess loss E F(w) - min F
and on smoothed losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit import validate


def appendix_b_noise(lipschitz: float, *, epsilon: float, delta: float) -> float:
    """Return the noise 5 L sqrt(ln(1/delta))/epsilon for (epsilon, delta)-DP of Theorem 35's runs.

    Appendix B converts Theorem 35 at the order 2 ln(1/delta)/epsilon, which must be at least 5.
    """
    validate.positive(lipschitz=lipschitz, epsilon=epsilon)
    validate.open_unit(delta=delta)
    order = -2 * math.log(delta) / epsilon
    if order < 5:
        raise ValueError(f"epsilon must be at most 2 ln(1/delta)/5, got {epsilon!r}")
    return 5 * lipschitz * math.sqrt(-math.log(delta)) / epsilon


def weak_convexity(alpha: float, divergences: Sequence[float], weights: Sequence[float]) -> float:
    """Return the bound of Lemma 25 on a mixture: (1 + c) times the mean divergence."""
    validate.above_one(alpha=alpha)
    d, w = validate.sample(divergences=divergences), validate.sample(weights=weights)
    if d.size != w.size or np.any(w < 0) or abs(float(np.sum(w)) - 1) > 1e-9:
        raise ValueError(f"weights must be {d.size} probabilities, got {w.tolist()!r}")
    validate.nonnegative(divergences=float(np.min(d)))
    c = float(np.max(d)) * (alpha - 1)
    if c > 1 + 1e-12:
        raise ValueError(f"divergences must be at most 1/(alpha - 1), got {float(np.max(d))!r}")
    return (1 + c) * float(np.sum(w * d))


@dataclass(frozen=True)
class Utility:
    """Step size, and the expected excess loss that it guarantees.

    Attributes
    ----------
    step_size : float
        Step size eta.
    excess_loss : float
        Bound on E F(w) - min F.
    """

    step_size: float
    excess_loss: float


def theorem_28(*, radius: float, gradient_norm: float, steps: int) -> Utility:
    """Projected stochastic gradient descent at a random step (Theorem 28).

    For eta = 2R/(G sqrt(T)) the mean of E F(w_t) over t = 1..T is at most F* + 4 R G/sqrt(T).
    """
    validate.positive(radius=radius, gradient_norm=gradient_norm)
    validate.integer(1, steps=steps)
    root = math.sqrt(steps)
    return Utility(2 * radius / (gradient_norm * root), 4 * radius * gradient_norm / root)


def theorem_29_utility(
    *, radius: float, lipschitz: float, noise_std: float, dimension: int, dataset_size: int
) -> Utility:
    """Stop-PNSGD on n samples (Theorem 29): 4 R sqrt(L^2 + d sigma^2)/sqrt(n)."""
    validate.nonnegative(noise_std=noise_std)
    validate.integer(1, dimension=dimension, dataset_size=dataset_size)
    norm = math.hypot(lipschitz, math.sqrt(dimension) * noise_std)
    return theorem_28(radius=radius, gradient_norm=norm, steps=dataset_size)


def theorem_30_utility(
    *, radius: float, lipschitz: float, noise_std: float, dimension: int, dataset_size: int
) -> Utility:
    """Skip-PNSGD on n samples (Theorem 30): 4 sqrt(2) R sqrt(L^2 + d sigma^2)/sqrt(n).

    Skipping up to half of the records is stopping at random in the second half: Theorem 29 for
    n/2 samples from a random start.
    """
    validate.nonnegative(noise_std=noise_std)
    validate.integer(1, dimension=dimension, dataset_size=dataset_size)
    norm = math.hypot(lipschitz, math.sqrt(dimension) * noise_std)
    whole = theorem_28(radius=radius, gradient_norm=norm, steps=dataset_size)
    return Utility(whole.step_size * math.sqrt(2), whole.excess_loss * math.sqrt(2))


@dataclass(frozen=True)
class Smoothing:
    """Smoothing of a convex loss by convolution with N(0, width^2 I).

    Attributes
    ----------
    width : float
        Standard deviation lambda of the convolution.
    smoothness : float
        Smoothness of the smoothed loss.
    error : float
        Bound on the change of the loss.
    """

    width: float
    smoothness: float
    error: float


def theorem_33(*, lipschitz: float, width: float, dimension: int) -> Smoothing:
    """Gaussian smoothing of a convex L-Lipschitz loss (Theorem 33, Appendix C).

    Convolution with N(0, lambda^2 I) leaves it convex and L-Lipschitz, makes it L/lambda-smooth,
    and moves it by at most L lambda sqrt(d).
    """
    validate.positive(lipschitz=lipschitz, width=width)
    validate.integer(1, dimension=dimension)
    return Smoothing(width, lipschitz / width, lipschitz * width * math.sqrt(dimension))


def corollary_34_smoothing(
    *,
    radius: float,
    lipschitz: float,
    epsilon: float,
    delta: float,
    dimension: int,
    dataset_size: int,
) -> Smoothing:
    """Return the smoothing of Corollary 34: lambda = R epsilon/(2 sqrt(n ln(1/delta))).

    It makes the step size of Theorem 30 contractive for losses that are not smooth.
    """
    validate.positive(radius=radius, epsilon=epsilon)
    validate.open_unit(delta=delta)
    validate.integer(1, dataset_size=dataset_size)
    width = radius * epsilon / (2 * math.sqrt(-dataset_size * math.log(delta)))
    return theorem_33(lipschitz=lipschitz, width=width, dimension=dimension)


@dataclass(frozen=True)
class ExcessLoss:
    """Row of Table 1: one pass over n records in d dimensions, without logarithms.

    Attributes
    ----------
    algorithm : str
        Name as printed.
    one_task, many_tasks : str
        Rate of the excess population loss for one task, and for each of k <= n tasks.
    local_epsilon : str
        Epsilon of local differential privacy of one task.
    """

    algorithm: str
    one_task: str
    many_tasks: str
    local_epsilon: str


TABLE_1 = (
    ExcessLoss("Noisy SGD + sampling", "sqrt(d/(eps n))", "sqrt(d/(eps n))", "n"),
    ExcessLoss("Noisy SGD", "sqrt(d/(eps^2 n))", "sqrt(d k/(eps^2 n))", "eps"),
    ExcessLoss("Output perturbation", "sqrt(d/(eps^2 n))", "sqrt(d k/(eps^2 n))", "infinite"),
    ExcessLoss("This work", "sqrt(d/(eps^2 n))", "sqrt(d/(eps^2 n))", "eps"),
)
"""As printed; the last row for k tasks rests on Theorem 32 (``fmtt18.theorem_32_corrected``)."""

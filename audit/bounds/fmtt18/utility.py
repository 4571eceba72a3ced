"""Feldman, Mironov, Talwar and Thakurta (2018), section 5 and Appendix C: utility and smoothing.

Statements on the excess loss E F(w) - min F and on smoothed losses. They do not bound privacy, so
they are functions and not entries of the catalogue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit import validate


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

    Parameters
    ----------
    radius : float
        Radius R of a ball that contains the domain.
    gradient_norm : float
        Bound G with E |G(w)|^2 <= G^2 for the stochastic gradients.
    steps : int
        Number of steps T.

    Returns
    -------
    Utility
        Step size and excess loss.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import audit
    >>> audit.bounds.fmtt18.theorem_28(radius=1.0, gradient_norm=2.0, steps=100)
    Utility(step_size=0.1, excess_loss=0.8)
    """
    validate.positive(radius=radius, gradient_norm=gradient_norm)
    validate.integer(1, steps=steps)
    root = math.sqrt(steps)
    return Utility(2 * radius / (gradient_norm * root), 4 * radius * gradient_norm / root)


def theorem_29_utility(
    *, radius: float, lipschitz: float, noise_std: float, dimension: int, dataset_size: int
) -> Utility:
    """Stop-PNSGD on n samples (Theorem 29): 4 R sqrt(L^2 + d sigma^2)/sqrt(n).

    Parameters
    ----------
    radius, lipschitz, noise_std : float
        Radius R of a ball that contains the domain, Lipschitz constant L and noise sigma.
    dimension, dataset_size : int
        Dimension d and number of records n.

    Returns
    -------
    Utility
        Step size and excess loss.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import audit
    >>> result = audit.bounds.fmtt18.theorem_29_utility(
    ...     radius=1.0, lipschitz=1.0, noise_std=1.0, dimension=3, dataset_size=400)
    >>> round(result.excess_loss, 4)
    0.4
    """
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

    Parameters
    ----------
    radius, lipschitz, noise_std : float
        Radius R of a ball that contains the domain, Lipschitz constant L and noise sigma.
    dimension, dataset_size : int
        Dimension d and number of records n.

    Returns
    -------
    Utility
        Step size and excess loss.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import audit
    >>> result = audit.bounds.fmtt18.theorem_30_utility(
    ...     radius=1.0, lipschitz=1.0, noise_std=1.0, dimension=3, dataset_size=400)
    >>> round(result.excess_loss, 4)
    0.5657
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

    Parameters
    ----------
    lipschitz : float
        Lipschitz constant L.
    width : float
        Standard deviation lambda of the convolution.
    dimension : int
        Dimension d.

    Returns
    -------
    Smoothing
        Smoothness and error.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import audit
    >>> audit.bounds.fmtt18.theorem_33(lipschitz=1.0, width=0.1, dimension=4)
    Smoothing(width=0.1, smoothness=10.0, error=0.2)
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

    Parameters
    ----------
    radius, lipschitz : float
        Radius R of a ball that contains the domain, and Lipschitz constant L.
    epsilon, delta : float
        Target of Theorem 30.
    dimension, dataset_size : int
        Dimension d and number of records n.

    Returns
    -------
    Smoothing
        The smoothing.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import audit
    >>> smoothing = audit.bounds.fmtt18.corollary_34_smoothing(
    ...     radius=1.0, lipschitz=1.0, epsilon=1.0, delta=1e-5, dimension=4, dataset_size=100)
    >>> round(smoothing.width, 5)
    0.01474
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

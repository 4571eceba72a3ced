"""White-box scores, for canaries with known gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit import validate

Array = NDArray[np.float64]


def gradient_score(
    noisy_gradient: Any,
    canary_gradient: Any,
    *,
    noise_std: float | None = None,
    sampling_rate: float = 1.0,
) -> float:
    """Return the score of one step: its noisy gradient against the canary's clipped gradient.

    Without ``noise_std`` the score is the inner product <g_t, c_t>. If the noise is Gaussian with
    the same standard deviation at every step, and the gradients of the other records are the same
    or are subtracted from g_t, the sum of these scores over the steps is a monotone function of the
    likelihood ratio of "canary in every batch" against "canary in no batch", hence the optimal
    statistic. With ``noise_std`` the score is the log-likelihood ratio of the step, log(1 - q + q
    exp((<g, c> - |c|^2 / 2) / noise_std^2)), which is optimal for Poisson batches too.

    Parameters
    ----------
    noisy_gradient : array_like, or nested sequence or mapping of arrays
        The released sum of clipped gradients and noise.
    canary_gradient : array_like, or nested sequence or mapping of arrays
        The canary's clipped gradient at the same parameters, with the same shape and scale: if
        ``noisy_gradient`` is divided by a batch size, divide this one too.
    noise_std : float, optional
        Standard deviation of the noise in each coordinate of ``noisy_gradient``.
    sampling_rate : float, optional
        Probability q in (0, 1] that the canary is in the batch; a value below 1 requires
        ``noise_std``.

    Returns
    -------
    float
        The score; high values indicate the canary.

    Raises
    ------
    ValueError
        If the shapes differ, or a value is out of its range.

    References
    ----------
    Nasr, M., et al. (2023). Tight auditing of differentially private machine learning. USENIX
    Security. The gradient canary of their white-box audit.

    Examples
    --------
    >>> gradient_score([3.0, 1.0], [1.0, 0.0])
    3.0
    >>> round(gradient_score([3.0, 1.0], [1.0, 0.0], noise_std=2.0, sampling_rate=0.5), 4)
    0.3606
    """
    inner, square = _products(noisy_gradient, canary_gradient)
    if not (0 < sampling_rate <= 1):
        raise validate.fail("sampling_rate", "in (0, 1]", sampling_rate)
    if noise_std is None:
        if sampling_rate < 1:
            raise validate.fail("noise_std", "given for a sampling_rate below 1", noise_std)
        return inner
    validate.positive(noise_std=noise_std)
    ratio = (inner - square / 2) / noise_std**2
    if sampling_rate == 1:
        return ratio
    return float(np.logaddexp(math.log1p(-sampling_rate), math.log(sampling_rate) + ratio))


def iterate_score(iterate: Any, start: Any, canary_gradient: Any) -> float:
    """Return the displacement of the last iterate against the canary's gradient.

    Parameters
    ----------
    iterate, start : array_like, or nested sequence or mapping of arrays
        Parameters after and before the training.
    canary_gradient : array_like, or nested sequence or mapping of arrays
        A gradient of the canary, of the same shape, chosen in advance; for example at the start.

    Returns
    -------
    float
        The inner product <start - iterate, canary_gradient>; high values indicate the canary.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> iterate_score([0.0, -2.0], [0.0, 0.0], [0.0, 1.0])
    2.0
    """
    return _products(start, canary_gradient)[0] - _products(iterate, canary_gradient)[0]


def _products(first: Any, second: Any) -> tuple[float, float]:
    """Return <first, second> and |second|^2 over all arrays of both."""
    parts = list(_arrays(first)), list(_arrays(second))
    shapes = [[part.shape for part in side] for side in parts]
    if shapes[0] != shapes[1]:
        raise ValueError(f"gradients must have the same shape, got {shapes[0]} and {shapes[1]}")
    inner = math.fsum(float(np.vdot(a, b)) for a, b in zip(*parts, strict=True))
    return inner, math.fsum(float(np.vdot(b, b)) for b in parts[1])


def _arrays(value: Any) -> Iterator[Array]:
    """Yield the arrays of a nested structure; those of a mapping in the order of its keys."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _arrays(value[key])
        return
    if isinstance(value, list | tuple) and any(map(_is_nested, value)):
        for one in value:
            yield from _arrays(one)
        return
    yield np.asarray(detached(value), dtype=np.float64)


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) or getattr(value, "ndim", 0) > 0


def detached(value: Any) -> Any:
    """Return a PyTorch tensor detached and on the CPU; return anything else unchanged."""
    detach = getattr(value, "detach", None)
    return detach().cpu() if callable(detach) else value

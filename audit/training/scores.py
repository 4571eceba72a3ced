"""White-box scores: what a release says of a canary whose gradient is known."""

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

    For Gaussian noise of one deviation the sum of the inner products <g_t, c_t> over the steps is
    the likelihood ratio of "canary in every batch" against "out", up to a monotone map, where the
    other records' gradients are subtracted from g_t or are the same: the optimal statistic (Nasr et
    al. 2023 audit DP-SGD with it). With ``noise_std`` the logarithm of the likelihood ratio of the
    step itself is returned, which is optimal for Poisson batches too:
    log(1 - q + q exp((<g, c> - |c|^2 / 2) / noise_std^2)).

    Parameters
    ----------
    noisy_gradient
        The sum of the clipped gradients and the noise, as it is released: an array, or a sequence
        or mapping of arrays, nested in any way.
    canary_gradient
        The canary's clipped gradient at the same parameters, of the same shape and scale: where
        ``noisy_gradient`` is divided by a batch size, so is this one.
    noise_std
        Standard deviation of the noise in each coordinate of ``noisy_gradient``.
    sampling_rate
        The chance q in (0, 1] that the canary is in the batch; needs ``noise_std`` below 1.

    Raises
    ------
    ValueError
        If the two differ in shape, or a value is out of its range.

    Examples
    --------
    >>> gradient_score([3.0, 1.0], [1.0, 0.0])
    3.0
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
    """Return the score of a last iterate: how far it went against the canary's gradient.

    Parameters
    ----------
    iterate, start
        Parameters after and before training: arrays, or sequences or mappings of them.
    canary_gradient
        A gradient of the canary, of the same shape, fixed beforehand: at the start, say.

    Raises
    ------
    ValueError
        If shapes differ.

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
        raise ValueError(f"gradients must have one shape, got {shapes[0]} and {shapes[1]}")
    inner = math.fsum(float(np.vdot(a, b)) for a, b in zip(*parts, strict=True))
    return inner, math.fsum(float(np.vdot(b, b)) for b in parts[1])


def _arrays(value: Any) -> Iterator[Array]:
    """Yield the arrays of a nested structure; a mapping's in the order of its keys."""
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
    """Return a tensor of PyTorch without its gradient, on the CPU; anything else as it is."""
    detach = getattr(value, "detach", None)
    return detach().cpu() if callable(detach) else value

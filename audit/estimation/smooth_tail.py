"""An estimate of a tail from a pilot: empirical in the body, fitted beyond."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from audit.estimation.rate_limits import lower_limit, upper_limit

Array = NDArray[np.float64]

# Squared coefficient of variation of the excess of a normal variable over h, against h.
_HAZARD = np.linspace(-4.0, 20.0, 1025)
_MILLS = np.exp(-0.5 * _HAZARD**2 - log_ndtr(-_HAZARD)) / math.sqrt(2 * math.pi)
_VARIATION = (1 - _MILLS * (_MILLS - _HAZARD)) / (_MILLS - _HAZARD) ** 2

# A fitted tail is clipped to the two-sided interval of this error around the observed rate.
_CLIP_ERROR = 0.05
# Below this, a scale is too small to divide by.
_SMALLEST_SCALE = 1e-290
# A fitted rate is never 0.
_SMALLEST_RATE = 1e-30
# Fewest exceedances for a fit.
_FEWEST = 20


@dataclass(frozen=True)
class SmoothTail:
    """An estimate of P(x >= t) from one pilot sample: empirical in the body, fitted in the tail."""

    scores: Array  # ascending
    start: float  # of the fitted tail; infinite if none is fitted (ties, few scores)
    exceedances: int  # scores that reach `start`
    mean_excess: float  # over `start`, and its squared coefficient of variation
    variation: float

    @staticmethod
    def fit(scores: Array) -> SmoothTail:
        """Fit the tail above a high quantile by the first two moments of the excess."""
        size = scores.size
        used = min(size // 4, 50 + int(8 * math.sqrt(size)))
        empty = SmoothTail(scores, math.inf, 0, 0.0, 1.0)
        if used < _FEWEST:
            return empty
        start = float(scores[size - used])
        top = scores[size - used :]
        # Atoms and lattices are not fitted; their rates are the empirical ones.
        if np.count_nonzero(np.diff(top)) < 0.9 * (used - 1):
            return empty
        scale = float(top[-1]) - start
        if not _SMALLEST_SCALE < scale < math.inf:
            return empty
        excess = (top - start) / scale
        mean = float(np.mean(excess))
        variation = float(np.var(excess)) / mean**2
        return SmoothTail(scores, start, used, mean * scale, variation)

    @property
    def horizon(self) -> float:
        """A score far beyond the sample up to which the fitted tail is used."""
        last = float(self.scores[-1])
        reach = last + 6 * self.mean_excess
        return reach if self.exceedances and math.isfinite(reach) else last

    def rate(self, threshold: Array) -> tuple[Array, Array]:
        """Return the estimated P(x >= threshold) and its relative standard error."""
        size = self.scores.size
        count = (size - np.searchsorted(self.scores, threshold, side="left")).astype(np.float64)
        observed = (count + 0.5) / (size + 1)
        error = np.sqrt(np.maximum(1 - observed, 0.0) / (count + 0.5))
        if not self.exceedances:
            return observed, error
        with np.errstate(over="ignore", under="ignore"):
            beyond = np.maximum(threshold - self.start, 0.0) / self.mean_excess
            log_fitted = self._log_survival(beyond)
            fitted = self.exceedances / size * np.exp(log_fitted)
        outside = threshold > self.start
        low, high = np.zeros_like(observed), np.ones_like(observed)
        low[outside] = lower_limit(count[outside], size, _CLIP_ERROR)
        high[outside] = upper_limit(count[outside], size, _CLIP_ERROR)
        fitted_error = np.hypot(1.0, 1.5 * log_fitted) / math.sqrt(self.exceedances)
        return (
            np.where(outside, np.clip(fitted, np.maximum(low, _SMALLEST_RATE), high), observed),
            np.where(outside, np.minimum(fitted_error, error), error),
        )

    def _log_survival(self, excess: Array) -> Array:
        """Return log P(excess / mean excess >= value) of the fitted law.

        A tail lighter than exponential is that of a normal law, which fits Gaussian tails exactly;
        a heavier one is that of a generalised Pareto law (Pickands 1975).
        """
        if self.variation >= 1:
            shape = 0.5 * (1 - 1 / self.variation)
            if shape < 1e-6:
                return -excess
            return np.asarray(-np.log1p(shape * excess / (1 - shape)) / shape)
        hazard = float(np.interp(self.variation, _VARIATION, _HAZARD))
        mean = float(np.interp(hazard, _HAZARD, _MILLS)) - hazard
        return np.asarray(log_ndtr(-(hazard + mean * excess)) - log_ndtr(-hazard))

"""Detect scores that cannot refute anything, such as those of a training with a mistake."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Array = NDArray[np.float64]

# Standard errors. Scores of one distribution pass as different in 1 audit of 200; scores that
# indicate the canary never pass as reversed.
_DIFFERENT, _REVERSED = 3.0, 5.0


def useless(scores: Array, scores_prime: Array, *, directed: bool, certifies: bool) -> str:
    """Return why the scores cannot refute anything, or an empty string if they can.

    The reason can only turn "consistent" into "inconclusive".

    Parameters
    ----------
    scores, scores_prime
        Scores with and without the canary, or of included and of excluded canaries; not empty.
    directed
        Whether only high scores are taken to indicate the canary.
    certifies
        Whether a bound above 0 was certified at any delta.
    """
    both = np.concatenate([scores, scores_prime])
    if np.all(both == both[0]):
        return "All scores are equal, with the canary and without it: they carry no information."
    scaled = both / np.max(np.abs(both))  # sums of large scores would overflow
    # means detect a few large scores, ranks detect shifts under heavy tails
    gaps = [_standard_errors(of_all, scores.size) for of_all in (scaled, rankdata(both))]
    if directed and min(gaps) < -_REVERSED:
        return (
            "Scores are lower with the canary than without it. A high score must indicate the "
            "canary: return minus the score."
        )
    if not certifies and max(map(abs, gaps)) < _DIFFERENT:
        return (
            "Scores with the canary do not differ significantly from those without it, and no "
            "bound is certified: a training that never includes its canary looks like this. Audit "
            "the training with less noise, which must be refuted, or run more trainings."
        )
    return ""


def _standard_errors(values: Array, first: int) -> float:
    """Return the difference of the means of the first and the other values, in standard errors."""
    sides = values[:first], values[first:]
    gap = float(np.mean(sides[0]) - np.mean(sides[1]))
    error = math.hypot(*(np.std(side) / math.sqrt(side.size) for side in sides))
    return gap / error if error > 0 else math.copysign(math.inf, gap)

"""Whether scores could have refuted anything: what a slip in a training does to them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Array = NDArray[np.float64]

# Standard errors. Scores of one law pass for different ones in 1 audit of 200, and scores whose
# canary speaks for itself never pass for reversed ones.
_DIFFERENT, _REVERSED = 3.0, 5.0


def useless(scores: Array, scores_prime: Array, *, directed: bool, certifies: bool) -> str:
    """Return why scores could refute nothing, in words; empty where they could.

    It can only turn "consistent" into "inconclusive".

    Parameters
    ----------
    scores, scores_prime
        With the canary, or of canaries that were in, and without; none empty.
    directed
        Whether only high scores are taken to speak for the canary.
    certifies
        Whether a bound above 0 was certified at any delta.
    """
    both = np.concatenate([scores, scores_prime])
    if np.all(both == both[0]):
        return "All scores are equal, with the canary and without it: they say nothing."
    scaled = both / np.max(np.abs(both))  # sums of large scores would overflow
    # means see a few large scores, ranks see through heavy tails
    gaps = [_standard_errors(of_all, scores.size) for of_all in (scaled, rankdata(both))]
    if directed and min(gaps) < -_REVERSED:
        return (
            "Scores are lower with the canary than without it. A high score must speak for the "
            "canary: return minus the score."
        )
    if not certifies and max(map(abs, gaps)) < _DIFFERENT:
        return (
            "Scores with the canary do not differ visibly from those without it, and nothing is "
            "certified: a training that leaves its canary out looks like this. Audit one with less "
            "noise, which must be refuted, or take more trainings."
        )
    return ""


def _standard_errors(values: Array, first: int) -> float:
    """Return by how many standard errors the mean of the first values is above that of the rest."""
    sides = values[:first], values[first:]
    gap = float(np.mean(sides[0]) - np.mean(sides[1]))
    error = math.hypot(*(np.std(side) / math.sqrt(side.size) for side in sides))
    return gap / error if error > 0 else math.copysign(math.inf, gap)

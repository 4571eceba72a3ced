"""Slow, obvious twins of the kernels, and the checks that compare samples with laws.

Every check returns a p-value, Bonferroni-corrected over what it looks at. Tests reject below
``LEVEL``: the false alarm rate of one check over the choice of its (fixed) seed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit.constructions import Affine, Process, Wall

LEVEL = 1e-6
Floats = NDArray[np.float64]


def walk(process: Process, rng: np.random.Generator) -> tuple[float, int, bool]:
    """One walk, drawing in the order that the kernels document: (iterate, jumps, met an end)."""
    x, jumps, met = process.start, 0, False
    gone = _gone(process, x)
    if gone:
        return x, 0, True
    path = process.paths[_pick([p.probability for p in process.paths], rng)]
    clock = math.inf
    if any(sum(w > 0 for w in step.weights) > 1 for step in process.distinct_steps()):
        clock = rng.standard_exponential()
    for step in path.steps():
        choices = [(m, w) for m, w in zip(step.maps, step.weights, strict=True) if w > 0]
        usual = max(choices, key=lambda c: c[1])
        others = [c for c in choices if c is not usual]
        update = usual[0]
        if others:
            clock += math.log1p(-math.fsum(w for _, w in others))
        if clock < 0:
            clock = rng.standard_exponential()
            update = others[_pick([w for _, w in others], rng)][0]
        assert isinstance(update, Affine)
        jumps += update.shift != 0
        x = update.slope * x + (update.shift + step.noise_std * rng.standard_normal())
        x = min(max(x, process.lower), process.upper)
        met = met or x in (process.lower, process.upper)
        if _gone(process, x):
            return x, jumps, True
    return x, jumps, met


def _pick(weights: list[float], rng: np.random.Generator) -> int:
    if len(weights) == 1:
        return 0
    return int(np.searchsorted(np.cumsum(weights) / math.fsum(weights), rng.random(), "right"))


def _gone(process: Process, x: float) -> bool:
    return (process.lower_wall is Wall.ABSORB and x <= process.lower) or (
        process.upper_wall is Wall.ABSORB and x >= process.upper
    )


def sample(process: Process, trials: int, seed: int) -> Floats:
    """Final iterates, with ``Generator.choice`` and NumPy over the trials."""
    rng = np.random.default_rng(seed)
    paths = rng.choice(len(process.paths), trials, p=[p.probability for p in process.paths])
    everything = []
    for k, path in enumerate(process.paths):
        x = np.full(np.count_nonzero(paths == k), process.start)
        gone = np.array([_gone(process, v) for v in x], dtype=bool)
        for step in path.steps():
            which = rng.choice(len(step.maps), x.size, p=step.weights)
            moved = np.choose(which, [update(x) for update in step.maps])
            moved = moved + rng.normal(0.0, step.noise_std, x.size)
            moved = np.minimum(np.maximum(moved, process.lower), process.upper)
            x = np.where(gone, x, moved)
            if process.lower_wall is Wall.ABSORB:
                gone |= x <= process.lower
            if process.upper_wall is Wall.ABSORB:
                gone |= x >= process.upper
        everything.append(x)
    return np.concatenate(everything)


def is_normal(x: Floats, mean: float, std: float) -> float:
    """Mean, variance and Kolmogorov-Smirnov against N(mean, std^2)."""
    z = (x - mean) / std
    n = z.size
    of_mean = 2 * stats.norm.sf(abs(z.mean()) * math.sqrt(n))
    square = float(z @ z)
    of_square = 2 * min(stats.chi2.sf(square, n), stats.chi2.cdf(square, n))
    return 3 * min(of_mean, of_square, float(stats.ks_1samp(z, stats.norm.cdf).pvalue))


def same_law(a: Floats, b: Floats, process: Process) -> float:
    """Both atoms (conditional binomial test) and Kolmogorov-Smirnov between them."""
    values = []
    for end in (process.lower, process.upper):
        hits, total = int(np.sum(a == end)), int(np.sum(a == end) + np.sum(b == end))
        share = a.size / (a.size + b.size)
        values.append(stats.binomtest(hits, total, share).pvalue if total else 1.0)
    inside = [s[(s > process.lower) & (s < process.upper)] for s in (a, b)]
    values.append(stats.ks_2samp(*inside, method="asymp").pvalue)
    return 3 * float(min(values))


def has_counts(values: NDArray[np.int64], probabilities: Floats) -> float:
    """Chi-square of whole numbers against their probabilities, rare ones pooled."""
    expected = probabilities * values.size
    observed = np.bincount(values, minlength=expected.size).astype(float)
    assert observed.size == expected.size
    rare = expected < 20
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        observed = np.append(observed[~rare], observed[rare].sum())
    keep = expected > 0
    assert np.all(observed[~keep] == 0)
    expected *= observed.sum() / expected.sum()
    return float(stats.chisquare(observed[keep], expected[keep]).pvalue)

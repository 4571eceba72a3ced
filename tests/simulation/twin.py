"""Slow, obvious twins of the kernels, and the checks that compare samples with laws.

Every check returns a p-value, Bonferroni-corrected over what it looks at. Tests reject below
``LEVEL``: the false alarm rate of one check over the choice of its (fixed) seed.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit.constructions import Affine, DependentStep, Process, Step, UpdateMap, Wall
from audit.constructions.process import Path
from audit.simulation import rng

LEVEL = 1e-6
fma = ctypes.CDLL(None).fma  # of the C library; Python has it from 3.13 on
fma.argtypes, fma.restype = [ctypes.c_double] * 3, ctypes.c_double
WORDS = 2**64
Floats = NDArray[np.float64]


class Lane:
    """One generator, in plain whole numbers: bits, and normals made of them."""

    def __init__(self, state: list[int]) -> None:
        self.state = state

    def draw(self) -> int:
        """SFC64 as its author prints it."""
        a, b, c, counter = self.state
        result = (a + b + counter) % WORDS
        rotated = (c << 24 | c >> 40) % WORDS
        self.state = [
            b ^ b >> 11,
            (c + (c << 3)) % WORDS,
            (rotated + result) % WORDS,
            (counter + 1) % WORDS,
        ]
        return result

    def normals(self) -> tuple[float, float]:
        """Box and Muller's transform, operation by operation."""
        k, m = self.draw(), self.draw()
        fraction, exponent = math.frexp((float(k) + 0.5) * 2.0**-64)
        if fraction < math.sqrt(0.5):
            fraction, exponent = 2 * fraction, exponent - 1
        s = (fraction - 1.0) / (fraction + 1.0)
        r = math.sqrt(fma(s, _series(rng.LOGARITHM, s * s), -exponent * rng.TWO_LOG_2))
        t = (m // 2 % 2**51 + 0.5) / 2**51 - 0.5
        across, along = r * t, r * _series(rng.COSINE, t * t)
        sine = _series(rng.SINE, t * t)
        first, second = fma(-across, sine, along), fma(across, sine, along)
        return -first if m >> 63 else first, -second if (m >> 62) % 2 else second


def lanes(sequence: np.random.SeedSequence) -> list[Lane]:
    raw = np.random.SFC64(sequence).random_raw(3 * rng.LANES)
    return [Lane([*(int(v) for v in raw[k :: rng.LANES]), 1]) for k in range(rng.LANES)]


def _series(coefficients: tuple[float, ...], z: float) -> float:
    total = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = fma(z, total, c)
    return total


Walked = tuple[float, int, bool]  # iterate, jumps, met an end


def walk(process: Process, sequence: np.random.SeedSequence, trials: int) -> list[Walked]:
    """A block of walks, drawing in the order that the kernels document."""
    generators = lanes(sequence)
    chosen = [0] * trials
    if len(process.paths) > 1:
        shares = [path.probability for path in process.paths]
        chosen = [_pick(shares, generators[i % len(generators)]) for i in range(trials)]
    order = sorted(range(trials), key=lambda i: chosen[i])
    found: dict[int, Walked] = {}
    for first in range(0, trials, len(generators)):
        together = order[first : first + len(generators)]
        longest = max(len(process.paths[chosen[i]]) for i in together)
        # lanes without a trial come last: what they draw meets nobody
        for trial, lane in zip(together, generators, strict=False):
            found[trial] = _walk(process, process.paths[chosen[trial]], lane, longest)
    return [found[i] for i in range(trials)]


def _walk(process: Process, path: Path, lane: Lane, longest: int) -> Walked:
    x, jumps, memory = process.start, 0, 0
    met = gone = _gone(process, x)
    steps = list(path.steps())
    for first in range(0, longest, 16):
        pairs = [lane.normals() for _ in range((min(16, longest - first) + 1) // 2)]
        noise = [z for pair in pairs for z in pair]
        for step, z in zip(steps[first : first + 16], noise, strict=False):
            update, memory = _drawn_map(step, lane, memory)
            if gone:
                continue
            jumps += isinstance(update, Affine) and update.shift != 0
            x = fma(step.noise_std, z, _moved(update, x))
            x = min(max(x, process.lower), process.upper)
            met = met or x in (process.lower, process.upper)
            gone = _gone(process, x)
    return x, jumps, met


def _moved(update: UpdateMap, x: float) -> float:
    if isinstance(update, Affine):
        return float(fma(update.slope, x, update.shift))
    return float(update(np.array([x]))[0])


def _drawn_map(step: Step, lane: Lane, memory: int) -> tuple[UpdateMap, int]:
    moves = step.moves if isinstance(step, DependentStep) else ((memory, memory),) * len(step.maps)
    choices = [
        (m, w, after)
        for m, w, (before, after) in zip(step.maps, step.weights, moves, strict=True)
        if w > 0 and before == memory
    ]
    choices.sort(key=lambda c: c[1])
    draws = len(choices) > 1 or isinstance(step, DependentStep)
    chosen = choices[_pick([w for _, w, _ in choices], lane) if draws else 0]
    return chosen[0], chosen[2]


def _pick(weights: list[float], lane: Lane) -> int:
    below = np.cumsum(weights[:-1]) / math.fsum(weights)
    return int(np.searchsorted(below, lane.draw() / 2**64, "right"))


def _gone(process: Process, x: float) -> bool:
    return (process.lower_wall is Wall.ABSORB and x <= process.lower) or (
        process.upper_wall is Wall.ABSORB and x >= process.upper
    )


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

"""Made-up laws of the last iterate, whose tails are known in closed form."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from audit.results import LawCurves, Laws

TRIALS = 1_000_000
Array = NDArray[np.float64]
Ends = tuple[float, float]


def floats(values: ArrayLike) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())


def _laws(x: Array, edges: Array, seed: int, *laws: tuple[Array, Array, Ends, Ends]) -> Laws:
    """Laws with these densities, masses of bins, atoms and frequencies of the atoms."""
    rng = np.random.default_rng(seed)
    first, second = (
        LawCurves(
            density=floats(density),
            histogram=floats(rng.poisson(masses * TRIALS) / TRIALS / np.diff(edges)),
            atoms=floats(atoms),
            atom_frequencies=floats(frequencies),
        )
        for density, masses, atoms, frequencies in laws
    )
    return Laws(grid=floats(x), edges=floats(edges), ends=(-0.5, 0.5), first=first, second=second)


def full_batch_laws(rate: float) -> Laws:
    """Densities like e^(rate x) on [-1/2, 1/2] with atoms at the ends, and their mirror image."""
    x, edges = np.linspace(-0.5, 0.5, 401), np.linspace(-0.5, 0.5, 81)
    z = 2 * math.sinh(rate / 2) / rate + 0.02 * 2 * math.cosh(rate / 2)
    prime, masses = np.exp(rate * x) / z, np.diff(np.exp(rate * edges)) / (rate * z)
    low, high = 0.02 * math.exp(-rate / 2) / z, 0.02 * math.exp(rate / 2) / z
    return _laws(
        x,
        edges,
        5,
        (prime[::-1], masses[::-1], (high, low), (high + 1e-4, low - 3e-5)),
        (prime, masses, (low, high), (low + 2e-5, high - 1e-4)),
    )


def normal_laws() -> Laws:
    x, edges = np.linspace(-0.5, 0.5, 401), np.linspace(-0.5, 0.5, 81)
    first, second = norm(0.0, 0.2), norm(0.33, 0.11)
    return _laws(
        x,
        edges,
        6,
        (first.pdf(x), np.diff(first.cdf(edges)), (first.cdf(-0.5), first.sf(0.5)), (6e-3, 6e-3)),
        (
            second.pdf(x),
            np.diff(second.cdf(edges)),
            (second.cdf(-0.5), second.sf(0.5)),
            (0.0, 0.06),
        ),
    )


def paper_laws() -> Laws:
    """A narrow normal law in the middle against an even narrower one at the right end."""
    x = np.unique(np.concatenate([np.linspace(-0.2, 0.5, 301), np.linspace(0.48, 0.5, 101)]))
    edges = np.linspace(-0.2, 0.5, 81)
    first, rate, atom = norm(0.0, 0.0316), 1500.0, 0.21
    tail = (1 - atom) * np.exp(-rate * (0.5 - edges))
    return _laws(
        x,
        edges,
        7,
        (first.pdf(x), np.diff(first.cdf(edges)), (0.0, first.sf(0.5)), (0.0, 0.0)),
        (
            (1 - atom) * rate * np.exp(-rate * (0.5 - x)),
            np.diff(tail),
            (0.0, atom),
            (0.0, 0.2104),
        ),
    )

"""Made-up laws of the last iterate, whose tails are known in closed form."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from audit.results import LawCurves, Laws

TRIALS = 1_000_000


def floats(values: ArrayLike) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())


def full_batch_laws(rate: float) -> Laws:
    """Densities like e^(rate x) on [-1/2, 1/2] with atoms at the ends, and their mirror image."""
    x = np.linspace(-0.5, 0.5, 401)
    edges = np.linspace(-0.5, 0.5, 81)
    z = 2 * math.sinh(rate / 2) / rate + 0.02 * 2 * math.cosh(rate / 2)
    prime = np.exp(rate * x) / z
    low, high = 0.02 * math.exp(-rate / 2) / z, 0.02 * math.exp(rate / 2) / z
    cdf = np.exp(rate * edges) / (rate * z)
    rng = np.random.default_rng(5)
    histogram_prime = rng.poisson(np.diff(cdf) * TRIALS) / TRIALS / np.diff(edges)
    histogram = rng.poisson(np.diff(cdf)[::-1] * TRIALS) / TRIALS / np.diff(edges)
    return Laws(
        grid=floats(x),
        edges=floats(edges),
        ends=(-0.5, 0.5),
        first=LawCurves(
            density=floats(prime[::-1]),
            histogram=floats(histogram),
            atoms=(high, low),
            atom_frequencies=(high + 1e-4, low - 3e-5),
        ),
        second=LawCurves(
            density=floats(prime),
            histogram=floats(histogram_prime),
            atoms=(low, high),
            atom_frequencies=(low + 2e-5, high - 1e-4),
        ),
    )


def normal_laws() -> Laws:
    x = np.linspace(-0.5, 0.5, 401)
    edges = np.linspace(-0.5, 0.5, 81)

    def density(mean: float, std: float) -> tuple[float, ...]:
        return floats(np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi)))

    rng = np.random.default_rng(6)
    histograms = [
        rng.poisson(np.diff(ndtr((edges - mean) / std)) * TRIALS) / TRIALS / np.diff(edges)
        for mean, std in ((0.0, 0.2), (0.33, 0.11))
    ]
    return Laws(
        grid=floats(x),
        edges=floats(edges),
        ends=(-0.5, 0.5),
        first=LawCurves(
            density=density(0.0, 0.2),
            histogram=floats(histograms[0]),
            atoms=(float(ndtr(-2.5)), float(ndtr(-2.5))),
            atom_frequencies=(0.00618, 0.00629),
        ),
        second=LawCurves(
            density=density(0.33, 0.11),
            histogram=floats(histograms[1]),
            atoms=(float(ndtr(-0.83 / 0.11)), float(ndtr(-0.17 / 0.11))),
            atom_frequencies=(0.0, 0.0613),
        ),
    )


def paper_laws() -> Laws:
    """A narrow normal law in the middle against an even narrower one at the right end."""
    x = np.unique(np.concatenate([np.linspace(-0.2, 0.5, 301), np.linspace(0.48, 0.5, 101)]))
    edges = np.linspace(-0.2, 0.5, 81)
    std, rate, atom = 0.0316, 1500.0, 0.21
    density = np.exp(-0.5 * (x / std) ** 2) / (std * math.sqrt(2 * math.pi))
    prime = (1 - atom) * rate * np.exp(-rate * (0.5 - x))
    rng = np.random.default_rng(7)
    masses = np.diff(ndtr(edges / std)), (1 - atom) * np.diff(np.exp(-rate * (0.5 - edges)))
    histograms = [rng.poisson(m * TRIALS) / TRIALS / np.diff(edges) for m in masses]
    return Laws(
        grid=floats(x),
        edges=floats(edges),
        ends=(-0.5, 0.5),
        first=LawCurves(
            density=floats(density),
            histogram=floats(histograms[0]),
            atoms=(0.0, float(ndtr(-0.5 / std))),
            atom_frequencies=(0.0, 0.0),
        ),
        second=LawCurves(
            density=floats(prime),
            histogram=floats(histograms[1]),
            atoms=(0.0, atom),
            atom_frequencies=(0.0, 0.2104),
        ),
    )

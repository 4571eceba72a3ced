"""Made-up laws of the last iterate, whose tails are known in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

TRIALS = 1_000_000


def full_batch_laws(rate: float) -> dict[str, Any]:
    """Densities like e^(rate x) on [-1/2, 1/2] with atoms at the ends, and their mirror image."""
    x = np.linspace(-0.5, 0.5, 401)
    edges = np.linspace(-0.5, 0.5, 81)
    z = 2 * math.sinh(rate / 2) / rate + 0.02 * 2 * math.cosh(rate / 2)
    prime = np.exp(rate * x) / z
    ends = [0.02 * math.exp(-rate / 2) / z, 0.02 * math.exp(rate / 2) / z]
    cdf = np.exp(rate * edges) / (rate * z)
    rng = np.random.default_rng(5)
    histogram_prime = rng.poisson(np.diff(cdf) * TRIALS) / TRIALS / np.diff(edges)
    histogram = rng.poisson(np.diff(cdf)[::-1] * TRIALS) / TRIALS / np.diff(edges)
    return {
        "x": x.tolist(),
        "density": prime[::-1].tolist(),
        "density_prime": prime.tolist(),
        "atoms": ends[::-1],
        "atoms_prime": ends,
        "edges": edges.tolist(),
        "histogram": histogram.tolist(),
        "histogram_prime": histogram_prime.tolist(),
        "atom_frequencies": [ends[1] + 1e-4, ends[0] - 3e-5],
        "atom_frequencies_prime": [ends[0] + 2e-5, ends[1] - 1e-4],
    }


def normal_laws() -> dict[str, Any]:
    x = np.linspace(-0.5, 0.5, 401)
    edges = np.linspace(-0.5, 0.5, 81)

    def density(mean: float, std: float) -> list[float]:
        values = np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))
        return [float(v) for v in values]

    rng = np.random.default_rng(6)
    histograms = [
        rng.poisson(np.diff(ndtr((edges - mean) / std)) * TRIALS) / TRIALS / np.diff(edges)
        for mean, std in ((0.0, 0.2), (0.33, 0.11))
    ]
    return {
        "x": x.tolist(),
        "density": density(0.0, 0.2),
        "density_prime": density(0.33, 0.11),
        "atoms": [ndtr(-2.5), ndtr(-2.5)],
        "atoms_prime": [ndtr(-0.83 / 0.11), ndtr(-0.17 / 0.11)],
        "edges": edges.tolist(),
        "histogram": histograms[0].tolist(),
        "histogram_prime": histograms[1].tolist(),
        "atom_frequencies": [0.00618, 0.00629],
        "atom_frequencies_prime": [0.0, 0.0613],
    }


def paper_laws() -> dict[str, Any]:
    """A narrow normal law in the middle against an even narrower one at the right end."""
    x = np.unique(np.concatenate([np.linspace(-0.2, 0.5, 301), np.linspace(0.48, 0.5, 101)]))
    edges = np.linspace(-0.2, 0.5, 81)
    std, rate, atom = 0.0316, 1500.0, 0.21
    density = np.exp(-0.5 * (x / std) ** 2) / (std * math.sqrt(2 * math.pi))
    prime = (1 - atom) * rate * np.exp(-rate * (0.5 - x))
    rng = np.random.default_rng(7)
    masses = np.diff(ndtr(edges / std)), (1 - atom) * np.diff(np.exp(-rate * (0.5 - edges)))
    histograms = [rng.poisson(m * TRIALS) / TRIALS / np.diff(edges) for m in masses]
    return {
        "x": x.tolist(),
        "density": density.tolist(),
        "density_prime": prime.tolist(),
        "atoms": [0.0, ndtr(-0.5 / std)],
        "atoms_prime": [0.0, atom],
        "edges": edges.tolist(),
        "histogram": histograms[0].tolist(),
        "histogram_prime": histograms[1].tolist(),
        "atom_frequencies": [0.0, 0.0],
        "atom_frequencies_prime": [0.0, 0.2104],
        "ends": [-0.5, 0.5],
    }

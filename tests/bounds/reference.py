"""Slow, obvious twins of what `audit.bounds` computes, from other principles."""

from __future__ import annotations

import functools
import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

Array = NDArray[np.float64]


def mixture_delta(epsilon: float, rate: float, mu: float) -> float:
    """sup_S P(S) - e^epsilon Q(S), P = (1-p) N(0,1) + p N(mu,1), Q = N(0,1), epsilon >= 0."""
    threshold = (math.log1p(math.expm1(epsilon) / rate) + mu**2 / 2) / mu
    p_mass = (1 - rate) * ndtr(-threshold) + rate * ndtr(mu - threshold)
    return float(p_mass - math.exp(epsilon) * ndtr(-threshold))


def symmetric_delta(epsilon: float, rate: float, mu: float) -> float:
    """Profile of C_p(G(mu)) for any sign of epsilon."""
    if epsilon >= 0:
        return mixture_delta(epsilon, rate, mu)
    return 1 - math.exp(epsilon) * (1 - mixture_delta(-epsilon, rate, mu))


def twofold_delta(epsilon: float, rate: float, mu: float) -> float:
    """Profile of C_p(G(mu)) composed twice, by quadrature over the first loss."""

    def integrand(x: float) -> float:
        loss = math.log1p(rate * math.expm1(mu * x - mu**2 / 2))
        above = math.exp(loss) * symmetric_delta(epsilon - loss, rate, mu)
        return norm.pdf(x) * (above + symmetric_delta(epsilon + loss, rate, mu))

    kink = (math.log1p(math.expm1(epsilon) / rate) + mu**2 / 2) / mu
    edges = sorted({mu / 2, kink, mu + 10, kink + 10})
    total = sum(
        quad(integrand, low, high, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
        for low, high in pairwise(edges)
    )
    atom = (1 - rate) * (1 - 2 * ndtr(-mu / 2))
    return float(total + atom * symmetric_delta(epsilon, rate, mu))


@functools.cache
def mixture_masses(inside: float, outside: float, rate: float) -> Array:
    """Masses of narrow cells."""
    x = np.linspace(-15, 15, 200_001)
    return (rate * norm.pdf(x, inside, 1) + (1 - rate) * norm.pdf(x, outside, 1)) * (x[1] - x[0])


def one_step_delta(
    epsilon: float, first: tuple[float, float], second: tuple[float, float], rate: float
) -> float:
    """Profile of two mixtures p N(in, 1) + (1-p) N(out, 1), means (in, out) of each, on a grid."""
    p, q = mixture_masses(*first, rate), mixture_masses(*second, rate)
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)))


def one_step_epsilon(
    delta: float, first: tuple[float, float], second: tuple[float, float], rate: float
) -> float:
    """Root of `one_step_delta`, the worse order."""
    return max(
        float(brentq(lambda e, a=a, b=b: one_step_delta(e, a, b, rate) - delta, 0, 20, xtol=1e-8))
        for a, b in ((first, second), (second, first))
    )

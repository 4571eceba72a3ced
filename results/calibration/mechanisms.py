"""Pairs of laws with known privacy curves, from which samples are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, cauchy, dlaplace, norm

from audit import Batching, NoisySGD, exact
from audit.constructions import BiasedWalk, Construction, TwoSidedWalk

Array = NDArray[np.float64]
Sampler = Callable[[np.random.Generator, int], Array]

# Held together: an audit is wrong if it is wrong at any of them.
DELTAS = np.array([0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.2, 0.3])


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A pair of laws of a score.

    ``first`` and ``second`` are the probabilities of {x >= t} under the two laws at all t that
    matter. ``fixed`` are thresholds that somebody chose before; ``interval_rates`` those of more
    events for laws whose likelihood ratio is not monotone; ``unbounded`` says that the ratio has
    no bound, which no grid shows: epsilon at delta = 0 is infinite.
    """

    name: str
    draw_first: Sampler
    draw_second: Sampler
    first: Array
    second: Array
    fixed: tuple[float, ...]
    interval_rates: tuple[Array, Array] | None = None
    unbounded: bool = False

    def epsilon_of_thresholds(self) -> Array:
        """Return the largest epsilon that any threshold event forces, at every delta.

        No larger than the true epsilon, so that exceeding the true one exceeds this one too.
        """
        found = np.maximum(*(worst_loss(*rates) for rates in self._orders()))
        return np.where((DELTAS == 0) & self.unbounded, np.inf, found)

    def epsilon(self) -> Array:
        """Return the true epsilon at every delta, the worse of the two orders."""
        if self.interval_rates is None:
            return self.epsilon_of_thresholds()
        p, q = self.interval_rates
        return np.maximum(
            self.epsilon_of_thresholds(), np.maximum(worst_loss(p, q), worst_loss(q, p))
        )

    @property
    def null(self) -> bool:
        """Whether the two laws are one."""
        return bool(np.all(self.epsilon() == 0))

    def _orders(self) -> tuple[tuple[Array, Array], ...]:
        p, q = np.append(self.first, 1 - self.first), np.append(self.second, 1 - self.second)
        return (p, q), (q, p)


def worst_loss(p: Array, q: Array) -> Array:
    """Return the largest log((p - delta) / q), at least 0, over events of rates p and q."""
    gap = np.maximum(p - DELTAS[:, None], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(gap) - np.log(q)
    return np.asarray(np.maximum(np.max(np.where(gap > 0, loss, -np.inf), axis=1), 0.0))


_T = np.linspace(-9.0, 11.0, 40001)
_PLAIN = tuple(np.linspace(-2.5, 3.5, 8).tolist())


def gaussian(mu: float) -> Mechanism:
    """N(mu, 1) and N(0, 1): exactly mu-GDP."""
    return Mechanism(
        f"Gaussian mu={mu:g}" if mu else "identical normal",
        lambda g, n: g.normal(mu, 1.0, n),
        lambda g, n: g.normal(0.0, 1.0, n),
        norm.sf(_T - mu),
        norm.sf(_T),
        _PLAIN,
        unbounded=mu != 0,
    )


def laplace() -> Mechanism:
    """Epsilon 1 at delta 0."""

    def survival(t: Array) -> Array:
        half = 0.5 * np.exp(-np.abs(t))
        return np.where(t > 0, half, 1 - half)

    return Mechanism(
        "Laplace",
        lambda g, n: g.laplace(1.0, 1.0, n),
        lambda g, n: g.laplace(0.0, 1.0, n),
        survival(_T - 1),
        survival(_T),
        (*_PLAIN[:3], 0.0, 1.0, *_PLAIN[5:]),
    )


def sampled_gaussian(rate: float = 0.2, shift: float = 2.0) -> Mechanism:
    """One Poisson-sampled step: the record moves the mean where it is in the batch."""
    return Mechanism(
        "sampled Gaussian",
        lambda g, n: g.normal(0.0, 1.0, n) + shift * (g.random(n) < rate),
        lambda g, n: g.normal(0.0, 1.0, n),
        (1 - rate) * norm.sf(_T) + rate * norm.sf(_T - shift),
        norm.sf(_T),
        _PLAIN,
        unbounded=True,
    )


def heavy_tails(shift: float = 1.5) -> Mechanism:
    """Return a Cauchy law and the same one shifted; the likelihood ratio is not monotone."""
    # {ratio >= c} is an interval; all pairs of ends from a grid contain the best to 1e-4.
    ends = np.append(np.tan(np.linspace(-1.5707, 1.5707, 1200)), 1e9)
    low, high = np.triu_indices(ends.size, 1)
    rates = tuple(
        np.diff(cauchy.cdf(ends - m)[np.stack([low, high])], axis=0)[0] for m in (shift, 0.0)
    )
    t = np.append(np.tan(np.linspace(-1.5707, 1.5707, 40001)), _T)
    kept = [_frontier(*rates), _frontier(*rates[::-1])[::-1]]
    return Mechanism(
        "Cauchy shift",
        lambda g, n: shift + g.standard_cauchy(n),
        lambda g, n: g.standard_cauchy(n),
        cauchy.sf(t - shift),
        cauchy.sf(t),
        (-20.0, -3.0, -1.0, 0.0, 1.0, 3.0, 5.0, 20.0),
        (np.append(kept[0][0], kept[1][0]), np.append(kept[0][1], kept[1][1])),
    )


def _frontier(p: Array, q: Array) -> tuple[Array, Array]:
    """Return the events that no other beats in both rates; others have smaller losses."""
    order = np.lexsort((-p, q))
    best = np.maximum.accumulate(p[order])
    kept = order[np.append(True, best[1:] > best[:-1])]
    return p[kept], q[kept]


def discrete(name: str, atoms: Array, first: Array, second: Array) -> Mechanism:
    """Two laws on the same ascending atoms."""

    def drawn(weights: Array) -> Sampler:
        steps = np.cumsum(weights)[:-1]
        return lambda g, n: atoms[np.searchsorted(steps, g.random(n), side="right")]

    above = [np.append(np.cumsum(w[::-1])[::-1], 0.0) for w in (first, second)]
    for rates in above:
        rates[0] = 1.0
    return Mechanism(name, drawn(first), drawn(second), above[0], above[1], _middle(atoms))


def clamped(name: str, kind: Callable[[NoisySGD], Construction]) -> Mechanism:
    """Return the last iterate of a walk between walls, drawn from its exact law by inversion.

    Between the points of the grid the law is taken to be uniform, for the draws and for the
    truth alike; the atoms at the walls are exact.
    """
    mechanism = NoisySGD(
        steps=30,
        dataset_size=4,
        batch_size=2,
        step_size=0.1,
        noise_std=2.0,
        lipschitz=2.0,
        smoothness=1.0,
        diameter=1.0,
        batching=Batching.WITHOUT_REPLACEMENT,
    )
    curve = exact.curve(kind(mechanism), threads=1)
    x = np.linspace(-0.5, 0.5, 257)
    laws = [
        np.concatenate([law.cdf(x[:-1]), [1 - law.atoms[1], 1.0]])
        for law in (curve.first, curve.second)
    ]

    def drawn(cdf: Array) -> Sampler:
        return lambda g, n: np.interp(g.random(n), cdf[:-1], x)

    rates = [np.append(1.0, 1 - cdf) for cdf in laws]
    return Mechanism(
        name,
        drawn(laws[0]),
        drawn(laws[1]),
        rates[0],
        rates[1],
        tuple(np.linspace(-0.49, 0.5, 8).tolist()),
    )


def _middle(atoms: Array) -> tuple[float, ...]:
    """At most eight atoms about the middle; the first is always reached."""
    start = max(1, atoms.size // 2 - 4)
    return tuple(atoms[start : start + 8].tolist())


@cache
def mechanisms() -> dict[str, Mechanism]:
    """All of them by name."""
    k, wide = np.arange(9.0), np.arange(-12.0, 14.0)
    two = np.array([0.0, 1.0])
    step = [dlaplace.pmf(wide - shift, 0.7) for shift in (1, 0)]
    listed = [
        gaussian(0.0),
        discrete("identical coin", two, np.array([0.5, 0.5]), np.array([0.5, 0.5])),
        laplace(),
        gaussian(0.5),
        gaussian(1.0),
        gaussian(2.0),
        discrete("randomised response", two, np.array([0.25, 0.75]), np.array([0.75, 0.25])),
        sampled_gaussian(),
        clamped("clamped walk, two-sided", TwoSidedWalk),
        clamped("clamped walk, biased", BiasedWalk),
        discrete("point masses", two, np.array([0.0, 1.0]), np.array([1.0, 0.0])),
        discrete("point mass of 0.05", two, np.array([0.95, 0.05]), np.array([1.0, 0.0])),
        heavy_tails(),
        discrete("binomial", k, binom.pmf(k, 8, 0.5), binom.pmf(k, 8, 0.3)),
        discrete("discrete Laplace", wide, step[0] / step[0].sum(), step[1] / step[1].sum()),
    ]
    return {one.name: one for one in listed}

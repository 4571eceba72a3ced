"""Compiled walks against exact laws: thirty settings, and planted errors.

``python -m tests.simulation.agreement`` takes 10^7 walks of each process, and 10^8 normals;
``pytest`` takes fewer. Random numbers have fixed seeds; over their choice, a right sampler fails
the whole table with probability `LEVEL`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr, ndtri

import audit
from audit import exact
from audit.constructions import (
    BiasedWalk,
    Construction,
    CyclicQuadraticPair,
    DriftedWalk,
    GradientPair,
    PiecewiseLinear,
    QuadraticPair,
    ResetWalk,
    TwoSidedWalk,
    WallPinnedWalk,
)
from audit.exact.law import Law
from audit.exact.normal_cells import law_range
from audit.exact.normal_laws import NormalLaw
from audit.simulation import count_thresholds
from audit.simulation.rng import LANES, aligned, fill_normals, seeded
from tests.choices import BATCHINGS

from .cases import mechanism

LEVEL = 1e-4  # false alarms of a whole table
BINS = 40
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A pair with exact laws, and what is sampled in its place: the pair itself, unless planted."""

    name: str
    pair: Construction
    sampled: Construction


def settings() -> list[Setting]:
    """Every construction that has exact laws, under every kind of batches that it has."""
    found: dict[str, Construction] = {}
    for batching in BATCHINGS:
        whole = batching is audit.Batching.FULL
        m = mechanism(
            batching=batching, steps=20, dataset_size=6, batch_size=6 if whole else 2, noise_std=1.3
        )
        made: dict[str, Construction] = {
            "biased": BiasedWalk(m),
            "two-sided": TwoSidedWalk(m, start=0.1),
            "drifted": DriftedWalk(m, drift=0.02, start=-0.4),
            "quadratic": QuadraticPair(replace(m, strong_convexity=0.5), 0.7, others=0.3),
            "resets": ResetWalk(replace(m, diameter=2.0), 0.8, 0.5, centre=0.1),
        }
        found |= {f"{name}, {batching.value}": pair for name, pair in made.items()}
    m = mechanism(steps=20, noise_std=1.3)
    cyclic = replace(m, batching=audit.Batching.CYCLIC)
    line = PiecewiseLinear((-0.2, 0.3), (-0.2, 0.3), (0.0, 0.0))
    found["schedule"] = TwoSidedWalk(
        replace(m, step_size=tuple(0.1 / (1 + k % 3) for k in range(20)))
    )
    found["kinked gradients"] = GradientPair(
        m, others=line, record=PiecewiseLinear.constant(-1.0), record_prime=line
    )
    found["pinned to the wall"] = WallPinnedWalk(cyclic, before=-1.0, after=1.0)
    found["forgetful batch"] = CyclicQuadraticPair(
        replace(cyclic, lipschitz=None, gradient_sensitivity=2.0), 0.1, 0.9
    )
    found["random stop"] = BiasedWalk(replace(m, release=audit.Release.RANDOM_STOP))
    found["random skip"] = TwoSidedWalk(replace(m, release=audit.Release.RANDOM_SKIP), start=-0.2)
    return [Setting(name, pair, pair) for name, pair in found.items()]


def planted(trials: int) -> list[Setting]:
    """Samplers with small errors: noise off by 1 %, and one bias of a thousand dropped."""
    m = mechanism(batching=audit.Batching.FULL, batch_size=4, steps=20, noise_std=1.3)
    share = 1.01 if trials >= 10**6 else 1.05
    found = [
        Setting(
            f"noise too large by {share - 1:.0%}",
            TwoSidedWalk(m),
            TwoSidedWalk(replace(m, noise_std=share * m.noise_std)),
        )
    ]
    if trials >= 10**7:
        long = replace(m, steps=1000, step_size=0.01, diameter=None, noise_std=2.0)
        found.append(
            Setting("one bias of a thousand dropped", TwoSidedWalk(long), OneBiasDropped(long))
        )
    return found


class OneBiasDropped(TwoSidedWalk):
    """A walk whose first step has no bias."""

    def processes(self) -> tuple[audit.constructions.Process, audit.constructions.Process]:
        first, second = super().processes()
        return self._without(first), self._without(second)

    @staticmethod
    def _without(process: audit.constructions.Process) -> audit.constructions.Process:
        (path,) = process.paths
        ((step,),) = (segment.steps for segment in path.segments)
        bare = replace(step, maps=(audit.constructions.Affine(),))
        segments = (
            audit.constructions.Segment((bare,)),
            audit.constructions.Segment((step,), len(path) - 1),
        )
        return replace(process, paths=(replace(path, segments=segments),))


def p_values(setting: Setting, trials: int, seed: int, threads: int | None) -> list[float]:
    """Chi-square of both samples in bins of about equal probability, atoms in bins of their own."""
    curve = exact.curve(setting.pair)
    laws = (curve.first, curve.second)
    edges = np.unique(np.concatenate([_edges(law) for law in laws]))
    counts = count_thresholds(
        setting.sampled, thresholds=edges, trials=trials, seed=seed, threads=threads
    )
    return [_chi_square(law, edges, c, trials) for law, c in zip(laws, counts, strict=True)]


def _edges(law: Law | NormalLaw) -> Floats:
    """Quantiles, and points that cut the atoms off."""
    if isinstance(law, NormalLaw):
        return law.mean + law.std * ndtri(np.arange(1, BINS) / BINS)
    low, high = law_range((law,))
    grid = np.linspace(low, high, 201)
    inner = np.interp(np.arange(1, BINS // 2) / (BINS // 2), law.cdf(grid), grid)
    ends = [np.nextafter(grid[0], np.inf), grid[-1]]
    return np.concatenate([inner, ends])


def _chi_square(
    law: Law | NormalLaw, edges: Floats, reached: NDArray[np.int64], trials: int
) -> float:
    below = np.concatenate([[0.0], law.cdf(np.nextafter(edges, -np.inf)), [1.0]])
    expected = trials * np.diff(below)
    observed = -np.diff(np.concatenate([[trials], reached, [0]])).astype(float)
    order = np.argsort(expected)[::-1]  # the rarest are put together
    expected, observed = expected[order], observed[order]
    common = max(1, int(np.sum(expected > 20)))
    expected = np.append(expected[: common - 1], expected[common - 1 :].sum())
    observed = np.append(observed[: common - 1], observed[common - 1 :].sum())
    return float(stats.chisquare(observed, expected * trials / expected.sum()).pvalue)


def table(
    cases: list[Setting], trials: int, threads: int | None
) -> Iterator[tuple[str, float, bool]]:
    """Yield a name, the least p-value corrected for the whole table, and whether it agrees."""
    tests = 2 * len(cases)
    for seed, case in enumerate(cases):
        p = min(1.0, tests * min(p_values(case, trials, seed, threads)))
        yield case.name, p, p > LEVEL


def normal_p_value(count: int, seed: int = 0) -> float:
    """Kolmogorov and Smirnov's test of normals, at a grid of 2^16 quantiles."""
    words = seeded(np.random.SeedSequence(seed))
    room = aligned(2**13 * LANES).reshape(-1, 2 * LANES)
    at = ndtri(np.arange(1, 2**16) / 2**16)
    counts = np.zeros(at.size, dtype=np.int64)
    drawn = 0
    while drawn < count:
        fill_normals(words, len(room), room)
        counts += np.searchsorted(np.sort(room, axis=None), at, side="right")
        drawn += room.size
    distance = float(np.abs(counts / drawn - ndtr(at)).max())
    return float(stats.kstwobign.sf(math.sqrt(drawn) * distance))


def main() -> None:
    """Print the table, and end with status 1 where anything is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10**7)
    parser.add_argument("--normals", type=int, default=10**8)
    parser.add_argument("--threads", type=int, default=None)
    given = parser.parse_args()
    wrong = 0
    parts: tuple[tuple[Callable[[], list[Setting]], bool], ...] = (
        (settings, True),
        (lambda: planted(given.trials), False),
    )
    for make, right in parts:
        for name, p, agrees in table(make(), given.trials, given.threads):
            print(f"{name:34} p = {p:<9.3g} {'agrees' if agrees else 'differs'}", flush=True)
            wrong += agrees != right
    p = normal_p_value(given.normals)
    print(f"{given.normals:.0e} normals, Kolmogorov-Smirnov p = {p:.3g}")
    sys.exit(1 if wrong or p < LEVEL else 0)


if __name__ == "__main__":
    main()

"""Compiled walks against exact laws: thirty-five settings, and planted errors.

Random numbers have fixed seeds; over their choice, a right sampler fails the whole table with
probability `LEVEL`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
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
    HolderForm,
    HolderPair,
    LatticeWalk,
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
from tests.constructions.test_gradients import HOLDER
from tests.constructions.test_lattice import mechanism as lattice_mechanism

from .cases import mechanism

LEVEL = 1e-4  # false alarms of a whole table
TRIALS = 100_000
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
    for batching in (audit.Batching.RESHUFFLED, audit.Batching.RANDOM_ALLOCATION):
        found[batching.value] = DriftedWalk(replace(m, batching=batching), drift=0.02, start=0.1)
    found["Hoelder"] = HolderPair(HOLDER, scale=1.0, form=HolderForm.SIGNED)
    found["lattice"] = LatticeWalk.suited(lattice_mechanism())
    return [Setting(name, pair, pair) for name, pair in found.items()]


def p_values(setting: Setting, seed: int) -> list[float]:
    """Chi-square of both samples in bins of about equal probability, atoms in bins of their own."""
    curve = exact.curve(setting.pair)
    laws = (curve.first, curve.second)
    edges = np.unique(np.concatenate([_edges(law) for law in laws]))
    counts = count_thresholds(
        setting.sampled, thresholds=edges, trials=TRIALS, seed=seed, threads=1
    )
    return [_chi_square(law, edges, c, TRIALS) for law, c in zip(laws, counts, strict=True)]


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


def least_p_value(setting: Setting, seed: int, tests: int) -> float:
    """Return the least p-value of both samples, corrected for the number of tests."""
    return min(1.0, tests * min(p_values(setting, seed)))


# every third one has each construction and each kind of batches
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_samples_follow_exact_laws_in_thirty_five_settings(every: int) -> None:
    cases = settings()
    assert len(cases) >= 35
    tests = 2 * len(cases)
    chosen = list(enumerate(cases))[::every]
    found = {case.name: least_p_value(case, seed, tests) for seed, case in chosen}
    assert [name for name, p in found.items() if p <= LEVEL] == []


def test_noise_that_is_5_percent_too_large_is_found() -> None:
    m = mechanism(batching=audit.Batching.FULL, batch_size=4, steps=20, noise_std=1.3)
    wrong = TwoSidedWalk(replace(m, noise_std=1.05 * m.noise_std))
    planted = Setting("too much noise", TwoSidedWalk(m), wrong)
    assert least_p_value(planted, 0, 2) < 1e-20  # far from a matter of luck


def normal_p_value(count: int, shift: float) -> float:
    """Kolmogorov and Smirnov's test of normals with some mean, at a grid of 2^16 quantiles."""
    words = seeded(np.random.SeedSequence(0))
    room = aligned(2**13 * LANES).reshape(-1, 2 * LANES)
    at = ndtri(np.arange(1, 2**16) / 2**16)
    counts = np.zeros(at.size, dtype=np.int64)
    drawn = 0
    while drawn < count:
        fill_normals(words, len(room), room)
        counts += np.searchsorted(np.sort(room, axis=None), at, side="right")
        drawn += room.size
    distance = float(np.abs(counts / drawn - ndtr(at - shift)).max())
    return float(stats.kstwobign.sf(math.sqrt(drawn) * distance))


@pytest.mark.parametrize("shift", [0.0, 0.02])
def test_the_test_of_normals_rejects_wrong_ones(shift: float) -> None:
    assert (normal_p_value(10**6, shift) > LEVEL) == (shift == 0)

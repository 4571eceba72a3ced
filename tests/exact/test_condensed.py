"""Laws of many normals, written as laws of few."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mpmath import mp

from audit.exact import Law, condensed
from audit.exact.tables import cell_masses, edge_table

POINTS = np.linspace(-2.0, 3.0, 401)


def many(count: int = 5000, seed: int = 0) -> Law:
    """Normals of two deviations around random places, on a domain with two walls."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=count)
    means = rng.choice([-1.4, 0.2, 2.6], count) + rng.uniform(-0.7, 0.7, count)
    stds = np.where(rng.random(count) < 0.3, 0.8, 0.5)
    return Law.of(means, stds, np.log(weights / weights.sum()), lower=-2.0, upper=3.0)


def distance(law: Law, other: Law) -> float:
    """Largest difference of log densities, and of log masses beyond the walls."""
    gaps = np.abs(law.log_density(POINTS) - other.log_density(POINTS))
    ends = np.abs(np.subtract(law.log_atoms, other.log_atoms))
    return float(max(gaps.max(), ends.max()))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_few_normals_have_the_density_of_many(seed: int) -> None:
    law = many(seed=seed)
    few = condensed.condensed(law)
    assert few.means.size < law.means.size / 4
    errors = few.error_at(few.log_density(POINTS)) + law.error_at(law.log_density(POINTS))
    assert distance(law, few) <= float(errors.max()) < 1e-12


def test_values_between_far_bumps_are_within_their_errors() -> None:
    """Of more normals than are summed in any case: at single places, and of narrow cells."""

    def total(law: Law, function: Callable[[Any], Any], x: float) -> Any:
        pairs = zip(law.log_masses.tolist(), law.means.tolist(), strict=True)
        return mp.fsum(mp.exp(w) * function(mp.mpf(x) - m) for w, m in pairs)

    for apart, middle in ((22.1, 0.0), (20.0, 1e7)):
        bumps = np.linspace(-0.005, 0.005, 8)
        means = middle + np.concatenate([bumps - apart / 2, bumps + apart / 2])
        law = Law.of(means, np.ones(16), np.full(16, -math.log(16)))
        points = middle + np.array([-1.0, -5e-4, 5e-4, 1.0])  # around the least density
        with mp.workdps(50):
            for x in points.tolist():
                table = edge_table(law, np.array([x]))
                error = law.error_at(table.log_density, table.square)[0]
                assert abs(mp.log(total(law, mp.npdf, x)) - float(table.log_density[0])) <= error
            masses = zip(*cell_masses(law, points, edge_table(law, points)), strict=True)
            for (a, b), (log, error) in zip(itertools.pairwise(points), masses, strict=True):
                exact = total(law, mp.ncdf, float(b)) - total(law, mp.ncdf, float(a))
                assert abs(mp.log(exact) - float(log)) <= error


@pytest.mark.parametrize("planted", [{"_NODES": 6}, {"_CUT": 1.0, "_PAST": 0.0}])
def test_fewer_nodes_or_a_shorter_reach_are_seen(
    planted: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in planted.items():
        monkeypatch.setattr(condensed, name, value)
    assert distance(many(), condensed.condensed(many())) > 1e-9


def test_few_normals_and_exact_laws_stay_as_they_are() -> None:
    few, exact = many(100), replace(many(), lower=-np.inf, upper=np.inf)
    assert condensed.condensed(few) is few
    assert condensed.condensed(exact) is exact


def test_a_line_is_condensed_with_its_far_tails() -> None:
    law = replace(many(40_000), lower=-np.inf, upper=np.inf, quadrature=1e-16)
    few = condensed.condensed(law)
    assert few.means.size < law.means.size / 4
    places = np.linspace(-28.0, 30.0, 301)
    logs = few.log_density(places)
    assert logs.min() < -500
    gaps = np.abs(law.log_density(places) - logs)
    assert np.all(gaps <= few.error_at(logs) + law.error_at(logs))
    assert gaps.max() < 1e-11
    assert few.log_lost == pytest.approx(-760.5)

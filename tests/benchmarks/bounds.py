"""Speeds of the upper-bound engine, beside those of two accounting libraries."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import audit
from audit import bounds
from audit.bounds.accounting import SubsampledGaussian, compose
from audit.bounds.accounting.composition import _LARGEST_GRID, _Grid
from tests.benchmarks.timing import Measured, median_seconds

FULL = audit.NoisySGD(
    steps=1000,
    dataset_size=20,
    batch_size=20,
    step_size=0.1,
    noise_std=0.5,
    lipschitz=1.0,
    smoothness=1.0,
    strong_convexity=0.1,
    diameter=1.0,
)
CYCLIC = replace(FULL, batch_size=2, batching=audit.Batching.CYCLIC)
ONE_PASS = replace(CYCLIC, batch_size=1, steps=20, strong_convexity=0.0)
SAMPLED = replace(FULL, batch_size=2, batching=audit.Batching.WITHOUT_REPLACEMENT)

TIMES, RATE, SIGMA, INTERVAL, DELTA = 10_000, 0.01, 1.0, 1e-4, 1e-5
_AS_FINE = 1 << 19  # the smallest grid whose interval is below INTERVAL


def _closed_forms() -> list[Measured]:
    """The slowest entry, from the mechanism to epsilon at one delta."""
    times: dict[str, float] = {}
    for m in (FULL, CYCLIC, ONE_PASS):
        for id in bounds.applicable(m):
            if id.startswith("own."):
                continue  # computed step by step, and measured by themselves

            def ask(id: str = id, m: audit.NoisySGD = m) -> object:
                return bounds.evaluate(id, m).epsilon(1e-5)

            try:
                times[id] = max(median_seconds(ask, 9) * 1e3, times.get(id, 0.0))
            except ValueError:
                continue  # an option that must be given
    slowest = sorted(times, key=lambda id: -times[id])
    rows = [Measured(f"closed form, {id}", times[id], "ms", 1) for id in slowest[:3]]
    median = sorted(times.values())[len(times) // 2]
    return [*rows, Measured(f"  median of {len(times)} closed forms", median, "ms", 1)]


def _tables() -> list[Measured]:
    cases = (("full", FULL), ("cyclic", CYCLIC), ("sampled", SAMPLED))
    return [
        Measured(f"table of all entries, {name} batches", _seconds(lambda m=m: _table(m)), "s", 10)
        for name, m in cases
    ]


def _table(m: audit.NoisySGD) -> object:
    return bounds.table(m, 1e-5)


def _seconds(call: Callable[[], object]) -> float:
    clock = time.perf_counter()
    call()
    return time.perf_counter() - clock


def _compositions() -> list[Measured]:
    """Compose on grids of the same interval, three times over: each library's time and epsilon.

    Ours is the pair of batches without replacement under replace-one, which dp-accounting composes
    too when it is handed the profile. What both libraries offer by themselves is Poisson sampling.
    """
    step = SubsampledGaussian(RATE, 1 / SIGMA)
    rows = []
    for size in (_AS_FINE, _LARGEST_GRID):
        interval = _Grid.choose(step, TIMES, None, None, size).interval

        def ours(size: int = size) -> tuple[float, float]:
            return compose(step, TIMES, largest_grid=size).epsilon_bracket(DELTA)

        low, high = ours()
        name = f"{TIMES}-fold sampled Gaussian: epsilon {low:.6f} to {high:.6f}"
        rows.append(Measured(name, median_seconds(ours, 3), "s", 1))
        rows.append(Measured("  its discretisation interval", interval, "nat", INTERVAL))
    others = {
        "dp-accounting, the same pair": _dp_accounting_same_pair,
        "dp-accounting, Poisson": _dp_accounting,
        "prv-accountant, Poisson": _prv_accountant,
    }
    for label, call in others.items():
        try:
            epsilon = call()
        except ImportError:
            print(f"  {label.split(',')[0]} is not installed", flush=True)
            continue
        name = f"  {label}: epsilon {epsilon:.6f}"
        rows.append(Measured(name, median_seconds(call, 3), "s"))
    return rows


def _dp_accounting_same_pair() -> float:
    from dp_accounting.pld import pld_pmf

    step = SubsampledGaussian(RATE, 1 / SIGMA)
    points = math.ceil(step.epsilon(1e-15 / TIMES) / INTERVAL)
    deltas = np.asarray(step.delta(INTERVAL * np.arange(-points, points + 1)))
    one = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(INTERVAL, -points, points, deltas)
    return float(one.self_compose(TIMES).get_epsilon_for_delta(DELTA))


def _dp_accounting() -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(
        SIGMA, value_discretization_interval=INTERVAL, sampling_prob=RATE
    )
    return float(one.self_compose(TIMES).get_epsilon_for_delta(DELTA))


def _prv_accountant() -> float:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    mechanism = PoissonSubsampledGaussianMechanism(
        noise_multiplier=SIGMA, sampling_probability=RATE
    )
    # its mesh is eps_error / sqrt(k/2 log(12/delta_error))
    error = INTERVAL * math.sqrt(TIMES / 2 * math.log(12 / 1e-10))
    accountant = PRVAccountant(
        prvs=[mechanism], max_self_compositions=[TIMES], eps_error=error, delta_error=1e-10
    )
    _, estimate, _ = accountant.compute_epsilon(delta=DELTA, num_self_compositions=[TIMES])
    return float(estimate)


def rows() -> list[Measured]:
    """One row for each measurement."""
    return [*_closed_forms(), *_compositions(), *_tables()]

"""Speeds of the upper-bound engine, beside those of two accounting libraries."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import audit
from audit import bounds
from audit.bounds.composition import _Grid, compose
from audit.bounds.subsampling import SubsampledGaussian
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


TIMES, RATE, SIGMA, INTERVAL = 10_000, 0.01, 1.0, 1e-4


def _closed_forms() -> list[Measured]:
    """The slowest entry, from the mechanism to epsilon at one delta."""
    times: dict[str, float] = {}
    for m in (FULL, CYCLIC, ONE_PASS):
        for id in bounds.applicable(m):

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
    step = SubsampledGaussian(RATE, 1 / SIGMA)
    interval = _Grid.choose(step, TIMES, None, None, 1 << 20).interval
    name = f"{TIMES}-fold sampled Gaussian"

    def ours() -> object:
        return compose(step, TIMES).epsilon(1e-5)

    rows = [
        Measured(f"{name}, both ends of the bracket", median_seconds(ours, 3), "s", 1),
        Measured("  its discretisation interval", interval, "nat", INTERVAL),
    ]
    for library, call in (("dp-accounting", _dp_accounting), ("prv-accountant", _prv_accountant)):
        try:
            rows.append(
                Measured(f"  {library}, interval {INTERVAL:g}", median_seconds(call, 3), "s")
            )
        except ImportError:
            rows.append(Measured(f"  {library} is not installed", float("nan"), "s"))
    return rows


def _dp_accounting() -> object:
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(
        SIGMA, value_discretization_interval=INTERVAL, sampling_prob=RATE
    )
    return one.self_compose(TIMES).get_epsilon_for_delta(1e-5)


def _prv_accountant() -> object:
    import numpy as np
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    mechanism = PoissonSubsampledGaussianMechanism(
        noise_multiplier=SIGMA, sampling_probability=RATE
    )
    # its mesh is eps_error / sqrt(k/2 log(12/delta_error))
    error = INTERVAL * float(np.sqrt(TIMES / 2 * np.log(12 / 1e-10)))
    accountant = PRVAccountant(
        prvs=[mechanism], max_self_compositions=[TIMES], eps_error=error, delta_error=1e-10
    )
    return accountant.compute_epsilon(delta=1e-5, num_self_compositions=[TIMES])


def rows() -> list[Measured]:
    """One row for each measurement."""
    return [*_closed_forms(), *_compositions(), *_tables()]

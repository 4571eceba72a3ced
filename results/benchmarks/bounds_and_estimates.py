"""Speed of upper bounds, estimators and the search, beside that of other packages."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import audit
from audit import bounds
from audit.bounds.accounting import SubsampledGaussian, compose
from audit.dominating.without_replacement import MAX_GRID
from audit.estimation import (
    SimultaneousBand,
    audit_samples,
    clopper_pearson,
    credible_epsilon,
)
from audit.estimation.simultaneous_band import limits
from audit.search import Epsilon
from audit.search.evaluation import quick_value
from audit.search.families import Family
from results.benchmarks.timing import Measured, median_seconds

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
_DELTAS = np.geomspace(1e-7, 1e-1, 10)
_COUNTS = (487, 512, 1, 0)  # true and false positives, true and false negatives
_LEVEL = 0.9
_THEIRS = f"""
from privacy_estimates import AttackResults, compute_eps_lo_hi
tp, fp, tn, fn = {_COUNTS}
counts = AttackResults(FN=fn, FP=fp, TN=tn, TP=tp)
print(*compute_eps_lo_hi(counts, {DELTA}, {1 - _LEVEL:g}, "joint-beta"))
"""


def bound_rows() -> list[Measured]:
    """Return the rows of the upper-bound engine."""
    return [*_closed_forms(), *_compositions(), *_tables()]


def _closed_forms() -> list[Measured]:
    """Return the slowest entries, from the mechanism to epsilon at one delta."""
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
    return [
        *rows,
        Measured(f"  median of {len(times)} closed forms", median, "ms", 1, column="closed_form"),
    ]


def _tables() -> list[Measured]:
    cases = (("full", FULL), ("cyclic", CYCLIC), ("sampled", SAMPLED))
    return [
        Measured(
            f"table of all entries, {name} batches",
            _seconds(partial(_table, m)),
            "s",
            10,
            column="sampled_table" if m is SAMPLED else "",
        )
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
    for size in (_AS_FINE, MAX_GRID):

        def ours(size: int = size) -> tuple[float, float]:
            curve: Any = compose(step, TIMES, largest_grid=size)
            low, high = curve.epsilon_bracket(DELTA)
            return low, high

        low, high = ours()
        name = f"{TIMES}-fold sampled Gaussian: epsilon {low:.6f} to {high:.6f}"
        rows.append(Measured(name, median_seconds(ours, 3), "s", 1))
        composed: Any = compose(step, TIMES, largest_grid=size)
        rows.append(Measured("  its discretisation interval", composed.interval, "nat", INTERVAL))
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
    package = importlib.import_module("prv_accountant")
    mechanism = package.PoissonSubsampledGaussianMechanism(
        noise_multiplier=SIGMA, sampling_probability=RATE
    )
    # its mesh is eps_error / sqrt(k/2 log(12/delta_error))
    error = INTERVAL * math.sqrt(TIMES / 2 * math.log(12 / 1e-10))
    accountant = package.PRVAccountant(
        prvs=[mechanism], max_self_compositions=[TIMES], eps_error=error, delta_error=1e-10
    )
    _, estimate, _ = accountant.compute_epsilon(delta=DELTA, num_self_compositions=[TIMES])
    return float(estimate)


def own_rows() -> list[Measured]:
    """Return the rows of our own theorems; `own.coupling` once its loops are compiled."""
    forgetting = _one_shift(0.1, 0.05, 10**9)
    coupling = _one_shift(1.0, 0.2, 100)

    def forget() -> object:
        return bounds.evaluate("own.forgetting", forgetting).epsilon(1e-5)

    def couple(steps: int) -> float:
        m = _one_shift(1.0, 0.2, steps) if steps != coupling.steps else coupling
        clock = time.perf_counter()
        bounds.evaluate("own.coupling", m).epsilon(1e-5)
        return time.perf_counter() - clock

    compiling = couple(2)
    return [
        Measured("own.forgetting, s/D = .05", median_seconds(forget, 9) * 1e3, "ms", 50),
        Measured("own.coupling, its loops compiled at the first call", compiling, "s"),
        Measured(
            "own.coupling, A = 1, s/D = .2, T = 100", couple(100), "s", 20, column="own_coupling"
        ),
    ]


def _one_shift(drift: float, noise: float, steps: int) -> audit.NoisySGD:
    """Return full batches of ten records on a domain of diameter 1, with eta = 1, smoothness 1."""
    return audit.NoisySGD(
        steps=steps,
        dataset_size=10,
        batch_size=10,
        step_size=1.0,
        noise_std=noise,
        gradient_sensitivity=10 * drift * noise**2,
        smoothness=1.0,
        diameter=1.0,
    )


def estimator_rows() -> list[Measured]:
    """Measure the promised speeds of the estimators."""
    random = np.random.default_rng(1)
    x, y = random.standard_normal(10**7) + 1, random.standard_normal(10**7)

    def named(size: int) -> object:
        first, second = x[:size], y[:size]
        return audit_samples(first, second, confidence=0.95, deltas=(1e-5,), seed=1).mu_lower()

    def band() -> object:
        limits.cache_clear()  # a first audit of this size
        found = audit_samples(x, y, confidence=0.95, thresholds=SimultaneousBand())
        return found.epsilon_lower(_DELTAS), found.beta_points

    counts = random.integers(0, 10**6, 10**5)
    credible = median_seconds(_our_credible_interval)
    intervals = median_seconds(lambda: clopper_pearson(counts, 10**6, confidence=0.95), 3)
    return [
        Measured(
            "audit_samples, pilot split, 10^6 a side", median_seconds(lambda: named(10**6), 3), "s"
        ),
        Measured(
            "audit_samples, pilot split, 10^7 a side", median_seconds(lambda: named(10**7), 3), "s"
        ),
        Measured("band and epsilon at ten deltas, 10^7 a side", median_seconds(band, 3), "s", 2),
        Measured(
            "Clopper-Pearson for 10^5 pairs of counts",
            intervals,
            "s",
            0.5,
            column="clopper_pearson",
        ),
        Measured("credible interval of (487, 512, 1, 0)", credible, "s", 1),
    ]


def _our_credible_interval() -> tuple[float, float]:
    return credible_epsilon(*_COUNTS, delta=DELTA).interval(_LEVEL)


def privacy_estimates(seconds: float) -> str:
    """Say how long privacy-estimates takes for the same interval, at most some seconds."""
    clock = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-c", _THEIRS]
    try:
        done = subprocess.run(command, timeout=seconds, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return f"  privacy-estimates, the same interval: not done after {seconds:g} s"
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        return f"  privacy-estimates, the same interval: not run: {reason}"
    took = time.perf_counter() - clock
    low, high = (float(end) for end in done.stdout.split())
    ours = _our_credible_interval()
    return (
        f"  privacy-estimates, the same interval: {took:.3g} s; {low:.3f} to {high:.3f}, "
        f"ours {ours[0]:.3f} to {ours[1]:.3f}"
    )


def search_rows() -> list[Measured]:
    """One row for each of three mechanisms: exact laws of pairs a second, drift and start alone."""
    found: list[Measured] = []
    for name, step_std, steps in (
        ("D/step_std 20, T 10^2", 0.05, 100),
        ("D/step_std 20, T 10^6", 0.05, 10**6),
        ("D/step_std 100, T 10^3", 0.01, 1000),
    ):
        mechanism = audit.NoisySGD(
            steps=steps,
            dataset_size=1000,
            batch_size=1000,
            step_size=1.0,
            noise_std=step_std,
            lipschitz=500 * step_std**2,
            smoothness=1.0,
            diameter=1.0,
        )
        family = Family(mechanism)
        points = np.random.default_rng(1).random((20, len(family.names(0))))
        pairs = [family.pair(point, 0) for point in points]

        def tried(pairs: list[audit.constructions.Construction] = pairs) -> None:
            for pair in pairs:
                quick_value(pair, Epsilon(1e-5))

        rate = len(pairs) / median_seconds(tried)
        column = "" if found else "pairs"
        found.append(Measured(f"pairs tried by a search, {name}", rate, "/s", column=column))
    return found

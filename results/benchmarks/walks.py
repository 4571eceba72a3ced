"""Speed of sampled walks, beside plain Numba, NumPy and, where installed, PyTorch and JAX."""

from __future__ import annotations

import importlib
import importlib.util
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit

import audit
from audit import simulation
from audit.constructions import BiasedWalk, Construction, Process, TwoSidedWalk
from audit.simulation.rng import (
    LANES,
    Words,
    aligned,
    compiled_loop,
    draw,
    fill_normals,
    seeded,
)
from results.benchmarks.machine import instruction_sets
from results.benchmarks.timing import Measured

# Altschuler and Talwar 2022, footnote 9: D = 1000 eta L, sigma at its threshold, q = 0.1.
PAPER = audit.NoisySGD(
    steps=1000,
    dataset_size=10,
    batch_size=1,
    step_size=1e-3,
    noise_std=math.sqrt(1e-3 / 7500) * 1e3,
    lipschitz=1.0,
    smoothness=1.0,
    diameter=1.0,
    batching=audit.Batching.WITHOUT_REPLACEMENT,
)
TRIALS = 2**15
STEPS = TRIALS * PAPER.steps
ROUNDS = 5
# how many times as fast as others the walks are at least, by the instructions that Numba emits
LEAST = {
    "AVX-512": {"NumPy": 10.0, "plain Numba": 5.0},
    "AVX2": {"NumPy": 5.0, "plain Numba": 3.0},
}


@njit(nogil=True)
def _plain_walk(
    rng: np.random.Generator, shift: float, rate: float, std: float, x: Any, steps: int
) -> None:
    """Walk as anyone would write it: one walk after the other, jumps by a uniform."""
    for i in range(x.size):
        state = 0.0
        for _ in range(steps):
            jump = shift if rate == 1.0 or rng.random() < rate else 0.0
            state = min(max(state + jump + std * rng.standard_normal(), -0.5), 0.5)
        x[i] = state


def _numpy_walk(shift: float, rate: float, std: float, trials: int, steps: int) -> Any:
    random = np.random.Generator(np.random.SFC64(1))
    x = np.zeros(trials)
    for _ in range(steps):
        x += std * random.standard_normal(trials)
        x += shift if rate == 1 else shift * (random.random(trials) < rate)
        np.clip(x, -0.5, 0.5, out=x)
    return x


def _torch_walk(shift: float, rate: float, std: float, trials: int, steps: int) -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    x = torch.zeros(trials, dtype=torch.float64)
    with torch.inference_mode():
        for _ in range(steps):
            x += std * torch.randn(trials, dtype=torch.float64)
            x += shift if rate == 1 else shift * (torch.rand(trials, dtype=torch.float64) < rate)
            x.clamp_(-0.5, 0.5)
    return x


def _jax_walk(rate: float, trials: int, steps: int) -> Callable[[float, float], Any]:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)

    def walk(shift: float, std: float) -> Any:
        def step(k: Any, x: Any) -> Any:
            one, two = jax.random.split(jax.random.fold_in(jax.random.key(1), k))
            jumps = 1.0 if rate == 1 else jax.random.uniform(one, (trials,)) < rate
            jump = shift * jumps
            moved = x + jump + std * jax.random.normal(two, (trials,), dtype="float64")
            return jax.numpy.clip(moved, -0.5, 0.5)

        return jax.lax.fori_loop(0, steps, step, jax.numpy.zeros(trials, dtype="float64"))

    made = jax.jit(walk)
    return lambda *given: made(*given).block_until_ready()


@compiled_loop
def _bits(words: Words, out: Words, rounds: int) -> None:
    """Three words for two steps and no more: two for a pair of normals, half of two for jumps."""
    for _ in range(rounds):
        for lane in range(LANES):
            out[lane] ^= draw(words, lane) ^ draw(words, lane) ^ draw(words, lane)


@compiled_loop
def _normals(words: Words, out: Any, rounds: int) -> None:
    for _ in range(rounds):
        fill_normals(words, 8, out)


def _seconds(
    calls: dict[str, Callable[[], object]], now: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Return the least time of each call.

    They take turns, so that a busy machine slows down all of them. By default the processor's
    time, which leaves out what other programs took.
    """
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, math.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            clock = now()
            call()
            best[name] = min(best[name], now() - clock)
    return best


def _speeds(name: str, process: Process, shift: float, rate: float, widest: str) -> list[Measured]:
    """Return million steps a second of each way, and how many times as fast as others ours is."""
    std, fewer = PAPER.step_std, STEPS // 8
    rng = np.random.Generator(np.random.SFC64(1))
    short = np.empty(TRIALS // 8)
    trials = TRIALS // 8
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: simulation.simulate(process, trials=TRIALS, seed=1, threads=1),
        "plain Numba": lambda: _plain_walk(rng, shift, rate, std, short, PAPER.steps),
        "NumPy": lambda: _numpy_walk(shift, rate, std, trials, PAPER.steps),
    }
    short_steps = PAPER.steps // 8  # these two are faster with more walks than with more steps
    if importlib.util.find_spec("torch"):
        calls["PyTorch"] = lambda: _torch_walk(shift, rate, std, TRIALS, short_steps)
    if importlib.util.find_spec("jax"):
        jax_walk = _jax_walk(rate, TRIALS, short_steps)
        calls["JAX"] = lambda: jax_walk(shift, std)
    speeds = {
        way: (STEPS if way == "ours" else fewer) / seconds / 1e6
        for way, seconds in _seconds(calls).items()
    }
    rows = [Measured(f"{name} walk, {way}", speed, "M/s") for way, speed in speeds.items()]
    rows[0] = replace(rows[0], column=name.replace("-", "_"))
    for way in ("PyTorch", "JAX"):
        if way not in speeds:
            rows.append(Measured(f"{name} walk, {way}: not installed", math.nan, ""))
    for way, column in (("NumPy", "numpy"), ("plain Numba", "numba")):
        ratio, least = speeds["ours"] / speeds[way], LEAST.get(widest, {}).get(way)
        column = f"{name.replace('-', '_')}_{column}"
        rows.append(Measured(f"  times {way}", ratio, "", least, at_least=True, column=column))
    return rows


def _ceiling() -> list[Measured]:
    """Return what random numbers alone would allow on one core."""
    words, sink = seeded(np.random.SeedSequence(1)), aligned(LANES, np.uint64)
    out = aligned(16 * LANES).reshape(8, 2 * LANES)
    process = BiasedWalk(PAPER).processes()[1]
    best = _seconds(
        {
            "bits": lambda: _bits(words, sink, STEPS // LANES // 2),
            "normals": lambda: _normals(words, out, STEPS // LANES // 16),
            "walk": lambda: simulation.simulate(process, trials=TRIALS, seed=1, threads=1),
        }
    )
    return [
        Measured("steps for which there are bits", STEPS / best["bits"] / 1e6, "M/s"),
        Measured("steps for which there are normals", STEPS / best["normals"] / 1e6, "M/s"),
        Measured("  biased walk's share of the time for bits", best["bits"] / best["walk"], ""),
        Measured("  and for normals", best["normals"] / best["walk"], ""),
    ]


def _threads() -> list[Measured]:
    pair: Construction = BiasedWalk(PAPER)

    def counted(threads: int) -> object:
        return simulation.count_thresholds(
            pair, thresholds=np.linspace(-0.4, 0.4, 64), trials=16 * TRIALS, seed=1, threads=threads
        )

    calls = {"one": lambda: counted(1), "two": lambda: counted(2)}
    best = _seconds(calls, time.perf_counter)  # wall time, which is what threads save
    ratio = best["one"] / best["two"]
    return [Measured("two threads, times one", ratio, "", 1.9, at_least=True, column="two_threads")]


def rows() -> list[Measured]:
    """Measure walks of both kinds on one core, side by side, and what two threads gain."""
    widest = instruction_sets()["Numba"]
    two_sided = replace(PAPER, batching=audit.Batching.FULL, batch_size=10)
    pushed = TwoSidedWalk(two_sided).processes()[0]
    return [
        *_speeds("two-sided", pushed, 1e-4, 1.0, widest),  # a record of ten
        *_speeds("biased", BiasedWalk(PAPER).processes()[1], 1e-3, 0.1, widest),
        *_ceiling(),
        *_threads(),
    ]

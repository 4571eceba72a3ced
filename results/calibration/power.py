"""How much of the truth is certified: medians over seeds at the sizes that people use."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.estimation import PilotSplit, Rates, SimultaneousBand, audit_samples
from results.calibration.mechanisms import DELTAS, mechanisms

Array = NDArray[np.float64]

CONFIDENCE = 0.95
SEEDS = 200
_CHUNK = 20
_DEAR = 10**7  # at this size what is shown beside is repeated less often
_CHOICES: dict[str, tuple[PilotSplit | SimultaneousBand, bool]] = {
    "pilot split, joint test": (PilotSplit(), True),
    "pilot split, separate rates": (PilotSplit(rates=Rates.SEPARATE), True),
    "simultaneous band": (SimultaneousBand(), False),
}


@dataclass(frozen=True)
class Goal:
    """A mechanism, a delta and a size, and the least medians that are promised there."""

    mechanism: str
    delta: float
    size: int
    joint: float | None = None
    separate: float | None = None


GOALS = (
    Goal("Gaussian mu=1", 1e-5, 10**7, joint=3.65),
    Goal("Gaussian mu=1", 1e-5, 10**6, joint=3.15),
    Goal("Gaussian mu=1", 1e-2, 10**6, joint=0.98 * 2.318, separate=0.97 * 2.318),
    Goal("Laplace", 1e-5, 10**5, joint=0.95),
    Goal("Gaussian mu=1", 1e-5, 10**5),
    Goal("Gaussian mu=1", 1e-5, 10**4),
    Goal("Gaussian mu=1", 1e-5, 10**3),
    Goal("Gaussian mu=1", 1e-2, 10**5),
    Goal("Gaussian mu=1", 1e-2, 10**4),
    Goal("Gaussian mu=1", 1e-2, 10**3),
    Goal("Laplace", 1e-5, 10**4),
    Goal("Laplace", 1e-5, 10**3),
)


@dataclass(frozen=True)
class Chunk:
    """Some seeds of one goal; a pure function of its fields."""

    goal: Goal
    start: int
    seeds: int
    package: str = ""  # needs no other distribution

    @property
    def key(self) -> str:
        """A file name."""
        g = self.goal
        name = f"power {g.mechanism} {g.delta:g} {g.size} {self.start}+{self.seeds}"
        return name.replace(" ", "_")


def chunks(seeds: int = SEEDS, largest: int = 10**7) -> list[Chunk]:
    """All chunks of all goals of at most some size."""
    return [
        Chunk(goal, start, min(_CHUNK, seeds - start))
        for goal in GOALS
        if goal.size <= largest
        for start in range(0, seeds, _CHUNK)
    ]


def first_values(chunk: Chunk) -> list[float]:
    """Return the bound of the first seed, which `run` stores."""
    return [_certified(chunk.goal, chunk.start, next(iter(_CHOICES)), _draw(chunk, chunk.start))]


def run(chunk: Chunk) -> dict[str, Any]:
    """Audit every seed of the chunk in every way, each on the same samples."""
    clock = time.perf_counter()
    goal, mechanism = chunk.goal, mechanisms()[chunk.goal.mechanism]
    values: dict[str, list[float]] = {name: [] for name in _CHOICES}
    for seed in range(chunk.start, chunk.start + chunk.seeds):
        samples = _draw(chunk, seed)
        for number, name in enumerate(_CHOICES):
            if number and goal.size >= _DEAR and seed % 10:
                continue
            values[name].append(_certified(goal, seed, name, samples))
    truth = float(np.interp(np.log(goal.delta), np.log(DELTAS), mechanism.epsilon()))
    return {
        "mechanism": goal.mechanism,
        "delta": goal.delta,
        "size": goal.size,
        "truth": truth,
        "promised": {
            "pilot split, joint test": goal.joint,
            "pilot split, separate rates": goal.separate,
        },
        "values": values,
        "first_values": values[next(iter(_CHOICES))][:1],
        "seconds": time.perf_counter() - clock,
    }


def _draw(chunk: Chunk, seed: int) -> tuple[Array, Array]:
    goal, mechanism = chunk.goal, mechanisms()[chunk.goal.mechanism]
    generator = np.random.default_rng([seed, goal.size])
    return mechanism.draw_first(generator, goal.size), mechanism.draw_second(generator, goal.size)


def _certified(goal: Goal, seed: int, name: str, samples: tuple[Array, Array]) -> float:
    choice, named = _CHOICES[name]
    found = audit_samples(
        *samples,
        confidence=CONFIDENCE,
        deltas=(goal.delta,) if named else (),
        seed=seed,
        thresholds=choice,
    )
    return found.epsilon_lower(goal.delta)

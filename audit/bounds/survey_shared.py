"""What the modules of paper 003 (Boninsegna) share."""

from __future__ import annotations

from audit.bounds.assumptions import ROUNDING, Assumption
from audit.bounds.registry import Citation
from audit.mechanism import Batching, NoisySGD, Relation


def cite(place: str) -> Citation:
    """Return the citation of a place in the paper."""
    return Citation(
        "Boninsegna",
        2023,
        "The Privacy Analysis of the Differential Private Stochastic Gradient Descent",
        place,
    )


def noise_multiplier(mechanism: NoisySGD) -> float:
    """Return the noise of one step in units of the sensitivity: noise_std b/S."""
    return mechanism.noise_std * mechanism.batch_size / mechanism.sensitivity


def _full(m: NoisySGD) -> bool:
    return m.batch_size == m.dataset_size and m.batching is not Batching.POISSON


def _sampling(m: NoisySGD) -> str:
    return f"batching={m.batching.name} and relation={m.relation.name}"


ONE_STEP = Assumption("one step", lambda m: m.steps == 1, lambda m: f"steps={m.steps}")
POISSON_ZERO_OUT = Assumption(
    "Poisson batches and a record that is left out",
    lambda m: m.batching is Batching.POISSON and m.relation is Relation.ZERO_OUT,
    _sampling,
)
FULL_OR_POISSON = Assumption(
    "full batches, or Poisson batches and a record that is left out",
    lambda m: _full(m) or POISSON_ZERO_OUT.holds(m),
    _sampling,
)
FIXED_BATCHES = Assumption(
    "batches that are fixed before the run",
    lambda m: m.batching in (Batching.CYCLIC, Batching.SHUFFLED) or _full(m),
    lambda m: f"batching={m.batching.name}",
)
LOW_RATE = Assumption(
    "a sampling rate of at most 1/5",
    lambda m: m.sampling_rate <= 0.2 * (1 + ROUNDING),
    lambda m: f"sampling_rate={m.sampling_rate:g}",
)
LARGE_NOISE = Assumption(
    "noise of at least 4 sensitivities",
    lambda m: noise_multiplier(m) >= 4 * (1 - ROUNDING),
    lambda m: f"noise_std*batch_size/sensitivity={noise_multiplier(m):g}",
)

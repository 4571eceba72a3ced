"""The assumptions of the theorems, each checked against a mechanism by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from audit.mechanism import Batching, NoisySGD

ROUNDING = 1e-12
"""Relative slack of comparisons: parameters are decimals in double precision."""


@dataclass(frozen=True)
class Assumption:
    """One condition of a theorem.

    Parameters
    ----------
    name
        The condition in words, so that "needs " + name is a sentence.
    holds
        Whether a mechanism meets it.
    found
        What the mechanism has instead, as "name=value".
    """

    name: str
    holds: Callable[[NoisySGD], bool]
    found: Callable[[NoisySGD], str]

    def failure(self, mechanism: NoisySGD) -> str | None:
        """Return None if the assumption holds, or else "needs ..., got ..."."""
        if self.holds(mechanism):
            return None
        return f"needs {self.name}, got {self.found(mechanism)}"


def _full_batches(m: NoisySGD) -> bool:
    # a batch of all n records is the full batch however it is drawn, unless its size is random
    return m.batch_size == m.dataset_size and m.batching is not Batching.POISSON


def _batching(m: NoisySGD) -> str:
    found = f"batching={m.batching.name}"
    if m.batch_size < m.dataset_size:
        found += f" with batch_size={m.batch_size} of dataset_size={m.dataset_size}"
    return found


def constant_step_size(m: NoisySGD) -> bool:
    """Whether every step has the same step size."""
    return not isinstance(m.step_size, tuple) or len(set(m.step_size)) == 1


def _contractive(m: NoisySGD) -> bool:
    if m.smoothness is None:
        return False
    sizes = m.step_size if isinstance(m.step_size, tuple) else (m.step_size,)
    return max(sizes) * m.smoothness <= 2 * (1 + ROUNDING)


def _step_and_smoothness(m: NoisySGD) -> str:
    if m.smoothness is None:
        return "smoothness=None"
    return f"step_size={_step_size(m)} and smoothness={m.smoothness!r}"


def _step_size(m: NoisySGD) -> str:
    if constant_step_size(m):
        return repr(m.constant_step_size)
    return f"a schedule from {min(m.step_sizes):g} to {max(m.step_sizes):g}"


FULL_BATCHES = Assumption("full batches", _full_batches, _batching)
WITHOUT_REPLACEMENT = Assumption(
    "batches sampled without replacement",
    lambda m: m.batching is Batching.WITHOUT_REPLACEMENT,
    lambda m: f"batching={m.batching.name}",
)
CONVEX = Assumption("convex losses", lambda m: m.convex, lambda m: f"convex={m.convex}")
CONTRACTIVE_STEPS = Assumption(
    "eta <= 2/M with M the smoothness", _contractive, _step_and_smoothness
)
BOUNDED_DOMAIN = Assumption(
    "a bounded domain", lambda m: m.diameter is not None, lambda m: f"diameter={m.diameter}"
)
CONSTANT_STEP_SIZE = Assumption(
    "one step size for all steps", constant_step_size, lambda m: f"step_size={_step_size(m)}"
)

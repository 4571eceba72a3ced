"""Runs in d dimensions as a job of numbered blocks that return counts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.simulation.blocks import Block, block_size, checked_run
from audit.simulation.describing import described
from audit.simulation.dimensions.dataset import Dataset
from audit.simulation.dimensions.pair import NoisySGDPair
from audit.simulation.dimensions.points import (
    STREAMS,
    block_points,
    checked_direction,
    linear_score,
)
from audit.simulation.jobs import Counts


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearScoreCounts:
    """How many runs on each dataset have <direction, point> at or above each threshold.

    An `audit.simulation.jobs.Job`. Thresholds and direction are fixed beforehand, so the counts of
    all blocks, added up, are those that `audit.estimation.Summary` holds: ``first`` is row 0, and
    ``second`` row 1, of ``trials`` runs each. They are the counts of
    ``scores(pair, direction, trials=trials, seed=seed)``.

    Parameters
    ----------
    pair
        The neighbouring datasets.
    direction
        Shape (d,), not zero.
    thresholds
        Distinct finite numbers, ascending.
    trials
        How many runs on each dataset.
    seed
        A whole number from 0.

    Raises
    ------
    ValueError
        If a parameter is not as said.
    """

    pair: NoisySGDPair
    direction: ArrayLike
    thresholds: ArrayLike
    trials: int
    seed: int

    def __post_init__(self) -> None:
        validate.instance(NoisySGDPair, pair=self.pair)
        object.__setattr__(self, "direction", checked_direction(self.pair, self.direction))
        thresholds = validate.sample(thresholds=self.thresholds).copy()
        if np.any(np.diff(thresholds) <= 0):
            raise validate.fail("thresholds", "distinct and ascending", thresholds.tolist())
        object.__setattr__(self, "thresholds", thresholds)
        checked_run(self.trials, self.seed, None)

    @property
    def description(self) -> Mapping[str, Any]:
        """Plain data that fix every count, seed included; datasets by a digest of their bytes."""
        pair = self.pair
        return {
            "job": type(self).__name__,
            "mechanism": described(pair.mechanism),
            "loss": described(pair.loss),
            "domain": described(pair.domain),
            "dataset": _digest(pair.dataset),
            "dataset_prime": _digest(pair.dataset_prime),
            "start": np.asarray(pair.start).tolist(),
            "direction": np.asarray(self.direction).tolist(),
            "thresholds": np.asarray(self.thresholds).tolist(),
            "trials": int(self.trials),
            "block": self._size,
            "seed": int(self.seed),
        }

    def __len__(self) -> int:
        """How many blocks there are."""
        return -(-self.trials // self._size)

    def work(self, number: int) -> int:
        """How often block ``number`` moves a coordinate, over both datasets."""
        return 2 * len(self._block(number)) * self.pair.mechanism.steps * self.pair.dimension

    def counts(self, number: int) -> Counts:
        """Run block ``number`` on both datasets and return its counts, shape (2, thresholds)."""
        block = self._block(number)
        score = linear_score(np.asarray(self.direction))
        rows = [
            _reached(score(block_points(program, block, self.seed, stream)), self.thresholds)
            for program, stream in zip(self.pair.programs, STREAMS, strict=True)
        ]
        return np.stack(rows)

    @property
    def _size(self) -> int:
        return block_size(self.pair.mechanism.steps * self.pair.dimension)

    def _block(self, number: int) -> Block:
        validate.integer(0, number=number)
        if number >= len(self):
            raise ValueError(f"number must be below the {len(self)} blocks, got {number!r}")
        start = int(number) * self._size
        return Block(int(number), start, min(start + self._size, int(self.trials)))


def _reached(found: NDArray[np.float64], thresholds: ArrayLike) -> Counts:
    """Return how many numbers are at least each threshold."""
    below = np.searchsorted(np.sort(found), thresholds, side="left")
    return np.asarray(found.size - below, dtype=np.int64)


def _digest(dataset: Dataset) -> dict[str, Any]:
    held = np.ascontiguousarray(dataset.records, dtype="<f8")
    return {
        "shape": list(held.shape),
        "sha256": hashlib.sha256(held.tobytes()).hexdigest(),
        "zeroed": dataset.zeroed,
    }

"""One cell: many audits by one estimator on one mechanism at one confidence."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.calibration import other_packages
from results.calibration.estimators import OURS, PAIRED, PLANTED, Estimator
from results.calibration.mechanisms import DELTAS, mechanisms

Array = NDArray[np.float64]

CONFIDENCES = (0.9, 0.95, 0.999)
SIZES = (400, 300)
_SLACK = 1e-6  # of the truth, which comes from a grid
_KEPT = 5  # bounds of so many audits are stored, to see later whether they come out the same


@cache
def estimators() -> dict[str, Estimator]:
    """All of them by name, those of packages that are not installed too."""
    listed = (*OURS, *PAIRED, *PLANTED, *other_packages.LISTED)
    return {one.name: one for one in listed}


@dataclass(frozen=True)
class Cell:
    """Repeated audit, by name; a pure function of its fields."""

    estimator: str
    mechanism: str
    confidence: float
    repeats: int

    @property
    def key(self) -> str:
        """A file name."""
        name = f"{self.estimator} on {self.mechanism} at {self.confidence:g}, {self.repeats}"
        return "".join(c if c.isalnum() or c in ".=-" else "_" for c in name)

    @property
    def package(self) -> str:
        """The other distribution that it needs, if any."""
        return estimators()[self.estimator].package


def cells(repeats: int) -> list[Cell]:
    """Every cell, the estimators that take longest last."""
    listed = [
        Cell(e.name, name, confidence, max(1, round(repeats * e.share)))
        for e in estimators().values()
        for confidence in CONFIDENCES  # audits at one confidence share what has been computed
        for name in e.only or mechanisms()
    ]
    slow = "fixed thresholds, joint", "pilot", "sequential", "jax", "privacy-estimates", "credible"
    return sorted(listed, key=lambda cell: cell.estimator.startswith(slow))


def place(row: dict[str, Any]) -> tuple[int, int, float]:
    """Return the sort key of a row in tables and figures: the order in which things are listed."""
    methods, pairs = list(estimators()), list(mechanisms())
    return methods.index(row["estimator"]), pairs.index(row["mechanism"]), row["confidence"]


def first_values(cell: Cell) -> list[list[float]]:
    """Return the bounds of the first few audits, which `run` stores."""
    values: list[list[float]] = _values(cell, min(_KEPT, cell.repeats)).tolist()
    return values


def run(cell: Cell) -> dict[str, Any]:
    """Repeat one estimator; every estimator meets the same samples of a mechanism."""
    clock = time.process_time()
    mechanism, estimator = mechanisms()[cell.mechanism], estimators()[cell.estimator]
    truth = mechanism.epsilon_of_thresholds() + _SLACK
    values = _values(cell, cell.repeats)
    wrong = values > truth
    return {
        "estimator": cell.estimator,
        "mechanism": cell.mechanism,
        "confidence": cell.confidence,
        "repeats": cell.repeats,
        "sizes": list(SIZES),
        "planted": estimator.planted,
        "beside": estimator.beside,
        "null": mechanism.null,
        "wrong": int(np.sum(np.any(wrong, axis=1))),
        "positive": int(np.sum(np.any(values > 0, axis=1))),
        "not_a_number": int(np.sum(np.isnan(values))),
        "wrong_at": np.sum(wrong, axis=0).tolist(),
        "median": np.median(values, axis=0).tolist(),
        "truth": [float(t) if np.isfinite(t) else None for t in mechanism.epsilon()],
        "first_values": values[:_KEPT].tolist(),
        "seconds": time.process_time() - clock,
    }


def _values(cell: Cell, count: int) -> Array:
    """Lower bounds of the first ``count`` audits, shape (count, deltas)."""
    mechanism, estimator = mechanisms()[cell.mechanism], estimators()[cell.estimator]
    values = np.empty((count, DELTAS.size))
    root = np.random.SeedSequence(zlib.crc32(cell.mechanism.encode()))
    for number, stream in enumerate(root.spawn(count)):
        generator = np.random.default_rng(stream)
        x = mechanism.draw_first(generator, SIZES[0])
        y = mechanism.draw_second(generator, SIZES[1])
        values[number] = estimator.bound(x, y, cell.confidence, number, mechanism)
    return values

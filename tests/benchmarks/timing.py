"""Medians of repeated calls, and fresh processes for what must be measured from the start."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """One line of the benchmark: a number, and the number that it is held against."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def word(self) -> str:
        """Whether the value is within its limit."""
        if self.limit is None:
            return ""
        return "within" if self.value <= self.limit else "ABOVE"


def median_seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time of a call after one call to warm up."""
    call()
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        call()
        times.append(time.perf_counter() - clock)
    return statistics.median(times)


def in_fresh_process(code: str) -> tuple[float, float]:
    """Run code in a new interpreter: wall seconds, and the peak memory of children in GiB."""
    clock = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    seconds = time.perf_counter() - clock
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20

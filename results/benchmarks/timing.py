"""Medians of repeated calls, and fresh processes for what must be measured from the start."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Measured:
    """One line of the benchmark: a number, and the limit that it is held against.

    Attributes
    ----------
    name, value, unit
        What was measured.
    limit
        The largest value, or with ``at_least`` the smallest; None where nothing is promised.
        Limits of times are written down for a machine of one yardstick: see `scaled`.
    at_least
        Whether larger is better.
    column
        The column of the stored runs; empty where the value is not stored.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False
    column: str = ""

    def scaled(self, factor: float) -> Measured:
        """Return the same line with the limit of a machine that takes ``factor`` times as long."""
        if self.limit is None or self.unit not in ("s", "ms"):
            return self
        return replace(self, limit=self.limit * factor)

    @property
    def verdict(self) -> str:
        """Whether the value is within its limit; empty where there is none."""
        if self.limit is None:
            return ""
        if self.at_least:
            return "within" if self.value >= self.limit else "BELOW"
        return "within" if self.value <= self.limit else "ABOVE"

    @property
    def line(self) -> str:
        """The measurement as a line of a table."""
        limit = "" if self.limit is None else f"{self.limit:.3g}"
        return f"{self.name:54}{self.value:9.3g} {self.unit:4}{limit:>7} {self.verdict}"


def median_seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """Return the median wall time of a call, after one call to warm up."""
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


def process_seconds(
    code: str, arguments: Sequence[str], *, succeeds: bool, repeats: int = 3
) -> float:
    """Return the median wall time of a whole process that succeeds, or refuses its arguments.

    Raises
    ------
    RuntimeError
        If it does the other thing, so that something else was measured.
    """

    def run() -> None:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
        )
        if (done.returncode == 0) is not succeeds:
            last = (done.stderr.strip().splitlines() or [""])[-1]
            raise RuntimeError(
                f"{' '.join(arguments)} must {'succeed' if succeeds else 'be refused'}, "
                f"got status {done.returncode}: {last}"
            )

    return median_seconds(run, repeats)

"""How fast lower bounds come from samples and counts.

``python -m tests.benchmarks.estimation --beside 120`` also gives privacy-estimates, where it is
installed, that many seconds for the interval that it needs about a minute for.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

from audit.estimation import (
    SimultaneousBand,
    audit_samples,
    clopper_pearson,
    credible_epsilon,
)
from audit.estimation.levels import limits
from tests.benchmarks.timing import Measured, median_seconds

DELTAS = np.geomspace(1e-7, 1e-1, 10)


def rows() -> list[Measured]:
    """Measure the promised speeds of the estimators."""
    random = np.random.default_rng(1)
    x, y = random.standard_normal(10**7) + 1, random.standard_normal(10**7)

    def named(size: int) -> object:
        first, second = x[:size], y[:size]
        return audit_samples(first, second, confidence=0.95, deltas=(1e-5,), seed=1).mu_lower()

    def band() -> object:
        limits.cache_clear()  # a first audit of this size
        found = audit_samples(x, y, confidence=0.95, thresholds=SimultaneousBand())
        return found.epsilon_lower(DELTAS), found.beta_points

    counts = random.integers(0, 10**6, 10**5)
    intervals = median_seconds(lambda: clopper_pearson(counts, 10**6, confidence=0.95), 3)
    return [
        Measured(
            "audit_samples, pilot split, 10^6 a side", median_seconds(lambda: named(10**6), 3), "s"
        ),
        Measured(
            "audit_samples, pilot split, 10^7 a side", median_seconds(lambda: named(10**7), 3), "s"
        ),
        Measured("band and epsilon at ten deltas, 10^7 a side", median_seconds(band, 3), "s", 2),
        Measured("Clopper-Pearson for 10^5 pairs of counts", intervals, "s", 1),
        Measured("credible interval of (487, 512, 1, 0)", median_seconds(_credible), "s", 1),
    ]


COUNTS = (487, 512, 1, 0)  # true and false positives, true and false negatives
DELTA, LEVEL = 1e-5, 0.9
_THEIRS = f"""
from privacy_estimates import AttackResults, compute_eps_lo_hi
tp, fp, tn, fn = {COUNTS}
counts = AttackResults(FN=fn, FP=fp, TN=tn, TP=tp)
print(*compute_eps_lo_hi(counts, {DELTA}, {1 - LEVEL:g}, "joint-beta"))
"""


def _credible() -> tuple[float, float]:
    return credible_epsilon(*COUNTS, delta=DELTA).interval(LEVEL)


def beside(seconds: float) -> str:
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
    ours = _credible()
    return (
        f"  privacy-estimates, the same interval: {took:.3g} s; {low:.3f} to {high:.3f}, "
        f"ours {ours[0]:.3f} to {ours[1]:.3f}"
    )


def main() -> None:
    """Print the rows by themselves."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.estimation")
    parser.add_argument("--beside", type=float, metavar="SECONDS", help="for privacy-estimates")
    seconds = parser.parse_args().beside
    for row in rows():
        limit = "" if row.limit is None else f"{row.limit:g}"
        print(f"{row.name:54}{row.value:9.3g} {row.unit:4}{limit:>7} {row.word}", flush=True)
    if seconds is not None:
        print(beside(seconds))


if __name__ == "__main__":
    main()

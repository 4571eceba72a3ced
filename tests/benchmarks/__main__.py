"""Measure the speeds that the project promises, side by side in one run."""

from __future__ import annotations

import math
from dataclasses import replace

import audit
from audit import exact
from audit.constructions import TwoSidedWalk
from tests.benchmarks import bounds, estimation, own, search
from tests.benchmarks import simulation as kernels
from tests.benchmarks.timing import Measured, in_fresh_process, median_seconds

SHORT = audit.NoisySGD(
    steps=1000,
    dataset_size=20,
    batch_size=20,
    step_size=0.1,
    noise_std=0.5,
    lipschitz=1.0,
    smoothness=1.0,
    diameter=1.0,
)
# Paper 000, footnote 9: D = 1000 eta L, sigma at its threshold, T = T-bar.
PAPER = audit.NoisySGD(
    steps=7500,
    dataset_size=10,
    batch_size=1,
    step_size=1e-3,
    noise_std=math.sqrt(1e-3 / 7500) * 1e3,
    lipschitz=1.0,
    smoothness=1.0,
    diameter=1.0,
    batching=audit.Batching.WITHOUT_REPLACEMENT,
)
_PAPER_CODE = f"""

import audit
from audit import exact
from audit.constructions import BiasedWalk
m = audit.NoisySGD(steps=7500, dataset_size=10, batch_size=1, step_size=1e-3,
    noise_std={PAPER.noise_std!r}, lipschitz=1.0, smoothness=1.0, diameter=1.0,
    batching=audit.Batching.WITHOUT_REPLACEMENT)
exact.curve(BiasedWalk(m), threads=1).epsilon_bracket(0.01)
"""


def _exact() -> list[Measured]:
    def curve(steps: int) -> object:
        pair = TwoSidedWalk(replace(SHORT, steps=steps))
        return exact.curve(pair).epsilon_bracket(1e-5)

    seconds, memory = in_fresh_process(_PAPER_CODE)
    return [
        Measured(
            "exact curve, D/step_std 20, T 10^3", median_seconds(lambda: curve(1000)), "s", 0.3
        ),
        Measured(
            "exact curve, D/step_std 20, T 10^6", median_seconds(lambda: curve(10**6)), "s", 1
        ),
        Measured("exact curve, paper 000's constants, one thread", seconds, "s", 60),
        Measured("  its peak memory", memory, "GiB", 2),
    ]


def _import() -> list[Measured]:
    bare = median_seconds(lambda: in_fresh_process("pass"))
    full = median_seconds(lambda: in_fresh_process("import audit"))
    return [Measured("import audit, interpreter start taken off", full - bare, "s", 0.5)]


def main() -> None:
    """Print one line for each measurement."""
    print(f"{'':54}{'measured':>12}  {'limit':>8}")
    for part in (
        _import,
        _exact,
        kernels.rows,
        estimation.rows,
        bounds.rows,
        own.rows,
        search.rows,
    ):
        for row in part():
            limit = "" if row.limit is None else f"{row.limit:g}"
            print(f"{row.name:54}{row.value:9.3g} {row.unit:4}{limit:>7} {row.word}", flush=True)


if __name__ == "__main__":
    main()

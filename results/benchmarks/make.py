"""Measure the speeds that the project promises: ``python results/benchmarks/make.py [PART ...]``.

Every row has a limit where one is promised. Times depend on the machine and on what else it does,
so nothing is stored, and no test asserts a time. The first lines name the instruction set that
NumPy and Numba use: sampled numbers do not depend on it, speeds and last digits do.
"""

from __future__ import annotations

import argparse
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

import audit
from audit import exact
from audit.constructions import TwoSidedWalk
from results.benchmarks import bounds_and_estimates, walks
from results.benchmarks.timing import Measured, in_fresh_process, median_seconds, process_seconds

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
# Altschuler and Talwar 2022, footnote 9: D = 1000 eta L, sigma at its threshold, T = T-bar.
_AT22_CODE = f"""
import audit
from audit import exact
from audit.constructions import BiasedWalk
m = audit.NoisySGD(steps=7500, dataset_size=10, batch_size=1, step_size=1e-3,
    noise_std={math.sqrt(1e-3 / 7500) * 1e3!r}, lipschitz=1.0, smoothness=1.0, diameter=1.0,
    batching=audit.Batching.WITHOUT_REPLACEMENT)
exact.curve(BiasedWalk(m), threads=1).epsilon_bracket(0.01)
"""
# A whole process each: the module, its arguments, whether it ends well, and the limit.
_COMMANDS: tuple[tuple[str, tuple[str, ...], bool, float], ...] = (
    ("audit", ("--help",), True, 1.0),
    ("check", ("--help",), True, 1.0),
    ("bounds", ("--help",), True, 1.0),
    ("report", ("--help",), True, 1.0),
    ("search", ("--help",), True, 1.0),
    ("audit", ("settings.full_batch.mechanism.steppes=3",), False, 1.5),
    ("audit", ("settings.full_batch.mechanism.batching=possion",), False, 1.5),
)


def instruction_sets() -> dict[str, str]:
    """Return the vector instructions that NumPy dispatches to, and those that Numba emits."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    affine = cast(Any, njit)(_affine)
    affine(np.ones(64))
    registers = "".join(affine.inspect_asm().values())
    return {
        "NumPy": _widest("X86_V4" in found, "X86_V3" in found),
        "Numba": _widest("zmm" in registers, "ymm" in registers),
    }


def _affine(x: NDArray[np.float64]) -> None:
    for i in range(x.size):
        x[i] = 2.0 * x[i] + 1.0


def _widest(avx512: bool, avx2: bool) -> str:
    return "AVX-512" if avx512 else "AVX2" if avx2 else "neither AVX-512 nor AVX2"


def start_up_rows() -> list[Measured]:
    """Return how long commands take from their start to their end: help, and what is refused."""
    rows = []
    for module, arguments, succeeds, limit in _COMMANDS:
        command = "audit" if module == "audit" else f"audit-{module}"
        code = f"import sys; sys.argv[0] = {command!r}; from audit.cli.{module} import main; main()"
        seconds = process_seconds(code, arguments, succeeds=succeeds)
        rows.append(Measured(f"{command} {' '.join(arguments)}", seconds, "s", limit))
    return rows


def import_rows() -> list[Measured]:
    """Return what importing the package adds to the start of the interpreter."""
    bare = median_seconds(lambda: in_fresh_process("pass"))
    full = median_seconds(lambda: in_fresh_process("import audit"))
    return [Measured("import audit, interpreter start taken off", full - bare, "s", 0.5)]


def exact_rows() -> list[Measured]:
    """Return times of exact curves."""

    def curve(steps: int) -> object:
        pair = TwoSidedWalk(replace(SHORT, steps=steps))
        return exact.curve(pair).epsilon_bracket(1e-5)

    seconds, memory = in_fresh_process(_AT22_CODE)
    return [
        Measured(
            "exact curve, D/step_std 20, T 10^3", median_seconds(lambda: curve(1000)), "s", 0.3
        ),
        Measured(
            "exact curve, D/step_std 20, T 10^6", median_seconds(lambda: curve(10**6)), "s", 1
        ),
        Measured("exact curve, constants of AT22's proof, one thread", seconds, "s", 60),
        Measured("  its peak memory", memory, "GiB", 2),
    ]


PARTS: dict[str, Callable[[], list[Measured]]] = {
    "start": start_up_rows,
    "import": import_rows,
    "exact": exact_rows,
    "walks": walks.rows,
    "estimators": bounds_and_estimates.estimator_rows,
    "bounds": bounds_and_estimates.bound_rows,
    "own": bounds_and_estimates.own_rows,
    "search": bounds_and_estimates.search_rows,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line for each measurement."""
    parser = argparse.ArgumentParser(
        prog="python results/benchmarks/make.py",
        description="Measure the speeds that the project promises.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument(
        "--privacy-estimates",
        type=float,
        metavar="SECONDS",
        help="give the package privacy-estimates so long for the credible interval",
    )
    given = parser.parse_args(arguments)
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"part must be one of {', '.join(PARTS)}, got {unknown[0]!r}")
    found = ", ".join(f"{name} uses {widest}" for name, widest in instruction_sets().items())
    print(f"{platform.machine()}: {found}")
    print(f"{'':54}{'measured':>12}  {'limit':>8}")
    for part in given.parts or PARTS:
        for row in PARTS[part]():
            print(row.line, flush=True)
    if given.privacy_estimates is not None:
        print(bounds_and_estimates.privacy_estimates(given.privacy_estimates))


if __name__ == "__main__":
    main()

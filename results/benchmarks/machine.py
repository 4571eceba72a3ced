"""The machine that a benchmark runs on: its instruction sets, versions and a yardstick."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import ndtr

from results.benchmarks.timing import median_seconds

YARDSTICK = 0.0165
"""Seconds of `yardstick` on the machine for which limits of times are written down."""

_NEITHER = "neither AVX-512 nor AVX2"


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
    return "AVX-512" if avx512 else "AVX2" if avx2 else _NEITHER


def is_capped() -> bool:
    """Return whether wider instructions of the machine are switched off (`tests/avx2.py`)."""
    return "NPY_DISABLE_CPU_FEATURES" in os.environ


def yardstick() -> float:
    """Return the seconds of fixed work that uses no vector instructions.

    Limits of times are multiples of it, so that they hold on slower and faster machines.
    """
    x = np.linspace(-5.0, 5.0, 10**6)
    return median_seconds(lambda: (ndtr(x), sum(k & 7 for k in range(300_000))))


def processor() -> str:
    """Return the name of the processor."""
    if platform.system() == "Linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that speeds depend on."""
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in ("numpy", "scipy", "numba")},
    }

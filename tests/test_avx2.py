"""The switches for AVX-512, which the second run of `make test-all` needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.avx2 import disabled_features, environment, numba_features


@pytest.mark.parametrize(
    ("dispatched", "expected"),
    [
        (("X86_V3", "X86_V4", "AVX512_ICL", "AVX512_SPR"), ("X86_V4", "AVX512_ICL")),
        (("SSE41", "AVX2", "FMA3", "AVX512F", "AVX512_SKX"), ("AVX512F", "AVX512_SKX")),  # 2.0
        (("NEON", "ASIMD"), ()),
    ],
)
def test_only_what_is_dispatched_and_present(
    dispatched: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    present = {"X86_V3", "X86_V4", "AVX512_ICL", "AVX512F", "AVX512_SKX", "AVX2", "FMA3", "NEON"}
    assert disabled_features(dict.fromkeys(present, True), dispatched) == expected
    assert disabled_features(dict.fromkeys(present, False), dispatched) == ()


def test_the_features_of_numba() -> None:
    host = {"avx2": True, "avx512f": True, "sse4a": False, "amx-int8": False}
    assert numba_features(host) == "+avx2,-avx512f,-sse4a,-amx-int8"


_PROGRAM = """
import numpy as np
from numpy._core._multiarray_umath import __cpu_features__ as features
from numba import njit
@njit
def total(x):
    s = 0.0
    for v in x:
        s += v * v
    return s
total(np.ones(8))
print("zmm" in "".join(total.inspect_asm().values()), any(
    on for name, on in features.items() if name in ("X86_V4", "AVX512_SKX")))
"""


def test_no_warning_and_no_wide_registers() -> None:
    variables = environment()
    if variables is None:
        pytest.skip("the machine has no AVX-512")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", "False False\n")

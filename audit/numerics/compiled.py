"""Compilation of kernels. Importing this module imports Numba.

A process compiles the kernels that it calls, and keeps no machine code on disc: Numba's own cache
notices changes of a kernel's file, but not those of a helper in another file. Many short processes
of one installation that does not change meanwhile, such as the tests', may share compiled kernels:
with ``AUDIT_SHARE_KERNELS=1`` they are kept where Numba's ``NUMBA_CACHE_DIR`` says, which is best
a folder that is thrown away afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., object])

_SHARE_KERNELS = os.environ.get("AUDIT_SHARE_KERNELS") == "1"


def compiled(function: F, **options: object) -> F:
    """Compile with Numba; other threads run meanwhile, and division by zero is an error."""
    result: F = cast(Any, njit)(nogil=True, cache=_SHARE_KERNELS, **options)(function)
    return result


def compiled_loop(function: F) -> F:
    """Compile as `compiled`; division by zero gives an infinity, as it must in vectors."""
    return compiled(function, error_model="numpy")


def compiled_inline(function: F) -> F:
    """Compile as `compiled_loop`, into every caller."""
    return compiled(function, error_model="numpy", forceinline=True)


def _fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a b + c``, rounded once.

    It compiles to LLVM's ``llvm.fma``: one instruction on x86 processors with AVX2, on every 64-bit
    ARM processor and on GPUs. Elsewhere LLVM calls ``fma`` of the C library, which gives the same
    bits but takes one number after the other: some ten times slower.
    """
    number = types.float64
    return number(number, number, number), lambda _, builder, __, given: builder.fma(*given)


fma = cast(Callable[[float, float, float], float], intrinsic(_fma))

"""Run Python as on a machine without AVX-512: ``python tests/avx2.py [ARGUMENT OF PYTHON ...]``.

NumPy, OpenBLAS and Numba choose their loops by the processor, and loops for AVX-512 round otherwise
than those for AVX2: certified numbers must hold with both. Where the machine has no AVX-512 there
is nothing to switch off, and nothing is run: an ordinary run says it all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping


def disabled_features(present: Mapping[str, bool], dispatched: Iterable[str]) -> tuple[str, ...]:
    """Return the features above AVX2 that NumPy dispatches to and the machine has.

    NumPy warns of names that it does not dispatch to or that the machine lacks.
    """
    above = ("AVX512", "AVX10", "AMX", "X86_V4")
    return tuple(name for name in dispatched if name.startswith(above) and present.get(name))


def numba_features(host: Mapping[str, bool]) -> str:
    """Return the features of the host for LLVM, with those above AVX2 switched off."""
    above = ("avx512", "avx10", "amx")
    return ",".join(
        f"{'-' if name.startswith(above) or not present else '+'}{name}"
        for name, present in host.items()
    )


def environment() -> dict[str, str] | None:
    """Return the variables that switch AVX-512 off; None where there is none."""
    import llvmlite.binding as llvm
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    names = disabled_features(__cpu_features__, __cpu_dispatch__)
    if not names:
        return None
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(names),
        "OPENBLAS_CORETYPE": "Haswell",
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": numba_features(llvm.get_host_cpu_features()),
    }


def main() -> None:
    """Replace this process by one without AVX-512."""
    variables = environment()
    if variables is None:
        print("no AVX-512 here: all has run without it")
        return
    print(f"without {variables['NPY_DISABLE_CPU_FEATURES']}:", flush=True)
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], {**os.environ, **variables})


if __name__ == "__main__":
    main()

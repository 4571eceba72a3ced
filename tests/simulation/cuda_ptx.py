"""Compile the CUDA kernels without a device, and look for what a compiler could contract.

``python -m tests.simulation.cuda_ptx``, with the extra ``cuda`` installed. PTX is printed as counts
of instructions. A sum one of whose terms is a product could become a fused operation when the
device's assembler meets it, and its bits would not be those of the processor: there must be none.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from audit import Batching
from audit.simulation.dimensions import Ball, Clipped, Logistic
from audit.simulation.program import compiled
from audit.simulation.rng import LANES
from tests.simulation import cases
from tests.simulation.dimensions.cases import pair

CAPABILITY = (9, 0)
_REGISTER = re.compile(r"%fd\d+")
_INSTRUCTION = re.compile(r"\s+(?:@!?%\S+ )?(\S+)\s+(%fd\d+),\s*(.*);")


def kernels() -> dict[str, str]:
    """Return the PTX of both kernels, with the contraction that is NVVM's default."""
    from numba import typeof, types
    from numba.cuda import compiler, dispatcher

    from audit.simulation.backends.cuda import kernels

    none, flag = np.zeros(1, np.int64), np.zeros(1, np.int32)
    task = kernels.Task(
        np.zeros((1, 4 * LANES), np.uint64), none, none, np.zeros(1), none, np.zeros(1), flag
    )
    paths = kernels.PathRoom(none, *(np.zeros((1, 2), np.int32) for _ in range(3)))
    tables: list[Any] = [np.zeros((1, 2, LANES)) for _ in range(2)]
    tables += [np.zeros((1, 2, LANES), np.int32) for _ in range(7)]
    points = kernels.PointRoom(*tables, np.zeros((1, 2)))
    made = pair(Clipped(Logistic(0.4), 0.6), Ball(1.6), Batching.POISSON)
    given = {
        kernels.walk: (compiled(cases.COMPILED["Hölder"]()), task, paths),
        kernels.run: (made.programs[0], task._replace(out=np.zeros((1, 2))), points),
    }
    found = {}
    device = SimpleNamespace(compute_capability=CAPABILITY)  # device functions ask for it
    with mock.patch.object(dispatcher, "get_current_device", return_value=device):
        for kernel, arguments in given.items():
            signature = types.void(*map(typeof, arguments))
            ptx, _ = compiler.compile(
                kernel.py_func, signature, device=False, abi="numba", cc=CAPABILITY, opt=True
            )
            found[kernel.py_func.__name__] = ptx
    return found


def sums_of_products(ptx: str) -> list[str]:
    """Return the additions and subtractions of doubles that have a product among their terms."""
    made: dict[str, list[tuple[str, list[str]]]] = {}
    lines = [match for line in ptx.splitlines() if (match := _INSTRUCTION.match(line))]
    for match in lines:
        made.setdefault(match[2], []).append((match[1], _REGISTER.findall(match[3])))

    def is_product(register: str, seen: frozenset[str]) -> bool:
        for name, terms in made.get(register, []):
            if name.startswith("mul"):
                return True
            passes_on = name.startswith(("mov", "selp", "neg")) and register not in seen
            if passes_on and any(is_product(term, seen | {register}) for term in terms):
                return True
        return False

    return [
        match[0].strip()
        for match in lines
        if match[1].startswith(("add", "sub"))
        and any(is_product(term, frozenset()) for term in _REGISTER.findall(match[3]))
    ]


def main() -> None:
    """Print the operations on doubles of both kernels; end with 1 if one could be contracted."""
    contractible = False
    for name, ptx in kernels().items():
        counts = Counter(
            match[1] for line in ptx.splitlines() if (match := _INSTRUCTION.match(line))
        )
        print(name, dict(sorted(counts.items())))
        for line in sums_of_products(ptx):
            print("could be contracted:", line)
            contractible = True
    sys.exit(contractible)


if __name__ == "__main__":
    main()

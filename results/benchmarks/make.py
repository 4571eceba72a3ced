"""Measure the speeds that the project promises: ``python results/benchmarks/make.py [PART ...]``.

Every row has a limit where one is promised: a ratio of two programs that run side by side, which
holds for an instruction set, or a multiple of a yardstick, for times. The first lines name both.
A run of all parts is stored beside this file, one row in ``runs.csv``, and shown in ``README.md``;
it is worth storing from a machine that does nothing else. No test asserts a time.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import audit
from audit import exact
from audit.constructions import TwoSidedWalk
from results.benchmarks import bounds_and_estimates, machine, page, walks
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


_WIDTHS = ["neither AVX-512 nor AVX2", "AVX2", "AVX-512"]


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
        Measured(
            "exact curve, constants of AT22's proof, one thread",
            seconds,
            "s",
            20,
            column="exact_at22",
        ),
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
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent,
        help="the folder of the stored runs (default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"part must be one of {', '.join(PARTS)}, got {unknown[0]!r}")
    sets, unit = machine.instruction_sets(), machine.yardstick()
    found = ", ".join(f"{name} uses {widest}" for name, widest in sets.items())
    print(f"{platform.machine()}: {found}")
    print(f"limits of times are for a yardstick of {unit * 1e3:.3g} ms")
    print(f"{'':54}{'measured':>12}  {'limit':>8}")
    values = {}
    for part in given.parts or PARTS:
        for row in PARTS[part]():
            print(row.scaled(unit / machine.YARDSTICK).line, flush=True)
            if row.column:
                values[row.column] = row.value
    if given.privacy_estimates is not None:
        print(bounds_and_estimates.privacy_estimates(given.privacy_estimates))
    if not given.parts:
        page.store(_run(min(sets.values(), key=_WIDTHS.index), unit, values), given.output)
        print(f"stored: {given.output / 'README.md'}")


def _run(instruction_set: str, yardstick: float, values: dict[str, float]) -> page.Run:
    return page.Run(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=machine.processor(),
        cores=os.cpu_count() or 1,
        instruction_set=instruction_set,
        capped=machine.is_capped(),
        **machine.versions(),
        yardstick_ms=yardstick * 1e3,
        values=values,
    )


if __name__ == "__main__":
    main()

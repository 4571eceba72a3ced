"""The program of the benchmarks: rows and refusals; never a time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from results.benchmarks import make
from results.benchmarks.timing import Measured, process_seconds


def test_a_row_says_whether_it_is_within_its_limit() -> None:
    within, above = Measured("a", 1.0, "s", 1.0), Measured("a", 1.1, "s", 1.0)
    assert (within.verdict, above.verdict, Measured("a", 1.0, "s").verdict) == (
        "within", "ABOVE", "",
    )  # fmt: skip
    assert above.line == f"{'a':54}{'1.1':>9} s         1 ABOVE"


def test_chosen_parts_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {name: [Measured(f"row of {name}", 2.0, "s")] for name in make.PARTS}
    monkeypatch.setattr(make, "PARTS", {name: lambda n=name: rows[n] for name in rows})
    monkeypatch.setattr(make, "instruction_sets", lambda: {"NumPy": "AVX2", "Numba": "AVX2"})
    make.main(["import", "walks"])
    first, _, *others = capsys.readouterr().out.splitlines()
    assert first.endswith(": NumPy uses AVX2, Numba uses AVX2")
    assert [line.split("  ")[0] for line in others] == ["row of import", "row of walks"]


def test_a_part_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make.main(["wlaks"])
    assert ended.value.code == 2
    assert "part must be one of start, import, exact, walks, " in capsys.readouterr().err


def test_instruction_sets_are_named() -> None:
    named = {"AVX-512", "AVX2", "neither AVX-512 nor AVX2"}
    assert set(make.instruction_sets().values()) <= named
    code = "from results.benchmarks.make import instruction_sets; print(instruction_sets())"
    without = {**os.environ, "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=without, capture_output=True, text=True, check=True
    )
    assert "'NumPy': 'AVX2'" in done.stdout or "neither" in done.stdout


def test_a_command_that_does_something_else_is_not_measured() -> None:
    with pytest.raises(RuntimeError, match=r"^--help must be refused, got status 0: $"):
        process_seconds("pass", ("--help",), succeeds=False, repeats=1)
    with pytest.raises(RuntimeError, match=r"^x must succeed, got status 1: $"):
        process_seconds("import sys; sys.exit(1)", ("x",), succeeds=True, repeats=1)
    assert process_seconds("import sys; sys.exit(2)", (), succeeds=False, repeats=1) > 0

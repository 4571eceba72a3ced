"""The program of the benchmarks: rows and refusals; never a time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from results.benchmarks import machine, make, page
from results.benchmarks.timing import Measured, process_seconds


def test_a_row_says_whether_it_is_within_its_limit() -> None:
    within, above = Measured("a", 1.0, "s", 1.0), Measured("a", 1.1, "s", 1.0)
    ratio = Measured("a", 9.9, "", 10.0, at_least=True)
    assert [row.verdict for row in (within, above, ratio, Measured("a", 1.0, "s"))] == [
        "within", "ABOVE", "BELOW", "",
    ]  # fmt: skip
    assert above.line == f"{'a':54}{'1.1':>9} s         1 ABOVE"
    # limits of times are multiples of the yardstick
    assert Measured("a", 1.1, "s", 1.0).scaled(1.2).verdict == "within"
    assert Measured("a", 1.1, "GiB", 1.0).scaled(1.2).verdict == "ABOVE"
    assert Measured("a", 4.9, "", 5.0, at_least=True).scaled(0.5).verdict == "BELOW"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program measure nothing: each part has one row, which is stored."""
    names = dict(zip(make.PARTS, page.COLUMNS, strict=False))
    rows = {part: [Measured(f"row of {part}", 2.0, "s", column=names[part])] for part in names}
    monkeypatch.setattr(make, "PARTS", {part: lambda part=part: rows[part] for part in rows})
    monkeypatch.setattr(machine, "instruction_sets", lambda: {"NumPy": "AVX-512", "Numba": "AVX2"})
    monkeypatch.setattr(machine, "yardstick", lambda: 0.05)
    monkeypatch.setattr(machine, "processor", lambda: "a processor")


@pytest.mark.usefixtures("quick")
def test_chosen_parts_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make.main(["import", "walks", "--output", str(tmp_path)])
    first, second, _, *others = capsys.readouterr().out.splitlines()
    assert first.endswith(": NumPy uses AVX-512, Numba uses AVX2")
    assert second == "limits of times are for a yardstick of 50 ms"
    assert [line.split("  ")[0] for line in others] == ["row of import", "row of walks"]
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("quick")
def test_a_whole_run_is_one_row_and_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "benchmarks"
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    make.main(["--output", str(folder)])
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "X86_V4")
    make.main(["--output", str(folder)])
    first, second = page.read(folder)
    assert (first.machine, first.instruction_set, first.yardstick_ms) == ("a processor", "AVX2", 50)
    assert (first.capped, second.capped) == (False, True)
    assert set(first.values.values()) == {2.0}
    assert dataclasses.replace(second, capped=False) == first
    text = (folder / "README.md").read_text()
    assert "## AVX2\n" in text
    assert "## AVX-512" not in text
    assert f"| two-sided walk, M steps/s | {2.0:.3g} | {2.0:.3g} |" in text
    assert (folder / "runs.csv").read_text() == page.table([first, second])


def test_both_kinds_of_machine_are_on_the_page_with_the_digits_that_are_stored(
    tmp_path: Path,
) -> None:
    (known, *_) = page.read(Path(page.__file__).parent)
    wide = dataclasses.replace(known, instruction_set="AVX-512", values={"two_threads": 1.95})
    text = page.page([known, wide])
    assert text.index("## AVX2") < text.index("## AVX-512")
    assert "| two threads, times one | 1.95 |" in text
    page.store(dataclasses.replace(known, values={"two_threads": 13.7496}), tmp_path)
    assert "| 13.8 |" in (tmp_path / "README.md").read_text()  # of 13.75


def test_the_stored_page_is_that_of_the_stored_runs_and_every_column_is_measured() -> None:
    """Columns are named where they are measured; those of walks are put together."""
    folder = Path(page.__file__).parent
    assert (folder / "README.md").read_text() == page.page(page.read(folder))
    source = "".join((folder / f"{m}.py").read_text() for m in ("make", "bounds_and_estimates"))
    named = {name for name in page.COLUMNS if f'"{name}"' in source}
    walked = {f"{k}{e}" for k in ("two_sided", "biased") for e in ("", "_numpy", "_numba")}
    assert set(page.COLUMNS) <= named | walked | {"two_threads"}


def test_a_part_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make.main(["wlaks"])
    assert ended.value.code == 2
    assert "part must be one of start, import, exact, walks, " in capsys.readouterr().err


def test_instruction_sets_are_named() -> None:
    named = {"AVX-512", "AVX2", "neither AVX-512 nor AVX2"}
    assert set(machine.instruction_sets().values()) <= named


def test_a_command_that_does_something_else_is_not_measured() -> None:
    with pytest.raises(RuntimeError, match=r"^--help must be refused, got status 0: $"):
        process_seconds("pass", ("--help",), succeeds=False, repeats=1)
    with pytest.raises(RuntimeError, match=r"^x must succeed, got status 1: $"):
        process_seconds("import sys; sys.exit(1)", ("x",), succeeds=True, repeats=1)
    assert process_seconds("import sys; sys.exit(2)", (), succeeds=False, repeats=1) > 0

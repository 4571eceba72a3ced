"""The stored runs of the benchmark, one row a run, and the page that shows them."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS = {
    "two_sided": "two-sided walk, M steps/s",
    "two_sided_numpy": "times NumPy",
    "two_sided_numba": "times plain Numba",
    "biased_numpy": "biased walk, times NumPy",
    "biased_numba": "times plain Numba",
    "two_threads": "two threads, times one",
    "exact_at22": "exact curve at AT22's constants, s",
    "pairs": "pairs of a search a second",
    "closed_form": "median closed form, ms",
    "clopper_pearson": "10^5 Clopper-Pearson pairs, s",
    "own_coupling": "own.coupling, s",
    "sampled_table": "table of sampled batches, s",
}
"""Columns of a run: `Measured.column` and a heading."""

_RUNS = "runs.csv"
_FACTS = ("date", "machine", "cores", "instruction_set", "capped", "python", "numpy", "scipy",
          "numba", "yardstick_ms", "note")  # fmt: skip
_TOP = """# Speed

One row a run of `make bench`, which measures with the instructions of the machine and, where that
is AVX-512, a second time with AVX2 alone (`tests/avx2.py` switches the wider ones off; "capped").
Ratios compare programs that ran side by side, so that they depend on the instruction set and
hardly on the clock of the machine. Times depend on both. All columns are in [runs.csv](runs.csv).
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the whole benchmark.

    Attributes
    ----------
    date
        Day of the run, ISO 8601.
    machine, cores
        The processor's name, and how many processors the system shows.
    instruction_set
        The widest vector instructions that NumPy and Numba both use.
    capped
        Whether the machine has wider ones.
    python, numpy, scipy, numba
        Versions.
    yardstick_ms
        Milliseconds of fixed work without vector instructions.
    note
        Where the numbers come from, if not from a run of this program.
    values
        By the names of `COLUMNS`; what was not measured is left out.
    """

    date: str
    machine: str
    cores: int
    instruction_set: str
    capped: bool
    python: str
    numpy: str
    scipy: str
    numba: str
    yardstick_ms: float | None
    note: str = ""
    values: dict[str, float] = field(default_factory=dict)


def read(folder: Path) -> list[Run]:
    """Return the stored runs, the oldest first."""
    path = folder / _RUNS
    if not path.exists():
        return []
    runs = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values = {name: float(row.pop(name)) for name in COLUMNS if row.get(name)}
            facts = {name: row[name] for name in _FACTS}
            runs.append(
                Run(
                    **{  # type: ignore[arg-type]
                        **facts,
                        "cores": int(facts["cores"]),
                        "capped": facts["capped"] == "True",
                        "yardstick_ms": float(facts["yardstick_ms"] or 0) or None,
                        "values": values,
                    }
                )
            )
    return runs


def store(run: Run, folder: Path) -> None:
    """Add a run to the table, and write the page."""
    runs = [*read(folder), run]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _RUNS).write_text(table(runs), encoding="utf-8")
    # of the digits that are stored
    (folder / "README.md").write_text(page(read(folder)), encoding="utf-8")


def table(runs: Sequence[Run]) -> str:
    """Return the runs as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_FACTS, *COLUMNS])
    for run in runs:
        facts = dataclasses.asdict(run)
        writer.writerow([_cell(facts[name]) for name in _FACTS]
                        + [_cell(run.values.get(name)) for name in COLUMNS])  # fmt: skip
    return text.getvalue()


def _cell(value: object) -> object:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else value


def page(runs: Sequence[Run]) -> str:
    """Return the page: a table for each instruction set, the newest run first."""
    sections = [_TOP]
    for name in sorted({run.instruction_set for run in runs}, reverse=True):
        chosen = [run for run in reversed(runs) if run.instruction_set == name]
        sections.append(f"## {name}\n\n{_section(chosen)}")
    return "\n".join(sections)


def _section(runs: Sequence[Run]) -> str:
    """Return a table with one column a run, and notes."""
    heads = [f"{run.date}, {_machine(run)}" for run in runs]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---|" * len(runs)]
    for name, heading in COLUMNS.items():
        cells = [f"{run.values[name]:.3g}" if name in run.values else "–" for run in runs]
        lines.append(f"| {heading} | " + " | ".join(cells) + " |")
    versions = [f"{run.numba}, {run.numpy}" if run.numba else "–" for run in runs]
    lines.append("| Numba, NumPy | " + " | ".join(versions) + " |")
    return "\n".join(lines) + "\n"


def _machine(run: Run) -> str:
    words = [run.machine, f"{run.cores} cores", *(["capped"] if run.capped else [])]
    return ", ".join([*words, run.note] if run.note else words)

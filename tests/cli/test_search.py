"""The ``audit-search`` command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from audit.cli.search import main
from audit.search import read_found
from tests.ended import Command

MECHANISM = shlex.split(
    "steps=10 dataset_size=10 batch_size=10 step_size=0.1 noise_std=0.5 lipschitz=1 smoothness=1 "
    "diameter=1"
)
SHORT = ["budget=30", "evaluations=5", "seed=0"]


def test_a_found_pair_is_printed_and_written(ended: Command, tmp_path: Path) -> None:
    file = tmp_path / "found.yaml"
    done = ended(main, *MECHANISM, *SHORT, "delta=1e-5", "verbose=true", f"output={file}")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    (told,) = (line for line in lines if line.startswith("Certified epsilon at delta 1e-05: 5.759"))
    low, high = re.findall(r"\d\.\d{8}", told)
    assert float(low) < float(high)  # they agree to 1e-12, and are rounded outward
    causes = "Width of the bracket of epsilon: quadrature "
    assert any(line.startswith(causes) and ", cells " in line for line in lines)
    assert lines[-1] == f"Written to {file}"
    assert read_found(file).construction.mechanism.noise_std == 0.5


def test_outputs_are_looked_at_before_the_search(ended: Command, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for output, sweep, message in (
        (tmp_path / "folder", "delta=1e-5", "output must be a file that can be written, got"),
        (tmp_path / "x.yaml", "delta=1e-5,1e-3", "output must be another file for each search"),
    ):
        done = ended(main, *MECHANISM, *SHORT, "-m", sweep, f"output={output}")
        assert done.status == 2
        assert message in done.error
    (tmp_path / "link.yaml").symlink_to(tmp_path / "x.yaml")
    done = ended(main, *MECHANISM, *SHORT, "delta=1e-5", f"output={tmp_path / 'link.yaml'}")
    assert read_found(tmp_path / "x.yaml").bracket[0] > 5
    assert (tmp_path / "link.yaml").is_symlink()
    done = ended(main, *MECHANISM, *SHORT, "delta=1e-5", "output=/dev/null")
    assert (done.status, Path("/dev/null").is_char_device()) == (0, True)


def test_numbers_that_overflow_are_one_line(ended: Command) -> None:
    done = ended(main, *MECHANISM, *SHORT, "delta=1e-5", "diameter=1e300")
    assert done.status == 2
    assert "numbers must not be too large or too small, got OverflowError" in done.error


def test_a_renyi_divergence(ended: Command) -> None:
    words = ["evaluations=5", "seed=0"]  # without a budget
    done = ended(main, *MECHANISM, *words, "renyi_order=4", "batching=FULL")
    assert done.status == 0
    assert "Certified Renyi divergence at order 4: " in done.out

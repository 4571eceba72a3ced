"""The ``audit-bounds`` command."""

from __future__ import annotations

import csv
import functools
import io
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from audit import NoisySGD, Relation, bounds
from audit.cli.bounds import main
from audit.cli.search import main as search
from audit.codec import encode
from tests.ended import Command


@pytest.fixture(scope="module", autouse=True)
def _asked_once() -> Iterator[None]:
    """Tables and trainings that several tests ask for are computed once."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("table", "epsilon", "noise_multiplier"):
            patch.setattr(bounds, name, functools.cache(getattr(bounds, name)))
        yield


WORDS = shlex.split(
    "steps=1000 dataset_size=20 batch_size=20 step_size=0.1 noise_std=0.5 lipschitz=1 smoothness=1 "
    "diameter=1"
)
CLIPPED = shlex.split(
    "steps=100 dataset_size=1000 batch_size=10 step_size=0.1 noise_std=0.1 clip_norm=1 "
    "convex=false relation=zero_out delta=1e-5"
)


def test_the_bounds_that_apply_and_one_line_that_counts_the_others(ended: Command) -> None:
    done = ended(main, *WORDS, "delta=1e-5")
    assert (done.status, done.err) == (0, "")
    head, *rows, counted = done.out.splitlines()
    assert head.split() == ["bound", "status", "epsilon", "ratio"]
    (row,) = (line for line in rows if line.startswith("bsa24.theorem_4_3 "))
    assert row.split()[1:] == ["as", "printed", "24.3817", "1"]  # of 24.38161
    left_out = len(bounds.CATALOGUE) - len(rows)
    assert counted == (
        f"{left_out - 1} bounds do not apply (--all lists them with reasons); "
        "1 more would take seconds (slow=true)"
    )


def test_all_statements(ended: Command) -> None:
    done = ended(main, "--all", *WORDS, "delta=1e-5")
    assert done.status == 0
    lines = done.out.splitlines()
    assert len(lines) == 1 + len(bounds.CATALOGUE)
    assert any("needs cyclic batches, got batching='full'" in line for line in lines)


def rows_of(text: str) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in json.loads(text)}


def test_json_of_a_sweep_is_one_list(ended: Command) -> None:
    words = [word for word in WORDS if not word.startswith("steps=")]
    told = json.loads(ended(main, "-m", *words, "steps=2,3", "delta=1e-5", "--format", "json").out)
    assert [one["question"]["steps"] for one in told] == [2, 3]
    for one, steps in zip(told, (2, 3), strict=True):
        alone = ended(main, *words, f"steps={steps}", "delta=1e-5", "--format", "json").out
        assert one["answer"] == json.loads(alone)
    words = [*TRAINING, "noise_multiplier=2,3", "delta=1e-5", "--format", "json"]
    swept = json.loads(ended(main, "-m", *words).out)
    assert [one["question"]["noise_multiplier"] for one in swept] == [2, 3]


def test_json_is_a_list_of_bounds(ended: Command) -> None:
    done = ended(main, *WORDS, "delta=1e-5", "--format", "json")
    rows = rows_of(done.out)
    curve = bounds.CATALOGUE["bsa24.theorem_4_3"]
    assert rows["bsa24.theorem_4_3"] == {
        "id": "bsa24.theorem_4_3",
        "status": "as printed",
        "epsilon": pytest.approx(24.3816, rel=1e-5),
        "ratio": pytest.approx(1.0),
        "reason": None,
        "source": str(curve.cite),
    }
    assert all(row["epsilon"] is not None for row in rows.values())
    assert rows["survey.advanced_composition_shortcut"]["epsilon"] == "inf"
    refuted = [row for row in rows.values() if row["status"] == bounds.Status.REFUTED.value]
    assert refuted
    assert all(row["ratio"] is None for row in refuted)
    every = rows_of(ended(main, *WORDS, "delta=1e-5", "--format", "json", "--all").out)
    assert set(every) == set(bounds.CATALOGUE)
    assert {id: every[id] for id in rows} == rows
    assert all(row["reason"] for id, row in every.items() if id not in rows)


def test_csv_has_the_same_columns(ended: Command) -> None:
    words = [*WORDS, "steps=10", "delta=1e-5"]
    read = list(csv.DictReader(io.StringIO(ended(main, *words, "--format", "csv").out)))
    rows = rows_of(ended(main, *words, "--format", "json").out)
    assert [row["id"] for row in read] == list(rows)
    assert [float(row["epsilon"]) for row in read] == [
        float(row["epsilon"]) for row in rows.values()
    ]


def test_at_delta_zero_most_bounds_are_infinite(ended: Command) -> None:
    rows = rows_of(ended(main, *WORDS, "delta=0", "--format", "json").out)
    assert rows["bsa24.theorem_4_3"]["epsilon"] == "inf"
    assert all(row["ratio"] is None for row in rows.values())  # there is no tightest one
    assert "inf" in ended(main, *WORDS, "delta=0").out


def test_slow_bounds_where_they_are_asked_for(
    ended: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are those of the table, which tests/bounds/own/test_coupling.py asks for."""
    row = bounds.Row("own.coupling", bounds.entry("own.coupling").status, None, None, "a reason")
    table = Mock(return_value=(row,))
    monkeypatch.setattr(bounds, "table", table)
    shown = ended(main, *WORDS, "delta=1e-5", "slow=true").out
    assert table.call_args.kwargs == {"slow": True}
    assert shown.endswith("1 bounds do not apply (--all lists them with reasons)\n")


def test_several_mechanisms(ended: Command) -> None:
    done = ended(main, *WORDS, "delta=1e-5", "-m", "noise_std=0.5,1.0")
    assert done.status == 0
    assert done.out.count("bsa24.theorem_4_3 ") == 2


@pytest.mark.parametrize("command", [main, search], ids=["audit-bounds", "audit-search"])
def test_help_names_every_field(ended: Command, command: Callable[[], None]) -> None:
    done = ended(command, "--help")
    assert (done.status, done.err) == (0, "")
    for field in fields(NoisySGD):
        assert f"    {field.name} " in done.out


def test_clipped_gradients(ended: Command) -> None:
    done = ended(main, *CLIPPED, "batching=Poisson")
    assert (done.status, done.err) == (0, "")
    assert "survey.moments_accountant" in done.out
    assert len(done.out.splitlines()) < 15


def test_batches_that_an_accountant_assumes(ended: Command) -> None:
    words = [*CLIPPED, "release=all_iterates", "batching=cyclic", "assumed=poisson"]
    done = ended(main, *words)
    assert (done.status, done.err) == (0, "")
    assert done.out.count("\n") == 1
    assert "poisson batches: false for cyclic batches" in done.out
    told = json.loads(ended(main, *words, "--format", "json").out)
    assert told["claimed"] < told["certified"] <= told["proven"]
    done = ended(main, *CLIPPED, "batching=cyclic", "assumed=poisson")
    assert done.err.startswith("audit-bounds: error: a comparison of batches needs release='all it")


TRAINING = ["sampling_rate=.5", "steps=1", "relation=add_remove"]


def test_words_of_trainings(
    ended: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = ended(main, *TRAINING, "noise_multiplier=1.1", "delta=1e-5")
    same = {"sampling_rate": 0.5, "steps": 1, "relation": Relation.ADD_REMOVE}
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{bounds.epsilon(noise_multiplier=1.1, delta=1e-5, **same)}\n"
    done = ended(main, *TRAINING, "epsilon=2", "delta=1e-5", "--format", "json")
    noise = bounds.noise_multiplier(epsilon=2.0, delta=1e-5, **same)
    assert json.loads(done.out) == encode(noise)
    monkeypatch.chdir(tmp_path)
    swept = ended(main, *TRAINING, "-m", "noise_multiplier=2,3", "delta=1e-5", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(swept.out)))
    assert [row["noise_multiplier"] for row in rows] == ["2.0", "3.0"]
    assert float(rows[0]["lower"]) > float(rows[1]["upper"])
    assert not Path("multirun.yaml").exists()
    done = ended(main, *TRAINING, "epsilon=2", "delta=1e-5", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert float(row["needed"]) <= float(row["enough"])


def test_rows_that_differ_by_rounding_keep_their_order(
    ended: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tuple(
        bounds.Row(id, bounds.Status.AS_PRINTED, value, 1.0, None)
        for id, value in (("at22.b_3", 2.0), ("at22.b_2", 1.0 + 1e-13), ("at22.b_1", 1.0))
    )
    monkeypatch.setattr(bounds, "table", lambda *_, **__: rows)
    found = json.loads(ended(main, *WORDS, "delta=1e-5", "--format", "json").out)
    assert [row["id"] for row in found] == ["at22.b_2", "at22.b_1", "at22.b_3"]

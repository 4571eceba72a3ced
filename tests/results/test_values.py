"""Values of a result: those that no run can produce are refused, and a run names its versions."""

from __future__ import annotations

import math
import platform
import re
import subprocess
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import audit
from audit.results import (
    Chart,
    Environment,
    Findings,
    FoundTable,
    Number,
    Series,
    Statement,
    Verdict,
    from_json,
    judge_interval,
    judge_upper_bound,
)
from audit.results.result import provenance_of

RESULTS = Path(__file__).resolve().parents[2] / "results"


def test_a_number_lies_in_its_bracket() -> None:
    assert Number(1.0, 0.5, math.inf).bracket == (0.5, math.inf)
    with pytest.raises(ValueError, match=re.escape("value must be in [1.0, 2.0], got 3.0")):
        Number(3.0, 1.0, 2.0)
    with pytest.raises(ValueError, match="value must be in"):
        Number(math.nan, 1.0, 2.0)


def test_verdicts() -> None:
    assert judge_upper_bound(1.0, 1.0) is Verdict.CONSISTENT
    assert judge_upper_bound(1.0, 1.1) is Verdict.REFUTED
    assert judge_upper_bound(math.inf, 0.5) is Verdict.CONSISTENT
    assert judge_interval(1.0, 2.0, 0.0, 3.0) is Verdict.CONSISTENT
    assert judge_interval(1.0, 2.0, 1.5, 3.0) is Verdict.INCONCLUSIVE
    assert judge_interval(1.0, 2.0, 2.5, 3.0) is Verdict.REFUTED
    assert Verdict.unless(True) is Verdict.REFUTED
    assert Verdict.unless(False) is Verdict.CONSISTENT


def test_values_of_findings_are_built_in_numbers_or_text() -> None:
    statement = Statement(
        claim="a",
        citation="b",
        expected=np.int64(3),  # type: ignore[arg-type]
        found=math.nan,
        verdict=Verdict.HOLDS,
        error=np.float64(0.5),
    )
    assert (type(statement.expected), statement.found) == (int, "nan")
    assert type(statement.error) is float
    table = FoundTable(caption="", columns=("x", "y"), rows=((np.float64(2.5), "inf"),))
    assert table.rows == ((2.5, math.inf),)
    assert type(table.rows[0][0]) is float
    with pytest.raises(ValueError, match="rows must be of 2 values each"):
        FoundTable(caption="", columns=("x", "y"), rows=((1.0,),))
    with pytest.raises(ValueError, match="value must be a number or text, got None"):
        FoundTable(caption="", columns=("x",), rows=((None,),))  # type: ignore[arg-type]
    array: Any = np.arange(2.0)
    found = Findings(statements=(), numbers={"a": array, "b": [1, math.nan]})
    assert found.numbers == {"a": (0.0, 1.0), "b": (1, "nan")}


def test_points_that_cannot_be_drawn_are_gaps() -> None:
    series = Series(name="a", x=(1.0, 2.0, 3.0), y=(math.nan, math.inf, np.float64(1.5)))
    assert series.y == (None, None, 1.5)
    with pytest.raises(ValueError, match="series 'a' must be of the same length in x and y, got 1"):
        Series(name="a", x=(1.0, 2.0), y=(1.0,))
    with pytest.raises(ValueError, match="series 'a' must be a band if and only if top is given"):
        Series(name="a", x=(1.0,), y=(1.0,), top=(2.0,))


def test_charts_have_names_of_their_own() -> None:
    chart = Chart(name="a", title="", caption="", x_label="", y_label="", series=())
    with pytest.raises(
        ValueError, match=re.escape("charts must be of distinct names, got ['a', 'a'")
    ):
        Findings(statements=(), charts=(chart, chart))


def test_the_best_bound_is_one_of_the_bounds() -> None:
    text = (RESULTS / "scenarios" / "own_dp_sgd" / "result.json").read_text(encoding="utf-8")
    row = from_json(text).settings[0].deltas[0]  # type: ignore[union-attr]
    (bound,) = row.bounds
    assert [v for v in Verdict if replace(bound, verdict=v).stands] == [Verdict.CONSISTENT]
    assert bound.status_text == "claimed"
    assert [replace(row, best=best).best for best in (bound.id, None)] == [bound.id, None]
    with pytest.raises(ValueError, match="best must be the id of one of the bounds, got 'b'"):
        replace(row, best="b")


def environment() -> Environment:
    found = provenance_of(
        seed=3, command="x", started="2026-01-02", wall_seconds=1.50001, threads=2
    )
    assert (found.seed, found.command, found.version) == (3, "x", audit.__version__)
    assert found.environment is not None
    return found.environment


def test_versions_are_those_that_run() -> None:
    found = environment()
    assert (found.started, found.wall_seconds, found.threads) == ("2026-01-02", 1.5, 2)
    assert found.python == platform.python_version()
    assert found.packages["numpy"] == metadata.version("numpy")


def test_the_commit_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    package = tmp_path / "audit"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(audit, "__file__", str(package / "__init__.py"))
    assert (environment().commit, environment().commit_dirty) == (None, False)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    commit = environment().commit
    assert commit is not None
    assert len(commit) == 40
    assert not environment().commit_dirty
    (package / "__init__.py").write_text("x = 1\n", encoding="utf-8")
    assert environment().commit_dirty

"""Score files in formats that need other packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit.adapters.scores import read_table
from tests.adapters.recorded import make


@pytest.mark.parametrize("kind", [bool, int, float, str])
def test_parquet(tmp_path: Path, kind: Any):
    scores = np.array([0.5, -1.25, 3.0])
    member = [kind(1), kind(0), kind(1)]
    pq.write_table(pa.table({"loss": scores, "in": member}), tmp_path / "scores.parquet")
    found = read_table(tmp_path / "scores.parquet", score="loss", member="in")
    assert np.array_equal(found.scores, scores)
    assert found.member.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("loss", "column 'loss' must hold finite numbers only, got nan at position 1"),
        ("in", "column 'in' must hold 0 and 1, or false and true, got None at position 1"),
    ],
)
def test_values_that_are_missing(tmp_path: Path, column: str, message: str):
    table = {"loss": [0.5, 1.0], "in": [True, False]}
    table[column][1] = None  # type: ignore[call-overload]
    pq.write_table(pa.table(table), tmp_path / "scores.parquet")
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "scores.parquet", score="loss", member="in")
    (tmp_path / "no.parquet").write_text("loss,in\n")
    with pytest.raises(ValueError, match="file must be readable, got"):
        read_table(tmp_path / "no.parquet", score="loss", member="in")


def test_the_recorded_file_is_what_its_maker_makes():
    with np.load(make.PRIVACY_METER) as archive:
        made = make.attack_result()
        assert sorted(archive) == sorted(made)
        assert np.array_equal(archive["scores"], made["scores"])
        assert np.array_equal(archive["memberships"], made["memberships"])

"""Reports of audits with several numbers a run, and of datasets that differ in several records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.estimation import (
    BestColumn,
    CombinedColumns,
    Histogram,
    LearnedColumns,
    LinearScore,
    WeightedColumns,
    audit_samples,
)
from audit.report.document import Table
from audit.report.setting_section import columns_in_words, group_in_words, section

from .example import user_mechanism


def combined(choice: object, *weights: float) -> CombinedColumns:
    return CombinedColumns(choice=choice, number=3, weights=weights or None, choosing=(1000, 900))


def test_how_columns_were_combined() -> None:
    assert columns_in_words(None) == ""
    chosen = "This was chosen on 1,000 runs of X and 900 of X', which certify nothing."
    for columns, how in (
        (
            combined(LinearScore(), 1.0, -0.25, 0.125),
            "by a sum with the weights 1.00, -0.250, 0.125",
        ),
        (
            combined(BestColumn(), 0.0, 1.0, 0.0),
            "by taking number 2, which tells the laws apart best",
        ),
        (combined(LearnedColumns(Histogram())), "by a score that was learned (Histogram)"),
    ):
        expected = f"Each run gives 3 numbers, made into one score {how}. {chosen}"
        assert columns_in_words(columns) == expected
    given = combined(WeightedColumns((1.0, 1.0, 1.0)), 1.0, 1.0, 1.0)
    assert columns_in_words(given).endswith("The weights were given beforehand.")
    many = replace(given, weights=(1.0,) * 9, number=9)
    assert "and 3 more" in columns_in_words(many)


def test_what_a_group_says_of_one_record() -> None:
    assert group_in_words(1) == ""
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(2, 4000))
    found = audit_samples(x + 2, y, confidence=0.95, deltas=(0.01,), seed=1, group_size=3)
    setting = replace(user_mechanism(), audit=found.record())
    parts = section(setting, "own", {}).parts
    words = " ".join(part for part in parts if isinstance(part, str))
    assert "The two datasets differ in 3 records. Claims are about one record" in words
    assert "mu-GDP about one record with mu below" in words
    mu = float(words.split("mu below ")[1].split(". This")[0])
    assert 0.99 * found.mu_lower() / 3 < mu <= found.mu_lower() / 3
    (table,) = [
        part for part in parts if isinstance(part, Table) and "several records" in part.caption
    ]
    (row,) = table.rows
    one = found.per_record_evidence(0.01)
    numbers = [0.01, one.epsilon, 3, one.pair_delta, one.evidence.value]
    assert [float(str(cell.value)) for cell in row] == numbers


def test_a_pair_of_one_record_has_no_such_table() -> None:
    parts = section(user_mechanism(), "own", {}).parts
    assert not [p for p in parts if isinstance(p, Table) and "several records" in p.caption]

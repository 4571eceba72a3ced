import dataclasses

import pytest

from audit import Batching, bounds
from tests.mechanisms import noisy_sgd

M = noisy_sgd(steps=1000, dataset_size=20, step_size=0.1, noise_std=0.5)


def test_one_row_a_statement():
    rows = bounds.table(M, 1e-5)
    assert [row.id for row in rows] == list(bounds.CATALOGUE)
    best = bounds.best(M, delta=1e-5)
    for row in rows:
        entry = bounds.CATALOGUE[row.id]
        assert row.status is entry.status
        if row.value is None:
            assert row.ratio is None
            assert row.reason
            assert "\n" not in row.reason
        else:
            assert row.reason is None
            assert row.ratio == pytest.approx(row.value / best.epsilon)
            if entry.status.sound:
                assert row.ratio >= 1
    applied = tuple(row.id for row in rows if row.value is not None)
    assert set(applied) <= set(bounds.applicable(M))
    with pytest.raises(dataclasses.FrozenInstanceError):
        rows[0].value = 0.0


def test_a_table_without_a_sound_bound_has_no_ratios():
    shuffled = dataclasses.replace(
        M, batch_size=2, batching=Batching.SHUFFLED, convex=False, holder=None, clip_norm=1.0
    )
    rows = bounds.table(shuffled, 1e-5)
    if not [row for row in rows if row.value is not None and row.status.sound]:
        assert all(row.ratio is None for row in rows)
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\), got 1"):
        bounds.table(M, 1)

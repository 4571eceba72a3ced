"""Table 1 beside a training by NoisyCGD, and what is said of its accuracies."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audit.mechanism import NoisySGD
from audit.results import Verdict
from papers import noisy_cgd, noisy_cgd_training
from tests.papers.test_noisy_cgd_training import QUICK, find


@pytest.mark.parametrize(
    ("epochs", "printed"),
    [
        (50, "30.51, 5.82, 4.34"),
        (100, "49.88, 7.61, 5.60"),
        (200, "83.83, 9.88, 7.58"),
    ],
)
def test_table_1_digit_for_digit(epochs: int, printed: str) -> None:
    (statement,) = _table_1(noisy_cgd.table_1_mechanism(epochs), epochs)
    assert statement.verdict is Verdict.HOLDS
    assert statement.expected == statement.found == printed
    # a planted error of a percent in the noise is seen
    noisier = dataclasses.replace(noisy_cgd.table_1_mechanism(epochs), noise_std=0.0101)
    (wrong,) = _table_1(noisier, epochs)
    assert wrong.verdict is Verdict.REFUTED
    assert wrong.found != wrong.expected


def test_the_paper_s_mechanism_is_that_of_the_training_s_defaults() -> None:
    """Two ways to Table 1: its parameters as numbers, and the algorithm on 60000 records."""
    trained = QUICK.algorithm(QUICK.noise_std).mechanism(60_000, 50)
    table = noisy_cgd.table_1_mechanism(50)
    for name in ("steps", "batch_size", "step_size", "noise_std", "contraction", "batching"):
        assert getattr(table, name) == getattr(trained, name), name
    assert table.sensitivity == pytest.approx(trained.sensitivity, rel=1e-14)
    assert QUICK.epsilons(0.01, 60_000, 50).values == pytest.approx(
        noisy_cgd.epsilons(table, 1e-5).values, rel=1e-9
    )


@pytest.mark.parametrize(
    "changes",
    [{"noise_std": 0.02}, {"batches": 20}, {"step_size": 0.04}, {"gradient_sensitivity": 9.0}],
)
def test_a_training_with_other_parameters_refutes_no_table(changes: dict[str, Any]) -> None:
    study = dataclasses.replace(QUICK, epochs=(50,), runs=2, **changes)
    findings = find(study)
    assert findings.statements[0].verdict is Verdict.HOLDS
    assert findings.statements[0].found == "30.51, 5.82, 4.34"
    caption = findings.tables[1].caption
    assert "Table 1 at the paper's parameters" in caption
    assert findings.tables[1].rows[0][1:] == pytest.approx((30.51, 5.82, 4.34), abs=0.005)
    # and its own epsilons are not drawn beside the table's
    privacy = findings.charts[1]
    assert all("Table 1" not in one.name for one in privacy.series)


def _table_1(mechanism: NoisySGD, epochs: int) -> Any:
    epsilons = noisy_cgd.epsilons(mechanism, noisy_cgd.DELTA)
    return noisy_cgd_training._accounting({epochs: epsilons}, noisy_cgd.DELTA)


def test_printed_numbers_are_drawn_beside_a_training_of_that_privacy() -> None:
    privacy = find(dataclasses.replace(QUICK, epochs=(50,), runs=2)).charts[1]
    (drawn_beside,) = [one for one in privacy.series if "Table 1" in one.name]
    assert (drawn_beside.x, drawn_beside.y) == ((50.0,), (4.34,))


def _measured(gains: dict[float, float], spread: float) -> list[Any]:
    """Two releases a noise, 6 runs: gains around a mean, for training and tests alike."""
    shape = spread * np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    epsilons = noisy_cgd.Epsilons(composition=3.0, renyi=2.0, convergent=1.0)
    rows = []
    for noise, gain in gains.items():
        for epochs, accuracy in ((1, np.full(6, 0.5)), (2, 0.5 + gain + shape)):
            rows.append(
                noisy_cgd_training.Measured(
                    noise_std=noise,
                    epochs=epochs,
                    train=accuracy,
                    test=accuracy,
                    epsilons=epsilons,
                    largest_difference=None,
                )
            )
    return rows


def test_gains_of_all_noises_share_the_error() -> None:
    rows = _measured({0.1: 0.02, 0.2: 0.02}, 0.01)
    found = noisy_cgd_training._improvements(rows, (1, 2), 0.95)
    # four gains in one report: training and tests, at two noises
    deviation = 0.01 * math.sqrt(6 / 5)
    margin = stats.t.ppf(1 - 0.05 / 4, 5) * deviation / math.sqrt(6)
    for one in found.values():
        assert one is not None
        assert one.margin == pytest.approx(margin, rel=1e-12)
    alone = noisy_cgd_training._improvements(rows[:2], (1, 2), 0.95)[0.1]
    assert alone is not None
    assert alone.margin < margin


def test_captions_say_what_was_found() -> None:
    quick = find(dataclasses.replace(QUICK, epochs=(1, 50)))
    # after one epoch Theorem 4.5 is composition
    assert "below both others after these epochs: 50" in quick.tables[1].caption
    alone = find(dataclasses.replace(QUICK, epochs=(50,), runs=2))
    assert "the smallest in every row" in alone.tables[1].caption
    means = [f"{y:.1f}" for one in quick.charts[0].series[1::2] for y in (one.y[0], one.y[-1])]
    for text in (f"{means[0]} to {means[1]}", f"{means[2]} to {means[3]}"):
        assert text in quick.charts[0].caption
    composition = quick.charts[1].series[0].y
    assert f"composition (Theorem 4.4) {composition[-1] / composition[0]:.3g}" in (
        quick.charts[1].caption
    )
    assert any("take the differences between runs for normal" in note for note in quick.notes)


def test_one_noise_level_is_not_compared() -> None:
    one = noisy_cgd_training._notes(_measured({0.1: 0.0}, 0.0), 3.5, 10.0, 60_000)
    two = noisy_cgd_training._notes(_measured({0.1: 0.0, 0.2: 0.0}, 0.0), 3.5, 10.0, 1440)
    assert len(two) == len(one) + 1
    assert "1440 records in place of 60000" in two[-1]

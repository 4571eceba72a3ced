"""DP-SGD in d dimensions: samples have the exact law, and a planted error is found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import audit
import audit_dimensions
from audit.results import Verdict
from papers.clipped_dimensions import ClippedInDimensions, Shape, agreement
from tests.papers.findings import found

MECHANISM = audit.NoisySGD(
    steps=20,
    dataset_size=20,
    batch_size=4,
    step_size=0.1,
    noise_std=1.0,
    clip_norm=1.0,
    diameter=1.0,
    batching=audit.Batching.POISSON,
    relation=audit.Relation.ZERO_OUT,
)
STUDY = ClippedInDimensions(
    dimensions=(1, 3),
    mechanism=MECHANISM,
    pull=0.3,
    start=0.3,
    claims=("survey.sampled_gaussian_mtz19", "survey.moments_accountant"),
    delta=1e-2,
    trials=20_000,
)


WALK = audit.constructions.DriftedWalk(MECHANISM, drift=-0.03, start=STUDY.start)


@pytest.fixture(scope="module")
def findings():
    return found(STUDY, seed=11)


def test_samples_have_the_exact_law_and_stay_below_the_claims(findings) -> None:
    assert [s.verdict for s in findings.statements] == [Verdict.CONSISTENT] * 4
    low, high = findings.numbers["exact"]
    boxes = [row[2] for row in findings.tables[0].rows if row[1] == Shape.BOX.value]
    assert len(boxes) == 2
    # a sampled bound above the exact value has a chance below 1 in 1000
    assert all(0 < value <= high for value in boxes)
    assert low <= high < min(float(s.expected) for s in findings.statements[2:])


def test_the_caption_says_what_was_certified_and_what_is_exact(findings) -> None:
    """A walk that is held at a wall leaks less than the ball, whatever its samples certify."""
    held = dataclasses.replace(STUDY, dimensions=(2,), pull=1.0, start=-0.5)
    for one in (findings, found(held, seed=11)):
        caption = one.charts[0].caption
        rows = one.tables[0].rows
        for shape in Shape:
            most = max(float(row[2]) for row in rows if row[1] == shape.value)
            assert f"{most:.4g} ({shape.value})" in caption
        assert f"has {one.numbers['exact'][0]:.4g};" in caption
        assert "stays below" not in caption
        assert "20,000 runs" in one.notes[0]
    ball = float(rows[1][2])
    assert rows[1][1] == Shape.BALL.value
    assert ball > one.numbers["exact"][1]


def test_the_same_seed_gives_the_same_findings() -> None:
    short = dataclasses.replace(STUDY, trials=1000)
    assert found(short, seed=11) == found(short, seed=11) != found(short, seed=12)


def test_noise_off_by_five_percent_is_found() -> None:
    curve = audit.exact.curve(WALK)
    wrong = dataclasses.replace(STUDY, mechanism=dataclasses.replace(MECHANISM, noise_std=1.05))
    for study, fits in ((STUDY, True), (wrong, False)):
        x, _ = audit_dimensions.scores(study.pair(1, Shape.BOX), np.ones(1), trials=100_000, seed=5)
        # false alarms: 1 in 1000
        assert (agreement(curve.first, x) >= 1e-3) is fits


def test_rounding_errors_of_a_total_are_no_bin() -> None:
    """NumPy's logarithms with and without AVX-512 give a total of 1 and of 1 - 2e-16."""
    curve = audit.exact.curve(WALK)
    x, _ = audit_dimensions.scores(STUDY.pair(1, Shape.BOX), np.ones(1), trials=20_000, seed=5)
    assert np.quantile(x, 0.995) == 0.5  # so that the last bin lies beyond the domain

    class Off:
        def __init__(self, error: float) -> None:
            self.error = error

        def cdf(self, points: np.ndarray) -> np.ndarray:
            return np.where(points < 0.5, curve.first.cdf(points), 1.0 - self.error)

    found = [agreement(Off(error), x) for error in (0.0, 2.3e-16, -2.3e-16)]
    assert found[1:] == pytest.approx(found[:1] * 2, rel=1e-9)
    assert agreement(Off(0.0), np.append(x, [0.6] * 200)) == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimensions": ()}, "dimensions must be one or more whole numbers, got"),
        ({"dimensions": (0,)}, r"dimensions\[0\] must be"),
        ({"pull": 1.5}, r"pull must be in \[0, clip_norm=1.0\], got 1.5"),
        ({"start": 0.6}, "start must be in the domain, got 0.6"),
        (
            {"mechanism": dataclasses.replace(MECHANISM, clip_norm=None, lipschitz=1.0)},
            "mechanism must have Poisson batches, ZERO_OUT, a clip_norm and a diameter, got",
        ),
    ],
)
def test_bad_input_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(STUDY, **changes)

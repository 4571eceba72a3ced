"""Training by NoisyCGD: steps, sensitivity, accounting, accuracies, and data from files."""

from __future__ import annotations

import dataclasses
import gzip
import math
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

from audit import bounds
from audit.estimation import ScoreSource
from audit.mechanism import NoisySGD
from audit.results import AtDelta, Findings, Verdict
from audit.scenario.user_mechanism import UserClaim, UserMechanismSetting, audit_scores
from papers import datasets, noisy_cgd, noisy_cgd_canary, noisy_cgd_training
from papers.noisy_cgd_training import NoisyCGDTraining

ALGORITHM = noisy_cgd.NoisyCGD(
    batches=3, step_size=0.2, noise_std=0.4, strong_convexity=0.1, feature_norm=2.0
)
QUICK = NoisyCGDTraining(delta=1e-5, epochs=(1, 4), runs=3)


def drawn(seed: int = 0, records: int = 12, classes: int = 4) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    features = noisy_cgd.clipped_features(generator.standard_normal((records, 5)), 2.0)
    return features, generator.integers(0, classes, records)


def plain_training(
    features: Any, labels: Any, epochs: int, runs: int, seed: int, divisor: int
) -> Any:
    """One run, one record at a time, with the gradient written out; shape (runs, d, C)."""
    generator = np.random.default_rng(seed)
    d, classes, size = features.shape[1], 4, len(features) // ALGORITHM.batches
    weights = np.zeros((runs, d, classes))
    for step in range(epochs * ALGORITHM.batches):
        noise = generator.standard_normal((d, runs * classes)).reshape(d, runs, classes)
        first = step % ALGORITHM.batches * size
        for run in range(runs):
            w, gradient = weights[run], np.zeros((d, classes))
            batch = slice(first, first + size)
            for z, y in zip(features[batch], labels[batch], strict=True):
                p = np.exp(z @ w) / np.sum(np.exp(z @ w))
                p[y] -= 1
                gradient += np.outer(z, p) / divisor
            gradient += ALGORITHM.strong_convexity * w + ALGORITHM.noise_std * noise[:, run]
            weights[run] = w - ALGORITHM.step_size * gradient
    return weights


def test_training_is_its_slow_twin() -> None:
    features, labels = drawn()
    found = ALGORITHM.weights(
        features, labels, classes=4, epochs=(1, 4), runs=3, generator=np.random.default_rng(2)
    )
    for epochs, weights in found:
        twin = plain_training(features, labels, epochs, 3, 2, divisor=4)
        assert weights == pytest.approx(twin, abs=1e-13)
        wrong = plain_training(features, labels, epochs, 3, 2, divisor=12)
        assert np.max(np.abs(weights - wrong)) > 0.01


def test_a_step_follows_the_gradient_of_the_loss() -> None:
    """One batch, hardly any noise: the step is the numerical gradient of the regularised loss."""
    features, labels = drawn()
    quiet = dataclasses.replace(ALGORITHM, batches=1, noise_std=1e-14)
    path = dict(
        quiet.weights(
            features, labels, classes=4, epochs=(3, 4), runs=1, generator=np.random.default_rng(0)
        )
    )
    before, after = path[3][0], path[4][0]
    step = 1e-5
    shifts = step * np.eye(before.size).reshape(-1, *before.shape)

    def objective(weights: Any) -> Any:
        ridge = quiet.strong_convexity / 2 * np.sum(weights**2, axis=(1, 2))
        return noisy_cgd.losses(weights, features, labels).mean(axis=1) + ridge

    slope = (objective(before + shifts) - objective(before - shifts)) / (2 * step)
    expected = before - quiet.step_size * slope.reshape(before.shape)
    assert after == pytest.approx(expected, abs=1e-10)  # step^2 and rounding / step, times eta


def test_sensitivity_and_smoothness_hold_and_are_nearly_met() -> None:
    m = ALGORITHM.mechanism(12, 5)
    assert m.steps == 15
    assert m.batch_size == 4
    assert m.sensitivity == pytest.approx(2 * math.sqrt(2) * 2.0)
    assert m.smoothness == pytest.approx(2.0**2 / 2 + 0.1)
    generator = np.random.default_rng(1)
    largest = 0.0
    for scale in (0.0, 0.3, 3.0, 30.0):
        features, labels = drawn(1, records=40)
        weights = scale * generator.standard_normal((features.shape[1], 4))
        largest = max(largest, noisy_cgd.largest_gradient_difference(weights, features, labels))
        each = np.array([_gradient(weights, z, y) for z, y in zip(features, labels, strict=True)])
        brute = max(np.linalg.norm(a - b) for a in each for b in each)
        found = noisy_cgd.largest_gradient_difference(weights, features, labels)
        assert found == pytest.approx(brute, rel=1e-9)
    assert 0.7 * m.sensitivity < largest <= m.sensitivity
    # two classes with even odds have the steepest gradient, 1/2 along (1, -1)/sqrt(2)
    z, shift = np.array([2.0]), 1e-4 * np.array([[1.0, -1.0]]) / math.sqrt(2)
    change = _gradient(shift, z, 0) - _gradient(-shift, z, 0)
    assert np.linalg.norm(change) / 2e-4 == pytest.approx(2.0**2 / 2, rel=1e-6)


def _gradient(weights: Any, z: Any, y: int) -> Any:
    logits = z @ weights
    p = np.exp(logits - logits.max())
    p /= p.sum()
    p[y] -= 1
    return np.outer(z, p)


def test_features_are_scaled_down_and_never_up() -> None:
    rows = np.array([[0.1, 0.2], [30.0, 40.0]])
    found = noisy_cgd.clipped_features(rows, 2.0)
    assert found[0] == pytest.approx([0.1, 0.2, 1.0])
    assert np.linalg.norm(found[1]) == pytest.approx(2.0, rel=1e-14)
    assert found[1] * np.linalg.norm([30, 40, 1]) / 2 == pytest.approx([30.0, 40.0, 1.0])


@cache
def find(study: NoisyCGDTraining) -> Findings:
    return study.find(seed=7, threads=1, confidence=0.95, progress=lambda *_: None)


def test_quick_training_learns_and_accounts() -> None:
    findings = find(QUICK)
    table = findings.tables[0]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["noise"], row["epochs"]) for row in rows] == [
        (0.01, 1),
        (0.01, 4),
        (0.01 * 60_000 / 1440, 1),
        (0.01 * 60_000 / 1440, 4),
    ]
    assert float(str(rows[1]["test"]).split()[0]) > 80
    # the same S/(b sigma): the larger noise has the epsilons of 60000 records
    published = {row[0]: row[1:] for row in findings.tables[1].rows}
    for row in rows[2:]:
        values = [row[f"epsilon, {name}"] for name in ("composition", "Renyi", "Theorem 4.5")]
        assert values == pytest.approx(published[row["epochs"]], rel=1e-9)
        assert row["paper: test"] == "none"
    assert rows[0]["epsilon, Theorem 4.5"] > 100
    held = findings.statements[0]
    assert held.verdict is Verdict.CONSISTENT  # one run's models and some records
    assert "first 1440 records' gradients differ" in held.claim
    assert "first of 3 runs" in held.claim
    told: list[tuple[int, int]] = []
    again = QUICK.find(seed=7, threads=2, confidence=0.95, progress=lambda *done: told.append(done))
    assert again == findings
    assert told == [(i, 6) for i in range(1, 7)]  # releases after 1, 2 and 4 epochs, twice


def test_features_that_are_not_scaled_down_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_cgd, "clipped_features", lambda rows, _: 3 * rows)
    assert find.__wrapped__(QUICK).statements[0].verdict is Verdict.REFUTED


def test_accuracies_that_do_not_rise_refute_nothing() -> None:
    flat = dataclasses.replace(QUICK, epochs=(60, 61))
    outcomes = [one.verdict for one in find(flat).statements[1:]]
    assert outcomes == [Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE]
    assert find(QUICK).statements[1].verdict is Verdict.HOLDS  # from 1 epoch to 4


def test_the_digits_need_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("no connection may be made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    pictures = datasets.load_digits(None, 3)
    assert pictures.train.shape == (1440, 64)
    assert pictures.test.shape == (357, 64)
    assert pictures.train.max() == 1
    both = np.concatenate([pictures.train_labels, pictures.test_labels])
    pixels, labels = datasets.scikit_learn_digits()
    assert np.bincount(both).tolist() == np.bincount(labels).tolist()
    joined = np.concatenate([pictures.train, pictures.test])
    assert sorted(map(tuple, joined)) == sorted(map(tuple, pixels))


def _stored(folder: Path, **changes: Any) -> Path:
    generator = np.random.default_rng(0)
    arrays = {
        "x_train": generator.integers(0, 256, (130, 4, 3), dtype=np.uint8),
        "y_train": generator.integers(0, 10, 130, dtype=np.uint8),
        "x_test": generator.integers(0, 256, (20, 4, 3), dtype=np.uint8),
        "y_test": generator.integers(0, 10, 20, dtype=np.uint8),
        **changes,
    }
    path = folder / "pictures.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def _idx(array: Any) -> bytes:
    shape = b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


def test_npz_and_idx_files_are_read_alike(tmp_path: Path) -> None:
    path = _stored(tmp_path)
    with np.load(path) as arrays:
        for number, (name, file) in enumerate(datasets._IDX.items()):
            content = _idx(arrays[name])
            if number % 2:
                (tmp_path / f"{file}.gz").write_bytes(gzip.compress(content))
            else:
                (tmp_path / file).write_bytes(content)
        expected = arrays["x_train"].reshape(130, 12) / 255
    one, other = datasets.load_digits(path, 0), datasets.load_digits(tmp_path, 0)
    assert np.array_equal(one.train, expected)
    for field in ("train", "train_labels", "test", "test_labels"):
        assert np.array_equal(getattr(one, field), getattr(other, field))
    findings = find(dataclasses.replace(QUICK, data=path, runs=2))
    assert findings.numbers["dataset_size"] == 120  # whole batches
    assert "pictures" in findings.tables[0].caption


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None}, "data must hold x_train, y_train, x_test, y_test, got no y_test"),
        ({"x_train": np.full((130, 12), 2.0)}, r"x_train must be in \[0, 1\], got 2.0"),
        ({"x_test": np.zeros((20, 5))}, "x_test must be pictures of 12 pixels, got 5"),
        ({"y_train": np.zeros(3, int)}, "y_train must be 130 whole numbers, got"),
        ({"y_train": np.full(130, 10)}, "y_train must be digits from 0 to 9, got 10"),
        ({"y_train": np.full(130, -1)}, "y_train must be digits from 0 to 9, got -1"),
        ({"x_test": np.array(["a"] * 20)}, "x_test must be an array of pictures, got"),
        ({"x_train": np.array([[None]])}, "Object arrays cannot be loaded"),
    ],
)
def test_refused_files(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.load_digits(_stored(tmp_path, **changes), 0)


def test_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="data must be a readable file, got"):
        datasets.load_digits(tmp_path / "none.npz", 0)
    with pytest.raises(ValueError, match="data must hold train-images-idx3-ubyte or train-images"):
        datasets.load_digits(tmp_path, 0)
    (tmp_path / datasets._IDX["x_train"]).write_bytes(_idx(np.zeros((2, 2, 2), np.uint8))[:-1])
    with pytest.raises(ValueError, match="train-images-idx3-ubyte must be an IDX file of bytes"):
        datasets.load_digits(tmp_path, 0)
    (tmp_path / datasets._IDX["x_train"]).unlink()
    (tmp_path / f"{datasets._IDX['x_train']}.gz").write_bytes(gzip.compress(b"cut")[:-3])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz must be a gzip file, got"):
        datasets.load_digits(tmp_path, 0)
    text = tmp_path / "text.npz"
    text.write_text("no archive")
    with pytest.raises(ValueError, match=r"data must be an \.npz file"):
        datasets.load_digits(text, 0)


def test_without_scikit_learn_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'noisy-sgd-audit\[learn\]'"):
        datasets.load_digits(None, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": (2, 2)}, "epochs must be increasing whole numbers of at least 1"),
        ({"epochs": ()}, "epochs must be increasing whole numbers of at least 1"),
        ({"runs": 1}, "runs must be a whole number of at least 2, got 1"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
        ({"noise_std": 0.0}, "noise_std must be a positive finite number, got 0.0"),
        ({"gradient_sensitivity": -1.0}, "gradient_sensitivity must be a positive finite number"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(QUICK, **changes)


def test_too_few_pictures_are_refused(tmp_path: Path) -> None:
    path = _stored(tmp_path)
    with pytest.raises(ValueError, match="data must be at least 131 pictures, got 130"):
        find(dataclasses.replace(QUICK, data=path, batches=131))
    with pytest.raises(ValueError, match="records must be a multiple of 3 batches, got 5 records"):
        ALGORITHM.mechanism(5, 1)


# ----------------------- Table 1 beside a training by NoisyCGD, and what is said of its accuracies


@pytest.mark.parametrize(
    ("epochs", "printed"),
    [(50, "30.51, 5.82, 4.34"), (100, "49.88, 7.61, 5.60"), (200, "83.83, 9.88, 7.58")],
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


def test_a_training_with_other_parameters_refutes_no_table() -> None:
    changes = {"noise_std": 0.02, "batches": 20, "step_size": 0.04, "gradient_sensitivity": 9.0}
    findings = find(dataclasses.replace(QUICK, epochs=(50,), runs=2, **changes))
    assert findings.statements[0].verdict is Verdict.HOLDS
    assert findings.statements[0].found == "30.51, 5.82, 4.34"
    caption = findings.tables[1].caption
    assert "Table 1 at the paper's parameters" in caption
    assert findings.tables[1].rows[0][1:] == pytest.approx((30.51, 5.82, 4.34), abs=0.005)
    # and its own epsilons are not drawn beside the table's
    assert all("Table 1" not in one.name for one in findings.charts[1].series)
    privacy = find(dataclasses.replace(QUICK, epochs=(50,), runs=2)).charts[1]
    (drawn_beside,) = [one for one in privacy.series if "Table 1" in one.name]
    assert (drawn_beside.x, drawn_beside.y) == ((50.0,), (4.34,))


def _table_1(mechanism: NoisySGD, epochs: int) -> Any:
    epsilons = noisy_cgd.epsilons(mechanism, noisy_cgd.DELTA)
    return noisy_cgd_training._accounting({epochs: epsilons}, noisy_cgd.DELTA)


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


# ------------ The black-box audit of a training: correct ones are consistent, mistakes are refuted


SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "papers" / "noisy_cgd_canary.yaml"
# trials of mistakes that are refuted
BROKEN = [
    pytest.param("half_the_noise", 4000, marks=pytest.mark.slow),
    ("in_every_batch", 1000),
    ("unclipped_features", 1000),
]
DELTA = 1e-1


def claimed() -> Any:
    return bounds.evaluate("bsa24.theorem_4_5", noisy_cgd_canary.mechanism())


def audited(function: str, trials: int) -> AtDelta:
    setting = UserMechanismSetting(
        name=function.replace("_", " "),
        title=function,
        summary="",
        own=ScoreSource(function=f"papers.noisy_cgd_canary:{function}", trials=trials),
        claims=(UserClaim("Theorem 4.5", float(claimed().epsilon(DELTA)) * (1 + 1e-9), DELTA),),
    )
    (row,) = audit_scores(setting, confidence=0.95, seed=11).deltas
    return row


def test_the_scenario_claims_what_the_theorem_gives() -> None:
    scenario = yaml.safe_load(SCENARIO.read_text(encoding="utf-8"))
    for name, setting in scenario["settings"].items():
        module, _, function = setting["own"]["function"].partition(":")
        assert module == noisy_cgd_canary.__name__
        assert function == name
        assert callable(getattr(noisy_cgd_canary, function))
        for claim in setting["claims"]:
            epsilon = float(claimed().epsilon(claim["delta"]))
            assert epsilon <= claim["epsilon"] <= epsilon + 1e-4  # rounded up


@pytest.mark.parametrize(
    "pair", [noisy_cgd_canary.crafted_pair(), noisy_cgd_canary.mislabelled_pair()]
)
def test_the_datasets_are_neighbours_within_the_sensitivity(pair: Any) -> None:
    (features, labels), (other_features, other_labels) = pair
    m = noisy_cgd_canary.mechanism()
    differs = (features != other_features).any(axis=1) | (labels != other_labels)
    assert np.flatnonzero(differs).tolist() == [m.dataset_size - 1]
    assert len(features) == m.dataset_size
    assert np.max(np.linalg.norm(features, axis=1)) <= noisy_cgd_canary.FEATURE_NORM * (1 + 1e-12)
    both = np.array([features[-1], other_features[-1]])
    classes = np.array([labels[-1], other_labels[-1]])
    for _, weights in noisy_cgd_canary.ALGORITHM.weights(
        features,
        labels,
        classes=10,
        epochs=range(1, 6),
        runs=50,
        generator=np.random.default_rng(0),
    ):
        for w in weights:
            assert noisy_cgd.largest_gradient_difference(w, both, classes) <= m.sensitivity


def test_the_claim_is_of_the_algorithm_that_is_run() -> None:
    m, algorithm = noisy_cgd_canary.mechanism(), noisy_cgd_canary.ALGORITHM
    assert m.sensitivity == pytest.approx(10.0)
    assert (m.steps, m.batch_size, m.dataset_size) == (20, 20, 80)
    assert (m.step_size, m.noise_std) == (algorithm.step_size, algorithm.noise_std)
    assert claimed().mu == pytest.approx(1.38337, abs=1e-5)


def test_the_right_training_stands() -> None:
    row = audited("crafted", 1000)
    assert row.bounds[0].verdict is Verdict.CONSISTENT
    assert 0.3 < row.sampled.epsilon < float(claimed().epsilon(DELTA))
    natural = audited("mislabelled", 1000)
    assert natural.bounds[0].verdict is Verdict.CONSISTENT
    assert natural.sampled.epsilon < row.sampled.epsilon


@pytest.mark.parametrize(("function", "trials"), BROKEN)
def test_broken_trainings_are_refuted(function: str, trials: int) -> None:
    row = audited(function, trials)
    assert row.bounds[0].verdict is Verdict.REFUTED
    assert row.sampled.epsilon > float(claimed().epsilon(DELTA))


def test_scores_have_the_distance_of_one_direction_with_the_pair_s_sensitivity() -> None:
    """Losses are about linear there, so last iterates and their scores are about Gaussian."""
    m = noisy_cgd_canary.mechanism()
    (features, labels), (other, other_labels) = noisy_cgd_canary.crafted_pair()
    sensitivity = noisy_cgd.largest_gradient_difference(
        np.zeros((features.shape[1], 10)),
        np.array([features[-1], other[-1]]),
        np.array([labels[-1], other_labels[-1]]),
    )
    contraction = 1 - 0.05 * 0.5
    moved = sum(contraction ** (4 * epoch) for epoch in range(5)) * sensitivity / m.batch_size
    spread = m.noise_std * math.sqrt(sum(contraction ** (2 * step) for step in range(20)))
    x, y = (noisy_cgd_canary.crafted(dataset, 1000, 3) for dataset in (0, 1))  # common noise
    found = abs(x.mean() - y.mean()) / math.sqrt((x.var() + y.var()) / 2)
    # four standard errors .77/sqrt(2000) are .069; what is left out, curvature and ink, is .025
    assert found == pytest.approx(moved / spread, abs=0.1)
    assert moved / spread == pytest.approx(0.7706, abs=1e-3)


def test_scores_are_losses_on_the_canary_and_depend_on_nothing_but_the_seed() -> None:
    first = noisy_cgd_canary.crafted(0, 700, 5)
    assert np.array_equal(first, noisy_cgd_canary.crafted(0, 700, 5))
    assert not np.array_equal(first, noisy_cgd_canary.crafted(0, 700, 6))
    (features, labels), _ = noisy_cgd_canary.crafted_pair()
    ((_, weights),) = noisy_cgd_canary.ALGORITHM.weights(
        features,
        labels,
        classes=10,
        epochs=(noisy_cgd_canary.EPOCHS,),
        runs=500,
        generator=np.random.default_rng(5),
    )
    logits = features[-1] @ weights
    plain = np.log(np.sum(np.exp(logits), axis=1)) - logits[:, labels[-1]]
    assert first[:500] == pytest.approx(plain, rel=1e-12)

"""Samples against closed forms, and against the laws that the exact room computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import audit
from audit import Batching, Relation, Release
from audit.constructions import Construction, QuadraticPair, ResetWalk, TwoSidedWalk
from audit_dimensions import (
    Ball,
    Box,
    Clipped,
    Dataset,
    Domain,
    Huber,
    Linear,
    Loss,
    NoisySGDPair,
    Quadratic,
    final_points,
)
from tests.choices import BATCHINGS
from tests.mechanisms import noisy_sgd

from .laws import LEVEL, affine_law, has_law, is_gaussian


def affine_pair(
    d: int, batching: Batching, curvature: float | tuple[float, ...], **changes: Any
) -> NoisySGDPair:
    rng = np.random.default_rng(d)
    n, b = 6, 6 if batching is Batching.FULL else 2
    dataset = Dataset(rng.normal(size=(n, d)))
    given = {
        "steps": 17, "dataset_size": n, "batch_size": b, "step_size": 0.3, "noise_std": 0.7,
        "gradient_sensitivity": 100.0, "batching": batching, **changes,
    }  # fmt: skip
    return NoisySGDPair(
        mechanism=audit.NoisySGD(**given),
        loss=Quadratic(curvature),
        dataset=dataset,
        dataset_prime=dataset.replacing(1, rng.normal(size=d)),
        start=rng.normal(size=d),
    )


def gaussian_p_values(made: NoisySGDPair, *, planted: float = 1.0, trials: int = 30_000) -> float:
    """The smaller p-value of the two datasets; ``planted`` scales the curvature of the formula."""
    m, d = made.mechanism, made.dimension
    values = []
    points = final_points(made, trials=trials, seed=5)
    for dataset, x in zip((made.dataset, made.dataset_prime), points, strict=True):
        hessian = np.diag(np.broadcast_to(made.loss.curvature, (d,))) * planted  # type: ignore[attr-defined]
        batches = dataset.records.reshape(-1, m.batch_size, d).mean(axis=1)
        law = affine_law(
            [hessian] * len(batches), [hessian @ a for a in batches],
            m.step_sizes[0], m.noise_std, np.asarray(made.start), m.steps,
        )  # fmt: skip
        values.append(is_gaussian(x, *law))
    return 2 * min(values)


@pytest.mark.parametrize("batching", [Batching.FULL, Batching.CYCLIC])
@pytest.mark.parametrize("d", [1, 2, 7, 30])
def test_affine_updates_have_their_closed_form(d: int, batching: Batching) -> None:
    curvature = tuple(np.linspace(0.2, 1.4, d)) if d == 7 else 0.8
    made = affine_pair(d, batching, curvature)
    assert gaussian_p_values(made, trials=30_000 if d < 7 else 10_000) > LEVEL


@pytest.mark.parametrize(("d", "planted"), [(1, 1.1), (7, 1.02)])
def test_an_error_in_the_curvature_is_seen(d: int, planted: float) -> None:
    made = affine_pair(d, Batching.CYCLIC, 0.8)
    assert gaussian_p_values(made, planted=planted) < LEVEL


def test_two_percent_of_noise_is_seen() -> None:
    made = affine_pair(2, Batching.FULL, 0.8)
    m = made.mechanism
    x, _ = final_points(made, trials=30_000, seed=6)
    hessian = 0.8 * np.eye(2)
    pull = hessian @ made.dataset.records.mean(axis=0)
    for factor, right in ((1.0, True), (1.02, False)):
        law = affine_law([hessian], [pull], 0.3, 0.7 * factor, np.asarray(made.start), m.steps)
        assert (is_gaussian(x, *law) > LEVEL) == right


# one dimension ------------------------------------------------------------------------------


def walk_mechanism(batching: Batching, **changes: Any) -> audit.NoisySGD:
    given = {"step_size": 0.2, "noise_std": 0.8, "lipschitz": 1.5, "smoothness": 6.0, **changes}
    size = 6 if batching is Batching.FULL else 2
    return noisy_sgd(steps=12, dataset_size=6, batch_size=size, batching=batching, **given)


def in_one_dimension(
    construction: Construction, loss: Loss, domain: Domain, first: float, second: float | None,
    others: float, index: int,
) -> NoisySGDPair:  # fmt: skip
    """Rows in place of a construction's process; ``second`` is None for a zeroed record."""
    m = construction.mechanism
    records = np.full((m.dataset_size, 1), others)
    records[index] = first
    dataset = Dataset(records)
    other = dataset.zeroing(index) if second is None else dataset.replacing(index, [second])
    return NoisySGDPair(
        mechanism=m, loss=loss, dataset=dataset, dataset_prime=other, domain=domain, start=0.0
    )


def exact_p_value(construction: Construction, made: NoisySGDPair, trials: int = 50_000) -> float:
    values = []
    points = final_points(made, trials=trials, seed=9)
    for process, x in zip(construction.processes(), points, strict=True):
        law = audit.exact.law(process)
        values.append(has_law(x[:, 0], law, process.lower, process.upper))
    return 2 * min(values)


EPOCHS = [Batching.RESHUFFLED, Batching.RANDOM_ALLOCATION]


@pytest.mark.parametrize("batching", [*BATCHINGS, *EPOCHS])
@pytest.mark.parametrize("domain", [Ball(1.0), Box(1.0)])
def test_linear_losses_in_one_dimension_are_the_two_sided_walk(batching, domain):
    walk = TwoSidedWalk(walk_mechanism(batching))
    last = 4 if batching is Batching.CYCLIC else 1  # steps end on the cycle's last batch
    # gradients are minus the pushes
    made = in_one_dimension(walk, Linear(), domain, -1.5, 1.5, 0.0, last)
    assert exact_p_value(walk, made) > LEVEL


@pytest.mark.parametrize(("release", "n"), [("stop", 6), ("skip", 6), ("skip", 5)])
def test_random_releases_have_their_numbers_of_steps(release: str, n: int) -> None:
    """One pass whose third record differs; a run of all steps, or of one more, is told apart."""
    m = noisy_sgd(
        steps=n, dataset_size=n, step_size=0.5, noise_std=0.4, lipschitz=1.5, smoothness=2.0,
        diameter=2.0, batching=Batching.CYCLIC, release=Release(f"random {release}"),
    )  # fmt: skip
    walk = TwoSidedWalk(m, position=2)
    made = in_one_dimension(walk, Linear(), Ball(2.0), -1.5, 1.5, 0.0, 2)
    assert exact_p_value(walk, made) > LEVEL
    always = TwoSidedWalk(replace(m, release=Release.LAST_ITERATE), position=2)
    assert exact_p_value(always, made) < LEVEL


@pytest.mark.parametrize("batching", [*BATCHINGS, *EPOCHS])
def test_quadratics_in_one_dimension_are_the_quadratic_pair(batching: Batching) -> None:
    m = walk_mechanism(batching, relation=Relation.ZERO_OUT, strong_convexity=1.0)
    right = QuadraticPair(m, curvature=1.2, others=-0.9)
    # p = curvature a, and a zeroed record keeps the regulariser
    made = in_one_dimension(right, Quadratic(1.2), Ball(1.0), 1.5 / 1.2, None, -0.9 / 1.2, 5)
    assert exact_p_value(right, made) > LEVEL


def test_six_percent_of_a_push_is_seen() -> None:
    m = walk_mechanism(Batching.POISSON, strong_convexity=1.0)
    wrong = QuadraticPair(m, curvature=1.2, others=-0.9 * 0.94)
    made = in_one_dimension(wrong, Quadratic(1.2), Ball(1.0), 1.25, -1.25, -0.75, 5)
    assert exact_p_value(wrong, made) < LEVEL


@pytest.mark.parametrize("batching", [Batching.FULL, Batching.CYCLIC, Batching.POISSON])
@pytest.mark.parametrize("clipped", [False, True])
def test_huber_losses_in_one_dimension_are_the_reset_walk(batching, clipped):
    """A centre so far away that the whole domain lies where the loss is linear of slope L."""
    cap = 1.5
    loss: Loss = Clipped(Quadratic(3.0), cap) if clipped else Huber(3.0, cap)
    m = walk_mechanism(
        batching, clip_norm=cap if clipped else None, lipschitz=None if clipped else cap
    )
    walk = ResetWalk(walk_mechanism(batching, lipschitz=cap), curvature=3.0, cap=cap, centre=0.1)
    rows = in_one_dimension(walk, Huber(3.0, cap), Ball(1.0), 9.0, -9.0, 0.1, 5)
    made = NoisySGDPair(
        mechanism=m, loss=loss, dataset=rows.dataset, dataset_prime=rows.dataset_prime,
        domain=Ball(1.0),
    )  # fmt: skip
    assert exact_p_value(walk, made) > LEVEL


def test_a_weaker_reset_is_seen() -> None:
    m = walk_mechanism(Batching.CYCLIC)
    walk = ResetWalk(m, curvature=3.0, cap=1.5, centre=0.1)
    made = in_one_dimension(walk, Huber(2.7, 1.5), Ball(1.0), 9.0, -9.0, 0.1, 5)
    assert exact_p_value(walk, made) < LEVEL

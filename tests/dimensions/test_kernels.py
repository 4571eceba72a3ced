"""The compiled loop against its twin, draw by draw; random streams; threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit import Batching, Release
from audit.simulation import seeded
from audit.simulation.blocks import Stream, block_size, cut_into_blocks
from audit_dimensions import (
    Ball,
    Box,
    Clipped,
    Huber,
    Linear,
    Logistic,
    NoisySGDPair,
    Quadratic,
    WholeSpace,
    final_points,
)
from tests.choices import BATCHINGS, RELATIONS

from . import twin
from .cases import DOMAINS, LOSSES, D, N, mechanism, pair


def agrees(made: NoisySGDPair, trials: int = 3, seed: int = 11) -> tuple[np.ndarray, np.ndarray]:
    (block,) = cut_into_blocks(trials, made.mechanism.steps * made.dimension)
    points = final_points(made, trials=trials, seed=seed, threads=1)
    for dataset, stream, found in zip(
        (made.dataset, made.dataset_prime), (Stream.X, Stream.X_PRIME), points, strict=True
    ):
        expected = twin.released(made, dataset, seeded(block.sequence(seed, stream)), trials)
        # the order of draws is the same, so an error in one run would throw off all later ones;
        # sums in another order differ by some units in the last place of numbers near 10
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    return points


@pytest.mark.parametrize("batching", BATCHINGS)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("loss", LOSSES)
def test_kernel_is_its_twin_draw_by_draw(loss: str, domain: str, batching: Batching) -> None:
    for relation in RELATIONS:
        x, x_prime = agrees(pair(LOSSES[loss], DOMAINS[domain], batching, relation=relation))
        assert x.shape == (3, D)
        assert np.all(np.any(x != x_prime, axis=1))


def test_cases_meet_their_walls_and_caps() -> None:
    """Else the test above would not see them."""
    x, _ = final_points(pair(Linear(), Ball(1.6)), trials=400, seed=0)
    assert 0.1 < np.mean(np.linalg.norm(x, axis=1) > 0.8 * (1 - 1e-12)) < 0.95
    x, _ = final_points(pair(Linear(), Box(0.9)), trials=400, seed=0)
    assert 0.1 < np.mean(np.abs(x) == 0.45) < 0.9
    for loss, norm in ((Huber(1.5, 0.7), 0.7), (Clipped(Logistic(0.4), 0.6), 0.6)):
        made = pair(loss, Ball(1.6))
        x, _ = final_points(made, trials=4000, seed=0)
        norms = np.linalg.norm(loss.gradients(made.dataset.records, x), axis=2)
        assert 0.1 < np.mean(norms > norm * (1 - 1e-12)) < 1.0


VARIANTS: dict[str, dict[str, Any]] = {
    "stop, full": {"release": Release.RANDOM_STOP, "batching": Batching.FULL, "batch_size": N},
    "stop, shuffled": {"release": Release.RANDOM_STOP, "batching": Batching.SHUFFLED},
    "schedule": {"step_size": tuple(0.5 / (1 + k) for k in range(14))},
    "large batches": {"batching": Batching.WITHOUT_REPLACEMENT, "batch_size": 7},
    "all by sampling": {"batching": Batching.WITHOUT_REPLACEMENT, "batch_size": N},
    "all by Poisson": {"batching": Batching.POISSON, "batch_size": N},
    "reshuffled": {"batching": Batching.RESHUFFLED},
    "stop, reshuffled": {"release": Release.RANDOM_STOP, "batching": Batching.RESHUFFLED},
    "allocated": {"batching": Batching.RANDOM_ALLOCATION},
    "allocated twice": {
        "batching": Batching.RANDOM_ALLOCATION, "batch_size": 6, "participations": 2,
    },
    "truncated Poisson": {"batching": Batching.TRUNCATED_POISSON, "max_batch_size": 3},
    "skip": {
        "release": Release.RANDOM_SKIP, "batching": Batching.CYCLIC, "batch_size": 1, "steps": N,
    },
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_mechanisms_are_their_twins(variant: str) -> None:
    for loss in (Quadratic(0.8), Logistic(0.4)):
        made = pair(loss, Ball(1.6))
        changed = NoisySGDPair(
            mechanism=mechanism(diameter=1.6, **VARIANTS[variant]),
            loss=loss,
            dataset=made.dataset,
            dataset_prime=made.dataset_prime,
            domain=made.domain,
            start=made.start,
        )
        agrees(changed, trials=12)


@pytest.mark.parametrize("batching", [*BATCHINGS, Batching.RESHUFFLED, Batching.RANDOM_ALLOCATION])
def test_same_bits_for_any_number_of_threads(batching: Batching) -> None:
    made = pair(Huber(1.5, 0.7), Ball(1.6), batching, steps=3)
    one, two, eight, default = (
        final_points(made, trials=9000, seed=1, threads=t) for t in (1, 2, 8, None)
    )
    for other in (two, eight, default):
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])


def test_more_trials_leave_full_blocks_as_they_are() -> None:
    made = pair(Quadratic(0.8), Box(0.9), Batching.SHUFFLED, steps=3)
    whole = block_size(3 * D)
    fewer, _ = final_points(made, trials=whole + 5, seed=1)
    more, _ = final_points(made, trials=2 * whole, seed=1)
    assert np.array_equal(fewer[:whole], more[:whole])


def test_seeds_and_datasets_have_streams_of_their_own() -> None:
    made = pair(Linear(), WholeSpace(), steps=2)
    x, x_prime = final_points(made, trials=5000, seed=1)
    other, _ = final_points(made, trials=5000, seed=2)
    flat = np.concatenate([x.ravel(), x_prime.ravel(), other.ravel()])
    assert np.unique(flat).size == flat.size
    for second in (x_prime, other):  # 36 correlations of standard error 0.014 each
        found = np.corrcoef(x.T, second.T)[:D, D:]
        assert np.max(np.abs(found)) < 6 / np.sqrt(5000)


@pytest.mark.parametrize("batching", BATCHINGS)
def test_common_random_numbers_leave_the_record_alone_between_the_runs(batching: Batching) -> None:
    """With linear losses the runs differ by the record's gradients and by nothing else."""
    made = pair(Linear(), WholeSpace(), batching)
    x, x_prime = final_points(made, trials=50, seed=3, common_random_numbers=True)
    independent, _ = final_points(made, trials=50, seed=3)
    assert np.array_equal(x, independent)
    m = made.mechanism
    apart = made.dataset_prime.records[4] - made.dataset.records[4]
    uses = (x - x_prime) @ apart / (apart @ apart) * m.batch_size / m.step_sizes[0]
    np.testing.assert_allclose(uses, np.rint(uses), atol=1e-12)
    assert set(np.rint(uses)) <= set(range(m.steps + 1))
    if batching is Batching.FULL:
        assert np.all(np.rint(uses) == m.steps)
    line = (x - x_prime) - np.outer((x - x_prime) @ apart / (apart @ apart), apart)
    assert np.max(np.abs(line)) < 1e-12

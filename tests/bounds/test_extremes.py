"""Extreme input gives a finite bound, infinity, or an error that names the reason."""

import math
from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, NoisySGD, Relation, Release, bounds
from tests.choices import RELEASES

COMMON = {
    "step_size": 0.1,
    "noise_std": 1.0,
    "lipschitz": 1.0,
    "smoothness": 1.0,
    "diameter": 1.0,
}
FULL = NoisySGD(steps=1, dataset_size=10, batch_size=10, **COMMON)
CYCLIC = NoisySGD(steps=10, dataset_size=10, batch_size=1, batching=Batching.CYCLIC, **COMMON)
SAMPLED = NoisySGD(
    steps=1, dataset_size=10**8, batch_size=1, batching=Batching.WITHOUT_REPLACEMENT, **COMMON
)
HOLDER = {"holder": (1.0, 0.5), "smoothness": None}
MECHANISMS = {
    "full": FULL,
    "strongly convex": replace(FULL, strong_convexity=1.0),
    "hardly convex": replace(FULL, strong_convexity=1e-12),
    "not convex": replace(FULL, convex=False),
    "unbounded": replace(FULL, diameter=None),
    "Hoelder": replace(FULL, **HOLDER),
    "all records drawn": replace(FULL, batching=Batching.WITHOUT_REPLACEMENT, strong_convexity=0.1),
    "exponential": replace(FULL, release=Release.EXPONENTIAL_MECHANISM, strong_convexity=0.1),
    "cyclic": replace(CYCLIC, strong_convexity=0.1),
    "cyclic, not convex": replace(CYCLIC, convex=False),
    "shuffled": replace(CYCLIC, batching=Batching.SHUFFLED),
    "Poisson, q=1e-8": replace(SAMPLED, batching=Batching.POISSON, relation=Relation.ZERO_OUT),
}
# noise and number of steps: a billion steps of ordinary noise add nothing and take seconds
EXTREMES = [(1e-3, 1), (1e-3, 10**9), (1e6, 1), (1e6, 10**9)]
# A composition for each decade of delta, or for each answer: from so many steps on, neither delta
# nor beta is asked for.
SLOW = {"bsa24.theorem_4_9": 0, "bsa24.theorem_4_10": 0, "accounting.poisson": 10**6}


def answers(id, m):
    """Epsilons, divergences and probabilities, or the words of the error."""
    try:
        curve = bounds.evaluate(id, m)
        epsilons = [curve.epsilon(delta) for delta in (1e-12, 1e-5)]
        divergences = [curve.renyi(alpha) for alpha in (1.001, 1e4)]
        slow = m.steps >= SLOW.get(id, math.inf)
        shares = [] if slow else [curve.delta(1.0), curve.beta(0.1)]
    except ValueError as error:
        return str(error)
    return epsilons, divergences, shares


def check(id, m):
    found = answers(id, m)
    if isinstance(found, str):
        assert " must " in found or " needs " in found, (id, m, found)
        return
    epsilons, divergences, shares = found
    assert epsilons[0] >= epsilons[1] >= 0, (id, m, epsilons)
    assert 0 <= divergences[0] <= divergences[1] * (1 + 1e-9), (id, m, divergences)
    assert all(0 <= share <= 1 for share in shares), (id, m, shares)


def check_all(m):
    ids = [id for id in bounds.applicable(m) if not id.startswith("own.")]  # tested elsewhere
    for id in ids:
        check(id, m)
    return ids


@pytest.mark.parametrize("kind", MECHANISMS)
def test_extreme_mechanisms(kind):
    """Nine orders of magnitude in the noise, and as many in the number of steps."""
    seen = set()
    for sigma, times in EXTREMES:
        m = MECHANISMS[kind]
        seen.update(check_all(replace(m, noise_std=sigma, steps=times * m.steps)))
    assert seen


@pytest.mark.parametrize(
    ("sigma", "steps", "changes"),
    [
        (1e-3, 1, {"strong_convexity": 0.1}),
        (1e-3, 10**9, {"strong_convexity": 0.1}),
        (1e6, 10**9, {}),
        (1.0, 10**6, HOLDER),
    ],
)
def test_a_record_in_a_hundred_million(sigma, steps, changes):
    seen = check_all(replace(SAMPLED, noise_std=sigma, steps=steps, **changes))
    assert {"bsa24.theorem_4_8", "survey.subsampled_rdp_wbk19"} <= set(seen)


@pytest.mark.parametrize("release", RELEASES)
def test_one_pass_over_one_record_and_over_a_million(release):
    for n in (1, 10**6):
        for sigma in (1e-3, 1e6):
            check_all(
                replace(
                    CYCLIC, noise_std=sigma, steps=n, dataset_size=n, batch_size=1, release=release
                )
            )


def test_contraction_to_a_point_and_none_at_all():
    for strong, expected in ((10.0, 1.0), (1e-300, 1e4)):
        m = NoisySGD(
            steps=10**8,
            dataset_size=1,
            batch_size=1,
            step_size=0.1,
            noise_std=1.0,
            gradient_sensitivity=1.0,
            smoothness=10.0,
            strong_convexity=strong,
        )
        for id in ("theorem_4_2", "theorem_3_3"):
            assert bounds.evaluate(f"bsa24.{id}", m).mu == pytest.approx(expected, rel=1e-12)


def test_theorem_3_3_at_wide_ranges():
    random = np.random.default_rng(11)
    for _ in range(300):
        convex = bool(random.random() < 0.7)
        m = NoisySGD(
            steps=int(10 ** random.uniform(0, 9)),
            dataset_size=1,
            batch_size=1,
            step_size=float(10 ** random.uniform(-6, 0)),
            noise_std=float(10 ** random.uniform(-3, 6)),
            gradient_sensitivity=float(10 ** random.uniform(-3, 3)),
            smoothness=float(10 ** random.uniform(-9, 3)),
            convex=convex,
            diameter=float(10 ** random.uniform(-6, 6)),
        )
        mu = bounds.evaluate("bsa24.theorem_3_3", m).mu
        assert math.isfinite(mu)
        assert mu <= bounds.evaluate("bsa24.theorem_4_1", m).mu * (1 + 1e-12)

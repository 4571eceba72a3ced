"""What all entries share: they fall with noise, and extreme input gives no NaN.

Extremes give a finite bound, infinity, or an error that names the reason.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, Divisor, NoisySGD, Relation, Release, bounds
from audit.bounds.assumptions import BOUNDED_DOMAIN
from tests.choices import RELEASES
from tests.mechanisms import noisy_sgd
from tests.slow import slow

COMMON = {"step_size": 0.1, "noise_std": 1.0, "lipschitz": 1.0, "smoothness": 1.0, "diameter": 1.0}
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
    "a point": replace(FULL, strong_convexity=10.0, smoothness=10.0),
    "strongly convex, unbounded": replace(FULL, strong_convexity=1.0, diameter=None),
    "not convex": replace(FULL, convex=False),
    "not convex, unbounded": replace(FULL, convex=False, diameter=None),
    "not convex, wide": replace(FULL, convex=False, smoothness=1e-9, diameter=1e9),
    "unbounded": replace(FULL, diameter=None),
    "narrow": replace(FULL, diameter=1e-9),
    "Hoelder": replace(FULL, **HOLDER),
    "Hoelder, unbounded": replace(FULL, **HOLDER, convex=False, diameter=None),
    "Hoelder, low order": replace(FULL, **{**HOLDER, "holder": (5.0, 0.01)}, convex=False),
    "all records drawn": replace(FULL, batching=Batching.WITHOUT_REPLACEMENT, strong_convexity=0.1),
    "exponential": replace(FULL, release=Release.EXPONENTIAL_MECHANISM, strong_convexity=0.1),
    "cyclic": replace(CYCLIC, strong_convexity=0.1),
    "cyclic, not convex": replace(CYCLIC, convex=False),
    "cyclic, almost a point": replace(CYCLIC, strong_convexity=0.9),
    "cyclic, many records": replace(CYCLIC, dataset_size=10**8),
    "shuffled": replace(CYCLIC, batching=Batching.SHUFFLED),
    "shuffled, many records": replace(CYCLIC, batching=Batching.SHUFFLED, dataset_size=10**6),
    "one of a hundred million": SAMPLED,
    "Poisson, q=1e-8": replace(SAMPLED, batching=Batching.POISSON, relation=Relation.ZERO_OUT),
}
DRAWN = replace(SAMPLED, dataset_size=10, batch_size=2, steps=10)
POISSON = replace(DRAWN, batching=Batching.POISSON, relation=Relation.ZERO_OUT)
CLIPPED = replace(
    POISSON,
    lipschitz=None,
    clip_norm=1.0,
    convex=False,
    diameter=None,
    relation=Relation.ADD_REMOVE,
    release=Release.ALL_ITERATES,
)
# where entries hold of which no mechanism above is one
OTHERS = (
    replace(FULL, steps=1000),
    replace(CYCLIC, steps=100),
    *(replace(CYCLIC, release=release) for release in RELEASES),
    replace(CYCLIC, dataset_size=6, batch_size=2, steps=9, batching=Batching.RESHUFFLED),
    replace(DRAWN, strong_convexity=0.1),
    replace(DRAWN, dataset_size=1000, batch_size=10, noise_std=2.0),
    replace(DRAWN, dataset_size=1000, noise_std=12.0, strong_convexity=0.5, step_size=2 / 1.5),
    replace(POISSON, batch_size=1, noise_std=6.0),
    replace(POISSON, steps=1, noise_std=20.0),
    replace(CLIPPED, batching=Batching.TRUNCATED_POISSON, max_batch_size=3),
    replace(CLIPPED, divisor=Divisor.ACTUAL),
    replace(CLIPPED, batching=Batching.RANDOM_ALLOCATION, dataset_size=4, steps=2),
)
OPTIONS = {f"fmtt18.corollary_31{end}": {"public": 3} for end in ("", "_corrected")}
FALLING = {"noise_std": (1.0, 100.0), "diameter": (10.0, 1.0, 1e-3)}


def size(id, m):
    """Its divergence, which costs little; epsilon where nothing is said of divergences."""
    curve = bounds.evaluate(id, m, **OPTIONS.get(id, {}))
    divergence = curve.renyi(2.0)
    return curve.epsilon(1e-2) if math.isinf(divergence) else divergence


@pytest.mark.parametrize(("field", "factors"), FALLING.items())
def test_every_entry_falls_with_noise_and_with_the_domain(field, factors):
    """It falls wherever it is evaluated, and somewhere to a smaller number than at first."""
    quick = [e for id, e in bounds.CATALOGUE.items() if not (e.slow or id.startswith("own."))]
    needs = {e.id for e in quick if field == "noise_std" or BOUNDED_DOMAIN in e.assumptions}
    left = {e.id for e in quick}
    for m in (*OTHERS, *MECHANISMS.values()):
        if (first := getattr(m, field)) is None:
            continue
        runs = [replace(m, **{field: times * first}) for times in factors]
        covered = [(run, set(bounds.applicable(run))) for run in runs]
        for id in left & set(bounds.applicable(m)):
            sizes = np.array([size(id, run) for run, ids in covered if id in ids])
            assert np.all(sizes[1:] <= sizes[:-1] * (1 + 1e-9)), (id, m, sizes)
            left -= {id} if sizes[-1] < sizes[0] else set()
    assert needs & left == set()


# noise and number of steps; a billion steps of large noise have ordinary divergences
EXTREMES = [(1e-3, 1), slow(1e-3, 10**9), slow(1e6, 1)]
# A composition, or a search over lengths, for each answer: one epsilon is asked for, and neither
# delta nor beta.
SLOW = ("bsa24.theorem_4_9", "bsa24.theorem_4_10")
SLOW_IN_LONG_RUNS = (
    "accounting.poisson", "at22.b_", "at22.eq_5_7", "bsa24.theorem_4_8", "cl25.theorem_3_12",
    "survey.theorem_vii_2",
)  # fmt: skip


def check(id, m, beta):
    """Epsilons, divergences and probabilities are in order, or an error says what is wrong."""
    slow = id.startswith(SLOW) or (m.steps >= 10**6 and id.startswith(SLOW_IN_LONG_RUNS))
    try:
        curve = bounds.evaluate(id, m)
        epsilons = curve.epsilon([1e-5] if slow else [1e-12, 1e-5])
        divergences = curve.renyi([1.001, 1e4])
        shares = [] if slow else [curve.delta(1.0)]
        if beta and not slow:
            shares.append(curve.beta(0.1))
    except ValueError as error:
        if " must " in str(error) or " needs " in str(error):
            return
        raise
    assert epsilons[0] >= epsilons[-1] >= 0, (id, m, epsilons)
    assert 0 <= divergences[0] <= divergences[1] * (1 + 1e-9), (id, m, divergences)
    assert all(0 <= share <= 1 for share in shares), (id, m, shares)


def check_all(m, known=frozenset()):
    """Check all entries that apply; of known ones not the type II error, which costs most."""
    ids = {id for id in bounds.applicable(m) if not id.startswith("own.")}  # tested elsewhere
    for id in sorted(ids):
        check(id, m, id not in known)
    return ids


@pytest.mark.parametrize(("sigma", "times"), EXTREMES)
def test_extreme_mechanisms(sigma, times):
    """Nine orders of magnitude in the noise, and as many in the number of steps."""
    known = set()
    for m in MECHANISMS.values():
        ids = check_all(replace(m, noise_std=sigma, steps=times * m.steps), known)
        assert ids, m
        known |= ids


@pytest.mark.parametrize("n", [1, slow(10**6)])
@pytest.mark.parametrize("release", RELEASES)
def test_one_pass_over_one_record_and_over_a_million(release, n):
    for sigma in (1e-3, 1e6):
        check_all(
            replace(CYCLIC, noise_std=sigma, steps=n, dataset_size=n, batch_size=1, release=release)
        )


def test_contraction_to_a_point_and_none_at_all():
    losses = {"gradient_sensitivity": 1.0, "smoothness": 10.0, "lipschitz": None, "diameter": None}
    for strong, expected in ((10.0, 1.0), (1e-300, 1e4)):
        m = noisy_sgd(steps=10**8, step_size=0.1, strong_convexity=strong, **losses)
        for id in ("theorem_4_2", "theorem_3_3"):
            assert bounds.evaluate(f"bsa24.{id}", m).mu == pytest.approx(expected, rel=1e-12)


def test_theorem_3_3_at_wide_ranges():
    random = np.random.default_rng(11)
    for _ in range(300):
        convex = bool(random.random() < 0.7)
        m = noisy_sgd(
            steps=int(10 ** random.uniform(0, 9)),
            step_size=float(10 ** random.uniform(-6, 0)),
            noise_std=float(10 ** random.uniform(-3, 6)),
            gradient_sensitivity=float(10 ** random.uniform(-3, 3)),
            smoothness=float(10 ** random.uniform(-9, 3)),
            convex=convex,
            diameter=float(10 ** random.uniform(-6, 6)),
            lipschitz=None,
        )
        mu = bounds.evaluate("bsa24.theorem_3_3", m).mu
        assert math.isfinite(mu)
        assert mu <= bounds.evaluate("bsa24.theorem_4_1", m).mu * (1 + 1e-12)

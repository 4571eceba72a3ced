"""Claims about explicit laws: closed forms are never refuted, false ones always are."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from audit.claims import formats, lock
from audit.claims.evidence import Verdict
from audit.constructions.explicit import ExplicitPair
from audit.constructions.explicit_laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    RandomisedResponse,
)
from audit.constructions.registry import decode_laws
from audit.curves import GaussianCurve, Order, PureCurve
from tests.verifying import is_refuted

from .written import checked, judged, law_of


def laplace_delta(sensitivity: float, scale: float, epsilon: float) -> float:
    """1 - e^((epsilon - sensitivity/scale)/2): Balle, Barthe and Gaboardi 2020, Theorem 3."""
    return max(-math.expm1((epsilon - sensitivity / scale) / 2), 0.0)


def repeated_delta(epsilon0: float, times: int, epsilon: float) -> float:
    """Randomised response, ``times`` times: the hockey-stick divergence of two binomials."""
    p = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    k = np.arange(times + 1)
    gains = binom.pmf(k, times, p) - math.exp(epsilon) * binom.pmf(k, times, 1 - p)
    return float(np.maximum(gains, 0).sum())


def true_claims(rng: np.random.Generator) -> list[tuple[ExplicitPair, float, float]]:
    """Random (laws, epsilon, delta) with delta(epsilon) = delta by a formula; delta = 0 too."""
    loss, times = float(rng.uniform(0.05, 3)), int(rng.integers(1, 12))
    size, scale = float(rng.uniform(0.5, 2)), float(rng.uniform(0.3, 3))
    whole, mu = int(rng.integers(1, 4)), float(rng.uniform(0.1, 3))
    share, rate = float(rng.uniform(0.05, 0.9)), float(rng.uniform(0.02, 0.6))
    claims: list[tuple[ExplicitPair, float, float]] = []
    epsilon = share * loss * times
    repeated = RandomisedResponse(epsilon=loss, times=times)
    claims += [(repeated, epsilon, repeated_delta(loss, times, epsilon))]
    claims += [(repeated, loss * times, 0.0)]
    laplace = Laplace(sensitivity=size, scale=scale)
    claims += [(laplace, size / scale, 0.0)]
    claims += [(laplace, share * size / scale, laplace_delta(size, scale, share * size / scale))]
    # subsampling a pair that is its own reverse (Balle, Barthe and Gaboardi 2018, Theorem 8)
    sampled = Laplace(sensitivity=size, scale=scale, sampling_rate=rate)
    larger = math.log1p(rate * math.expm1(share * size / scale))
    claims += [(sampled, larger, rate * laplace_delta(size, scale, share * size / scale))]
    claims += [(DiscreteLaplace(sensitivity=whole, scale=scale), whole / scale, 0.0)]
    gaussian = Gaussian(sensitivity=size, noise_std=size / mu, times=times)
    delta = float(10 ** rng.uniform(-10, -1))
    claims += [(gaussian, GaussianCurve(mu * math.sqrt(times)).epsilon(delta), delta)]
    return claims


def verdict(pair: ExplicitPair, epsilon: float, delta: float) -> Verdict:
    return judged(pair=pair, epsilon=epsilon, delta=delta).verdict


@pytest.mark.parametrize("seed", range(5))
def test_true_claims_are_never_refuted_and_false_ones_always(seed: int) -> None:
    for pair, epsilon, delta in true_claims(np.random.default_rng(seed)):
        assert verdict(pair, epsilon * (1 + 1e-8), delta * (1 + 1e-9)) is Verdict.CONSISTENT
        assert verdict(pair, 0.99 * epsilon, 0.99 * delta) is Verdict.REFUTED
        assert verdict(pair, epsilon * (1 + 1e-8) + 1e-3, delta) is Verdict.CONSISTENT


@pytest.mark.parametrize(
    "pair",
    [
        RandomisedResponse(epsilon=0.2, outcomes=4, times=300),
        Gaussian(sensitivity=1, noise_std=1.5, sampling_rate=0.2, times=12),
    ],
)
def test_compositions_by_two_ways(pair: ExplicitPair) -> None:
    """The bracket of the package holds the number of the program that shares nothing with it."""
    delta = 1e-4
    low, high = law_of(pair).epsilon_bracket(delta)
    assert high - low < 1e-3 * high
    assert verdict(pair, high * (1 + 1e-9), delta) is Verdict.CONSISTENT
    found = judged(pair=pair, epsilon=0.9 * low, delta=delta)
    assert found.verdict is Verdict.REFUTED
    assert is_refuted(found.witness)
    assert not is_refuted(replace(found.witness, claimed=high * (1 + 1e-9)))


def test_divergences_and_powers_of_compositions() -> None:
    curve = law_of(DiscreteGaussian(sensitivity=2, noise_std=6.0, times=9))
    # a discrete Gaussian has the divergences of the continuous one (Canonne et al. 2020, Prop. 5)
    low, high = curve.renyi_bracket(3.0)
    assert low <= 3 * 9 * (2 / 6) ** 2 / 2 <= high
    for order in Order:
        low, high = curve.power_bracket(0.05, order)
        assert low - 2e-3 <= ndtr(1.0 - 1.6448536) <= high + 2e-3
        assert high - low < 2e-3
        assert curve.mu_bracket(order).low == pytest.approx(1.0, abs=2e-3)
    laplace = judged(pair=Laplace(sensitivity=1, scale=2), renyi={2.0: PureCurve(0.5).renyi(2.0)})
    assert laplace.verdict is Verdict.CONSISTENT


def test_a_law_that_is_known_from_one_side_decides_nothing() -> None:
    found = judged(pair=Laplace(sensitivity=1, scale=1, times=100_000), epsilon=1.0, delta=1e-5)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "Laplace(times=100000, sensitivity=1, scale=1) is only known to be" in found.message
    proven = judged(pair=Laplace(sensitivity=1, scale=1, times=100_000), epsilon=1e6, delta=1e-5)
    assert proven.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize(
    ("size", "std", "alpha", "times"),
    [(1, 1, 2, 1), (1, 1, 64, 1), (1, 2, 256, 1), (5, 1, 8, 1), (1, 0.05, 2, 1), (1, 1, 64, 50)],
)
def test_tails_of_a_discrete_gaussian_count(
    size: int, std: float, alpha: float, times: int
) -> None:
    """Its divergence is alpha s^2/(2 sigma^2) exactly; 26.2 of 32 was once called exact."""
    pair = DiscreteGaussian(sensitivity=size, noise_std=std, times=times)
    truth = times * alpha * (size / std) ** 2 / 2
    for order in Order:
        low, high = law_of(pair).renyi_bracket(float(alpha), order)
        assert low <= truth <= high <= truth * (1 + 1e-6)
    assert judged(pair=pair, renyi={alpha: 1.01 * truth}).verdict is Verdict.CONSISTENT
    assert judged(pair=pair, renyi={alpha: 0.99 * truth}).verdict is not Verdict.CONSISTENT


def test_tails_of_a_discrete_gaussian_with_a_large_shift() -> None:
    """At delta 1e-5 epsilon is 832.43, and 685 was once called exact."""
    curve = law_of(DiscreteGaussian(sensitivity=37, noise_std=1))
    assert curve.epsilon_bracket(1e-5)[1] > 832.42
    assert curve.delta_bracket(824.1)[1] > 1.35e-4
    low, high = law_of(DiscreteGaussian(sensitivity=20, noise_std=1)).epsilon_bracket(1e-5)
    assert high - low < 1e-9  # the tails are negligible
    sampled = law_of(DiscreteGaussian(sensitivity=1, noise_std=1, sampling_rate=0.1))
    low, high = sampled.renyi_bracket(256.0, Order.REVERSE)
    assert low < high < low * (1 + 1e-8) < -math.log(0.9)


def test_tails_of_a_sampled_discrete_gaussian_by_a_sum() -> None:
    rate, shift = mpmath.mpf(0.1), 30
    curve = law_of(DiscreteGaussian(sensitivity=shift, noise_std=1, sampling_rate=0.1))
    with mpmath.workdps(40):
        weights = {k: mpmath.exp(-(mpmath.mpf(k) ** 2) / 2) for k in range(-90, 91)}
        total = sum(weights.values())
        moment = sum(
            w**2 / ((1 - rate) * w + rate * weights[k - shift]) / total
            for k, w in weights.items()
            if abs(k - shift) <= 90
        )
        low, high = curve.renyi_bracket(2.0, Order.REVERSE)
        assert low <= mpmath.log(moment) <= high <= low * (1 + 1e-9)


FILE = """
claims:
  - {id: laplace, laws: {laplace: {sensitivity: 1, scale: 2}}, epsilon: .5, delta: 0}
  - {id: too_small, laws: {laplace: {sensitivity: 1, scale: 2}}, epsilon: .49, delta: 0, expected: refuted}
  - id: response
    laws: {randomised response: {epsilon: 1, times: 3}}
    points: [{epsilon: 3, delta: 0}, {epsilon: 2.9, delta: .1}]
  - {id: finite, laws: {finite: {first: [.75, .25], second: [.25, .75]}}, renyi: {2: .85}}
  - {id: by_kind, laws: {kind: DiscreteLaplace, sensitivity: 1, scale: 1}, tradeoff: {.05: .8}}
  - {id: function, laws: {gaussian: {sensitivity: 1, noise_std: 2}}, callable: "accountant:claimed", deltas: [1.0e-5]}
"""  # noqa: E501


CLAIMED = """
from audit.curves import GaussianCurve

def claimed(laws, delta):
    return GaussianCurve(laws.sensitivity / laws.noise_std).epsilon(delta)
"""


def test_in_a_file_and_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "accountant.py").write_text(CLAIMED)
    found = checked(tmp_path, FILE)
    assert found.complaints == ()
    assert [j.as_expected for j in found.judgements] == [True] * 6
    entries = json.loads(formats.write(found, formats.Format.JSON))["claims"]
    assert entries[0]["mechanism"] is None
    assert entries[0]["laws"] == {"kind": "Laplace", "sensitivity": 1.0, "scale": 2.0}
    for form in formats.Format:
        assert "too_small" in formats.write(found, form)
    path, now = tmp_path / "laws.lock", lock.entries(found.judgements)
    lock.write(path, lock.accept(lock.Lock(), now, reason="new", date=""))
    assert lock.changes(lock.read(path), now) == ()


def test_kinds_are_understood_in_any_spelling() -> None:
    fields = {"epsilon": 1.0}
    for word in ("randomised response", "randomised_response", "RandomisedResponse"):
        assert decode_laws({word: fields}) == RandomisedResponse(epsilon=1.0)

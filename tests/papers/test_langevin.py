"""Langevin Monte Carlo and exponential mechanisms: limits, closed forms, and planted errors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from audit import bounds
from audit.curves import GaussianCurve, RenyiCurve
from audit.results import Verdict
from papers.exponential_cones import ExponentialMechanismOfCones
from papers.exponential_targets import LinearPair, TruncatedExponential, log_integral
from papers.langevin import LangevinOnQuadratics, langevin
from papers.langevin_walls import LangevinBetweenWalls
from tests.papers.findings import caption, found

QUADRATICS = LangevinOnQuadratics(
    strong_convexity=2.0,
    lipschitz=1.5,
    step_sizes=(0.25, 0.05, 0.001),
    times=(0.5, 1.0, 8.0),
    delta=1e-5,
    renyi_order=3.0,
)
WALLS = LangevinBetweenWalls(
    lipschitz=1.5, diameter=1.0, step_sizes=(0.01, 0.003, 0.001), deltas=(1e-2, 1e-5)
)
CONES = ExponentialMechanismOfCones(
    lipschitz=0.02, height=100.0, radius=2.1, dimensions=(1, 2, 10, 10_000), delta=1e-5
)


HELD, ATTACKED = Verdict.HOLDS, Verdict.CONSISTENT


@pytest.mark.parametrize(
    ("study", "verdicts"),
    [
        (QUADRATICS, [ATTACKED, HELD, HELD, HELD, HELD, ATTACKED]),
        (WALLS, [ATTACKED, HELD, HELD, ATTACKED, ATTACKED, ATTACKED, HELD]),
        (CONES, [HELD, HELD, ATTACKED, ATTACKED]),
    ],
    ids=["quadratic", "walls", "cones"],
)
def test_identities_hold_and_attacks_are_consistent(study: Any, verdicts: list[Verdict]) -> None:
    """What is computed in full is told from a theorem that some pairs did not refute."""
    findings = found(study)
    assert [s.verdict for s in findings.statements] == verdicts
    assert found(study) == findings
    assert all(len(chart.caption) > 60 for chart in findings.charts)


@pytest.mark.parametrize(("eta", "steps"), [(0.4, 1), (0.05, 20), (0.001, 3000)])
def test_a_chain_on_a_quadratic_by_its_recursion(eta: float, steps: int) -> None:
    """Mean and variance step by step, against the exact law that the study takes."""
    m, L = 2.0, 1.5
    gap = variance = 0.0
    for _ in range(steps):
        gap = (1 - eta * m) * gap + eta * L
        variance = (1 - eta * m) ** 2 * variance + 2 * eta
    row = QUADRATICS._row(eta, steps, steps * eta)
    assert row["mu"] == pytest.approx(gap / math.sqrt(variance), rel=1e-11)
    assert row["mu_claimed"] == pytest.approx(math.sqrt((2 - eta * m) / 2) * L / math.sqrt(m))


def test_a_bound_that_is_too_small_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = bounds.evaluate

    def smaller(name: str, mechanism: Any, **options: Any) -> Any:
        curve = evaluate(name, mechanism, **options)
        if isinstance(curve, GaussianCurve):
            return GaussianCurve(0.999 * curve.mu)
        return RenyiCurve.linear(curve.renyi(2.0) / 20)

    monkeypatch.setattr(bounds, "evaluate", smaller)
    refuted = [s.citation for s in found(QUADRATICS).statements if s.verdict is Verdict.REFUTED]
    assert any("Proposition 5.1" in one for one in refuted)
    assert any("Theorem VII.1" in one for one in refuted)
    assert sum("Corollary 5.2" in one for one in refuted) == 2


def test_short_times_are_not_yet_tight() -> None:
    short = found(replace(QUADRATICS, times=(0.5, 1.0)))
    outcomes = {s.claim[:20]: s.verdict for s in short.statements}
    assert outcomes["The bound is reached"] is Verdict.INCONCLUSIVE
    assert "nothing smaller holds" in caption(found(QUADRATICS), "time")
    assert "nothing smaller holds" not in caption(short, "time")
    least = min(
        row["epsilon"] / row["claimed"]
        for row in (QUADRATICS._row(eta, round(1 / eta), 1.0) for eta in QUADRATICS.step_sizes)
    )
    assert f"to {least:.6f} of it at time 1" in caption(short, "time")


@pytest.mark.parametrize(
    "changes",
    [
        {"lipschitz": 1.0, "dimensions": (1, 2, 10, 30)},
        {"radius": 10.0, "height": 4.0, "dimensions": (1, 2, 1000)},  # H/D = .2
    ],
    ids=["few dimensions", "a wide cone"],
)
def test_cones_that_stay_far_from_2ld_decide_nothing(changes: dict[str, Any]) -> None:
    near = found(replace(CONES, **changes)).statements[1]
    assert isinstance(near.found, float)
    assert near.found < 0.9
    assert near.verdict is Verdict.INCONCLUSIVE


def test_the_captions_of_cones_say_what_was_computed() -> None:
    """Epsilon at a fixed delta rises with the dimension first; by the pairs themselves."""
    study = replace(CONES, dimensions=(1, 2, 3, 5, 10, 1000))
    values = {d: LinearPair(d, 2.0).epsilon(1e-5) for d in study.dimensions}
    assert values[1] < values[2] < values[3] < values[5] > values[10] > values[1000]
    said = caption(found(study), "epsilon")
    assert f"d = 5 has the largest epsilon, {values[5]:.4f}" in said
    assert f"in 1,000 dimensions it is {values[1000]:.4f}" in said
    diameter = math.hypot(100, 2.1)
    said = caption(found(study), "ratio")
    assert f"{LinearPair(1000, 2.0).pure_epsilon / (0.04 * diameter):.4f} of it" in said
    assert f"H/D, which is {100 / diameter:.4f}" in said


def test_the_captions_of_walls_say_what_was_computed() -> None:
    """Corollary 5.4 of the mechanism itself is G(2 sqrt(LD)), below that of every chain."""
    findings = found(WALLS)
    limit = GaussianCurve(2 * math.sqrt(1.5)).epsilon(1e-5)
    assert f"Corollary 5.4 goes to {limit:.4f}" in caption(findings, "epsilon")
    assert "falls like the root of eta" in caption(findings, "distance")
    coarse = found(replace(WALLS, step_sizes=(2.0, 1.9, 1.8)))
    assert coarse.statements[0].verdict is Verdict.INCONCLUSIVE
    assert "falls like the root of eta" not in caption(coarse, "distance")


@pytest.mark.parametrize("dimensions", [1, 2, 7, 1000, 10_000])
@pytest.mark.parametrize("rate", [-6.0, -0.3, 0.3, 6.0])
def test_the_integral_over_a_cone(dimensions: int, rate: float) -> None:
    """With v = u^d the integral has no peak: quadrature is good to 1e-12."""
    for top in (1.0, 0.999):
        end = top**dimensions
        value, _ = quad(
            lambda v: math.exp(-rate * v ** (1 / dimensions)), 0.0, end, epsabs=0, epsrel=1e-12,
            limit=400,
        )  # fmt: skip
        assert log_integral(dimensions, rate, top) == pytest.approx(math.log(value), abs=1e-10)


def test_an_interval_in_closed_form() -> None:
    """delta = P(x < -e/2L) - e^e P'(...) of two truncated exponentials; pure epsilon is LD."""
    pair = LinearPair(1, 2.0)
    assert pair.pure_epsilon == pytest.approx(2.0, rel=1e-14)
    law, prime = TruncatedExponential(-1.0, 1.0), TruncatedExponential(1.0, 1.0)
    for epsilon in (0.0, 0.5, 1.9):
        place = -epsilon / 2
        expected = float(law.cdf(place)) - math.exp(epsilon) * float(prime.cdf(place))
        assert pair.delta(epsilon) == pytest.approx(expected, rel=1e-12)
    assert pair.delta(2.0) == pytest.approx(0.0, abs=1e-15)
    assert pair.delta(pair.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-6)
    area, _ = quad(lambda x: float(law.density(x)), -1, 1)
    assert area == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("dimensions", [2, 30])
def test_delta_on_a_cone_by_quadrature(dimensions: int) -> None:
    pair = LinearPair(dimensions, 2.0)
    total = [
        quad(lambda u, s=sign: u ** (dimensions - 1) * math.exp(s * 2 * u), 0, 1)[0]
        for sign in (-1, 1)
    ]
    grid = (np.arange(200_000) + 0.5) / 200_000
    laws = [
        grid ** (dimensions - 1) * np.exp(sign * 2 * grid) / value
        for sign, value in zip((-1, 1), total, strict=True)
    ]
    for epsilon in (0.1, 0.4):
        both = [
            float(np.mean(np.maximum(a - math.exp(epsilon) * b, 0))) for a, b in (laws, laws[::-1])
        ]
        # the rule errs by the square of a cell's width, at the kink
        assert pair.delta(epsilon) == pytest.approx(max(both), abs=1e-9)


def test_cones_approach_2ld_and_no_more() -> None:
    near = [LinearPair(d, 2.0).pure_epsilon / 4.0 for d in (1, 10, 100, 10_000)]
    assert near[0] == pytest.approx(0.5, rel=1e-14)
    assert near == sorted(near)
    # for a large d it is 1 - 1/(d + 1), up to a term of the order 1/d^2
    assert near[-1] == pytest.approx(1 - 1 / 10_001, abs=1e-8)
    assert near[-1] < 1


def test_the_threshold_two_ways() -> None:
    (statement,) = [s for s in found(WALLS).statements if "0.677" in s.claim]
    root = brentq(lambda x: 1 - 2 * norm.sf(math.sqrt(x)) - math.tanh(x), 0.5, 1.0, xtol=1e-14)
    assert statement.found == pytest.approx(root, rel=1e-12)
    assert statement.verdict is Verdict.HOLDS
    assert round(float(statement.found), 4) == 0.6764
    for x, better in ((0.67, False), (0.68, True)):
        total_variation = 2 * norm.cdf(math.sqrt(x)) - 1
        assert bool(total_variation < math.tanh(x)) is better


def test_a_clamped_walk_is_near_the_truncated_exponential() -> None:
    rows = [WALLS._row(eta, 1) for eta in WALLS.step_sizes]
    distances = [row.distance for row in rows]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.1
    # the other sign of the loss is the other law: far away
    wrong = TruncatedExponential(-1.5, 0.5).density(rows[-1].places)
    right = TruncatedExponential(1.5, 0.5).density(rows[-1].places)
    assert np.abs(rows[-1].density - right).mean() < 0.2 * np.abs(rows[-1].density - wrong).mean()


@pytest.mark.parametrize(
    ("study", "changes", "message"),
    [
        (QUADRATICS, {"step_sizes": (0.6,)}, "step_sizes must be at most 1/m = 0.5"),
        (QUADRATICS, {"times": ()}, "times must be one or more numbers"),
        (QUADRATICS, {"times": (2.0, 1.0)}, "times must be rising, from the largest step size on"),
        (
            QUADRATICS,
            {"step_sizes": (0.2, 0.1)},
            "times must be multiples of every step size, also of 0.2, got 0.5",
        ),
        (QUADRATICS, {"delta": 1.0}, r"delta must be in \(0, 1\)"),
        (WALLS, {"step_sizes": (0.1, 0.2, 0.3)}, "step_sizes must be three or more, falling"),
        (WALLS, {"deltas": ()}, "deltas must be one or more numbers"),
        (CONES, {"radius": 0.5}, "radius must leave room for a unit ball, got one of radius 0.49"),
        (CONES, {"dimensions": (2, 3)}, "dimensions must be rising, from 1 on"),
    ],
)
def test_refusals(study: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(study, **changes)


def test_langevin_as_noisy_sgd() -> None:
    m = langevin(3, 0.1, 1.0, 2.0)
    assert m.step_std == pytest.approx(math.sqrt(2 * 0.1), rel=1e-15)
    assert m.sensitivity == 2.0

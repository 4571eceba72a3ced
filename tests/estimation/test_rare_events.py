"""Weighted draws of rare events: proven maxima, exact means, coverage, and planted mistakes.

Coverage checks allow the stated error and three standard errors, with fixed seeds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import audit
from audit.constructions import BiasedWalk, TwoSidedWalk
from audit.curves import GaussianCurve, Order
from audit.estimation import AffineStep, AffineWalk, BoundedDraws, Stakes, Tilt, event_epsilon
from tests.mechanisms import noisy_sgd

from .audited_laws import allowed

ERROR = 0.05


def walled(steps: int = 20, lipschitz: float = 0.5, **changes: object) -> audit.NoisySGD:
    given = {"diameter": 8.0, "smoothness": None, **changes}
    return noisy_sgd(steps=steps, lipschitz=lipschitz, **given)


def certified(pair: Any, trials: int = 1000) -> Any:
    return event_epsilon(pair, delta=0.1, trials=trials, confidence=0.9, seed=1)


def twin_rate(walk: AffineWalk, threshold: float, nodes: int = 400) -> float:
    """P(X_T >= threshold) of a walled walk, by quadrature on nodes and two atoms."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    low, high = walk.lower, walk.upper
    x, w = low + (high - low) * (x + 1) / 2, w * (high - low) / 2
    states = np.concatenate([[low], x, [high]])
    density = None
    for step in walk.steps[:-1]:
        origin = states if density is not None else walk.start
        moves = np.zeros((len(origin), states.size))
        for shift, weight in zip(step.shifts[:, 0], step.weights, strict=True):
            mean = step.matrix[0, 0] * origin[:, None] + shift
            z = (x - mean) / step.noise_std
            moves[:, 1:-1] += weight * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / step.noise_std * w
            moves[:, :1] += weight * ndtr((low - mean) / step.noise_std)
            moves[:, -1:] += weight * ndtr((mean - high) / step.noise_std)
        density = moves[0] if density is None else density @ moves
    return float(density @ np.exp(walk._log_probability_after(states[:, None], threshold)))


def linear(sign: float, steps: int, dimension: int = 10) -> AffineWalk:
    """Walk in many dimensions, with another curvature in each."""
    matrix = np.diag(np.linspace(0.98, 0.8, dimension))
    step = AffineStep(matrix, sign * np.full((1, dimension), 0.2), np.ones(1), 1.0)
    walk = AffineWalk(np.zeros(dimension), (step,) * steps, np.ones(dimension))
    mean, std = [], []
    for axis in np.eye(dimension):
        m, s = replace(walk, direction=axis).moments()
        mean.append(abs(m)), std.append(s)
    return replace(walk, direction=np.array(mean) / np.square(std))


LINEAR = linear(1.0, 2)
SAMPLED = walled(
    lipschitz=1.0,
    dataset_size=3,
    noise_std=0.6,
    diameter=6.0,
    batching=audit.Batching.POISSON,
    relation=audit.Relation.ZERO_OUT,
)
WALKS = {
    "pushed down between walls": AffineWalk.of(TwoSidedWalk(walled()).processes()[1]),
    "pushed up between walls": AffineWalk.of(TwoSidedWalk(walled()).processes()[0]),
    "sampled batches": AffineWalk.of(BiasedWalk(SAMPLED).processes()[0]),
    "mirrored": AffineWalk.of(TwoSidedWalk(walled()).processes()[0], mirrored=True),
}
MIRRORED = WALKS["mirrored"]


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_means_are_exact_between_walls(name: str, share: float) -> None:
    walk = WALKS[name]
    threshold = walk.lower + share * (walk.upper - walk.lower)
    exact = twin_rate(walk, threshold)
    tilt = Tilt.of(walk, threshold)
    draws = tilt.draw(20_000, np.random.SeedSequence(1)).values
    error = np.std(draws) / np.sqrt(draws.size)
    assert abs(np.mean(draws) - exact) < 4 * error
    assert error < 0.1 * exact
    assert exact < tilt.largest <= 1 + 1e-8


def test_every_strength_is_unbiased_and_below_its_maximum() -> None:
    walk = WALKS["pushed down between walls"]
    exact = twin_rate(walk, 2.0)
    for index in (0, 60, 90, 110, 125):
        tilt = Tilt.of(walk, 2.0, index)
        draws = tilt.draw(20_000, np.random.SeedSequence(2))  # which checks the maximum
        error = np.std(draws.values) / np.sqrt(20_000)
        assert abs(np.mean(draws.values) - exact) < 4 * error + 1e-12


def test_a_shift_without_probability_is_never_drawn() -> None:
    step = AffineStep(np.eye(1), np.array([[1e5], [1.0]]), np.array([0.0, 1.0]), 1.0)
    walk = AffineWalk(np.zeros(1), (step,) * 3, np.ones(1))
    draws = Tilt.of(walk, 6.0).draw(10_000, np.random.SeedSequence(4)).values
    assert np.mean(draws) == pytest.approx(ndtr(-np.sqrt(3)), rel=0.03)


def test_many_dimensions_are_normal() -> None:
    for steps in (1, 12):
        walk = linear(-1.0, steps)
        mean, std = walk.moments()
        for score in (0.0, 3.0, 9.0):
            tilt = Tilt.of(walk, mean + score * std)
            draws = tilt.draw(10_000, np.random.SeedSequence(3)).values
            error = np.std(draws) / 100
            assert abs(np.mean(draws) - ndtr(-score)) < 4 * error + 1e-12 * ndtr(-score)
            assert error <= 0.03 * ndtr(-score) + 1e-300


FAR: dict[str, Any] = {"delta": 1e-8, "trials": 20_000, "confidence": 0.95, "seed": 3}


@pytest.mark.parametrize(
    ("steps", "lipschitz", "diameter", "order"),
    [
        (20, 1.0, 8.0, Order.FORWARD),
        pytest.param(20, 1.0, 8.0, Order.REVERSE, marks=pytest.mark.slow),
        # weights on the upper wall, and everywhere, are beyond the largest double
        pytest.param(40, 4.0, 131.5, Order.FORWARD, marks=pytest.mark.slow),
        (2, 2.0, 1000.0, Order.FORWARD),
    ],
)
def test_certified_far_beyond_the_number_of_draws(
    steps: int, lipschitz: float, diameter: float, order: Order
) -> None:
    pair = TwoSidedWalk(walled(steps, lipschitz, diameter=diameter))
    true = audit.exact.curve(pair).epsilon_bracket(FAR["delta"])[0]
    found = event_epsilon(pair, order=order, **FAR)
    assert 0.9 * true < found.value <= true
    assert found.value > 1.3 * np.log(FAR["trials"])


def test_events_of_two_walks_and_of_a_start_far_away() -> None:
    walks = linear(1.0, 12), linear(-1.0, 12)
    (mean, std), (other, _) = (walk.moments() for walk in walks)
    normal = GaussianCurve((mean - other) / std).epsilon(FAR["delta"])
    found = event_epsilon(walks, order=Order.FORWARD, **FAR)  # named by their direction
    assert 0.9 * normal < found.value <= normal
    assert found.value > 1.3 * np.log(FAR["trials"])
    start = TwoSidedWalk(walled(diameter=None), start=50.0)
    high, low = (event_epsilon(start, order=order, **FAR).threshold for order in Order)
    assert 50 < high == pytest.approx(100 - low)
    rare = event_epsilon(TwoSidedWalk(walled(1, 40.0, diameter=20.0)), **FAR)
    assert 700 < rare.value < 1254  # whose maximum is below the least double


@pytest.mark.parametrize("runs", [80, pytest.param(400, marks=pytest.mark.slow)])
def test_coverage_of_limits(runs: int) -> None:
    walk, threshold = WALKS["pushed down between walls"], 3.0
    exact = twin_rate(walk, threshold)
    tilt = Tilt.of(walk, threshold)
    stakes = tilt.draw(500, np.random.SeedSequence(4)).stakes(500, ERROR)
    drawn = [tilt.draw(500, np.random.SeedSequence([5, run])) for run in range(runs)]
    low, high = (
        np.array([limit(draws, stakes, ERROR) for draws in drawn])
        for limit in (BoundedDraws.mean_lower, BoundedDraws.mean_upper)
    )
    assert np.sum(low > exact) <= allowed(ERROR, runs)
    assert np.sum(high < exact) <= allowed(ERROR, runs)
    assert np.median(low) > 0.7 * exact
    assert np.median(high) < 1.4 * exact


def test_each_law_has_half_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    for name in ("mean_lower", "mean_upper"):
        limit = getattr(BoundedDraws, name)
        spied = lambda *given, limit=limit: asked.append(given[-1]) or limit(*given)  # noqa: E731
        monkeypatch.setattr(BoundedDraws, name, spied)
    certified(TwoSidedWalk(walled()))
    assert asked == pytest.approx([0.05, 0.05])


def test_a_reused_pilot_is_caught() -> None:
    """The event and the stakes are chosen on the draws that certify, of a thousand events."""
    wrong, runs, error = [0, 0], 60, 0.2
    for run in range(runs):
        laws = np.random.default_rng([run, 41]).random((2, 2, 1000, 30)) ** 2  # laws, parts, events
        best = np.argmax(np.diff(np.log(np.mean(laws[:, 0], axis=-1)), axis=0)[0])
        chosen, fresh = ([BoundedDraws(law[part, best], 1.0) for law in laws] for part in (0, 1))
        stakes = [draws.stakes(30, error / 2) for draws in chosen]
        for k, (low, high) in enumerate((chosen, fresh)):
            upper = low.mean_upper(stakes[0], error / 2)
            wrong[k] += high.mean_lower(stakes[1], error / 2) > upper
    assert wrong[0] > allowed(error, runs)
    assert wrong[1] <= allowed(error, runs)


def test_a_maximum_that_is_one_per_cent_too_small_is_seen() -> None:
    walk = linear(-1.0, 12)
    mean, std = walk.moments()
    tilt = Tilt.of(walk, mean + 5 * std)
    tilt.draw(2000, np.random.SeedSequence(6))
    small = replace(tilt, largest=0.99 * tilt.largest)
    with pytest.raises(ValueError, match=r"values must be in \[0, .*\], got "):
        small.draw(2000, np.random.SeedSequence(6))


def test_limits_of_bounded_draws() -> None:
    zeros = BoundedDraws(np.zeros(1000), 1e-9)
    stakes = zeros.stakes(1000, ERROR)
    assert zeros.mean_lower(stakes, ERROR) == 0.0
    assert 2.9e-12 < zeros.mean_upper(stakes, ERROR) < 3.2e-12  # log(20) / n of the largest
    x = np.random.default_rng(7).random(200)  # at a limit the capital is 1 / error
    low, high = (
        limit(BoundedDraws(x, 1.0), Stakes(0.5, 0.4), ERROR)
        for limit in (BoundedDraws.mean_lower, BoundedDraws.mean_upper)
    )
    assert np.prod(1 + 0.5 * (x - low)) == pytest.approx(1 / ERROR, rel=1e-6)
    assert np.prod(1 - 0.4 * (x - high)) == pytest.approx(1 / ERROR, rel=1e-6)
    same = BoundedDraws(np.full(1000, 0.5), 1.0)
    stakes = same.stakes(1000, ERROR)
    assert 0.49 < same.mean_lower(stakes, ERROR) < 0.5 < same.mean_upper(stakes, ERROR) < 0.51


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BoundedDraws(np.array([0.1, -0.1]), 1.0), r"values must be in \[0, 1.0\], got -0"),
        (lambda: BoundedDraws(np.array([0.1]), 0.0), "largest must be a positive finite number"),
        (lambda: Stakes(0.1, 1.5), r"upper must be in \(0, 1\), got 1.5"),
        (lambda: Tilt.of(MIRRORED, -4.0), r"threshold must be above .* \(-4\), got -4.0"),
        (lambda: replace(MIRRORED, direction=np.full(1, 2.0)), "walls must be infinite but"),
        (lambda: replace(MIRRORED, start=np.full(1, 4.1)), "start must be between the walls"),
        (lambda: replace(LINEAR, start=np.full(10, 2e6)), "start must be within 1e.06 "),
        (lambda: replace(LINEAR, steps=()), r"steps must be one or more, got \(\)"),
        (lambda: replace(LINEAR, direction=np.zeros(10)), "direction must be other than"),
        (
            lambda: replace(MIRRORED.steps[0], weights=np.full(1, 2.0)),
            r"weights must be probabilities of the shifts, got \[2.0\]",
        ),
        (
            lambda: certified((LINEAR, replace(LINEAR, direction=np.ones(10)))),
            "pair must be two walks with one direction, got",
        ),
        (lambda: replace(LINEAR, lower=-1.0), "walls must be infinite but for direction 1"),
        (
            lambda: certified(TwoSidedWalk(walled()), 10),
            "trials must be a whole number of at least 1000, got 10",
        ),
    ],
)
def test_bad_input(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()

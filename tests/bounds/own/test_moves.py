"""Moves: closed forms, hulls, a dynamic programme and solvers; published theorems; exact laws."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from audit import Batching, NoisySGD, Relation, bounds, exact
from audit.bounds.own.moves import (
    Coupling,
    Modulus,
    least_mu,
    least_squares,
    modulus_of,
    taut_string,
)
from audit.bounds.own.run import WorstRun
from audit.bounds.own.stretches import layouts
from audit.constructions import WallPinnedWalk
from audit.curves import GaussianCurve
from tests.bounds.own.soundness import rough_mechanism, weird_mechanism
from tests.mechanisms import noisy_sgd
from tests.slow import slow

# relative; what costs are raised by, and the rounding of the other side
ROUNDED = 1e-10


def random_run(random: np.random.Generator) -> tuple[WorstRun, float]:
    """A run with cycles, and a distance at its start."""
    v, s = 10 ** random.uniform(-2, 1), 10 ** random.uniform(-1, 1)
    gap = float(random.choice([0.0, random.uniform(0, 0.99), 10 ** random.uniform(-6, -1)]))
    run = WorstRun(
        int(random.integers(1, 60)), s, v, gap, math.inf, int(random.choice([1, 2, 5, 10])), 1.0
    )
    return run, float(random.choice([0.0, random.uniform(0, v), random.uniform(0, 50 * v)]))


def pushes(run: WorstRun) -> list[float]:
    """The shift of each step."""
    return [run.shift * ((run.steps - 1 - i) % run.period == 0) for i in range(run.steps)]


def least_square(start, contractions, shifts, noises, end=0.0):
    """Least mu^2 of moves of any schedule, by the hull in lengths scaled to the end."""
    factors = np.append(np.cumprod(np.asarray(contractions)[::-1])[::-1], 1.0)
    taus = np.cumsum((factors[1:] * np.asarray(noises)) ** 2)
    heights = factors[0] * start + np.cumsum(factors[1:] * np.asarray(shifts))
    heights[-1] -= end
    return taut_string(zip(taus.tolist(), heights.tolist(), strict=True))


def by_the_hull(run: WorstRun, start: float, end: float = 0.0) -> float:
    contractions, noises = [run.contraction] * run.steps, [run.noise] * run.steps
    return least_square(start, contractions, pushes(run), noises, end)


def test_the_closed_form_is_the_hull():
    random = np.random.default_rng(5)
    for _ in range(400):
        run, start = random_run(random)
        found = float(least_squares(run, run.steps, start))
        assert found == pytest.approx(by_the_hull(run, start), rel=ROUNDED)


def test_the_hull_is_the_optimum():
    """A schedule of contractions, pushes and noises, against a general solver."""
    random = np.random.default_rng(6)
    for _ in range(6):
        c, v = random.uniform(0.6, 1.0, 6), random.uniform(0, 1, 6) * (random.random(6) < 0.6)
        s, start, end = random.uniform(0.5, 2.0, 6), random.uniform(0, 1), random.uniform(0, 0.2)

        def distances(x, c=c, v=v, start=start):
            steps = zip(c, v, x, strict=True)
            return np.array(
                list(
                    itertools.accumulate(steps, lambda z, p: p[0] * z + p[1] - p[2], initial=start)
                )
            )

        solved = minimize(
            lambda x, s=s: float(np.sum((x / s) ** 2)),
            np.full(6, 0.3),
            constraints=[
                {"type": "ineq", "fun": lambda x, z=distances: z(x)[1:-1]},
                {"type": "eq", "fun": lambda x, z=distances, end=end: z(x)[-1] - end},
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert least_square(start, c, v, s, end) == pytest.approx(solved.fun, rel=1e-5)


def test_the_best_start_is_found():
    random = np.random.default_rng(7)
    for _ in range(100):
        run, _ = random_run(random)
        run = replace(run, diameter=run.shift * random.uniform(0.5, 20))
        every = np.arange(1, run.steps + 1)
        best = least_squares(run, every, run.tracked(run.steps - every)).min()
        assert least_mu(run) ** 2 == pytest.approx(best, rel=ROUNDED)


def test_a_mechanism_where_the_allocation_of_chien_and_li_is_loose():
    losses = {"lipschitz": 0.5, "strong_convexity": 5e-4, "diameter": None}
    m = noisy_sgd(steps=77, dataset_size=7, step_size=0.5, batching=Batching.CYCLIC, **losses)
    published = bounds.evaluate("bsa24.theorem_4_5", m).mu
    assert published == pytest.approx(1.5577, abs=1e-4)
    assert least_mu(WorstRun.of(m)) <= published * (1 + ROUNDED)
    # Renyi: alpha rho is that of mu = sqrt(2 rho)
    assert math.sqrt(2 * bounds.evaluate("cl25.theorem_a_1", m).renyi(2.0) / 2) > 2.4


@pytest.mark.parametrize("count", [60, slow(150)])
def test_it_is_no_worse_than_published_allocations(count):
    random, published = np.random.default_rng(8), {"cl25.theorem_a_1", "bsa24.theorem_4_5"}
    compared = []
    for _ in range(count):
        m = weird_mechanism(random, "own.parallel_moves", "fixed")
        square = least_mu(WorstRun.of(m)) ** 2
        for id in published & set(bounds.applicable(m)):
            assert square <= bounds.evaluate(id, m).renyi(2.0) * (1 + ROUNDED)
            compared.append(id)
    assert min(compared.count(id) for id in published) >= count // 30


def test_a_pair_attains_one_epoch_and_refutes_moves_before_the_record():
    """Before its batch the record cannot be hidden: the straight line is not a bound."""
    sizes = {"steps": 5, "dataset_size": 5, "diameter": 8.0}
    m = noisy_sgd(noise_std=0.1, lipschitz=0.5, batching=Batching.CYCLIC, **sizes)
    run = WorstRun.of(m)
    low = exact.curve(WallPinnedWalk(m, before=-0.5, after=0.5)).epsilon_bracket(1e-5)[0]
    sound = GaussianCurve(least_mu(run))
    assert sound.mu == pytest.approx(10.0)
    assert low <= sound.epsilon(1e-5) * (1 + 1e-9)
    straight = taut_string([(5 * run.noise**2, run.shift)])
    assert low > type(sound)(math.sqrt(straight)).epsilon(1e-5)


@pytest.mark.parametrize(("period", "gap"), [(3, 0.03), (3, 0.0), (1, 0.05)])
def test_merged_cycles_are_the_hull_of_their_steps(period, gap):
    run = WorstRun(6, 0.3, 0.2, gap, 4.0, period, 1.0)
    [[cycles]] = layouts(run, 6, 1.0)
    powers = run.contraction ** np.arange(6)
    assert cycles.contraction == pytest.approx(run.contraction**6)
    assert cycles.shift == pytest.approx(0.2 * powers[::period].sum())
    assert cycles.noise**2 == pytest.approx(0.3**2 * (powers**2).sum())
    for start, end in ((0.0, 0.0), (0.1, 0.0), (1.0, 0.0), (0.3, 0.1), (0.05, 0.3)):
        found = cycles.parallel(start, end) ** 2
        assert found == pytest.approx(by_the_hull(run, start, end), rel=ROUNDED)


def test_a_cycle_is_divided_and_merged_unless_its_noise_is_large():
    run = WorstRun(100, 0.05, 0.01, 0.0, 1.0, 10, 1.0)
    divided, (whole,) = layouts(run, 4, 1.0)
    assert sum(stretch.count for stretch in divided) == whole.count == 10
    assert whole.noise == pytest.approx(0.05 * math.sqrt(10))
    assert len(layouts(run, 4, 0.1)) == 1
    assert len(layouts(replace(run, gap=0.2), 1, 1.0)) == 1


def test_a_million_steps():
    run = WorstRun(10**6, 1.0, 0.5, 1e-7, 5.0, 10, 1.0)
    found = float(least_squares(run, 10**4, 3.0))
    # costs of 10^4 steps are raised by 9e-11
    assert found == pytest.approx(by_the_hull(replace(run, steps=10**4), 3.0), rel=2e-10)
    assert 0 < least_mu(run) < least_mu(replace(run, steps=10**3)) * 3


def test_steps_that_forget_everything():
    for period, steps in ((1, 10), (5, 10), (5, 3)):
        run = WorstRun(steps, 2.0, 0.5, 1.0, 5.0, period, 1.0)
        assert least_mu(run) == pytest.approx(0.25)


Array = NDArray[np.float64]
ID = "own.modulus"
SAME = 1e-8


# ten records, full batches, convex losses that need not be smooth
rough = partial(noisy_sgd, steps=1000, dataset_size=10, step_size=0.1, smoothness=None)


def mu(m: NoisySGD, id: str = ID) -> float:
    curve = bounds.evaluate(id, m)
    assert isinstance(curve, GaussianCurve)
    return float(curve.mu)


# ---------------------------------------------------------------- moduli


def value(w: Modulus, z: float) -> float:
    """Return w(z)."""
    if z <= 0:
        return 0.0
    parts = (w.factor * z, z + w.jump, z + w.scale * z**w.order, math.sqrt(z * z + w.square))
    return min(parts)


def gradient_gaps(kind: str, random: np.random.Generator, scale: float) -> tuple[Array, Array]:
    """Return points x - y and g(x) - g(y) for a random batch of losses in up to four dimensions."""
    dimension = int(random.integers(1, 5))
    x = random.normal(size=(200, dimension))
    y = x + random.normal(size=x.shape) * 10 ** random.uniform(-3, 1, (200, 1))
    total = np.zeros_like(x)
    count = int(random.integers(1, 4))
    for _ in range(count):
        slopes = random.normal(size=(6, dimension))
        slopes /= np.linalg.norm(slopes, axis=1)[:, None]
        offsets = random.normal(size=6) * 0.3
        a, b = slopes[0], offsets[0]
        for points, sign in ((x, 1), (y, -1)):
            if kind == "maximum":  # of affine functions
                best = np.argmax(points @ slopes.T + offsets, axis=1)
                total += sign * slopes[best]
            elif kind == "ramp":  # slope ``scale`` up to gradients of norm 1
                total += sign * np.clip(scale * (points @ a - b), -1, 1)[:, None] * a
            else:  # a power, with the Hoelder constant ``scale`` and order 1/2
                t = points @ a - b
                total += sign * scale / math.sqrt(2) * (np.sign(t) * abs(t) ** 0.5)[:, None] * a
    return x - y, total / count


CASES: dict[str, tuple[str, float, dict[str, Any]]] = {
    "not smooth": ("maximum", 1.0, {}),
    "large steps": ("ramp", 2.5, {"smoothness": 2.5, "step_size": 1.0}),
    "larger steps": ("ramp", 9.0, {"smoothness": 9.0, "step_size": 1.0}),
    "bounded Hoelder gradients": ("ramp", 4.0, {"holder": (2.83, 0.5), "step_size": 1.0}),
    "Hoelder gradients": (
        "power",
        2.0,
        {"holder": (2.0, 0.5), "lipschitz": None, "gradient_sensitivity": 1.0, "step_size": 1.0},
    ),
}


def largest_share(case: str, weaken: float = 1.0) -> float:
    """Return the largest distance after an update over the modulus; ``weaken`` is for h."""
    kind, scale, changes = CASES[case]
    w = modulus_of(rough(**changes))
    w = dataclasses.replace(w, square=w.square * weaken)
    eta = float(changes.get("step_size", 0.1))
    random = np.random.default_rng(len(case))
    shares: list[float] = []
    for _ in range(60):
        apart, gap = gradient_gaps(kind, random, scale)
        after = np.linalg.norm(apart - eta * gap, axis=1).tolist()
        before = np.linalg.norm(apart, axis=1).tolist()
        shares += [a / value(w, z) for a, z in zip(after, before, strict=True)]
    return max(shares)


@pytest.mark.parametrize("case", CASES)
def test_no_loss_exceeds_its_modulus(case: str) -> None:
    assert 0.5 < largest_share(case) <= 1 + 1e-10  # rounding of x - y


@pytest.mark.parametrize("case", ["not smooth", "larger steps", "Hoelder gradients"])
def test_a_smaller_modulus_is_exceeded(case: str) -> None:
    assert largest_share(case, weaken=0.25) > 1.001


def test_the_modulus_of_losses_without_smoothness_is_attained() -> None:
    """The maximum of two affine functions, at two points where both are largest."""
    m = rough()
    gradient, apart = np.array([0.0, 1.0]), np.array([0.07, 0.0])
    after = apart - m.step_size * (gradient - -gradient)
    assert np.linalg.norm(after) == pytest.approx(value(modulus_of(m), 0.07), rel=SAME)


def test_moduli_of_special_cases() -> None:
    strong = rough(smoothness=25.0, strong_convexity=2.0)
    assert value(modulus_of(strong), 0.1) == pytest.approx(0.15)  # eta M - 1, whatever L is
    assert modulus_of(rough(smoothness=20.0)).factor == 1.0
    assert modulus_of(rough(smoothness=3.0, convex=False)).factor == pytest.approx(1.3)
    jump = modulus_of(rough(convex=False))
    assert value(jump, 0.0) == 0
    assert value(jump, 1e-9) == pytest.approx(0.2)
    assert not modulus_of(rough(strong_convexity=0.1)).known
    order_0 = modulus_of(rough(holder=(0.5, 0.0), convex=False))
    assert value(order_0, 1e-9) == pytest.approx(0.05)
    assert modulus_of(rough(holder=(0.5, 0.0))).square == pytest.approx(0.05**2)
    smooth = modulus_of(rough(holder=(25.0, 1.0), lipschitz=1.0))
    assert smooth.square == pytest.approx(0.04 * (1 - 2 / 2.5))
    # all records of a batch, or the others and the record, take iterates 2 eta L apart
    coupling = Coupling.of(rough(convex=False))
    assert coupling.speed == pytest.approx(coupling.free.jump)
    assert coupling.speed == pytest.approx(coupling.met.jump + coupling.run.shift)
    # where the sensitivity does not bound all that the record tells, it moves with the others
    less = {"relation": Relation.ZERO_OUT}, {"gradient_sensitivity": 0.5}, {"strong_convexity": 0.1}
    for changes in less:
        other = Coupling.of(rough(smoothness=30.0, **changes))
        assert other.met == other.free


# ---------------------------------------------------------------- the shifts


def by_dynamic_programming(coupling: Coupling, count: int = 200) -> float:
    """Return the least sum of squares of shifts between the distances of a grid."""
    run = coupling.run
    widest = min(run.diameter, float(coupling.distances().max()))
    grid = np.concatenate([[0.0], widest * np.geomspace(1e-5, 1, count // 2)])
    grid = np.unique(np.append(grid, np.linspace(0, widest, count)))
    free = np.array([value(coupling.free, z) for z in grid])
    met = np.array([value(coupling.met, z) for z in grid]) + run.shift
    values = np.where(grid == 0, 0.0, np.inf)
    for b in range(run.steps):
        reach = met if b % run.period == 0 else free
        shifts = np.maximum(reach[:, None] - grid, 0)
        if widest == run.diameter:
            shifts[:, -1] = 0
        values = (shifts**2 + values).min(axis=1)
    return float(values[0])


def random_coupling(random: np.random.Generator) -> Coupling:
    size, order = 10 ** random.uniform(-1.5, 0.5), random.uniform(0.1, 0.9)
    parts: dict[str, float] = {
        0: {"square": size**2},
        1: {"jump": size},
        2: {"scale": size, "order": order},
        3: {"factor": 1 + 10 ** random.uniform(-2, 0.5), "jump": size},
        4: {"square": size**2, "scale": size, "order": order},
    }[int(random.integers(5))]
    free = Modulus(**parts)
    steps, period = int(random.integers(1, 25)), int(random.choice([1, 1, 2, 5]))
    shift = 10 ** random.uniform(-1.5, 0)
    diameter = math.inf if random.random() < 0.3 else 10 ** random.uniform(-1, 1)
    run = WorstRun(steps, 1.0, shift, 0.0, diameter, period, 1.0)
    return Coupling(run, free, free if random.random() < 0.6 else Modulus(1.0))


def test_the_shifts_are_the_best() -> None:
    """Feasible shifts on a grid cost no less; on a fine grid they cost little more."""
    random = np.random.default_rng(2)
    for _ in range(14):
        coupling = random_coupling(random)
        found, grid = coupling.least_square(), by_dynamic_programming(coupling)
        assert 0.96 * grid <= found <= 1.03 * grid, coupling


def test_contractions_give_parallel_moves() -> None:
    for changes in (
        {"smoothness": 1.0},
        {"smoothness": 20.0, "strong_convexity": 1.0},
        {"smoothness": 20.0, "steps": 33, "batch_size": 2, "batching": Batching.CYCLIC},
        {"smoothness": 15.0, "strong_convexity": 15.0, "diameter": None},
    ):
        m = rough(**changes)
        assert mu(m) == mu(m, "own.parallel_moves")


def test_batches_of_one_record_are_as_if_smooth_where_every_batch_holds_it() -> None:
    m = rough(dataset_size=1, batch_size=1)
    assert mu(m) == mu(dataclasses.replace(m, smoothness=1.0))


def test_expanding_steps_give_the_optimum_of_chien_and_li() -> None:
    for steps, smoothness in ((7, 2.0), (200, 0.3), (30, 5.0)):
        losses = {"convex": False, "lipschitz": None, "gradient_sensitivity": 2.0}
        m = rough(steps=steps, smoothness=smoothness, **losses)
        published = math.sqrt(bounds.evaluate("cl25.theorem_3_1", m).renyi(2.0))
        assert mu(m) == pytest.approx(published, rel=2e-3)


def test_epsilon_of_long_runs_stays_bounded() -> None:
    for diameter in (3.0, 30.0):
        m = rough(diameter=diameter)
        values = [mu(dataclasses.replace(m, steps=steps)) for steps in (10**5, 10**6, 10**7)]
        assert values == pytest.approx([values[0]] * 3, rel=1e-6)
        step, shift = 0.2, 0.02
        limit = 2 * step**2 * math.log(diameter / step) + 4 * shift * diameter
        assert values[0] == pytest.approx(math.sqrt(limit) / m.step_std, rel=0.06)
        composed = mu(dataclasses.replace(m, steps=10**6), "bsa24.theorem_4_1")
        assert values[0] < 0.15 * composed
    early = rough(steps=20)  # runs before burn-in are composed
    assert mu(early) == pytest.approx(mu(early, "bsa24.theorem_4_1"), rel=SAME)


PUBLISHED = (
    "cl25.theorem_3_1",
    "cl25.theorem_3_7",
    "cl25.theorem_a_1",
    "cl25.output_perturbation_corrected",
    "bsa24.theorem_4_1",
    "bsa24.theorem_4_4",
)


@pytest.mark.parametrize("count", [15, slow(45)])
def test_it_is_no_worse_than_published_bounds(count: int) -> None:
    random = np.random.default_rng(8)
    below = 0
    for _ in range(count):
        m = rough_mechanism(random, 200)
        found = mu(m)
        for id in set(PUBLISHED) & set(bounds.applicable(m)):
            other = math.sqrt(bounds.evaluate(id, m).renyi(2.0))
            assert found <= other * (1 + 5e-3), (id, m)
        below += found < 0.9 * min(
            math.sqrt(bounds.evaluate(id, m).renyi(2.0))
            for id in (*PUBLISHED, "survey.rdp_composition")
            if id in bounds.applicable(m)
        )
    assert below >= count // 8

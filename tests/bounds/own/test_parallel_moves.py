"""Parallel moves: the closed form, the hull and a solver; published theorems; exact laws."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from audit import Batching, NoisySGD, bounds, exact
from audit.bounds.own.moves import least_mu, least_squares, taut_string
from audit.bounds.own.run import WorstRun
from audit.bounds.own.stretches import layouts
from audit.constructions import WallPinnedWalk
from audit.curves import GaussianCurve
from tests.bounds.own.soundness import cyclic_mechanism
from tests.mechanisms import noisy_sgd

# relative; what costs are raised by, and the rounding of the other side
SAME = 1e-10


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


def least_square(start, contractions, shifts, noises):
    """Least mu^2 of moves of any schedule, by the hull in lengths scaled to the end."""
    factors = np.append(np.cumprod(np.asarray(contractions)[::-1])[::-1], 1.0)
    taus = np.cumsum((factors[1:] * np.asarray(noises)) ** 2)
    heights = factors[0] * start + np.cumsum(factors[1:] * np.asarray(shifts))
    return taut_string(zip(taus.tolist(), heights.tolist(), strict=True))


def by_the_hull(run: WorstRun, start: float) -> float:
    steps = run.steps
    return least_square(start, [run.contraction] * steps, pushes(run), [run.noise] * steps)


def test_the_closed_form_is_the_hull():
    random = np.random.default_rng(5)
    for _ in range(400):
        run, start = random_run(random)
        found = float(least_squares(run, run.steps, start))
        assert found == pytest.approx(by_the_hull(run, start), rel=SAME)


def test_the_hull_is_the_optimum():
    """A schedule of contractions, pushes and noises, against a general solver."""
    random = np.random.default_rng(6)
    for _ in range(6):
        c, v = random.uniform(0.6, 1.0, 6), random.uniform(0, 1, 6) * (random.random(6) < 0.6)
        s, start = random.uniform(0.5, 2.0, 6), random.uniform(0, 1)

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
                {"type": "eq", "fun": lambda x, z=distances: z(x)[-1]},
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert least_square(start, c, v, s) == pytest.approx(solved.fun, rel=1e-5)


def test_the_best_start_is_found():
    random = np.random.default_rng(7)
    for _ in range(100):
        run, _ = random_run(random)
        run = replace(run, diameter=run.shift * random.uniform(0.5, 20))
        every = np.arange(1, run.steps + 1)
        best = least_squares(run, every, run.tracked(run.steps - every)).min()
        assert least_mu(run) ** 2 == pytest.approx(best, rel=SAME)


def test_a_mechanism_where_the_allocation_of_chien_and_li_is_loose():
    m = NoisySGD(
        steps=77,
        dataset_size=7,
        batch_size=1,
        step_size=0.5,
        noise_std=1.0,
        lipschitz=0.5,
        smoothness=1.0,
        strong_convexity=5e-4,
        batching=Batching.CYCLIC,
    )
    published = bounds.evaluate("bsa24.theorem_4_5", m).mu
    assert published == pytest.approx(1.5577, abs=1e-4)
    assert least_mu(WorstRun.of(m)) <= published * (1 + SAME)
    # Renyi: alpha rho is that of mu = sqrt(2 rho)
    assert math.sqrt(2 * bounds.evaluate("cl25.theorem_a_1", m).renyi(2.0) / 2) > 2.4


def test_it_is_no_worse_than_published_allocations():
    """The program `tests.bounds.own.soundness moves` compares 3,000."""
    random = np.random.default_rng(8)
    for _ in range(150):
        m = cyclic_mechanism(random)
        mu = least_mu(WorstRun.of(m))
        assert mu**2 <= bounds.evaluate("cl25.theorem_a_1", m).renyi(2.0) * (1 + SAME)
        if "bsa24.theorem_4_5" in bounds.applicable(m):
            assert mu <= bounds.evaluate("bsa24.theorem_4_5", m).mu * (1 + SAME)


def test_a_pair_attains_one_epoch_and_refutes_moves_before_the_record():
    """Before its batch the record cannot be hidden: the straight line is not a bound."""
    m = noisy_sgd(
        steps=5,
        dataset_size=5,
        noise_std=0.1,
        lipschitz=0.5,
        diameter=8.0,
        batching=Batching.CYCLIC,
    )
    run = WorstRun.of(m)
    low = exact.curve(WallPinnedWalk(m, before=-0.5, after=0.5)).epsilon_bracket(1e-5)[0]
    sound = GaussianCurve(least_mu(run))
    assert sound.mu == pytest.approx(10.0)
    assert low <= sound.epsilon(1e-5) * (1 + 1e-9)
    straight = taut_string([(5 * run.noise**2, run.shift)])
    assert low > type(sound)(math.sqrt(straight)).epsilon(1e-5)


def test_merged_cycles_that_contract_are_the_hull_of_their_steps():
    run = WorstRun(6, 0.3, 0.2, 0.03, 4.0, 3, 1.0)
    [[cycles]] = layouts(run, 6, 1.0)
    assert cycles.contraction == pytest.approx(0.97**6)
    assert cycles.shift == pytest.approx(0.2 * (1 + 0.97**3))
    for start in (0.0, 0.1, 1.0):
        found = cycles.parallel(start, 0.0) ** 2
        assert found == pytest.approx(by_the_hull(run, start), rel=SAME)


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

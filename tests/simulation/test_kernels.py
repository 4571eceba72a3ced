"""The compiled loops against their twin, draw by draw, and both paths against laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import audit.simulation as simulation
from audit.constructions import BiasedWalk, Mapped, Process, Segment, Step, Wall
from audit.constructions.process import Path
from audit.simulation import samplers
from audit.simulation.blocks import Block, Stream
from audit.simulation.program import GENERAL, compiled, is_compilable
from audit.simulation.rng import LANES

from . import twin
from .cases import AFFINE, COMPILED, mechanism, noise, process


@pytest.mark.parametrize("name", COMPILED)
def test_kernel_is_its_twin_draw_by_draw(name: str) -> None:
    made = COMPILED[name]()
    trials = LANES + 40  # two groups of lanes, the last one short
    block = Block(0, 0, trials)
    sequence = block.sequence(3, Stream.X_PRIME)
    expected = twin.walk(made, sequence, trials)
    x = simulation.simulate(made, trials=trials, seed=3, stream=Stream.X_PRIME)
    # one more or less draw anywhere would change all later walks of the lane
    if name in AFFINE:
        assert np.array_equal(x, [walk[0] for walk in expected])  # every bit
    else:  # maps are applied in another form: some roundings of each step
        np.testing.assert_allclose(x, [walk[0] for walk in expected], rtol=0, atol=1e-12)
    table = compiled(made)
    general = table._replace(kind=np.full_like(table.kind, GENERAL))
    assert np.array_equal(samplers._walk(general, block, 3, Stream.X_PRIME), x)


def by_numpy(made: Process) -> Process:
    """Return the same walk with maps that no compiled loop knows."""
    hidden = replace(made, paths=tuple(_opaque(path) for path in made.paths))
    assert not is_compilable(hidden)
    return hidden


BY_NUMPY = (
    "slopes", "resets, Poisson", "Hölder", "random stop", "kinked", "reshuffled", "one wall",
    "paths of three lengths",
)  # fmt: skip


@pytest.mark.parametrize("name", BY_NUMPY)
def test_maps_have_the_same_law_by_numpy(name: str) -> None:
    made = COMPILED[name]()
    a = simulation.simulate(made, trials=60_000, seed=7)
    b = simulation.simulate(by_numpy(made), trials=60_000, seed=8)
    assert twin.same_law(a, b, made) > twin.LEVEL


def _opaque(path: Path) -> Path:
    def hidden(step: Step) -> Step:
        # a method, as pieces of maps themselves are known
        return replace(step, maps=tuple(Mapped(update.__call__) for update in step.maps))

    return replace(
        path,
        segments=tuple(Segment(tuple(map(hidden, g.steps)), g.times) for g in path.segments),
    )


def test_jumps_five_percent_too_large_are_seen() -> None:
    right = BiasedWalk(mechanism(noise_std=1.5)).processes()[1]
    wrong = BiasedWalk(mechanism(noise_std=1.5, lipschitz=2.1)).processes()[1]
    x, other = (simulation.simulate(made, trials=600_000, seed=2) for made in (right, wrong))
    y = simulation.simulate(by_numpy(right), trials=250_000, seed=3)
    assert twin.same_law(x, y, right) > twin.LEVEL > twin.same_law(other, y, right)


def test_atoms_after_one_step_are_exact() -> None:
    made = process(noise(0.4, (0.0, 0.8), (0.3, 0.2)), start=0.1, lower=-0.5, upper=0.5)
    x = simulation.simulate(made, trials=1_000_000, seed=9)
    norm = stats.norm
    low = 0.8 * norm.cdf(-0.6 / 0.4) + 0.2 * norm.cdf(-0.9 / 0.4)
    high = 0.8 * norm.sf(0.4 / 0.4) + 0.2 * norm.sf(0.1 / 0.4)
    for count, p in ((np.sum(x == -0.5), low), (np.sum(x == 0.5), high)):
        assert stats.binomtest(int(count), x.size, p).pvalue > twin.LEVEL
    assert np.all(np.abs(x) <= 0.5)


def test_absorbed_walks_stay() -> None:
    made = process(noise(0.4), times=2, start=0.1, lower=-0.5, lower_wall=Wall.ABSORB)
    x = simulation.simulate(made, trials=400_000, seed=10)
    law = stats.multivariate_normal([-0.1, -0.1], 0.16 * np.array([[1.0, 1.0], [1.0, 2.0]]))
    absorbed = 1 - float(law.cdf([0.5, 0.5]))  # the walk mirrored: both steps below 0.5
    assert stats.binomtest(int(np.sum(x == -0.5)), x.size, absorbed).pvalue > twin.LEVEL
    at_the_end = replace(made, start=-0.5)
    assert np.all(simulation.simulate(at_the_end, trials=10, seed=0) == -0.5)


def test_number_of_jumps_is_binomial() -> None:
    for q in (0.001, 0.1, 0.5, 0.93):
        made = process(noise(1e-6, (0.0, 1 - q), (1.0, q)), times=60)
        jumps = np.rint(simulation.simulate(made, trials=100_000, seed=11)).astype(np.int64)
        law = stats.binom.pmf(np.arange(61), 60, q)
        assert twin.has_counts(jumps, law) > twin.LEVEL
    nearly = stats.binom.pmf(np.arange(61), 60, 0.93 + 0.005)
    assert twin.has_counts(jumps, nearly) < twin.LEVEL


def test_choices_of_different_steps_are_independent() -> None:
    """Shifts 0, 1, 2 times a power of 3: the final iterate spells out every choice."""
    weights = [(0.2, 0.7, 0.1), (0.4, 0.3, 0.3), (0.0, 0.02, 0.98), (1.0, 0.0, 0.0), (0.5, 0.5, 0)]
    steps = [
        noise(1e-6, *((digit * 3.0**k, w) for digit, w in enumerate(ws)))
        for k, ws in enumerate(weights)
    ]
    law = np.ones(1)
    for ws in weights:
        law = np.concatenate([law * w for w in ws])
    codes = np.rint(simulation.simulate(process(*steps), trials=300_000, seed=12)).astype(np.int64)
    assert twin.has_counts(codes, law) > twin.LEVEL


def test_paths_come_by_their_probabilities() -> None:
    shares = (0.05, 0.6, 0.25, 0.1)
    for hide in (False, True):  # the compiled and the general path
        paths = [
            Path(share, (Segment((noise(1e-6, (float(k), 1.0)),)),))
            for k, share in enumerate(shares)
        ]
        made = Process(0.0, tuple(map(_opaque, paths)) if hide else tuple(paths))
        x = np.rint(simulation.simulate(made, trials=100_000, seed=13)).astype(np.int64)
        assert twin.has_counts(x, np.array(shares)) > twin.LEVEL


@pytest.mark.parametrize("rare", [1e-3, 1e-5])
def test_rare_jumps_keep_their_rate(rare: float) -> None:
    steps = 400
    made = process(noise(1e-6, (1.0, rare), (0.0, 1 - rare)), times=steps)
    jumps = np.rint(simulation.simulate(made, trials=300_000, seed=15)).astype(np.int64)
    expected = 300_000 * steps * rare
    total = int(jumps.sum())
    p = 2 * min(stats.poisson.cdf(total, expected), stats.poisson.sf(total - 1, expected))
    assert p > twin.LEVEL
    assert stats.poisson.sf(total - 1, expected / 2) < twin.LEVEL


def test_probabilities_of_any_size_are_exact_to_a_word() -> None:
    for rare in (1e-9, 1e-12, 2.0**-60, 1e-300, 0.3):
        program = compiled(process(noise(1.0, (1.0, rare), (0.0, 1 - rare))))
        word, _ = program.below.tolist()
        assert abs(word - rare * 2.0**64) <= 0.5
    weights = (0.25, 1e-9, 0.5, 0.25 - 1e-9)
    program = compiled(process(noise(1.0, *((float(k), w) for k, w in enumerate(weights)))))
    ascending = sorted(weights)
    below = program.below[:-1].astype(float)
    assert np.all(np.diff(below) > 0)
    assert below / 2**64 == pytest.approx(np.cumsum(ascending)[:-1], rel=1e-9)
    assert program.coefficients[0].tolist() == [1.0, 3.0, 0.0, 2.0]  # the shifts, rarest first


def test_samples_of_the_pair_are_independent() -> None:
    x, x_prime = simulation.final_iterates(BiasedWalk(mechanism()), trials=100_000, seed=14)
    assert stats.pearsonr(x, x_prime).pvalue > twin.LEVEL

"""Pairs whose losses change over time."""

import dataclasses
import math

import pytest

from audit import Batching, Losses, NoisySGD, Relation, Release, exact
from audit.constructions import (
    ChangingPair,
    Construction,
    GradientPair,
    Inadmissible,
    Phase,
    PiecewiseLinear,
)
from audit.curves import GaussianCurve
from audit.search import check_admissible

FULL = NoisySGD(
    steps=12,
    dataset_size=4,
    batch_size=4,
    step_size=0.5,
    noise_std=0.4,
    lipschitz=1.0,
    smoothness=1.5,
    diameter=2.0,
    losses=Losses.CHANGING,
)
constant = PiecewiseLinear.constant
RIGHT, LEFT = constant(-1.0), constant(1.0)
KINK = PiecewiseLinear.clipped(1.5, 0.1, 0.9)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"batching": Batching.WITHOUT_REPLACEMENT, "batch_size": 2},
        {"batching": Batching.POISSON, "batch_size": 2},
        {"batching": Batching.CYCLIC, "batch_size": 1},
        {"step_size": (0.5,) * 6 + (0.25,) * 6},
        {"relation": Relation.ZERO_OUT},
    ],
    ids=str,
)
def test_phases_with_the_same_losses_are_one_run(changes):
    m = dataclasses.replace(FULL, **changes)
    second = constant(0.0) if m.relation is Relation.ZERO_OUT else LEFT
    fixed = GradientPair(
        dataclasses.replace(m, losses=Losses.FIXED), KINK, RIGHT, second, start=0.3
    )
    phases = tuple(Phase(steps, KINK, RIGHT, second) for steps in (1, 5, 3, 3))
    pair = ChangingPair(m, phases, start=0.3)
    check_admissible(pair)
    assert exact.curve(pair).epsilon(1e-4) == pytest.approx(
        exact.curve(fixed).epsilon(1e-4), rel=1e-9
    )


def test_pushes_that_change_sign_cancel_on_an_unbounded_domain():
    # there the last iterates are normal: the means differ by the sum of the pushes
    m = dataclasses.replace(FULL, diameter=None)
    phases = (Phase(5, LEFT, RIGHT, LEFT), Phase(3, RIGHT, LEFT, RIGHT), Phase(4, RIGHT, RIGHT))
    apart = 0.5 * (2 / 4 * 5 - 2 / 4 * 3 + 1 / 4 * 4)
    mu = apart / (0.2 * math.sqrt(12))
    pair = ChangingPair(m, phases)
    low, high = exact.curve(pair).epsilon_bracket(1e-5)
    assert low * (1 - 1e-6) <= GaussianCurve(mu).epsilon(1e-5) <= high * (1 + 1e-6)


@dataclasses.dataclass(frozen=True)
class Disguised(Construction):
    """Processes of losses that change, offered as a pair of fixed losses."""

    changing: ChangingPair

    citation = "a test"

    def processes(self):
        return self.changing.processes()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"batching": Batching.WITHOUT_REPLACEMENT, "batch_size": 2},
        {"batching": Batching.CYCLIC, "batch_size": 1},
    ],
    ids=str,
)
def test_changing_losses_are_no_pair_of_fixed_ones(changes):
    m = dataclasses.replace(FULL, **changes)
    fixed = dataclasses.replace(m, losses=Losses.FIXED)
    phases = (Phase(8, LEFT, RIGHT, LEFT), Phase(4, RIGHT, RIGHT, LEFT))
    changing = ChangingPair(m, phases)
    check_admissible(changing)
    with pytest.raises(Inadmissible, match=r"needs losses='changing'.* got losses='fixed'"):
        ChangingPair(fixed, phases)
    with pytest.raises(Inadmissible, match="fixed losses must give the same updates whenever"):
        check_admissible(Disguised(fixed, changing))


def test_refusals():
    with pytest.raises(ValueError, match="phases must have 12 steps together, got 5"):
        ChangingPair(FULL, (Phase(5),))
    with pytest.raises(Inadmissible, match=r"needs others in \[-1, 1\], the Lipschitz constant"):
        ChangingPair(FULL, (Phase(6), Phase(6, constant(1.1))))
    with pytest.raises(Inadmissible, match="needs another batching, got batching='shuffled'"):
        ChangingPair(dataclasses.replace(FULL, batching=Batching.SHUFFLED), (Phase(12),))
    with pytest.raises(Inadmissible, match="needs the release of the last iterate"):
        ChangingPair(dataclasses.replace(FULL, release=Release.RANDOM_STOP), (Phase(12),))
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        Phase(0)
    with pytest.raises(ValueError, match="losses must be a Losses"):
        dataclasses.replace(FULL, losses="changing")

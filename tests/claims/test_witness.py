"""Witnesses: files round-trip, and refutations are recomputed in two ways."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from audit import Batching, NoisySGD, Relation, exact
from audit.claims import recompute as recomputing
from audit.claims.claim import Claim, EpsilonDelta, Gaussian, Renyi, Tradeoff
from audit.claims.judge import judge
from audit.claims.recompute import (
    Ladder,
    Outcome,
    drawing,
    epsilon_at,
    gaussian_delta,
    ladder,
    lower_limit,
    nodes_of,
    normals_of,
    recompute,
    renyi_at,
    upper_limit,
)
from audit.claims.witness import Witness, plain_pair
from audit.constructions import (
    Affine,
    BiasedWalk,
    Construction,
    LatticeWalk,
    Mapped,
    Process,
    ResetWalk,
    Segment,
    Step,
    TwoSidedWalk,
    Wall,
)
from audit.constructions import explicit_laws as laws
from audit.constructions.explicit import (
    Densities,
    Finite,
    Mixture,
    Mixtures,
    NormalVectors,
    VectorMixture,
)
from audit.constructions.process import Path
from audit.curves import GaussianCurve, Order
from audit.dominating.random_allocation import random_allocation


def walled(**changes):
    values = {
        "steps": 5,
        "dataset_size": 2,
        "batch_size": 1,
        "step_size": 1.0,
        "noise_std": 0.6,
        "lipschitz": 0.5,
        "smoothness": 1.0,
        "diameter": 2.0,
        "batching": Batching.WITHOUT_REPLACEMENT,
    }
    return NoisySGD(**{**values, **changes})


RESET = ResetWalk(walled(), curvature=1.0, cap=0.5)
BIASED = BiasedWalk(walled())
FINITE = Finite((0.6, 0.3, 0.1), (0.3, 0.3, 0.4), times=30)
NORMALS = Mixtures(Mixture((0.5, 0.5), (1.0, 3.0), (1.0, 1.0)), Mixture((1.0,), (0.0,), (1.0,)))
STEPS = ((1.0, 0.0), (0.0, 1.0))  # of an epoch of two
NOWHERE = VectorMixture((1.0,), ((0.0, 0.0),))
CORRELATED = NormalVectors(
    ((1.0, 0.0), (0.5, 1.0)), 1.5, VectorMixture((1.0,), ((1.0, 1.0),)), NOWHERE
)
DENSITIES = Densities(slope=2.0, low=-0.5, high=0.5)


def witness(statement, pair, mechanism=None):
    judged = judge(Claim(id="a.claim", mechanism=mechanism, statement=statement, pair=pair))
    assert judged.witness is not None, judged.message
    return judged.witness


EXAMPLES = {
    "chain, renyi": (Renyi(((2.0, 0.05),)), RESET, walled()),
    "chain, epsilon": (EpsilonDelta(((0.3, 0.01),)), RESET, walled()),
    "chain, mu": (Gaussian(0.4), RESET, walled()),
    "chain, power": (Tradeoff(((0.1, 0.8),)), RESET, walled()),
    "walk, epsilon": (EpsilonDelta(((0.1, 0.01),)), BIASED, walled()),
    "normals, epsilon": (EpsilonDelta(((2.0, 1e-3),)), NORMALS, None),
    "normals, renyi": (Renyi(((3.0, 5.0),)), NORMALS, None),
    "normals, rare": (EpsilonDelta(((13.0, 1e-8),)), NORMALS, None),
    "finite, epsilon": (EpsilonDelta(((5.0, 1e-3),)), FINITE, None),
    "finite, renyi": (Renyi(((2.0, 3.0),)), FINITE, None),
    "vectors, epsilon": (EpsilonDelta(((3.0, 1e-3),)), CORRELATED, None),
    "vectors, renyi": (Renyi(((2.0, 1.0),)), replace(CORRELATED, times=2), None),
    "vectors, mu": (Gaussian(0.9), CORRELATED, None),
    "densities, epsilon": (EpsilonDelta(((0.8, 1e-2),)), DENSITIES, None),
    "densities, renyi": (Renyi(((4.0, 0.4),)), DENSITIES, None),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_both_ways_confirm_and_the_file_comes_back(name):
    found = witness(*EXAMPLES[name])
    text = found.to_json()
    again = Witness.from_json(text)
    assert again == found
    assert 4 <= len(found.recipe) <= 12
    result = recompute(again)
    assert result.confirmed, result.lines()
    assert len(result.lines()) == 4
    low, high = found.bracket
    if found.quantity != "mu":
        assert low - result.exact.error <= result.exact.value
        assert high is None or result.exact.value <= high + result.exact.error
        assert result.sampled.value <= result.exact.value * (1 + 1e-9)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_number_that_is_true_is_not_confirmed(name):
    found = witness(*EXAMPLES[name])
    if found.quantity == "mu":
        raised = 1.05 * found.bracket[0]
    elif found.quantity == "1 - beta":
        raised = found.bracket[0] + 0.01
    else:
        raised = 1.01 * found.bracket[0]
    result = recompute(replace(found, claimed=raised))
    assert result.exact.outcome is Outcome.NOT_CONFIRMED
    assert result.sampled.outcome in (Outcome.NOT_CONFIRMED, Outcome.NOT_SAMPLEABLE)
    assert not result.confirmed


def test_a_pair_that_was_tampered_with_is_not_confirmed():
    found = witness(*EXAMPLES["chain, epsilon"])
    same = replace(found, pair={**found.pair, "second": found.pair["first"]})
    result = recompute(same)
    assert result.exact.outcome is Outcome.NOT_CONFIRMED
    assert not result.sampled.confirms


def test_draws_that_contradict_the_law_by_quadrature_deny_it(monkeypatch):
    """The draws stand for themselves: from equal laws nothing is confirmed, whatever is planned."""
    found = witness(*EXAMPLES["chain, epsilon"])

    def same(pair, name, *, follow=True):
        return drawing(pair, "first", follow=follow)

    monkeypatch.setattr(recomputing, "drawing", same)
    result = recompute(found)
    assert result.exact.confirms
    assert result.sampled.outcome is Outcome.NOT_CONFIRMED
    assert not result.stands
    assert result.lines()[-1] == "  not confirmed"


def test_what_is_too_rare_is_not_sampleable():
    # delta 1e-12 of Gaussians at distance 1, with walls far away: no formula without the law
    m = walled(steps=1, dataset_size=1, noise_std=1.0, diameter=40.0)
    found = witness(EpsilonDelta(((6.0, 1e-12),)), TwoSidedWalk(m), m)
    result = recompute(found)
    assert result.exact.confirms
    assert result.sampled.outcome is Outcome.NOT_SAMPLEABLE
    assert not result.confirmed
    assert result.stands
    assert result.lines()[-1] == "  confirmed in one way; the other cannot decide"
    assert "would not show it" in result.sampled.how


@pytest.mark.parametrize(
    ("epochs", "order"), [(1, Order.FORWARD), (1, Order.REVERSE), (10, Order.REVERSE)]
)
def test_vectors_on_a_plane_are_random_allocation(epochs, order):
    """One of two steps of each epoch: the exact room has this law by another way."""
    pair = NormalVectors(STEPS, 0.8, VectorMixture((0.5, 0.5), STEPS), NOWHERE, times=epochs)
    curve = random_allocation(0.8, steps_per_epoch=2, steps=2 * epochs)
    low, high = curve.epsilon_bracket(1e-3, order=order)
    content = {
        "claim": "a", "quantity": "epsilon", "at": 1e-3, "claimed": 0.9 * low, "slack": 0.0,
        "order": order.value, "construction": "b", "pair": plain_pair(pair),
    }  # fmt: skip
    result = recompute(content)
    assert result.confirmed, result.lines()
    assert result.exact.value - result.exact.error <= high
    assert low <= result.exact.value + result.exact.error
    assert result.exact.error < 0.02 * low
    # the planted errors: the truth, and a record that is in no step
    assert not recompute({**content, "claimed": 1.02 * high}).stands
    assert not recompute({**content, "pair": {**plain_pair(pair), "first": NOWHERE_PLAIN}}).stands


NOWHERE_PLAIN = {"weights": [1.0], "vectors": [[0.0, 0.0]]}


def test_vectors_in_more_dimensions_are_left_to_the_reader():
    steps = tuple(tuple(float(i == j) for j in range(3)) for i in range(3))
    pair = NormalVectors(
        steps, 1.0, VectorMixture((0.3, 0.3, 0.4), steps), VectorMixture((1.0,), ((0.0,) * 3,))
    )
    content = {
        "claim": "a", "quantity": "epsilon", "at": 1e-3, "claimed": 0.1, "slack": 0.0,
        "order": "forward", "construction": "b", "pair": plain_pair(pair),
    }  # fmt: skip
    result = recompute(content)
    assert result.exact.outcome is Outcome.NOT_COMPUTABLE
    assert "the means span 3 dimensions" in result.lines()[1]
    assert not result.stands


def test_equal_steps_in_a_row_are_written_once():
    push, still = (Step((Affine(shift),), (1.0,), 0.5) for shift in (0.3, 0.0))
    plain = plain_pair(Pair(process(still, still, push, still), process(push, push, times=5)))
    (path,), (repeated,) = plain["first"]["paths"], plain["second"]["paths"]
    assert [(s["times"], len(s["steps"])) for s in path["segments"]] == [(2, 1), (1, 2)]
    assert [(s["times"], len(s["steps"])) for s in repeated["segments"]] == [(5, 2)]


def test_a_chain_of_millions_of_steps_is_a_normal_law():
    m = NoisySGD(
        steps=3_000_000,
        dataset_size=10,
        batch_size=10,
        step_size=0.1,
        noise_std=200.0,
        lipschitz=1.0,
        smoothness=1.0,
    )
    true = GaussianCurve(math.sqrt(3e6) * 2 / 2000).epsilon(1e-5)
    found = witness(EpsilonDelta(((0.7 * true, 1e-5),)), TwoSidedWalk(m), m)
    result = recompute(found)
    assert abs(result.exact.value - true) <= result.exact.error < 1e-3
    assert result.confirmed
    assert "the chain's normal law in closed form" in result.sampled.how


class Pair(Construction):
    """Any two processes."""

    def __init__(self, first, second):
        object.__setattr__(self, "_pair", (first, second))

    def processes(self):
        return self._pair


def process(*steps, times=1, **ends):
    return Process(0.1, (Path(1.0, (Segment(steps, times),)),), **ends)


def kinked(shift):
    return Mapped(lambda x: x - 0.7 * np.clip(x, -0.3, 0.4) + shift, (-0.3, 0.4))


CHAINS = {
    "walls": [
        process(Step((Affine(s, 0.9),), (1.0,), 0.4), times=4, lower=-1.0, upper=1.5)
        for s in (0.1, -0.2)
    ],
    "two maps": [
        process(Step((Affine(s), Affine(0.0, 0.5)), (0.3, 0.7), 0.5), times=3, lower=-2.0)
        for s in (0.3, -0.3)
    ],
    "kinks": [
        process(Step((kinked(s),), (1.0,), 0.5), times=3, lower=-2.0, upper=2.0)
        for s in (0.2, -0.2)
    ],
    "a line": [process(Step((kinked(s),), (1.0,), 0.5), times=3) for s in (0.2, -0.2)],
    "absorbing": [
        process(Step((Affine(s),), (1.0,), 0.5), times=4, lower=-1.0, lower_wall=Wall.ABSORB)
        for s in (0.2, -0.2)
    ],
    "fresh shuffles": TwoSidedWalk(
        NoisySGD(
            steps=7,
            dataset_size=3,
            batch_size=1,
            step_size=0.5,
            noise_std=1.0,
            lipschitz=0.5,
            diameter=4.0,
            batching=Batching.RESHUFFLED,
        )
    ).processes(),
    "several lengths": [
        Process(
            0.0,
            tuple(
                Path(0.5, (Segment((Step((Affine(s),), (1.0,), 0.5),), times),)) for times in (1, 3)
            ),
        )
        for s in (0.2, -0.2)
    ],
}


@pytest.mark.parametrize("name", CHAINS)
def test_quadrature_agrees_with_the_exact_room(name):
    pair = Pair(*CHAINS[name])
    law = exact.curve(pair)
    plain = json.loads(json.dumps(plain_pair(pair)))
    for order in Order:
        nodes = nodes_of(plain, order is Order.REVERSE, 10)
        assert np.sum(np.exp(nodes.log_p)) == pytest.approx(1, abs=1e-9)
        assert renyi_at(nodes, 2.0) == pytest.approx(law.renyi(2.0, order), rel=1e-7)
        # the sum over nodes errs where the ratio crosses
        assert epsilon_at(nodes, 1e-3) == pytest.approx(law.epsilon(1e-3, order), rel=1e-3)


@pytest.mark.parametrize("name", CHAINS)
def test_draws_follow_the_chain(name):
    pair = Pair(*CHAINS[name])
    plain = json.loads(json.dumps(plain_pair(pair)))
    x = drawing(plain, "first")(np.random.default_rng(1), 100_000)
    law = exact.curve(pair).first
    for threshold in (-0.8, 0.0, 0.7):
        inside = int(np.count_nonzero(x <= threshold))
        p = float(law.cdf(threshold))
        assert binomtest(inside, x.size, min(p, 1.0)).pvalue > 1e-4


LATTICES = {
    "sampled": {
        "dataset_size": 32,
        "batching": Batching.WITHOUT_REPLACEMENT,
        "relation": Relation.ADD_REMOVE,
    },
    "cyclic": {"dataset_size": 48, "batching": Batching.CYCLIC},
    "fresh shuffles": {"dataset_size": 32, "batching": Batching.RESHUFFLED},
}


@pytest.mark.parametrize("name", LATTICES)
def test_lattice_walks_are_recomputed_from_their_stairs(name):
    m = NoisySGD(
        steps=3, batch_size=16, step_size=1.0, noise_std=1 / 8, clip_norm=1.0, convex=False,
        **LATTICES[name],
    )  # fmt: skip
    pair = LatticeWalk.suited(m, spacing=7.0)
    law = exact.curve(pair)
    plain = json.loads(json.dumps(plain_pair(pair)))
    for order in Order:
        nodes = nodes_of(plain, order is Order.REVERSE, 10)
        assert np.sum(np.exp(nodes.log_p)) == pytest.approx(1, abs=1e-9)
        assert renyi_at(nodes, 2.0) == pytest.approx(law.renyi(2.0, order), rel=1e-7)
    low = law.epsilon_bracket(1e-2)[0]
    found = witness(EpsilonDelta(((0.5 * low, 1e-2),)), pair, m)
    result = recompute(found)
    assert result.confirmed, result.lines()
    # the planted errors: the truth, and a record that pushes nowhere
    assert not recompute(replace(found, claimed=1.01 * low)).stands
    same = replace(found, pair={**found.pair, "second": found.pair["first"]})
    assert recompute(same).exact.outcome is Outcome.NOT_CONFIRMED


def test_maps_that_are_no_broken_lines_have_no_witness():
    wavy = process(Step((Mapped(np.sin),), (1.0,), 0.5))
    with pytest.raises(ValueError, match="update maps must be piecewise linear for a witness"):
        plain_pair(Pair(wavy, wavy))


def test_normal_laws_by_recursion():
    step = Step((Affine(0.3, 0.5),), (1.0,), 2.0)
    plain = plain_pair(Pair(process(step, times=7), process(step, times=7)))
    mean, variance = 0.1, 0.0
    for _ in range(7):
        mean, variance = 0.5 * mean + 0.3, 0.25 * variance + 4.0
    ((weight, found, std),) = normals_of(plain, "first")
    assert (weight, found, std) == pytest.approx((1.0, mean, math.sqrt(variance)), rel=1e-12)


@pytest.mark.parametrize(("hits", "draws"), [(0, 50), (3, 50), (50, 50), (170, 100_000)])
def test_limits_are_clopper_pearson(hits, draws):
    """At the limit the count is just that improbable."""
    low, high = float(lower_limit(hits, draws, 0.01)), float(upper_limit(hits, draws, 0.01))
    assert low <= hits / draws <= high
    if hits:
        assert binom.sf(hits - 1, draws, low) == pytest.approx(0.01, rel=1e-6)
    if hits < draws:
        assert binom.cdf(hits, draws, high) == pytest.approx(0.01, rel=1e-6)


def test_a_ladder_stays_below_the_mean():
    """E exp(X) of a standard normal is e^(1/2): 400 limits, none above; without limits many are."""
    x = np.linspace(-8, 8, 4001)
    masses = norm.logpdf(x) + math.log(x[1] - x[0])
    steps = ladder(x, masses)
    rng = np.random.default_rng(4)
    bounds, plain = [], []
    for _ in range(400):
        draws = rng.standard_normal(2000)
        hits = np.array([np.count_nonzero(draws > level) for level in steps.levels])
        bounds.append(steps.mean_at_least(hits, 2000))
        plain.append(float(np.mean(np.exp(draws))))
    true = math.exp(0.5)
    assert max(bounds) < true
    assert np.median(bounds) > 0.5 * true
    assert np.mean(np.array(plain) > true) > 0.3
    # the planted error: rises counted twice
    twice = Ladder(steps.levels, 2 * steps.rises)
    assert twice.mean_at_least(hits, 2000) > true


def test_the_module_stands_alone(tmp_path):
    """A copy of the file, without the package, confirms a refutation and denies a planted one."""
    source = FilePath(recomputing.__file__)
    script = tmp_path / "alone.py"
    script.write_bytes(source.read_bytes())
    file = tmp_path / "lie.witness.json"
    found = witness(*EXAMPLES["chain, epsilon"])
    for claimed, status, last in (
        (found.claimed, 0, "confirmed in both ways"),
        (1.01 * found.bracket[0], 1, "not confirmed"),
    ):
        file.write_text(replace(found, claimed=claimed).to_json())
        done = subprocess.run(
            [sys.executable, "-I", "-c", ALONE, str(script), str(file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == status, done.stderr
        assert done.stdout.splitlines()[-1].strip() == last


ALONE = """
import runpy, sys
sys.modules["audit"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_content_of_a_file_is_understood_too():
    found = witness(*EXAMPLES["finite, renyi"])
    assert recompute(json.loads(found.to_json())) == recompute(found)
    with pytest.raises(ValueError, match="quantity must be one of epsilon, Renyi divergence, mu"):
        recompute({**json.loads(found.to_json()), "quantity": "luck"})
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, got -1"):
        recompute(found, seed=-1)


def test_what_mu_allows():
    for epsilon, mu in ((0.0, 1.0), (2.0, 0.7), (5.0, 3.0)):
        assert gaussian_delta(epsilon, mu) == pytest.approx(GaussianCurve(mu).delta(epsilon))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 7}, "witness must have format 1"),
        ({"claimed": None}, "claimed must be a number, got None"),
        ({"bracket": 3}, "bracket must be a list, got 3"),
        ({"bracket": [1, 2, 3]}, "bracket must be a list of 2, got"),
        ({"claimed": "inf"}, "claimed must be a finite number, got inf"),
        ({"order": "sideways"}, "order must be one of forward, reverse, got 'sideways'"),
        (
            {"quantity": "luck"},
            "quantity must be one of epsilon, Renyi divergence, mu, 1 - beta, got 'luck'",
        ),
        ({"pair": {}}, "pair must be a mapping with a kind"),
        ({"extra": 1}, "extra must be left out of a Witness, got 1"),
        ({"recipe": "none"}, "recipe must be a list, got 'none'"),
        ({"claim": 3}, "claim must be text, got 3"),
        ({"evidence": "luck"}, "evidence must be one of exact, sampled, got 'luck'"),
    ],
)
def test_bad_files_say_what_is_wrong(change, message):
    text = witness(*EXAMPLES["finite, epsilon"]).to_json()
    with pytest.raises(ValueError, match=message):
        Witness.from_json(json.dumps({**json.loads(text), **change}))
    with pytest.raises(ValueError, match="witness must be JSON"):
        Witness.from_json("no {")


def test_bad_pairs_say_what_is_wrong():
    found = witness(*EXAMPLES["chain, epsilon"])
    with pytest.raises(ValueError, match="pair must be of a known kind, got 'luck'"):
        recompute(replace(found, pair={"kind": "luck"}))
    with pytest.raises(ValueError, match="pair must be plain numbers as this package writes them"):
        recompute(replace(found, pair={"kind": "process", "first": {}, "second": {}}))


# deltas as users claim them, down to where masses at nodes are of the size of their rounding
DELTAS = (1e-2, 1e-7, 1e-13, 1e-15)
SMALL_DELTA_LAWS = {
    "normal": laws.Gaussian(sensitivity=1.0, noise_std=1.0),
    "mixture": Mixtures(
        Mixture((0.9, 0.1), (0.0, 1.0), (1.0, 1.0)), Mixture((1.0,), (0.0,), (1.0,))
    ),
    "mixtures": Mixtures(
        Mixture((0.98, 0.02), (0.0, 1.0), (4.0, 4.0)), Mixture((1.0,), (0.0,), (4.0,)), times=100
    ),
    "finite": Finite((0.5, 0.3, 0.2), (0.4, 0.35, 0.25), times=100),
    "many counts": Finite((0.5, 0.3, 0.15, 0.05), (0.4, 0.4, 0.1, 0.1), times=200),
    "discrete": laws.DiscreteGaussian(sensitivity=1, noise_std=2.0, times=9),
    "Laplace": laws.Laplace(sensitivity=1.0, scale=10.0, times=30),
}


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("name", SMALL_DELTA_LAWS)
def test_quadrature_is_right_at_every_delta(name, order):
    """A planted lie is confirmed, a truth never, and the error reaches the true number."""
    pair = SMALL_DELTA_LAWS[name]
    curve, plain = exact.curve(pair), plain_pair(pair)
    for delta in DELTAS:
        low, high = curve.epsilon_bracket(delta, order)
        if low == 0:
            continue
        found = by_quadrature(plain, order, "epsilon", delta, 0.997 * low)
        assert found.outcome is Outcome.CONFIRMED, (delta, found)
        # so no claim of the true number or more is confirmed, and 0.3 % above it is denied
        assert found.value - found.error <= high * (1 + 1e-12), (delta, found)
        assert low * (1 - 1e-12) <= found.value + found.error <= 1.003 * high, (delta, found)


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("name", ["mixtures", "many counts", "discrete"])
def test_other_numbers_of_several_draws(name, order):
    pair = SMALL_DELTA_LAWS[name]
    curve, plain = exact.curve(pair), plain_pair(pair)
    brackets = [
        ("Renyi divergence", 2.0, curve.renyi_bracket(2.0, order)),
        ("Renyi divergence", 20.0, curve.renyi_bracket(20.0, order)),
        ("1 - beta", 0.3, curve.power_bracket(0.3, order)),
        ("1 - beta", 1e-6, curve.power_bracket(1e-6, order)),
    ]
    for quantity, at, (low, high) in brackets:
        found = by_quadrature(plain, order, quantity, at, 0.99 * low)
        assert found.outcome is Outcome.CONFIRMED, (quantity, at, found)
        assert found.value - found.error <= high * (1 + 1e-12), (quantity, at, found)
        assert found.value + found.error >= low * (1 - 1e-12), (quantity, at, found)


def by_quadrature(plain, order, quantity, at, claimed):
    content = {
        "claim": "a", "quantity": quantity, "at": at, "claimed": claimed, "slack": 0.0,
        "order": order.value, "construction": "b", "pair": plain,
    }  # fmt: skip
    number = recomputing._quantity_of(content)
    nodes = recomputing._fine_and_coarse(plain, order is Order.REVERSE, number)
    return recomputing._by_quadrature(number, *nodes)


def test_a_number_with_a_large_error_decides_nothing():
    content = json.loads(witness(*EXAMPLES["chain, epsilon"]).to_json())
    exactly = recompute(content).exact
    content["claimed"] = exactly.value - exactly.error / 2
    result = recompute(content)
    assert result.exact.outcome is Outcome.CANNOT_DECIDE
    assert not result.confirmed
    assert "cannot decide" in result.lines()[1]


def test_many_draws_are_counted_as_binomials_are():
    # of 10^5 draws of a fair coin tilted to .5: the FFT's error bound holds, and is not large
    masses = np.zeros(2**18)
    masses[:2] = 0.5
    law, error = recomputing._power_of(masses, 10**5)
    true = binom.pmf(np.arange(10**5 + 1), 10**5, 0.5)
    off = float(np.max(np.abs(law[: true.size] - true)))
    assert off <= error + 1e-11 * np.max(true)  # SciPy's own error is relative
    assert error < 1e-8 * np.max(true)


def test_draws_confirm_a_lie_about_discrete_laws_in_both_orders():
    pair = laws.DiscreteGaussian(sensitivity=1, noise_std=2.0, times=9)
    for order in Order:
        low = exact.curve(pair).epsilon_bracket(1e-2, order)[0]
        content = {
            "claim": "a", "quantity": "epsilon", "at": 1e-2, "claimed": 0.9 * low, "slack": 0.0,
            "order": order.value, "construction": "b", "pair": plain_pair(pair),
        }  # fmt: skip
        assert recompute(content).confirmed
        # the planted error: the truth is confirmed by neither way
        result = recompute({**content, "claimed": 1.01 * low})
        assert not result.exact.confirms
        assert not result.sampled.confirms


def test_several_draws_that_one_law_never_gives_are_infinitely_far():
    # 1 - .999^400 of the first law's draws show an outcome that the second does not have
    pair = Finite((0.4, 0.4, 0.1, 0.099, 0.001), (0.5, 0.3, 0.15, 0.05, 0.0), times=400)
    assert exact.curve(pair).epsilon_bracket(1e-5) == (math.inf, math.inf)
    found = by_quadrature(plain_pair(pair), Order.FORWARD, "epsilon", 1e-5, 1e3)
    assert (found.value, found.outcome) == (math.inf, Outcome.CONFIRMED)
    # and where that is rarer than delta it is not
    low, high = exact.curve(pair).epsilon_bracket(0.4)
    found = by_quadrature(plain_pair(pair), Order.FORWARD, "epsilon", 0.4, 0.99 * low)
    assert found.confirms
    assert found.value - found.error <= high

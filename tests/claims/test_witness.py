"""Witnesses: files that come back the same, and refutations computed again in two ways."""

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

from audit import Batching, NoisySGD, exact
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
    Mapped,
    Process,
    ResetWalk,
    Segment,
    Step,
    TwoSidedWalk,
    Wall,
)
from audit.constructions.explicit import Densities, Finite, Mixture, Mixtures
from audit.constructions.process import Path
from audit.curves import GaussianCurve, Order


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
    assert result.lines()[-1] == "  confirmed in one way; the other could not be tried"
    assert "would not show it" in result.sampled.how


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
        ({"evidence": "luck"}, "evidence must be one of exact, sampled, sequential, got 'luck'"),
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

"""Feldman, Mironov, Talwar and Thakurta: what holds, what is refuted, and where it is exact."""

from dataclasses import replace

import numpy as np
import pytest

from audit import Relation, Release, bounds, exact
from audit.bounds import Status
from audit.constructions import ResetWalk, TwoSidedWalk
from papers.fmtt18_statements import appendix_b_noise
from tests.bounds import grid
from tests.bounds.fmtt18.one_pass import one_pass, renyi
from tests.bounds.grid import random_mechanism, random_members

# --- Theorems 1, 22, 23, 24 ---------------------------------------------------------------------


def test_theorem_1_lacks_a_square():
    m = one_pass(1)
    assert renyi("theorem_1", m, distance=2.0) == pytest.approx(2.0)
    assert renyi("theorem_1", m) == pytest.approx(2.0)
    true = exact.curve(TwoSidedWalk(m)).renyi_bracket(2.0)
    assert true[0] <= 4.0 <= true[1] * (1 + 1e-12)
    assert renyi("theorem_22", m) == pytest.approx(4.0)
    assert bounds.CATALOGUE["fmtt18.theorem_1"].status is Status.REFUTED
    # the square, by Theorem 22 with the distance as first shift
    long = one_pass(10)
    squared = renyi("theorem_22", long, shifts=[2.0] + [0.0] * 9)
    assert squared == pytest.approx(2.0 * 4 / (2 * 10))


@pytest.mark.parametrize("alpha", [1.001, 2.0, 30.0])
def test_exact_for_linear_losses(alpha):
    for n in (1, 4, 25):
        m = one_pass(n, noise_std=0.7)
        first = exact.curve(TwoSidedWalk(m, position=0))
        assert renyi("theorem_23", m, alpha, index=1) == pytest.approx(first.renyi(alpha), 1e-10)
        shifts = [2.0] + [0.0] * (n - 1)
        assert renyi("theorem_22", m, alpha, shifts=shifts) == pytest.approx(first.renyi(alpha))
    local = one_pass(1, noise_std=0.7)
    law = exact.curve(TwoSidedWalk(local))
    for id in ("lemma_27", "lemma_27_corrected"):
        assert renyi(id, local, alpha) == pytest.approx(law.renyi(alpha), rel=1e-10)
    gaussian = bounds.evaluate("fmtt18.lemma_27_corrected", local)
    assert gaussian.epsilon(1e-5) == pytest.approx(law.epsilon(1e-5), rel=1e-9)


def test_index_from_1():
    m = one_pass(10)
    values = [renyi("theorem_23", m, index=t) for t in range(1, 11)]
    assert values == pytest.approx([4 / (11 - t) for t in range(1, 11)])
    assert renyi("theorem_23", m) == pytest.approx(4.0)
    skip = replace(m, release=Release.RANDOM_SKIP)
    assert renyi("theorem_24", skip, index=7) == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"index must be at most dataset_size \(10\), got 11"):
        renyi("theorem_23", m, index=11)
    with pytest.raises(ValueError, match="index must be a whole number of at least 1, got 0"):
        renyi("theorem_23", m, index=0)
    zero = replace(m, relation=Relation.ZERO_OUT)
    assert renyi("theorem_23", zero) == pytest.approx(1.0)


def test_linear_losses_are_far_from_the_last_record():
    m = one_pass(10)
    linear = exact.curve(TwoSidedWalk(m, position=9))
    assert linear.renyi(2.0) == pytest.approx(0.4, rel=1e-9)
    assert renyi("theorem_23", m, index=10) == pytest.approx(4.0)
    # quadratic records forget the noise before the last step
    bounded = one_pass(10, diameter=2.0)
    forgetting = exact.curve(ResetWalk(bounded, position=9))
    assert 0.4 < forgetting.renyi(2.0) < 4.0


def test_one_pass_is_sound_for_each_record():
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(12):
        m = random_mechanism(rng)
        m = replace(m, **grid.one_pass(m))
        applies = "fmtt18.theorem_23" in bounds.applicable(m)
        for index in range(1, m.dataset_size + 1) if applies else ():
            claims = [renyi("theorem_23", m, a, index=index) for a in (1.5, 8.0)]
            for pair in random_members(m, rng):
                law = exact.curve(replace(pair, position=index - 1))
                for alpha, claim in zip((1.5, 8.0), claims, strict=True):
                    assert law.renyi_bracket(alpha)[0] <= claim * (1 + 1e-9)
                    compared += 1
    assert compared > 60


# --- Theorem 35 ---------------------------------------------------------------------------------


def test_n_passes():
    m = one_pass(6, steps=36, noise_std=3.0, diameter=2.0)
    assert renyi("theorem_35", m) == pytest.approx(2 * 4 / 9)
    assert bounds.evaluate("at22.eq_5_4", m).renyi(2.0) <= renyi("theorem_35", m)
    rng = np.random.default_rng(2)
    for pair in random_members(m, rng):
        assert exact.curve(pair).renyi_bracket(2.0)[0] <= renyi("theorem_35", m)
    with pytest.raises(bounds.NotApplicable, match="needs n passes over the n records"):
        renyi("theorem_35", replace(m, steps=30))


def test_noise_of_appendix_b():
    for epsilon, delta in ((0.1, 1e-5), (2.0, 1e-8), (4.0, 1e-5)):
        noise = appendix_b_noise(1.0, epsilon=epsilon, delta=delta)
        m = one_pass(3, steps=9, noise_std=noise)
        assert bounds.evaluate("fmtt18.theorem_35", m).epsilon(delta) <= epsilon
    with pytest.raises(ValueError, match=r"epsilon must be at most 2 ln\(1/delta\)/5, got 5"):
        appendix_b_noise(1.0, epsilon=5, delta=1e-5)


# --- what every entry does ----------------------------------------------------------------------


def test_refusals_name_the_assumption():
    cases = {
        "needs one pass over the records": {"steps": 4},
        "needs convex losses, got convex=False": {"convex": False},
        "needs unclipped gradients": {"clip_norm": 0.1},
        "needs eta <= 2/M": {"smoothness": None},
        "needs the release of the last iterate, got release='random stop'": {
            "release": Release.RANDOM_STOP
        },
    }
    for message, changes in cases.items():
        with pytest.raises(bounds.NotApplicable, match=f"fmtt18.theorem_23 {message}"):
            renyi("theorem_23", one_pass(3, **changes))
    # local privacy needs neither convexity nor smoothness
    rough = one_pass(3, convex=False, smoothness=None, clip_norm=0.1)
    assert renyi("lemma_27_corrected", rough) == pytest.approx(0.04)

"""Claims at delta = 0: judged by the largest log-likelihood ratio, refuted with a witness."""

from __future__ import annotations

import json
import math

import pytest

import audit
from audit.claims.claim import Claim
from audit.claims.judge import judge
from audit.claims.judgement import Judgement, Verdict
from audit.claims.statements import statement_of
from audit.claims.witness import Witness
from audit.constructions import TwoSidedWalk
from audit.constructions.explicit import Densities, Finite, Mixture, Mixtures
from tests.verifying import is_refuted

BOUNDED = audit.NoisySGD(steps=4, dataset_size=4, batch_size=4, step_size=0.1, noise_std=1.0,
                         lipschitz=1.0, diameter=1.0)  # fmt: skip
LINE = audit.NoisySGD(steps=4, dataset_size=4, batch_size=2, step_size=0.1, noise_std=1.0,
                      lipschitz=1.0, batching=audit.Batching.POISSON)  # fmt: skip
SUBSAMPLED = Mixtures(Mixture((0.9, 0.1), (0.0, 1.0), (1.0, 1.0)), Mixture((1.0,), (0.0,), (1.0,)))
WALK = TwoSidedWalk(BOUNDED)
# of a monotone ratio, that of the atoms at a wall
WALK_EPSILON = audit.exact.curve(WALK).epsilon(0.0)
PAIRS = {
    "randomised response": (Finite((0.75, 0.25), (0.25, 0.75)), math.log(3)),
    "no overlap": (Finite((0.5, 0.5), (1.0, 0.0)), math.inf),
    "exponential": (Densities(0.5, -1.0, 2.0), 1.4999999),
    "subsampled Gaussian": (SUBSAMPLED, math.inf),
    "walk between walls": (WALK, WALK_EPSILON),
    "walk on a line": (TwoSidedWalk(LINE), math.inf),
}


def judged(pair, epsilon: float) -> Judgement:
    claim = Claim(id="pure", mechanism=getattr(pair, "mechanism", None), pair=pair,
                  statement=statement_of(epsilon=epsilon, delta=0.0))  # fmt: skip
    return judge(claim)


@pytest.mark.parametrize("name", PAIRS)
def test_a_claim_below_is_refuted_and_the_witness_is_verified(name: str) -> None:
    pair, true = PAIRS[name]
    found = judged(pair, 0.99 * min(true, 20.0))
    assert found.verdict is Verdict.REFUTED
    assert found.witness is not None
    assert found.witness.at == 0
    assert is_refuted(Witness.from_json(found.witness.to_json()))


@pytest.mark.parametrize("name", PAIRS)
def test_a_claim_at_the_true_epsilon_stands(name: str) -> None:
    pair, true = PAIRS[name]
    if math.isfinite(true):
        assert judged(pair, true * (1 + 1e-7)).verdict is Verdict.CONSISTENT


def test_a_witness_of_a_true_claim_is_not_confirmed() -> None:
    found = judged(PAIRS["exponential"][0], 1.4)
    assert found.witness is not None
    content = {**json.loads(found.witness.to_json()), "claimed": 1.51}
    assert not is_refuted(content)

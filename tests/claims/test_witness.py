"""Witnesses: files round-trip, and refutations are verified in ball arithmetic."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from audit import Batching, NoisySGD, Relation
from audit.claims.claim import statement_of
from audit.claims.partition import _Draws, partition_of
from audit.claims.witness import Witness, _gradients, _pieces, _total, counted, plain_pair
from audit.codec import encode
from audit.constructions import (
    Affine,
    BiasedWalk,
    Construction,
    GradientPair,
    LatticeWalk,
    Mapped,
    PiecewiseLinear,
    Process,
    ResetWalk,
    Segment,
    Step,
    TwoSidedWalk,
    suggested_members,
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
from audit.curves.quantities import QUANTITIES, ClaimedNumber, EpsilonAtDelta, Mu, TotalVariation
from audit.estimation import PilotSplit, audit_samples
from tests.mechanisms import noisy_sgd

from .written import full, judged, law_of

pytest.importorskip("flint")

from audit_verify import Answer, verify
from audit_verify.runs import chains


def walled(**changes):
    values = {"steps": 5, "dataset_size": 2, "batch_size": 1, "noise_std": 0.6, "lipschitz": 0.5,
              "diameter": 2.0, "batching": Batching.WITHOUT_REPLACEMENT}  # fmt: skip
    return noisy_sgd(**{**values, **changes})


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
    found = judged(mechanism, id="a.claim", statement=statement, pair=pair)
    assert found.witness is not None, found.message
    return found.witness


BOUNDED = walled(steps=4, dataset_size=4, batch_size=4, step_size=0.1, noise_std=1.0,
                 lipschitz=1.0, diameter=1.0, batching=Batching.FULL)  # fmt: skip
LINE = replace(BOUNDED, batch_size=2, diameter=None, batching=Batching.POISSON)


def pure(epsilon):
    return statement_of(epsilon=0.99 * epsilon, delta=0.0)


WALK_EPSILON = law_of(TwoSidedWalk(BOUNDED)).epsilon(0.0)
# at delta = 0, by the largest likelihood ratio, which is infinite in the second ones
PURE = {
    "response, pure": (pure(math.log(3)), Finite((0.75, 0.25), (0.25, 0.75)), None),
    "densities, pure": (pure(1.4999999), Densities(0.5, -1.0, 2.0), None),
    "draws, pure": (pure(1.5), laws.Laplace(sensitivity=1.0, scale=2.0, times=3), None),
    "walk between walls, pure": (pure(WALK_EPSILON), TwoSidedWalk(BOUNDED), BOUNDED),
}
ENDLESS = {
    "no overlap": (pure(20.0), Finite((0.5, 0.5), (1.0, 0.0)), None),
    "subsampled, pure": (
        pure(20.0),
        Mixtures(Mixture((0.9, 0.1), (0.0, 1.0), (1.0, 1.0)), Mixture((1.0,), (0.0,), (1.0,))),
        None,
    ),
    "walk on a line, pure": (pure(20.0), TwoSidedWalk(LINE), LINE),
}
FAR = walled(steps=1, dataset_size=1, noise_std=1.0, diameter=40.0)
MILLIONS = full(steps=3_000_000, noise_std=200.0)  # of mu = sqrt(3e6) * 2 / 2000
MILLIONS_EPSILON = GaussianCurve(math.sqrt(3e6) * 2 / 2000).epsilon(1e-5)
EXAMPLES = {
    "chain, renyi": (statement_of(renyi={2.0: 0.05}), RESET, walled()),
    "chain, epsilon": (statement_of(epsilon=0.3, delta=0.01), RESET, walled()),
    "chain, mu": (statement_of(mu=0.4), RESET, walled()),
    "chain, power": (statement_of(tradeoff={0.1: 0.8}), RESET, walled()),
    "walk, epsilon": (statement_of(epsilon=0.1, delta=0.01), BIASED, walled()),
    # Gaussians at distance 1, with walls far away: no formula without the law
    "walk, rare": (statement_of(epsilon=6.0, delta=1e-12), TwoSidedWalk(FAR), FAR),
    "millions of steps, a normal law": (
        statement_of(epsilon=0.999 * MILLIONS_EPSILON, delta=1e-5),
        TwoSidedWalk(MILLIONS),
        MILLIONS,
    ),
    "normals, epsilon": (statement_of(epsilon=2.0, delta=1e-3), NORMALS, None),
    "normals, renyi": (statement_of(renyi={3.0: 5.0}), NORMALS, None),
    "normals, rare": (statement_of(epsilon=13.0, delta=1e-8), NORMALS, None),
    "finite, epsilon": (statement_of(epsilon=5.0, delta=1e-3), FINITE, None),
    "finite, renyi": (statement_of(renyi={2.0: 3.0}), FINITE, None),
    "vectors, epsilon": (statement_of(epsilon=3.0, delta=1e-3), CORRELATED, None),
    "vectors, renyi": (statement_of(renyi={2.0: 1.0}), replace(CORRELATED, times=2), None),
    "vectors, mu": (statement_of(mu=0.9), CORRELATED, None),
    "densities, epsilon": (statement_of(epsilon=0.8, delta=1e-2), DENSITIES, None),
    "densities, renyi": (statement_of(renyi={4.0: 0.4}), DENSITIES, None),
    **PURE,
}


@functools.cache
def example(name):
    return witness(*(EXAMPLES | ENDLESS)[name])


def answer(found: Witness) -> Answer:
    return verify(json.loads(found.to_json())).answer


@pytest.mark.parametrize("name", EXAMPLES | ENDLESS)
def test_a_refutation_is_verified_and_the_file_comes_back(name):
    found = example(name)
    again = Witness.from_json(found.to_json())
    assert again == found
    assert 4 <= len(found.recipe) <= 12
    first = "first" if found.order is Order.FORWARD else "second"
    assert found.recipe[0].startswith(f"Let P be the law called '{first}'")
    low, high = found.bracket
    assert low > found.claimed
    assert high is None or high == pytest.approx(low, rel=0.1)
    outcome = verify(json.loads(found.to_json()))
    assert outcome.answer is Answer.REFUTED, outcome


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_number_that_is_true_is_not_refuted(name):
    found = example(name)
    raised = {"mu": 1.05 * found.bracket[0], "1 - beta": found.bracket[0] + 0.01}
    claimed = raised.get(found.quantity, 1.01 * found.bracket[0])
    assert answer(replace(found, claimed=claimed)) is Answer.NOT_REFUTED


def twice(run):
    """Return a run whose differing record has the gradient of the others in both datasets."""
    (phase,) = run["phases"]
    own = phase["others"][0][1]
    second = None if phase["second"] is None else own
    return {**run, "phases": [{**phase, "first": own, "second": second}]}


def test_both_ends_of_brackets_and_both_orders_are_in_the_table():
    found = [example(name) for name in ("normals, epsilon", "finite, epsilon")]
    assert all(one.bracket[1] is not None for one in found)
    reverse = Finite((0.5, 0.5), (0.75, 0.25))
    assert witness(pure(math.log(2)), reverse).order is Order.FORWARD
    assert witness(pure(math.log(2)), Finite(reverse.second, reverse.first)).order is Order.REVERSE


def test_a_pair_that_was_tampered_with_is_not_refuted():
    found = example("chain, epsilon")
    same = replace(found, pair=twice(found.pair))
    assert answer(same) is Answer.NOT_REFUTED


@pytest.mark.parametrize("alpha", [pytest.param(2.0, marks=pytest.mark.slow), 8.0])
def test_a_witness_on_a_renyi_divergence_ends_where_it_is_decided(alpha):
    """A window around all cells would be twice as wide."""
    low, _ = law_of(TwoSidedWalk(LINE)).renyi_bracket(alpha)
    found = witness(statement_of(renyi={alpha: 0.95 * low}), TwoSidedWalk(LINE), LINE)
    left, right = found.partition["window"]
    assert right - left < 7
    assert 50 <= found.partition["bits"] < 150
    assert answer(found) is Answer.REFUTED


def test_vectors_on_a_plane_are_verified_on_products_of_intervals():
    pair = NormalVectors(STEPS, 0.8, VectorMixture((0.5, 0.5), STEPS), NOWHERE, times=10)
    plain = plain_pair(pair)
    content = refutation(plain, Order.FORWARD, "epsilon", 1e-3, 3.0, 5.0)
    assert verify(content).answer is Answer.REFUTED
    nowhere = {**plain, "first": plain["second"]}
    assert verify({**content, "pair": nowhere}).answer is Answer.NOT_REFUTED


def test_vectors_in_more_dimensions_have_no_partition():
    steps = tuple(tuple(float(i == j) for j in range(3)) for i in range(3))
    pair = NormalVectors(
        steps, 1.0, VectorMixture((0.3, 0.3, 0.4), steps), VectorMixture((1.0,), ((0.0,) * 3,))
    )
    with pytest.raises(ValueError, match="must have values on a line or plane, got 3 rows"):
        refutation(plain_pair(pair), Order.FORWARD, "epsilon", 1e-3, 0.1, 0.2)


KINKED = PiecewiseLinear((-0.9, -0.1, 0.33), (-1.0, -0.2, 0.23), (0.0, 0.0))


@pytest.mark.parametrize("size", [30_000, 1_000_000])
@pytest.mark.parametrize("choice", [Batching.FULL, Batching.CYCLIC, Relation.ADD_REMOVE])
def test_gradients_of_large_batches_are_those_of_the_pair(
    size: int, choice: Batching | Relation
) -> None:
    """A record's part of a batch is below the rounding of the batch's own update."""
    batching = choice if isinstance(choice, Batching) else Batching.FULL
    relation = choice if isinstance(choice, Relation) else Relation.REPLACE_ONE
    n = 2 * size if choice is Batching.CYCLIC else size
    m = walled(dataset_size=n, batch_size=size, batching=batching, relation=relation,
               step_size=0.3, lipschitz=1.0)  # fmt: skip
    prime = PiecewiseLinear.constant(0.0 if relation is Relation.ADD_REMOVE else 1.0)
    kinked = GradientPair(
        m, others=KINKED, record=PiecewiseLinear.constant(-1.0), record_prime=prime
    )
    for pair in (kinked, ResetWalk(m, curvature=0.9, cap=0.77)):
        plain = plain_pair(pair)
        chains(plain, encode(m))  # raises unless the claim allows the gradients
        written = plain["phases"][0]["first"], plain["phases"][0]["second"]
        assert written[0] == [[None, 0.0, -0.3]]
        assert written[1] == (None if relation is Relation.ADD_REMOVE else [[None, 0.0, 0.3]])


@pytest.mark.parametrize("batching", [Batching.CYCLIC, Batching.POISSON])
def test_stated_gradients_are_those_of_the_updates(batching: Batching) -> None:
    m = walled(dataset_size=4, batch_size=2, batching=batching, step_size=0.3, lipschitz=1.0)
    bent = PiecewiseLinear.clipped(0.5, 0.1, 0.3)
    shared = GradientPair(m, others=bent, shared=PiecewiseLinear.clipped(0.2, 0.0, 0.1),
                          record=bent, record_prime=PiecewiseLinear.constant(0.3))  # fmt: skip
    for pair in (shared, *suggested_members(m)):
        for one in (batch for process in pair.processes() for batch in process.batches):
            both = [_gradients(replace(one, gradients=x), 2) for x in (one.gradients, ())]
            for stated, read in zip(*both, strict=True):
                if stated is not None and read is not None:
                    apart = _total([(1, stated), (-1, read)])
                    assert all(abs(a) + abs(b) < 1e-14 for _, a, b in apart)


def test_equal_steps_in_a_row_are_written_once():
    push, still = (Step((Affine(shift),), (1.0,), 0.5) for shift in (0.3, 0.0))
    plain = plain_pair(Pair(process(still, still, push, still), process(push, push, times=5)))
    (path,), (repeated,) = plain["first"]["paths"], plain["second"]["paths"]
    assert [(s["times"], len(s["steps"])) for s in path["segments"]] == [(2, 1), (1, 2)]
    assert [(s["times"], len(s["steps"])) for s in repeated["segments"]] == [(5, 2)]


class Pair(Construction):
    """Any two processes."""

    def __init__(self, first, second):
        object.__setattr__(self, "_pair", (first, second))

    def processes(self):
        return self._pair


def process(*steps, times=1, **ends):
    return Process(0.1, (Path(1.0, (Segment(steps, times),)),), **ends)


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
def test_lattice_walks_are_verified_on_their_stairs(name):
    m = NoisySGD(
        steps=2, batch_size=16, step_size=1.0, noise_std=1 / 8, clip_norm=1.0, convex=False,
        **LATTICES[name],
    )  # fmt: skip
    pair = LatticeWalk.suited(m, spacing=7.0)
    low = law_of(pair).epsilon_bracket(1e-2)[0]
    found = witness(statement_of(epsilon=0.9 * low, delta=1e-2), pair, m)
    assert answer(found) is Answer.REFUTED
    # the planted errors: the truth, and a record that pushes nowhere
    assert answer(replace(found, claimed=1.01 * low)) is Answer.NOT_REFUTED
    same = replace(found, pair=twice(found.pair))
    assert answer(same) is Answer.NOT_REFUTED


def test_a_function_that_is_a_broken_line_has_a_witness():
    bent = Mapped(lambda x: np.where(x < 1, 0.5 * x, 2 * x - 1.5), (1.0,))
    broken = process(Step((bent,), (1.0,), 0.5))
    assert _pieces(bent) == [(-math.inf, 0.5, 0.0), (1.0, 2.0, -1.5)]
    assert plain_pair(Pair(broken, broken))["kind"] == "process"


@pytest.mark.parametrize("curved", [np.sin, lambda x: x + np.maximum(x - 2, 0) ** 2])
def test_maps_that_are_no_broken_lines_have_no_witness(curved):
    wavy = process(Step((Mapped(curved),), (1.0,), 0.5))
    with pytest.raises(ValueError, match="update maps must be piecewise linear for a witness"):
        plain_pair(Pair(wavy, wavy))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 7}, "witness must have format 3"),
        ({"claimed": None}, "claimed must be a number, got None"),
        ({"bracket": 3}, "bracket must be a list, got 3"),
        ({"bracket": [1, 2, 3]}, "bracket must be a list of 2, got"),
        ({"claimed": "inf"}, "claimed must be a finite number, got inf"),
        ({"order": "sideways"}, "order must be one of forward, reverse, got 'sideways'"),
        (
            {"quantity": "luck"},
            "quantity must be one of epsilon, Renyi divergence, mu, 1 - beta, total variation, got",
        ),
        ({"pair": {}}, "pair must be a mapping with a kind"),
        ({"extra": 1}, "extra must be left out of a Witness, got 1"),
        ({"recipe": "none"}, "recipe must be a list, got 'none'"),
        ({"claim": 3}, "claim must be text, got 3"),
        ({"evidence": "luck"}, "evidence must be one of exact, sampled, got 'luck'"),
    ],
)
def test_bad_files_say_what_is_wrong(change, message):
    text = example("finite, epsilon").to_json()
    with pytest.raises(ValueError, match=message):
        Witness.from_json(json.dumps({**json.loads(text), **change}))
    with pytest.raises(ValueError, match="witness must be JSON"):
        Witness.from_json("no {")


# deltas as users claim them, down to where masses are of the size of a double's rounding
DELTAS = (1e-2, 1e-13)
SMALL_DELTA_LAWS = {
    "normal": laws.Gaussian(sensitivity=1.0, noise_std=1.0),
    "mixture": Mixtures(
        Mixture((0.9, 0.1), (0.0, 1.0), (1.0, 1.0)), Mixture((1.0,), (0.0,), (1.0,))
    ),
    "mixtures": Mixtures(
        Mixture((0.98, 0.02), (0.0, 1.0), (4.0, 4.0)), Mixture((1.0,), (0.0,), (4.0,)), times=20
    ),
    "finite": Finite((0.5, 0.3, 0.2), (0.4, 0.35, 0.25), times=100),
    "many counts": Finite((0.5, 0.3, 0.15, 0.05), (0.4, 0.4, 0.1, 0.1), times=200),
    "discrete": laws.DiscreteGaussian(sensitivity=1, noise_std=2.0, times=9),
    "Laplace": laws.Laplace(sensitivity=1.0, scale=2.0, times=2),
}


@pytest.mark.parametrize(
    ("name", "order"),
    # Laplace laws are their own reverse
    [(n, o) for n in SMALL_DELTA_LAWS for o in Order if n != "Laplace" or o is Order.FORWARD],
)
def test_lies_of_one_percent_are_verified(name, order):
    """A planted lie is refuted, and the truth never."""
    pair = SMALL_DELTA_LAWS[name]
    curve, plain = law_of(pair), plain_pair(pair)
    # Laplace laws have a largest loss, which every delta shows
    for delta in reversed(DELTAS[:1] if name == "Laplace" else DELTAS):
        low = curve.epsilon_bracket(delta, order)[0]
        if low == 0:
            continue
        assert verified(plain, order, "epsilon", delta, 0.99 * low, low) is Answer.REFUTED, delta
    high = curve.epsilon_bracket(DELTAS[0], order)[1]
    truth = verified(plain, order, "epsilon", DELTAS[0], high * (1 + 1e-12), high)
    assert truth is Answer.NOT_REFUTED


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize(
    "name", [pytest.param("mixtures", marks=pytest.mark.slow), "many counts", "discrete"]
)
def test_other_numbers_of_several_draws(name, order):
    pair = SMALL_DELTA_LAWS[name]
    curve, plain = law_of(pair), plain_pair(pair)
    brackets = [
        ("Renyi divergence", 2.0, curve.renyi_bracket(2.0, order)),
        ("Renyi divergence", 20.0, curve.renyi_bracket(20.0, order)),
        ("1 - beta", 0.3, curve.power_bracket(0.3, order)),
        ("1 - beta", 1e-6, curve.power_bracket(1e-6, order)),
        ("total variation", 0.0, curve.delta_bracket(0.0, order)),
    ]
    for quantity, at, (low, _) in brackets:
        lie = verified(plain, order, quantity, at, 0.99 * low, low)
        assert lie is Answer.REFUTED, (quantity, at)
    truth = verified(plain, order, *brackets[0][:2], brackets[0][2][1], brackets[0][2][1])
    assert truth is Answer.NOT_REFUTED


def refutation(plain, order, name, at, claimed, certified):
    """Return the content of a witness on a quantity of a name at a place."""
    (cls,) = (cls for cls in QUANTITIES.values() if cls.name == name)
    places = {"at": at, "claimed": claimed}
    number = ClaimedNumber(cls(at) if cls.place else cls(), claimed)
    partition = partition_of(plain, None, number, order, at, certified)
    content = {
        "quantity": name,
        "format": 3, "claim": "a", **places, "slack": 0.0, "order": order.value,
        "bracket": [0.0, None], "evidence": "exact", "construction": "b", "pair": plain,
        "partition": partition, "mechanism": None, "samples": None,
    }  # fmt: skip
    return json.loads(json.dumps(content))


def test_no_partition_has_more_draws_than_are_verified():
    coins = {"kind": "finite", "first": [0.5, 0.5], "second": [0.4, 0.6], "times": 10**6 + 1}
    with pytest.raises(ValueError, match=r"times must be at most 1e\+06 for a partition"):
        refutation(coins, Order.FORWARD, "epsilon", 1e-5, 1.0, 2.0)


# cells are merged for several draws, but where two outcomes give each count a loss of its own
@pytest.mark.parametrize(
    ("pair", "number", "known"),
    [
        (SMALL_DELTA_LAWS["normal"], ("epsilon", 1e-2), True),
        (laws.Laplace(sensitivity=1.0, scale=2.0), ("epsilon", 0.0), True),
        (Finite((0.5, 0.5), (0.4, 0.6), times=3), ("epsilon", 1e-2), True),
        (SMALL_DELTA_LAWS["many counts"], ("epsilon", 1e-2), False),
        (SMALL_DELTA_LAWS["normal"], ("1 - beta", 0.3), False),
    ],
)
def test_claims_just_below_a_number_need_cells_that_hide_nothing(pair, number, known):
    law, (name, at) = law_of(pair), number
    low = (law.epsilon_bracket(at) if name == "epsilon" else law.power_bracket(at, Order.FORWARD))[
        0
    ]
    claim = plain_pair(pair), Order.FORWARD, name, at, low * (1 - 1e-6), low
    if known:
        assert verified(*claim) is Answer.REFUTED
        # sums of two losses need no more scores than counts
        assert refutation(*claim)["partition"].get("modulus", 4) == 4
        return
    with pytest.raises(ValueError, match=r"^claimed must be at least 0\.0001 below the certified"):
        refutation(*claim)


def verified(*claim):
    return verify(refutation(*claim)).answer


def test_several_draws_that_one_law_never_gives_are_infinitely_far():
    # 1 - .99^40 of the first law's draws show an outcome that the second does not have
    pair = Finite((0.4, 0.4, 0.19, 0.01), (0.5, 0.3, 0.2, 0.0), times=40)
    plain = plain_pair(pair)
    assert law_of(pair).epsilon_bracket(1e-5) == (math.inf, math.inf)
    found = verified(plain, Order.FORWARD, "epsilon", 1e-5, 1e3, math.inf)
    assert found is Answer.REFUTED
    # and where that is rarer than delta it is not
    low, high = law_of(pair).epsilon_bracket(0.4)
    assert verified(plain, Order.FORWARD, "epsilon", 0.4, 0.99 * low, low) is Answer.REFUTED
    assert verified(plain, Order.FORWARD, "epsilon", 0.4, high, high) is Answer.NOT_REFUTED


def test_a_witness_on_mu_avoids_tiny_deltas_where_others_refute() -> None:
    """The sampled tail proves mu = .159 by a delta of 1e-241: minutes of exact integers."""
    pair = laws.Gaussian(sensitivity=1.0, noise_std=2.73, sampling_rate=0.001, times=1000)
    law, small = law_of(pair), witness(statement_of(mu=0.01), pair)
    assert small.bracket[0] > 0.15
    best = law.mu_bracket(Order.FORWARD).epsilon
    assert small.at == 0.0 < Mu().witness_at(law, Order.FORWARD, 0.1) <= best
    assert answer(small) is Answer.REFUTED


def test_cells_are_for_the_mu_that_a_delta_proves() -> None:
    """Here .11, not the certified .29."""
    pair = laws.Gaussian(sensitivity=1.0, noise_std=1.5, sampling_rate=0.001, times=100)
    assert answer(witness(statement_of(mu=0.087), pair)) is Answer.REFUTED


@pytest.mark.parametrize(
    ("noise_std", "times", "wrong"),
    [
        (1.7376, 10_000, {"epsilon": 0.177, "delta": 5e-5}),  # certified: below .179
        # decided at a delta of 3e-17
        pytest.param(2.3, 1000, {"mu": 0.0148}, marks=pytest.mark.slow),
    ],
)
def test_rare_large_losses_leave_scores_fine_enough(noise_std, times, wrong) -> None:
    """At q = .001 a loss of 18 is possible but irrelevant: cells as wide as 18/19,000 hid 25 %."""
    pair = laws.Gaussian(sensitivity=1.0, noise_std=noise_std, sampling_rate=0.001, times=times)
    found = witness(statement_of(**wrong), pair)
    assert found.bracket[0] < 1.05 * found.claimed
    outcome = verify(json.loads(found.to_json()))
    assert outcome.answer is Answer.REFUTED, outcome


SUBSAMPLED = laws.Gaussian(sensitivity=1.0, noise_std=50.0, sampling_rate=0.01, times=9)
APART = Mixtures(Mixture((0.002, 0.998), (0.8, 0.0), (0.7, 0.7)), Mixture((1.0,), (2.5,), (0.7,)))
OWN = Finite((0.93, 0.0, 0.07), (0.25, 0.27, 0.48), times=5)
RARE = laws.Laplace(sensitivity=1.0, scale=1.07, sampling_rate=1e-4, times=4)


@pytest.mark.parametrize(
    ("pair", "wrong"),
    [
        # a loss of 5 is 50 standard deviations away
        (laws.Gaussian(sensitivity=1.0, noise_std=10.0), {"epsilon": 5.0, "delta": 0.0}),
        (SUBSAMPLED, {"epsilon": 1.0, "delta": 0.0}),
        # sums under both laws are far apart, and must not meet modulo anything
        (replace(APART, times=1000), {"epsilon": 60.0, "delta": 1e-3}),
        # outcomes that one law alone has
        (OWN, {"total_variation": 0.944}),
        (Finite((0.86, 0.03, 0.11), (0.0, 0.48, 0.52), times=3), {"tradeoff": {0.01: 0.02}}),
        (RARE, {"total_variation": 6.83e-5}),  # largest losses are rare, others alike
    ],
)
def test_an_honest_witness_is_not_contradicted(pair, wrong) -> None:
    found = witness(statement_of(**wrong), pair)
    outcome = verify(json.loads(found.to_json()))
    assert outcome.answer is Answer.REFUTED, (outcome, found.bracket)


@pytest.mark.parametrize("alpha", [1.5, 8.0])
@pytest.mark.parametrize("order", Order)
def test_few_cells_keep_the_divergence_of_a_rare_part(order, alpha) -> None:
    """Cells of equal masses hid half a percent of what a part of one in a thousand adds."""
    pair = laws.Gaussian(sensitivity=1.0, noise_std=1.19, sampling_rate=0.001, times=1000)
    low = law_of(pair).renyi_bracket(alpha, order)[0]
    plain = plain_pair(pair)
    content = refutation(plain, order, "Renyi divergence", alpha, 0.998 * low, low)
    assert verify(content).answer is Answer.REFUTED
    assert len(content["partition"]["cuts"]) < 100


def test_the_test_of_a_witness_is_the_one_that_paid_for_the_bound() -> None:
    """A threshold for every delta may cut where a named delta's does, at a far smaller error."""
    draws = np.random.default_rng(7)
    x, y = draws.normal(2, 1, 600), draws.normal(0, 1, 500)
    audit = audit_samples(x, y, confidence=0.95, seed=1, deltas=(0.01,), thresholds=PilotSplit())
    events = [(one.test, one.counts) for one in audit.tests]
    found = counted(audit, ClaimedNumber(EpsilonAtDelta(0.01), 0.5))
    assert found is not None
    place = found["test"]["index"]
    assert events.count(events[place]) == 2
    assert found["errors"][place] == audit.evidence(0.01).error_spent


def test_tilted_masses_add_up() -> None:
    draws = _Draws(np.log([3.0, 1.0, 0.25]), np.array([0.6, 0.3, 0.1]), times=5)
    weights, log_sum = draws.tilted(2.0)
    tilted = draws.masses * [9.0, 1.0, 0.0625]
    assert log_sum == pytest.approx(math.log(tilted.sum()))
    assert weights == pytest.approx(tilted / tilted.sum())


def test_counts_are_those_at_the_claimed_number_with_its_slack() -> None:
    draws = np.random.default_rng(7)
    x, y = draws.normal(1, 1, 600), draws.normal(0, 1, 500)
    audit = audit_samples(x, y, confidence=0.95, seed=1)
    claims = {claimed: ClaimedNumber(TotalVariation(), claimed) for claimed in (0.01, 0.2)}
    low, high = (counted(audit, claim) for claim in claims.values())
    assert low is not None
    assert high is not None
    assert low["test"] != high["test"]
    assert counted(audit, ClaimedNumber(TotalVariation(), 0.105, slack=0.095)) == high
    alike = audit_samples(x, x[::-1].copy(), confidence=0.95, seed=1)
    assert counted(alike, claims[0.2]) is None

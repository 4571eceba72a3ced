"""Claims just below the truth are refuted; those just above it, and forged witnesses, are not."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import os
import random
import subprocess
import sys
import time
from _thread import interrupt_main
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("flint")

from flint import arb, arb_mat, ctx

from audit_verify import Answer, laws, main, verify, walks
from audit_verify.laws import (
    Draw,
    between,
    bounds,
    composed,
    excess,
    log_moment,
    normal_tails,
    power,
)
from audit_verify.runs import _draws, chains
from audit_verify.samples import _score
from audit_verify.walks import chain_cells, chains_of

PACKAGE = Path(__file__).parents[1]


def normal(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def gaussian_delta(epsilon: float, mu: float) -> float:
    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


def root(function, goal: float, low: float, high: float) -> float:
    """Return where a falling function reaches a goal."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > goal else (low, middle)
    return low


def mixture(weights, means, std: float):
    return {"weights": weights, "means": means, "stds": [std] * len(means)}


def witness(pair, partition, quantity: str, at: float, claimed: float, **changes):
    return {
        "format": 3,
        "claim": "a.claim",
        "quantity": quantity,
        "at": at,
        "claimed": claimed,
        "slack": 0.0,
        "order": "forward",
        "bracket": [0.0, None],
        "evidence": "exact",
        "construction": "a pair",
        "pair": pair,
        "partition": partition,
        "mechanism": None,
        "samples": None,
        **changes,
    }


def chain(shift: float, times: int, std: float, ends=(None, None), weight: float = 1.0, slope=1.0):
    maps = [{"weight": weight, "pieces": [[None, slope, shift]]}]
    if weight < 1:
        maps.append({"weight": 1 - weight, "pieces": [[None, slope, 0.0]]})
    return {
        "start": 0.0, "lower": ends[0], "upper": ends[1],
        "paths": [{"probability": 1.0, "segments": [
            {"times": times, "steps": [{"noise_std": std, "maps": maps}]}]}],
    }  # fmt: skip


def process(first, second):
    return {"kind": "process", "first": first, "second": second}


GAUSSIANS = {
    "kind": "mixtures", "first": mixture([1.0], [1.0], 1.0), "second": mixture([1.0], [0.0], 1.0),
    "times": 1,
}  # fmt: skip
EPSILON = root(lambda e: gaussian_delta(e, 1.0), 1e-5, 0.0, 20.0)
FINE = [-38 + 0.01 * i for i in range(7600)]
RESPONSE = {"kind": "finite", "first": [0.75, 0.25], "second": [0.25, 0.75], "times": 20}


def response_epsilon(delta: float) -> float:
    """Return epsilon of 20 runs of randomised response, summed over counts."""

    def value(epsilon: float) -> float:
        return math.fsum(
            max(0.0, math.comb(20, k) * (0.75**k * 0.25 ** (20 - k)
                - math.exp(epsilon) * 0.25**k * 0.75 ** (20 - k)))
            for k in range(21)
        )  # fmt: skip

    return root(value, delta, 0.0, 40.0)


def density_mu() -> float:
    gap = (math.e - 1) / (math.e + 1)  # total variation of e^x and e^-x on [-1, 1]
    return root(lambda mu: -(2 * normal(mu / 2) - 1), -gap, 0.0, 5.0)


LAPLACES = {
    "kind": "laplacemixtures", "scale": 2.0, "means": [0.0, 1.0], "first": [0.0, 1.0],
    "second": [1.0, 0.0], "times": 1,
}  # fmt: skip
VECTORS = {
    "kind": "normalvectors", "strategy": [[3.0], [4.0]], "noise_std": 5.0, "times": 1,
    "first": {"weights": [1.0], "vectors": [[1.0]]},
    "second": {"weights": [1.0], "vectors": [[0.0]]},
}  # fmt: skip
DENSITIES = {"kind": "densities", "slope": 1.0, "low": -1.0, "high": 1.0}
MIDDLE, REJECT = {"cuts": [0.0]}, 1 - 1.6448536269514722
# how close below the true number a claim is refuted; pair, partition, quantity, at, true number
TRUTHS = {
    "normals, epsilon": (1e-9, GAUSSIANS, {"cuts": [EPSILON + 0.5]}, "epsilon", 1e-5, EPSILON),
    "normals, mu": (1e-9, GAUSSIANS, {"cuts": [1.0]}, "mu", 0.5, 1.0),
    "normals, power": (1e-6, GAUSSIANS, {"cuts": [REJECT]}, "1 - beta", 0.05, normal(REJECT)),
    "normals, Renyi": (1e-4, GAUSSIANS, {"cuts": FINE}, "Renyi divergence", 4.0, 2.0),
    "a line": (1e-9, process(chain(0.1, 25, 0.2), chain(-0.1, 25, 0.2)), MIDDLE, "mu", 0.0, 5.0),
    "millions of steps": (
        1e-9, process(chain(1e-3, 4_000_000, 1.0), chain(-1e-3, 4_000_000, 1.0)), MIDDLE,
        "mu", 0.0, 4.0,
    ),
    "a contraction": (
        1e-9, process(chain(0.3, 2, 2.0, slope=0.5), chain(0.0, 2, 2.0, slope=0.5)),
        {"cuts": [0.225]}, "mu", 0.0, 0.45 / math.sqrt(5.0),
    ),
    "randomised response": (
        1e-9, RESPONSE, {"scores": [1, 0], "modulus": 21}, "epsilon", 1e-3, response_epsilon(1e-3),
    ),
    "pure epsilon of several draws": (1e-9, RESPONSE, {}, "epsilon", 0.0, 20 * math.log(3)),
    "Renyi divergence of several draws": (
        1e-9, RESPONSE, {}, "Renyi divergence", 2.0,
        20 * math.log(0.75**2 / 0.25 + 0.25**2 / 0.75),
    ),
    "Laplace": (1e-9, LAPLACES, {"cuts": [1.0]}, "epsilon", 0.0, 0.5),
    "densities": (1e-8, DENSITIES, MIDDLE, "mu", 0.0, density_mu()),
    "vectors": (1e-9, VECTORS, {"cuts": [2.5], "direction": [0.6, 0.8]}, "mu", 0.0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUTHS)
def test_claims_below_the_truth_are_refuted_and_those_above_are_not(name: str) -> None:
    margin, *statement, truth = TRUTHS[name]
    for factor, answer in ((1 - margin, Answer.REFUTED), (1 + margin, Answer.NOT_REFUTED)):
        found = verify(witness(*statement, truth * factor))
        assert found.answer is answer, found


def test_the_reverse_order_swaps_the_laws() -> None:
    pair = {**GAUSSIANS, "first": mixture([0.9, 0.1], [0.0, 1.0], 1.0)}
    content = witness(pair, {"cuts": [0.5]}, "epsilon", 0.0, 0.01)
    assert verify(content).answer is Answer.REFUTED
    # the first law is at least 0.9 times the second: the other order ends at -log(0.9)
    assert verify({**content, "order": "reverse", "claimed": 0.1054}).answer is Answer.NOT_REFUTED


@pytest.mark.parametrize("rounded", ["first", "second"])
@pytest.mark.parametrize("seed", range(3))
def test_composed_cells_enclose_every_sum_of_scores(seed: int, rounded: str) -> None:
    """At few bits the rounding of one law shows; the twin adds up all outcomes as fractions."""
    rng = random.Random(seed)
    ctx.prec, times, modulus = 30, rng.choice([2, 5]), 7

    def law(name: str) -> list[Fraction]:
        weights = [rng.randint(1, 5) for _ in range(3)]
        whole = 21 if name == rounded else 16  # sixteenths are exact
        return [Fraction(weight, whole) for weight in (*weights, whole - sum(weights))]

    first, second = law("first"), law("second")
    scores = [*(rng.randrange(modulus) for _ in range(3)), None]
    exact: dict[int | None, list[Fraction]] = {}
    for outcome in itertools.product(range(4), repeat=times):
        own = [scores[i] for i in outcome]
        key = None if None in own else sum(own) % modulus
        masses = exact.setdefault(key, [Fraction(0), Fraction(0)])
        for side, one in enumerate((first, second)):
            masses[side] += math.prod(one[i] for i in outcome)
    cells = [
        tuple(arb(p.numerator) / p.denominator for p in pair)
        for pair in zip(first, second, strict=True)
    ]
    draw = composed([Draw(cells, times)], [scores], modulus)
    ctx.prec = 200  # what follows does not round
    radii = [max(float(cell[side].rad()) for cell in draw.cells) for side in (0, 1)]
    assert [radius > 0 for radius in radii] == [rounded == "first", rounded == "second"]
    assert max(radii) < 1e-5
    for ratio in (Fraction(1, 2), Fraction(1), Fraction(3, 2)):
        wanted = sum(max(p - ratio * q, Fraction(0)) for p, q in exact.values())
        epsilon = (arb(ratio.numerator) / ratio.denominator).log()
        low, high = bounds(functools.partial(excess, epsilon=epsilon), [draw])
        assert float(low) <= wanted <= float(high)
        assert float(high - low) < 1e-5
    moment = math.fsum(float(p) ** 2 / float(q) for p, q in exact.values() if q)
    logs = bounds(functools.partial(log_moment, alpha=arb(2)), [draw])
    low, high = (end.exp() for end in logs)
    assert moment * (1 - 1e-5) <= float(low) <= moment
    assert moment <= float(high)
    # what was rounded down of P may be where Q has nothing
    assert rounded == "first" or float(high) <= moment * (1 + 1e-5)
    best, left = Fraction(0), Fraction(1, 5)
    for p, q in sorted(exact.values(), key=lambda cell: cell[1] / cell[0], reverse=True):
        best, left = best + q * min(Fraction(1), left / p), max(left - p, Fraction(0))
    swapped = Draw([(q, p) for p, q in draw.cells])
    low, high = bounds(functools.partial(power, alpha=arb(1) / 5), [swapped])
    assert float(best) - 1e-5 <= float(low) <= best <= float(high) <= float(best) + 1e-5


WALKS = {
    "two walls": process(chain(0.05, 40, 0.1, (-0.5, 0.5)), chain(-0.05, 40, 0.1, (-0.5, 0.5))),
    "one wall": process(chain(0.05, 5, 0.1, (-0.5, None)), chain(-0.05, 5, 0.1, (-0.5, None))),
    "sampled": process(chain(0.2, 6, 0.3, (-1.0, 1.0), 0.4), chain(-0.2, 6, 0.3, (-1.0, 1.0), 0.4)),
}


@pytest.mark.parametrize("name", WALKS)
def test_quadrature_agrees_with_a_fine_histogram(name: str) -> None:
    """A slow twin: the law as masses of narrow cells, moved from their middles."""
    pair = WALKS[name]
    ctx.prec = 160
    partition = {"cuts": [0.1], "window": [None, 2.5]}
    for law, column in (("first", 0), ("second", 1)):
        cells = [float(cell[column].mid()) for cell in chain_cells(chains_of(pair), partition, 100)]
        assert math.isclose(sum(cells), 1.0, abs_tol=1e-12)
        assert sum(cells[-2 if pair[law]["upper"] else -1 :]) == pytest.approx(
            histogram(pair[law], 0.1), abs=2e-4
        )


def test_a_memory_that_a_lone_map_switches_is_kept() -> None:
    """Two of three steps move by 1 once the first one has led to memory 1: N(2, 3)."""
    ctx.prec = 120
    law, both = chain(0.0, 1, 1.0), []
    (segment,) = law["paths"][0]["segments"]
    place = ("steps", 0, "maps", 0)
    first = changed(segment, {(*place, "from"): 0, (*place, "to"): 1})
    for shift in (0.0, 1.0):
        maps = [{"weight": 1.0, "from": k, "pieces": [[None, 1.0, k * shift]]} for k in (0, 1)]
        later = [{"times": 1, "steps": [{"noise_std": 1.0, "maps": maps}]}] * 2
        both.append({**law, "paths": [{"probability": 1.0, "segments": [first, *later]}]})
    (still, moved), _ = chain_cells(chains_of(process(*both)), {"cuts": [0.0]}, 60)
    assert float(still) == 0.5
    assert float(moved) == pytest.approx(normal(-2 / math.sqrt(3)), rel=1e-12)


def histogram(law, cut: float, count: int = 255) -> float:
    low = law["lower"]
    high = 2.5 if law["upper"] is None else law["upper"]
    width = (high - low) / count
    points = [low, *(low + (i + 0.5) * width for i in range(count)), high]
    masses = [0.0] * len(points)
    masses[1 + int((law["start"] - low) / width)] = 1.0
    segment = law["paths"][0]["segments"][0]
    (step,) = segment["steps"]
    edges = [-math.inf, *(low + i * width for i in range(count + 1)), math.inf]
    rows = []
    for x in points:
        row = [0.0] * len(points)
        for phi in step["maps"]:
            tails = [normal((e - x - phi["pieces"][0][2]) / step["noise_std"]) for e in edges]
            for j in range(len(points)):
                row[j] += phi["weight"] * (tails[j + 1] - tails[j])
        rows.append(row)
    for _ in range(segment["times"] - 1):
        masses = [
            math.fsum(m * row[j] for m, row in zip(masses, rows, strict=True) if m > 1e-12)
            for j in range(len(points))
        ]
    return math.fsum(
        m * phi["weight"] * normal((x + phi["pieces"][0][2] - cut) / step["noise_std"])
        for x, m in zip(points, masses, strict=True)
        for phi in step["maps"]
    )


def test_balls_of_more_bits_lie_within_those_of_fewer() -> None:
    pair, partition = WALKS["two walls"], {"cuts": [-0.2, 0.2]}
    found = []
    for bits in (60, 200):
        ctx.prec = bits + 60
        found.append(chain_cells(chains_of(pair), partition, bits))
    for wide, narrow in zip(*found, strict=True):
        assert all(a.contains(b.mid()) for a, b in zip(wide, narrow, strict=True))
        assert float(narrow[0].rad()) < 1e-50 < float(wide[0].rad()) < 1e-15


def test_rare_events_need_few_nodes_and_equal_moves_one_table() -> None:
    """Between far walls a linear chain is normal; 150 bits are right at 15 deviations."""
    ctx.prec = 390
    moves = [(arb(1), walks.pieces([[None, 0.5, 0.5]])) for _ in range(3)]
    segments = tuple((1, (walks.Step({(0, 0): [move]}, arb(1), arb(0)),)) for move in moves)
    law = walks.Chain(0.0, (-40.0, 40.0), (walks.Path(arb(1), segments),))
    grid = walks._Grid([law], [None, None], 330)
    found = grid.law(law).masses([arb(18)])
    _, above = normal_tails(arb("0.875"), (1 + arb("0.3125")).sqrt())(arb(18))
    assert found[2].overlaps(above)
    assert found[2].rel_accuracy_bits() > 150
    assert len(grid.points) < 800
    assert len(grid._tables) == 1


def dense(grid, phi, std):
    """Return the probabilities of all moves, with every density: the slow twin of a table."""
    rows, unit = [], std * (2 * arb.pi()).sqrt()
    for x in grid.points:
        _, slope, shift = walks.piece_at(phi, float(x.mid()))
        mean = slope * x + shift
        tail = normal_tails(mean, std)
        row = [between(cuts, tail)[i] if cuts else arb(0) for _, cuts, i in grid.lumps]
        row += [w * (-(((y - mean) / std) ** 2) / 2).exp() / unit for y, w in grid.nodes]
        rows.append(row)
    return arb_mat(rows)


@pytest.mark.parametrize("walls", [(-3.0, 3.0), pytest.param((None, 3.0), marks=pytest.mark.slow)])
def test_what_tables_leave_out_is_within_their_balls(walls, monkeypatch) -> None:
    """At 30 bits most densities are below the last one; sums and powers of tables hold, too."""
    monkeypatch.setattr(walks, "_TILE", 8)
    ctx.prec, std = 30, arb("0.1")
    kinked = walks.pieces([[None, 0.9, 0.02], [-1.0, 0.0, -0.9], [-0.5, 0.9, -0.45]])
    moves = [(arb(1) / 4, walks.pieces([[None, 1.0, 0.1 * k]])) for k in range(1, 4)]
    mixed = walks.Step({(0, 0): [*moves, *[(arb(1) / 8, kinked)] * 2]}, std, arb(0))
    single = walks.Step({(0, 0): [(arb(1), kinked)]}, std, arb(0))
    law = walks.Chain(0.0, walls, (walks.Path(arb(1), ((1, (mixed, single)),)),))
    grid = walks._Grid([law], [-3.0, 3.0], 20)
    size, starts = len(grid.points), range(2, len(grid.points), 17)
    many = int(4 * size / grid.share)  # steps that are taken by powers
    filled = (len(grid._table(kinked, std)) - 1) / (size / 8) ** 2
    assert 0.6 * grid.share < filled < 1.1 * grid.share < 0.6  # by it time is estimated
    rows = arb_mat([[arb(i == start) for i in range(size)] for start in starts])
    found = [
        grid.moved({0: rows}, single)[0],
        grid.moved({0: rows}, mixed)[0],
        grid.repeated({0: rows}, 3, (single,))[0],
        grid.repeated({0: rows}, many, (single,))[0],
    ]
    ctx.prec = 120
    one = dense(grid, kinked, std)
    every = [dense(grid, phi, std) * weight for weight, phi in mixed.moves[0, 0]]
    wanted = [one, sum(every[1:], every[0]), one**3, one**many]
    for table, balls in zip(wanted, found, strict=True):
        assert balls.contains((rows * table).mid())
        assert max(float(ball.rad()) for ball in balls.entries()) < 1e-3


MECHANISM = {
    "steps": 40, "dataset_size": 4, "batch_size": 4, "step_size": 0.1, "noise_std": 1.0,
    "lipschitz": 1.0, "smoothness": 0.4, "strong_convexity": 0.0, "convex": True, "diameter": 1.0,
    "batching": "full", "relation": "replace one",
}  # fmt: skip


def line(shift: float, slope: float = 0.0):
    """Return the gradient slope x + shift, in units of a step."""
    return [[None, slope, shift]]


def run(first, second, steps: int = 40):
    phase = {"steps": steps, "step_size": 0.1, "others": [[1, line(0.0)]]}
    return {
        "kind": "run", "start": 0.0, "position": 0,
        "phases": [{**phase, "first": first, "second": second}],
    }  # fmt: skip


HONEST = witness(
    run(line(-0.1), line(0.1)), {"cuts": [0.0]}, "epsilon", 1e-5, 0.2, mechanism=MECHANISM
)


def test_an_honest_witness_is_verified_and_trusts_nothing() -> None:
    found = verify(HONEST)
    assert found.answer is Answer.REFUTED
    assert found.trusted == ()


def test_gradients_that_are_zero_but_for_rounding_are_continuous() -> None:
    """Differences of gradients of size .1 are rounded at 1e-17; a jump of 1e-8 is one."""
    zeroed = {**MECHANISM, "relation": "zero out"}
    for size, answer in ((1e-17, Answer.REFUTED), (1e-8, Answer.NOT_A_WITNESS)):
        zero = [[None, 0.0, -size], [0.0, 0.0, size]]
        pair = run(line(-0.1), zero)
        found = verify(witness(pair, {"cuts": [0.0]}, "epsilon", 1e-5, 0.01, mechanism=zeroed))
        assert found.answer is answer, found


def changed(content, changes):
    """Return a copy with some entries replaced."""
    copied = copy.deepcopy(content)
    for keys, value in changes.items():
        place = copied
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
    return copied


PHASE, M, P = ("pair", "phases", 0), ("mechanism",), ("partition",)
FIRST, SECOND, OTHERS = ((*PHASE, key) for key in ("first", "second", "others"))
IN_PAIRS = {(*M, "batch_size"): 2, (*M, "batching"): "without replacement"}
BOUND = "be within the Lipschitz constant or the clipping norm"
TRUNCATED = {(*M, "batching"): "truncated poisson"}
POISSON = {(*M, "batching"): "poisson", (*M, "batch_size"): 2}
STRONG = {(*M, "strong_convexity"): 0.4}
STEEP = {
    FIRST: [[None, 0.0, -0.1], [0.0, 0.0, 0.0]], OTHERS: [[1, [[None, 0.0, 0.0], [0.0, 0.0, 0.1]]]],
    (*PHASE, "shared"): [[None, 0.0, 0.0], [0.0, 0.0, -0.1]],
    SECOND: [[None, 0.0, 0.0], [0.0, 0.0, 0.1]],
}  # fmt: skip
NESTED = functools.reduce(lambda inner, _: [inner], range(2000), [])
FORGED: dict[str, tuple[str, dict[tuple, object]]] = {
    # the assumptions of the claim
    "a larger gradient": (BOUND, {FIRST: line(-0.11)}),
    "a larger gradient of the second": (BOUND, {SECOND: line(0.11)}),
    "a larger gradient of the others": (BOUND, {OTHERS: [[1, line(0.2)]]}),
    "a gradient that grows": (BOUND, {FIRST: line(-0.1, 0.02)}),
    "a gradient that is large in a corner": (BOUND, {FIRST: [[None, 0.0, -0.1], [0.4, 9.0, -3.7]]}),
    "a larger clipped gradient": (BOUND, {(*M, "lipschitz"): None, (*M, "clip_norm"): 0.5}),
    "a smaller sensitivity": ("differ by the sensitivity", {(*M, "gradient_sensitivity"): 1.0}),
    "a zeroed record of twice the norm": ("differ by the sensitivity", {
        (*M, "relation"): "zero out",
    }),
    "others far from the record": ("differ by the sensitivity", {
        (*M, "lipschitz"): None, (*M, "gradient_sensitivity"): 2.0, OTHERS: [[1, line(0.15)]],
    }),
    "no bound at all": ("be bounded, or their differences", {(*M, "lipschitz"): None}),
    "a curvature": ("be smooth", {FIRST: line(-0.05, 0.05)}),
    "a curvature of the others": ("be smooth", {OTHERS: [[1, line(0.0, 0.05)]]}),
    "a concave loss": ("(strongly) convex losses", {FIRST: line(-0.05, -0.02)}),
    "a loss that is not strongly convex": ("(strongly) convex losses", {
        (*M, "strong_convexity"): 0.2,
    }),
    "a kink that turns down": ("(strongly) convex losses", {
        FIRST: [[None, 0.02, -0.05], [0.0, -0.01, -0.05]],
    }),
    "a jump": ("be smooth", {FIRST: [[None, 0.0, -0.1], [0.0, 0.0, 0.1]]}),
    "a falling jump": ("(strongly) convex losses", {
        FIRST: [[None, 0.0, 0.1], [0.0, 0.0, -0.1]], (*M, "smoothness"): None,
    }),
    "a rough gradient": ("have the Hoelder constant", {
        FIRST: line(-0.05, 0.03), (*M, "holder"): [0.1, 1.0],
    }),
    "a rougher gradient": ("have the Hoelder constant", {
        FIRST: line(-0.05, 0.03), (*M, "holder"): [0.1, 0.5],
    }),
    "a gradient that falls too fast": ("have the Hoelder constant", {
        FIRST: line(-0.05, -0.03), (*M, "holder"): [0.1, 1.0], (*M, "convex"): False,
    }),
    "a gradient that grows on the line": (BOUND, {FIRST: line(0.0, 0.01), (*M, "diameter"): None}),
    "a start outside": ("start must be in the domain", {("pair", "start"): 0.6}),
    "a smaller domain": ("start must be in the domain", {
        ("pair", "start"): 0.3, (*M, "diameter"): 0.5,
    }),
    "a removed record that stays": ("unless removed", {(*M, "relation"): "add remove"}),
    "a record that is gone": ("unless removed", {SECOND: None}),
    "a regulariser in batches of one size": ("be whole", {(*PHASE, "shared"): line(0.0, 0.01)}),
    "a cancelled gradient on the line": ("not be cancelled", {
        ("pair", "cancelled"): 0.05, (*M, "diameter"): None,
    }),
    "a cancelled gradient that is too large": (BOUND, {("pair", "cancelled"): 0.05}),
    "a cancelled gradient that hides others far away": (BOUND, {
        ("pair", "cancelled"): -0.1, (*M, "strong_convexity"): 0.1, **IN_PAIRS,
        FIRST: line(-0.1, 0.01), SECOND: line(0.1, 0.01), OTHERS: [[1, line(0.3, 0.01)]],
    }),
    "another batch far from the record": ("differ by the sensitivity", {
        (*M, "lipschitz"): None, (*M, "gradient_sensitivity"): 2.0, **IN_PAIRS,
        (*M, "batching"): "cyclic", OTHERS: [[1, line(0.0)], [1, line(5.0)]],
    }),
    "a jump that a Hoelder constant forbids": ("have the Hoelder constant", {
        (*M, "smoothness"): None, (*M, "holder"): [2.0, 0.5],
        FIRST: [[None, 0.0, -0.05], [0.0, 0.0, 0.05]],
    }),
    "a gradient that exceeds its bound by 1e-9": (BOUND, {FIRST: line(-0.1 * (1 + 1e-9))}),
    "a jump at the upper wall, which is a state": (BOUND, {
        FIRST: [[None, 0.0, 0.0], [0.5, 0.0, 4.0]], ("pair", "start"): 0.5,
    }),
    "a slope on the line that is no slope beside the gradients": ("(strongly) convex losses", {
        FIRST: line(-5e8, 0.0395), SECOND: line(5e8, 0.0395), **STRONG, (*M, "diameter"): None,
        OTHERS: [[1, line(0.0, 0.0395)]], (*M, "lipschitz"): None,
        (*M, "gradient_sensitivity"): 1e10,
    }),
    "a slope on the line beside the Hoelder constant": ("have the Hoelder constant", {
        FIRST: line(0.0, 1e-3), SECOND: line(0.0, 1e-3), OTHERS: [[1, line(0.0, 1e-3)]],
        (*M, "gradient_sensitivity"): 1e10, (*M, "lipschitz"): None, (*M, "diameter"): None,
        (*M, "holder"): [0.0, 1.0], (*M, "strong_convexity"): 0.0,
    }),
    "a Hoelder constant beyond all doubles": ("be bounded, and the order of holder", {
        (*PHASE, "step_size"): 1e200, (*M, "step_size"): 1e200, (*M, "holder"): [1e200, 0.5],
        (*M, "smoothness"): None,
    }),
    "others that fall by a little of many records": ("(strongly) convex losses", {
        OTHERS: [[1, [[None, 0.0, 1e-13], [0.0, 0.0, -1e-13]]]],
        (*M, "dataset_size"): 10**9, (*M, "batch_size"): 10**9,
    }),
    "units so small that nothing seems to rise": ("(strongly) convex losses", {
        **STRONG, (*PHASE, "step_size"): 1e-12, FIRST: line(-1e-12), SECOND: line(1e-12),
    }),
    "a common gradient that is huge": ("(strongly) convex losses", {
        **STRONG, FIRST: line(1e12 - 0.125), SECOND: line(1e12 + 0.125), (*M, "lipschitz"): None,
        OTHERS: [[1, line(1e12)]],
        (*M, "gradient_sensitivity"): 2.5, (*M, "diameter"): None,
    }),
    "kinks beyond the whole numbers": (BOUND, {
        (*M, "diameter"): None, FIRST: [[None, 0.0, -9.0], [1e17, 0.0, 0.0], [2e17, 0.0, 0.0]],
    }),
    "losses that fall a little at each of many kinks": ("(strongly) convex losses", {
        FIRST: [[None, 0.0, 0.1], *([k / 200, 0.0, 0.1 - 1e-13 * k] for k in range(1, 99))],
    }),
    "a regulariser that is not convex": ("(strongly) convex losses", {
        **POISSON, **STEEP, (*M, "smoothness"): None,
    }),
    "a regulariser that is steep": ("be smooth", {**POISSON, **STEEP, (*M, "convex"): False}),
    "a regulariser of clipped gradients": ("shared must be zero", {
        **POISSON, (*M, "clip_norm"): 1.0, (*PHASE, "shared"): line(0.0, 0.01),
    }),
    "a regulariser of a removed record": ("shared must be zero", {
        **POISSON, SECOND: None, (*M, "relation"): "add remove",
        (*PHASE, "shared"): line(0.0, 0.01),
    }),
    "strong convexity without convexity": ("0 unless convex", {**STRONG, (*M, "convex"): False}),
    "strong convexity above smoothness": ("at most smoothness", {(*M, "strong_convexity"): 0.5}),
    # the sampler and the run
    "a step more": ("phases must have the steps", {(*M, "steps"): 41}),
    "losses that change": ("losses do not change", {
        (*PHASE, "steps"): 20, ("pair", "phases"): [HONEST["pair"]["phases"][0]] * 2,
        (*M, "steps"): 80,
    }),
    "a batch larger than the dataset": ("batch_size must fit", {(*M, "batch_size"): 5}),
    "batches that do not divide it": ("batch_size must fit", {
        (*M, "batch_size"): 3, (*M, "batching"): "cyclic", OTHERS: [[1, line(0.0)]],
    }),
    "a divisor that counts the batch": ("divisor must be nominal", {(*M, "divisor"): "actual"}),
    "a rate of its own": ("poisson_rate must be None", {(*M, "poisson_rate"): 0.1}),
    "a rate of batches that have one size": ("poisson_rate must be None for a run with full", {
        (*M, "poisson_rate"): 1.0, (*M, "release"): "all iterates", ("pair",): GAUSSIANS,
    }),
    "an exponential mechanism without its record": ("relation must be one whose pair is known", {
        (*M, "release"): "exponential mechanism", (*M, "relation"): "add remove",
        ("pair",): DENSITIES,
    }),
    "several batches": ("participations must be 1 for a run", {(*M, "participations"): 2}),
    "a record less in batches that are full": (
        "others must be zero where a batch may become smaller",
        {
        **IN_PAIRS, (*M, "batching"): "reshuffled", (*M, "relation"): "add remove", SECOND: None,
        OTHERS: [[1, line(0.05)]],
    }),
    "a truncation without a size": ("max_batch_size must be given", TRUNCATED),
    "a batch of no cycle": ("position must be one of the 1", {("pair", "position"): 1}),
    "batches of another cycle": ("others must be for the 1", {OTHERS: [[2, line(0.0)]]}),
    "no batches": ("others must be for the 1", {OTHERS: []}),
    "batches that are huge": ("others must be for the 1", {OTHERS: [[10 ** 7, line(0.0)]]}),
    "the release of all iterates": ("release must be of one iterate", {
        (*M, "release"): "all iterates",
    }),
    "a skip into an epoch": ("epochs must not start midway", {
        **IN_PAIRS, (*M, "batching"): "reshuffled", (*M, "release"): "random skip",
        OTHERS: [[1, line(0.05)]],
    }),
    "a schedule of other length": ("step_size must be one number", {(*M, "step_size"): [0.1, 0.1]}),
    "a sampler of no name": ("batching must be one of", {(*M, "batching"): "lucky"}),
    "a relation of no name": ("relation must be one of", {(*M, "relation"): "cousins"}),
    "no mechanism": ("mechanism must be of the kind that 'run' needs", {M: None}),
    "several mechanisms": ("mechanism must be of the kind", {M: [MECHANISM, MECHANISM]}),
    "a chain in place of gradients": ("mechanism must be of the kind that 'process' needs", {
        ("pair",): process(chain(0.1, 40, 0.1, (-0.5, 0.5)), chain(-0.1, 40, 0.1, (-0.5, 0.5))),
    }),
    "laws in place of gradients": ("pair must be that of the mechanism", {("pair",): GAUSSIANS}),
    # the form
    "a smaller batch": ("batch_size must be at least 1, got 0", {(*M, "batch_size"): 0}),
    "a huge run": ("steps must be at most 1e+07", {(*M, "steps"): 10 ** 12}),
    "a huge phase": ("steps must be at most 1e+07", {(*PHASE, "steps"): 10 ** 12}),
    "a negative run": ("steps must be at least 1", {(*PHASE, "steps"): -1}),
    "no noise": ("noise_std must be above 0", {(*M, "noise_std"): 0.0}),
    "negative noise": ("noise_std must be above 0", {(*M, "noise_std"): -1.0}),
    "pieces without a beginning": ("pieces must begin with null", {FIRST: [[0.0, 0.0, 0.1]]}),
    "pieces that fall back": ("pieces must begin with null and ascend", {
        FIRST: [[None, 0.0, 0.1], [0.2, 0.0, 0.1], [0.1, 0.0, 0.1]],
    }),
    "a piece without a shift": ("of an allowed length", {FIRST: [[None, 0.0]]}),
    "text for a number": ("at must be number, got '1e-5'", {("at",): "1e-5"}),
    "a truth value for a number": ("claimed must be number", {("claimed",): True}),
    "NaN": ("claimed must be finite, got nan", {("claimed",): math.nan}),
    "infinity": ("claimed must be finite, got inf", {("claimed",): math.inf}),
    "NaN in a gradient": ("must be finite, got nan", {FIRST: line(math.nan)}),
    "NaN between limits": ("noise_std must be finite, got nan", {(*M, "noise_std"): math.nan}),
    "a large delta": ("in [0, 1) for a delta, got 1.0", {("at",): 1.0}),
    "a negative delta": ("in [0, 1)", {("at",): -0.1}),
    "an order of 1": ("above 1 for an order", {("quantity",): "Renyi divergence", ("at",): 1.0}),
    "an alpha of 1": ("in (0, 1) for an alpha", {("quantity",): "1 - beta", ("at",): 1.0}),
    "a negative slack": ("slack must be at least 0", {("slack",): -1.0}),
    "an inverted bracket": ("bracket must be ascending", {("bracket",): [2.0, 1.0]}),
    "a bracket of text": ("bracket must be ascending", {("bracket",): ["inf", 1.0]}),
    "an integer that no double holds": ("a number that a double holds", {("at",): 2**53 + 1}),
    "a name with a second line": ("x\\nrefuted must be left out", {("x\nrefuted",): 1}),
    "a name of half a character": ("must be left out", {("\ud800",): 1}),
    "a name with control characters": ("without control characters", {("claim",): "a\x1b[31m"}),
    "an unknown quantity": ("quantity must be one of", {("quantity",): "luck"}),
    "an unknown kind": ("pair must be", {("pair", "kind"): "luck"}),
    "an old format": ("format must be one of 3", {("format",): 2}),
    "an unknown name": ("luck must be left out", {("luck",): 1}),
    "cuts that do not ascend": ("cuts must be ascending", {(*P, "cuts"): [0.1, 0.0]}),
    "no cuts": ("cuts must be given", {P: {}}),
    "no partition": ("partition must be given", {P: None}),
    "no pair": ("pair must be given", {("pair",): None}),
    "no samples": ("samples must be given", {("evidence",): "sampled"}),
    "scores without a modulus": ("modulus must be given", {
        (*P, "scores"): [0, 1], ("pair",): GAUSSIANS, M: None,
    }),
    "too few scores": ("cells and scores must be equally long, got 2, 1", {
        (*P, "scores"): [0], (*P, "modulus"): 9, ("pair",): GAUSSIANS, M: None,
    }),
    "weights that do not add up": ("probabilities that sum to 1", {
        ("pair",): {**GAUSSIANS, "first": mixture([0.9], [1.0], 1.0)}, M: None,
    }),
    "a negative weight": ("weights[0] must be at least 0", {
        ("pair",): {**GAUSSIANS, "first": mixture([-0.5, 1.5], [1.0, 0.0], 1.0)}, M: None,
    }),
    "a count of draws that is huge": ("times must be at most", {
        ("pair",): {**GAUSSIANS, "times": 10 ** 12}, M: None,
    }),
    "laws of different length": ("equally long, got 1, 2, 1", {
        ("pair",): {**GAUSSIANS, "first": {"weights": [1.0], "means": [1.0, 2.0], "stds": [1.0]}},
        M: None,
    }),
    "compositions of two relations": ("one relation and dataset size", {
        ("pair",): {"kind": "product", "parts": [GAUSSIANS] * 2}, P: {"parts": [MIDDLE] * 2},
        M: [MECHANISM, {**MECHANISM, "relation": "zero out"}],
    }),
    "parts of parts": ("parts[0].parts must be left out", {P: {"parts": [{"parts": []}]}}),
    "fields without end": ("recursion", {("luck",): NESTED}),
    "another wall": ("must have the walls", {
        ("pair",): process(chain(0.1, 2, 0.1, (-0.5, 0.5)), chain(0.1, 2, 0.1, (-0.5, 0.6))),
        M: None,
    }),
}  # fmt: skip


def test_a_gradient_sensitivity_is_no_larger_than_bounds_imply() -> None:
    """With |g| <= 1, two records zeroed out differ by 1, whatever is said of others."""
    m = {**MECHANISM, "gradient_sensitivity": 2.0, "relation": "zero out", "steps": 1}
    m |= {"release": "all iterates", "diameter": None, "smoothness": None}
    pair = {**GAUSSIANS, "first": mixture([1.0], [2.0], 4.0), "second": mixture([1.0], [0.0], 4.0)}
    for claimed, answer in ((0.24, Answer.REFUTED), (0.26, Answer.NOT_REFUTED)):
        content = witness(pair, {"cuts": [0.125]}, "mu", 0.0, claimed, mechanism=m)
        assert verify(content).answer is answer
    full = {**content, "mechanism": {**m, "dataset_size": 100}}
    assert "batch_size must fit" in verify(full).reason


def test_mu_0_has_a_delta_at_negative_epsilons() -> None:
    half = {"kind": "finite", "first": [0.5, 0.5], "second": [0.5, 0.5], "times": 1}
    for at, claimed in itertools.product((-1.0, 0.0, 1.0), (0.0, 1e-3)):
        assert verify(witness(half, {}, "mu", at, claimed)).answer is Answer.NOT_REFUTED


def test_states_next_to_a_kink_may_be_on_both_sides() -> None:
    """Doubles near 1e16 are 2 apart: a node between two of them once met the wrong piece."""
    ctx.prec = 120
    jump = ((-math.inf, arb(0), arb(0)), (1e16, arb(0), arb(100)))
    for offset, image in ((-0.25, 0), (0, 100), (0.25, 100)):
        assert walks._image(jump, arb(1e16) + offset) == (0, image)
    assert walks._image(jump, arb(1e16, 1.0))[1].contains(arb(0).union(100))


@pytest.mark.parametrize("name", FORGED)
def test_forged_witnesses_are_refused(name: str) -> None:
    message, changes = FORGED[name]
    began = time.perf_counter()
    found = verify(changed(HONEST, changes))
    assert found.answer is Answer.NOT_A_WITNESS, found
    assert message in found.reason
    assert "\n" not in found.reason
    assert time.perf_counter() - began < 2


ITERATES = {
    **MECHANISM, "batching": "poisson", "batch_size": 1, "release": "all iterates",
    "diameter": None, "smoothness": None, "relation": "add remove", "noise_std": 1.0,
}  # fmt: skip


def test_laws_of_all_iterates_are_built_from_the_mechanism() -> None:
    """Whatever laws a witness states, those of the mechanism are compared."""
    pair = {
        "kind": "mixtures", "first": mixture([0.75, 0.25], [0.0, 1.0], 1.0),
        "second": mixture([1.0], [0.0], 1.0), "times": 40,
    }  # fmt: skip
    content = witness(pair, {"cuts": [0.5]}, "Renyi divergence", 2.0, 0.1, mechanism=ITERATES)
    assert verify(content).answer is Answer.REFUTED
    larger = {**pair, "first": mixture([0.1, 0.9], [0.0, 9.0], 1.0)}
    far = {**content, "claimed": 40 * math.log(1 + 0.25**2 * (math.e - 1)) * 1.01}
    for one in (pair, larger):
        assert verify({**far, "pair": one}).answer is Answer.NOT_REFUTED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 8}, "batch_size must fit the dataset"),
        ({"batching": "truncated poisson", "batch_size": 4, "max_batch_size": 1}, "batching must"),
        ({"divisor": "actual"}, "divisor must be nominal"),
        ({"lipschitz": None}, "gradients must be bounded, or their differences"),
    ],
)
def test_mechanisms_whose_iterates_have_no_known_law_are_refused(changes, message) -> None:
    pair = {**GAUSSIANS, "times": 40}
    mechanism = {**ITERATES, **changes}
    content = witness(pair, {"cuts": [0.5]}, "Renyi divergence", 2.0, 0.1, mechanism=mechanism)
    found = verify(content)
    assert found.answer is Answer.NOT_A_WITNESS
    assert message in found.reason


def batches_of(sampler, n: int, b: int, k: int):
    """Yield (probability, batches of an epoch) of records 0, ..., n - 1: all that may be drawn."""
    records = range(n)
    if sampler in ("reshuffled", "drop last"):
        for order in itertools.permutations(records):
            chunks = [order[i * b : i * b + b] for i in range(n // b)]
            yield Fraction(1, math.factorial(n)), chunks
    elif sampler == "random allocation":
        epoch = k * n // b
        places = list(itertools.combinations(range(epoch), k))
        for own in itertools.product(places, repeat=n):
            held = [[i for i in records if at in own[i]] for at in range(epoch)]
            yield Fraction(1, len(places) ** n), held
    elif sampler == "without replacement":
        batches = list(itertools.combinations(records, b))
        for batch in batches:
            yield Fraction(1, len(batches)), [batch]
    else:
        for taken in itertools.product((False, True), repeat=n):
            batch, rate = [i for i in records if taken[i]], Fraction(b, n)
            chance = math.prod(rate if one else 1 - rate for one in taken)
            cut = sampler == "truncated poisson" and len(batch) > 2
            kept = list(itertools.combinations(batch, 2)) if cut else [batch]
            for one in kept:
                yield chance / len(kept), [one]


@pytest.mark.parametrize(
    ("sampler", "n", "b", "k", "still"),
    [
        ("without replacement", 5, 2, 1, False),
        ("poisson", 4, 2, 1, False),
        ("poisson", 4, 2, 1, True),
        ("truncated poisson", 5, 3, 1, False),
        ("reshuffled", 6, 2, 1, False),
        ("drop last", 5, 2, 1, False),
        ("random allocation", 3, 1, 1, False),
        ("random allocation", 4, 2, 1, False),
        ("random allocation", 3, 2, 2, True),
    ],
)
def test_samplers_draw_the_batches_of_their_definition(
    sampler: str, n: int, b: int, k: int, still: bool
) -> None:
    """The slow twin lists every outcome; record 0 differs, and others that are still do not count.

    Two epochs: the second one must begin afresh.
    """
    ctx.prec = 100
    once: dict[tuple, Fraction] = {}
    for chance, batches in batches_of(sampler, n, b, k):
        key = tuple((0 in own, 0 if still else len(own) - (0 in own)) for own in batches)
        once[key] = once.get(key, Fraction(0)) + chance
    wanted = {x + y: p * q for (x, p), (y, q) in itertools.product(once.items(), repeat=2)}
    m = {"batching": sampler, "dataset_size": n, "batch_size": b, "participations": k,
         "max_batch_size": 2}  # fmt: skip
    found = {(0, ()): arb(1)}
    for at in [*range(len(next(iter(once))))] * 2:
        after: dict[tuple, arb] = {}
        for ((memory, drawn), p), draw in itertools.product(
            found.items(), list(_draws(SimpleNamespace(**m), at, 0, True, still))
        ):
            before, end, holds, others, weight = draw
            if before == memory:
                key = end, (*drawn, (holds, 0 if still else others))
                after[key] = after.get(key, arb(0)) + p * weight
        found = {key: p for key, p in after.items() if not p.is_zero()}
    assert {memory for memory, _ in found} == {0}
    assert {drawn for _, drawn in found} == set(wanted)
    for (_, drawn), p in found.items():
        assert float(p) == pytest.approx(float(wanted[drawn]), rel=1e-12)


@pytest.mark.parametrize("diameter", [None, 40.0])
@pytest.mark.parametrize("release", ["last iterate", "random stop", "random skip"])
def test_released_iterates_are_those_of_their_definition(release: str, diameter) -> None:
    """Far from walls, k steps give N(-k g, k s^2); the lengths k are equally likely."""
    lengths = {"last iterate": [5], "random stop": range(1, 6), "random skip": range(3, 6)}[release]
    mechanism = {
        **MECHANISM, "steps": 5, "noise_std": 10.0, "diameter": diameter, "release": release,
    }  # fmt: skip
    ctx.prec = 120
    both = chains(run(line(-0.1), line(0.0), 5), mechanism)
    cells = chain_cells(both, {"cuts": [1.0]}, 60)
    for side, push in ((0, 0.025), (1, 0.0)):
        below = sum(float(cell[side]) for cell in cells[: len(cells) // 2])
        wanted = [normal((1.0 - k * push) / math.sqrt(k)) for k in lengths]
        assert below == pytest.approx(sum(wanted) / len(wanted), rel=1e-9)


def counted(counts, error: float, **changes):
    """Return a witness of a claim of epsilon 0 by counts of one event."""
    names = "first_count", "first_total", "second_count", "second_total"
    test = {"index": 0, "order": "forward", "event": "x", **dict(zip(names, counts, strict=True))}
    samples = {
        "error": error, "errors": [error], "pilot": [0, 0], "certifying": [30, 20],
        "test": {**test, **changes},
    }  # fmt: skip
    content = witness(None, None, "epsilon", 0.0, 0.0)
    return {**content, "evidence": "sampled", "samples": samples}


def test_ranks_have_the_p_value_of_urns() -> None:
    """22 of 30 draws lie beyond the 9th of 20 others; under one law all orders are as likely."""
    n, count, m, rank = 30, 22, 20, 9
    orders = [math.comb(k + rank - 1, k) * math.comb(n - k + m - rank, n - k) for k in range(n + 1)]
    exact = sum(orders[count:]) / math.comb(n + m, n)
    for factor, answer in ((1.001, Answer.REFUTED), (0.999, Answer.NOT_REFUTED)):
        found = verify(counted((count, n, rank - 1, m), factor * exact))
        assert found.answer is answer, found


def test_two_rates_are_excluded_at_their_shares() -> None:
    """All of 30 draws and none of 20: a rate q has p-values q^30 and (1 - q)^20, each at half."""
    shape = {"angle": math.pi / 2, "first_guard": 0.5, "second_guard": 0.0}
    worst = root(lambda q: (1 - q) ** 20 - q**30, 0.0, 0.0, 1.0) ** 30
    answers = {2.002: Answer.REFUTED, 1.99999: Answer.TOO_LONG, 1.998: Answer.NOT_REFUTED}
    for factor, answer in answers.items():  # a difference like that of rounding contradicts nothing
        found = verify(counted((30, 30, 0, 20), factor * worst, **shape))
        assert found.answer is answer, found


def test_scores_of_both_tails_are_close_from_above() -> None:
    """Doubles next to 1 are coarse: a score of 5.7 was 60, and a true refutation was denied."""
    ctx.prec = 400
    for z in (-30.0, -5.7, 0.0, 1.0, 5.7, 9.0, 20.0):
        assert z <= _score(laws.normal(arb(z))) < z + 1e-6


def test_counts_are_of_the_draws_that_certify() -> None:
    """A part of the draws might be chosen by its counts."""
    cases = ("forward", (1, 31, 0, 20)), ("forward", (1, 29, 0, 20)), ("reverse", (1, 30, 0, 20))
    for order, counts in cases:
        found = verify(counted(counts, 0.05, order=order))
        assert found.answer is Answer.NOT_A_WITNESS
        assert "first_total must be that of the certifying draws" in found.reason


def test_counts_that_are_too_rare_to_be_followed_are_not_forgotten() -> None:
    """Of 1,000 records, batches rarer than 1e-60 are left out: their mass may be in any cell."""
    ctx.prec = 400
    mechanism = {
        **MECHANISM, "dataset_size": 1000, "batch_size": 10, "batching": "poisson", "steps": 1,
        "diameter": None,
    }  # fmt: skip
    pair = changed(run(line(-0.1), line(0.1), 1), {("phases", 0, "others"): [[1, line(0.1)]]})
    cells = chain_cells(chains(pair, mechanism), {"cuts": [-1.0, 0.0]}, 50)
    for side in (0, 1):
        total = sum((cell[side] for cell in cells), arb(0))
        assert total.contains(1)
        assert float(total.rad()) < 1e-55
        assert all(float(cell[side].rad()) > 1e-70 for cell in cells)


def test_a_memory_has_one_meaning_in_all_phases() -> None:
    """One of two records is drawn at each of two steps: N(0, 2) moved by 1, and mu is 2^.5."""
    phase = HONEST["pair"]["phases"][0]
    phases = [
        {**phase, "steps": 1, "step_size": 1.0, "first": line(-1.0), "second": line(1.0),
         "others": [[1, line(other)]]}
        for other in (0.0, 1e-300)
    ]  # fmt: skip
    mechanism = {
        **MECHANISM, "steps": 2, "dataset_size": 2, "batch_size": 1, "step_size": 1.0,
        "batching": "random allocation", "losses": "changing", "diameter": None,
    }  # fmt: skip
    pair = {"kind": "run", "start": 0.0, "phases": phases}
    for claimed, answer in ((1.41, Answer.REFUTED), (1.42, Answer.NOT_REFUTED)):
        content = witness(pair, MIDDLE, "mu", 0.0, claimed, mechanism=mechanism)
        assert verify(content).answer is answer


def test_others_that_move_in_some_phases_only_are_counted_in_them() -> None:
    """Two others come to each step with probability 1/3, and move X by -1 in the second one."""
    phase = {**HONEST["pair"]["phases"][0], "steps": 1, "step_size": 1.0}
    still = {**phase, "first": line(0.0), "second": line(0.0)}
    moved = {**still, "others": [[1, line(1.0)]]}
    mechanism = {
        **MECHANISM, "steps": 2, "dataset_size": 3, "batch_size": 1, "step_size": 1.0,
        "batching": "poisson", "losses": "changing", "diameter": None,
    }  # fmt: skip
    ctx.prec = 120
    both = chains({"kind": "run", "start": 0.0, "phases": [still, moved]}, mechanism)
    cells = chain_cells(both, {"cuts": [-1.0]}, 60)
    below = sum(float(cell[0]) for cell in cells[: len(cells) // 2])
    wanted = [w * normal((k - 1) / math.sqrt(2)) for k, w in enumerate((4 / 9, 4 / 9, 1 / 9))]
    assert below == pytest.approx(sum(wanted), rel=1e-9)


@pytest.mark.parametrize("rate", [None, 0.5])
def test_a_rate_of_poisson_batches_may_be_given(rate: float | None) -> None:
    mechanism = {
        **MECHANISM, "steps": 1, "batching": "poisson", "batch_size": 1, "release": "all iterates",
        "relation": "zero out", "diameter": None, "poisson_rate": rate,
    }  # fmt: skip
    # total variation of a step: the rate times that of N(1, 1) and N(0, 1)
    truth = (rate or 0.25) * (2 * normal(0.5) - 1)
    for share, answer in ((0.999, Answer.REFUTED), (1.001, Answer.NOT_REFUTED)):
        content = witness(
            GAUSSIANS, {"cuts": [0.5]}, "total variation", 0.0, share * truth, mechanism=mechanism
        )
        assert verify(content).answer is answer


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize(("quantity", "at"), [("epsilon", 0.0), ("Renyi divergence", 2.0)])
def test_masses_too_small_for_doubles_are_not_zero(quantity: str, at: float, order: str) -> None:
    """Exponentials of 1e100 are no ball: their ratio was no number, and read as zero."""
    pair, cuts = {**DENSITIES, "slope": 1e100}, {"cuts": [-0.25, 0.25]}
    found = verify(witness(pair, cuts, quantity, at, 1e200, order=order))
    assert found.answer is Answer.NOT_REFUTED, found
    assert verify(witness(pair, cuts, quantity, at, 1e99, order=order)).answer is Answer.REFUTED


@pytest.mark.parametrize("quantity", ["epsilon", "mu", "total variation", "1 - beta"])
def test_a_probability_that_is_not_known_proves_nothing(quantity: str) -> None:
    draws = [Draw([(arb(1), arb("nan")), (arb("nan"), arb(1))])]
    for at in (0.0, 0.5):
        assert laws.exceeds(quantity, arb(at), arb(0), draws)[:2] == (False, False)


def test_the_same_law_twice_refutes_nothing() -> None:
    same = run(line(-0.1), line(-0.1))
    assert verify({**HONEST, "pair": same}).answer is Answer.NOT_REFUTED


ENDS = (-1e6, 1e6)
WIDE = process(chain(0.1, 9, 0.1, ENDS, 0.5), chain(-0.1, 9, 0.1, ENDS, 0.5))
PLANE = {"weights": [1.0], "vectors": [[0.0] * 5]}
MANY = [[1, line(0.001 * (i % 7))] for i in range(2000)]
LONG = {
    "nodes": witness(WIDE, {"cuts": [0.0]}, "epsilon", 1e-5, 0.1),
    "cells": witness(
        {"kind": "normalvectors", "strategy": [[float(i == j) for j in range(5)] for i in range(5)],
         "noise_std": 1.0, "first": PLANE, "second": PLANE, "times": 1},
        {"cuts": [0.1 * i for i in range(80)]}, "epsilon", 1e-5, 0.1,
    ),
    "scores": witness(
        {**RESPONSE, "times": 1_000_000},
        {"scores": [1, 0], "modulus": 2_000_000, "bits": 2000}, "mu", 0.0, 0.1,
    ),
    "batches": changed(
        HONEST,
        {(*M, "batching"): "cyclic", (*M, "dataset_size"): 10**9, (*M, "batch_size"): 1},
    ),
    "moves of shuffled": changed(
        HONEST, {**IN_PAIRS, (*M, "batching"): "shuffled", (*M, "dataset_size"): 10**12},
    ),
    "moves of reshuffled": changed(HONEST, {
        (*M, "batching"): "reshuffled", (*M, "dataset_size"): 10**7, (*M, "batch_size"): 1,
        (*PHASE, "steps"): 10**7, (*M, "steps"): 10**7,
    }),
    "moves of allocated": changed(HONEST, {
        (*M, "batching"): "random allocation", (*M, "participations"): 10**6,
        (*PHASE, "steps"): 10**5, (*M, "steps"): 10**5,
    }),
    "moves of batches of any size": changed(HONEST, {
        **POISSON, (*M, "dataset_size"): 10**12, (*M, "batch_size"): 5 * 10**11,
        OTHERS: [[1, line(0.05)]],
    }),
    "records": changed(
        HONEST,
        {(*M, "batching"): "cyclic", (*M, "dataset_size"): 8000, OTHERS: MANY},
    ),
}  # fmt: skip


@pytest.mark.parametrize("much", LONG)
def test_what_would_take_long_is_refused_at_once(much: str) -> None:
    began = time.perf_counter()
    found = verify(LONG[much])
    assert found.answer is Answer.TOO_LONG, found
    assert much.partition(" ")[0] in found.reason
    assert time.perf_counter() - began < 5


def test_a_law_that_needs_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One true claim took 24 GB."""
    assert verify(HONEST).answer is Answer.REFUTED
    monkeypatch.setattr(walks, "_MAX_GIGABYTES", 1e-6)
    found = verify(HONEST)
    assert found.answer is Answer.TOO_LONG
    assert found.reason.endswith("GB")


def test_sums_of_few_scores_are_short_though_some_are_negative(monkeypatch) -> None:
    """Scores of -1 and 1 count from the lower one, which stood at the end of the modulus."""
    places = []

    def law_of_sum(powers, modulus):
        masses = [mass for own, _ in powers for mass in own]
        places.extend(i for i, mass in enumerate(masses) if not mass.is_zero())
        return real(powers, modulus)

    real = laws._law_of_sum
    monkeypatch.setattr(laws, "_law_of_sum", law_of_sum)
    content = witness(RESPONSE, {"scores": [1, -1], "modulus": 1000}, "epsilon", 1e-3, 9.0)
    assert verify(content).answer is Answer.REFUTED
    assert set(places) == {0, 2}


def test_a_composition_of_ten_thousand_draws() -> None:
    """Subsampled Gaussian at rate 0 is a law with itself: the sums of equal laws refute nothing."""
    pair = {
        "kind": "mixtures", "first": mixture([0.99, 0.01], [0.0, 1.0], 1.0),
        "second": mixture([1.0], [0.0], 1.0), "times": 10_000,
    }  # fmt: skip
    scores, cuts = [], []
    for i in range(-40, 200):
        level = math.exp(0.01 * (i + 0.5)) - 0.99
        if level > 0:
            cuts.append(math.log(level / 0.01) + 0.5)
            scores.append(i)
    partition = {"cuts": cuts, "scores": [*scores, scores[-1] + 1], "modulus": 2000}
    content = witness(pair, partition, "epsilon", 1e-5, 3.0)
    assert verify(content).answer is Answer.REFUTED
    equal = {**pair, "second": pair["first"]}
    assert verify({**content, "pair": equal, "claimed": 0.0}).answer is Answer.NOT_REFUTED


@pytest.mark.parametrize(("quantity", "at"), [("1 - beta", 0.1), ("total variation", 0.0)])
def test_cells_that_cannot_refute_are_not_taken_with_more_bits(quantity: str, at: float) -> None:
    pair = {"kind": "finite", "first": [0.5, 0.3, 0.2], "second": [0.4, 0.3, 0.3], "times": 20}
    content = witness(pair, {"scores": [-1, 0, 1], "modulus": 41}, quantity, at, 0.4)
    assert verify(content).answer is Answer.REFUTED
    assert verify({**content, "claimed": 0.9}).answer is Answer.NOT_REFUTED
    assert ctx.prec < 150  # those of the first try, though sums of scores are rounded down


def test_bits_that_change_nothing_are_not_doubled_for_a_claim_that_holds() -> None:
    """A cell whose mass under the second law is not known leaves the upper end infinite."""
    first, second = (
        {
            "start": 0.0, "lower": None, "upper": None,
            "paths": [{"probability": 1.0, "segments": [{"times": 2, "steps": [{
                "noise_std": 1.0, "maps": [{"weight": 1.0, "pieces": [
                    [None, 0.5, shift], [8.0, 0.5, shift + 0.1]
                ]}]
            }]}]}],
        }
        for shift in (0.0, 0.3)
    )  # fmt: skip
    pair = {"kind": "process", "first": first, "second": second}
    partition = {"cuts": [-30.0, 0.2], "window": [-60.0, 60.0]}
    content = witness(pair, partition, "Renyi divergence", 2.0, 0.01)
    assert verify(content).answer is Answer.REFUTED
    assert verify({**content, "claimed": 0.2}).answer is Answer.NOT_REFUTED
    assert ctx.prec <= 180


def test_the_command_needs_python_flint_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.witness.json"
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE)!r})\n"
        "sys.modules.update(numpy=None, audit=None)\n"
        "from audit_verify import main; sys.exit(main(sys.argv[1:]))"
    )
    for claimed, status, words in ((0.2, 0, "refuted: "), (90.0, 1, "not refuted by this witness")):
        file.write_text(json.dumps({**HONEST, "claimed": claimed}))
        done = subprocess.run(
            [sys.executable, "-I", "-c", code, str(file)],
            capture_output=True, text=True, check=False, timeout=60, env=dict(os.environ),
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        assert done.stdout.startswith(words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no {", "file must be JSON"),
        ("NaN", "witness must be object, got nan"),
        ('{"a": 1, "a": 2}', "unique"),
        ("[" * 100_000, "file must be JSON"),
        ("null", "witness must be object"),
    ],
)
def test_files_that_are_no_witness(text: str, message: str, tmp_path: Path, capsys) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert main([str(file)]) == 2
    assert message in capsys.readouterr().out
    assert main([str(tmp_path / "none.json")]) == 2


def test_an_answer_that_takes_too_long_is_given_up(monkeypatch, tmp_path: Path, capsys) -> None:
    def slow(_: object) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            pass

    def interrupt() -> None:  # whose thread ends after the interrupt is seen
        interrupt_main()
        time.sleep(0.5)

    (tmp_path / "a.json").write_text(json.dumps(HONEST))
    monkeypatch.setattr("audit_verify.verify", slow)
    monkeypatch.setattr("audit_verify.interrupt_main", interrupt)
    monkeypatch.setattr("audit_verify._MAX_SECONDS", 0.1)
    assert main([str(tmp_path / "a.json")]) == 3
    assert capsys.readouterr().out.startswith("not verified, it would take too long: the limits")


def test_normal_probabilities_are_those_of_flint() -> None:
    ctx.prec = 200
    cells = between([arb(-60), arb(0), arb(60)], normal_tails(arb(0), arb(1)))
    assert float(cells[0].rel_accuracy_bits()) > 150
    assert cells[0].str(10) == cells[3].str(10)
    assert sum(cells, arb(0)).contains(1)

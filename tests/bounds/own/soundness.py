"""The bounds of this package against exact laws of neighbouring pairs.

    python -m tests.bounds.own.soundness [PART [COUNT SEED]]
    python -m tests.bounds.own.soundness searched BOUND fixed|sampled|poisson [COUNT SEED]

The parts, keys of `PARTS`, draw mechanisms, and for each a random pair, or the worst one of a short
search. Without arguments all parts but ``searched`` run.

Each violation is printed with its pair, which names the mechanism. The low ends of the laws'
brackets are compared, so that errors of the laws can hide a violation and never feign one.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from audit import Batching, Losses, NoisySGD, Order, Relation, bounds, exact
from audit.bounds.own.coupling import TableCurve
from audit.constructions import (
    ChangingPair,
    Construction,
    GradientPair,
    Phase,
    PiecewiseLinear,
    suggested_members,
)
from audit.constructions.base import others_range, record_pushes
from audit.exact import GaussianPairCurve, LawCurve
from audit.search import worst_case
from audit.search.families import Family
from tests.bounds.grid import random_mechanism, random_members, random_pair
from tests.mechanisms import noisy_sgd

Curves = dict[str, Any]
Law = LawCurve | GaussianPairCurve
Draw = Callable[[np.random.Generator], tuple[Construction, Law]]
Make = Callable[[NoisySGD, np.random.Generator], Curves]

DELTA = 1e-5
DELTAS = (1e-2, DELTA, 1e-9)
SHARES = (0.0, 0.1, 0.5, 0.8, 1.0)
SMALL = {"distances": 24, "weights": 240}  # a grid of own.coupling that takes about a second
EVALUATIONS = 40  # pairs that a search tries
DRIFTS = (0.02, 0.1, 0.3, 1.0, 3.0)  # A = v D/s^2
NOISES = (0.05, 0.1, 0.2, 0.4, 1.0)  # s/D
TIMES = (0.1, 0.3, 1.0, 3.0)  # T s^2/D^2
GAPS = (0.0, 0.05)  # 1 - c
# our bounds that allow losses to change, but for the slow ones
CHANGING = tuple(
    id
    for id, entry in bounds.CATALOGUE.items()
    if id.startswith("own.") and Losses.CHANGING in entry.covers and not entry.slow
)
KINDS = {
    "fixed": (Batching.FULL, Batching.CYCLIC, Batching.SHUFFLED),
    "sampled": (Batching.WITHOUT_REPLACEMENT,),
    "poisson": (Batching.POISSON,),
}


@dataclass
class Tally:
    """What was compared: a line for a violation, and the largest ratio of a law to each bound."""

    wrong: list[str] = field(default_factory=list)
    comparisons: int = 0
    ratios: dict[str, float] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add what was compared elsewhere."""
        self.wrong += other.wrong
        self.comparisons += other.comparisons
        for id, ratio in other.ratios.items():
            self.ratios[id] = max(self.ratios.get(id, 0.0), ratio)

    def note(self, id: str, law: float, bound: float, slack: float, what: str) -> None:
        """Compare a value of a law, and ``what`` it is if it is above the bound."""
        self.comparisons += 1
        if bound > 1e3 * slack:  # or rounding shows
            self.ratios[id] = max(self.ratios.get(id, 0.0), law / bound)
        if law > bound * (1 + 1e-9) + slack:
            self.wrong.append(f"{id}: {bound} below {law}, {what}")

    def summary(self) -> str:
        """Return the counts and the largest ratios."""
        ratios = ", ".join(f"{id} {ratio:.9f}" for id, ratio in sorted(self.ratios.items()))
        return (
            f"{self.comparisons} comparisons, {len(self.wrong)} violations; "
            f"largest ratio of a law to {ratios or 'a bound: none'}"
        )


def compare(curves: Curves, pair: Construction, law: Law, epsilons: Sequence[float] = ()) -> Tally:
    """Compare bounds with the law of a pair, in both orders.

    Epsilons are compared at ``DELTAS``; deltas at ``SHARES`` of the epsilons that a bound claims
    there, and at ``epsilons``.
    """
    tally = Tally()
    for order in Order:
        lows = [law.epsilon_bracket(delta, order)[0] for delta in DELTAS]
        for id, curve in curves.items():
            claims = [float(curve.epsilon(delta)) for delta in DELTAS]
            for delta, claim, low in zip(DELTAS, claims, lows, strict=True):
                tally.note(id, low, claim, 1e-12, f"epsilon({delta}) of {pair}, {order}")
            points = {share * claim for claim in claims if claim < math.inf for share in SHARES}
            for epsilon in sorted(points | set(epsilons)):
                least, delta = law.delta_bracket(epsilon, order)[0], float(curve.delta(epsilon))
                tally.note(id, least, delta, 1e-15, f"delta({epsilon}) of {pair}, {order}")
    return tally


def check(curves: Curves, pairs: Sequence[Construction], epsilons: Sequence[float] = ()) -> Tally:
    """Compare bounds with laws of pairs."""
    tally = Tally()
    for pair in pairs:
        tally.add(compare(curves, pair, exact.curve(pair), epsilons))
    return tally


def check_runs(draw: Draw, make: Make, count: int, seed: int) -> Tally:
    """Compare the bounds that ``make`` returns for each pair drawn from a stream of its own."""
    tally = Tally()
    for place in range(count):
        random = np.random.default_rng((seed, place))
        pair, law = draw(random)
        tally.add(compare(make(pair.mechanism, random), pair, law))
        if place % 20 == 19:
            print(f"{place + 1} mechanisms, {tally.summary()}", flush=True)
    return tally


# --- the grid ---


def mechanism(
    drift: float, noise: float, steps: int, gap: float = 0.0, **other: object
) -> NoisySGD:
    """Full batches of ten records on a domain of diameter 1, with eta = 1 and smoothness 1.

    The shift v is the sensitivity over 10. Losses are linear beside a shared regulariser.
    """
    pushes: dict[str, object] = {"strong_convexity": gap, "lipschitz": None}
    pushes["gradient_sensitivity"] = 10 * drift * noise**2
    return noisy_sgd(steps=steps, dataset_size=10, noise_std=noise, **{**pushes, **other})


def settings() -> list[NoisySGD]:
    """The grid: 5 drifts, 5 noises, 4 lengths of runs, with and without contraction."""
    return [
        mechanism(a, s, max(round(t / s**2), 1), gap)
        for gap in GAPS
        for a in DRIFTS
        for s in NOISES
        for t in TIMES
    ]


def grid_run(random: np.random.Generator) -> tuple[Construction, Law]:
    """Return a setting of the grid, and a random or a suggested pair."""
    m = settings()[int(random.integers(len(settings())))]
    known = [pair for pair in suggested_members(m) if isinstance(pair, Construction)]
    pairs = [*known, *random_members(m, random)]
    pair = pairs[int(random.integers(len(pairs)))]
    return pair, exact.curve(pair)


# --- random mechanisms ---


def short_run(
    random: np.random.Generator, kinds: Sequence[Batching] = tuple(Batching)
) -> tuple[Construction, Law]:
    """Return a random pair of a random mechanism that the bounds by couplings cover."""
    while True:
        m = random_mechanism(random)
        if {"own.forgetting", "own.coupling"} <= set(bounds.applicable(m)):
            pair = random_pair(m, random)
            law = exact.curve(pair)
            if m.batching in kinds:
                return pair, law


fixed_run = functools.partial(short_run, kinds=(Batching.FULL, Batching.CYCLIC))


def weird_mechanism(random: np.random.Generator, id: str, kind: str) -> NoisySGD:
    """Return a random mechanism that a bound covers, with batches of a kind of ``KINDS``.

    Noise from a hundredth to three times the domain, one step to 300, one record, two batches,
    rates near 0 and 1, eta m near 1, eta M up to 2, no domain.
    """

    def drawn(*values: float) -> float:
        return float(random.choice(values))

    kinds = KINDS[kind]
    while True:
        batching = kinds[int(random.integers(len(kinds)))]
        n = int(drawn(1, 2, 2, 3, 4, 5, 10, 50, 1000, 10**6))
        b = int(drawn(1, 2, max(n // 10, 1), max(n // 2, 1), max(n - 1, 1), n))
        if batching is Batching.FULL:
            b = n
        elif kind != "sampled":
            n, b = min(n, 1000), min(b, 50)  # laws of Poisson batches follow each size
            if kind == "fixed":
                n = b * int(drawn(1, 2, 2, 3, 5, 12))
        b = min(b, n)
        eta = drawn(1.0, 0.1)
        largest = n / b if batching is Batching.POISSON else 1.0  # batch, over its nominal size
        smoothness = drawn(0.5, 1.0, 1.0, 1.99, 2.0) / eta / largest
        strong = drawn(0, 0, 0, 0.05, 0.5, 0.99) * min(smoothness, 1 / eta)
        noise = 10 ** random.uniform(-2, 0.5)  # of a step
        gradient = 10 ** random.uniform(-2, 1.2) * noise * b / eta / 2
        relation = Relation.REPLACE_ONE if random.random() < 0.7 else Relation.ZERO_OUT
        if batching is Batching.POISSON and random.random() < 0.3:
            relation = Relation.ADD_REMOVE
        given = random.random()
        most = 2.0 if relation is Relation.REPLACE_ONE else 1.0
        share = random.uniform(0.3, 1.0) if given > 0.8 else 1.0
        m = NoisySGD(
            steps=int(drawn(1, 1, 2, 2, 3, 3, 4, 6, 10, 20, 60, 300)),
            dataset_size=n,
            batch_size=b,
            step_size=eta,
            noise_std=noise / eta,
            smoothness=smoothness,
            strong_convexity=strong,
            lipschitz=gradient if given < 0.5 or given > 0.8 else None,
            gradient_sensitivity=share * most * gradient if given > 0.5 else None,
            diameter=1.0 if random.random() < 0.75 else None,
            batching=batching,
            relation=relation,
            losses=Losses.CHANGING if random.random() < 0.3 else Losses.FIXED,
        )
        if id in bounds.applicable(m):
            return m


def sampled_run(
    random: np.random.Generator, id: str = "own.adaptive_shifts", kind: str = "sampled"
) -> tuple[Construction, Law]:
    """Return a random run on sampled batches, and a pair whose law is computed."""
    while True:
        m = weird_mechanism(random, id, kind)
        try:
            if kind == "sampled" or random.random() < 0.5:
                pair = random_pair(m, random)
            else:
                family, stage = Family(m), int(random.integers(3))
                point = random.random(len(family.names(stage)))
                snapped = random.random(point.size) < 0.4
                pair = family.pair(np.where(snapped, np.rint(2 * point) / 2, point), stage)
            return pair, exact.curve(pair)
        except (AssertionError, ValueError):  # no pair, or too far apart for a computed law
            continue


poisson_run = functools.partial(sampled_run, id="own.forgetting", kind="poisson")


def changing_run(random: np.random.Generator) -> tuple[Construction, Law]:
    """Return a random pair whose losses change, linear and clipped ones in up to four phases.

    The record's push may change its sign.
    """
    kinds = (Batching.FULL, Batching.CYCLIC, Batching.WITHOUT_REPLACEMENT)
    while True:
        m = replace(random_mechanism(random), losses=Losses.CHANGING)
        whole = m.lipschitz is not None and m.gradient_sensitivity is None
        if m.batching in kinds and whole and m.strong_convexity == 0:
            break
    assert m.lipschitz is not None
    half = 1.0 if m.diameter is None else m.diameter / 2
    count = int(random.integers(1, min(4, m.steps) + 1))
    ends = np.sort(random.choice(np.arange(1, m.steps), count - 1, replace=False))
    slope = 0.0 if m.smoothness is None else m.smoothness
    phases = []
    for length in np.diff([0, *ends, m.steps]):
        others = PiecewiseLinear.constant(m.lipschitz * float(random.uniform(-1, 1)))
        if slope and random.random() < 0.5:
            cap = float(m.lipschitz * random.uniform(0.1, 1))
            others = PiecewiseLinear.clipped(slope, float(random.uniform(-half, half)), cap)
        if m.dataset_size == 1:
            others = PiecewiseLinear.constant(0.0)
        side = float(random.choice([-1, 1])) * m.lipschitz
        record = (side, -side if m.relation is Relation.REPLACE_ONE else 0.0)
        phases.append(Phase(int(length), others, *map(PiecewiseLinear.constant, record)))
    pair = ChangingPair(m, tuple(phases), start=float(random.uniform(-half, half)))
    return pair, exact.curve(pair)


def rough_mechanism(random: np.random.Generator, most_steps: int) -> NoisySGD:
    """Return a mechanism on fixed batches whose losses need not be smooth or convex."""
    n = int(random.integers(1, 9))
    divisors = [b for b in range(1, n + 1) if n % b == 0]
    b = n if random.random() < 0.4 else int(random.choice(divisors))
    eta = float(random.choice([0.1, 1.0]))
    relation = Relation.REPLACE_ONE if random.random() < 0.7 else Relation.ZERO_OUT
    most = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    steep = 2 * 10 ** random.uniform(0, 0.7) / eta
    holder = (10 ** random.uniform(-1, 0.4) / eta, float(random.uniform(0.3, 0.95)))
    kinds: dict[str, dict[str, Any]] = {
        "not smooth": {},
        "Hoelder": {"holder": holder},
        "Hoelder, not convex": {"holder": holder, "convex": False},
        "large steps": {"smoothness": steep},
        "strongly convex": {"smoothness": steep, "strong_convexity": random.uniform(0, steep)},
        "not convex": {"convex": False},
        "smooth, not convex": {"smoothness": steep / 10, "convex": False},
        "clipped": {"lipschitz": None, "clip_norm": 1.0},
    }
    names = list(kinds)
    kind = str(random.choice(names, p=[0.3, *[0.1] * (len(names) - 1)]))
    losses = {"lipschitz": 1.0, **kinds[kind]}
    if random.random() < 0.15 and kind != "clipped":
        losses["gradient_sensitivity"] = most * float(random.uniform(0.3, 1))
    size = b if random.random() < 0.7 else 1
    noise = most / size * math.exp(random.uniform(-1.1, 2.3))
    width = math.exp(random.uniform(-1.6, 2.1))
    steady = kind in ("not smooth", "not convex", "clipped")
    walls = not steady or random.random() < 0.8
    return NoisySGD(
        steps=int(random.integers(1, most_steps)),
        dataset_size=n,
        batch_size=b,
        step_size=eta,
        noise_std=noise,
        diameter=width * eta * noise if walls else None,
        batching=Batching.FULL if b == n else Batching.CYCLIC,
        relation=relation,
        **losses,
    )


def kinked_pair(m: NoisySGD, random: np.random.Generator) -> GradientPair:
    """Other records whose gradient changes abruptly, between any values that are allowed."""
    low, high = (float(value) for value in others_range(m))
    half = 0.5 * (m.diameter if m.diameter is not None else 6 * m.step_std)
    width = m.step_std * 10 ** random.uniform(-1, 0.5)
    if m.smoothness is not None:
        width = max(width, (high - low) / (0.99 * m.smoothness))
    centre = float(random.uniform(-half, half)) if random.random() < 0.5 else 0.0
    before, after = -high, -low  # gradients
    if not m.convex and random.random() < 0.6:
        before, after = after, before
    push, push_prime = record_pushes(m)
    others = PiecewiseLinear((centre - width / 2, centre + width / 2), (before, after), (0.0, 0.0))
    return GradientPair(
        m,
        others=others if m.dataset_size > 1 else PiecewiseLinear.constant(0.0),
        record=PiecewiseLinear.constant(-push),
        record_prime=PiecewiseLinear.constant(-push_prime),
        start=float(random.choice([0.0, -half, random.uniform(-half, half)])),
    )


def rough_run(random: np.random.Generator) -> tuple[Construction, Law]:
    """Return a random pair of a mechanism whose losses need not be smooth, or a kinked one."""
    while True:
        m = rough_mechanism(random, 12)
        plain = m.holder is None and m.strong_convexity == 0
        pair = (kinked_pair if plain and random.random() < 0.5 else random_pair)(m, random)
        try:
            return pair, exact.curve(pair)
        except ValueError:  # too wide for a computed law
            continue


def searched_run(id: str, kind: str, random: np.random.Generator) -> tuple[Construction, Law]:
    """Return the worst pair that a short search finds, for a mechanism that a bound covers.

    Bounds hold in any dimension, so half of the searches may use many.
    """
    while True:
        m = weird_mechanism(random, id, kind)
        try:
            found = worst_case(
                m,
                delta=float(random.choice(DELTAS)),
                seed=int(random.integers(2**32)),
                evaluations=EVALUATIONS,
                many_dimensions=bool(random.random() < 0.5),
            )
        except ValueError:  # no law can be computed
            continue
        return found.construction, found.law


# --- bounds ---


@dataclass(frozen=True)
class Scaled:
    """A curve whose epsilons are multiplied by a factor."""

    curve: Any
    factor: float

    def epsilon(self, delta: float) -> float:
        return self.factor * float(self.curve.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        return float(self.curve.delta(epsilon / self.factor))


def evaluated(*ids: str) -> Make:
    """Return the function that evaluates those of some bounds that apply."""

    def make(m: NoisySGD, random: np.random.Generator) -> Curves:
        return {
            id: bounds.evaluate(id, m, **(SMALL if id == "own.coupling" else {}))
            for id in ids
            if id in bounds.applicable(m)
        }

    return make


def with_some_couplings(m: NoisySGD, random: np.random.Generator) -> Curves:
    """Return bounds on Poisson batches; `own.coupling`, which is slow, on a tenth."""
    slow = ("own.coupling",) if random.random() < 0.1 else ()
    return evaluated("own.adaptive_shifts", "own.forgetting", *slow)(m, random)


def couplings(m: NoisySGD, random: np.random.Generator) -> Curves:
    """Return `own.coupling`, a tenth on the default grid, and with other numbers of merged steps.

    Short runs would not be merged otherwise.
    """
    options = {} if random.random() < 0.1 else SMALL
    curve = bounds.evaluate("own.coupling", m, **options)
    curves: Curves = {"own.coupling": curve}
    recursion = curve.curves[0]
    if isinstance(recursion, TableCurve):
        gap = recursion.table.run.gap
        most = min(m.steps, int(0.25 / gap)) if gap > 0 else m.steps
        merged = int(random.choice([1, 2, 3, most // 2, most]))
        table = replace(recursion.table, merged=min(max(merged, 1), max(most, 1)))
        curves["merged steps"] = replace(recursion, table=table)
    return curves


# --- parts ---

# what each draws, and the bounds on it
PARTS: dict[str, tuple[Draw, Make]] = {
    "grid": (grid_run, evaluated("own.forgetting", "own.coupling")),
    "random": (short_run, evaluated("own.forgetting", "own.coupling")),
    "sampled": (sampled_run, evaluated("own.adaptive_shifts", "own.coupling")),
    "poisson": (poisson_run, with_some_couplings),
    "moves": (fixed_run, evaluated("own.parallel_moves", "own.relative_entropy")),
    "changing": (changing_run, evaluated(*CHANGING)),
    "rough": (rough_run, evaluated("own.modulus")),
}


def main() -> None:
    """Run one part, or all but ``searched``."""
    words, parts = sys.argv[1:], dict(PARTS)
    if words[:1] == ["searched"]:
        _, id, kind, *numbers = words
        make = couplings if id == "own.coupling" else evaluated(id)
        parts = {id: (functools.partial(searched_run, id, kind), make)}
        words = [id, *numbers]
    count, seed = (int(word) for word in words[1:] or (1000, 20265))
    tally = Tally()
    for part in words[:1] or parts:
        tally.add(check_runs(*parts[part], count, seed))
    print("\n".join(tally.wrong))
    print(f"{tally.summary()}; {time.process_time():.0f} s of processor time")


if __name__ == "__main__":
    main()

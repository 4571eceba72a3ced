"""Random small mechanisms, and random admissible pairs for them, from a seed."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from audit import Batching, Losses, NoisySGD, Relation, Release
from audit.constructions import Construction, kinds

KINDS = (Batching.FULL, Batching.CYCLIC, Batching.WITHOUT_REPLACEMENT, Batching.POISSON)
SHARES = (0.4, 0.35, 0.15, 0.1)


def random_mechanism(random: np.random.Generator) -> NoisySGD:
    """Short runs and domains of a few noise deviations, so that an exact law takes little time."""
    batching = KINDS[int(random.choice(len(KINDS), p=SHARES))]
    n = int(random.integers(1, 7))
    divisors = [b for b in range(1, n + 1) if n % b == 0]
    if batching is Batching.FULL:
        b = n
    elif batching is Batching.CYCLIC:
        b = int(random.choice(divisors))
    else:
        b = int(random.integers(1, n + 1))
    steps = int(random.integers(1, 13))
    if batching is Batching.CYCLIC and random.random() < 0.8:
        steps = n // b * int(random.choice([1, 1, 2, 3]))
    eta = float(random.choice([0.1, 1.0]))
    convex = bool(random.random() < 0.9)
    smoothness = float(random.choice([1.0, 2.0, random.uniform(0.1, 2.0)])) / eta
    curved = convex and random.random() < 0.45
    strong = float(random.uniform(0.02, 1.0)) * smoothness if curved else 0.0
    relation = Relation.REPLACE_ONE if random.random() < 0.7 else Relation.ZERO_OUT
    kind = random.choice(["lipschitz", "lipschitz", "gradient_sensitivity", "both"])
    most = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    losses = {
        "lipschitz": {"lipschitz": 1.0},
        "gradient_sensitivity": {"gradient_sensitivity": most},
        "both": {"lipschitz": 1.0, "gradient_sensitivity": most * random.uniform(0.3, 1.0)},
    }[str(kind)]
    if kind == "lipschitz" and strong == 0 and random.random() < 0.1:
        losses = {"clip_norm": 1.0}
    noise = most / b / float(np.exp(random.uniform(math.log(0.15), math.log(2.5))))
    step_size: float | tuple[float, ...] = eta
    if random.random() < 0.1:
        step_size = tuple(float(eta * s) for s in random.uniform(0.5, 1.0, steps))
    open_line = batching in (Batching.FULL, Batching.CYCLIC) and random.random() < 0.25
    width = float(np.exp(random.uniform(math.log(0.3), math.log(6.0))))
    return NoisySGD(
        steps=steps,
        dataset_size=n,
        batch_size=b,
        step_size=step_size,
        noise_std=noise,
        smoothness=smoothness if random.random() < 0.9 or strong else None,
        strong_convexity=strong,
        convex=convex,
        diameter=None if open_line else width * eta * noise,
        batching=batching,
        relation=relation,
        **losses,
    )


def any_mechanism(random: np.random.Generator, number: int) -> NoisySGD:
    """Return a mechanism as `random_mechanism` does, with rarer choices: each variant in turn."""
    while True:
        m = random_mechanism(random)
        try:
            return dataclasses.replace(m, **VARIANTS[number % len(VARIANTS)](m))
        except ValueError:  # choices that exclude each other
            continue


def _lattice(m: NoisySGD) -> dict[str, Any]:
    return {
        **_rough(m),
        "dataset_size": 40,
        "batch_size": 20,
        "step_size": 1.0,
        "noise_std": 0.1,
        "lipschitz": None,
        "gradient_sensitivity": None,
        "clip_norm": 1.0,
        "diameter": None,
        "batching": Batching.WITHOUT_REPLACEMENT,
    }


def _large_noise(batching: Batching) -> dict[str, Any]:
    """Return choices at a small rate, for which bounds in closed form hold."""
    return {
        "batching": batching,
        "dataset_size": 6,
        "batch_size": 1,
        "noise_std": 9.0,
        "diameter": 10.0,
        "relation": Relation.ZERO_OUT,
        "strong_convexity": 0.0,
        "lipschitz": 1.0,
        "gradient_sensitivity": None,
        "clip_norm": None,
    }


def _rough(m: NoisySGD) -> dict[str, Any]:
    return {"convex": False, "smoothness": None, "strong_convexity": 0.0}


def one_pass(m: NoisySGD) -> dict[str, Any]:
    sizes = {"batch_size": 1, "steps": m.dataset_size, "step_size": float(m.step_sizes[0])}
    return {**sizes, "batching": Batching.CYCLIC, "convex": True}


def _drawn(batching: Batching, m: NoisySGD) -> dict[str, Any]:
    most = m.batch_size + 1 if "max_batch_size" in batching.fields else None
    return {"batching": batching, "max_batch_size": most}


VARIANTS: tuple[Callable[[NoisySGD], dict[str, Any]], ...] = (
    lambda m: {},
    lambda m: {"relation": Relation.ADD_REMOVE, "strong_convexity": 0.0},
    lambda m: {"losses": Losses.CHANGING},
    lambda m: {"release": Release.RANDOM_STOP},
    lambda m: {"release": Release.RANDOM_SKIP},
    lambda m: {**one_pass(m), "release": Release.RANDOM_STOP},
    lambda m: {**one_pass(m), "release": Release.RANDOM_SKIP},
    *(functools.partial(_drawn, batching) for batching in Batching if batching not in KINDS),
    lambda m: {
        "batching": Batching.RANDOM_ALLOCATION,
        "dataset_size": 4,
        "batch_size": 2,
        "steps": 2,
        "step_size": 1.0,
        "relation": Relation.ZERO_OUT,
    },
    lambda m: {
        "batching": Batching.TRUNCATED_POISSON,
        "max_batch_size": m.batch_size,
        "relation": Relation.ADD_REMOVE,
        "strong_convexity": 0.0,
    },
    lambda m: _large_noise(Batching.POISSON),
    lambda m: _large_noise(Batching.WITHOUT_REPLACEMENT),
    lambda m: {**_rough(m), "holder": (2.0, 0.5)},
    _lattice,
    lambda m: {**_lattice(m), "relation": Relation.ADD_REMOVE},
)


def random_members(m: NoisySGD, random: np.random.Generator) -> list[Construction]:
    """Return a random member of every registered construction that has one."""
    found = (next(kind.random(m, random), None) for kind in kinds().values())
    return [pair for pair in found if pair is not None]


def random_pair(
    m: NoisySGD, random: np.random.Generator, first: Collection[str] = ()
) -> Construction:
    """Return a random member, or a suggested one, of a registered construction; some come first."""
    known = [list(kinds().items())[place] for place in random.permutation(len(kinds()))]
    for _, kind in sorted(known, key=lambda one: one[0] not in first):
        suggested = list(kind.suggested(m)) if random.random() < 0.3 else []
        if suggested:
            return suggested[int(random.integers(len(suggested)))]
        pair = next(kind.random(m, random), None)
        if pair is not None:
            return pair
    raise AssertionError(f"no pair for {m}")

"""Random small mechanisms, and random admissible pairs for them, from a seed."""

from __future__ import annotations

import math

import numpy as np

from audit import Batching, NoisySGD, Relation
from audit.constructions import (
    BiasedWalk,
    Construction,
    DriftedWalk,
    Inadmissible,
    QuadraticPair,
    ResetWalk,
    TwoSidedWalk,
)
from audit.constructions.gradient_limits import others_range

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


def random_pair(m: NoisySGD, random: np.random.Generator) -> Construction:
    """One of the admissible pairs that the package builds, with random parameters."""
    half = 0.5 * m.diameter if m.diameter is not None else 0.0
    start = float(random.choice([0.0, -half, random.uniform(-half, half)]))
    eta = float(m.step_sizes[0])
    length = m.dataset_size // m.batch_size
    cyclic = m.batching is Batching.CYCLIC
    position = int(random.integers(length)) if cyclic and random.random() < 0.5 else None
    low, high = others_range(m)
    bound = 1.0 if math.isinf(high) else high
    others = float(random.choice([low, high, 0.0, random.uniform(low, high)]))
    share = (m.dataset_size - 1) / m.dataset_size if m.batching is Batching.FULL else 1.0
    most = 2.0 / eta if m.smoothness is None else m.smoothness
    least = m.strong_convexity if m.convex else -most
    curvature = float(random.choice([least, most, random.uniform(least, most)]))
    sharp = float(random.choice([min(1 / eta, most), most, random.uniform(0.1, 1.0) * most]))
    makers = {
        "biased": lambda: BiasedWalk(m, start, position),
        "two-sided": lambda: TwoSidedWalk(m, start, position),
        "drifted": lambda: DriftedWalk(m, others * eta * share, start, position),
        "quadratic": lambda: QuadraticPair(m, curvature, others, start, position),
        "flat quadratic": lambda: QuadraticPair(m, least, 0.0, start, position),
        "reset": lambda: ResetWalk(m, sharp, bound, 0.0, start, position),
        "weak reset": lambda: ResetWalk(m, sharp, 0.5 * bound, 0.3 * half, start, position),
    }
    names = list(makers)
    names = [str(name) for name in random.permutation(names)]
    if m.strong_convexity > 0:  # the others would refuse
        names.sort(key=lambda name: "quadratic" not in name)
    for name in names:
        try:
            return makers[name]()
        except Inadmissible:
            continue
    raise AssertionError(f"no pair for {m}")

"""The certified epsilon: medians over seeds, compared with other packages and two oracles.

Every method is told that high scores favour the first law, which the other packages assume. The
first oracle also knows the best event: it tries many events at the full error, with Clopper and
Pearson's limits and with joint regions of all shapes, and its median is that of the best one in
hindsight. The second oracle knows the best rank and tests it exactly.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import laplace, norm

from audit.curves import GaussianCurve, LaplaceCurve, Order
from audit.estimation import SimultaneousBand, audit_samples
from audit.estimation.order_statistics import (
    Hypothesis,
    epsilon_hypothesis,
    largest_rejected,
)
from audit.estimation.rate_limits import lower_limit, upper_limit
from audit.estimation.regions import (
    Counts,
    JointShape,
    Region,
    joint_edges,
)
from results.calibration import other_packages
from results.calibration.mechanisms import Mechanism, discrete, gaussian, sampled_gaussian
from results.calibration.mechanisms import laplace as laplace_pair

Array = NDArray[np.float64]

CONFIDENCE = 0.95
SIZES = (100, 400, 5_000, 100_000, 1_000_000)
POWER_DELTAS = (0.0, 1e-5, 1e-2)
SEEDS = 200
_SEEDS_AT = {1_000_000: 10}  # fewer where each takes long
_CHUNK = 10
OURS, EITHER, BAND, ORACLE = (
    "this package, default",
    "this package, default, direction not declared",
    "this package, simultaneous band",
    "oracle, event known",
)
RANK_ORACLE = "oracle, rank known"
# Held against: what is valid and chooses its threshold from the scores.
RIVALS = (
    "jax-privacy, Bonferroni, both directions",
    "jax-privacy, split, both directions",
    "privacy-estimates, beta, threshold from half of the scores",
)
_SHAPES = [JointShape(angle, 0.05) for angle in np.linspace(0.4, np.pi / 2, 8)]
_SHARES = (0.1, 0.2, 0.5)  # of the error, to the first of two Clopper-Pearson limits
_CORNERS = 24


@dataclass(frozen=True, eq=False)
class Case:
    """A pair whose truth is known, and the thresholds among which the oracle looks."""

    mechanism: Mechanism
    truth: tuple[float, ...]  # at POWER_DELTAS
    upper_tail: Any  # the second law's inverse survival function


@cache
def cases() -> dict[str, Case]:
    """All pairs by name."""

    def truths(curve: GaussianCurve | LaplaceCurve) -> tuple[float, ...]:
        return tuple(float(curve.epsilon(delta)) for delta in POWER_DELTAS)

    coin = np.array([0.25, 0.75])
    listed = [
        *(
            Case(gaussian(mu), (np.inf, *truths_of(GaussianCurve(mu))), norm.isf)
            for mu in (0.5, 1.0, 2.0)
        ),
        Case(laplace_pair(), truths(LaplaceCurve(1.0)), laplace.isf),
        Case(
            discrete("randomised response", np.array([0.0, 1.0]), coin, coin[::-1]),
            tuple(float(np.log((0.75 - delta) / 0.25)) for delta in POWER_DELTAS),
            lambda rate: np.where(rate > 0.25, 0.0, 0.5),
        ),
        Case(sampled_gaussian(0.1, 2.0), (np.inf, *_sampled_truths(0.1, 2.0)), norm.isf),
    ]
    return {case.mechanism.name: case for case in listed}


def truths_of(curve: GaussianCurve) -> tuple[float, ...]:
    """Return the epsilons at the deltas above 0."""
    return tuple(float(curve.epsilon(delta)) for delta in POWER_DELTAS if delta > 0)


def _sampled_truths(rate: float, shift: float) -> tuple[float, ...]:
    t = np.linspace(-9.0, 20.0, 400_001)
    p, q = (1 - rate) * norm.sf(t) + rate * norm.sf(t - shift), norm.sf(t)
    found = []
    for delta in POWER_DELTAS[1:]:
        inside = p > delta
        high = np.max(np.log(p[inside] - delta) - np.log(q[inside]))
        gap = (1 - q) - delta
        low = np.max(np.log(gap[gap > 0]) - np.log((1 - p)[gap > 0]))
        found.append(float(max(high, low)))
    return tuple(found)


@dataclass(frozen=True)
class Chunk:
    """Some seeds of one pair and size; a pure function of its fields."""

    mechanism: str
    size: int
    start: int
    seeds: int
    package: str = ""  # others are run where they are installed

    @property
    def key(self) -> str:
        """A file name."""
        name = f"power {self.mechanism} {self.size} {self.start}+{self.seeds}"
        return name.replace(" ", "_")


def chunks(seeds: int = SEEDS, largest: int = SIZES[-1]) -> list[Chunk]:
    """All chunks of at most some size, small ones first."""
    return [
        Chunk(name, size, start, min(_CHUNK, most - start))
        for size in SIZES
        if size <= largest
        for most in (min(seeds, _SEEDS_AT.get(size, seeds)),)
        for name in cases()
        for start in range(0, most, _CHUNK)
    ]


def first_values(chunk: Chunk) -> list[float]:
    """Return the default's bounds of the first seed, which `run` stores."""
    return dict(_ours(_draw(chunk, chunk.start), chunk.start))[OURS]


def run(chunk: Chunk) -> dict[str, Any]:
    """Audit every seed of the chunk in every way, each on the same samples."""
    clock = time.process_time()
    values: dict[str, list[list[float]]] = {}
    oracles: dict[str, list[list[list[float]]]] = {}
    for seed in range(chunk.start, chunk.start + chunk.seeds):
        samples = _draw(chunk, seed)
        for name, bounds in (*_ours(samples, seed), *_others(samples, seed)):
            values.setdefault(name, []).append(bounds)
        for name, found in _oracles(cases()[chunk.mechanism], samples):
            oracles.setdefault(name, []).append(np.maximum(found, 0.0).tolist())
    return {
        "mechanism": chunk.mechanism,
        "size": chunk.size,
        "deltas": list(POWER_DELTAS),
        "truth": [one if np.isfinite(one) else None for one in cases()[chunk.mechanism].truth],
        "values": values,
        "oracles": oracles,  # seeds, deltas, events and tests
        "first_values": values[OURS][0],
        "seconds": time.process_time() - clock,
    }


def _draw(chunk: Chunk, seed: int) -> tuple[Array, Array]:
    mechanism = cases()[chunk.mechanism].mechanism
    generator = np.random.default_rng([seed, chunk.size])
    return mechanism.draw_first(generator, chunk.size), mechanism.draw_second(generator, chunk.size)


def _ours(samples: tuple[Array, Array], seed: int) -> Iterator[tuple[str, list[float]]]:
    for name, favours in ((OURS, Order.FORWARD), (EITHER, None)):
        # each delta is named by itself, as the others are asked
        yield (
            name,
            [
                audit_samples(
                    *samples, confidence=CONFIDENCE, deltas=(delta,), seed=seed, favours=favours
                ).epsilon_lower(delta)
                for delta in POWER_DELTAS
            ],
        )
    band = audit_samples(
        *samples,
        confidence=CONFIDENCE,
        thresholds=SimultaneousBand(favours=(Order.FORWARD,)),
    )
    yield BAND, np.asarray(band.epsilon_lower(np.array(POWER_DELTAS))).tolist()


def _others(samples: tuple[Array, Array], seed: int) -> Iterator[tuple[str, list[float]]]:
    if not other_packages.reason_not_run("jax-privacy"):
        for name, strategy in zip(RIVALS[:2], ("Bonferroni", "split"), strict=True):
            found = other_packages.jax_epsilons(*samples, CONFIDENCE, POWER_DELTAS, strategy, seed)
            yield name, found
    if not other_packages.reason_not_run("privacy-estimates"):
        yield (
            RIVALS[2],
            [
                other_packages.beta_of_half(*samples, CONFIDENCE, delta, seed)
                for delta in POWER_DELTAS
            ],
        )


def _oracles(case: Case, samples: tuple[Array, Array]) -> Iterator[tuple[str, Array]]:
    """Yield what each event and test certifies by itself, shape (deltas, events * tests)."""
    error, n = 1 - CONFIDENCE, samples[0].size
    first, second = (np.sort(part) for part in samples)
    rates = np.unique(np.append(np.geomspace(0.7 / n, 0.5, 24), 0.25))
    thresholds = np.unique(case.upper_tail(rates))
    found: list[Array] = []
    deltas = np.array(POWER_DELTAS)
    in_first = n - np.searchsorted(first, thresholds, side="left")
    in_second = n - np.searchsorted(second, thresholds, side="left")
    for share in _SHARES:
        p = lower_limit(in_first, n, share * error)
        q = upper_limit(in_second, n, (1 - share) * error)
        with np.errstate(divide="ignore"):
            found.append(np.log(np.maximum(p - deltas[:, None], 1e-300)) - np.log(q))
    edges = [
        Region(*joint_edges(Counts(int(a), n, int(b), n), error, _SHAPES, _CORNERS))
        for a, b in zip(in_first, in_second, strict=True)
    ]
    for k in range(len(_SHAPES)):
        found.append(
            np.array(
                [
                    [np.min(Region(e.first[k], e.second[k]).epsilons(np.asarray(d))) for e in edges]
                    for d in POWER_DELTAS
                ]
            )
        )
    yield ORACLE, np.concatenate(found, axis=1)
    ranks = np.unique(np.rint(rates * n).astype(np.int64))
    above = n - np.searchsorted(first, second[n - ranks], side="right")
    whole = np.full(ranks.size, n)
    counts = Counts(above, whole, ranks - 1, whole)

    def rejected(delta: float) -> Array:
        def claim(_: object, epsilon: Array) -> Hypothesis:
            return epsilon_hypothesis(epsilon, delta, True, True)

        return largest_rejected(counts, np.full(ranks.size, error), claim, 700.0)

    yield RANK_ORACLE, np.array([rejected(delta) for delta in POWER_DELTAS])

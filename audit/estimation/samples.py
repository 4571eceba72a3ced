"""A lower bound on privacy loss from two samples of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.estimation.events import ThresholdTest, count_event, opposite
from audit.estimation.evidence import CountedTest
from audit.estimation.pilot import Pilot, PilotSplit
from audit.estimation.regions import Counts, JointShape, joint, rectangle
from audit.estimation.result import Audit
from audit.mechanism import Order

Array = NDArray[np.float64]

_FEWEST_SCORES = 4  # two to choose, two to certify


def audit_samples(
    samples: ArrayLike,
    samples_prime: ArrayLike,
    *,
    confidence: float,
    seed: int,
    deltas: Sequence[float] = (),
    thresholds: PilotSplit | None = None,
) -> Audit:
    """Certify how distinguishable two mechanisms are from independent samples of each.

    A random pilot part of each sample chooses events {x >= t} and {x <= t} and the law that
    favours each; the rest is counted. The error 1 - confidence is shared beforehand: between
    the named deltas equally, within each between the two orders of the pair, and with a band
    that serves every other delta and every other question. A named delta's test has a joint
    confidence region for its two rates (`joint`), a test of the band Clopper-Pearson limits on
    each (`rectangle`).

    Parameters
    ----------
    samples, samples_prime
        Scores of the first and of the second mechanism of the pair, shapes (n,) and (n',), at
        least 4 each: independent draws, finite, ties allowed. Scores must not have been fitted
        to these very draws. More is certified where a high or a low score speaks for one law.
    confidence
        In (0, 1): the probability with which everything the result says is right.
    seed
        Draws the pilot split; a whole number of at least 0. To be fixed before looking: trying
        seeds until one certifies more is choosing after the data.
    deltas
        The deltas, in (0, 1), to be certified sharply. Each is paid for. Any other delta can be
        asked for as well, and is answered from all the regions together.
    thresholds
        How thresholds are chosen and the error is shared; `PilotSplit()` by default.

    Returns
    -------
    An `Audit`. With probability at least ``confidence`` all its lower bounds, for all arguments
    together, are at most the true values: conditionally on the pilot the tests are fixed, the
    counts are independent binomials, and a union bound over the tests spends 1 - confidence.

    Raises
    ------
    ValueError
        If a sample is empty, not one-dimensional, not finite or shorter than 4, if ``confidence``
        or a delta is not in (0, 1), a delta is named twice, or ``seed`` is no whole number >= 0.
    """
    plan = PilotSplit() if thresholds is None else thresholds
    validate.instance(PilotSplit, thresholds=plan)
    first = _scores(samples=samples)
    second = _scores(samples_prime=samples_prime)
    validate.open_unit(confidence=confidence)
    validate.integer(0, seed=seed)
    named = _named(deltas)

    streams = np.random.SeedSequence(int(seed)).spawn(2)
    first_pilot, first_rest = _split(first, plan, streams[0])
    second_pilot, second_rest = _split(second, plan, streams[1])
    pilot = Pilot(first_pilot, second_pilot, first_rest.size, second_rest.size)
    counter = _Counter(first_rest, second_rest)

    error = 1 - float(confidence)
    band_error = error * plan.band_share if named else error
    tests = pilot.band_tests(plan.band_thresholds)
    counted = [counter.count(test, band_error / len(tests)) for test in tests]
    for delta in named:
        delta_error = (error - band_error) / len(named)
        counted += _named_tests(pilot, counter, delta, delta_error, plan.lead_share)
    return Audit(
        confidence=float(confidence),
        deltas=named,
        seed=int(seed),
        thresholds=plan,
        pilot_sizes=(first_pilot.size, second_pilot.size),
        certifying_sizes=(first_rest.size, second_rest.size),
        tests=tuple(counted),
    )


class _Counter:
    """The certifying samples, sorted once; they meet tests that are already fixed."""

    def __init__(self, first: Array, second: Array) -> None:
        self._sorted = {Order.FORWARD: np.sort(first), Order.REVERSE: np.sort(second)}

    def count(
        self,
        test: ThresholdTest,
        error: float,
        shape: JointShape | None = None,
        planned_delta: float | None = None,
    ) -> CountedTest:
        first, second = self._sorted[test.order], self._sorted[opposite(test.order)]
        counts = Counts(
            int(count_event(first, test.tail, test.threshold)),
            first.size,
            int(count_event(second, test.tail, test.threshold)),
            second.size,
        )
        region = rectangle(counts, error) if shape is None else joint(counts, error, shape)
        return CountedTest(test, counts, error, region, planned_delta)


def _named_tests(
    pilot: Pilot, counter: _Counter, delta: float, error: float, lead_share: float
) -> list[CountedTest]:
    plans = [pilot.plan(delta, order, error * lead_share) for order in Order]
    lead = max(plans, key=lambda one: one.predicted)
    shares = [lead_share if one is lead else 1 - lead_share for one in plans]
    return [
        counter.count(one.test, error * share, one.shape, delta)
        for one, share in zip(plans, shares, strict=True)
    ]


def _scores(**named: ArrayLike) -> Array:
    scores = validate.sample(**named)
    if scores.size < _FEWEST_SCORES:
        ((name, _),) = named.items()
        raise ValueError(
            f"{name} must hold at least {_FEWEST_SCORES} scores to be split, got {scores.size}"
        )
    return scores


def _named(deltas: Sequence[float]) -> tuple[float, ...]:
    try:
        values = tuple(deltas)
    except TypeError:
        raise validate.fail("deltas", "a sequence of numbers in (0, 1)", deltas) from None
    for delta in values:
        validate.open_unit(deltas=delta)
    named = tuple(float(delta) for delta in values)
    if len(set(named)) < len(named):
        raise validate.fail("deltas", "distinct", named)
    return named


def _split(scores: Array, plan: PilotSplit, stream: np.random.SeedSequence) -> tuple[Array, Array]:
    chosen = np.zeros(scores.size, dtype=np.bool_)
    generator = np.random.default_rng(stream)
    size = plan.pilot_size(scores.size)
    chosen[generator.choice(scores.size, size, replace=False, shuffle=False)] = True
    return scores[chosen], scores[~chosen]

"""Certified epsilons beyond the logarithm of the number of samples.

Counts of an event S of n runs cannot certify much more than log n, because an event without a
count may have a rate of 1 / n. Here the rates are means of bounded draws: paths are drawn from a
proposal that pushes them towards S (`audit.estimation.tilted_walk`). Then P(S) - e^epsilon Q(S) <=
delta gives epsilon >= log((P(S) - delta) / Q(S)) with a lower limit of P(S) and an upper one of
Q(S), each at half of the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit import validate
from audit.constructions import Construction
from audit.curves import Order
from audit.estimation.bounded_draws import BoundedDraws, Stakes
from audit.estimation.tilted_walk import AffineWalk, Tilt

_PILOT = 0.1  # share of the trials that chooses the threshold and the stakes
_COARSE, _FINE = 13, 9  # thresholds that the pilot tries
_FARTHEST = 8.0  # standard deviations of the first law
_CAUTION = 2.0  # standard errors of the pilot, against the event


@dataclass(frozen=True)
class EventBound:
    """A lower confidence bound on epsilon from weighted draws of one event.

    Attributes
    ----------
    value : float
        The bound, at least 0: epsilon at ``delta`` is at least this, in ``order``, with probability
        at least ``confidence``.
    delta, confidence : float
        The delta, and the confidence level.
    order : Order
        The order of the pair.
    threshold : float
        The event holds the iterates from here on that the order's first law favours.
    first_rate : float
        Lower confidence limit of the event's probability under the order's first law.
    second_rate : float
        Upper confidence limit of its probability under the second law.
    largest : tuple of float
        The proven maxima of the draws of the two laws.
    draws : int
        Number of certifying draws of each law.
    """

    value: float
    delta: float
    confidence: float
    order: Order
    threshold: float
    first_rate: float
    second_rate: float
    largest: tuple[float, float]
    draws: int


def event_epsilon(
    pair: Construction | tuple[AffineWalk, AffineWalk],
    *,
    delta: float,
    trials: int,
    confidence: float,
    seed: int,
    order: Order = Order.FORWARD,
) -> EventBound:
    """Certify epsilon of the last iterate by weighted draws, also far beyond log(trials).

    Parameters
    ----------
    pair : Construction or (AffineWalk, AffineWalk)
        A pair whose first law is pushed to the right of the second one by affine steps, such as
        `audit.constructions.TwoSidedWalk`; or two walks with one direction of the events.
    delta : float
        The delta, in [0, 1).
    trials : int
        Number of paths of each law, at least 1,000. A tenth of them chooses the event.
    confidence : float
        Confidence level of the bound, in (0, 1).
    seed : int
        Seed of the paths, a non-negative integer.
    order : Order, optional
        The order of the pair; for REVERSE of a construction the event holds low iterates.

    Returns
    -------
    EventBound
        The bound with the rates that it follows from.

    Raises
    ------
    ValueError
        If a number is out of its range, or the steps of the pair are not affine.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=40, dataset_size=1, batch_size=1, step_size=1.0, noise_std=1.0,
    ...                    lipschitz=0.5, diameter=20.0)
    >>> pair = audit.constructions.TwoSidedWalk(m)
    >>> found = event_epsilon(pair, delta=1e-5, trials=20_000, confidence=0.95, seed=1)
    >>> found.value > 12, found.second_rate < 1e-5  # log(20,000) is 9.9
    (True, True)
    """
    validate.half_open_unit(delta=delta)
    validate.integer(1000, trials=trials)
    validate.open_unit(confidence=confidence)
    validate.integer(0, seed=seed)
    walks = _walks(pair, order)
    choosing, certifying = np.random.SeedSequence(seed).spawn(2)
    error = (1 - confidence) / 2
    pilot = round(_PILOT * trials)
    threshold, stakes = _chosen(walks, float(delta), pilot, trials - pilot, error, choosing)
    tilts = [Tilt.of(walk, threshold) for walk in walks]
    drawn = [
        tilt.draw(trials - pilot, stream)
        for tilt, stream in zip(tilts, certifying.spawn(2), strict=True)
    ]
    first = drawn[0].mean_lower(stakes[0], error)
    second = drawn[1].mean_upper(stakes[1], error)
    gap = first - delta
    return EventBound(
        value=max(0.0, math.log(gap / second)) if gap > 0 else 0.0,
        delta=float(delta),
        confidence=float(confidence),
        order=order,
        threshold=threshold,
        first_rate=first,
        second_rate=second,
        largest=(tilts[0].largest, tilts[1].largest),
        draws=trials - pilot,
    )


def _walks(
    pair: Construction | tuple[AffineWalk, AffineWalk], order: Order
) -> tuple[AffineWalk, AffineWalk]:
    """Return the walks of the order's first and second law; the first one has higher states."""
    validate.instance(Order, order=order)
    if isinstance(pair, tuple):
        return pair if order is Order.FORWARD else pair[::-1]
    validate.instance(Construction, pair=pair)
    first, second = pair.processes()
    if order is Order.FORWARD:
        return AffineWalk.of(first), AffineWalk.of(second)
    return AffineWalk.of(second, mirrored=True), AffineWalk.of(first, mirrored=True)


def _chosen(
    walks: tuple[AffineWalk, AffineWalk],
    delta: float,
    pilot: int,
    total: int,
    error: float,
    seed: np.random.SeedSequence,
) -> tuple[float, tuple[Stakes, Stakes]]:
    """Choose the threshold and the stakes by draws that certify nothing."""
    size = max(50, pilot // (_COARSE + _FINE))
    streams = iter(seed.spawn(_COARSE + _FINE))
    tried: dict[float, tuple[float, tuple[BoundedDraws, BoundedDraws]]] = {}

    def best(thresholds: list[float]) -> float:
        for threshold in thresholds:
            draws = [
                Tilt.of(walk, threshold).draw(size, stream)
                for walk, stream in zip(walks, next(streams).spawn(2), strict=True)
            ]
            tried[threshold] = _predicted(draws[0], draws[1], delta), (draws[0], draws[1])
        return max(tried, key=lambda threshold: tried[threshold][0])

    (first, first_std), (second, second_std) = (walk.moments() for walk in walks)
    low = max(walks[1].lower, min(first, second) - second_std)
    high = min(walks[0].upper, max(first, second) + _FARTHEST * max(first_std, second_std))
    step = (high - low) / _COARSE
    middle = best([low + step * (k + 1) for k in range(_COARSE)])
    near = [middle + step * one for one in np.linspace(-1, 1, _FINE + 2)[1:-1].tolist()]
    threshold = best([one for one in near if low < one <= high and one != middle])
    drawn = tried[threshold][1]
    return threshold, (drawn[0].stakes(total, error), drawn[1].stakes(total, error))


def _predicted(first: BoundedDraws, second: BoundedDraws, delta: float) -> float:
    """Return a cautious estimate of log((P(S) - delta) / Q(S)); -inf without one."""
    (p, p_error), (q, q_error) = (
        (float(np.mean(one.values)), float(np.std(one.values)) / math.sqrt(one.values.size))
        for one in (first, second)
    )
    gap, above = p - _CAUTION * p_error - delta, q + _CAUTION * q_error
    return math.log(gap / above) if gap > 0 and above > 0 else -math.inf

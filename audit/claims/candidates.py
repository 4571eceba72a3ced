"""The pairs that the judge tries against a claim."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial

from audit.constructions import (
    BiasedWalk,
    ChangingPair,
    Construction,
    CyclicQuadraticPair,
    DriftedWalk,
    Phase,
    PiecewiseLinear,
    QuadraticPair,
    ResetWalk,
    TwoSidedWalk,
    WallPinnedWalk,
)
from audit.constructions.explicit import ExplicitPair, ExponentialMechanism
from audit.constructions.explicit_laws import AllIterates
from audit.constructions.gradient_limits import others_range, record_pushes
from audit.mechanism import Batching, Composition, Losses, NoisySGD, Relation, Release
from audit.search.found_pairs import shipped

Make = Callable[[], Construction]

# A process with more different batches takes too long to construct.
_MOST_KINDS = 20_000

# Walks in which the other records push across the domain, as shares of their largest drift.
_SHARES = (1.0, 0.5, 0.25)
# ... and drifts in multiples of the one that crosses the domain once.
_CROSSINGS = (1.5, 1.0, 0.75, 0.5, 2.0, 3.0)

# A drift toward one end that grows before the end of the run, found by a search at v D/s^2 = 0.1:
# the time before the end as a share of (D/s)^2 steps, and the drift of a step in units of s^2/D.
_GROWING = ((0.64, 0.4), (0.32, 1.3), (0.16, 3.2), (0.08, 5.4), (0.04, 7.8), (0.02, 9.6))


def candidate_pairs(mechanism: NoisySGD | Composition) -> Iterator[Construction | ExplicitPair]:
    """Yield pairs that a mechanism's assumptions allow, usually the strongest ones first.

    The parameters of each family depend on the mechanism only: nothing is chosen after looking at a
    claim.
    """
    if isinstance(mechanism, Composition) or mechanism.release is Release.ALL_ITERATES:
        yield AllIterates(mechanism)
        return
    if mechanism.release is Release.EXPONENTIAL_MECHANISM:
        try:
            yield ExponentialMechanism(mechanism)
        except ValueError:
            return
        return
    seen: set[Construction] = set()
    for make in _attempts(mechanism):
        try:
            pair = make()
            pair.processes()
        except ValueError:  # breaks an assumption, or needs a parameter that the mechanism lacks
            continue
        if pair not in seen:
            seen.add(pair)
            yield pair


def _attempts(m: NoisySGD) -> Iterator[Make]:
    """Yield functions that construct the pairs; those of inadmissible pairs raise."""
    if _kinds_of_batch(m) > _MOST_KINDS:
        return
    for pair in shipped(m):
        yield partial(_itself, pair)
    half = None if m.diameter is None else m.diameter / 2
    for start in (0.0,) if half is None else (0.0, -half):
        yield partial(TwoSidedWalk, m, start=start)
        yield partial(BiasedWalk, m, start=start)
    if m.release is not Release.LAST_ITERATE and m.batching is Batching.CYCLIC:
        # a run that may stop early always uses the first record
        yield partial(TwoSidedWalk, m, position=0)
        drift = m.constant_step_size * others_range(m)[1]
        yield partial(DriftedWalk, m, drift=drift, position=0)
    yield from _drifted(m, half)
    yield from _contracting(m)
    if m.losses is Losses.CHANGING:
        yield partial(_growing_drift, m)
    if m.batching is Batching.CYCLIC:
        low, high = others_range(m)
        if math.isfinite(high):
            for before, after in ((high, low), (low, high), (high, high), (high, 0.0)):
                yield partial(WallPinnedWalk, m, before=before, after=after)
        for curvature, own in itertools.permutations(_curvatures(m), 2):
            yield partial(CyclicQuadraticPair, m, curvature=curvature, batch_curvature=own)


def _itself(pair: Construction) -> Construction:
    return pair


def _kinds_of_batch(m: NoisySGD) -> int:
    """Return the number of different steps or paths of a process."""
    if m.batching in (Batching.POISSON, Batching.TRUNCATED_POISSON):
        return m.dataset_size
    if m.batching in (Batching.RESHUFFLED, Batching.RANDOM_ALLOCATION):
        return m.steps_per_epoch
    if m.batching is Batching.SHUFFLED:
        return (m.dataset_size // m.batch_size) ** 2
    return m.dataset_size // m.batch_size if m.batching is Batching.CYCLIC else 1


def _drifted(m: NoisySGD, half: float | None) -> Iterator[Make]:
    low, high = others_range(m)
    if m.dataset_size == 1 or not math.isfinite(high):
        return
    share = (m.dataset_size - 1) / m.dataset_size if m.batching is Batching.FULL else 1.0
    scale = float(m.step_sizes[0]) * share
    drifts = [scale * high * part for part in _SHARES]
    if half is not None:  # a few times across the domain within the run
        crossing = 2 * half / m.steps
        drifts += [crossing * part for part in _CROSSINGS if crossing * part < scale * high]
    signs = (1.0,) if m.relation is Relation.REPLACE_ONE else (1.0, -1.0)
    for drift in drifts:
        for sign in signs:
            if low <= sign * drift / scale <= high:
                for start in (0.0,) if half is None else (-sign * half, 0.0):
                    yield partial(DriftedWalk, m, drift=sign * drift, start=start)


def _growing_drift(m: NoisySGD) -> ChangingPair:
    """Return a pair whose other records push ever more towards the left end."""
    if m.diameter is None or m.dataset_size == 1:
        raise ValueError("needs a bounded domain and other records")
    eta, (low, high) = m.constant_step_size, others_range(m)
    spread = m.step_std**2 / m.diameter
    share = (m.dataset_size - 1) / m.dataset_size if m.batching is Batching.FULL else 1.0
    pushes = [PiecewiseLinear.constant(-push) for push in record_pushes(m)]
    phases, left = [], m.steps
    times = [round(time * (m.diameter / m.step_std) ** 2) for time, _ in _GROWING] + [0]
    for end, drift in zip(times, (0.0, *(drift for _, drift in _GROWING)), strict=True):
        if end < left:
            gradient = min(max(drift * spread / (eta * share), -high), -low)
            phases.append(Phase(left - end, PiecewiseLinear.constant(gradient), *pushes))
            left = end
    return ChangingPair(m, tuple(phases), start=m.diameter / 2)


def _contracting(m: NoisySGD) -> Iterator[Make]:
    for curvature in _curvatures(m):
        yield partial(QuadraticPair, m, curvature=curvature)
    low, high = others_range(m)
    cap = min(-low, high)
    if math.isfinite(cap) and cap > 0:
        for curvature in _curvatures(m):
            if curvature > 0:
                yield partial(ResetWalk, m, curvature=curvature, cap=cap)


def _curvatures(m: NoisySGD) -> tuple[float, ...]:
    """Return the strong convexity, the smoothness, and the curvature that resets in one step."""
    resetting = 1 / float(m.step_sizes[-1])
    most = math.inf if m.smoothness is None else m.smoothness
    wanted = [m.strong_convexity, min(resetting, most), most]
    return tuple(dict.fromkeys(c for c in wanted if math.isfinite(c)))

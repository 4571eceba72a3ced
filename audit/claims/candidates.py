"""Which pairs the judge tries against a claim."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping

from audit import constructions
from audit.claims.pairs import GIVEN, Densities, Mixture, Mixtures, Pair, given_pair
from audit.constructions import (
    BiasedWalk,
    Construction,
    CyclicQuadraticPair,
    DriftedWalk,
    QuadraticPair,
    ResetWalk,
    TwoSidedWalk,
    WallPinnedWalk,
    decode_pair,
    kinds,
)
from audit.constructions.gradient_limits import others_range
from audit.mechanism import Batching, NoisySGD, Relation, Release
from audit.search.found_pairs import shipped

Make = Callable[[], Construction]

# A process with more different batches takes too long to make.
_MOST_KINDS = 20_000

# Their maps are no broken lines, which is what a witness can tell.
_WITHOUT_WITNESS = ("HolderPair",)

# Walks that let others push across the domain, as shares of their largest drift.
_SHARES = (1.0, 0.5, 0.25)
# ... and drifts in multiples of the one that crosses the domain once.
_CROSSINGS = (1.5, 1.0, 0.75, 0.5, 2.0, 3.0)


def named_pair(mechanism: NoisySGD | None, kind: str, parameters: Mapping[str, object]) -> Pair:
    """Return the pair that a claim names.

    Parameters
    ----------
    mechanism
        What a construction is checked against; None for pairs that are given by numbers.
    kind
        A construction of `audit.constructions`, one of `audit.claims.pairs.GIVEN`, ``"Repeated"``
        or ``"ExponentialMechanism"``.
    parameters
        Keywords of the construction.

    Raises
    ------
    ValueError
        If there is no such pair, a parameter is unknown or out of its range, or the construction
        breaks an assumption of the mechanism (`Inadmissible`).
    """
    if kind in GIVEN:
        return given_pair(kind, parameters)
    if mechanism is None:
        raise ValueError(f"mechanism must be given for the pair {kind}, got none")
    if kind in _MADE:
        return _called(_MADE[kind], kind, mechanism, parameters)
    found = getattr(constructions, kind, None)
    if inspect.isclass(found) and issubclass(found, Construction) and not found.is_neighbouring:
        raise ValueError(f"pair must be of neighbouring datasets, which {kind} is not")
    known = [name for name in kinds() if name not in _WITHOUT_WITNESS]
    if kind not in known:
        names = ", ".join([*known, *_MADE, *GIVEN])
        raise ValueError(f"pair must be one of {names}, got {kind!r}")
    return decode_pair({"kind": kind, **parameters}, mechanism, name="")


def candidate_pairs(mechanism: NoisySGD) -> Iterator[Pair]:
    """Yield pairs that a mechanism's assumptions allow, those that usually tell most first.

    Which parameters a family takes is fixed by the mechanism alone: nothing is chosen after looking
    at a claim.
    """
    if mechanism.release is Release.EXPONENTIAL_MECHANISM:
        try:
            yield exponential_mechanism(mechanism)
        except ValueError:
            return
        return
    seen: set[Construction] = set()
    for make in _attempts(mechanism):
        try:
            pair = make()
            pair.processes()
        except ValueError:  # breaks an assumption, or asks for what the mechanism lacks
            continue
        if pair not in seen:
            seen.add(pair)
            yield pair


def repeated(mechanism: NoisySGD, times: int) -> Mixtures:
    """Return the pair of ``times`` runs of one step each, on one dataset of one record.

    Linear losses of opposite slopes; the sum of the runs says all that they say.
    """
    if mechanism.steps != 1 or mechanism.dataset_size != 1:
        raise ValueError(
            "Repeated needs steps=1 and dataset_size=1, "
            f"got steps={mechanism.steps} and dataset_size={mechanism.dataset_size}"
        )
    distance = times * mechanism.constant_step_size * mechanism.sensitivity
    std = math.sqrt(times) * mechanism.step_std
    return Mixtures(
        Mixture((1.0,), (distance / 2,), (std,)), Mixture((1.0,), (-distance / 2,), (std,))
    )


def exponential_mechanism(mechanism: NoisySGD) -> Densities | Mixtures:
    """Return two exponential mechanisms whose potentials differ by a linear function.

    The density is proportional to exp(-2 F/(eta sigma^2)) with F the mean loss. F and F' differ by
    (S/n) x: around 0 on a bounded interval (exponential densities), around a shared parabola of the
    strong convexity on the line (two normal laws).
    """
    if mechanism.release is not Release.EXPONENTIAL_MECHANISM:
        raise ValueError(
            "ExponentialMechanism needs release=EXPONENTIAL_MECHANISM, "
            f"got release={mechanism.release.name}"
        )
    if mechanism.batching is not Batching.FULL:
        raise ValueError(f"ExponentialMechanism needs full batches, got {mechanism.batching.name}")
    temperature = mechanism.constant_step_size * mechanism.noise_std**2 / 2
    slope = mechanism.sensitivity / mechanism.dataset_size / temperature
    curvature = mechanism.strong_convexity / temperature
    if mechanism.diameter is None and curvature > 0:
        mean, std = slope / 2 / curvature, 1 / math.sqrt(curvature)
        return Mixtures(Mixture((1.0,), (mean,), (std,)), Mixture((1.0,), (-mean,), (std,)))
    if mechanism.diameter is not None and curvature == 0:
        if mechanism.relation is Relation.ZERO_OUT:
            # the other records pull the other way, where they may
            others = (mechanism.dataset_size - 1) * mechanism.steepest_gradient
            if 2 * others < mechanism.steepest_gradient:
                raise ValueError("ExponentialMechanism needs other records for relation=ZERO_OUT")
        half = mechanism.diameter / 2
        return Densities(slope / 2, -half, half)
    raise ValueError(
        "ExponentialMechanism needs a bounded domain without strong convexity, or the whole line "
        f"with it, got diameter={mechanism.diameter} and "
        f"strong_convexity={mechanism.strong_convexity!r}"
    )


_MADE: Mapping[str, Callable[..., Pair]] = {
    "Repeated": repeated,
    "ExponentialMechanism": exponential_mechanism,
}


def _called(
    make: Callable[..., Pair], kind: str, mechanism: NoisySGD, parameters: Mapping[str, object]
) -> Pair:
    allowed = [name for name in inspect.signature(make).parameters if name != "mechanism"]
    for name in parameters:
        if name not in allowed or name.startswith("_"):
            has = ", ".join(allowed) if allowed else "none"
            raise ValueError(f"{kind} has no parameter {name!r}; it has {has}")
    try:
        return make(mechanism, **parameters)
    except TypeError as error:
        raise ValueError(f"{kind} cannot be made of these parameters: {error}") from None


def _attempts(m: NoisySGD) -> Iterator[Make]:
    if _kinds_of_batch(m) > _MOST_KINDS:
        return
    for pair in shipped(m):
        yield lambda pair=pair: pair  # type: ignore[misc]
    half = None if m.diameter is None else m.diameter / 2
    starts = (0.0,) if half is None else (0.0, -half)
    for start in starts:
        yield lambda start=start: TwoSidedWalk(m, start=start)  # type: ignore[misc]
        yield lambda start=start: BiasedWalk(m, start=start)  # type: ignore[misc]
    if m.release is not Release.LAST_ITERATE and m.batching is Batching.CYCLIC:
        # of a run that may stop early the first record is the one that is met
        yield lambda: TwoSidedWalk(m, position=0)
        for drift in (m.constant_step_size * others_range(m)[1],):
            yield lambda drift=drift: DriftedWalk(m, drift=drift, position=0)  # type: ignore[misc]
    yield from _drifted(m, half)
    yield from _contracting(m)
    if m.batching is Batching.CYCLIC:
        low, high = others_range(m)
        if math.isfinite(high):
            for before, after in ((high, low), (low, high), (high, high), (high, 0.0)):
                yield lambda before=before, after=after: WallPinnedWalk(  # type: ignore[misc]
                    m, before=before, after=after
                )
        for curvature in _curvatures(m):
            for own in _curvatures(m):
                if own != curvature:
                    yield lambda curvature=curvature, own=own: CyclicQuadraticPair(  # type: ignore[misc]
                        m, curvature=curvature, batch_curvature=own
                    )


def _kinds_of_batch(m: NoisySGD) -> int:
    """Return how many different steps or paths a process must hold."""
    if m.batching is Batching.POISSON:
        return m.dataset_size
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
                    yield lambda drift=sign * drift, start=start: DriftedWalk(  # type: ignore[misc]
                        m, drift=drift, start=start
                    )


def _contracting(m: NoisySGD) -> Iterator[Make]:
    for curvature in _curvatures(m):
        yield lambda curvature=curvature: QuadraticPair(m, curvature=curvature)  # type: ignore[misc]
    low, high = others_range(m)
    cap = min(-low, high)
    if math.isfinite(cap) and cap > 0:
        for curvature in _curvatures(m):
            if curvature > 0:
                yield lambda curvature=curvature: ResetWalk(  # type: ignore[misc]
                    m, curvature=curvature, cap=cap
                )


def _curvatures(m: NoisySGD) -> tuple[float, ...]:
    """Return the strong convexity, the smoothness, and what resets an iterate in one step."""
    resetting = 1 / float(m.step_sizes[-1])
    most = math.inf if m.smoothness is None else m.smoothness
    wanted = [m.strong_convexity, min(resetting, most), most]
    return tuple(dict.fromkeys(c for c in wanted if math.isfinite(c)))

"""Runs of a mechanism on two neighbouring datasets, built from the gradients of their records.

A witness about a mechanism gives no laws. It gives the gradients of the differing record in both
datasets and of the other records, in units of a step: how far a step of size ``step_size`` moves
against each of them. Here they are checked against the assumptions of the claim, and the laws are
built from them with the claim's sampler, noise and domain. So nothing about them is left to trust.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flint import arb

from audit_verify.walks import Chain, Map, Path, Segment, Step, piece_at

Plain = Mapping[str, Any]
Draw = tuple[int, int, bool, int, arb]  # memory before, after, record?, other records, probability

_ROUNDING = 1e-9  # relative, of numbers that were computed in doubles
_RARE = -60 * math.log(10)  # logarithm of the probability of batch sizes that are left out
_CUT = ("full", "cyclic", "shuffled")  # the dataset is cut into batches once
_RANDOM_SIZES = ("poisson", "truncated poisson", "random allocation")
_MOST_FOLLOWED = 17  # records whose batches a memory counts
_ZERO: Map = ((-math.inf, arb(0), arb(0)),)


class InadmissibleError(ValueError):
    """The gradients break an assumption of the claim; the message names it."""


@dataclass(frozen=True, eq=False)
class Losses:
    """Gradients in some steps, in units of a step.

    ``batches`` are the other records of each batch of a cycle, ``records`` the differing record in
    both datasets (None: removed), ``shared`` a regulariser that enters a step once.
    """

    steps: int
    unit: float
    position: int
    batches: tuple[Map, ...]
    records: tuple[Map, Map | None]
    shared: Map

    @cached_property
    def still(self) -> bool:
        """True if the other records move nothing."""
        return all(slope == 0 and shift == 0 for phi in self.batches for _, slope, shift in phi)


def pieces(plain: Sequence[Sequence[float | None]]) -> Map:
    """Return a function from [from, slope, shift] of its pieces; the first has no 'from'."""
    starts = [-math.inf if x is None else float(x) for x, _, _ in plain]
    if starts[0] > -math.inf or any(not a < b for a, b in itertools.pairwise(starts)):
        raise ValueError("pieces must begin with null and ascend")
    return tuple((x, arb(a), arb(b)) for x, (_, a, b) in zip(starts, plain, strict=True))


def total(parts: Sequence[tuple[arb, Map]]) -> Map:
    """Return a weighted sum of functions."""
    starts = sorted({piece[0] for _, phi in parts for piece in phi})
    found = []
    for x in starts:
        at = [(weight, piece_at(phi, x)) for weight, phi in parts]
        slope = sum((weight * piece[1] for weight, piece in at), arb(0))
        found.append((x, slope, sum((weight * piece[2] for weight, piece in at), arb(0))))
    return tuple(found)


def _sum(f: Map, g: Map) -> Map:
    return total([(arb(1), f), (arb(1), g)])


def chains(pair: Plain, m: Plain) -> tuple[Chain, Chain]:
    """Return the chains of both datasets after checking that the claim allows the gradients."""
    sizes = m["step_size"] if isinstance(m["step_size"], list) else [m["step_size"]] * m["steps"]
    if len(sizes) != m["steps"]:
        raise InadmissibleError("step_size must be one number, or one a step")
    run = [_losses(phase, m, pair.get("position", 0)) for phase in pair["phases"]]
    if sum(losses.steps for losses in run) != m["steps"]:
        raise InadmissibleError("phases must have the steps of the mechanism together")
    if len(run) > 1 and m.get("losses", "fixed") == "fixed":
        raise InadmissibleError("phases must be one, as losses do not change")
    n, b, batching = m["dataset_size"], m["batch_size"], m.get("batching", "full")
    if b > n or (batching == "full" and b < n) or (batching in (*_CUT, "reshuffled") and n % b):
        raise InadmissibleError("batch_size must fit the dataset")
    half = None if m.get("diameter") is None else m["diameter"] / 2
    if half is not None and not abs(pair["start"]) <= half:
        raise InadmissibleError("start must be in the domain")
    for losses in run:
        check_losses(losses, m, pair.get("cancelled", 0.0))
    walls = (None, None) if half is None else (-half, half)
    first, second = (
        Chain(float(pair["start"]), walls, tuple(_paths(run, sizes, m, side))) for side in (0, 1)
    )
    return first, second


def _losses(phase: Plain, m: Plain, position: int) -> Losses:
    cycle = m["dataset_size"] // m["batch_size"] if m.get("batching") == "cyclic" else 1
    batches = tuple(
        phi for count, plain in phase["others"] for phi in [pieces(plain)] * min(count, cycle + 1)
    )
    if len(batches) != cycle:
        raise InadmissibleError(f"others must be for the {cycle} batches of a cycle")
    records = tuple(None if phase[k] is None else pieces(phase[k]) for k in ("first", "second"))
    shared = pieces(phase["shared"]) if "shared" in phase else _ZERO
    if not 0 <= position < cycle:
        raise InadmissibleError(f"position must be one of the {cycle} batches of a cycle")
    unit = phase["step_size"]
    return Losses(phase["steps"], unit, position, batches, records, shared)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- assumptions


def check_losses(losses: Losses, m: Plain, cancelled: float) -> None:
    """Raise ``InadmissibleError`` unless gradients are those of neighbours that a claim allows."""
    ends = (-math.inf, math.inf)
    if m.get("diameter") is not None:
        ends = -m["diameter"] / 2, m["diameter"] / 2
    unit, relation = losses.unit, m.get("relation", "replace one")
    sized = m.get("batching", "full") in _RANDOM_SIZES
    least, most = m.get("strong_convexity", 0.0), m.get("smoothness")
    bounds = [m[name] for name in ("lipschitz", "clip_norm") if m.get(name) is not None]
    bound = min(bounds, default=None)
    implied = None if bound is None else bound * (2 if relation == "replace one" else 1)
    sensitivity = m.get("gradient_sensitivity") or implied
    first, second = losses.records
    removed = relation == "add remove"

    def require(holds: bool, requirement: str) -> None:
        if not holds:
            raise InadmissibleError(f"gradients must {requirement}")

    def apart(f: Map, g: Map) -> float:
        low, high = _range(total([(arb(1), f), (arb(-1), g)]), ends)
        return max(-low, high)

    require((second is None) == removed, "be given for the record of both datasets, unless removed")
    require(sized or _is_zero(losses.shared), "be whole where batches have one size")
    others = [] if m["dataset_size"] == 1 else list({id(f): f for f in losses.batches}.values())
    present = [f for f in (first, second) if f is not None]
    own = [*others, *present]
    clipped = m.get("clip_norm") is not None
    regularised = least > 0 and not clipped
    zero = None  # the record that is zeroed out: only the regulariser is left of it
    if relation == "zero out" and second is not None:
        # all losses are within the bound of a regulariser; without one, it has no gradient
        against = own if regularised and not sized else [_ZERO]
        zero = min((first, second), key=lambda f: max(apart(f, g) for g in against))
        nothing = apart(zero, _ZERO) <= _ROUNDING * apart(first, second)
        require(nothing or not (sized or clipped), "be zero for the record that is zeroed out")
    if bound is not None:
        limit = bound * unit
        if sized:
            wholes = [] if regularised else [_sum(f, losses.shared) for f in own]
            spans = [_range(f, ends) for f in [*own, *wholes]]
        elif regularised and zero is not None:
            spans = [(0.0, apart(f, zero)) for f in own]
        elif regularised:  # some regulariser is within the bound of all records, if they are close
            spans = [(0.0, apart(f, g) / 2) for f, g in itertools.combinations(own, 2)]
        else:
            spans = [_range(f, ends) for f in own]
        if cancelled:
            allowed = m.get("diameter") is not None and relation == "replace one" and not sized
            require(allowed, "not be cancelled")
            spans = [(low + cancelled, high + cancelled) for low, high in spans]
        largest = max((max(-low, high) for low, high in spans), default=0.0)
        require(_at_most(largest, limit), "be within the Lipschitz constant or the clipping norm")
    if sensitivity is None:
        raise InadmissibleError("gradients must be bounded, or their differences")
    compared = [(first, second or _ZERO)]
    if m.get("gradient_sensitivity") is not None:
        compared += [(f, g) for f in present for g in (losses.batches[losses.position],) if others]
    for f, g in compared:
        require(_at_most(apart(f, g), sensitivity * unit), "differ by the sensitivity at most")
    convex = m.get("convex", True)
    lowest = least if convex else -math.inf if most is None else -most
    # what jumps round with: gradients are computed as differences of others
    size = _ROUNDING * max(
        max(map(abs, _range(f, _window(f, ends)))) for f in (*own, losses.shared)
    )
    for f in own:
        whole = _sum(f, losses.shared) if sized else f
        # the regulariser alone need not be as strongly convex as a loss with it
        low = min(lowest, 0.0) if f is zero else lowest
        slopes, jumps = _slopes(whole, ends)
        scale = _ROUNDING * max(abs(low) if math.isfinite(low) else 0.0, 1 / unit)
        require(slopes[0] / unit >= low - scale, "be those of (strongly) convex losses")
        require(most is None or slopes[1] / unit <= most + scale, "be smooth")
        if convex or most is not None:
            require(jumps[0] >= -size, "be those of convex losses, without falling jumps")
            require(most is None or jumps[1] <= size, "be continuous")
        if sized and convex:
            require(_slopes(f, ends)[0][0] / unit >= -scale, "be those of convex losses alone")
        if m.get("holder") is not None:
            _check_holder(whole, ends, unit, *m["holder"])


def _check_holder(
    f: Map, ends: tuple[float, float], unit: float, constant: float, order: float
) -> None:
    """Check |f(x) - f(y)| <= C |x - y|^p, whose quotient is largest at kinks and ends."""
    points = sorted(
        {x for x in (*ends, *(p[0] for p in f)) if ends[0] <= x <= ends[1]} - {math.inf, -math.inf}
    )
    steepest = max(abs(slope) for slope in _slopes(f, ends)[0])
    if not math.isfinite(ends[0] + ends[1]) and steepest > _ROUNDING and order < 1:
        raise InadmissibleError("gradients must be Hoelder continuous on the whole line")
    if order == 1 and not _at_most(steepest, constant * unit):
        raise InadmissibleError("gradients must have the Hoelder constant")
    for x, y in itertools.combinations(points, 2):
        change = abs(_value(f, x) - _value(f, y)) - _ROUNDING * unit
        if not _at_most(change, constant * unit * (y - x) ** order):
            raise InadmissibleError("gradients must have the Hoelder constant")


def _at_most(value: float, limit: float) -> bool:
    return value <= limit * (1 + _ROUNDING)


def _is_zero(f: Map) -> bool:
    return all(slope == 0 and shift == 0 for _, slope, shift in f)


def _value(f: Map, x: float) -> float:
    _, slope, shift = piece_at(f, x)
    return float((slope * x + shift).mid())


def _met(f: Map, ends: tuple[float, float]) -> Iterator[tuple[float, float, float, float]]:
    """Yield (left, right, slope, shift) of the pieces on a domain."""
    for (x, slope, shift), right in zip(f, [*(p[0] for p in f[1:]), math.inf], strict=True):
        if x < ends[1] and right > ends[0]:
            yield max(x, ends[0]), min(right, ends[1]), float(slope.mid()), float(shift.mid())


def _range(f: Map, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest value on a domain."""
    found = []
    for left, right, slope, shift in _met(f, ends):
        for x in (left, right):
            found.append(
                slope * x + shift
                if math.isfinite(x)
                else math.copysign(math.inf, x) * slope
                if slope
                else shift
            )
    return min(found), max(found)


def _window(f: Map, ends: tuple[float, float]) -> tuple[float, float]:
    """Return a bounded part of the domain that holds all kinks."""
    kinks = [p[0] for p in f[1:]] or [0.0]
    return max(ends[0], kinks[0] - 1), min(ends[1], kinks[-1] + 1)


def _slopes(f: Map, ends: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the least and largest slope, and the least and largest jump, on a domain."""
    met = list(_met(f, ends))
    slopes = [slope for _, _, slope, _ in met]
    jumps = [0.0] + [
        (slope - before[2]) * left + shift - before[3]
        for before, (left, _, slope, shift) in itertools.pairwise(met)
    ]
    return (min(slopes), max(slopes)), (min(jumps), max(jumps))


# ---------------------------------------------------------------------------- samplers


def _paths(run: Sequence[Losses], sizes: Sequence[float], m: Plain, side: int) -> Iterator[Path]:
    """Yield the paths of a dataset: one, or one for each batch that may hold the record."""
    release, batching = m.get("release", "last iterate"), m.get("batching", "full")
    skips = m["steps"] // 2 if release == "random skip" else 0
    stops = release == "random stop"
    if release not in ("last iterate", "random stop", "random skip"):
        raise InadmissibleError(f"release must be of one iterate, got {release}")
    cycle = m["dataset_size"] // m["batch_size"]
    places = range(cycle) if batching == "shuffled" else [None]
    for place in places:
        segments: list[Segment] = []
        begun = 0
        for losses in run:
            used = sizes[begun : begun + losses.steps]
            segments += _segments(losses, used, begun, m, side, place)
            begun += losses.steps
        yield Path(arb(1) / len(places), tuple(segments), skips, stops)


def _segments(
    losses: Losses, sizes: Sequence[float], begun: int, m: Plain, side: int, place: int | None
) -> list[Segment]:
    """Return the steps of one phase; a constant step size repeats the cycle."""
    batching = m.get("batching", "full")
    length = m["dataset_size"] // m["batch_size"]
    if batching == "random allocation":
        length *= m.get("participations", 1)
    if batching in ("full", "without replacement", "poisson", "truncated poisson"):
        length = 1
    made: dict[tuple[int, float], Step] = {}
    maps: dict[tuple[float, int, bool, int], Map] = {}

    def step(at: int, eta: float) -> Step:
        if (at, eta) not in made:
            made[at, eta] = _step(losses, eta, at, m, side, place, maps)
        return made[at, eta]

    if len(set(sizes)) > 1:
        return [(1, tuple(step((begun + k) % length, eta) for k, eta in enumerate(sizes)))]
    cycle = [step((begun + k) % length, sizes[0]) for k in range(min(length, len(sizes)))]
    times, rest = divmod(len(sizes), len(cycle))
    segments: list[Segment] = [(times, tuple(cycle)), (1, tuple(cycle[:rest]))]
    return [segment for segment in segments if segment[0] and segment[1]]


def _step(
    losses: Losses, eta: float, at: int, m: Plain, side: int, place: int | None,
    maps: dict[tuple[float, int, bool, int], Map],
) -> Step:  # fmt: skip
    """Return the step of a batch of the cycle, or of the epoch."""
    record, size = losses.records[side], m["batch_size"]
    batch = at if len(losses.batches) > 1 else 0
    ratio = arb(1) if eta == losses.unit else arb(eta) / arb(losses.unit)

    def moved(holds: bool, others: int) -> Map:
        others = 0 if losses.still else others
        key = eta, batch, holds, others
        if key not in maps:
            own = [(arb(others), losses.batches[batch])] if others else []
            own += [(arb(1), record)] if holds and record is not None else []
            mean = tuple((x, a / size, b / size) for x, a, b in total(own or [(arb(1), _ZERO)]))
            whole = total([(ratio, mean), (ratio, losses.shared)])
            maps[key] = tuple((x, 1 - slope, -shift) for x, slope, shift in whole)
        return maps[key]

    position = losses.position if place is None else place
    weights: dict[tuple[int, int, int], arb] = {}
    found: dict[int, Map] = {}
    for before, after, holds, others, weight in _draws(m, at, position, record, losses.still):
        phi = moved(holds, others)
        key = before, after, id(phi)
        weights[key] = weights.get(key, arb(0)) + weight
        found[id(phi)] = phi
    moves = tuple((i, j, w, found[k]) for (i, j, k), w in weights.items() if not w.is_zero())
    return Step(moves, arb(eta) * arb(m["noise_std"]))


def _draws(m: Plain, at: int, position: int, record: Map | None, still: bool) -> Iterator[Draw]:
    """Yield the batches that a step may draw: step ``at`` of a cycle or of an epoch.

    A record that is removed is in no batch.
    """
    batching, n, b = m.get("batching", "full"), m["dataset_size"], m["batch_size"]
    held, rate = record is not None, arb(b) / n
    if batching in _CUT:
        inside = batching == "full" or at == position
        yield 0, 0, inside and held, b - inside, arb(1)
    elif batching == "without replacement":
        yield 0, 0, False, b if held else min(b, n - 1), 1 - rate if held else arb(1)
        if held:
            yield 0, 0, True, b - 1, rate
    elif batching == "poisson":
        for others, weight in [(0, arb(1))] if still else _binomial(n - 1, rate):
            yield 0, 0, False, others, weight * (1 - rate) if held else weight
            if held:
                yield 0, 0, True, others, weight * rate
    elif batching == "truncated poisson":
        most = m["max_batch_size"]
        for others, weight in _binomial(n - 1, rate):
            drawn = rate * weight if held else arb(0)
            kept = arb(1) if others < most else arb(most) / (others + 1)
            yield 0, 0, False, min(others, most), weight - drawn
            yield 0, 0, True, min(others, most - 1), drawn * kept
            if others >= most:
                yield 0, 0, False, most, drawn * (1 - kept)
    elif batching in ("reshuffled", "drop last"):
        left, met = arb(n) / b - at, int(at < n // b - 1)
        if not held:
            yield 0, 0, False, b, arb(1)
            return
        yield 0, 0, False, b, 1 - 1 / left
        yield 0, met, True, b - 1, 1 / left
        if at:
            yield 1, met, False, b, arb(1)
    elif still:
        yield from _allocated(m, at, held)
    else:
        yield from _allocated_with_others(m, at, held)


def _allocated(m: Plain, at: int, held: bool) -> Iterator[Draw]:
    """Yield the batches of random allocation; the memory counts those that held the record."""
    most = m.get("participations", 1)
    left = most * m["dataset_size"] // m["batch_size"] - at
    if not held:
        yield 0, 0, False, 0, arb(1)
        return
    for met in range(max(0, most - left), min(at, most) + 1):
        rate = arb(most - met) / left
        yield met, 0 if left == 1 else met, False, 0, 1 - rate
        yield met, 0 if left == 1 else met + 1, True, 0, rate


def _allocated_with_others(m: Plain, at: int, held: bool) -> Iterator[Draw]:
    """Yield the batches of random allocation where the memory also counts the other records."""
    n = m["dataset_size"]
    left = n // m["batch_size"] - at
    if m.get("participations", 1) > 1 or n > _MOST_FOLLOWED:
        raise InadmissibleError(f"dataset_size must be at most {_MOST_FOLLOWED}, one batch each")
    # the memory is n times whether the record was drawn, plus the number of others that were
    for memory in range(2 * n if at else 1):
        drawn, gone = divmod(memory, n)
        mine = [(False, arb(1))]
        if held and not drawn:
            mine = [(False, 1 - arb(1) / left), (True, arb(1) / left)]
        theirs = _binomial(n - 1 - gone, arb(1) / left)
        for (holds, p), (others, q) in itertools.product(mine, theirs):
            yield memory, (memory + n * holds + others) * (left > 1), holds, others, p * q


def _binomial(trials: int, rate: arb) -> list[tuple[int, arb]]:
    """Return (count, probability), without counts that are too rare to matter."""
    if rate == 1:
        return [(trials, arb(1))]
    logs = (arb(trials + 1).lgamma(), rate.log(), (1 - rate).log())

    def log_weight(count: int) -> arb:
        ways = logs[0] - arb(count + 1).lgamma() - arb(trials - count + 1).lgamma()
        return ways + count * logs[1] + (trials - count) * logs[2]

    spread = 20 * math.sqrt(trials * float(rate) * (1 - float(rate))) + 150
    mean = trials * float(rate)
    counts = range(max(0, int(mean - spread)), min(trials, int(mean + spread)) + 1)
    weights = [(count, log_weight(count)) for count in counts]
    return [(count, log.exp()) for count, log in weights if float(log.mid()) > _RARE]


# ---------------------------------------------------------------------------- released iterates


def laws_of_iterates(m: Plain, pair: Plain) -> Plain:
    """Return the two laws of a mechanism that releases all iterates, under linear losses.

    Also those of the exponential mechanism; ``pair`` must be of the same kind.
    """
    batching, relation = m.get("batching", "full"), m.get("relation", "replace one")
    bounds = [m[name] for name in ("lipschitz", "clip_norm") if m.get(name) is not None]
    whole = min(bounds, default=math.nan) * (2 if relation == "replace one" else 1)
    sensitivity = m.get("gradient_sensitivity") or whole
    if not sensitivity > 0 or m.get("divisor", "nominal") != "nominal":
        raise InadmissibleError("mechanism must have bounded gradients and a nominal divisor")
    if m.get("release") == "exponential mechanism":
        return _exponential(m, arb(sensitivity), pair)
    noise = arb(m["noise_std"]) * m["batch_size"] / arb(sensitivity)
    rate = (
        arb(m["poisson_rate"])
        if m.get("poisson_rate")
        else arb(m["batch_size"]) / m["dataset_size"]
    )
    if m.get("release") != "all iterates" or pair["kind"] != "mixtures":
        raise InadmissibleError("pair must be that of the mechanism, as mixtures for all iterates")
    met = m["steps"]
    if batching == "cyclic" and relation != "add remove":
        met = -(-m["steps"] * m["batch_size"] // m["dataset_size"])
    elif batching != "full" and rate != 1:
        replaced = relation == "replace one"
        # other records may have the gradient of the one that replaces the record
        known = batching == "poisson" or (batching == "without replacement" and replaced)
        if not known or (replaced and sensitivity < whole * (1 - _ROUNDING)):
            raise InadmissibleError("batching must be one whose pair is known")
        halved = batching == "poisson" and replaced
        means = (arb(1) / 2, -arb(1) / 2) if halved else (arb(1), None)
        first, second = (_sampled(mean, rate, noise) for mean in means)
        return {"kind": "mixtures", "first": first, "second": second, "times": m["steps"]}
    first, second = (_sampled(mean, arb(1), noise) for mean in (arb(met).sqrt(), None))
    return {"kind": "mixtures", "first": first, "second": second, "times": 1}


def _sampled(mean: arb | None, rate: arb, noise: arb) -> Plain:
    """Return a mixture of two normals; a single one at 0 without a mean."""
    if mean is None or rate == 1:
        return {"weights": [arb(1)], "means": [arb(0) if mean is None else mean], "stds": [noise]}
    return {"weights": [1 - rate, rate], "means": [arb(0), mean], "stds": [noise, noise]}


def _exponential(m: Plain, sensitivity: arb, pair: Plain) -> Plain:
    """Return densities exp(-2 F/(eta sigma^2)) whose potentials F differ by (S/n) x."""
    temperature = arb(m["step_size"]) * arb(m["noise_std"]) ** 2 / 2
    slope = sensitivity / m["dataset_size"] / temperature
    convexity, diameter = arb(m.get("strong_convexity", 0.0)) / temperature, m.get("diameter")
    if m.get("batching", "full") != "full" or (diameter is None) == (convexity == 0):
        raise InadmissibleError(
            "mechanism must have full batches, and a domain or strong convexity"
        )
    if diameter is not None:
        others = (m["dataset_size"] - 1) * 2 >= 1
        if pair["kind"] != "densities" or (m.get("relation") == "zero out" and not others):
            raise InadmissibleError("pair must be two exponential densities on the domain")
        return {"kind": "densities", "slope": slope / 2, "low": -diameter / 2, "high": diameter / 2}
    if pair["kind"] != "mixtures":
        raise InadmissibleError("pair must be two normal laws")
    laws = [
        _sampled(sign * slope / 2 / convexity, arb(1), 1 / convexity.sqrt()) for sign in (1, -1)
    ]
    return {"kind": "mixtures", "first": laws[0], "second": laws[1], "times": 1}

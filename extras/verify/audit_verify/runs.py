"""Runs of a mechanism on two neighbouring datasets, built from the gradients of their records.

A witness about a mechanism gives no laws. It gives the gradients of the differing record in both
datasets and of the other records, in units of a step: how far a step of size ``step_size`` moves
against each of them. Here they are checked against the assumptions of the claim, and the laws are
built from them with the claim's sampler, noise and domain. So nothing about them is left to trust.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from types import SimpleNamespace

from flint import arb

from audit_verify.laws import Plain, TooLongError, require
from audit_verify.walks import Chain, Map, Moves, Path, Segment, Step, piece_at, pieces

Draw = tuple[int, int, bool, int, arb]  # memory before, after, record?, other records, probability

_ROUNDING = 2e-12  # gradients, computed in doubles, may exceed a bound by this part of it
_FEW = 200  # records whose number in a batch is followed however rare it is
_RARE = -60 * math.log(10)  # logarithm of the probability of batch sizes that are left out
_CUT = ("full", "cyclic", "shuffled")  # the dataset is cut into batches once
_EPOCHS = ("reshuffled", "drop last", "random allocation")  # batches of an epoch depend
_RANDOM_SIZES = ("poisson", "truncated poisson", "random allocation")
_MAX_FOLLOWED = 17  # records whose batches a memory counts
_MAX_COMPARED = 10**6  # pairs of records times pieces of their gradients, or batches of a cycle
_MAX_CORNERS = 2000
_OWNERS = {  # samplers that alone have a field
    "participations": "random allocation", "max_batch_size": "truncated poisson",
    "poisson_rate": "poisson", "divisor": None,
}  # fmt: skip
_DEFAULTS: Plain = {
    "lipschitz": None, "gradient_sensitivity": None, "smoothness": None, "strong_convexity": 0.0,
    "convex": True, "diameter": None, "batching": "full", "relation": "replace one",
    "release": "last iterate", "holder": None, "clip_norm": None, "divisor": "nominal",
    "max_batch_size": None, "participations": 1, "poisson_rate": None, "losses": "fixed",
}  # fmt: skip
_ZERO: Map = ((-math.inf, arb(0), arb(0)),)


def chains(pair: Plain, mechanism: Plain) -> tuple[Chain, Chain]:
    """Return the chains of both datasets after checking that the claim allows the gradients."""
    m, start, position = _stated(mechanism), pair["start"], pair.get("position", 0)
    cycle = m.dataset_size // m.batch_size if m.batching == "cyclic" else 1
    if cycle > _MAX_COMPARED:
        raise TooLongError(f"a cycle of {cycle} batches would take long to follow")
    require(0 <= position < cycle, f"position must be one of the {cycle} batches of a cycle")
    run = [_losses(phase, cycle) for phase in pair["phases"]]
    steps = sum(losses.steps for losses in run)
    require(steps == m.steps, "phases must have the steps of the mechanism together")
    one = len(run) == 1 or m.losses == "changing"
    require(one, "phases must be one, as losses do not change")
    require(abs(start) <= m.half, "start must be in the domain")
    for losses in run:
        check_losses(losses, m, pair.get("cancelled", 0.0))
    walls = (None, None) if m.half == math.inf else (-m.half, m.half)
    paths = (tuple(_paths(run, m, side, position)) for side in ("first", "second"))
    first, second = (Chain(float(start), walls, own) for own in paths)
    return first, second


def _stated(mechanism: Plain) -> SimpleNamespace:
    """Return a mechanism with its defaults, if all of it fits.

    Also the ``sizes`` of its steps, ``half`` of the domain, and the bounds on a gradient and on the
    difference of two, ``bound`` and ``sensitivity``.
    """
    m = SimpleNamespace(**{**_DEFAULTS, **mechanism})
    n, b, batching, eta = m.dataset_size, m.batch_size, m.batching, m.step_size
    fits = b == n if batching == "full" else b <= n
    rest = m.participations * n % b and batching in (*_CUT, *_EPOCHS)
    require(fits and (not rest or batching == "drop last"), "batch_size must fit the dataset")
    for name, owner in _OWNERS.items():
        owned = batching == owner and (owner != "poisson" or m.release == "all iterates")
        unset = owned or getattr(m, name) == _DEFAULTS[name]
        require(unset, f"{name} must be {_DEFAULTS[name]} for a run with {batching} batches")
    capped = batching != "truncated poisson" or m.max_batch_size is not None
    require(capped, "max_batch_size must be given")
    m.sizes = eta if isinstance(eta, list) else [eta] * m.steps
    require(len(m.sizes) == m.steps, "step_size must be one number, or one a step")
    convexity = m.strong_convexity <= ((m.smoothness or math.inf) if m.convex else 0)
    require(convexity, "strong_convexity must be at most smoothness, and 0 unless convex")
    m.half = math.inf if m.diameter is None else m.diameter / 2
    m.bound = min(m.lipschitz or math.inf, m.clip_norm or math.inf)
    implied = m.bound * (1 + (m.relation == "replace one"))
    m.sensitivity = min(m.gradient_sensitivity or math.inf, implied)
    require(m.sensitivity < math.inf, "gradients must be bounded, or their differences")
    return m


def _losses(phase: Plain, cycle: int) -> SimpleNamespace:
    """Return the gradients in the steps of a phase as functions, in units of a step.

    ``others`` are the other records of each batch of a cycle, the ``second`` gradient of the
    differing record is None if it is removed, ``shared`` is a regulariser that enters a step once.
    """
    given = {name: phase.get(name) for name in ("first", "second", "shared")}
    known = {name: pieces(plain) for name, plain in given.items() if plain is not None}
    counts = [(min(count, cycle + 1), pieces(plain)) for count, plain in phase["others"]]
    others = [phi for count, phi in counts for _ in range(count)]
    require(len(others) == cycle, f"others must be for the {cycle} batches of a cycle")
    return SimpleNamespace(**{**phase, "shared": _ZERO, **known, "others": others})


# ---------------------------------------------------------------------------- functions


def total(*parts: tuple[arb, Map]) -> Map:
    """Return a weighted sum of functions."""
    found = []
    for x in sorted({piece[0] for _, phi in parts for piece in phi}):
        at = [(weight, piece_at(phi, x)) for weight, phi in parts]
        slope = sum((weight * piece[1] for weight, piece in at), arb(0))
        found.append((x, slope, sum((weight * piece[2] for weight, piece in at), arb(0))))
    return tuple(found)


def _is_zero(f: Map) -> bool:
    return all(slope == 0 and shift == 0 for _, slope, shift in f)


def _corners(f: Map, half: float) -> list[tuple[float, arb]]:
    """Return points (x, f(x)) whose line is the function on [-half, half]: two at each kink.

    On an unbounded domain the line ends beyond the kinks, and goes on with the same slopes.
    """
    kinks, found = [x for x, *_ in f[1:]], []
    reach = half if half < math.inf else 1 + 2 * max(map(abs, kinks), default=0.0)
    for (start, slope, shift), end in zip(f, [*kinks, math.inf], strict=True):
        low, high = max(start, -reach), min(end, reach)
        if low < high or start == reach:  # the wall is a state
            found += [(x, slope * x + shift) for x in (low, high)]
    return found


def _apart(f: Map, g: Map, half: float) -> arb:
    """Return the largest distance of two functions on [-half, half]."""
    gap = total((arb(1), f), (arb(-1), g))
    if half == math.inf and not (gap[0][1] == 0 and gap[-1][1] == 0):
        return arb.pos_inf()
    return reduce(arb.max, (abs(y) for _, y in _corners(gap, half)))


# ---------------------------------------------------------------------------- assumptions


def check_losses(losses: SimpleNamespace, m: SimpleNamespace, cancelled: float) -> None:
    """Raise ``NotAWitnessError`` unless gradients are those of neighbours that a claim allows."""
    unit, half, clipped = losses.step_size, m.half, m.clip_norm is not None
    first, second, shared = losses.first, losses.second, losses.shared
    sized, removed = m.batching in _RANDOM_SIZES, m.relation == "add remove"
    both = (second is None) == removed
    require(both, "gradients must be given for the record of both datasets, unless removed")
    plain = _is_zero(shared)
    require(sized or plain, "gradients must be whole where batches have one size")
    kept = plain or not (clipped or removed)
    require(kept, "shared must be zero where gradients are clipped or a record is removed")
    others = [] if m.dataset_size == 1 else list({id(f): f for f in losses.others}.values())
    own = [*others, first] + ([] if second is None else [second])
    if len(own) ** 2 * max(map(len, own)) > _MAX_COMPARED:
        raise TooLongError(f"the gradients of {len(own)} records would take long to compare")
    pairs = list(itertools.combinations(own, 2))
    # a regulariser of strongly convex losses is not counted in their bound; where batches have one
    # size it is a part of each gradient
    regularised = m.strong_convexity > 0 and not clipped
    inside = regularised and not sized
    zero = None  # the record that is zeroed out: only the regulariser is left of it
    if m.relation == "zero out" and second is not None:
        against = own if inside else [_ZERO]
        zero = min((first, second), key=lambda f: max(float(_apart(f, g, half)) for g in against))
        nothing = bool(_apart(zero, _ZERO, half) <= _ROUNDING * _apart(first, second, half))
        require(nothing or not (sized or clipped), "gradients must be zero for a zeroed record")
    fixed = m.relation == "replace one" and half < math.inf and not sized
    require(fixed or not cancelled, "gradients must not be cancelled")
    wholes = [total((arb(1), f), (arb(1), shared)) for f in own]
    if inside and zero is None:  # some regulariser is within the bound of all, if they are close
        sizes = [_apart(f, g, half) / 2 for f, g in pairs]
    else:
        centre = zero if inside and zero else ((-math.inf, arb(0), arb(-cancelled)),)
        sizes = [_apart(f, centre, half) for f in (own if regularised else [*own, *wholes])]
    within = all(_at_most(size, arb(m.bound) * unit) for size in sizes)
    require(within, "gradients must be within the Lipschitz constant or the clipping norm")
    # a sensitivity of the gradients is that of any two records
    compared = [(first, second or _ZERO), *(pairs if m.gradient_sensitivity else [])]
    sensitivity = arb(m.sensitivity) * unit
    close = all(_at_most(_apart(f, g, half), sensitivity) for f, g in compared)
    require(close, "gradients must differ by the sensitivity at most")
    lowest = m.strong_convexity if m.convex else -(m.smoothness or math.inf)
    # beside the b-th part that is one record's, the rounding of all others must be small
    slack = _ROUNDING * sensitivity
    slacks = [slack / max(1.0, m.batch_size / 1e4)] * (1 + len(others)) + [slack] * 2
    for f, whole, near in zip(own, wholes, slacks[1:], strict=False):
        # the regulariser alone need not be as strongly convex as a loss with it
        _check_shape(whole, m, unit, min(lowest, 0.0) if f is zero else lowest, near, m.holder)
    # a step may have any number of records, and the regulariser once
    for f, near in zip((shared, *own), slacks, strict=False) if sized else ():
        _check_shape(f, m, unit, min(lowest, 0.0), near, None)


def _check_shape(
    f: Map, m: SimpleNamespace, unit: float, least: float, slack: arb, holder: list[float] | None
) -> None:
    """Check that a gradient rises as convexity, smoothness and Hoelder continuity allow.

    All rises together may exceed that by ``slack``, but not the slopes at the ends of the line.
    """
    corners, (constant, order) = _corners(f, m.half), holder or (math.inf, 1)
    steep, known = constant if order == 1 else math.inf, "have the Hoelder constant"
    words = "be those of (strongly) convex losses" if m.convex else "be smooth"
    bounds = [(-1, least, words), (1, m.smoothness or math.inf, "be smooth")]
    for sign, bound, words in (*bounds, (-1, -steep, known), (1, steep, known)):
        if not math.isinf(bound):
            rate = (arb(bound) + sign * _ROUNDING * abs(bound)) * unit
            left = [sign * (rate * x - y) for x, y in corners]  # must not fall
            tops = itertools.accumulate(left, arb.max)
            rises = all(now >= top - slack for now, top in zip(left, tops, strict=True))
            ends = m.half < math.inf or all(sign * (rate - f[k][1]) >= 0 for k in (0, -1))
            require(rises and ends, f"gradients must {words}")
    if order != 1:  # |f(x) - f(y)| <= C |x - y|^p, tightest at kinks and ends
        if len(corners) > _MAX_CORNERS:
            raise TooLongError(f"gradients of {len(corners)} corners would take long to compare")
        most, near = constant * unit * (1 + _ROUNDING), float(slack)
        bounded = order < 1 and _apart(f, _ZERO, m.half) < math.inf and most + near < math.inf
        require(bounded, "gradients must be bounded, and the order of holder in [0, 1]")
        values = [(x, float(y - corners[0][1])) for x, y in corners]
        for (x, before), (y, after) in itertools.combinations(values, 2):
            holds = abs(after - before) <= most * (y - x) ** order + near
            require(holds, f"gradients must {known}")


def _at_most(value: arb, limit: arb) -> bool:
    return bool(value <= limit * (1 + _ROUNDING))


# ---------------------------------------------------------------------------- samplers


def _paths(
    run: Sequence[SimpleNamespace], m: SimpleNamespace, side: str, position: int
) -> Iterator[Path]:
    """Yield the paths of a dataset: one, or one for each batch that may hold the record.

    A constant step size repeats the steps of a cycle or of an epoch.
    """
    n, b, batching = m.dataset_size, m.batch_size, m.batching
    one = m.release in ("last iterate", "random stop", "random skip")
    require(one, f"release must be of one iterate, got {m.release}")
    skips = m.steps // 2 if m.release == "random skip" else 0
    require(not skips or batching not in _EPOCHS, "epochs must not start midway")
    # others that move nothing at some steps only are counted at all of them
    still = all(_is_zero(phi) for losses in run for phi in losses.others)
    followed = batching != "random allocation" or (n <= _MAX_FOLLOWED and m.participations == 1)
    require(still or followed, f"dataset_size must be at most {_MAX_FOLLOWED}, one batch each")
    unclear = m.relation == "add remove" and batching in ("reshuffled", "drop last")
    require(still or not unclear, "others must be zero where a batch may become smaller")
    length = m.participations * n // b if batching in (*_CUT, *_EPOCHS) else 1
    places = range(length) if batching == "shuffled" else [position]
    most = length if len(set(m.sizes)) == 1 else m.steps
    moves = sum(min(most, losses.steps) for losses in run) * min(m.participations, most)
    moves *= len(places) * (len(_counts(n, b / n)) if _counted(batching, still) else 1)
    if moves > _MAX_COMPARED:
        raise TooLongError(f"{float(moves):.2g} moves would take long to follow")
    for place in places:
        segments: list[Segment] = []
        begun = 0
        for losses in run:
            step = _steps_of(losses, m, getattr(losses, side), place, still)
            used = m.sizes[begun : begun + losses.steps]
            count = min(length if len(set(used)) == 1 else len(used), len(used))
            cycle = tuple(step((begun + k) % length, used[k]) for k in range(count))
            times, rest = divmod(len(used), count)
            segments += [(times, cycle), (1, cycle[:rest])]
            begun += losses.steps
        yield Path(arb(1) / len(places), tuple(segments), skips, m.release == "random stop")


def _steps_of(
    losses: SimpleNamespace, m: SimpleNamespace, record: Map | None, place: int, still: bool
) -> Callable[[int, float], Step]:
    """Return the steps of a dataset, by their place in the cycle or epoch and their size."""
    rare = _counted(m.batching, still) and m.dataset_size > _FEW

    @cache
    def moved(eta: float, batch: int, holds: bool, others: int) -> Map:
        ratio = arb(1) if eta == losses.step_size else arb(eta) / arb(losses.step_size)
        parts = [(ratio, losses.shared)]
        parts += [(ratio * others / m.batch_size, losses.others[batch])] if others else []
        parts += [(ratio / m.batch_size, record)] if holds and record is not None else []
        return tuple((x, 1 - slope, -shift) for x, slope, shift in total(*parts))

    @cache
    def step(at: int, eta: float) -> Step:
        batch = at if len(losses.others) > 1 else 0
        weights: dict[tuple[int, int, bool, int], arb] = defaultdict(arb)
        for before, after, holds, others, weight in _draws(m, at, place, record is not None, still):
            weights[before, after, holds, 0 if still else others] += weight
        moves: Moves = defaultdict(list)
        for (before, after, holds, others), weight in weights.items():
            if not weight.is_zero():
                moves[before, after].append((weight, moved(eta, batch, holds, others)))
        missing = (1 - sum(weights.values(), arb(0))).nonnegative_part().upper()
        return Step(moves, arb(eta) * arb(m.noise_std), missing if rare else arb(0))

    return step


def _draws(m: SimpleNamespace, at: int, place: int, held: bool, still: bool) -> Iterator[Draw]:
    """Yield the batches that a step may draw: step ``at`` of a cycle or of an epoch.

    A record that is removed, not ``held``, is in no batch. The memory counts how often the record
    was drawn in this epoch; where the number of others matters, n times that, plus how many of
    them were drawn.
    """
    batching, n, b, most = m.batching, m.dataset_size, m.batch_size, m.participations
    if batching in _CUT:
        inside = batching == "full" or at == place
        yield 0, 0, inside and held, b - inside, arb(1)
        return
    # in an epoch a record is drawn in ``most`` of the steps, in each set of them equally likely
    epoch, left, whole = batching in _EPOCHS, arb(most * n) / b - at, most * n // b - at
    followed = batching == "random allocation" and not still
    unit = n if followed else 1
    for met in range(max(0, most - whole), min(at, most) + 1) if epoch and held else (0,):
        rate = ((most - met) / left if epoch else arb(b) / n) if held else arb(0)
        for gone, holds in itertools.product(range(n if followed and at else 1), (False, True)):
            counts = [(b - holds if held else min(b, n - 1), arb(1))]
            if _counted(batching, still):
                counts = _binomial(n - 1 - gone, 1 / left if followed else arb(b) / n)
            for others, weight in counts:
                weight *= rate if holds else 1 - rate
                after = (met + holds) * unit + (gone + others if followed else 0)
                memories = met * unit + gone, after if epoch and whole > 1 else 0
                cap = m.max_batch_size if batching == "truncated poisson" else others + 1
                if holds and others >= cap:  # one of the drawn records is left out
                    yield *memories, False, cap, weight * (1 - arb(cap) / (others + 1))
                    weight *= arb(cap) / (others + 1)
                yield *memories, holds, min(others, cap - holds), weight


def _counted(batching: str, still: bool) -> bool:
    """Return whether it matters how many other records are in a batch."""
    return batching == "truncated poisson" or (batching in _RANDOM_SIZES and not still)


def _binomial(n: int, rate: arb) -> list[tuple[int, arb]]:
    """Return (count, probability), of many trials without counts that are too rare to matter."""
    if rate == 1:
        return [(n, arb(1))]
    found = []
    for k in _counts(n, float(rate)):
        ways = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
        log = ways + k * rate.log() + (n - k) * (1 - rate).log()
        found += [(k, log.exp())] if n < _FEW or float(log.mid()) > _RARE else []
    return found


def _counts(trials: int, rate: float) -> range:
    mean, spread = trials * rate, 20 * math.sqrt(trials * rate * (1 - rate)) + _FEW
    return range(max(0, int(mean - spread)), min(trials, int(mean + spread)) + 1)


# ---------------------------------------------------------------------------- released iterates


def laws_of_iterates(mechanism: Plain, pair: Plain) -> Plain:
    """Return the two laws of a mechanism that releases all iterates, under linear losses.

    Also those of the exponential mechanism; ``pair`` must be of the same kind.
    """
    m = _stated(mechanism)
    batching, n, b, replaced = m.batching, m.dataset_size, m.batch_size, m.relation == "replace one"
    rate = arb(m.poisson_rate) if m.poisson_rate else arb(b) / n
    require(bool(rate <= 1), "batch_size must fit the dataset")
    if m.release == "exponential mechanism":
        return _exponential(m, pair)
    kept = m.release == "all iterates" and pair["kind"] == "mixtures"
    require(kept, "pair must be that of the mechanism, as mixtures for all iterates")
    times, met = 1, m.steps
    if batching == "cyclic" and m.relation != "add remove":
        met, rate = -(-met * b // n), arb(1)
    elif rate != 1 or batching == "truncated poisson":
        # other records may have the gradient of the one that replaces the record
        known = batching == "poisson" or (batching == "without replacement" and replaced)
        free = m.bound == math.inf or _at_most(arb(2 * m.bound), arb(m.sensitivity))
        require(known and (not replaced or free), "batching must be one whose pair is known")
        times, met = met, 1
    mean, noise = arb(met).sqrt(), arb(m.noise_std) * b / arb(m.sensitivity)
    halved = rate != 1 and batching == "poisson" and replaced
    return _normals((mean / 2, -mean / 2) if halved else (mean, arb(0)), rate, noise, times)


def _normals(means: Sequence[arb], rate: arb, noise: arb, times: int) -> Plain:
    """Return mixtures of a normal at 0 and one at a mean, which has the weight ``rate``."""
    weights, stds = [1 - rate, rate], [noise, noise]
    laws = [{"weights": weights, "means": [arb(0), mean], "stds": stds} for mean in means]
    return {"kind": "mixtures", "first": laws[0], "second": laws[1], "times": times}


def _exponential(m: SimpleNamespace, pair: Plain) -> Plain:
    """Return densities exp(-2 F/(eta sigma^2)) whose potentials F differ by (S/n) x."""
    temperature = arb(m.step_size) * arb(m.noise_std) ** 2 / 2
    slope = arb(m.sensitivity) / m.dataset_size / temperature
    convexity, walled = arb(m.strong_convexity) / temperature, m.half < math.inf
    fits = m.batching == "full" and walled == (convexity == 0)
    require(fits, "mechanism must have full batches, and a domain or strong convexity")
    # on a domain other records pull the other way, if one is zeroed out
    fits = m.dataset_size > 1 or not walled or m.relation == "replace one"
    require(fits and m.relation != "add remove", "relation must be one whose pair is known")
    kind = "densities" if walled else "mixtures"
    require(pair["kind"] == kind, f"pair must be that of the mechanism, {kind}")
    if walled:
        return {"kind": kind, "slope": slope / 2, "low": -m.half, "high": m.half}
    mean = slope / 2 / convexity
    return _normals((mean, -mean), arb(1), 1 / convexity.sqrt(), 1)

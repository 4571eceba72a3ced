"""A refutation in a file: everything that is needed to verify it without this package."""

from __future__ import annotations

import bisect
import enum
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from audit import validate
from audit.claims.claim import Pair
from audit.codec import decode, encode
from audit.constructions import (
    Affine,
    Construction,
    DependentStep,
    PiecewiseLinear,
    Process,
    Segment,
    Staircase,
    Step,
    UpdateMap,
)
from audit.constructions.explicit import ExplicitPair, ExponentialMechanism, NormalVectors
from audit.constructions.explicit_laws import AllIterates
from audit.constructions.process import BatchMaps, Wall
from audit.curves import Order
from audit.curves.quantities import QUANTITIES, ClaimedNumber, EpsilonAtDelta, Mu, TotalVariation
from audit.dominating.dispatch import collapsed
from audit.mechanism import Composition
from audit.numerics.display import ShortRepr
from audit.simulation.program import pieces

if TYPE_CHECKING:
    from audit.estimation import Audit

_FORMAT = 3
# from each point on: slope, shift; floats or fractions
Pieces = list[tuple[float, Any, Any]]
# what the counts of an event prove
COUNTS = (
    "The event under 'samples' was chosen without its counts: the first law of its 'order' has"
    " first_count of first_total draws in it, the other one second_count of second_total. Every"
    " pair of rates that the claim allows is excluded at errors[index], of 'error' for all tests."
)
_NAMES = tuple(quantity.name for quantity in QUANTITIES.values())

# Definitions of the laws of each kind of plain pair.
LAWS: Mapping[str, tuple[str, ...]] = {
    "run": (
        "Each law is that of X_T, X <- clip(X - g(X) + step_size noise_std Z, -diameter/2,"
        " diameter/2) from 'start', with Z standard normal and batches of the mechanism's sampler.",
        "g is the mean over the batch of the gradients under 'phases', which are in units of a step"
        " - 'others' by batch of the cycle, and 'first' or 'second' for the differing record; null"
        " if it is removed. 'shared' is added once.",
        "Each is a list of [from, slope, shift]: slope x + shift from that point on.",
    ),
    "process": (
        "Each law is that of X_T in a chain: draw one of 'paths' by its probability, set X = start,"
        " and run its segments in order, each 'times' times through its steps.",
        "A step draws one of its maps by its weight, and sets X = clip(phi(X) + noise_std Z, lower,"
        " upper) with Z standard normal; null means no wall.",
        "A map is a list of [from, slope, shift]: phi(x) = slope x + shift from that point on.",
        "Maps with 'from' and 'to' depend on a memory, which is 0 at the start: only maps whose"
        " 'from' equals the memory are drawn, and the 'to' of the drawn map is the new memory.",
    ),
    "product": (
        "Each law is that of independent draws of all 'parts', each 'times' times from the mixture"
        " of normals with weights[i] of N(means[i], stds[i]^2).",
    ),
    "mixtures": (
        "Each law is that of 'times' independent draws from a mixture of normals: weights[i] of"
        " N(means[i], stds[i]^2).",
    ),
    "normalvectors": (
        "Each law is that of 'times' independent draws of C g + N(0, noise_std^2 I): C has the rows"
        " 'strategy', and g is vectors[i] with probability weights[i].",
        "Only the parts along the differences of the values of C g matter: where these are on one"
        " line, compare mixtures of normals of standard deviation noise_std on it. Otherwise draw"
        " the vectors and average over log p - log q, both densities by formula.",
    ),
    "laplacemixtures": (
        "Each law is that of 'times' independent draws from a mixture of Laplace laws of the same"
        " scale: first[i] (second[i]) of density exp(-|x - means[i]|/scale)/(2 scale).",
    ),
    "finite": (
        "Each law is that of 'times' independent draws from the listed probabilities; only the"
        " counts of the outcomes matter (multinomial).",
    ),
    "densities": (
        "On [low, high] the first density is proportional to exp(slope x), the second to"
        " exp(-slope x).",
    ),
}


class Evidence(enum.StrEnum):
    """The kind of evidence behind a certified lower bound."""

    EXACT = "exact"
    SAMPLED = "sampled"


@dataclass(frozen=True, kw_only=True)
class Witness(ShortRepr):
    """A pair of neighbouring datasets that refutes a claimed number."""

    claim: str  #: The claim's id.
    citation: str  #: Where it is published.
    quantity: str  #: The name of the quantity.
    at: float  #: Its place; where it has none, the epsilon at which delta is compared.
    claimed: float  #: The claimed number.
    slack: float  #: The amount by which it must be exceeded.
    order: Order  #: FORWARD: the first law comes first, P = first, Q = second.
    #: (low, high) around the true number as computed by this package; ``high`` is None if there is
    #: no upper end.
    bracket: tuple[float, float | None]
    evidence: Evidence  #: The kind of evidence of the bracket.
    construction: str  #: The name of the pair.
    #: The pair as plain numbers; None for samples that a user recorded.
    pair: Mapping[str, Any] | None
    #: The cells whose probabilities exceed the claimed number (`audit.claims.partition`); None for
    #: samples, and if none is known.
    partition: Mapping[str, Any] | None
    #: The mechanism of the pair as plain data, or the parts of a composition; None where the two
    #: laws are not those of a mechanism.
    mechanism: Mapping[str, Any] | tuple[Mapping[str, Any], ...] | None
    recipe: tuple[str, ...]  #: How to compute the number, in words and formulas.
    version: str  #: Version of this package.
    #: The counts of the event that refutes, and the division of the error (`counted`); None for
    #: exact evidence, and if no single event refutes.
    samples: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        validate.finite(at=self.at, claimed=self.claimed, slack=self.slack)
        # at delta = 0 epsilon may be infinite
        ends = {f"bracket_{i}": end for i, end in enumerate(self.bracket)}
        validate.nonnegative(**{k: end for k, end in ends.items() if end not in (None, math.inf)})
        validate.one_of(_NAMES, quantity=self.quantity)
        if self.pair is not None and "kind" not in self.pair:
            raise validate.fail("pair", "a mapping with a kind", dict(self.pair))

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps({"format": _FORMAT, **encode(self)}, indent=2, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Witness:
        """Read the text of a file."""
        try:
            body = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"witness must be JSON: {error}") from None
        if not isinstance(body, dict) or body.pop("format", None) != _FORMAT:
            raise ValueError(f"witness must have format {_FORMAT}")
        witness: Witness = decode(Witness, body)
        return witness


def mechanism_of(pair: Pair, plain: Mapping[str, Any]) -> Any:
    """Return the mechanism as plain data where the verifier can build or check the laws by it."""
    if isinstance(pair, AllIterates) and isinstance(pair.mechanism, Composition):
        return [encode(part) for part in collapsed(pair.mechanism.parts)]
    known = plain["kind"] == "run" or isinstance(pair, AllIterates | ExponentialMechanism)
    return encode(pair.mechanism) if known else None  # type: ignore[union-attr]


def counted(audit: Audit, number: ClaimedNumber) -> dict[str, Any] | None:
    """Return the counts of the one event that refutes a number, and how the error was divided."""
    quantity, claimed = number.quantity, number.value + number.slack
    if isinstance(quantity, EpsilonAtDelta):
        evidence = audit.per_record_evidence(quantity.at).evidence
    elif isinstance(quantity, TotalVariation) and claimed * audit.group_size < 1:
        evidence = audit.evidence(claimed * audit.group_size)
    elif isinstance(quantity, Mu):
        evidence = audit.mu_evidence()
    else:
        return None
    wanted = vars(evidence)
    places = (
        index
        for tests in (audit.tests, [test.complement() for test in audit.tests])
        for index, test in enumerate(tests)
        if test.stored.items() <= wanted.items()
    )
    place = next(places, None)
    if place is None or not evidence.value > 0:
        return None
    test = audit.tests[place]
    if test.local_levels is not None:  # a band has no errors of single tests
        return None
    stored = test.stored
    event = stored["tail"].value.replace("t", f"{stored['threshold']:.17g}")
    shape: Mapping[str, float] = {}
    if test.shape is not None:
        shape = vars(test.shape)
    elif test.region is not None:
        shape = {"angle": math.pi / 2, "first_guard": 0.5, "second_guard": 0.0}
    counts = ("first_count", "first_total", "second_count", "second_total")
    return {
        "error": 1 - audit.confidence,
        "errors": [test.error for test in audit.tests],
        "pilot": list(audit.pilot_sizes),
        "certifying": list(audit.certifying_sizes),
        "group_size": audit.group_size,
        "seed": audit.seed,
        "test": {
            "index": place,
            "order": stored["order"].value,
            "event": event,
            **{name: stored[name] for name in counts},
            **shape,
        },
    }


def plain_pair(pair: Pair) -> dict[str, Any]:
    """Return the two laws of a pair as plain numbers: dictionaries, lists, numbers and texts."""
    if isinstance(pair, AllIterates) and isinstance(pair.mechanism, Composition):
        parts = [plain_pair(AllIterates(part)) for part in collapsed(pair.mechanism.parts)]
        return {"kind": "product", "parts": parts}
    if isinstance(pair, ExplicitPair):
        # vectors are kept: their law on a line is a computation that a reader should repeat
        distributions = pair if isinstance(pair, NormalVectors) else pair.distributions()
        return {**encode(distributions), "kind": distributions.kind.lower()}
    first, second = pair.processes()
    if first.batches and second.batches:
        return _run(pair, first, second)
    return {"kind": "process", "first": _process(first), "second": _process(second)}


def describable(pair: Pair) -> bool:
    """Whether a witness can describe the pair: its maps consist of affine pieces."""
    if isinstance(pair, ExplicitPair):
        return True
    try:
        for process in pair.processes():
            for step in process.distinct_steps():
                _step(step)
    except ValueError:
        return False
    return True


def _run(pair: Construction, first: Process, second: Process) -> dict[str, Any]:
    """Return the gradients of the records, from which the verifier builds the run."""
    size = pair.mechanism.batch_size
    phases = []
    for one, other in zip(first.batches, second.batches, strict=True):
        shared, record, *others = _gradients(one, size)
        phase = {
            "steps": one.steps,
            "step_size": one.step_size,
            "others": [[n, _plain(line)] for (n, _), line in zip(one.others, others, strict=True)],
            "first": _plain(record),
            "second": _plain(_gradients(other, size)[1]),
        }
        if one.empty is not None:
            phase["shared"] = _plain(shared)
        phases.append(phase)
    run = {"kind": "run", "start": first.start, "position": first.batches[0].position}
    cancelled = getattr(pair, "cancelled", 0.0) * first.batches[0].step_size
    return {**run, **({"cancelled": cancelled} if cancelled else {}), "phases": phases}


def _gradients(one: BatchMaps, size: int) -> list[Any]:
    """Return the pieces of gradients in units of a step: shared, of the record, and of the others.

    The shared one is a part of the others if all batches have one size.
    """
    sized, eta = one.empty is not None, Fraction(one.step_size)
    if one.gradients:
        shared, *own = [(eta, _pieces(line)) for line in one.gradients]
        lines = [_total([line] if sized else [shared, line]) for line in own]
        return [_total([shared]), *([None] if one.record is None else lines[:1]), *lines[1:]]
    batches = [_moved(phi) for _, phi in one.others]
    held = itertools.chain.from_iterable([k] * n for k, (n, _) in enumerate(one.others))
    alone = batches[next(itertools.islice(held, one.position, None))]
    # the other records of a batch, which are taken off its gradient
    rest, empty = (1 - size, alone), None
    if one.empty is not None:
        empty = _moved(one.empty)
        rest = -size, empty
        batches = [_total([(size, line), rest]) for line in batches]
    record = None if one.record is None else _total([(size, _moved(one.record)), rest])
    return [empty, record, *batches]


def _moved(phi: UpdateMap) -> Pieces:
    """Return how far a map moves x to the left, exactly."""
    return [(x, 1 - Fraction(slope), -Fraction(shift)) for x, slope, shift in _pieces(phi)]


def _total(parts: Sequence[tuple[int | Fraction, Pieces]]) -> Pieces:
    """Return the sum of functions times fractions."""
    found: Pieces = []
    for x in sorted({piece[0] for _, line in parts for piece in line}):
        at = [(n, line[bisect.bisect_right(line, x, key=itemgetter(0)) - 1]) for n, line in parts]
        slope, shift = (sum(n * Fraction(piece[i]) for n, piece in at) for i in (1, 2))
        if not found or found[-1][1:] != (slope, shift):
            found.append((x, slope, shift))
    return found


def _plain(line: Pieces | None) -> list[list[float | None]] | None:
    """Return the pieces as numbers; the first one begins nowhere."""
    if line is None:
        return None
    return [[None if i == 0 else x, float(a), float(b)] for i, (x, a, b) in enumerate(line)]


def _process(process: Process) -> dict[str, Any]:
    if Wall.ABSORB in (process.lower_wall, process.upper_wall):
        raise ValueError("walls must clamp for a witness, got one that absorbs")
    ends = {"lower": process.lower, "upper": process.upper}
    paths = []
    for path in process.paths:
        segments = [part for one in path.segments if len(one) for part in _parts(one)]
        paths.append({"probability": path.probability, "segments": segments})
    walls = {name: end if math.isfinite(end) else None for name, end in ends.items()}
    return {"start": process.start, **walls, "paths": paths}


def _parts(segment: Segment) -> list[dict[str, Any]]:
    """Return a segment; one that runs once is split so that equal steps in a row are one."""
    steps = [_step(step) for step in segment.steps]
    if segment.times > 1:
        return [{"times": segment.times, "steps": steps}]
    found: list[dict[str, Any]] = []
    for step, equal in itertools.groupby(steps):
        times = len(list(equal))
        if times > 1 or not found or found[-1]["times"] > 1:
            found.append({"times": times, "steps": []})
        found[-1]["steps"].append(step)
    return found


def _step(step: Step) -> dict[str, Any]:
    moves: list[dict[str, int]] = [{}] * len(step.maps)
    if isinstance(step, DependentStep):
        moves = [{"from": before, "to": after} for before, after in step.moves]
    maps = [
        {"weight": weight, "pieces": _plain(_pieces(phi)), **move}
        for phi, weight, move in zip(step.maps, step.weights, moves, strict=True)
        if weight > 0
    ]
    return {"noise_std": step.noise_std, "maps": maps}


def _pieces(phi: UpdateMap) -> Pieces:
    """Return (from, slope, shift) of the affine pieces of a map; the first is from -inf."""
    known = isinstance(phi, Affine | PiecewiseLinear | Staircase)
    found = []
    for piece in pieces(phi if known else _recognised(phi)):
        value, slope, *_ = (*piece.coefficients, 0.0)
        found.append((piece.edge, slope, value - slope * piece.origin))
    return found


def _recognised(phi: UpdateMap) -> PiecewiseLinear:
    """Read a piecewise linear map off a map with kinks, and check that it is nothing else."""
    points = np.array(sorted(phi.kinks) or [0.0])
    reach = 1.0 + float(np.ptp(points))
    values = phi(points)
    slopes = [
        float(phi(points[:1])[0] - phi(points[:1] - reach)[0]) / reach,
        float(phi(points[-1:] + reach)[0] - phi(points[-1:])[0]) / reach,
    ]
    line = PiecewiseLinear(tuple(points), tuple(values), (slopes[0], slopes[1]))
    probe = np.linspace(points[0] - 5 * reach, points[-1] + 5 * reach, 2003)
    if not np.allclose(line(probe), phi(probe), rtol=0, atol=1e-12 * (1 + 6 * reach)):
        raise ValueError(f"update maps must be piecewise linear for a witness, got {phi!r}")
    return line

"""A refutation in a file: everything that is needed to verify it without this package."""

from __future__ import annotations

import contextlib
import enum
import functools
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from audit import validate
from audit.claims.claim import Claim, Pair
from audit.claims.partition import partition_of
from audit.claims.wording import described
from audit.codec import decode, encode
from audit.constructions import (
    Affine,
    DependentStep,
    PiecewiseLinear,
    Process,
    Segment,
    Staircase,
    Step,
    UpdateMap,
)
from audit.constructions.explicit import ExplicitPair, NormalVectors
from audit.curves import Order
from audit.curves.quantities import QUANTITIES, ClaimedNumber
from audit.mechanism import NoisySGD
from audit.numerics.display import ShortRepr

if TYPE_CHECKING:
    from audit.exact import BracketedCurve

_FORMAT = 2
_NAMES = tuple(quantity.name for quantity in QUANTITIES.values())

# Definitions of the laws of each kind of plain pair.
_LAWS: Mapping[str, tuple[str, ...]] = {
    "process": (
        "Each law is that of X_T in a chain: draw one of 'paths' by its probability, set X = start,"
        " and run its segments in order, each 'times' times through its steps.",
        "A step draws one of its maps by its weight, and sets X = clip(phi(X) + noise_std Z, lower,"
        " upper) with Z standard normal; null means no wall, and 'absorb' that X stays there.",
        "phi is the piecewise linear map through (points[i], values[i]), with slopes[0] to the left"
        " of them and slopes[1] to the right.",
        "A map with 'edges' is constant between them: phi(x) = values[i] from edges[i] up to"
        " edges[i + 1]; beyond the outer edges x moves 'stride' towards them.",
        "Maps with 'from' and 'to' depend on a memory, which is 0 at the start: only maps whose"
        " 'from' equals the memory are drawn, and the 'to' of the drawn map is the new memory. Then"
        " keep one density per memory.",
        "Without walls and with straight lines, mean <- a mean + b and var <- a^2 var + std^2.",
        "Otherwise discretise: keep the density on a fine grid and the mass at each wall; one step"
        " is a product with the normal kernel, and mass beyond a wall goes to the wall.",
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
    """A pair of neighbouring datasets that refutes a claimed number.

    Attributes
    ----------
    claim, citation
        The claim's id, and where it is published.
    quantity
        The name of the quantity.
    at
        Its place; where it has none, the epsilon at which delta is compared.
    claimed, slack
        The claimed number, and the amount by which it must be exceeded.
    order
        FORWARD: the first law comes first, P = first, Q = second.
    bracket
        (low, high) around the true number as computed by this package; ``high`` is None if there is
        no upper end.
    evidence
        The kind of evidence of the bracket.
    construction
        The name of the pair.
    pair
        The pair as plain numbers.
    partition
        The cells whose probabilities exceed the claimed number (`audit.claims.partition`); None
        for samples, and if none is known.
    mechanism
        The mechanism of the claim as plain data; None if it has none, or a composition.
    recipe
        How to compute the number, in words and formulas.
    version
        Version of this package.
    """

    claim: str
    citation: str
    quantity: str
    at: float
    claimed: float
    slack: float
    order: Order
    bracket: tuple[float, float | None]
    evidence: Evidence
    construction: str
    pair: Mapping[str, Any]
    partition: Mapping[str, Any] | None
    mechanism: Mapping[str, Any] | None
    recipe: tuple[str, ...]
    version: str

    def __post_init__(self) -> None:
        validate.finite(at=self.at, claimed=self.claimed, slack=self.slack)
        # at delta = 0 epsilon may be infinite
        validate.nonnegative(
            **{
                f"bracket_{i}": end
                for i, end in enumerate(self.bracket)
                if end not in (None, math.inf)
            }
        )
        validate.one_of(_NAMES, quantity=self.quantity)
        if "kind" not in self.pair:
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


def witness_of(
    claim: Claim,
    number: ClaimedNumber,
    *,
    at: float,
    pair: Pair,
    order: Order,
    bracket: tuple[float, float],
    evidence: Evidence,
    law: BracketedCurve | None = None,
) -> Witness:
    """Return the witness of a refuted number.

    ``at`` is the place of comparison, `Quantity.witness_at`; ``law`` is the exact curve of a
    construction. Raises ``ValueError`` if the pair cannot be written as plain numbers.
    """
    plain = plain_pair(pair)
    partition = None
    if evidence is Evidence.EXACT:
        # where no partition is known, the verdict says that it is not verified
        with contextlib.suppress(ValueError, ArithmeticError, IndexError):
            partition = partition_of(
                plain,
                law,
                quantity=number.quantity,
                at=at,
                claimed=number.value + number.slack,
                certified=bracket[0],
                swap=order is Order.REVERSE,
            )
    mechanism, citation = claim.mechanism, claim.citation
    if not citation and (entry := claim.bound[0]):
        citation = str(entry.cite)
    names = ("first", "second") if order is Order.FORWARD else ("second", "first")
    head = f"Let P be the law called '{names[0]}' under 'pair', and Q the one called '{names[1]}'."
    low, high = bracket
    return Witness(
        claim=claim.id,
        citation=citation,
        quantity=number.quantity.name,
        at=at,
        claimed=number.value,
        slack=number.slack,
        order=order,
        bracket=(low, high if math.isfinite(high) else None),
        evidence=evidence,
        construction=described(pair),
        pair=plain,
        partition=partition,
        mechanism=encode(mechanism) if isinstance(mechanism, NoisySGD) else None,
        recipe=(head, *_LAWS[plain["kind"]], *number.quantity.recipe(at, number.value)),
        version=_version(),
    )


@functools.cache
def _version() -> str:
    return version("noisy-sgd-audit")


def plain_pair(pair: Pair) -> dict[str, Any]:
    """Return the two laws of a pair as plain numbers: dictionaries, lists, numbers and texts."""
    if isinstance(pair, ExplicitPair):
        # vectors are kept: their law on a line is a computation that a reader should repeat
        distributions = pair if isinstance(pair, NormalVectors) else pair.distributions()
        return {**encode(distributions), "kind": distributions.kind.lower()}
    first, second = pair.processes()
    return {"kind": "process", "first": _process(first), "second": _process(second)}


def describable(pair: Pair) -> bool:
    """Whether a witness can describe the pair: its maps are piecewise linear or constant."""
    if isinstance(pair, ExplicitPair):
        return True
    try:
        for process in pair.processes():
            for step in process.distinct_steps():
                _step(step)
    except ValueError:
        return False
    return True


def _process(process: Process) -> dict[str, Any]:
    return {
        "start": process.start,
        "lower": process.lower if math.isfinite(process.lower) else None,
        "upper": process.upper if math.isfinite(process.upper) else None,
        "lower_wall": process.lower_wall.value,
        "upper_wall": process.upper_wall.value,
        "paths": [
            {
                "probability": path.probability,
                "segments": [
                    part for segment in path.segments if len(segment) for part in _parts(segment)
                ],
            }
            for path in process.paths
        ],
    }


def _parts(segment: Segment) -> list[dict[str, Any]]:
    """Return a segment; one that runs once is split so that equal steps in a row are one."""
    steps = [_step(step) for step in segment.steps]
    if segment.times > 1:
        return [{"times": segment.times, "steps": steps}]
    found: list[dict[str, Any]] = []
    for step, equal in itertools.groupby(steps):
        times = len(list(equal))
        if times == 1 and found and found[-1]["times"] == 1:
            found[-1]["steps"].append(step)
        else:
            found.append({"times": times, "steps": [step]})
    return found


def _step(step: Step) -> dict[str, Any]:
    moves: list[dict[str, int]] = [{}] * len(step.maps)
    if isinstance(step, DependentStep):
        moves = [{"from": before, "to": after} for before, after in step.moves]
    return {
        "noise_std": step.noise_std,
        "maps": [
            {"weight": weight, **_map(phi), **move}
            for phi, weight, move in zip(step.maps, step.weights, moves, strict=True)
            if weight > 0
        ],
    }


def _map(phi: UpdateMap) -> dict[str, Any]:
    """Return a map as its points and values, and the slopes beyond them, or as its stairs."""
    if isinstance(phi, Affine):
        return {"points": [0.0], "values": [phi.shift], "slopes": [phi.slope, phi.slope]}
    if isinstance(phi, PiecewiseLinear):
        return {"points": [*phi.points], "values": [*phi.values], "slopes": [*phi.slopes]}
    if isinstance(phi, Staircase):
        return {"edges": [*phi.edges], "values": [*phi.values], "stride": phi.stride}
    return _recognised(phi)


def _recognised(phi: UpdateMap) -> dict[str, Any]:
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
    return _map(line)

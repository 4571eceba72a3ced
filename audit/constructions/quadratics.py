"""Quadratic losses: the iterates are Gaussian on an unconstrained domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from audit import validate
from audit.constructions.batches import SAMPLERS, random_position, random_start
from audit.constructions.gradient_limits import (
    check_curvature,
    check_holder,
    check_others,
    check_removable,
    check_unclipped,
    check_whole_gradients,
    random_curvature,
    random_others,
    suggested_curvatures,
)
from audit.constructions.positioned import PositionedPair
from audit.constructions.registry import construction
from audit.constructions.sampling import BatchUpdate
from audit.constructions.updates import Affine, PiecewiseLinear
from audit.mechanism import Choice, NoisySGD, Relation


@construction
@dataclass(frozen=True)
class QuadraticPair(PositionedPair):
    """Quadratic losses of equal curvature whose centres differ in one record.

    Record i has the loss f_i(x) = curvature/2 x^2 - p_i x: a regulariser shared by all records, and
    a linear loss. Gradients of two records differ by a constant, so the pair is admissible under a
    gradient sensitivity, or under a Lipschitz constant with a strongly convex regulariser. A
    Lipschitz constant without strong convexity bounds the whole gradient.

    X has p = +S/2 and X' has p = -S/2 at the differing record (``REPLACE_ONE``), or L and 0
    (``ZERO_OUT``, which keeps the regulariser). Batches of random size have the regulariser once.

    Full batches and ``curvature = strong_convexity`` on an unconstrained domain attain Theorem 4.2
    of Bok, Su and Altschuler 2024 for eta <= 2/(M + m).

    Parameters
    ----------
    curvature : float, default: 0.0
        Curvature of every loss: from the strong convexity to the smoothness; from minus the
        smoothness if losses need not be convex.
    others : float, default: 0.0
        Slope p of every other record.
    start : float, default: 0.0
        Common start point.
    position : int, optional
        Batch of the cycle that holds the record, from 0; by default that of the last step.

    Raises
    ------
    ValueError
        If a parameter is out of range, or breaks an assumption of the mechanism (`Inadmissible`).
    """

    curvature: float = field(default=0.0, metadata={"draw": random_curvature})
    others: float = field(default=0.0, metadata={"draw": random_others})
    start: float = field(default=0.0, metadata={"draw": random_start})
    position: int | None = field(default=None, metadata={"draw": random_position})

    citation: ClassVar[str] = "Bok, Su and Altschuler 2024, Theorem 4.2 and Remark 5.3"
    covers: ClassVar[tuple[Choice, ...]] = (*SAMPLERS, Relation.ADD_REMOVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.finite(curvature=self.curvature, others=self.others)
        check_unclipped(self.name, self.mechanism, self.curvature)
        check_removable(self.name, self.mechanism, self.curvature != 0)
        check_curvature(self.name, self.mechanism, self.curvature)
        check_holder(self.name, self.mechanism, PiecewiseLinear.linear(self.curvature))
        check_others(self.name, self.mechanism, self.others, self.others)
        check_whole_gradients(self.name, self.mechanism, self.curvature)

    @classmethod
    def suggestions(cls, mechanism: NoisySGD) -> Iterator[dict[str, Any]]:
        """Yield the smallest curvature, the one that resets in one step, and the largest.

        Without curvature it is a walk.
        """
        for curvature in suggested_curvatures(mechanism):
            if curvature:
                yield {"curvature": curvature}

    def _update(self, record: float) -> BatchUpdate:
        def update(eta: float, holds_record: bool, count: int) -> Affine:
            push = (record if holds_record else 0.0) + count * self.others
            return Affine(eta * push / self.mechanism.batch_size, 1 - eta * self.curvature)

        return update

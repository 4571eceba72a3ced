"""Neighbouring pairs that are as distinguishable as the assumptions allow."""

from audit.constructions.base import Construction, Inadmissible, checked_start
from audit.constructions.batches import batched_process
from audit.constructions.gradients import ChangingPair, GradientPair, Phase
from audit.constructions.holder import HolderForm, HolderPair
from audit.constructions.lattice import LatticeWalk
from audit.constructions.process import DependentStep, Process, Segment, Step, Wall
from audit.constructions.registry import (
    all_kinds,
    construction,
    decode_any_pair,
    decode_pair,
    encode_pair,
    kinds,
    suggested_members,
)
from audit.constructions.updates import (
    Affine,
    Mapped,
    PiecewiseLinear,
    PolynomialUpdate,
    PowerUpdate,
    Staircase,
    UpdateMap,
)
from audit.constructions.walks import (
    BiasedWalk,
    CyclicQuadraticPair,
    DriftedWalk,
    QuadraticPair,
    ResetWalk,
    TwoSidedWalk,
    WallPinnedWalk,
)

__all__ = [
    "Affine",
    "BiasedWalk",
    "ChangingPair",
    "Construction",
    "CyclicQuadraticPair",
    "DependentStep",
    "DriftedWalk",
    "GradientPair",
    "HolderForm",
    "HolderPair",
    "Inadmissible",
    "LatticeWalk",
    "Mapped",
    "Phase",
    "PiecewiseLinear",
    "PolynomialUpdate",
    "PowerUpdate",
    "Process",
    "QuadraticPair",
    "ResetWalk",
    "Segment",
    "Staircase",
    "Step",
    "TwoSidedWalk",
    "UpdateMap",
    "Wall",
    "WallPinnedWalk",
    "all_kinds",
    "batched_process",
    "checked_start",
    "construction",
    "decode_any_pair",
    "decode_pair",
    "encode_pair",
    "kinds",
    "suggested_members",
]

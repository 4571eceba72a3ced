"""Neighbouring pairs that are as distinguishable as the assumptions allow, one family per file."""

from audit.constructions.base import Construction, Inadmissible, checked_start
from audit.constructions.batches import batched_process
from audit.constructions.changing import ChangingPair, Phase
from audit.constructions.cycles import CyclicQuadraticPair, WallPinnedWalk
from audit.constructions.gradients import GradientPair
from audit.constructions.holder import HolderForm, HolderPair
from audit.constructions.lattice import LatticeWalk
from audit.constructions.process import DependentStep, Process, Segment, Step, Wall
from audit.constructions.quadratics import QuadraticPair
from audit.constructions.registry import (
    all_kinds,
    construction,
    decode_any_pair,
    decode_pair,
    encode_pair,
    kinds,
    suggested_members,
)
from audit.constructions.resets import ResetWalk
from audit.constructions.updates import (
    Affine,
    Mapped,
    PiecewiseLinear,
    PolynomialUpdate,
    PowerUpdate,
    Staircase,
    UpdateMap,
)
from audit.constructions.walks import BiasedWalk, DriftedWalk, TwoSidedWalk

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

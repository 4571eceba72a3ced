"""Upper bounds: published bounds on the privacy loss of Noisy-SGD, and those of this package.

    curve = evaluate("bsa24.theorem_4_3", mechanism)
    curve.epsilon(1e-5)

``CATALOGUE`` maps ids to entries (source, statement, assumptions, status). `applicable` lists the
entries that cover a mechanism, `best` returns the tightest sound bound, `table` evaluates every
entry, and `calibrate` finds the noise or the number of steps that meets a budget. `epsilon` and
`noise_multiplier` answer in the terms of trainings with DP-SGD, from both sides. `bound` registers
a function as a bound.
"""

from audit.bounds import (
    accounting,
    all_iterates,
    at22,
    bsa24,
    cl25,
    cl25_cyclic,
    fmtt18,
    hidden_state,
    own,
    random_allocation,
    survey,
)
from audit.bounds import statements as _statements
from audit.bounds.assumed_batches import BatchingGap, batching_gap
from audit.bounds.assumptions import Assumption, NotApplicable
from audit.bounds.record_scope import RecordScope
from audit.bounds.registry import BestBound, Catalogue, Entry, Row, Status, tightest
from audit.bounds.sources import Source
from audit.bounds.trainings import TrainingEpsilon, TrainingNoise, epsilon, noise_multiplier

REGISTRY = Catalogue(_statements.entries())
"""Bounds of this package, and those that users register with `bound`."""

CATALOGUE = REGISTRY.entries
evaluate = REGISTRY.evaluate
applicable = REGISTRY.applicable
best = REGISTRY.best
bound = REGISTRY.bound
calibrate = REGISTRY.calibrate
entry = REGISTRY.entry
table = REGISTRY.table

__all__ = [
    "CATALOGUE",
    "Assumption",
    "BatchingGap",
    "BestBound",
    "Catalogue",
    "Entry",
    "NotApplicable",
    "RecordScope",
    "Row",
    "Source",
    "Status",
    "TrainingEpsilon",
    "TrainingNoise",
    "accounting",
    "all_iterates",
    "applicable",
    "at22",
    "batching_gap",
    "best",
    "bound",
    "bsa24",
    "calibrate",
    "cl25",
    "cl25_cyclic",
    "entry",
    "epsilon",
    "evaluate",
    "fmtt18",
    "hidden_state",
    "noise_multiplier",
    "own",
    "random_allocation",
    "survey",
    "table",
    "tightest",
]

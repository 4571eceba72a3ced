"""Upper bounds: published bounds on the privacy loss of Noisy-SGD, and those of this package.

    curve = evaluate("bsa24.theorem_4_3", mechanism)
    curve.epsilon(1e-5)

``CATALOGUE`` maps ids to entries (source, statement, assumptions, status). `applicable` lists the
entries that cover a mechanism, `best` returns the tightest sound bound, `table` evaluates every
entry, and `calibrate` finds the noise or the number of steps that meets a budget. `epsilon` and
`noise_multiplier` answer in the terms of trainings with DP-SGD, from both sides. `bound` registers
a function as a bound.
"""

from audit.bounds.assumed_batches import BatchingGap, batching_gap
from audit.bounds.assumptions import Assumption, NotApplicable
from audit.bounds.record_scope import RecordScope
from audit.bounds.registry import (
    REGISTRY,
    BestBound,
    Catalogue,
    Entry,
    Row,
    Status,
    bound,
    tightest,
)
from audit.bounds.sources import Source

# The order of these imports is the order of the catalogue.
# isort: off
from audit.bounds import accounting
from audit.bounds import fmtt18
from audit.bounds import at22
from audit.bounds import cl25
from audit.bounds import survey
from audit.bounds import bsa24
from audit.bounds import all_iterates
from audit.bounds import recent
from audit.bounds import own
# isort: on

from audit.bounds.trainings import TrainingEpsilon, TrainingNoise, epsilon, noise_multiplier

CATALOGUE = REGISTRY.entries
evaluate = REGISTRY.evaluate
applicable = REGISTRY.applicable
best = REGISTRY.best
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
    "entry",
    "epsilon",
    "evaluate",
    "fmtt18",
    "noise_multiplier",
    "own",
    "recent",
    "survey",
    "table",
    "tightest",
]

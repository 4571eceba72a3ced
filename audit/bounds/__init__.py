"""The upper-bound engine: published bounds on the privacy loss of Noisy-SGD's last iterate.

    curve = evaluate("bsa24.theorem_4_3", mechanism)
    curve.epsilon(1e-5)

``CATALOGUE`` maps ids to entries (source, statement, assumptions, status); `applicable` lists
those that speak about a mechanism, `best` finds the tightest sound one, `table` shows what each of
them says, and `calibrate` finds the noise or the steps that meet a budget. `bound` registers a
function as a bound.
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
from audit.bounds import own
# isort: on

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
    "evaluate",
    "fmtt18",
    "own",
    "survey",
    "table",
    "tightest",
]

"""The upper-bound engine: published bounds on the privacy loss of Noisy-SGD's last iterate.

    curve = evaluate("bsa24.theorem_4_3", mechanism)
    curve.epsilon(1e-5)

``CATALOGUE`` maps ids to entries (citation, statement, assumptions, status); `applicable` lists
those that speak about a mechanism, `best` finds the tightest sound one, `table` shows what each of
them says, and `calibrate` finds the noise or the steps that meet a budget.
"""

from audit.bounds import (
    at22,
    at22_conversion,
    at22_iteration,
    at22_rates,
    at22_sampled,
    at22_small_batches,
    bsa24,
    cl25,
    fmtt18,
    fmtt18_dp,
    fmtt18_stop,
    own,
    survey,
)
from audit.bounds.assumptions import Assumption
from audit.bounds.errors import NotApplicable
from audit.bounds.registry import (
    BestBound,
    Catalogue,
    Citation,
    Entry,
    Row,
    Status,
    tightest,
)

_catalogue = Catalogue(
    (
        *fmtt18.ENTRIES,
        *fmtt18_stop.ENTRIES,
        *fmtt18_dp.ENTRIES,
        *at22.ENTRIES,
        *at22_iteration.ENTRIES,
        *at22_sampled.ENTRIES,
        *at22_small_batches.ENTRIES,
        *at22_rates.ENTRIES,
        *at22_conversion.ENTRIES,
        *cl25.ENTRIES,
        *survey.ENTRIES,
        *bsa24.ENTRIES,
        *own.ENTRIES,
    )
)

CATALOGUE = _catalogue.entries
evaluate = _catalogue.evaluate
applicable = _catalogue.applicable
best = _catalogue.best
calibrate = _catalogue.calibrate
entry = _catalogue.entry
table = _catalogue.table

__all__ = [
    "CATALOGUE",
    "Assumption",
    "BestBound",
    "Citation",
    "Entry",
    "NotApplicable",
    "Row",
    "Status",
    "applicable",
    "best",
    "calibrate",
    "entry",
    "evaluate",
    "table",
    "tightest",
]

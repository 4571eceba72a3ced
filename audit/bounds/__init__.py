"""The upper-bound engine: published bounds on the privacy loss of Noisy-SGD's last iterate.

    curve = evaluate("bsa24.theorem_4_3", mechanism)
    curve.epsilon(1e-5)

``CATALOGUE`` maps ids to entries (citation, statement, assumptions, status); `applicable` lists
those that speak about a mechanism, `best` finds the tightest sound one.
"""

from audit.bounds import at22, bsa24
from audit.bounds.assumptions import Assumption
from audit.bounds.errors import NotApplicable
from audit.bounds.registry import BestBound, Catalogue, Citation, Entry, Status

_catalogue = Catalogue((*at22.ENTRIES, *bsa24.ENTRIES))

CATALOGUE = _catalogue.entries
evaluate = _catalogue.evaluate
applicable = _catalogue.applicable
best = _catalogue.best

__all__ = [
    "CATALOGUE",
    "Assumption",
    "BestBound",
    "Citation",
    "Entry",
    "NotApplicable",
    "Status",
    "applicable",
    "best",
    "evaluate",
]

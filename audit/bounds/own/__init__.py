"""Upper bounds of this package, which are in none of the papers.

`own.forgetting`: what happened before the last m steps is lost in their noise. `own.coupling`: a
recursion over the distance of the two iterates and the likelihood ratio that is left. Both hold in
any dimension, for convex losses whose updates are contractions, on a bounded domain or with steps
that contract.
"""

# The order of these imports is the order of the catalogue.
# isort: off
from audit.bounds.own import forgetting
from audit.bounds.own.coupling import coupling_at
# isort: on

__all__ = ["coupling_at", "forgetting"]

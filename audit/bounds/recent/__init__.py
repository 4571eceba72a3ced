"""Papers after the five that the other folders hold, one module a paper."""

# The order of these imports is the order of the catalogue.
# isort: off
from audit.bounds.recent import kong24
from audit.bounds.recent import sun24
from audit.bounds.recent import fs25
from audit.bounds.recent import evd26
from audit.bounds.recent import liang26
# isort: on

__all__ = ["evd26", "fs25", "kong24", "liang26", "sun24"]

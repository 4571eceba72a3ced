"""Papers after the five that the other folders hold, one module a paper."""

from audit.bounds.recent import evd26, fs25, kong24, liang26, sun24

__all__ = ["evd26", "fs25", "kong24", "liang26", "sun24"]

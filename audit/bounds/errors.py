"""What a bound raises when it does not speak about a mechanism."""

from __future__ import annotations


class NotApplicable(ValueError):
    """The mechanism does not meet an assumption of the bound; the message names both."""

"""The order of a pair of laws in a divergence."""

from __future__ import annotations

import enum


class Order(enum.Enum):
    """Which law of the pair (X, X') comes first in a divergence.

    ``FORWARD`` is sup_S P(X in S) - e^eps P(X' in S); ``REVERSE`` exchanges the two.
    """

    FORWARD = "forward"
    REVERSE = "reverse"

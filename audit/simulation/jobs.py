"""What a run of many trials is made of: numbered blocks that return counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


class Job(Protocol):
    """Work cut into numbered blocks, each a pure function of the job and its number.

    Jobs are picklable, and their counts add up: the sum over all blocks is the result, wherever
    and in whatever order the blocks ran.
    """

    @property
    def description(self) -> Mapping[str, Any]:
        """Plain data (numbers, strings, lists, mappings) that fix every count, seed included."""

    def __len__(self) -> int:
        """How many blocks there are."""

    def work(self, number: int) -> int:
        """How many walk steps block ``number`` takes, for the rate and the time left."""

    def counts(self, number: int) -> Counts:
        """Run block ``number`` and return its counts, of one shape for all blocks."""

"""What a run of many trials is made of: numbered blocks that return counts, or samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


class Blocks(Protocol):
    """Work cut into numbered blocks, each a pure function of the job and its number."""

    @property
    def description(self) -> Mapping[str, Any]:
        """Plain data (numbers, strings, lists, mappings) that fix every block, seed included.

        Looked at where blocks are recorded; raises ``ValueError`` if there can be none.
        """

    def __len__(self) -> int:
        """How many blocks there are."""

    def work(self, number: int) -> int:
        """How many walk steps block ``number`` takes, for the rate and the time left."""


class Job(Blocks, Protocol):
    """Blocks whose results add up.

    Jobs are picklable. The sum over all blocks is the result, wherever and in whatever order the
    blocks ran.
    """

    def counts(self, number: int) -> Counts:
        """Run block ``number`` and return its counts, of one shape for all blocks."""


class Samples(Blocks, Protocol):
    """Blocks whose results are kept, each in its own place; picklable, too."""

    def values(self, number: int) -> Floats:
        """Run block ``number`` and return its samples, one-dimensional."""

    def size(self, number: int) -> int:
        """How many samples block ``number`` returns."""

"""Record scopes: the batches that may hold the differing record under a bound."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import SupportsInt, cast

from audit.mechanism import Batching, NoisySGD


class RecordScope(enum.Enum):
    """Records that a bound covers, for fixed batches in a fixed order.

    A pair that differs in another record is no evidence about the bound. The scope may depend on an
    option of the bound, which the member names.
    """

    ANY = "any record"
    FIRST = "the first record"
    INDEX = "the record of the option index, from 1"
    POSITION = "the records of one batch, by the option position, from 0"
    BATCH = "the records of one batch, by the option batch, from 1"
    PRIVATE = "all records but the last ones, whose number is the option public"

    @property
    def option(self) -> str | None:
        """Option of the bound that selects the records; None if there is none."""
        return _OPTIONS.get(self)

    def batches(self, mechanism: NoisySGD, options: Mapping[str, object]) -> range | None:
        """Return the batches of the cycle that may hold the record."""
        if mechanism.batching is not Batching.CYCLIC:
            return None
        if self is RecordScope.FIRST:
            return range(1)
        if self.option is None or self.option not in options:
            return None
        number, size = int(cast(SupportsInt, options[self.option])), mechanism.batch_size
        if self is RecordScope.PRIVATE:
            return range((mechanism.dataset_size - number) // size)
        one_based = {RecordScope.INDEX: (number - 1) // size, RecordScope.BATCH: number - 1}
        only = one_based.get(self, number)
        return range(only, only + 1)

    def options_at(self, mechanism: NoisySGD, position: int) -> dict[str, int]:
        """Return the options that select the first record of a batch."""
        if self is RecordScope.INDEX:
            return {"index": position * mechanism.batch_size + 1}
        return {}


_OPTIONS = {
    RecordScope.INDEX: "index",
    RecordScope.POSITION: "position",
    RecordScope.BATCH: "batch",
    RecordScope.PRIVATE: "public",
}

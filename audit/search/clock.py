"""The time limit of a search."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


class OutOfTime(Exception):
    """A computation was stopped at its time limit."""


@dataclass(frozen=True)
class Clock:
    """Measures the seconds since its creation against a limit, infinite for none."""

    limit: float = math.inf
    begun: float = field(default_factory=time.perf_counter)

    @property
    def is_limited(self) -> bool:
        """True if there is a limit."""
        return math.isfinite(self.limit)

    @property
    def spent(self) -> float:
        """Seconds since the clock was created."""
        return time.perf_counter() - self.begun

    @property
    def left(self) -> float:
        """Seconds until the limit, negative after it."""
        return self.limit - self.spent

    def up_to(self, share: float) -> Clock:
        """Return a clock that ends when ``share`` of the remaining time is spent."""
        if not self.is_limited:
            return self
        return Clock(self.spent + share * max(self.left, 0.0), self.begun)

    def check(self, *_: object) -> None:
        """Raise `OutOfTime` after the limit; the arguments of a progress report are ignored."""
        if self.left < 0:
            raise OutOfTime(f"budget must be larger than {self.limit:g} s for this mechanism")

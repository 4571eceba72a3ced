"""What a recomputation says."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from audit.claims.witness import Witness


class Outcome(enum.Enum):
    """What a recomputation says of the refutation."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    NOT_COMPUTABLE = "not computable by this way"
    NOT_SAMPLEABLE = "not sampleable"


@dataclass(frozen=True)
class Way:
    """One way's number, to be compared with ``claimed``.

    Attributes
    ----------
    value, error
        The number and a bound on its error; a sampled number is a lower confidence limit, and
        its error the probability that it is wrong.
    claimed
        What it must exceed.
    outcome, how
        The conclusion, and in words what was done.
    """

    value: float
    error: float
    claimed: float
    outcome: Outcome
    how: str

    @property
    def confirms(self) -> bool:
        """Whether this way refutes the claim again."""
        return self.outcome is Outcome.CONFIRMED


@dataclass(frozen=True)
class Recomputed:
    """Both ways."""

    witness: Witness
    exact: Way
    sampled: Way

    @property
    def confirmed(self) -> bool:
        """Whether both ways refute the claim again."""
        return self.exact.confirms and self.sampled.confirms

    @property
    def stands(self) -> bool:
        """Whether one way refutes the claim again, and the other does or could not be tried."""
        outcomes = {self.exact.outcome, self.sampled.outcome}
        return Outcome.CONFIRMED in outcomes and Outcome.NOT_CONFIRMED not in outcomes

    def _conclusion(self) -> str:
        if self.confirmed:
            return "confirmed in both ways"
        if self.stands:
            return "confirmed in one way; the other could not be tried"
        return "not confirmed"

    def lines(self) -> tuple[str, ...]:
        """Return the findings, a line each."""
        w = self.witness
        order = "first against second law" if w.order == "forward" else "second against first law"
        what = {
            "epsilon": f"epsilon at delta {w.at:g}",
            "Renyi divergence": f"Renyi divergence of order {w.at:g}",
            "mu": f"delta at epsilon {w.at:g}, against mu = {w.claimed:g}",
            "1 - beta": f"1 - beta at alpha {w.at:g}",
        }[w.quantity]
        return (
            f"{w.claim}: {what}, {w.construction}, {order}; claimed {self.exact.claimed:.6g}",
            f"  quadrature: {self.exact.value:.6g} +- {self.exact.error:.2g}, "
            f"{self.exact.outcome.value} ({self.exact.how})",
            f"  draws: {_shown(self.sampled)}{self.sampled.outcome.value} ({self.sampled.how})",
            f"  {self._conclusion()}",
        )


def _shown(way: Way) -> str:
    return f"at least {way.value:.6g}, " if math.isfinite(way.value) else ""

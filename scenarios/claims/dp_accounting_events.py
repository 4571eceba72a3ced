"""Events of dp-accounting and what its accountants claim: called by `less_noise.claims.yaml`.

They need ``pip install dp-accounting``.
"""

from __future__ import annotations

from dataclasses import dataclass

import dp_accounting as dp
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

ADD_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ZERO_OUT = NeighboringRelation.REPLACE_SPECIAL


@dataclass(frozen=True)
class Setting:
    """A training on Poisson batches (full ones at rate 1), and what its accountants say."""

    noise_multiplier: float
    rate: float
    steps: int
    relation: NeighboringRelation = ADD_REMOVE

    def event(self, share: float = 1.0) -> dp.DpEvent:
        """Return the training with this share of its noise."""
        once = dp.GaussianDpEvent(share * self.noise_multiplier)
        if self.rate < 1:
            once = dp.PoissonSampledDpEvent(self.rate, once)
        return dp.SelfComposedDpEvent(once, self.steps)

    def less_noise(self) -> dp.DpEvent:
        """Return the training with 2 % less noise, which no accountant is told."""
        return self.event(0.98)

    def pld(self) -> PLDAccountant:
        """Return what the PLD accountant says of the training with all its noise."""
        return PLDAccountant(self.relation).compose(self.event())

    def rdp(self) -> RdpAccountant:
        """Return what the RDP accountant says of it; for add/remove in place of replace-one."""
        relation = ADD_REMOVE if self.relation is REPLACE_ONE else self.relation
        return RdpAccountant(neighboring_relation=relation).compose(self.event())


s01 = Setting(1.1, 0.01, 200)
s02 = Setting(6.0, 0.01, 10_000)
s03 = Setting(2.0, 0.1, 100, ZERO_OUT)
s04 = Setting(3.0, 1 / 235, 2350)
s05 = Setting(0.8, 0.05, 50)
s06 = Setting(4.0, 0.25, 200)
s07 = Setting(1.5, 0.02, 500, REPLACE_ONE)
s08 = Setting(3.0, 0.05, 1000, REPLACE_ONE)
s09 = Setting(0.6, 0.3, 5, ZERO_OUT)
s10 = Setting(10.0, 1.0, 50)
s11 = Setting(5.0, 1.0, 10, REPLACE_ONE)
s12 = Setting(1.0, 0.02, 300)

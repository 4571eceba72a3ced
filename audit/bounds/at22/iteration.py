"""Altschuler and Talwar (2022): amplification by iteration for any shifts.

The shifts s_t may be given, for any pair of contractive noisy iterations; by default they are those
of the mechanism's differing record.
"""

from __future__ import annotations

from collections.abc import Sequence

from audit.bounds.accounting.iteration import diameter_amplification, original_amplification
from audit.bounds.statements import bound
from audit.curves.base import PrivacyCurve
from audit.mechanism import NoisySGD


@bound("at22.proposition_2_17")
def proposition_2_17(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
) -> PrivacyCurve:
    """Privacy amplification by iteration, original form (Proposition 2.17).

    shifts: Distances s_t of the maps of each step, in units of the iterate. Default: eta_t S/b at
        every step that can hold the record, for its worst position.
    allocations: Values a_t of each step. Default: the best ones.
    """
    return original_amplification(mechanism, shifts, allocations)


@bound("at22.proposition_3_2")
def proposition_3_2(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
    tau: int | None = None,
    distance: float | None = None,
) -> PrivacyCurve:
    """Amplification by iteration that uses the diameter (Proposition 3.2).

    Any tau < T is allowed. The states at tau are taken after their projection, so D is the
    diameter, not widened.

    tau: Time from which shifts are allocated, 0 to T - 1. Default: the best (the best of the last
        10,000 steps if step sizes vary or shifts are given).
    distance: Largest distance D of the states at ``tau``. Default: the diameter.
    """
    return diameter_amplification(mechanism, 1.0, shifts, allocations, tau, distance)


@bound("at22.proposition_5_4")
def proposition_5_4(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
    tau: int | None = None,
    distance: float | None = None,
) -> PrivacyCurve:
    """Amplification by iteration for c-contractive steps (Proposition 5.4)."""
    c = min(mechanism.contraction, 1.0)  # 1 + rounding at eta = 2/M
    return diameter_amplification(mechanism, c, shifts, allocations, tau, distance)

"""Altschuler and Talwar (2022): amplification by iteration for any shifts (paper 000).

The shifts s_t can be given by hand, for any pair of contractive noisy iterations; by default they
are those of the mechanism's differing record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.bounds.assumptions import BOUNDED_DOMAIN, FIXED_SIZE, constant_step_size
from audit.bounds.at22 import CONVEX_ITERATION, cite, cycle_cost
from audit.bounds.iteration import (
    LONGEST,
    allocation_cost,
    best_cost,
    constant_cost,
    record_shifts,
    visits_cost,
)
from audit.bounds.registry import Entry, Status
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import Batching, NoisySGD

Array = NDArray[np.float64]


def _steps_from(
    mechanism: NoisySGD,
    shifts: Sequence[float] | None,
    count: int,
    allocations: Sequence[float] | None,
) -> tuple[tuple[Array, ...], Array]:
    """Return the shifts of the last ``count`` steps, one array a place, and the noises."""
    if shifts is None:
        places = record_shifts(mechanism, count)
        if len(places) > 1 and allocations is not None:
            raise ValueError(
                "shifts must be given beside allocations where step sizes vary over a cycle of "
                "batches, because no place of the record is the worst, got None"
            )
    else:
        places = (np.array(shifts, dtype=np.float64)[len(shifts) - count :],)
        if len(shifts) != mechanism.steps and not constant_step_size(mechanism):
            raise ValueError(
                f"shifts must be one a step ({mechanism.steps}) for a schedule, got {len(shifts)}"
            )
    if constant_step_size(mechanism):
        return places, np.full(count, mechanism.step_std)
    return places, mechanism.step_sizes[mechanism.steps - count :] * mechanism.noise_std


def _searchable(count: int, name: str) -> int:
    if count > 100 * LONGEST:
        raise ValueError(f"{name} must leave at most {100 * LONGEST} steps, got {count}")
    return count


def original_amplification(
    mechanism: NoisySGD,
    shifts: Sequence[float] | None,
    allocations: Sequence[float] | None,
) -> PrivacyCurve:
    """Return the bound of iterations that start together; see `proposition_2_17`."""
    if shifts is None and allocations is None and constant_step_size(mechanism):
        return RenyiCurve.linear(cycle_cost(mechanism, None) / 2)
    count = _searchable(mechanism.steps if shifts is None else len(shifts), "shifts")
    places, stds = _steps_from(mechanism, shifts, count, allocations)
    if allocations is None:
        return RenyiCurve.linear(max(best_cost(s, stds) for s in places) / 2)
    return RenyiCurve.linear(allocation_cost(allocations, places[0], stds) / 2)


def proposition_2_17(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
) -> PrivacyCurve:
    """Privacy amplification by iteration, original form (Proposition 2.17).

    D_alpha <= (alpha/2) sum a_t^2/(eta_t sigma)^2 for any a_t with z_t = sum (s_i - a_i) >= 0 and
    z_T = 0.

    Parameters
    ----------
    mechanism
        Its steps, step sizes and noise. For given shifts of another number the noise of a constant
        step size is used.
    shifts
        s_t, how far the maps of step t differ, one a step, in units of the iterate. By default
        eta_t S/b at every step that can hold the record, for its worst place.
    allocations
        a_t, one a step; by default the best ones.

    Raises
    ------
    ValueError
        If the allocations are infeasible.
    """
    return original_amplification(mechanism, shifts, allocations)


def _diameter_amplification(
    mechanism: NoisySGD,
    contraction: float,
    shifts: Sequence[float] | None,
    allocations: Sequence[float] | None,
    tau: int | None,
    distance: float | None,
) -> PrivacyCurve:
    """Return the bound of iterations that are ``distance`` apart at time ``tau``."""
    assert mechanism.diameter is not None  # an assumption of the entries
    apart = mechanism.diameter if distance is None else distance
    validate.nonnegative(distance=apart)
    given = any(option is not None for option in (shifts, allocations, tau))
    if not given and constant_step_size(mechanism):
        shift = mechanism.constant_step_size * mechanism.sensitivity / mechanism.batch_size
        std, count = mechanism.step_std, mechanism.steps
        cycle = mechanism.dataset_size // mechanism.batch_size
        if cycle > 1 and mechanism.batching in (Batching.CYCLIC, Batching.SHUFFLED):
            cost = visits_cost(shift, std, count, cycle, distance=apart, contraction=contraction)
        else:
            cost = constant_cost(shift, std, count, distance=apart, contraction=contraction)
        return RenyiCurve.linear(cost / 2)
    steps = mechanism.steps if shifts is None else len(shifts)
    if tau is not None:
        validate.integer(0, tau=tau)
        if tau >= steps:
            raise ValueError(f"tau must be at most steps - 1 ({steps - 1}), got {tau!r}")
    if allocations is not None:
        count = _searchable(steps - (tau or 0), "tau")
        (s,), stds = _steps_from(mechanism, shifts, count, allocations)
        cost = allocation_cost(allocations, s, stds, distance=apart, contraction=contraction)
    elif tau is not None:
        count = _searchable(steps - tau, "tau")
        places, stds = _steps_from(mechanism, shifts, count, None)
        # what is left of the distance adds to the first shift
        first = np.where(np.arange(count) == 0, contraction * apart, 0.0)
        cost = max(best_cost(s + first, stds, contraction=contraction) for s in places)
    else:
        places, stds = _steps_from(mechanism, shifts, min(steps, LONGEST), None)
        cost = max(best_cost(s, stds, distance=apart, contraction=contraction) for s in places)
    return RenyiCurve.linear(cost / 2)


def proposition_3_2(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
    tau: int | None = None,
    distance: float | None = None,
) -> PrivacyCurve:
    """Amplification by iteration that uses the diameter (Proposition 3.2).

    D_alpha <= (alpha/2) sum over t > tau of a_t^2/(eta_t sigma)^2 for any tau < T and any a_t with
    z_t = D + sum over tau < i <= t of (s_i - a_i) >= 0 and z_T = 0. The states at tau are taken
    after their projection, so D is the diameter, not widened.

    Parameters
    ----------
    mechanism, shifts, allocations
        As for `proposition_2_17`; allocations are one for each step after ``tau``.
    tau
        The time from which shifts are allocated, 0 to T - 1; by default the best (the best of the
        last 10,000 steps where step sizes vary or shifts are given).
    distance
        D, how far the states at ``tau`` can be apart; by default the diameter.

    Raises
    ------
    ValueError
        If the allocations are infeasible or ``tau`` is out of its range.
    """
    return _diameter_amplification(mechanism, 1.0, shifts, allocations, tau, distance)


def proposition_5_4(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
    tau: int | None = None,
    distance: float | None = None,
) -> PrivacyCurve:
    """Amplification by iteration for c-contractive steps (Proposition 5.4).

    As `proposition_3_2` with z_t = c z_{t-1} + s_t - a_t, c the contraction of the steps.
    """
    c = min(mechanism.contraction, 1.0)  # 1 + rounding at eta = 2/M
    return _diameter_amplification(mechanism, c, shifts, allocations, tau, distance)


ENTRIES = (
    Entry(
        id="at22.proposition_2_17",
        cite=cite("Proposition 2.17"),
        statement=(
            "contractive noisy iterations, Renyi: D_alpha <= (alpha/2) sum a_t^2/(eta_t sigma)^2 "
            "for any a_t with z_t = sum (s_i - a_i) >= 0 and z_T = 0"
        ),
        assumptions=(FIXED_SIZE, *CONVEX_ITERATION),
        status=Status.AS_PRINTED,
        function=proposition_2_17,
    ),
    Entry(
        id="at22.proposition_3_2",
        cite=cite("Proposition 3.2"),
        statement=(
            "contractive noisy iterations on a bounded domain, Renyi: D_alpha <= (alpha/2) "
            "sum over t > tau of a_t^2/(eta_t sigma)^2 for any a_t with z_t = D + sum (s_i - a_i) "
            ">= 0 and z_T = 0"
        ),
        assumptions=(FIXED_SIZE, *CONVEX_ITERATION, BOUNDED_DOMAIN),
        status=Status.AS_PRINTED,
        function=proposition_3_2,
    ),
    Entry(
        id="at22.proposition_5_4",
        cite=cite("Proposition 5.4"),
        statement=(
            "c-contractive noisy iterations on a bounded domain, Renyi: D_alpha <= (alpha/2) sum "
            "over t > tau of a_t^2/(eta_t sigma)^2 for any a_t with z_t = c z_{t-1} + s_t - a_t "
            ">= 0, z_tau = D and z_T = 0"
        ),
        assumptions=(FIXED_SIZE, *CONVEX_ITERATION, BOUNDED_DOMAIN),
        status=Status.AS_PRINTED,
        function=proposition_5_4,
    ),
)

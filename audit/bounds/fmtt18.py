"""Feldman, Mironov, Talwar and Thakurta (2018), "Privacy amplification by iteration" (paper 001).

The paper's update is the package's with b = 1: one record a step. Its 2L is the sensitivity of the
differing record, S = `NoisySGD.sensitivity`: 2L for replace-one, L for zero-out. Here are the
Renyi statements but for random stopping, which is in `fmtt18_stop`; `fmtt18_dp` has the statements
in (epsilon, delta), `fmtt18_utility` what is said of utility and smoothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit import validate
from audit.bounds.assumptions import (
    CONSTANT_STEP_SIZE,
    CONTRACTIVE_STEPS,
    CONVEX,
    FIXED_ORDER,
    FIXED_SIZE,
    LAST_ITERATE,
    ONE_PASS,
    RANDOM_SKIP,
    UNCLIPPED,
    Assumption,
)
from audit.bounds.at22_iteration import original_amplification
from audit.bounds.registry import Citation, Entry, Status
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD

CONTRACTIVE = (CONVEX, UNCLIPPED, CONTRACTIVE_STEPS)
ONE_RECORD_A_STEP = (ONE_PASS, *CONTRACTIVE, CONSTANT_STEP_SIZE)


def cite(place: str) -> Citation:
    """Cite a place in the paper."""
    return Citation(
        "Feldman, Mironov, Talwar, Thakurta", 2018, "Privacy Amplification by Iteration", place
    )


def one_step(mechanism: NoisySGD) -> float:
    """Return S/sigma, the distance of one step's two Gaussians in units of the noise."""
    return mechanism.sensitivity / mechanism.noise_std


def checked_index(mechanism: NoisySGD, index: int | None) -> int:
    """Return the record, from 1; by default the last one, which is protected least."""
    if index is None:
        return mechanism.dataset_size
    validate.integer(1, index=index)
    if index > mechanism.dataset_size:
        raise ValueError(
            f"index must be at most dataset_size ({mechanism.dataset_size}), got {index!r}"
        )
    return index


def theorem_1(mechanism: NoisySGD, *, distance: float | None = None) -> PrivacyCurve:
    """Return what the introduction claims for two starts (Theorem 1, informal).

    alpha d/(2 T step_std^2) for iterates that start at distance d and share their maps. The
    distance should be squared, as in Theorem 22.

    Parameters
    ----------
    mechanism
        Its steps and noise.
    distance
        d; by default eta S, how far the first record's gradient can move the two runs apart, so
        that the claim is about the first record of one pass.
    """
    apart = mechanism.constant_step_size * mechanism.sensitivity if distance is None else distance
    validate.nonnegative(distance=apart)
    return RenyiCurve.linear(apart / (2 * mechanism.steps * mechanism.step_std**2))


def theorem_22(
    mechanism: NoisySGD,
    *,
    shifts: Sequence[float] | None = None,
    allocations: Sequence[float] | None = None,
) -> PrivacyCurve:
    """Privacy amplification by iteration (Theorem 22), for Gaussian noise.

    D_alpha <= (alpha/2) sum a_t^2/(eta_t sigma)^2 for any a_t with z_t = sum (s_i - a_i) >= 0 and
    z_T = 0. With s_1 the distance of two starts it is Theorem 1 with the square that is missing
    there. Equality for identity maps wherever z_t >= 0 does not bind.

    Parameters
    ----------
    mechanism, shifts, allocations
        As for ``at22.proposition_2_17``.
    """
    return original_amplification(mechanism, shifts, allocations)


def theorem_23(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """One pass over the records (Theorem 23): alpha S^2/(2 sigma^2 (n + 1 - t)) for record t.

    Parameters
    ----------
    mechanism
        The public parameters.
    index
        t, from 1; by default n, the record that is protected least.
    """
    left = mechanism.dataset_size + 1 - checked_index(mechanism, index)
    return RenyiCurve.linear(one_step(mechanism) ** 2 / (2 * left))


def theorem_24(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """Skip-PNSGD (Theorem 24): as Theorem 23, with the first records left out at random."""
    return theorem_23(mechanism, index=index)


def theorem_35(mechanism: NoisySGD) -> PrivacyCurve:
    """N passes over n records in fixed order (Theorem 35): alpha S^2/sigma^2, 4 alpha L^2/sigma^2.

    ``at22.eq_5_4`` has any number of passes, any batch size, and the sum before it is rounded up.
    """
    return RenyiCurve.linear(one_step(mechanism) ** 2)


def appendix_b_noise(lipschitz: float, *, epsilon: float, delta: float) -> float:
    """Return sigma = 5 L sqrt(ln(1/delta))/epsilon, for (epsilon, delta)-DP of Theorem 35's runs.

    Appendix B converts Theorem 35 at the order 2 ln(1/delta)/epsilon, which must be at least 5.
    """
    validate.positive(lipschitz=lipschitz, epsilon=epsilon)
    validate.open_unit(delta=delta)
    order = -2 * math.log(delta) / epsilon
    if order < 5:
        raise ValueError(f"epsilon must be at most 2 ln(1/delta)/5, got {epsilon!r}")
    return 5 * lipschitz * math.sqrt(-math.log(delta)) / epsilon


N_PASSES = Assumption(
    "n passes over the n records, one at a time in fixed order",
    lambda m: FIXED_ORDER.holds(m) and m.batch_size == 1 and m.steps == m.dataset_size**2,
    lambda m: f"steps={m.steps}, dataset_size={m.dataset_size} and batch_size={m.batch_size}",
)

ENTRIES = (
    Entry(
        id="fmtt18.theorem_1",
        cite=cite("Theorem 1 (informal)"),
        statement=(
            "one record a step, the first record, Renyi: D_alpha <= alpha d/(2 T step_std^2) for "
            "starts at distance d"
        ),
        assumptions=(*ONE_RECORD_A_STEP, LAST_ITERATE),
        status=Status.REFUTED,
        function=theorem_1,
    ),
    Entry(
        id="fmtt18.theorem_22",
        cite=cite("Theorem 22"),
        statement=(
            "contractive noisy iterations, Renyi: D_alpha <= (alpha/2) sum a_t^2/(eta_t sigma)^2 "
            "for any a_t with z_t = sum (s_i - a_i) >= 0 and z_T = 0"
        ),
        assumptions=(FIXED_SIZE, *CONTRACTIVE, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=theorem_22,
    ),
    Entry(
        id="fmtt18.theorem_23",
        cite=cite("Theorem 23"),
        statement=(
            "one pass, one record a step, convex losses, Renyi: D_alpha <= "
            "2 alpha L^2/(sigma^2 (n + 1 - t)) for record t"
        ),
        assumptions=(*ONE_RECORD_A_STEP, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=theorem_23,
    ),
    Entry(
        id="fmtt18.theorem_24",
        cite=cite("Theorem 24"),
        statement=(
            "one pass that leaves out a random number of the first records, convex losses, Renyi: "
            "D_alpha <= 2 alpha L^2/(sigma^2 (n + 1 - t)) for record t"
        ),
        assumptions=(*ONE_RECORD_A_STEP, RANDOM_SKIP),
        status=Status.AS_PRINTED,
        function=theorem_24,
    ),
    Entry(
        id="fmtt18.theorem_35",
        cite=cite("Theorem 35 (Appendix B)"),
        statement=(
            "n passes over n records in fixed order, convex losses, Renyi: "
            "D_alpha <= 4 alpha L^2/sigma^2"
        ),
        assumptions=(N_PASSES, *CONTRACTIVE, CONSTANT_STEP_SIZE, LAST_ITERATE),
        status=Status.AS_PRINTED,
        function=theorem_35,
    ),
)

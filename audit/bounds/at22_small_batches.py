"""Altschuler and Talwar (2022), Appendices B.2 and B.3 and section 5.3 (paper 000).

Bounds for batches drawn without replacement that spend a part of the noise on sampling and the rest
on iteration. As printed they use one order of S_alpha only and are refuted; with both orders they
are unproven. See `at22_sampled` for S_alpha.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from audit.bounds.assumptions import (
    BOUNDED_DOMAIN,
    CONSTANT_STEP_SIZE,
    CONTRACTING_STEPS,
    STRONGLY_CONVEX,
    WITHOUT_REPLACEMENT,
    constant_step_size,
)
from audit.bounds.at22 import CONVEX_ITERATION, cite
from audit.bounds.at22_sampled import LARGER, PRINTED, SplitNoise, renyi_curve
from audit.bounds.registry import Entry, Status
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import NoisySGD, Order

Array = NDArray[np.float64]


def _around(best: Array, most: int) -> Array:
    """Return the whole numbers in 1..most on either side of each number, one row for each."""
    inside = np.clip(best, 1.0, float(most))
    return np.stack([np.floor(inside), np.ceil(inside)], axis=1)


def _convex_length(step: Array, weight: Array, most: int, square: float) -> Array:
    """Return the best lengths R where R costs R step + weight square/R."""
    with np.errstate(divide="ignore", over="ignore"):
        return _around(np.sqrt(weight * square / step), most)


def _convex(
    mechanism: NoisySGD, order: Order, split: float | None, length: int | None
) -> RenyiCurve:
    assert mechanism.diameter is not None  # an assumption of the entries
    square = (mechanism.diameter / mechanism.constant_step_size) ** 2

    best_length = functools.partial(_convex_length, square=square)
    return renyi_curve(
        SplitNoise(mechanism, order, best_length, lambda r: square / r, split=split, length=length)
    )


def _strongly_convex(
    mechanism: NoisySGD, order: Order, split: float | None, length: int | None
) -> RenyiCurve:
    assert mechanism.diameter is not None  # an assumption of the entries
    c = mechanism.contraction
    rate = -2 * math.log(c) if c > 0 else math.inf
    square = (mechanism.diameter / mechanism.constant_step_size) ** 2 * (1 - c) * (1 + c)

    def cost(lengths: Array) -> Array:
        if math.isinf(rate):
            return np.zeros_like(lengths)
        return np.asarray(square / np.expm1(np.minimum(rate * lengths, 700.0)))

    def best_length(step: Array, weight: Array, most: int) -> Array:
        if math.isinf(rate):
            return np.ones((1, 1))
        # the root of y/(y - 1)^2 = Q/(K rate), y = e^(rate R)
        with np.errstate(divide="ignore", over="ignore"):
            root = np.sqrt(weight * square * rate / step)
        return _around(2 * np.arcsinh(root / 2) / rate, most)

    return renyi_curve(SplitNoise(mechanism, order, best_length, cost, split=split, length=length))


def b_2(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Small batches, convex losses, as printed (Appendix B.2, equation (B.2)).

    min{T S(b/n, b sigma/(2L)), min (T~ + 1) Q + alpha D^2/(2 eta^2 sigma_1^2 T~)} with
    Q = S(b/n, b sigma_2/(2L)) and sigma_1^2 + sigma_2^2 = sigma^2, S in Definition 2.10's order.

    Parameters
    ----------
    mechanism
        The public parameters.
    split
        sigma_1^2/sigma^2 in (0, 1); by default the best.
    length
        T~, 1 to T - 1; by default the best. With a split or a length chosen by hand only the second
        branch is given.
    """
    return _convex(mechanism, PRINTED, split, length)


def b_2_both_orders(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (B.2) with the larger order of S_alpha; options as in `b_2`.

    The first branch holds (`sampled_gaussian`). The second is unproven: conditioning on the shifted
    noise changes the law of the batch, so the two processes do not share their maps.
    """
    return _convex(mechanism, LARGER, split, length)


def b_3(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Small batches, strongly convex losses, as printed (Appendix B.3, equation (B.3)).

    As `b_2` with alpha D^2 (1 - c^2)/(2 eta^2 sigma_1^2 (c^(-2 T~) - 1)), c the contraction of a
    step, (kappa - 1)/(kappa + 1) at the paper's step size 2/(M + m). The best T~ follows from
    1 - c^2 where the paper's formula for it prints (1 - c)^2.
    """
    return _strongly_convex(mechanism, PRINTED, split, length)


def b_3_both_orders(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (B.3) with the larger order of S_alpha; unproven as `b_2_both_orders` is."""
    return _strongly_convex(mechanism, LARGER, split, length)


def _lengths(most: int) -> Array:
    """Return the lengths that are tried where none is known to be best: all, then ever wider."""
    if most <= 2000:
        return np.arange(1.0, most + 1)
    return np.unique(np.round(np.geomspace(1, most, 2000)))


def _schedule(
    mechanism: NoisySGD, proper: bool, split: float | None, length: int | None
) -> RenyiCurve:
    assert mechanism.diameter is not None  # an assumption of the entries
    most = mechanism.steps - 1
    square, tried = mechanism.diameter**2, _lengths(most)[None, :] if most else np.ones((1, 1))
    best_length: Callable[[Array, Array, int], Array]
    if constant_step_size(mechanism):
        scaled = square / mechanism.constant_step_size**2
        best_length = functools.partial(_convex_length, square=scaled)

        def cost(r: Array) -> Array:
            return scaled / r
    else:
        etas = mechanism.step_sizes[:0:-1]  # the last T - 1, backwards
        sums, squares = np.cumsum(etas), np.cumsum(etas**2)

        def best_length(step: Array, weight: Array, most: int) -> Array:
            return tried

        def cost(r: Array) -> Array:
            k = r.astype(np.int64) - 1
            return np.asarray(square / squares[k] if proper else square * r / sums[k] ** 2)

    return renyi_curve(
        SplitNoise(
            mechanism,
            LARGER,
            best_length,
            cost,
            composed=False,
            split=split,
            length=length,
        )
    )


def eq_5_7(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Step-size schedules (equation (5.7)), with the larger order of S_alpha.

    (R + 1) Q + R alpha D^2/(2 sigma_1^2 (sum of eta_t)^2) over the R = T - tau - 1 last steps, by
    the paper's "proper choice" of a_t proportional to eta_t. Unproven as `b_2_both_orders` is.
    Options as in `b_2`, ``length`` being R.
    """
    return _schedule(mechanism, False, split, length)


def eq_5_7_corrected(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (5.7) with the best a_t, proportional to eta_t^2.

    Its second term is alpha D^2/(2 sigma_1^2 sum of eta_t^2). By the inequality of Cauchy and
    Schwarz it is never above `eq_5_7`, and unproven like it.
    """
    return _schedule(mechanism, True, split, length)


_SMALL_BATCHES = (WITHOUT_REPLACEMENT, *CONVEX_ITERATION, BOUNDED_DOMAIN)
_B_2 = (
    "batches without replacement, convex losses on a bounded domain, Renyi: D_alpha <= min{T S, "
    "min over splits and T~ of (T~ + 1) Q + alpha D^2/(2 eta^2 sigma_1^2 T~)}"
)
_B_3 = (
    "batches without replacement, strongly convex losses on a bounded domain, Renyi: D_alpha <= "
    "min{T S, min over splits and T~ of (T~ + 1) Q + alpha D^2 (1 - c^2)/(2 eta^2 sigma_1^2 "
    "(c^(-2 T~) - 1))}"
)
_STRONG = (*_SMALL_BATCHES, CONSTANT_STEP_SIZE, STRONGLY_CONVEX, CONTRACTING_STEPS)

ENTRIES = (
    Entry(
        id="at22.b_2",
        cite=cite("Appendix B.2, equation (B.2)"),
        statement=f"{_B_2}, S = D(N || mixture)",
        assumptions=(*_SMALL_BATCHES, CONSTANT_STEP_SIZE),
        status=Status.REFUTED,
        function=b_2,
    ),
    Entry(
        id="at22.b_2_both_orders",
        cite=cite("Appendix B.2, equation (B.2), in both orders"),
        statement=f"{_B_2}, S the larger of both orders",
        assumptions=(*_SMALL_BATCHES, CONSTANT_STEP_SIZE),
        status=Status.UNPROVEN,
        function=b_2_both_orders,
    ),
    Entry(
        id="at22.b_3",
        cite=cite("Appendix B.3, equation (B.3)"),
        statement=f"{_B_3}, S = D(N || mixture)",
        assumptions=_STRONG,
        status=Status.REFUTED,
        function=b_3,
    ),
    Entry(
        id="at22.b_3_both_orders",
        cite=cite("Appendix B.3, equation (B.3), in both orders"),
        statement=f"{_B_3}, S the larger of both orders",
        assumptions=_STRONG,
        status=Status.UNPROVEN,
        function=b_3_both_orders,
    ),
    Entry(
        id="at22.eq_5_7",
        cite=cite("section 5.3, equation (5.7)"),
        statement=(
            "batches without replacement, step-size schedules, convex losses on a bounded domain, "
            "Renyi: D_alpha <= min over splits and tau of (T - tau) Q + (T - tau - 1) alpha D^2/"
            "(2 sigma_1^2 (sum over t > tau of eta_t)^2)"
        ),
        assumptions=_SMALL_BATCHES,
        status=Status.UNPROVEN,
        function=eq_5_7,
    ),
    Entry(
        id="at22.eq_5_7_corrected",
        cite=cite("section 5.3, equation (5.7), with a_t proportional to eta_t^2"),
        statement=(
            "batches without replacement, step-size schedules, convex losses on a bounded domain, "
            "Renyi: D_alpha <= min over splits and tau of (T - tau) Q + alpha D^2/"
            "(2 sigma_1^2 sum over t > tau of eta_t^2)"
        ),
        assumptions=_SMALL_BATCHES,
        status=Status.UNPROVEN,
        function=eq_5_7_corrected,
    ),
)

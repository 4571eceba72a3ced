"""Altschuler and Talwar (2022), "Privacy of Noisy Stochastic Gradient Descent".

The paper's update is the package's: ``noise_std`` is its sigma. Its 2L is the sensitivity of the
differing record, `NoisySGD.sensitivity`, which is L for zero-out neighbours (Remark B.2).

For batches drawn without replacement, S_alpha(q, sigma) of Definition 2.10 is D(N(0, sigma^2) ||
mixture) as printed. A mechanism needs both orders, and the other one, D(mixture || N(0, sigma^2)),
is never smaller (Mironov, Talwar and Zhang 2019, Theorem 5). The entries that print Definition
2.10's order are refuted by one step; those named ``both_orders`` take the larger one. The differing
record takes the place of another one in its batch, so 2L bounds the distance of any two records'
gradients, in both relations. The bounds of Appendices B.2 and B.3 and of section 5.3 spend a part
of the noise on sampling and the rest on iteration. As printed they use one order of S_alpha only
and are refuted; with both orders they are unproven.

A rate without constants is plotted with the constant 1. It is not a bound and is never judged.
Theorem 3.1 with constants follows from the form of Theorem 4.10 of Bok, Su and Altschuler (2024)
for sigma >= 16 sqrt(2) L/b; the printed range starts at half of that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from audit import validate
from audit.bounds.accounting.iteration import cycle_cost, diameter_amplification, record_place
from audit.bounds.accounting.update import family_sensitivity
from audit.bounds.assumptions import ROUNDING, Assumption, constant_step_size, fields, known
from audit.bounds.statements import bound
from audit.curves import Order
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import CostlyRenyiCurve, RenyiCurve
from audit.curves.tails import TailCurve
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import NoisySGD
from audit.numerics.arrays import Array

# ----------------------------------------------------------------------------------- fixed batches


@bound("at22.b_1")
def b_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Full batches, convex losses on a bounded domain (Appendix B.1, equation (B.1)).

    The proof uses L only through the sensitivity S, so that losses with a shared regulariser are
    covered. (D~ + s T~)^2/T~, D~ = D + s, falls until T~ = D~/s and rises after it. The first
    branch is composition, needs none of the assumptions, and is ``bsa24.theorem_4_1``.
    """
    steps, eta = mechanism.steps, mechanism.constant_step_size
    shift = eta * mechanism.sensitivity / mechanism.dataset_size
    diameter = known(mechanism.diameter) + shift
    turning_point = min(diameter / shift, float(steps))
    candidates = {max(math.floor(turning_point), 1), min(math.ceil(turning_point), steps)}
    squares = [steps * shift**2]
    squares += [(diameter + shift * length) ** 2 / length for length in candidates]
    return RenyiCurve.linear(min(squares) / (2 * mechanism.step_std**2))


@bound("at22.eq_5_4")
def eq_5_4(mechanism: NoisySGD, *, index: int | None = None) -> PrivacyCurve:
    """Batches in fixed order, any number of steps (equation (5.4), with its constant).

    The proof of Theorem 35 of Feldman et al. (2018) with a_t spread evenly from visit to visit.

    index: Record, counted from 1. Default: the worst, in the batch of the last step.
    """
    record_place(mechanism, index)  # the range of the index
    return RenyiCurve.linear(cycle_cost(mechanism, index) / 2)


@bound("at22.theorem_5_6")
def theorem_5_6(
    mechanism: NoisySGD, *, index: int | None = None, length: int | None = None
) -> PrivacyCurve:
    """Cyclic batches on a bounded domain (Theorem 5.6, the sum before (5.6) is simplified).

    The smallest over T~ = k l <= T, or the bound of (5.4) if that is smaller. The best k is next to
    (D + s)/s, s = eta S/b.

    index: Record, counted from 1. Default: the worst, in the last batch.
    length: Length T~, a multiple of n/b. Default: the best.
    """
    rest, period = record_place(mechanism, index)
    shift = mechanism.constant_step_size * mechanism.sensitivity / mechanism.batch_size
    diameter = known(mechanism.diameter) + shift
    most = mechanism.steps // period
    if length is None:
        best = min(max(diameter / shift, 1.0), float(most))
        cycles = {math.floor(best), math.ceil(best)}
    else:
        validate.integer(1, length=length)
        if length % period or length > mechanism.steps:
            raise ValueError(
                f"length must be a multiple of n/b ({period}) up to steps ({mechanism.steps}), "
                f"got {length!r}"
            )
        cycles = {length // period}
    costs = [
        diameter**2 / (k * period)
        + 2 * diameter * shift / period
        + (k - 1) * shift**2 / period
        + shift**2 / rest
        for k in cycles
    ]
    if length is None:
        costs.append((mechanism.epochs - 1) * shift**2 / period + shift**2 / rest)
    return RenyiCurve.linear(min(costs) / (2 * mechanism.step_std**2))


@bound("at22.conversion")
def conversion(mechanism: NoisySGD) -> PrivacyCurve:
    """Lemma 2.5 at the best order; never below ``at22.b_1``, which converts the same tightly."""
    rho = float(b_1(mechanism).renyi(2.0)) / 2
    if rho == 0:
        return TailCurve.gaussian(0.0, rho=0.0)

    def epsilon_at(delta: Array) -> Array:
        return np.asarray(rho + 2 * np.sqrt(-rho * np.log(delta)))

    def delta_at(epsilon: Array) -> Array:
        over = np.minimum(np.maximum(epsilon - rho, 0.0) / (2 * math.sqrt(rho)), 1e100)
        return np.asarray(np.exp(-np.square(over)))

    return TailCurve(epsilon_at, delta_at, rho=rho)


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


# --------------------------------------------------------------------------------- sampled batches


PRINTED = Order.REVERSE  # D(base || mixture), Definition 2.10
LARGER = Order.FORWARD  # D(mixture || base), never smaller

_FINE_POINTS = 5  # interpolated points between two ratios at which S_alpha is computed
_ROUNDS = ((1.0, 17), (0.3, 7), (0.06, 7), (0.015, 5))  # distance and number of the ratios
ORDERS = (1e-4, 1e4)  # range of alpha - 1 in which conversions look for the best order


def relative_noise(mechanism: NoisySGD) -> float:
    """Return b sigma/(2L), the noise of a batch's gradient for sensitivity 1."""
    return mechanism.batch_size * mechanism.noise_std / family_sensitivity(mechanism)


BALL = Assumption(
    "gradients bounded by L, and no bound below 2L on their differences",
    lambda m: (
        m.gradient_bound is not None
        and 2 * m.gradient_bound <= family_sensitivity(m) * (1 + ROUNDING)
    ),
    fields("lipschitz", "gradient_sensitivity"),
)


def renyi_curve(divergence: Callable[[Array], Array]) -> RenyiCurve:
    """Return the curve of divergences that cost one integral per order."""
    return CostlyRenyiCurve(divergence, search=ORDERS, points=61, refinements=4)


@bound("at22.sampled_gaussian", ball=BALL)
def sampled_gaussian(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition of sampled Gaussians, the first branch of (B.2): no convexity, no smoothness.

    Given the other records of the batch, one step is a pair of mixtures (1 - q) N(0) + q N(z) and
    (1 - q) N(0) + q N(z') with z, z' and z - z' differences of gradients of length at most L, over
    b sigma; most distinguishable for z' = 0. If only differences of gradients are bounded, by S,
    three gradients on a triangle of sides S are easier to distinguish (at q = 1/20 and S/(b sigma)
    = 1, order 2: .004592 against .004287), so the entry requires L.
    """
    rate, sigma, steps = mechanism.sampling_rate, relative_noise(mechanism), mechanism.steps

    def divergence(alpha: Array) -> Array:
        return steps * np.asarray(sampled_gaussian_renyi(alpha, rate, sigma, LARGER))

    return renyi_curve(divergence)


@functools.lru_cache(maxsize=1024)  # evaluated by the assumption and by the bound
def largest_order(rate: float, sigma: float) -> float:
    """Return alpha*(q, sigma), the largest order that Lemma 2.12 covers; 1 if there is none.

    The largest alpha with alpha <= M sigma^2/2 - log sigma^2 and
    alpha <= (M^2 sigma^2/2 - log(5 sigma^2))/(M + log(q alpha) + 1/(2 sigma^2)), where
    M = log(1 + 1/(q (alpha - 1))).
    """
    validate.open_unit(rate=rate)
    validate.positive(sigma=sigma)
    square = sigma**2

    def covered(gap: Array) -> NDArray[np.bool_]:
        alpha, m = 1 + gap, np.log1p(1 / (rate * gap))
        first = alpha <= m * square / 2 - math.log(square)
        # M + log(q alpha) = log(q alpha + alpha/(alpha - 1)) is positive
        below = np.log(rate * alpha + alpha / gap) + 1 / (2 * square)
        return np.asarray(first & (alpha * below <= m**2 * square / 2 - math.log(5 * square)))

    grid = np.geomspace(1e-9, 1e12, 2101)
    inside = np.flatnonzero(covered(grid))
    if inside.size == 0:
        return 1.0
    low = float(grid[inside[-1]])
    high = float(grid[min(inside[-1] + 1, grid.size - 1)])
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if covered(np.array([middle]))[0] else (low, middle)
    return 1 + low


def _largest_order_of(m: NoisySGD) -> float:
    return largest_order(m.sampling_rate, relative_noise(m))


LEMMA_RANGE = Assumption(
    "b/n < 1/5 and b sigma/(2L) >= 4, with an order above 1 covered",
    lambda m: m.sampling_rate < 0.2 and relative_noise(m) >= 4 and _largest_order_of(m) > 1,
    lambda m: f"b/n={m.sampling_rate:g} and b sigma/(2L)={relative_noise(m):g}",
)


@bound("at22.lemma_2_12", lemma_range=LEMMA_RANGE)
def lemma_2_12(mechanism: NoisySGD) -> PrivacyCurve:
    """Composition by the bound S_alpha(q, sigma) <= 2 alpha q^2/sigma^2 (Lemma 2.12)."""
    rho = 2 * (mechanism.sampling_rate / relative_noise(mechanism)) ** 2 * mechanism.steps
    return RenyiCurve(
        functools.partial(np.multiply, rho), highest=_largest_order_of(mechanism), points=301
    )


@dataclass(frozen=True)
class SplitNoise:
    """Bounds of (B.2), (B.3) and (5.7), which split the noise between sampling and iteration.

    (R + 1) S_alpha(q, sigma_2) + alpha K(R)/(2 sigma_1^2), smallest over splits
    sigma_1^2 + sigma_2^2 = sigma^2 and lengths R in 1..T - 1, K the cost of forgetting a distance D
    within R steps. Any split and length is valid, so the search needs no certificate.

    mechanism: Public parameters of the run.
    order: Order of S_alpha.
    best_length: Maps S_alpha and alpha/(2 sigma_1^2), one per order, and T - 1 to candidate
        lengths: one row per order, or one for all.
    cost: Returns K at an array of lengths.
    composed: Whether T S_alpha(q, sigma) is a branch.
    split: Given ratio sigma_1^2/sigma^2.
    length: Given length R.
    """

    mechanism: NoisySGD
    order: Order
    best_length: Callable[[Array, Array, int], Array]
    cost: Callable[[Array], Array]
    composed: bool
    split: float | None
    length: int | None

    def __post_init__(self) -> None:
        most = self.mechanism.steps - 1
        if self.split is not None:
            validate.open_unit(split=self.split)
        if self.length is not None:
            validate.integer(1, length=self.length)
            if self.length > most:
                raise ValueError(f"length must be at most steps - 1 ({most}), got {self.length!r}")

    def __call__(self, alpha: Array) -> Array:
        """Return the bound at each order."""
        best = np.full(alpha.shape, np.inf)
        if self.composed and self.split is None and self.length is None:
            best = self.mechanism.steps * self._step(alpha, np.ones_like(alpha))
        if self.mechanism.steps == 1:
            return best
        if self.split is not None:
            return self._split_at(alpha, np.full(alpha.shape, 1 - self.split))
        return np.asarray(np.minimum(best, self._best_split(alpha)))

    def _best_split(self, alpha: Array) -> Array:
        """Return the bound at a good split for each order.

        The log of the parts' ratio is searched: first all of it, for lengths are whole numbers and
        make several valleys, then twice around the best. S_alpha is interpolated between computed
        ratios, to find where to look; only bounds where it was computed count.
        """
        centre, best = np.zeros_like(alpha), np.full(alpha.shape, np.inf)
        for spacing, count in _ROUNDS:
            logs = centre[:, None] + spacing * (np.arange(count) - (count - 1) / 2)
            steps = self._step(np.broadcast_to(alpha[:, None], logs.shape), expit(logs))
            best = np.minimum(best, self._bounds(alpha, expit(logs), steps).min(axis=1))
            places, weights = _cubic(count)
            with np.errstate(divide="ignore"):
                known = np.clip(np.log(steps), -700, 700)
            # S_alpha falls as its share of the noise grows: no more and no less in each cell
            left, right = np.floor(places).astype(np.intp), np.ceil(places).astype(np.intp)
            between = np.exp(np.clip(known @ weights.T, known[:, right], known[:, left]))
            fine = logs[:, :1] + spacing * places
            promised = self._bounds(alpha, expit(fine), between)
            centre = _lowest_place(promised) * (spacing / _FINE_POINTS) + logs[:, 0]
        return np.asarray(np.minimum(best, self._split_at(alpha, expit(centre))))

    def _step(self, alpha: Array, share: Array) -> Array:
        m = self.mechanism
        noise = relative_noise(m) * np.sqrt(share)
        return np.asarray(sampled_gaussian_renyi(alpha, m.sampling_rate, noise, self.order))

    def _split_at(self, alpha: Array, share: Array) -> Array:
        """Return the bound where sampling gets ``share`` of the variance, for each order."""
        return self._bound(alpha, share, self._step(alpha, share))

    def _bounds(self, alpha: Array, shares: Array, steps: Array) -> Array:
        """Return the bound at many splits for each order, shape (orders, splits)."""
        # if step sizes change, thousands of lengths are tried for each split
        at_once = shares.shape[1] if constant_step_size(self.mechanism) else 1
        parts = [
            self._bound(alpha[:, None], shares[:, k : k + at_once], steps[:, k : k + at_once])
            for k in range(0, shares.shape[1], at_once)
        ]
        return np.concatenate(parts, axis=1)

    def _bound(self, alpha: Array, share: Array, step: Array) -> Array:
        m = self.mechanism
        weight = alpha / (2 * (1 - share)) / m.noise_std / m.noise_std
        if self.length is not None:
            lengths = np.array([float(self.length)])
        else:
            lengths = self.best_length(step, weight, m.steps - 1)
        with np.errstate(over="ignore"):
            bounds = (lengths + 1) * step[..., None] + weight[..., None] * self.cost(lengths)
        return np.asarray(bounds.min(axis=-1))


def _cubic(count: int) -> tuple[Array, Array]:
    """Return points that divide the cells between 0, ..., count - 1, and interpolation weights.

    The weights, shape ``(places, count)``, are those of the cubics through the four nearest nodes.
    """
    places = np.arange((count - 1) * _FINE_POINTS + 1) / _FINE_POINTS
    first = np.clip(np.floor(places) - 1, 0, count - 4).astype(np.intp)
    t = places - first
    near = (
        -(t - 1) * (t - 2) * (t - 3) / 6,
        t * (t - 2) * (t - 3) / 2,
        -t * (t - 1) * (t - 3) / 2,
        t * (t - 1) * (t - 2) / 6,
    )
    weights = np.zeros((places.size, count))
    for k, column in enumerate(near):
        weights[np.arange(places.size), first + k] = column
    return places, weights


def _lowest_place(values: Array) -> Array:
    """Return the index of the least value of each row, or the vertex of the parabola through it."""
    rows, last = np.arange(values.shape[0]), values.shape[1] - 1
    place = np.argmin(values, axis=1)
    before, here, after = (values[rows, np.clip(place + k, 0, last)] for k in (-1, 0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        move = 0.5 * (before - after) / (before - 2 * here + after)
    inside = (place > 0) & (place < last) & np.isfinite(move)
    return np.asarray(place + np.where(inside, move, 0.0))


def _around(best: Array, most: int) -> Array:
    """Return the integers in 1..most on either side of each number, along a last axis."""
    inside = np.clip(best, 1.0, float(most))
    return np.stack([np.floor(inside), np.ceil(inside)], axis=-1)


def _convex_length(step: Array, weight: Array, most: int, square: float) -> Array:
    """Return the best lengths R if R costs R step + weight square/R."""
    with np.errstate(divide="ignore", over="ignore"):
        return _around(np.sqrt(weight * square / step), most)


def _convex(m: NoisySGD, order: Order, split: float | None, length: int | None) -> RenyiCurve:
    square = (known(m.diameter) / m.constant_step_size) ** 2
    best = functools.partial(_convex_length, square=square)
    return renyi_curve(SplitNoise(m, order, best, lambda r: square / r, True, split, length))


def _strongly_convex(
    m: NoisySGD, order: Order, split: float | None, length: int | None
) -> RenyiCurve:
    c = m.contraction
    rate = -2 * math.log(c) if c > 0 else math.inf
    square = (known(m.diameter) / m.constant_step_size) ** 2 * (1 - c) * (1 + c)

    def cost(lengths: Array) -> Array:
        if c == 0:
            return np.zeros_like(lengths)
        return np.asarray(square / np.expm1(np.minimum(rate * lengths, 700.0)))

    def best(step: Array, weight: Array, most: int) -> Array:
        if c == 0:
            return np.ones(1)
        # the root of y/(y - 1)^2 = Q/(K rate), y = e^(rate R)
        with np.errstate(divide="ignore", over="ignore"):
            root = np.sqrt(weight * square * rate / step)
        return _around(2 * np.arcsinh(root / 2) / rate, most)

    return renyi_curve(SplitNoise(m, order, best, cost, True, split, length))


@bound("at22.b_2")
def b_2(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Small batches, convex losses, as printed (Appendix B.2, equation (B.2)).

    split: Ratio sigma_1^2/sigma^2, in (0, 1). Default: the best.
    length: Length T~, 1 to T - 1. Default: the best. If a split or a length is given, only the
        second branch is returned.
    """
    return _convex(mechanism, PRINTED, split, length)


@bound("at22.b_2_both_orders")
def b_2_both_orders(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (B.2) with the larger order of S_alpha; options as in `b_2`.

    The second branch is unproven: conditioning on the shifted noise changes the law of the batch,
    so the two processes do not share their maps.
    """
    return _convex(mechanism, LARGER, split, length)


@bound("at22.b_3")
def b_3(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Small batches, strongly convex losses, as printed (Appendix B.3, equation (B.3)).

    c is (kappa - 1)/(kappa + 1) at the paper's step size 2/(M + m). The best T~ follows from 1 -
    c^2 where the paper's formula for it prints (1 - c)^2. Options as in `b_2`.
    """
    return _strongly_convex(mechanism, PRINTED, split, length)


@bound("at22.b_3_both_orders")
def b_3_both_orders(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (B.3) with the larger order of S_alpha; unproven as `b_2_both_orders` is."""
    return _strongly_convex(mechanism, LARGER, split, length)


def _schedule(m: NoisySGD, proper: bool, split: float | None, length: int | None) -> RenyiCurve:
    square = known(m.diameter) ** 2
    if constant_step_size(m):
        scaled = square / m.constant_step_size**2
        best = functools.partial(_convex_length, square=scaled)
        return renyi_curve(SplitNoise(m, LARGER, best, lambda r: scaled / r, False, split, length))
    # without a known optimum: all small lengths, then ever sparser ones
    most = max(m.steps - 1, 1)
    sparse = np.round(np.geomspace(1, most, 2000))
    tried = (np.arange(1.0, most + 1) if most <= 2000 else np.unique(sparse))[None, :]
    etas = m.step_sizes[:0:-1]  # the last T - 1, backwards
    sums, squares = np.cumsum(etas), np.cumsum(etas**2)

    def cost(r: Array) -> Array:
        k = r.astype(np.int64) - 1
        return np.asarray(square / squares[k] if proper else square * r / sums[k] ** 2)

    return renyi_curve(SplitNoise(m, LARGER, lambda *_: tried, cost, False, split, length))


@bound("at22.eq_5_7")
def eq_5_7(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Step-size schedules (equation (5.7)), with the larger order of S_alpha and a_t as eta_t.

    Unproven as `b_2_both_orders` is. Options as in `b_2`, ``length`` being R = T - tau - 1.
    """
    return _schedule(mechanism, False, split, length)


@bound("at22.eq_5_7_corrected")
def eq_5_7_corrected(
    mechanism: NoisySGD, *, split: float | None = None, length: int | None = None
) -> PrivacyCurve:
    """Equation (5.7) with the best a_t, proportional to eta_t^2; unproven like it."""
    return _schedule(mechanism, True, split, length)


# ------------------------------------------------------------------------------------------- rates


_TWICE_EIGHT = 8 * math.sqrt(2)
LARGE_NOISE = Assumption(
    "sigma > 8 sqrt(2) L/b",
    lambda m: m.lipschitz is not None and m.noise_std > _TWICE_EIGHT * m.lipschitz / m.batch_size,
    lambda m: f"noise_std={m.noise_std!r} with lipschitz={m.lipschitz} and b={m.batch_size}",
)
BALANCED_STEP_SIZE = Assumption(
    "eta = 2/(M + m)",
    lambda m: (
        m.smoothness is not None
        and math.isclose(
            m.constant_step_size * (m.smoothness + m.strong_convexity), 2, rel_tol=1e-9
        )
    ),
    fields("step_size", "smoothness"),
)


def _crossing(mechanism: NoisySGD, step_size: float) -> float:
    """Return T-bar = ceil(D n/(L eta))."""
    reached = known(mechanism.diameter) / known(mechanism.lipschitz)
    ratio = reached * mechanism.dataset_size / step_size
    return float(math.ceil(ratio)) if ratio < 1e15 else ratio


def _rate(mechanism: NoisySGD, steps: float, highest: float = math.inf) -> RenyiCurve:
    """Return alpha L^2/(n^2 sigma^2) steps."""
    ratio = known(mechanism.lipschitz) / mechanism.dataset_size / mechanism.noise_std
    line = RenyiCurve.linear(ratio * ratio * steps)
    return line if math.isinf(highest) else RenyiCurve(line.divergence, highest=highest)


def _highest(mechanism: NoisySGD) -> float:
    """Return alpha*(b/n, b sigma/(2 sqrt(2) L)); b/n >= 1/5 needs no range (footnote 8)."""
    if mechanism.sampling_rate >= 0.2:
        return math.inf
    m = mechanism
    noise = m.batch_size * m.noise_std / (2 * math.sqrt(2) * known(m.lipschitz))
    return max(largest_order(m.sampling_rate, noise), 1 + 1e-9)


@bound("at22.theorem_3_1", large_noise=LARGE_NOISE)
def theorem_3_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate for small batches (Theorem 3.1)."""
    crossing = _crossing(mechanism, mechanism.constant_step_size)
    return _rate(mechanism, min(mechanism.steps, crossing), _highest(mechanism))


@bound("at22.theorem_5_1", balanced_step_size=BALANCED_STEP_SIZE, large_noise=LARGE_NOISE)
def theorem_5_1(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate for strongly convex losses, with T-bar of its proof, at least 1 (Theorem 5.1).

    T-bar = kappa log(alpha D^2/(eta^2 sigma_1^2 Q kappa)) with sigma_1^2 = sigma^2/2 and Q = 16
    alpha L^2/(n^2 sigma^2).
    """
    kappa = known(mechanism.smoothness) / mechanism.strong_convexity
    crossing = known(mechanism.diameter) / mechanism.constant_step_size / known(mechanism.lipschitz)
    inside = (crossing * mechanism.dataset_size) ** 2 / (8 * kappa)
    length = max(kappa * math.log(inside), 1.0) if inside > 1 else 1.0
    return _rate(mechanism, min(mechanism.steps, length), _highest(mechanism))


@bound("at22.eq_5_5")
def eq_5_5(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate for cyclic batches (equation (5.5))."""
    crossing = _crossing(mechanism, mechanism.constant_step_size)
    cycles = (mechanism.dataset_size / mechanism.batch_size) ** 2
    return _rate(mechanism, cycles + min(mechanism.steps, crossing))


@bound("at22.eq_1_3")
def eq_1_3(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate in DP (Remark 1.4), stated for epsilon up to about 1; there is no Renyi part."""
    steps = min(mechanism.steps, _crossing(mechanism, mechanism.constant_step_size))
    ratio = known(mechanism.lipschitz) / mechanism.dataset_size / mechanism.noise_std
    return TailCurve.gaussian(ratio * math.sqrt(steps))


@bound("at22.example_5_8")
def example_5_8(mechanism: NoisySGD) -> PrivacyCurve:
    """Rate for eta_t = eta t^-c (Example 5.8): that of Theorem 3.1 at the last step size."""
    crossing = _crossing(mechanism, float(mechanism.step_sizes[-1]))
    return _rate(mechanism, min(mechanism.steps, crossing))

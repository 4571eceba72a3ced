"""Chien and Li (2025), Theorem 3.12 and Appendix A.2: batches smaller than the data.

See `audit.bounds.cl25_tracking` for the paper's K, L and sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit import validate
from audit.bounds.assumptions import (
    CONSTANT_STEP_SIZE,
    LAST_ITERATE,
    SMOOTH,
    WITHOUT_REPLACEMENT,
    Assumption,
)
from audit.bounds.cl25_tracking import (
    GRADIENT_BOUND,
    HOLDER,
    SMOOTH_OR_HOLDER,
    Growth,
    Losses,
    cite,
    clip_speed,
    domain,
    excess,
    holder_growth,
    holder_modulus,
    lipschitz_growth,
    others_share,
    step_shift,
)
from audit.bounds.costly import CostlyRenyiCurve
from audit.bounds.holder_shifts import HolderModulus, HolderShifts, cheapest_holder
from audit.bounds.registry import Entry, Status
from audit.bounds.sampled_gaussian import sampled_gaussian_renyi
from audit.bounds.shift_allocation import LipschitzShifts, Meetings, smallest
from audit.curves.base import PrivacyCurve
from audit.curves.renyi import RenyiCurve
from audit.mechanism import Batching, NoisySGD, Order

Array = NDArray[np.float64]

_POSITIONS = 128  # positions in the cycle that are computed one by one
_SPLITS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.92, 0.97, 1.0)
_LONGEST = 4096

FIXED_BATCHES = Assumption(
    "batches that are fixed before the run",
    lambda m: (
        m.batching in (Batching.CYCLIC, Batching.SHUFFLED)
        or (m.batch_size == m.dataset_size and m.batching is not Batching.POISSON)
    ),
    lambda m: f"batching={m.batching.name}",
)
SHUFFLED = Assumption(
    "batches of records that were shuffled once",
    lambda m: m.batching is Batching.SHUFFLED,
    lambda m: f"batching={m.batching.name}",
)


def _cycle(mechanism: NoisySGD, position: int | None) -> Meetings:
    """Meetings with the record in batch ``position``; by default in the batch of the last step."""
    period = mechanism.dataset_size // mechanism.batch_size
    if position is None:
        return Meetings(mechanism.steps, period, (mechanism.steps - 1) % period)
    validate.integer(0, position=position)
    if position >= period:
        raise ValueError(
            f"position must be below dataset_size/batch_size ({period}), got {position!r}"
        )
    return Meetings(mechanism.steps, period, int(position))


def _cyclic_square(
    mechanism: NoisySGD, meetings: Meetings, losses: Losses | None, length: int | None
) -> float:
    """Return the minimum in equation (25), in units of the squared noise of the iterate."""
    shift, batch = step_shift(mechanism, mechanism.batch_size), mechanism.batch_size
    if meetings.total == 0:
        return 0.0
    found = []
    if HOLDER.holds(mechanism) and losses is None:
        growth = holder_growth(mechanism, batch, others_share(mechanism))
        distance = growth.after(meetings)
        modulus = holder_modulus(mechanism)
        found.append(cheapest_holder(meetings, shift, modulus, distance, length))
    if SMOOTH.holds(mechanism) or losses is not None:
        found.append(_smooth_cyclic_square(mechanism, meetings, losses, length))
    return min(found) / mechanism.step_std**2


def _smooth_cyclic_square(
    mechanism: NoisySGD, meetings: Meetings, losses: Losses | None, length: int | None
) -> float:
    surplus, shift = excess(mechanism, losses), step_shift(mechanism, mechanism.batch_size)
    shifts = LipschitzShifts(meetings, shift, surplus)
    steps, widest, speed = meetings.steps, domain(mechanism), clip_speed(mechanism)

    def grown(done: Array) -> Array:
        """Lemma A.2 with c d for g(d), both of its branches run through from the start."""
        since = done - 1 - meetings.position
        with np.errstate(invalid="ignore"):
            moved = np.where(since > 0, shift + speed * since, np.where(since == 0, shift, 0.0))
        return np.asarray(np.minimum(np.minimum(shifts.grown(done), moved), widest))

    tracked = None
    if surplus > 0:  # the repulsion of the differing record's own gradient can be left out
        constant = mechanism.step_sizes[0] * (mechanism.smoothness or 0.0)
        free = HolderModulus(float(constant), 1.0)
        met = HolderModulus(float(constant) * others_share(mechanism), 1.0)
        growth = Growth(lambda d: float(free(d)), lambda d: float(met(d)), shift, speed, widest)
        tracked = growth.after(meetings)

    def cost(lengths: Array) -> Array:
        done = steps - lengths
        distance = grown(done) if tracked is None else np.minimum(grown(done), tracked(done))
        return shifts.costs(lengths, distance)

    if length is not None:
        return float(cost(np.array([float(length)]))[0])
    if surplus > 0:
        return smallest(cost, steps)[0]
    # steps without the record bring the runs no closer than they contract: to start later in a
    # cycle than just after its meeting gains nothing
    ends = np.array([float(steps), float(max(meetings.after_last, 1))])
    found = [float(np.min(cost(ends)))]
    if meetings.total > 1:
        period, after = meetings.period, meetings.after_last
        found.append(smallest(lambda met: cost(after + met * period), meetings.total - 1)[0])
    return min(found)


def theorem_a_1(
    mechanism: NoisySGD,
    *,
    position: int | None = None,
    losses: Losses | None = None,
    tau: int | None = None,
) -> PrivacyCurve:
    """Batches in a fixed, possibly shuffled, cycle (Theorem A.1): for any order of the records.

    alpha/(2 sigma^2) times the minimum over tau, beta_t and a_t of the sum over t >= tau of
    (2 eta K/b)^2/beta_t where the record is in the batch, and of a_t^2/(1 - beta_t), with
    A_tau >= D_tau as in Theorem 3.7 and D_t of Lemma A.2. With smooth losses the shifts obey the
    Lipschitz constant c of Theorem 3.1, as its proof allows, and are optimal; with Hoelder
    continuous gradients they are those of Theorem 3.7. Where both are given the better one counts.

    Parameters
    ----------
    mechanism
        The public parameters. The package's cycle is the same in every epoch.
    position
        The place of the record's batch in the cycle, from 0. By default the batch of the last step,
        which is the worst: the shifts for it, moved forward in time, serve every other place.
    losses
        The branch of smooth losses; by default the best that applies.
    tau
        Where the analysis starts, 0 to T - 1; by default the best.
    """
    length = None
    if tau is not None:
        validate.integer(0, tau=tau)
        if tau >= mechanism.steps:
            raise ValueError(f"tau must be at most steps - 1 ({mechanism.steps - 1}), got {tau!r}")
        length = mechanism.steps - int(tau)
    square = _cyclic_square(mechanism, _cycle(mechanism, position), losses, length)
    return RenyiCurve.linear(square / 2)


@dataclass(frozen=True, eq=False)
class MixedDivergence:
    """log of the mean of e^((alpha - 1) alpha rho), over alpha - 1."""

    rhos: Array
    weights: Array

    def __call__(self, alpha: Array) -> Array:
        """Return the divergence at each order."""
        exponent = ((alpha - 1) * alpha)[:, None] * self.rhos
        top = exponent.max(axis=1)
        result = np.full(alpha.shape, np.inf)
        near, far = top < 1, (top >= 1) & np.isfinite(top)
        result[near] = np.log1p(np.expm1(exponent[near]) @ self.weights)
        scaled = np.exp(exponent[far] - top[far, None]) @ self.weights
        result[far] = top[far] + np.log(scaled)
        return np.asarray(result / (alpha - 1))


def corollary_a_3(mechanism: NoisySGD, *, losses: Losses | None = None) -> PrivacyCurve:
    """Shuffled cyclic batches (Corollary A.3): Theorem A.1 averaged over the place of the record.

    D_alpha <= log(E exp((alpha - 1) eps(alpha, position)))/(alpha - 1) over the n/b positions, by
    joint convexity, on the logarithmic scale. The paper shuffles anew in every epoch; the package's
    batches are shuffled once, so the expectation is over one position. Beyond 128 positions,
    neighbouring ones are grouped and each group counts as its worst member, the one that leaves the
    fewest steps after the last meeting.
    """
    period = mechanism.dataset_size // mechanism.batch_size
    edges = np.unique(np.rint(np.linspace(0, period, min(period, _POSITIONS) + 1)).astype(int))
    squares = []
    for after in edges[:-1]:
        meetings = Meetings(mechanism.steps, period, (mechanism.steps - 1 - int(after)) % period)
        squares.append(_cyclic_square(mechanism, meetings, losses, None))
    divergence = MixedDivergence(np.array(squares) / 2, np.diff(edges) / period)
    return RenyiCurve(divergence, points=101)


def _sampled_growth(mechanism: NoisySGD) -> list[tuple[Growth, HolderModulus | None, float]]:
    """Return (tracking, modulus or None, c - 1) for each condition that the mechanism meets."""
    b = mechanism.batch_size
    speed, widest = clip_speed(mechanism), domain(mechanism)
    found: list[tuple[Growth, HolderModulus | None, float]] = []
    if HOLDER.holds(mechanism):
        met = holder_modulus(mechanism, (b - 1) / b)
        growth = Growth(lambda d: float(met(d)), lambda d: float(met(d)), speed / b, speed, widest)
        found.append((growth, holder_modulus(mechanism), 0.0))
    if SMOOTH.holds(mechanism):
        surplus = excess(mechanism)
        base = lipschitz_growth(mechanism, b, surplus * ((b - 1) / b if surplus > 0 else 1.0))
        growth = Growth(base.free, base.met, speed / b, speed, widest)
        found.append((growth, None, surplus))
    return found


def _absorbing_costs(mechanism: NoisySGD) -> tuple[Array, Array]:
    """Return lengths k and small sums of a_t^2 that absorb the distance at T - k."""
    steps = mechanism.steps
    dense = np.arange(1, min(steps, _LONGEST) + 1)
    sparse = np.rint(np.geomspace(1, steps, 256)).astype(np.int64)
    lengths = np.unique(np.concatenate([dense, sparse, steps + 1 - sparse]))
    best = np.full(lengths.size, np.inf)
    every = Meetings(steps)
    for growth, modulus, surplus in _sampled_growth(mechanism):
        distances = growth.after(every)(steps - lengths)
        if modulus is not None and modulus.order < 1:
            costs = np.full(lengths.size, np.inf)
            shifts = HolderShifts(every, 0.0, modulus)
            costs[: dense.size] = shifts.costs(distances[: dense.size])
            costs = np.where(distances == 0, 0.0, costs)
        else:
            constant = surplus if modulus is None else modulus.constant
            costs = LipschitzShifts(every, 0.0, constant).costs(lengths, distances)
        best = np.minimum(best, costs)
    return lengths.astype(np.float64), best


@dataclass(frozen=True, eq=False)
class _SampledDivergence:
    """The minimum of equation (19) over tau and a constant split, for each order."""

    lengths: Array
    absorbed: Array
    rate: float
    noise: float  # sigma b/(2 eta K)
    order: Order
    square_root: bool
    splits: tuple[float, ...]

    def __call__(self, alpha: ArrayLike) -> Array:
        orders, splits = np.atleast_1d(np.asarray(alpha)), np.array(self.splits)
        noises = self.noise * (np.sqrt(splits) if self.square_root else splits)
        steps = sampled_gaussian_renyi(orders[:, None], self.rate, noises, self.order)
        return np.array(
            [self._one(float(a), step) for a, step in zip(orders, np.asarray(steps), strict=True)]
        )

    def _one(self, alpha: float, steps: Array) -> float:
        best = math.inf
        for split, step in zip(self.splits, steps, strict=True):
            # where no distance is left the whole noise may hide the gradients
            room = alpha / (2 * (1 - split)) if split < 1 else math.inf
            moved = np.zeros_like(self.absorbed)
            np.multiply(self.absorbed, room, out=moved, where=self.absorbed > 0)
            best = min(best, float(np.min(self.lengths * step + moved)))
        return best


def _theorem_3_12(
    mechanism: NoisySGD, beta: float | None, order: Order, square_root: bool
) -> PrivacyCurve:
    splits: tuple[float, ...] = _SPLITS
    if beta is not None:
        validate.positive(beta=beta)
        validate.closed_unit(beta=beta)
        splits = (float(beta),)
    lengths, absorbed = _absorbing_costs(mechanism)
    divergence = _SampledDivergence(
        lengths,
        absorbed / mechanism.step_std**2,
        mechanism.sampling_rate,
        mechanism.step_std * mechanism.batch_size / clip_speed(mechanism),
        order,
        square_root,
        splits,
    )
    return CostlyRenyiCurve(divergence, search=(1e-2, 1e3), points=41, refinements=2)


def theorem_3_12(mechanism: NoisySGD, *, beta: float | None = None) -> PrivacyCurve:
    """Batches drawn without replacement, Hoelder continuous gradients (Theorem 3.12, as printed).

    The minimum over tau, beta_t and a_t of the sum over t >= tau of

        S_alpha(b/n, beta_t sigma b/(2 eta K)) + alpha a_t^2/(2 sigma^2 (1 - beta_t)),

    with A_tau >= D_tau as in Theorem 3.7 and D_t = min(g(D_(t-1); eta L (b-1)/b) + 2 eta K/b,
    D_(t-1) + 2 eta K, D). S_alpha is D(N || mixture) (Definition 3.11), one order of the pair, and
    a mechanism is private only if both are bounded: one step of one of two records with gradients
    +L, +L against +L, -L refutes it. The split is constant here, and one of 12 values.

    Parameters
    ----------
    mechanism
        The public parameters.
    beta
        The noise split, in (0, 1]; by default the best of 12 for each order alpha.
    """
    return _theorem_3_12(mechanism, beta, Order.REVERSE, False)


def theorem_3_12_both_orders(mechanism: NoisySGD, *, beta: float | None = None) -> PrivacyCurve:
    """Theorem 3.12 with the larger of the two orders of S_alpha, and sqrt(beta_t) in it.

    The noise Z_t has variance beta_t sigma^2, so its standard deviation has the square root. Not
    proven: given the shifted noise, the law of the batch is another one for the second process, so
    the two processes do not share their maps, as the proof needs.
    """
    # D(mixture || N) is the larger one (Mironov, Talwar and Zhang 2019, Theorem 5)
    return _theorem_3_12(mechanism, beta, Order.FORWARD, True)


_SAMPLED = (
    WITHOUT_REPLACEMENT,
    LAST_ITERATE,
    CONSTANT_STEP_SIZE,
    SMOOTH_OR_HOLDER,
    GRADIENT_BOUND,
)

ENTRIES = (
    Entry(
        id="cl25.theorem_3_12",
        cite=cite("Theorem 3.12"),
        statement=(
            "batches drawn without replacement, Hoelder gradients, Renyi: D_alpha <= min of "
            "sum S_alpha(b/n, beta_t sigma b/(2 eta K)) + alpha a_t^2/(2 sigma^2 (1 - beta_t)), "
            "S_alpha = D(N || mixture)"
        ),
        assumptions=_SAMPLED,
        status=Status.REFUTED,
        function=theorem_3_12,
    ),
    Entry(
        id="cl25.theorem_3_12_both_orders",
        cite=cite("Theorem 3.12, with both orders of Definition 3.11"),
        statement=(
            "batches drawn without replacement, Hoelder gradients, Renyi: Theorem 3.12 with "
            "the larger order of S_alpha and sqrt(beta_t) sigma in it"
        ),
        assumptions=_SAMPLED,
        status=Status.UNPROVEN,
        function=theorem_3_12_both_orders,
    ),
    Entry(
        id="cl25.theorem_a_1",
        cite=cite("Theorem A.1"),
        statement=(
            "fixed batches, Hoelder gradients, Renyi: D_alpha <= alpha/(2 sigma^2) min of "
            "sum_j (2 eta K/b)^2/beta_{t_j} + sum_t a_t^2/(1 - beta_t), A_tau >= D_tau, "
            "t_j the steps that meet the record"
        ),
        assumptions=(FIXED_BATCHES, LAST_ITERATE, CONSTANT_STEP_SIZE, SMOOTH_OR_HOLDER),
        status=Status.AS_PRINTED,
        function=theorem_a_1,
    ),
    Entry(
        id="cl25.corollary_a_3",
        cite=cite("Corollary A.3"),
        statement=(
            "shuffled cyclic batches, Renyi: D_alpha <= log(E exp((alpha - 1) eps(alpha, B)))"
            "/(alpha - 1), eps(alpha, B) of Theorem A.1, B the place of the record"
        ),
        assumptions=(SHUFFLED, LAST_ITERATE, CONSTANT_STEP_SIZE, SMOOTH_OR_HOLDER),
        status=Status.AS_PRINTED,
        function=corollary_a_3,
    ),
)

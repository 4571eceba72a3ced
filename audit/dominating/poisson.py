"""Full and Poisson batches, whole, truncated, or divided by their actual size.

Plain batches are T independent steps on one pair of normal mixtures.
In units of the sensitivity S of one record's gradient (C, or 2C for replace-one), with q the
sampling rate and z the noise multiplier, one step's pair dominates, and is attained where the
others' gradients are 0 and the record's is C (against -C for replace-one):

- zero-out and add/remove: (1-q) N(0, z^2) + q N(1, z^2) against N(0, z^2) (Zhu, Dong and Wang 2022,
  Theorem 11, after Mironov, Talwar and Zhang 2019);
- replace-one: (1-q) N(0, z^2) + q N(1/2, z^2) against (1-q) N(0, z^2) + q N(-1/2, z^2) (Schuchardt
  et al. 2024).

Why the record's gradients u, v of norm at most C are worst at v = -u: delta(epsilon) is the mean of
(sum of c_i Z_i)_+ over likelihood ratios Z_i = e^(X_i - Var X_i/2) of 0, u and v, with
c = ((1-q)(1-a), q, -a q) for a = e^epsilon >= 1. By Gaussian interpolation its derivative along a
path of distances D_ij = |i - j|^2 is minus a quarter of the sum of D'_ij c_i c_j w_ij with w >= 0
(the function is homogeneous, as in Kahane's inequality). Larger D_uv and D_0u raise it, so v is
opposite to u and |u| = C. Then along r = |v| the terms of D_0v and D_uv add up to a multiple of
2 r (c_0 Z_0 + c_u Z_u) + 2 C c_u Z_u, which is positive where the sum vanishes. The case a < 1 is
that of the other order.

For q = 1 both are N(1, z^2) against N(0, z^2), whose T-fold composition has a closed form.

Truncated: a batch of more than B records is reduced to a random B of them.

Whether at least B of the other n - 1 records are sampled is independent of the record, and may be
revealed (quasi-convexity). Below B the step is a Poisson step at the sampling rate q. From B on, a
record that is sampled as one of N + 1 is kept with probability B/(N + 1), and takes the place of
one of B others, which are a uniformly random set of B whatever N is: a Poisson step at the rate
q' = q E[B/(N + 1) | N >= B], of twice the sensitivity. With probability tau = P(N >= B) the second
pair, else the first, dominates a step for add/remove: the mixture with a known coin.

`TruncatedSubsampledGaussianDpEvent` of dp-accounting defines the sampler; its accountant takes the
replace-one pair at rate q' for the second one, whose means are twice as far apart, and so is above
the upper end here.

The lower end is the best of two adversaries: other gradients of 0, where the step is a Poisson step
at the rate with which the record takes part; and other gradients of -1 against 1, where it is a
pair of normal mixtures on the line.

Divided by the actual size of the batch.

A step releases (sum of gradients + N(0, z^2 C^2))/|B|, so the contributions of all records and of
the noise depend on whether the differing record is in the batch. It is a post-processing of
(|B|, noisy sum), whose pair dominates: given that the batch holds s of the n records of X, the
differing record is one of them with probability s/n, and replaces another record. In units of C,
given s,

- add/remove: (1 - s/n) N(0, z^2) + (s/n) N(2, z^2) against N(0, z^2), where s has the law
  Bin(n, q) under P and Bin(n - 1, q) under Q (couple the batch with the record to the batch in
  which one other record takes its place, and use joint convexity);
- zero-out: (1 - s/n) N(0, z^2) + (s/n) N(1, z^2) against N(0, z^2), s of the law Bin(n, q);
- replace-one: the same with means 1 and -1 in place of 1 and 0.

Gradients -C of the others and C of the record attain it given |B|. In many dimensions the size of
the noise reveals |B|, except that batches of no and of one record both have divisor 1; the lower
side merges these two, and is approached as the dimension grows. The "batch-averaged subsampled
Gaussian" of arXiv 2605.15648, which shows that accounting for a fixed divisor does not cover it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from audit import validate
from audit.curves import Order
from audit.dominating.closed_form import DeltaLimits, SampledGaussian
from audit.dominating.curve import (
    ComposedCurve,
    DominatingCurve,
    EnclosedCurve,
    GaussianDominatingCurve,
    GridComposition,
    compose,
)
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair, dominated, mixed, united
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.runs import MixtureRun, RefinedCurve, grid_width
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import NoisySGD, Relation
from audit.numerics.binomial import binomial_tails, log_binomial
from audit.numerics.normal import log_interval, log_interval_error

Array = NDArray[np.float64]


def check_bounded(m: NoisySGD) -> None:
    """Raise ``ValueError`` unless the bound on gradients determines the sensitivity."""
    share = 2.0 if m.relation is Relation.REPLACE_ONE else 1.0
    if m.gradient_bound is None or m.sensitivity < share * m.gradient_bound:
        raise ValueError(
            "gradient_sensitivity must be None, and gradients bounded, for sampled batches under "
            "replace-one or with an actual divisor, because no pair is known otherwise, "
            f"got {m.gradient_sensitivity!r}"
        )


def poisson_curve(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    relation: Relation,
    *,
    accuracy: float,
    skipping_rate: float | None = None,
) -> DominatingCurve:
    """Return the privacy of T steps on Poisson batches, all iterates released.

    The noise multiplier is over the sensitivity: 2C for replace-one, C otherwise; add/remove is for
    a divisor that both datasets share. ``skipping_rate`` is 1 - q, where it has more digits than
    1 - ``sampling_rate``. ``accuracy`` is the target of relative widths.
    """
    validate.positive(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)
    validate.closed_unit(sampling_rate=sampling_rate)
    validate.integer(1, steps=steps)
    validate.instance(Relation, relation=relation)
    validate.positive(accuracy=accuracy)
    if sampling_rate == 1:
        return GaussianDominatingCurve(math.sqrt(steps) / noise_multiplier)
    two_sided = relation is Relation.REPLACE_ONE
    mean = 0.5 if two_sided else 1.0
    pair = MixturePair(sampling_rate, noise_multiplier, mean, two_sided, skipping_rate)

    def moments(alpha: Array, order: Order) -> Array:
        once = sampled_gaussian_renyi(alpha, sampling_rate, noise_multiplier, order)
        return steps * np.asarray(once)

    known = None if two_sided else moments
    return RefinedCurve((MixtureRun(pair, steps),), accuracy, known, same=two_sided)


# What is rarer, to be cut or not, is left out and counted as lost.
_RARE_CUT = 1e-290
# Of the second adversary: its sums are spread over the sizes of a batch.
_LARGEST_BATCH = 400
_CELLS_ON_THE_LINE = 2048
# The two ends differ by more than this in any case.
_FINEST = 1e-5
_RARE = 64
_MOST_CELLS = 1 << 23


@dataclass(frozen=True)
class Truncation:
    """Probabilities of truncation, from the view of one record, within relative errors.

    rate: Sampling rate q of each record.
    cut, uncut: Probability tau that at least B of the other records are sampled, and 1 - tau.
    kept: Probability q' that the record is sampled and kept in that case.
    error: Bound on the relative errors of tau, q' and what both lack to 1.
    """

    rate: float
    cut: float
    kept: float
    uncut: float
    error: float

    @classmethod
    def of(cls, dataset_size: int, rate: float, largest: int) -> Truncation:
        """Return the probabilities for n records and batches of at most B.

        P(sampled, kept, N >= B) = sum_j q P(N = j) B/(j + 1) = (B/n) P(M > B), where N and M are
        binomial with n - 1 and n trials.
        """
        uncut, cut, error = binomial_tails(largest, dataset_size - 1, rate)
        if cut < _RARE_CUT:
            return cls(rate, cut, 0.0, 1.0, 0.0)
        _, more, other = binomial_tails(largest + 1, dataset_size, rate)
        kept = min(more * largest / dataset_size / cut, rate)
        least = 1 - rate if rate < 1 else 1 - kept  # roundings count most for what is left of 1
        return cls(rate, cut, kept, uncut, (2 * (error + other) + 16 * UNIT_ROUNDOFF) / least)

    @property
    def participation(self) -> float:
        """Probability that the record participates in a step."""
        return self.uncut * self.rate + self.cut * self.kept

    @property
    def absence(self) -> float:
        """Probability that it does not, with the relative error of the other probabilities."""
        return self.uncut * (1 - self.rate) + self.cut * (1 - self.kept)


def truncated_poisson(m: NoisySGD, accuracy: float) -> EnclosedCurve:
    """Return bounds from both sides for all iterates under truncated Poisson batches.

    ``accuracy`` is the target of relative widths if batches are rarely truncated.
    """
    if m.relation is not Relation.ADD_REMOVE:
        raise ValueError(
            "relation must be 'add remove' for truncated poisson batches, because no pair is "
            f"known for others, got {m.relation.value!r}"
        )
    z, steps, largest = m.noise_multiplier, m.steps, m.max_batch_size
    assert largest is not None  # checked by the mechanism
    cut = Truncation.of(m.dataset_size, m.sampling_rate, largest)
    if cut.kept == 0:
        plain = poisson_curve(z, m.sampling_rate, steps, Relation.ADD_REMOVE, accuracy=accuracy)
        return EnclosedCurve((), plain, plain, lost=2 * steps * cut.cut)
    accuracy = max(accuracy, _FINEST)
    pairs = [
        (weight, MixturePair(rate, z, mean, two_sided=False))
        for weight, rate, mean in ((cut.uncut, cut.rate, 1.0), (cut.cut, cut.kept, 2.0))
        if weight >= _RARE_CUT
    ]
    lost = 2 * steps * cut.uncut if cut.uncut < _RARE_CUT else 0.0
    spread = math.sqrt(sum(weight * pair.spread() ** 2 for weight, pair in pairs))
    reaches = [np.ptp(pair.losses(log_tails(steps))) for _, pair in pairs]
    reach = float(max(reaches))
    # rare large losses make a long tail, with as many cells as a transform can hold
    longest = min(steps, _RARE) * reach / _MOST_CELLS
    width = max(grid_width(spread, steps, reach, accuracy), longest)
    sides = [(weight, pair.grid_pairs(width, log_tails(steps))[1]) for weight, pair in pairs]
    upper = mixed(sides)
    upper = replace(upper, rounding=upper.rounding + 2 * cut.error)
    alone = MixturePair(cut.participation, z, 1.0, False, cut.absence)
    below = alone.grid_pairs(width, log_tails(steps))[0]
    adversaries = [replace(below, rounding=below.rounding + cut.error, ratio_error=None)]
    if largest <= _LARGEST_BATCH:
        adversaries.append(others_against(z, m.dataset_size, largest, cut, width))
    lower = [GridComposition([(pair, steps)]) for pair in adversaries]
    # a step is at most one at rate q whose record counts twice, and at least one with others of 0
    limits = DeltaLimits(
        SampledGaussian(2 * math.sqrt(steps) / z, -steps * pairs[0][1].log_skipped),
        (SampledGaussian(1 / z, -alone.log_skipped),),
        False,
        f"{steps} steps on truncated Poisson batches",
    )
    curve = ComposedCurve(lower[0], GridComposition([(upper, steps)]), limits=limits)
    return EnclosedCurve(tuple(lower[1:]), curve, curve, lost)


def others_against(
    noise_multiplier: float, dataset_size: int, largest: int, cut: Truncation, interval: float
) -> GridPair:
    """Return the pair, dominated, of one step's sum if the others' gradients are -1.

    Without the record the sum is -min(N, B); with it -N + 1 with probability q if N < B, and
    -B + 2 with probability q' otherwise.
    """
    z = noise_multiplier
    counts = np.arange(min(largest, dataset_size))
    log_weights, errors = log_binomial(counts, dataset_size - 1, cut.rate)
    means = -counts.astype(float)
    if largest < dataset_size:
        log_weights = np.append(log_weights, math.log(cut.cut))
        means = np.append(means, -float(largest))
    # no size that can occur is dropped: far out the least likely one may matter
    possible = np.isfinite(log_weights)
    log_weights, means = log_weights[possible], means[possible]
    rates = np.where(means > -largest, cut.rate, cut.kept)
    jumps = np.where(means > -largest, 1.0, 2.0)
    edges = np.concatenate(
        [
            [-np.inf],
            np.linspace(means.min() - 10 * z, means.max() + 2 + 10 * z, _CELLS_ON_THE_LINE),
            [np.inf],
        ]
    )
    with np.errstate(divide="ignore"):
        log_rates, log_rest = np.log(rates), np.log1p(-rates)
    # quotients of edges less means, which are integers
    moved = 4 * UNIT_ROUNDOFF * float(np.abs(edges[1:-1]).max()) / z

    def cells(means: Array, logs: Array) -> tuple[Array, Array]:
        """Return log masses, and the largest error of those of one mean."""
        places = (edges[:, None] - means) / z
        ends = places[:-1], places[1:]
        masses = log_interval(*ends) + logs
        error = log_interval_error(*ends, moved) + 2 * UNIT_ROUNDOFF * np.abs(masses)
        some = masses > masses.max(axis=1, keepdims=True) - 50
        total = np.asarray(logsumexp(masses, axis=1))
        return total, np.where(some, error, 0.0).max(axis=1)

    log_q, error_q = cells(means, log_weights)
    (stays, error_p), (moves, other) = (
        cells(means, log_weights + log_rest),
        cells(means + jumps, log_weights + log_rates),
    )
    log_p = np.logaddexp(stays, moves)
    logs = float(np.abs(np.concatenate([log_p, log_q])).max())
    rounding = float(np.max([error_q, error_p, other])) + float(errors.max(initial=0.0))
    # sums over the sizes, of logarithms of this size; what is 50 below the largest has no share
    rounding += cut.error + UNIT_ROUNDOFF * (4 * means.size + 16 + 4 * logs)
    return dominated(log_p, log_q, interval, rounding=rounding)


_LOG_TAIL = math.log(1e-20)  # neglected mass of batch sizes, over all steps
_MOST_SIZES = 2000


def actual_divisor_curve(m: NoisySGD, accuracy: float) -> ComposedCurve:
    """Return the privacy of steps on Poisson batches divided by their actual size.

    X has ``dataset_size`` records; ``accuracy`` is the target of the grid's share of relative
    widths.
    """
    check_bounded(m)
    if m.sampling_rate == 1:
        raise ValueError("batch_size must be below dataset_size for an actual divisor, got both")
    z, n, steps, relation = m.noise_multiplier, m.dataset_size, m.steps, m.relation
    one_less = relation is Relation.ADD_REMOVE
    two_sided = relation is Relation.REPLACE_ONE
    mean = 0.5 if two_sided else 2.0 if one_less else 1.0
    sizes = np.arange(n + 1)
    log_p, error_p = log_binomial(sizes, n, m.sampling_rate)
    log_q, error_q = log_binomial(sizes, n - 1, m.sampling_rate) if one_less else (log_p, error_p)
    kept = (np.maximum(log_p, log_q) > _LOG_TAIL - math.log(steps)) & (sizes < n)
    if kept.sum() > _MOST_SIZES:
        raise ValueError(
            f"dataset_size must be so small that batches have at most {_MOST_SIZES} likely sizes, "
            f"got {n}"
        )
    laws = (log_p, error_p), (log_q, error_q)
    rest = [float(np.exp((logs + errors)[~kept]).sum()) for logs, errors in laws]
    parts = [
        _Part(
            int(size), float(a), float(b), MixturePair(size / n, z, mean, two_sided, (n - size) / n)
        )
        for size, a, b in zip(sizes[kept], log_p[kept], log_q[kept], strict=True)
    ]
    inner = [p for p in parts if p.size]
    if not inner:
        raise ValueError(f"dataset_size must be at least 2 for batches of two sizes, got {n}")
    shifts = np.array([p.shift for p in parts])
    weights = np.exp([p.log_p for p in parts])
    variances = [p.pair.spread() ** 2 if p.size else 0.0 for p in parts]
    spread = math.sqrt(float(weights @ (variances + (shifts - weights @ shifts) ** 2)))
    ends = np.array([np.array(p.pair.losses(log_tails(steps))) + p.shift for p in inner])
    width = grid_width(spread, steps, float(np.ptp(ends)), max(accuracy, _FINEST))
    sides = [part.sides(width, steps) for part in parts]
    # 0 and 1 records have the same divisor
    same = [part for part in parts if part.size < 2]
    lower = [one for part, (one, _) in zip(parts, sides, strict=True) if part.size >= 2]
    lower += [_atom(same, width)] if same else []
    upper = [one for _, one in sides]
    # a batch of all records of X has no counterpart
    whole = math.exp(log_p[n]) if one_less and n > 1 else 0.0
    # of the pairs, the sizes, their sum, and the factors by which their cells move
    rounding = max(part.pair.rounding(log_tails(steps)) for part in inner)
    rounding += 2 * max(float(errors[kept].max()) for _, errors in laws)
    rounding += UNIT_ROUNDOFF * (len(parts) + 32 + 8 * float(np.abs(shifts).max()))
    below = united(False, width, lower, rounding)
    below = replace(below, p_only=below.p_only + whole)
    above = united(True, width, upper, rounding)
    above = replace(above, p_only=above.p_only + rest[0], q_only=above.q_only + rest[1])
    # the sizes of batches tell the datasets apart too if one has a record less
    limits = None
    if not one_less:
        limits = DeltaLimits.unsampled(
            math.sqrt(steps) / z, f"{steps} steps with an actual divisor"
        )
    return replace(compose([(below, above, steps)], same=two_sided), limits=limits)


@dataclass(frozen=True)
class _Part:
    """Batches of one size: logs of their probabilities, and the pair given the size."""

    size: int
    log_p: float
    log_q: float
    pair: MixturePair

    @property
    def shift(self) -> float:
        return self.log_p - self.log_q

    def sides(self, width: float, steps: int) -> tuple[GridPair, GridPair]:
        """Return the cells of the lower and of the upper side."""
        one = np.ones(1)
        if self.size:
            below, above = self.pair.grid_pairs(width, log_tails(steps))
        else:  # the record is not in the batch
            below = GridPair(False, width, 0, one, one)
            above = GridPair(True, width, 0, one, one)
        weight, other = math.exp(self.log_p), math.exp(self.log_q)
        # merged cells move by whole cells and record the change of P/Q
        whole = round(self.shift / width)
        factor = weight * math.exp(whole * width - self.shift)
        p, lifted = weight * below.p, factor * below.lifted
        merged = GridPair(False, width, below.first + whole, p, lifted)
        # atoms are split between the two grid points next to their new place
        whole = math.floor(self.shift / width)
        share = math.expm1(whole * width - self.shift) / math.expm1(-width)
        masses = np.append((1 - share) * weight * above.p, 0.0)
        masses[1:] += share * weight * above.p
        only = weight * above.p_only, other * above.q_only
        return merged, GridPair(True, width, above.first + whole, masses, masses, *only)


def _atom(parts: Sequence[_Part], width: float) -> GridPair:
    """Return all outcomes of some sizes as one."""
    p = sum(math.exp(part.log_p) for part in parts)
    q = sum(math.exp(part.log_q) for part in parts)
    first = round(math.log(p / q) / width)
    return GridPair(False, width, first, np.array([p]), np.array([q * math.exp(first * width)]))

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
differing record is one of them with probability s/n, and stands where another record would stand.
In units of C, the pair is

    (1 - s/n) N(0, z^2) + (s/n) N(2, z^2)  against  N(0, z^2)

- for add/remove, where s has the law Bin(n, q) under P and Bin(n - 1, q) under Q (couple the batch
  with the record to the batch in which one other record takes its place, and use joint convexity);
- for replace-one and zero-out at every epsilon >= 0, in both orders, where s has the law Bin(n, q):
  given s, batches are those without replacement (`audit.dominating.without_replacement`, whose
  mirrored pairs compose).

Gradients -C of the others and C of the record, and -C of the one that replaces it, attain it given
|B|. For zero-out the lower side has others of gradient 0, and so N(1, z^2) for N(2, z^2). In many
dimensions the size of the noise reveals |B|, except that batches of no and of one record both have
divisor 1; the lower side merges these two, and is approached as the dimension grows. The
"batch-averaged subsampled Gaussian" of arXiv 2605.15648, which shows that accounting for a fixed
divisor does not cover it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from audit import validate
from audit.curves import Order
from audit.dominating.closed_form import DeltaLimits, SampledGaussian
from audit.dominating.curve import (
    ComposedCurve,
    DominatingCurve,
    EnclosedCurve,
    GaussianDominatingCurve,
    GridComposition,
)
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair, dominated, mixed
from audit.dominating.mixture import UNDERFLOW, MixturePair, log_tails
from audit.dominating.runs import MixtureRun, RefinedCurve, grid_width, rare_reach
from audit.dominating.sampled_gaussian import sampled_gaussian_renyi
from audit.mechanism import NoisySGD, Relation
from audit.numerics.arrays import Array
from audit.numerics.binomial import binomial_tails, log_binomial


def is_bounded(m: NoisySGD) -> bool:
    """Return whether the bound on gradients determines the sensitivity."""
    if m.gradient_bound is None:
        return False
    # a sensitivity of its own bounds the difference of any two records
    own = m.relation is Relation.REPLACE_ONE or m.gradient_sensitivity is not None
    return m.sensitivity >= (2.0 if own else 1.0) * m.gradient_bound


def check_bounded(m: NoisySGD) -> None:
    """Raise ``ValueError`` unless the bound on gradients determines the sensitivity."""
    if not is_bounded(m):
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


# Truncation that is rarer, or hardly ever missing, becomes an outcome that only one law has.
_NEGLIGIBLE_CUT = 1e-290
# Largest batch of the second adversary, whose sums are spread over the sizes of a batch.
_MAX_BATCH = 400
_CELLS_ON_THE_LINE = 2048
# The two ends differ by more than this in any case.
_MIN_ACCURACY = 1e-5


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
        if cut < _NEGLIGIBLE_CUT:
            return cls(rate, cut, 0.0, 1.0, UNIT_ROUNDOFF / (1 - rate))
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


def truncated_poisson(m: NoisySGD, accuracy: float) -> DominatingCurve:
    """Return bounds from both sides for all iterates under truncated Poisson batches.

    ``accuracy`` is the target of relative widths if batches are rarely truncated.
    """
    if m.relation is not Relation.ADD_REMOVE:
        raise ValueError(
            "relation must be 'add remove' for truncated poisson batches, because no pair is "
            f"known for others, got {m.relation.value!r}"
        )
    z, steps, largest, left = m.noise_multiplier, m.steps, m.max_batch_size, m.skipping_rate
    assert largest is not None  # checked by the mechanism
    if largest >= m.dataset_size:
        rate, relation = m.sampling_rate, m.relation
        return poisson_curve(z, rate, steps, relation, accuracy=accuracy, skipping_rate=left)
    tails, cut = log_tails(steps), Truncation.of(m.dataset_size, m.sampling_rate, largest)
    plain = MixturePair(cut.rate, z, 1.0, False, left)
    pairs = [(cut.uncut, plain)] if cut.uncut >= _NEGLIGIBLE_CUT else []
    if cut.kept:
        pairs.append((cut.cut, MixturePair(cut.kept, z, 2.0, two_sided=False)))
    rare = _NEGLIGIBLE_CUT if len(pairs) == 1 else 0.0
    spread = math.sqrt(sum(weight * pair.spread() ** 2 for weight, pair in pairs))
    reach = max(float(np.ptp(pair.losses(tails))) for _, pair in pairs)
    width = grid_width(spread, steps, rare_reach(reach, steps), max(accuracy, _MIN_ACCURACY))
    upper = mixed([(weight, weight, pair.grid_pairs(width, tails)[1]) for weight, pair in pairs])
    upper = replace(
        upper,
        rounding=upper.rounding + 2 * cut.error,
        p_only=upper.p_only + rare,
        q_only=upper.q_only + rare,
    )
    alone = MixturePair(cut.participation, z, 1.0, False, cut.absence)
    below = alone.grid_pairs(width, tails)[0]
    adversaries = [replace(below, rounding=below.rounding + cut.error, ratio_error=None)]
    if cut.kept and largest <= _MAX_BATCH and m.gradient_sensitivity is None:
        adversaries.append(others_against(z, m.dataset_size, largest, cut, width))
    lower = [GridComposition([(pair, steps)]) for pair in adversaries]
    # a step is at most one at rate q whose record counts twice, and at least one with others of 0
    limits = DeltaLimits(
        SampledGaussian(2 * math.sqrt(steps) / z, -steps * plain.log_skipped),
        (SampledGaussian(1 / z, -alone.log_skipped, 2 * cut.error + 8 * UNIT_ROUNDOFF),),
        False,
        f"{steps} steps on truncated Poisson batches",
    )
    curve = ComposedCurve(lower[0], GridComposition([(upper, steps)]), limits=limits)
    return EnclosedCurve(tuple(lower[1:]), curve, curve)


def others_against(
    noise_multiplier: float, dataset_size: int, largest: int, cut: Truncation, interval: float
) -> GridPair:
    """Return the pair, dominated, of one step's sum if the others' gradients are -1.

    Without the record the sum is -min(N, B); with it -N + 1 with probability q if N < B, and
    -B + 2 with probability q' otherwise.
    """
    z, counts = noise_multiplier, np.arange(largest)
    logs, errors = log_binomial(counts, dataset_size - 1, cut.rate)
    inner = np.linspace(-largest - 10 * z, 2 + 10 * z, _CELLS_ON_THE_LINE)
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    found = np.zeros((2, 2, edges.size - 1))  # masses under P and Q, and their errors
    for weights, sizes, rate, jump in (
        (np.exp(logs), counts, cut.rate, 1.0),
        (np.array([cut.cut]), np.array([largest]), cut.kept, 2.0),
    ):
        pair, places = MixturePair(rate, z, jump, two_sided=False), np.add.outer(edges, sizes)
        far = np.where(np.isfinite(places), np.abs(places) / z, 0.0)
        error = pair.rounding_within(np.maximum(far[:-1], far[1:]) + jump / z)
        found += [[mass @ weights, (error * mass) @ weights] for mass in pair.masses(places)]
    # cells that underflow under one law are dropped under both, which is an event
    masses, slips = found[:, :, found[:, 0].min(axis=0) > UNDERFLOW].swapaxes(0, 1)
    log_p, log_q = np.log(masses)
    units = largest + 16 + 4 * float(np.abs([log_p, log_q]).max())
    rounding = float((slips / masses).max()) + float(errors.max()) + cut.error
    return dominated(log_p, log_q, interval, rounding=rounding + UNIT_ROUNDOFF * units)


_LOG_TAIL = math.log(1e-20)  # neglected mass of batch sizes, over all steps
_MAX_SIZES = 2000


def actual_divisor_curve(m: NoisySGD, accuracy: float) -> ComposedCurve:
    """Return the privacy of steps on Poisson batches divided by their actual size.

    X has ``dataset_size`` records; ``accuracy`` is the target of the grid's share of relative
    widths.
    """
    check_bounded(m)
    if m.sampling_rate == 1:
        raise ValueError("batch_size must be below dataset_size for an actual divisor, got both")
    z, n, steps, relation = m.noise_multiplier, m.dataset_size, m.steps, m.relation
    one_less, replaced = relation is Relation.ADD_REMOVE, relation is Relation.REPLACE_ONE
    mean = 1.0 if replaced else 2.0  # 2 C
    sizes = np.arange(n + 1)
    log_p, error_p = log_binomial(sizes, n, m.sampling_rate)
    log_q, error_q = log_binomial(sizes, n - 1, m.sampling_rate) if one_less else (log_p, error_p)
    kept = (np.maximum(log_p, log_q) > _LOG_TAIL - math.log(steps)) & (sizes < n)
    if kept.sum() > _MAX_SIZES:
        raise ValueError(
            f"dataset_size must be so small that batches have at most {_MAX_SIZES} likely sizes, "
            f"got {n}"
        )
    laws = (log_p, error_p), (log_q, error_q)
    rest = [float(np.exp((logs + errors)[~kept]).sum()) for logs, errors in laws]
    # a batch of all records of X has no counterpart
    whole = math.exp(log_p[n]) if one_less and n > 1 else 0.0
    sizes, of_p, of_q = sizes[kept], np.exp(log_p[kept]), np.exp(log_q[kept])
    pairs = [MixturePair(int(s) / n, z, mean, False, int(n - s) / n) for s in sizes if s]
    if not pairs:
        raise ValueError(f"dataset_size must be at least 2 for batches of two sizes, got {n}")
    tails, shifts, missed = log_tails(steps), np.log(of_p / of_q), int(sizes[0] == 0)
    variances = np.array([0.0] * missed + [pair.spread() ** 2 for pair in pairs])
    spread = math.sqrt(float(of_p @ (variances + (shifts - of_p @ shifts) ** 2)))
    ends = np.array([pair.losses(tails) for pair in pairs]) + shifts[missed:, None]
    width = grid_width(spread, steps, float(np.ptp(ends)), max(accuracy, _MIN_ACCURACY))
    nothing = GridPair.nothing(False, width), GridPair.nothing(True, width)
    sides = [nothing] * missed
    for pair in pairs:
        if one_less:
            sides.append(pair.grid_pairs(width, tails))
            continue
        attained = replace(pair, mean=1.0)  # the pair itself for replace-one
        most, _ = MixtureRun(pair, 1).mirrored(True, width, tails)
        sides.append((attained.grid_pairs(width, tails)[0], most))
    above = mixed([(a, b, side[1]) for a, b, side in zip(of_p, of_q, sides, strict=True)])
    # 0 and 1 records have the same divisor
    few = int((sizes < 2).sum())
    pooled = [(of_p[:few].sum(), of_q[:few].sum(), nothing[0])] if few else []
    parts = zip(of_p[few:], of_q[few:], sides[few:], strict=True)
    below = mixed([*pooled, *((a, b, side[0]) for a, b, side in parts)])
    error = 2 * max(float(errors[kept].max()) for _, errors in laws)
    below = replace(below, rounding=below.rounding + error, p_only=below.p_only + whole)
    above = replace(
        above,
        rounding=above.rounding + error,
        p_only=above.p_only + rest[0],
        q_only=above.q_only + rest[1],
    )
    # the sizes of batches tell the datasets apart too if one has a record less
    limits = None
    if not one_less:
        limits = DeltaLimits.unsampled(
            mean * math.sqrt(steps) / z, f"{steps} steps with an actual divisor"
        )
    lower, upper = (GridComposition([(pair, steps)]) for pair in (below, above))
    return ComposedCurve(lower, upper, same=replaced, limits=limits)

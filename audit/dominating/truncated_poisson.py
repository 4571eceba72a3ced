"""Truncated Poisson batches: a batch of more than B records is reduced to a random B of them.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from audit import validate
from audit.dominating.closed_form import DeltaLimits, SampledGaussian
from audit.dominating.curve import ComposedCurve
from audit.dominating.enclosed import EnclosedCurve
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair, dominated, mixed
from audit.dominating.grid_composition import GridComposition
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.poisson import poisson_curve
from audit.dominating.runs import grid_width
from audit.mechanism import Relation
from audit.numerics.binomial import binomial_tails, log_binomial
from audit.numerics.normal import log_interval, log_interval_error

Array = NDArray[np.float64]

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


def truncated_poisson(
    noise_multiplier: float,
    *,
    dataset_size: int,
    sampling_rate: float,
    max_batch_size: int,
    steps: int,
    accuracy: float,
) -> EnclosedCurve:
    """Return bounds from both sides for all iterates under truncated Poisson batches.

    For add/remove with a divisor that both datasets share; n is the size of the larger dataset.
    ``accuracy`` is the target of relative widths if batches are rarely truncated.
    """
    validate.positive(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)
    validate.closed_unit(sampling_rate=sampling_rate)
    validate.integer(1, dataset_size=dataset_size, max_batch_size=max_batch_size, steps=steps)
    validate.positive(accuracy=accuracy)
    cut = Truncation.of(dataset_size, sampling_rate, max_batch_size)
    z = noise_multiplier
    if cut.kept == 0:
        plain = poisson_curve(z, sampling_rate, steps, Relation.ADD_REMOVE, accuracy=accuracy)
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
    upper = mixed(tuple(sides))
    upper = replace(upper, rounding=upper.rounding + 2 * cut.error)
    alone = MixturePair(cut.participation, z, 1.0, False, cut.absence)
    below = alone.grid_pairs(width, log_tails(steps))[0]
    adversaries = [replace(below, rounding=below.rounding + cut.error, ratio_error=None)]
    if max_batch_size <= _LARGEST_BATCH:
        adversaries.append(others_against(z, dataset_size, max_batch_size, cut, width))
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

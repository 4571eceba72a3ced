"""Poisson batches whose noisy sums are divided by the actual size of the batch.

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

from audit import validate
from audit.dominating.closed_form import DeltaLimits
from audit.dominating.curve import ComposedCurve, compose
from audit.dominating.grid import UNIT_ROUNDOFF, GridPair
from audit.dominating.mixture import MixturePair, log_tails
from audit.dominating.runs import grid_width
from audit.mechanism import Relation
from audit.numerics.binomial import log_binomial

Array = NDArray[np.float64]

_LOG_TAIL = math.log(1e-20)  # neglected mass of batch sizes, over all steps
_MOST_SIZES = 2000
_FINEST = 1e-5  # best accuracy, as every batch size has its own grid


def actual_divisor_curve(
    noise_multiplier: float,
    sampling_rate: float,
    dataset_size: int,
    steps: int,
    relation: Relation,
    *,
    accuracy: float,
) -> ComposedCurve:
    """Return the privacy of T steps on Poisson batches divided by their actual size.

    The noise multiplier z is over the sensitivity: 2C for replace-one, C otherwise. X has
    ``dataset_size`` records; ``accuracy`` is the target of the grid's share of relative widths.
    """
    validate.positive(noise_multiplier=noise_multiplier, accuracy=accuracy)
    validate.open_unit(sampling_rate=sampling_rate)
    validate.integer(1, dataset_size=dataset_size, steps=steps)
    validate.instance(Relation, relation=relation)
    z, n = noise_multiplier, dataset_size
    one_less = relation is Relation.ADD_REMOVE
    two_sided = relation is Relation.REPLACE_ONE
    mean = 0.5 if two_sided else 2.0 if one_less else 1.0
    sizes = np.arange(n + 1)
    log_p, error_p = log_binomial(sizes, n, sampling_rate)
    log_q, error_q = log_binomial(sizes, n - 1, sampling_rate) if one_less else (log_p, error_p)
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
    below = _total(False, width, lower, (whole, 0.0), rounding)
    above = _total(True, width, upper, (rest[0], rest[1]), rounding)
    # the sizes of batches tell the datasets apart too if one has a record less
    limits = None
    if not one_less:
        limits = DeltaLimits.unsampled(
            math.sqrt(steps) / z, f"{steps} steps with an actual divisor"
        )
    return replace(compose([(below, above, steps)], same=two_sided), limits=limits)


@dataclass(frozen=True, eq=False)
class _SizedCells:
    """Cells of a pair before summation: first index, masses under P and lifted ones."""

    first: int
    p: Array
    lifted: Array
    p_only: float = 0.0
    q_only: float = 0.0


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

    def sides(self, width: float, steps: int) -> tuple[_SizedCells, _SizedCells]:
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
        merged = _SizedCells(below.first + whole, weight * below.p, factor * below.lifted)
        # atoms are split between the two grid points next to their new place
        whole = math.floor(self.shift / width)
        share = math.expm1(whole * width - self.shift) / math.expm1(-width)
        masses = np.append((1 - share) * weight * above.p, 0.0)
        masses[1:] += share * weight * above.p
        moved = above.first + whole
        return merged, _SizedCells(
            moved, masses, masses, weight * above.p_only, other * above.q_only
        )


def _atom(parts: Sequence[_Part], width: float) -> _SizedCells:
    """Return all outcomes of some sizes as one."""
    p = sum(math.exp(part.log_p) for part in parts)
    q = sum(math.exp(part.log_q) for part in parts)
    first = round(math.log(p / q) / width)
    return _SizedCells(first, np.array([p]), np.array([q * math.exp(first * width)]))


def _total(
    above: bool,
    width: float,
    cells: Sequence[_SizedCells],
    rest: tuple[float, float],
    rounding: float,
) -> GridPair:
    """Sum the cells of all sizes; ``rest`` is the mass without a counterpart."""
    first = min(one.first for one in cells)
    size = max(one.first + one.p.size for one in cells) - first
    p, lifted = np.zeros(size), np.zeros(size)
    for one in cells:
        place = slice(one.first - first, one.first - first + one.p.size)
        p[place] += one.p
        lifted[place] += one.lifted
    return GridPair(
        above,
        width,
        first,
        p,
        p if above else lifted,
        rest[0] + sum(one.p_only for one in cells),
        rest[1] + sum(one.q_only for one in cells),
        rounding,
    )

"""Stretches: consecutive steps that the coupling recursion treats as one, on a grid of distances.

Merged steps, landing on rows, and reflection at one weight through several steps are proven in
"Couplings with weights" of "Our own theorems" in the documentation. Without walls and with shared
noise, distance r becomes c' r + v' over a stretch, whose noise is s'.

Rounding of reflection. Masses of bins are differences of tails, and these of a tail and its mirror
image, which is smaller by the factor e^(-1.6 rho/d) at least, d the deviation of the distance. The
mean of a function that rises with the distance is a sum of tails times its increments, so that its
relative error is that of the tails: some units times 1 + d/rho. All is positive: errors of steps
add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from audit.bounds.accounting.shift_allocation import MIN_LOG, geometric
from audit.bounds.own.moves import taut_string
from audit.bounds.own.run import WorstRun
from audit.numerics.arrays import Array

_MAX_SQUARE = 1.2  # 4 l^2/w^2 where the noise allows; a larger one wastes noise
_MAX_SHARE = 0.5  # share of the noise
# Rounding of places within a bin, and of a bin's first moment in units of its terms: edges are
# multiples of the width, by up to some hundreds.
_ROUNDING = 1024 * 2.0**-53
_WEAK_PUSH, _STRONG_PUSH = 0.5, 1.5  # A = v D/s^2, v the mean push
_MAX_SINGLE_STEPS = 16  # sampled steps that are also taken one at a time
_MIN_MERGED = 4  # fewer gain little for moderate pushes, and are taken one at a time
_PER_DEVIATION = 5  # rows of the fine grid per deviation of a step
_MAX_FINE_ROWS = 8  # fine rows per row of the grid
# Tails err by 16 units each, and positions and the landing by as many.
_UNIT, _UNITS = 2.0**-53, 64


@dataclass(frozen=True, eq=False)
class DistanceGrid:
    """Distances from 0 to ``top`` in equal steps, and weights e^(j spacing), j = 0..count.

    If no wall bounds the distance, one more row represents all larger distances, where the bound is
    1.
    """

    top: float
    distances: int
    spacing: float
    count: int
    open_end: bool

    @property
    def rows(self) -> Array:
        """Distances r_i."""
        return np.asarray(self.top * np.arange(self.distances + 1) / self.distances)

    @property
    def width(self) -> float:
        """Difference of consecutive distances."""
        return self.top / self.distances

    @property
    def last(self) -> int:
        """Row of all distances above the others."""
        return self.distances + int(self.open_end)

    @property
    def log_weights(self) -> Array:
        """Logarithms of the weights of at least 1."""
        return np.asarray(self.spacing * np.arange(self.count + 1))


# --- landing on rows ---


@dataclass(frozen=True)
class Landing:
    """Division of the noise of a step.

    first: Standard deviation s_1 of the first part.
    reached: Lower bound 1 - k on the probability of reaching the lower row, in units of 1 - x.
    """

    first: float
    reached: float


def rising(values: Array) -> Array:
    """Return bounds that increase with the row; a bound covers all smaller distances."""
    return np.asarray(np.minimum.accumulate(values[::-1])[::-1])


def landing(width: float, noise: float) -> Landing:
    """Divide the noise of a step for rows that are ``width`` apart."""
    square = min(_MAX_SQUARE * width**2, _MAX_SHARE * 4 * noise**2)
    orders = np.arange(1, 200)
    missed = 2 * float(np.sum(np.exp(-((orders * math.pi) ** 2) * square / width**2 / 2)))
    if missed >= 1:  # rounding up costs no noise
        return Landing(noise, 0.0)
    return Landing(math.sqrt(noise**2 - square / 4), 1 - missed)


def bin_masses(edges: Array, mean: ArrayLike, std: float) -> tuple[Array, Array, Array]:
    """Return normal probabilities of bins, and bounds on their means of 1 - x.

    edges: Equally spaced edges, n + 1 of them; x rises from 0 to 1 in each bin.
    mean: Means of the normal laws.
    std: Their standard deviation.

    Returns mass: Probabilities, shape (..., n); accurate on either side of the mean.
    Returns least, most: Lower and upper bounds on the integral of 1 - x over each bin.
    """
    z = (edges - np.asarray(mean)[..., None]) / std
    below, above = ndtr(z), ndtr(-z)
    mass = np.where(z[..., :-1] > 0, above[..., :-1] - above[..., 1:], np.diff(below))
    pdf = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    scale = std / float(edges[1] - edges[0]) if edges.size > 1 else 0.0  # without bins
    ends = pdf[..., :-1] + pdf[..., 1:]
    moment = (z[..., 1:] * mass - (pdf[..., :-1] - pdf[..., 1:])) * scale
    far = np.maximum(np.abs(z[..., :-1]), np.abs(z[..., 1:]))
    error = _ROUNDING * scale * (1 + far * far) * (ends + far * mass)
    return mass, np.clip(moment - error, 0.0, mass), np.clip(moment + error, 0.0, mass)


def reflected(
    edges: Array, mean: Array, std: float, reached: float
) -> tuple[Array, Array, Array, Array]:
    """Return bounds on the law of the distance after maximal reflection coupling.

    edges: Equally spaced rows from 0.
    mean, std: Distance before, shape (...), and twice the noise.
    reached: As in `Landing`.

    Returns met: Probability of distance 0.
    Returns lower, upper: Masses that land on the lower and on the upper row of each bin.
    Returns beyond: Mass above the last row.
    """
    right, right_low, _ = bin_masses(edges, mean, std)
    left, _, left_low = bin_masses(edges, -mean, std)
    mass = np.maximum(right - left, 0.0)
    lower = np.clip(right_low - left_low, 0.0, mass) * reached
    top = edges[-1]
    beyond = ndtr((mean - top) / std) - ndtr(-(mean + top) / std)
    return 2 * ndtr(-mean / std), lower, mass - lower, beyond


def landed(distances: Array, rows: Array, last: int, reached: float) -> Array:
    """Return bounds on the law of the row after landing from each distance.

    distances: Distances before the second part of the noise, shape (...).
    rows: Equally spaced rows from 0.
    last: Row of all distances above those of ``rows``.
    reached: As in `Landing`.

    Returns: Masses at each row, shape (..., last + 1).
    """
    upper = np.minimum(np.searchsorted(rows, distances), last)
    inside = np.minimum(upper, rows.size - 1)
    share = np.where(upper == inside, (rows[inside] - distances) / float(rows[1]), 0.0)
    share = np.clip(share - _ROUNDING, 0.0, 1.0) * reached
    result = np.zeros((*np.shape(distances), last + 1))
    np.put_along_axis(result, upper[..., None], (1 - share)[..., None], axis=-1)
    lower = np.maximum(upper - 1, 0)[..., None]
    lower_mass = np.take_along_axis(result, lower, axis=-1)
    np.put_along_axis(result, lower, lower_mass + share[..., None], axis=-1)
    return result


# --- steps that are one ---


@dataclass(frozen=True)
class Stretch:
    """Parameters of a stretch.

    count: Number q of steps.
    contraction, shift, noise: Parameters c', v' and s'; with a rate below 1 the shift is that of
        one use of the record. It is 0 if the record is not used.
    period: Steps per use of the record, which divides the count.
    rate: Probability that the record is in the batch; 1 for fixed batches.
    ratio: Parameter v/s of one step on sampled batches.
    """

    count: int
    contraction: float
    shift: float
    noise: float
    period: int = 1
    rate: float = 1.0
    ratio: float = 0.0

    @property
    def merged(self) -> bool:
        """True for a stretch of more than one step."""
        return self.count > 1

    @property
    def log_contraction(self) -> float:
        """Logarithm of the contraction of one step."""
        return math.log(self.contraction) / self.count if self.contraction > 0 else MIN_LOG

    @property
    def step_noise(self) -> float:
        """Noise s of one step."""
        return self.noise / math.sqrt(float(geometric(2 * self.log_contraction, self.count)))

    def landing(self, width: float) -> tuple[Landing, float]:
        """Divide the last step's noise; return the division, and the noise without its rest."""
        divided = landing(width, self.step_noise)
        rest = self.step_noise**2 - divided.first**2
        return divided, math.sqrt(self.noise**2 - rest)

    def parallel(self, start: float, end: float) -> float:
        """Return the parameter of moving from distance ``start`` to ``end``; 0 if it is free."""
        total = self.contraction * start + self.shift - end
        if total <= 0:
            return 0.0
        if self.period == 1:
            return total / self.noise
        # the end of the stretch and what is just before each use, as shares of all the noise
        log_c, uses = self.log_contraction, self.count // self.period
        cycle, noise = log_c * self.period, float(geometric(2 * log_c, self.count))
        one = self.shift / float(geometric(cycle, uses))
        points = []
        for j in range(1, uses + 1):
            done = j * self.period - 1
            kept = math.exp(2 * log_c * (self.count - done)) * float(geometric(2 * log_c, done))
            pushed = math.exp(cycle * (uses - j + 1)) * float(geometric(cycle, j - 1))
            points.append((kept / noise, self.contraction * start + one * pushed))
        return math.sqrt(taut_string([*points, (1.0, total)])) / self.noise


def _repeated(run: WorstRun, count: int, shift: float, period: int = 1) -> Stretch:
    """Merge ``count`` steps, with the same shift in the last one of each ``period``."""
    log_c = run.log_contraction
    return Stretch(
        count,
        run.contraction**count,
        shift * float(geometric(log_c * period, count // period)),
        run.noise * math.sqrt(float(geometric(2 * log_c, count))),
        period,
    )


def steps_to_merge(run: WorstRun, width: float, rounds: int) -> int:
    """Return the number of steps to merge: noise up to ``width``, at least ``rounds`` stretches."""
    count = max(min(int((width / run.noise) ** 2), run.steps // rounds), 1)
    if run.gap > 0:
        count = max(min(count, int(0.25 / run.gap)), 1)
    return count


def layouts(run: WorstRun, merged: int, widest: float) -> tuple[tuple[Stretch, ...], ...]:
    """Return the sequences of stretches to choose from in a round, from the last step backward.

    All cover the same steps. A cycle of cyclic batches that is longer than ``merged`` steps is
    divided into the step with the record and the others; and it is one stretch unless its noise is
    above ``widest``, since moves over a whole cycle cost less and are rounded once. Few
    sampled batches are also taken one at a time, unless pushes are weak; very few, with moderate
    pushes, are taken one at a time only.
    """
    if run.rate < 1:
        single, several = (
            replace(_repeated(run, q, 0.0), shift=run.shift, rate=run.rate, ratio=run.ratio)
            for q in (1, merged)
        )
        # for weak pushes single steps gain little and take most of the time
        strength = run.rate * run.shift * run.diameter / run.noise**2
        if merged == 1 or (merged < _MIN_MERGED and _WEAK_PUSH < strength <= _STRONG_PUSH):
            return ((single,),)
        alone = merged <= _MAX_SINGLE_STEPS and strength > _WEAK_PUSH
        return ((several,), (single,) * merged) if alone else ((several,),)
    length = run.period
    whole = _repeated(run, max(merged // length, 1) * length, run.shift, length)
    if merged >= length:
        return ((whole,),)
    idle = length - 1
    parts = -(-idle // merged)
    divided = (
        _repeated(run, 1, run.shift),
        *(_repeated(run, (idle + k) // parts, 0.0) for k in range(parts)),
    )
    small = whole.noise <= widest and run.gap * length < 1
    return (divided, (whole,)) if small else (divided,)


# --- reflection at one weight ---


def reflected_steps(grid: DistanceGrid, stretch: Stretch) -> Array:
    """Return bounds on the law of the row after the stretch, from each row; shape (rows, rows).

    The rows are those of the distances, and the one above all others if there is one. A function
    that increases with the row has at most the mean under these masses.
    """
    log_c, noise = stretch.log_contraction, stretch.step_noise
    cycles, shift = stretch.count // stretch.period, stretch.shift
    if stretch.rate == 1:
        shift /= float(geometric(log_c * stretch.period, cycles))
    fine = math.ceil(_PER_DEVIATION * grid.top / (noise * grid.distances))
    fine = min(max(fine, 1), _MAX_FINE_ROWS) * grid.distances
    starts = math.exp(log_c) * grid.top * np.arange(fine + 1) / fine

    def step(rows: int, push: float) -> Array:
        far = _landed(starts + push, grid.top, rows, noise)
        if push > 0 and stretch.rate < 1:
            near = _landed(starts, grid.top, rows, noise)
            far = (1 - stretch.rate) * near + stretch.rate * far
        if grid.open_end:  # what is beyond the last distance stays there
            return np.vstack([far, np.eye(far.shape[1])[-1:]])
        far[:, -2] += far[:, -1]
        return far[:, :-1]

    cycle = step(fine, shift)
    before = np.eye(cycle.shape[0])  # all but the last step
    if stretch.period > 1:
        before = np.linalg.matrix_power(step(fine, 0.0), stretch.period - 1)
        cycle = before @ cycle
    before = np.linalg.matrix_power(cycle, cycles - 1) @ before
    kept = np.arange(0, fine + 1, fine // grid.distances)
    if grid.open_end:
        kept = np.append(kept, fine + 1)
    # what is apart at all is at least the push, or a row of the grid, apart
    least = float(np.min(np.append(starts[starts > 0], shift if shift > 0 else grid.top)))
    units = _UNITS * (1 + 2 * noise / least) + 2 * fine + 64
    masses = before[kept] @ step(grid.distances, shift)
    return np.asarray(masses * (1 + units * (stretch.count + 1) * _UNIT))


def _landed(rho: Array, top: float, rows: int, noise: float) -> Array:
    """Return masses at ``rows + 1`` rows up to the top and beyond it, after one reflection."""
    divided = landing(top / rows, noise)
    edges = top * np.arange(rows + 1) / rows
    result = np.zeros((rho.size, rows + 2))
    result[:, 0], low, high, result[:, -1] = reflected(
        edges, rho, 2 * divided.first, divided.reached
    )
    result[:, :rows] += low
    result[:, 1 : rows + 1] += high
    return result


def lower(
    values: Array, result: Array, masses: Array, nears: Iterable[int], *, open_end: bool
) -> None:
    """Lower ``result`` to the cost of reflection through a stretch beyond each local distance.

    values: Bounds after the stretch, shape (rows, weights), which rise with the row.
    result: Bounds before it, of the same shape.
    masses: Those of `reflected_steps`.
    nears: Rows of the local distances.
    open_end: Whether the last row stands for all larger distances; its bound is 1.
    """
    last = values.shape[0] - 1
    count = values.shape[0] - int(open_end)
    for near in nears:
        ends = values[np.minimum(np.arange(last + 1) + near, last)]
        cost = masses[: count - near] @ ends
        np.minimum(result[near:count], cost, out=result[near:count])

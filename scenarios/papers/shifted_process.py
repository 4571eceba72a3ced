"""The shifted interpolated process: its pairs of losses, its shifts, and simulated paths.

It is (3.5) of Bok, Su and Altschuler 2024.

X and X' share their noise up to the time tau, and so stay z_tau apart; X~ starts there at X' and
takes X's noise, each step a mixture of the two updates. After the last one it is X.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit import validate
from audit.constructions import Construction, GradientPair, PiecewiseLinear, QuadraticPair
from audit.mechanism import Batching, NoisySGD, Release
from audit.scenario import Progress

Array = NDArray[np.float64]

_BLOCK = 5000  # paths that are simulated together, with a random stream of their own


@dataclass(frozen=True, eq=False)
class Plan:
    """The shifts of the interpolation: when it begins, and how fast it goes.

    Attributes
    ----------
    tau
        The time of its beginning.
    shifts
        lambda_k for k = tau + 1, ..., t.
    distances
        z_k for k = tau, ..., t.
    costs
        a_k = lambda_k (c z_(k-1) + s) for k = tau + 1, ..., t.
    """

    tau: int
    shifts: Array
    distances: Array
    costs: Array

    @property
    def total(self) -> float:
        """The root of the sum of squares of the costs."""
        return float(np.sqrt(np.sum(self.costs**2)))

    def ended_at(self, last_shift: float) -> Plan:
        """Return the plan with another last shift, which then does not close."""
        return replace(self, shifts=np.append(self.shifts[:-1], last_shift))


def distances(plan_shifts: Array, pair: LossPair, contraction: float, tau: int) -> Array:
    """Return z_tau, ..., z_t by z_k = (1 - lambda_k)(c z_(k-1) + s), from z_0 = 0."""
    s = pair.shift
    diameter = pair.mechanism.diameter
    limit = math.inf if diameter is None else diameter
    first = 0.0
    for _ in range(tau):
        first = min(contraction * first + s, limit)
    found = [first]
    for shift in plan_shifts:
        found.append((1 - float(shift)) * (contraction * found[-1] + s))
    return np.array(found)


def plan_from(pair: LossPair, tau: int) -> Plan:
    """Return the cheapest shifts from ``tau`` on: costs a_k proportional to c^(t-k)."""
    c, s, steps = pair.contraction, pair.shift, pair.mechanism.steps
    powers = c ** np.arange(steps - tau - 1, -1, -1.0)
    first = float(distances(np.empty(0), pair, c, tau)[0])
    to_cross = c ** (steps - tau) * first + s * float(powers.sum())
    wanted = to_cross / float(np.sum(powers**2)) * powers
    shifts, reached = [], first
    for cost in wanted:
        shifts.append(min(float(cost) / (c * reached + s), 1.0))
        reached = (1 - shifts[-1]) * (c * reached + s)
    shifts[-1] = 1.0
    chosen = np.array(shifts)
    z = distances(chosen, pair, c, tau)
    return Plan(tau, chosen, z, chosen * (c * z[:-1] + s))


def cheapest(pair: LossPair) -> Plan:
    """Return the cheapest plan over all tau, tried one by one."""
    return min((plan_from(pair, tau) for tau in range(pair.mechanism.steps)), key=_total)


def _total(plan: Plan) -> float:
    return plan.total


@dataclass(frozen=True, eq=False)
class Simulated:
    """Results of the simulated paths; times run from tau to t.

    Attributes
    ----------
    largest, mean
        The largest and the mean distance of X~ and X over all paths, at each time.
    pushes
        The largest |lambda_k (phi(X) - phi'(X~))| over all paths, at each step after tau.
    size
        The largest norm of a state.
    begun, ended, target, prime
        X~ at tau and at t, X and X' at t, shape (paths, dimensions).
    path
        One path of X, X', X~ along the first axis, at the times 0 to t (X~ from tau on).
    """

    largest: Array
    mean: Array
    pushes: Array
    size: float
    begun: Array
    ended: Array
    target: Array
    prime: Array
    path: tuple[Array, Array, Array]


def simulate(
    pair: LossPair, plan: Plan, start: Array, *, paths: int, seed: int, threads: int,
    progress: Progress,
) -> Simulated:  # fmt: skip
    """Simulate paths of X, X' and X~ together, all with the noise of X.

    Parameters
    ----------
    start
        The common start, shape (dimensions,).
    paths, seed, threads
        How many, their randomness, and workers; the result depends on the first two alone.
    progress
        Takes (blocks done, blocks in all).
    """
    sizes = [_BLOCK] * (paths // _BLOCK) + ([paths % _BLOCK] if paths % _BLOCK else [])
    seeds = np.random.SeedSequence(seed).spawn(len(sizes))
    done: list[Simulated] = []

    def block(k: int) -> Simulated:
        return _block(pair, plan, start, sizes[k], np.random.default_rng(seeds[k]))

    with ThreadPoolExecutor(threads) as pool:
        for one in pool.map(block, range(len(sizes))):
            done.append(one)
            progress(len(done), len(sizes))
    weights = np.array(sizes) / paths
    return Simulated(
        largest=_over(done, lambda one: one.largest).max(axis=0),
        mean=weights @ _over(done, lambda one: one.mean),
        pushes=_over(done, lambda one: one.pushes).max(axis=0),
        size=max(one.size for one in done),
        begun=np.concatenate([one.begun for one in done]),
        ended=np.concatenate([one.ended for one in done]),
        target=np.concatenate([one.target for one in done]),
        prime=np.concatenate([one.prime for one in done]),
        path=done[0].path,
    )


def _over(blocks: list[Simulated], part: Callable[[Simulated], Array]) -> Array:
    return np.stack([part(one) for one in blocks])


def _block(
    pair: LossPair, plan: Plan, start: Array, paths: int, random: np.random.Generator
) -> Simulated:
    std = pair.mechanism.step_std
    x = np.tile(start, (paths, 1))
    x_prime, between = x.copy(), x.copy()
    trails: tuple[list[float], list[float], list[float]] = ([x[0, 0]], [x[0, 0]], [])
    largest, mean, pushes, size = [], [], [], float(np.linalg.norm(start))
    begun = between
    for step in range(pair.mechanism.steps + 1):
        if step == plan.tau:
            begun = between = x_prime.copy()
        if step >= plan.tau:
            gaps = np.linalg.norm(between - x, axis=1)
            largest.append(float(gaps.max()))
            mean.append(float(gaps.mean()))
            trails[2].append(float(between[0, 0]))
        if step == pair.mechanism.steps:
            break
        noise = std * random.standard_normal(x.shape)
        moved, moved_prime = pair.updates(x, x_prime)
        if step >= plan.tau:
            shift = float(plan.shifts[step - plan.tau])
            kept = pair.updates(x, between)[1]
            pushes.append(shift * float(np.linalg.norm(moved - kept, axis=1).max()))
            between = pair.project(shift * moved + (1 - shift) * kept + noise)
        x, x_prime = pair.project(moved + noise), pair.project(moved_prime + noise)
        size = max(size, float(np.abs(x).max()), float(np.abs(between).max()))
        trails[0].append(float(x[0, 0]))
        trails[1].append(float(x_prime[0, 0]))
    path = (np.array(trails[0]), np.array(trails[1]), np.array(trails[2]))
    return Simulated(
        np.array(largest), np.array(mean), np.array(pushes), size * math.sqrt(x.shape[1]),
        begun, between, x, x_prime, path,
    )  # fmt: skip


def directly(
    pair: LossPair, start: Array, steps: int, *, first: bool, paths: int, seed: int
) -> Array:
    """Simulate one process by itself with noise of its own; shape (paths, dimensions)."""
    random = np.random.default_rng(np.random.SeedSequence(seed))
    x = np.tile(start, (paths, 1))
    for _ in range(steps):
        moved = pair.updates(x, x)[0 if first else 1]
        noise = pair.mechanism.step_std * random.standard_normal(x.shape)
        x = pair.project(moved + noise)
    return x


class Losses(enum.Enum):
    """The losses of the two datasets; S is the gradient sensitivity.

    The differing record pulls apart along the first axis: with gradients -S/2 and +S/2, or, for
    ``ONE_SIDED``, with a gradient that rises from 0 to S beside one that is 0, so that the
    distance of the two updates depends on the place.
    """

    LINEAR = "linear"  # no curvature
    QUADRATIC = "quadratic"  # of the strong convexity
    HUBER = "Huber"  # of the smoothness around 0, of the strong convexity far from it
    ONE_SIDED = "one-sided"  # the differing record bends, the others have the strong convexity


@dataclass(frozen=True)
class LossPair:
    """Two datasets for full-batch Noisy-SGD, whose updates are c-Lipschitz and s apart.

    Parameters
    ----------
    mechanism
        Full batches, convex smooth losses, one step size eta <= 2/M; a ball of its diameter
        around 0 is the domain.
    losses
        Their form.
    bend
        The radius inside which Huber losses have the curvature M.

    Raises
    ------
    ValueError
        If the mechanism is none of these.
    """

    mechanism: NoisySGD
    losses: Losses
    bend: float

    def __post_init__(self) -> None:
        m = self.mechanism
        validate.positive(bend=self.bend)
        if m.batching is not Batching.FULL or m.release is not Release.LAST_ITERATE:
            raise ValueError("mechanism must take full batches and release the last iterate")
        if not m.convex or m.smoothness is None or np.ptp(m.step_sizes) != 0:
            raise ValueError("mechanism must have convex, smooth losses and one step size")
        if m.constant_step_size * m.smoothness > 2:
            raise validate.fail("step_size", f"at most 2/M = {2 / m.smoothness:g}", m.step_size)
        if self.losses is Losses.LINEAR and m.strong_convexity > 0:
            raise validate.fail("strong_convexity", "0 for linear losses", m.strong_convexity)
        if self.losses is Losses.ONE_SIDED and m.smoothness == m.strong_convexity:
            raise validate.fail("smoothness", "above the strong convexity", m.smoothness)

    @property
    def shift(self) -> float:
        """By how far the two updates of one point differ at most: s = eta S/n."""
        m = self.mechanism
        return m.constant_step_size * m.sensitivity / m.dataset_size

    @property
    def contraction(self) -> float:
        """The Lipschitz constant of an update: c = max(|1 - eta m|, |1 - eta M|)."""
        m = self.mechanism
        assert m.smoothness is not None  # checked when it was made
        eta = m.constant_step_size
        return max(abs(1 - eta * m.strong_convexity), abs(1 - eta * m.smoothness))

    def updates(self, x: Array, x_prime: Array) -> tuple[Array, Array]:
        """Return phi(x) and phi'(x_prime), without noise and walls; shapes (paths, dimensions)."""
        return self._moved(x, first=True), self._moved(x_prime, first=False)

    def _moved(self, x: Array, *, first: bool) -> Array:
        eta, n = self.mechanism.constant_step_size, self.mechanism.dataset_size
        moved = x - eta * self._shared(x)
        moved[:, 0] -= eta / n * self._record(x[:, 0], first=first)
        return moved

    def _shared(self, x: Array) -> Array:
        m = self.mechanism
        gradient = m.strong_convexity * x
        if self.losses is Losses.HUBER:
            assert m.smoothness is not None  # checked when it was made
            lengths = np.linalg.norm(x, axis=1, keepdims=True)
            inside = np.minimum(1.0, self.bend / np.maximum(lengths, self.bend))
            gradient += (m.smoothness - m.strong_convexity) * inside * x
        return np.asarray(gradient)

    def _record(self, along: Array, *, first: bool) -> Array | float:
        size = self.mechanism.sensitivity
        if self.losses is not Losses.ONE_SIDED:
            return -size / 2 if first else size / 2
        return np.clip(along * self._rise, 0.0, size) if first else 0.0

    @property
    def _rise(self) -> float:
        """The curvature that is left for the differing record."""
        m = self.mechanism
        assert m.smoothness is not None  # checked when it was made
        return m.smoothness - m.strong_convexity

    def project(self, x: Array) -> Array:
        """Return the nearest points of the domain, shape (paths, dimensions)."""
        if self.mechanism.diameter is None:
            return x
        radius = self.mechanism.diameter / 2
        if x.shape[1] == 1:
            return np.asarray(np.clip(x, -radius, radius))
        lengths = np.linalg.norm(x, axis=1, keepdims=True)
        return np.asarray(x * (radius / np.maximum(lengths, radius)))

    def in_one_dimension(self, start: float) -> Construction:
        """Return the pair as a construction, whose laws can be computed."""
        m = self.mechanism
        assert m.smoothness is not None  # checked when it was made
        low, size = m.strong_convexity, m.sensitivity
        if self.losses in (Losses.LINEAR, Losses.QUADRATIC):
            return QuadraticPair(m, curvature=low, start=start)
        if self.losses is Losses.ONE_SIDED:
            width = size / self._rise
            record = PiecewiseLinear((0.0, width), (0.0, size), (0.0, 0.0))
            prime = PiecewiseLinear.constant(0.0)
            line = PiecewiseLinear((0.0,), (0.0,), (low, low))
        else:
            record, prime = (PiecewiseLinear.constant(g) for g in (-size / 2, size / 2))
            top = m.smoothness * self.bend
            line = PiecewiseLinear((-self.bend, self.bend), (-top, top), (low, low))
        return GradientPair(m, record=record, record_prime=prime, shared=line, start=start)


def rounding_of(steps: int, largest: float) -> float:
    """Bound on the rounding error of a distance between states of size ``largest``."""
    return 64 * math.ulp(1.0) * steps * largest

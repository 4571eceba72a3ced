"""The shifted interpolated process (3.5) of paper 004: its shifts, and simulated paths.

X and X' share their noise up to the time tau, and so stay z_tau apart; X~ starts there at X' and
takes X's noise, each step a mixture of the two updates. After the last one it is X.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.studies.findings import Report
from audit.studies.shifted_losses import LossPair

Array = NDArray[np.float64]

_BLOCK = 5000  # paths that are simulated together, with a random stream of their own


@dataclass(frozen=True, eq=False)
class Plan:
    """When the interpolation begins, and how fast it goes.

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
    """What the paths showed; times run from tau to t.

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
    progress: Report,
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

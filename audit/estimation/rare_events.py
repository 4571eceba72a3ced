"""Certified epsilons beyond the logarithm of the number of samples.

Counts of an event S of n runs cannot certify much more than log n, because an event without a
count may have a rate of 1 / n. Here the rates are means of bounded draws: paths are drawn from a
proposal that pushes them towards S, and weighted by the likelihood ratio. Then P(S) - e^epsilon
Q(S) <= delta gives epsilon >= log((P(S) - delta) / Q(S)) with a lower limit of P(S) and an upper
one of Q(S), each at half of the error.

A walk moves by X_{k+1} = clamp(v), v = A X_k + shift + noise_std Z, and the event is <u, X_T> >=
threshold. Theorem (``docs/explanation/sampled-bounds.md``, with its proof and that of the limits of
a mean by bets): let o be the lower wall, a_T = a u with a > 0, a_k = A^T a_{k+1}, b_T = c_T = 0,

    exp(b_k + <a_k, y - o>) = exp(b_{k+1}) E[exp(<a_{k+1}, v - o>) | X_k = y],
    c_k = c_{k+1} + exp(b_k) (1 - r_k),   r_k = min E[exp(a_k (v - o)) | v < o]  from X = o,

and c_k = c_{k+1} without a lower wall. If v is drawn with the density of the walk times

    g_{k+1}(v) = exp(b_{k+1} + <a_{k+1}, v - o>) + c_{k+1},

averaged over v < o, every weight on the event is at most W = (exp(b_0 + <a_0, X_0 - o>) + c_1) /
exp(a (threshold - <u, o>)). The last step is not drawn: the probability of the event given X_{T-1}
takes the place of its indicator, and with t = a |u| noise_std these draws are at most W
exp(-t^2 / 2) max_z Phi(z) exp(-t z).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, logsumexp

from audit import validate
from audit.constructions import Affine, Construction, Process
from audit.constructions.process import DependentStep, Wall
from audit.curves import Order
from audit.numerics.arrays import Array, Flags, Indices
from audit.numerics.roots import bracketed_root, decreasing_root

_PILOT_SHARE = 0.1  # share of the trials that chooses the threshold and the stakes
_COARSE_THRESHOLDS, _FINE_THRESHOLDS = 13, 9  # thresholds that the pilot tries
_MAX_DEVIATIONS = 8.0  # standard deviations of the first law
_CAUTION = 2.0  # standard errors of the pilot, against the event
_STAKES = 0.98 * 0.7 ** np.arange(40.0)  # candidates, as multiples of the largest stake
_ROUNDING = 1 + 1e-9  # rounding of a sum of logarithms, taken against the limit
_ROWS = 50_000  # paths drawn at a time
_TILTS = np.geomspace(1e-3, 60.0, 160)  # strengths times the standard deviation without walls
_MAX_LOG = 700.0
_MAX_START = 1e6  # standard deviations of a step; logarithms of weights are about as large
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class BoundedDraws:
    """Independent draws of a nonnegative variable that is known to be at most ``largest``."""

    values: Array
    largest: float  # no draw can exceed it; it must be proven, not observed

    def __post_init__(self) -> None:
        validate.positive(largest=self.largest)
        values = validate.real_sample(values=self.values)
        if np.min(values) < 0 or np.max(values) > self.largest * (1 + 1e-9):
            worst = float(np.max(values) if np.min(values) >= 0 else np.min(values))
            raise validate.fail("values", f"in [0, {self.largest!r}]", worst)
        object.__setattr__(self, "values", values)

    def stakes(self, total: int, error: float) -> Stakes:
        """Return the stakes predicted to be best for ``total`` draws that are not among these."""
        x, repeats = self._scaled, total / self.values.size
        largest = _STAKES / max(float(np.mean(x)), 1 / x.size)  # the share of one draw for mean 0
        lower = [_limit(x, stake, error, repeats) for stake in largest]
        upper = [_limit(x, -stake, error, repeats) for stake in _STAKES]
        return Stakes(float(largest[np.argmax(lower)]), float(_STAKES[np.argmin(upper)]))

    def mean_lower(self, stakes: Stakes, error: float) -> float:
        """Return a limit that exceeds the mean with probability at most ``error``."""
        validate.open_unit(error=error)
        return self.largest * _limit(self._scaled, stakes.lower, error, 1.0)

    def mean_upper(self, stakes: Stakes, error: float) -> float:
        """Return a limit that falls below the mean with probability at most ``error``."""
        validate.open_unit(error=error)
        return self.largest * _limit(self._scaled, -stakes.upper, error, 1.0)

    @property
    def _scaled(self) -> Array:
        return np.minimum(self.values / self.largest, 1.0)


@dataclass(frozen=True)
class Stakes:
    """Stakes of the bets against small and against large means, for draws scaled to [0, 1].

    They must be fixed before the draws that they bet on are seen.
    """

    lower: float  # stake of the lower limit, positive
    upper: float  # stake of the upper limit, in (0, 1)

    def __post_init__(self) -> None:
        validate.positive(lower=self.lower)
        validate.open_unit(upper=self.upper)


def _limit(x: Array, stake: float, error: float, repeats: float) -> float:
    """Return the last mean that the bet refutes, from below if the stake is positive.

    A negative stake bets against large means. ``repeats`` scales the number of draws.
    """
    needed = _ROUNDING * math.log(1 / error) / repeats

    def missing(m: float) -> float:
        return needed - float(np.sum(np.log1p(stake * (x - m))))

    refuted, outside = (0.0, min(1.0, (1 - 1e-9) / stake)) if stake > 0 else (1.0, 0.0)
    if missing(refuted) >= 0:
        return refuted
    if missing(outside) < 0:
        return outside
    root = bracketed_root(missing, refuted, outside, xtol=1e-300)
    while missing(root) > 0:
        root *= 1 - 1e-12 if stake > 0 else 1 + 1e-12
    return root


@dataclass(frozen=True, eq=False)
class AffineStep:
    """One step: ``matrix`` times the state, a random shift, and normal noise."""

    matrix: Array  # shape (d, d); in one dimension its entry is at least 0
    shifts: Array  # the possible shifts, shape (m, d)
    weights: Array  # their probabilities, shape (m,)
    noise_std: float  # standard deviation of the noise in each direction, positive

    def __post_init__(self) -> None:
        validate.positive(noise_std=self.noise_std)
        total = math.fsum(self.weights) if np.min(self.weights) >= 0 else math.nan
        if len(self.weights) != len(self.shifts) or not abs(total - 1) < 1e-12:
            raise validate.fail("weights", "probabilities of the shifts", self.weights.tolist())


@dataclass(frozen=True, eq=False)
class AffineWalk:
    """A walk of affine steps, with walls if it has one dimension.

    Raises
    ------
    ValueError
        If there are no steps, a direction of 0, walls in several dimensions or beside a direction
        that is not 1, a slope below 0 in one dimension, or a start that is not between the walls,
        or a million deviations of a step away from 0 or the lower wall.
    """

    start: Array  #: The start point, shape (d,).
    steps: tuple[AffineStep, ...]  #: The steps.
    direction: Array  #: The direction u of the events <u, X_T> >= threshold, shape (d,).
    lower: float = -math.inf  #: The lower wall; infinite in several dimensions.
    upper: float = math.inf  #: The upper wall, likewise.

    def __post_init__(self) -> None:
        walls = self.lower, self.upper
        if not self.steps:
            raise validate.fail("steps", "one or more", self.steps)
        if not np.any(self.direction):
            raise validate.fail("direction", "other than 0", self.direction.tolist())
        if any(map(math.isfinite, walls)) and (self.start.size > 1 or self.direction[0] != 1):
            raise validate.fail("walls", "infinite but for direction 1 in one dimension", walls)
        if np.any((self.start < self.lower) | (self.start > self.upper)):
            raise validate.fail("start", f"between the walls {walls}", self.start.tolist())
        far = max(np.abs(self.start).max(), np.abs(self.start - self._origin).max())
        if far > _MAX_START * min(step.noise_std for step in self.steps):
            near = f"within {_MAX_START:g} standard deviations of a step of 0 and of the lower wall"
            raise validate.fail("start", near, self.start.tolist())
        if self.start.size == 1 and any(step.matrix[0, 0] < 0 for step in self.steps):
            raise validate.fail("slopes", "at least 0", min(s.matrix[0, 0] for s in self.steps))

    @staticmethod
    def of(process: Process, *, mirrored: bool = False) -> AffineWalk:
        """Return the walk of a process in one dimension, or its mirror image.

        Parameters
        ----------
        process : Process
            A process with one path, walls that clamp, and steps whose maps are affine with one
            slope each, such as those of `audit.constructions.TwoSidedWalk`.
        mirrored : bool, optional
            Whether to return the walk of -X.

        Returns
        -------
        AffineWalk
            The walk.

        Raises
        ------
        ValueError
            If the process is another one.
        """
        if len(process.paths) != 1:
            raise validate.fail("process", "one with a single path", len(process.paths))
        if Wall.ABSORB in (process.lower_wall, process.upper_wall):
            raise validate.fail("process", "one whose walls clamp", "an absorbing wall")
        sign = -1.0 if mirrored else 1.0
        steps = []
        for step in process.paths[0].steps():
            maps = [one for one in step.maps if isinstance(one, Affine)]
            slopes = {one.slope for one in maps}
            if isinstance(step, DependentStep) or len(maps) < len(step.maps) or len(slopes) > 1:
                raise validate.fail("process", "of affine steps with one slope each", step)
            shifts = sign * np.array([[one.shift] for one in maps])
            slope = np.array([[maps[0].slope]])
            steps.append(AffineStep(slope, shifts, np.array(step.weights), step.noise_std))
        walls = sorted((sign * process.lower, sign * process.upper))
        return AffineWalk(
            sign * np.array([process.start]), tuple(steps), np.ones(1), walls[0], walls[1]
        )

    @property
    def _origin(self) -> Array:
        """The lower wall; the start without one."""
        return np.array([self.lower]) if math.isfinite(self.lower) else self.start

    @cached_property
    def _tilts(self) -> tuple[Array, Array, Array, Array]:
        """Candidate strengths, and the theorem's slopes a, numbers b and log c for each.

        They are computed backwards from the last step; strengths are the second axis.
        """
        strengths = np.append(0.0, _TILTS / self.moments()[1])
        origin, number = self._origin, len(self.steps)
        slopes = np.zeros((number + 1, strengths.size, origin.size))
        slopes[-1] = strengths[:, None] * self.direction
        logs = np.zeros((number + 1, strengths.size))
        constants = np.full_like(logs, -math.inf)
        for k in range(number - 1, -1, -1):
            step, a = self.steps[k], slopes[k + 1]
            slopes[k] = a @ step.matrix
            moved = step.matrix @ origin - origin + step.shifts
            logs[k] = logs[k + 1] + logsumexp(a @ moved.T, b=step.weights, axis=1)
            logs[k] += 0.5 * step.noise_std**2 * np.sum(a * a, axis=1)
            constants[k] = constants[k + 1]
            if math.isfinite(self.lower) and k > 0:
                before = self.steps[k - 1]
                least = np.min((before.matrix[0, 0] - 1) * origin[0] + before.shifts)
                average = _log_average(least, slopes[k, :, 0], before.noise_std)
                lost = np.fmax(-np.expm1(average), 1e-300)  # larger constants are right, too
                constants[k] = np.logaddexp(constants[k], logs[k] + np.log(lost))
        return strengths, slopes, logs, constants

    def moments(self) -> tuple[float, float]:
        """Return mean and standard deviation of <u, X_T> without the walls.

        Returns
        -------
        mean : float
            The mean.
        std : float
            The standard deviation.
        """
        mean, covariance = self.start, np.zeros((self.start.size, self.start.size))
        for step in self.steps:
            shift = step.weights @ step.shifts
            spread = (step.shifts - shift).T @ ((step.shifts - shift) * step.weights[:, None])
            mean = step.matrix @ mean + shift
            covariance = step.matrix @ covariance @ step.matrix.T + spread
            covariance = covariance + step.noise_std**2 * np.eye(mean.size)
        u = self.direction
        return float(u @ mean), math.sqrt(float(u @ covariance @ u))

    def _log_probability_after(self, states: Array, threshold: float) -> Array:
        """Return the event's log probability after the last step, from states before it."""
        step, u = self.steps[-1], self.direction
        if threshold > self.upper:
            return np.full(len(states), -math.inf)
        at = states @ (step.matrix.T @ u)
        std = step.noise_std * float(np.linalg.norm(u))
        deviations = (at[:, None] + step.shifts @ u - threshold) / std
        return np.asarray(logsumexp(log_ndtr(deviations), b=step.weights, axis=1))


@dataclass(frozen=True, eq=False)
class Tilt:
    """A proposal that pushes a walk towards an event, with a proven maximum of its weights."""

    walk: AffineWalk
    threshold: float  # the event is <u, X_T> >= threshold
    slopes: Array  # a_0, ..., a_T, shape (T + 1, d), of the theorem in the module docstring
    logs: Array  # b_0, ..., b_T
    constants: Array  # log c_0, ..., log c_T
    largest: float  # the proven maximum W of every draw

    @staticmethod
    def of(walk: AffineWalk, threshold: float, candidate: int | None = None) -> Tilt:
        """Return the tilt with the least maximum of the weights, or one of the candidates."""
        if threshold <= walk.lower:
            raise validate.fail("threshold", f"above the lower wall ({walk.lower:g})", threshold)
        strengths, slopes, logs, constants = walk._tilts
        top = np.logaddexp(logs[0] + slopes[0] @ (walk.start - walk._origin), constants[1])
        tilt = strengths * walk.steps[-1].noise_std * np.linalg.norm(walk.direction)
        last = strengths * (threshold - walk.direction @ walk._origin)
        log_largest = top - last - 0.5 * tilt**2 + _log_greatest(tilt)
        best = int(np.argmin(log_largest)) if candidate is None else candidate
        return Tilt(
            walk=walk,
            threshold=threshold,
            slopes=slopes[:, best],
            logs=logs[:, best],
            constants=constants[:, best],
            largest=math.exp(np.clip(log_largest[best], -_MAX_LOG, _MAX_LOG)) * (1 + 1e-9),
        )

    def draw(self, number: int, seed: np.random.SeedSequence) -> BoundedDraws:
        """Draw nonnegative numbers whose mean is the probability of the event."""
        sizes = [min(_ROWS, number - start) for start in range(0, number, _ROWS)]
        streams = (np.random.default_rng(one) for one in seed.spawn(len(sizes)))
        parts = [self._block(size, rng) for size, rng in zip(sizes, streams, strict=True)]
        return BoundedDraws(np.concatenate(parts), self.largest)

    def _block(self, size: int, rng: np.random.Generator) -> Array:
        walk, origin = self.walk, self.walk._origin
        states, log_weights = np.tile(walk.start, (size, 1)), np.zeros(size)
        for k, step in enumerate(walk.steps[:-1]):
            a, c = self.slopes[k + 1], self.constants[k + 1]
            numerator = np.logaddexp(self.logs[k] + (states - origin) @ self.slopes[k], c)
            tilted = rng.random(size) >= np.exp(c - numerator)
            shifts = step.shifts[self._shift(step, a, tilted, rng)]
            means = states @ step.matrix.T + shifts
            v = means + step.noise_std * rng.standard_normal(means.shape)
            v += np.where(tilted, step.noise_std**2, 0.0)[:, None] * a
            gain = (v - origin) @ a
            below = v[:, 0] < walk.lower
            gain[below] = _log_average(means[below, 0] - walk.lower, float(a[0]), step.noise_std)
            log_weights += numerator - np.logaddexp(self.logs[k + 1] + gain, c)
            states = np.clip(v, walk.lower, walk.upper)
        return np.exp(log_weights + walk._log_probability_after(states, self.threshold))

    @staticmethod
    def _shift(step: AffineStep, a: Array, tilted: Flags, rng: np.random.Generator) -> Indices:
        """Draw the number of each path's shift, tilted by exp(<a, shift>) where asked."""
        if step.weights.size == 1:
            return np.zeros(tilted.size, dtype=np.intp)
        lots = rng.random(tilted.size)
        exponents = np.where(step.weights > 0, step.shifts @ a, -math.inf)
        chances = step.weights * np.exp(exponents - np.max(exponents))
        plain = np.searchsorted(np.cumsum(step.weights), lots, side="right")
        pushed = np.searchsorted(np.cumsum(chances / np.sum(chances)), lots, side="right")
        return np.minimum(np.where(tilted, pushed, plain), step.weights.size - 1)


def _log_greatest(tilt: Array) -> Array:
    """Return max over z of log Phi(z) - tilt z, concave, for tilts of at least 0."""

    def slope(z: Array) -> Array:
        return np.asarray(np.exp(-0.5 * z**2 - _LOG_ROOT - log_ndtr(z)) - tilt)

    low, high = np.repeat([[-300.0], [38.0]], tilt.size, axis=1)
    z = np.where(tilt > 0, decreasing_root(slope, low, high), 38.0)
    return np.asarray(log_ndtr(z) - tilt * z)


def _log_average(mean: Array, a: float | Array, std: float) -> Array:
    """Return log E[exp(a v) | v < 0] for normal v of these means."""
    z = -mean / std
    logs = a * mean + 0.5 * (a * std) ** 2 + log_ndtr(z - a * std) - log_ndtr(z)
    return np.asarray(np.minimum(logs, 0.0))


@dataclass(frozen=True)
class EventBound:
    """A lower confidence bound on epsilon from weighted draws of one event."""

    value: float  #: The bound, at least 0.
    delta: float  #: The delta.
    #: Probability with which epsilon at ``delta`` is at least the bound, in ``order``.
    confidence: float
    order: Order  #: The order of the pair.
    #: The event holds the iterates from here on, to the side that the order's first law favours.
    threshold: float
    #: Lower confidence limit of the event's probability under the order's first law.
    first_rate: float
    second_rate: float  #: Upper confidence limit of that under the second law.
    largest: tuple[float, float]  #: The proven maxima of the draws of the two laws.
    draws: int  #: Number of certifying draws of each law.


def event_epsilon(
    pair: Construction | tuple[AffineWalk, AffineWalk],
    *,
    delta: float,
    trials: int,
    confidence: float,
    seed: int,
    order: Order = Order.FORWARD,
) -> EventBound:
    """Certify epsilon of the last iterate by weighted draws, also far beyond log(trials).

    Parameters
    ----------
    pair : Construction or (AffineWalk, AffineWalk)
        A pair whose first law is pushed to the right of the second one by affine steps, such as
        `audit.constructions.TwoSidedWalk`; or two walks with one direction of the events.
    delta : float
        The delta, in [0, 1).
    trials : int
        Number of paths of each law, at least 1,000. A tenth of them chooses the event.
    confidence : float
        Confidence level of the bound, in (0, 1).
    seed : int
        Seed of the paths, a non-negative integer.
    order : Order, optional
        The order of the pair; for REVERSE of a construction the event holds low iterates.

    Returns
    -------
    EventBound
        The bound with the rates that it follows from.

    Raises
    ------
    ValueError
        If a number is out of its range, the steps of the pair are not affine, or two walks have
        different directions.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=40, dataset_size=1, batch_size=1, step_size=1.0, noise_std=1.0,
    ...                    lipschitz=0.5, diameter=20.0)
    >>> pair = audit.constructions.TwoSidedWalk(m)
    >>> found = event_epsilon(pair, delta=1e-5, trials=20_000, confidence=0.95, seed=1)
    >>> found.value > 12, found.second_rate < 1e-5  # log(20,000) is 9.9
    (True, True)
    """
    validate.half_open_unit(delta=delta)
    validate.integer(1000, trials=trials)
    validate.open_unit(confidence=confidence)
    validate.integer(0, seed=seed)
    validate.instance(Order, order=order)
    mirrored = order is Order.REVERSE and not isinstance(pair, tuple)  # whose first law is higher
    if not isinstance(pair, tuple):
        validate.instance(Construction, pair=pair)
        one, other = (AffineWalk.of(law, mirrored=mirrored) for law in pair.processes())
        pair = one, other
    validate.instance(AffineWalk, **{f"pair[{i}]": walk for i, walk in enumerate(pair)})
    directions = [walk.direction.tolist() for walk in pair]
    if directions != [directions[0]] * 2:
        raise validate.fail("pair", "two walks with one direction", directions)
    walks = pair if order is Order.FORWARD else pair[::-1]
    choosing, certifying = np.random.SeedSequence(seed).spawn(2)
    error = (1 - confidence) / 2
    pilot = round(_PILOT_SHARE * trials)
    threshold, stakes = _chosen(walks, float(delta), pilot, trials - pilot, error, choosing)
    drawn = _drawn(walks, threshold, trials - pilot, certifying)
    first = drawn[0].mean_lower(stakes[0], error)
    second = drawn[1].mean_upper(stakes[1], error)
    gap = first - delta
    return EventBound(
        value=max(0.0, math.log(gap / second)) if gap > 0 else 0.0,
        delta=float(delta),
        confidence=float(confidence),
        order=order,
        threshold=-threshold if mirrored else threshold,
        first_rate=first,
        second_rate=second,
        largest=(drawn[0].largest, drawn[1].largest),
        draws=trials - pilot,
    )


def _drawn(
    walks: tuple[AffineWalk, AffineWalk], threshold: float, size: int, seed: np.random.SeedSequence
) -> list[BoundedDraws]:
    """Draw weighted indicators of the event under both laws."""
    streams = zip(walks, seed.spawn(2), strict=True)
    return [Tilt.of(walk, threshold).draw(size, stream) for walk, stream in streams]


def _chosen(
    walks: tuple[AffineWalk, AffineWalk],
    delta: float,
    pilot: int,
    total: int,
    error: float,
    seed: np.random.SeedSequence,
) -> tuple[float, tuple[Stakes, Stakes]]:
    """Choose the threshold and the stakes by draws that certify nothing."""
    size = max(50, pilot // (_COARSE_THRESHOLDS + _FINE_THRESHOLDS))
    streams = iter(seed.spawn(_COARSE_THRESHOLDS + _FINE_THRESHOLDS))
    tried: dict[float, tuple[float, list[BoundedDraws]]] = {}

    def best(thresholds: list[float]) -> float:
        for threshold in thresholds:
            draws = _drawn(walks, threshold, size, next(streams))
            tried[threshold] = _predicted(draws, delta), draws
        return max(tried, key=lambda threshold: tried[threshold][0])

    (first, first_std), (second, second_std) = (walk.moments() for walk in walks)
    low = max(walks[1].lower, min(first, second) - second_std)
    high = min(walks[0].upper, max(first, second) + _MAX_DEVIATIONS * max(first_std, second_std))
    step = (high - low) / _COARSE_THRESHOLDS
    middle = best([low + step * (k + 1) for k in range(_COARSE_THRESHOLDS)])
    near = [middle + step * one for one in np.linspace(-1, 1, _FINE_THRESHOLDS + 2)[1:-1].tolist()]
    threshold = best([one for one in near if low < one <= high and one != middle])
    drawn = tried[threshold][1]
    return threshold, (drawn[0].stakes(total, error), drawn[1].stakes(total, error))


def _predicted(draws: list[BoundedDraws], delta: float) -> float:
    """Return a cautious estimate of log((P(S) - delta) / Q(S)); -inf without one."""
    (p, p_error), (q, q_error) = (
        (float(np.mean(one.values)), float(np.std(one.values)) / math.sqrt(one.values.size))
        for one in draws
    )
    gap, above = p - _CAUTION * p_error - delta, q + _CAUTION * q_error
    return math.log(gap / above) if gap > 0 and above > 0 else -math.inf

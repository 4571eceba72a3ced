"""Exact privacy curves of pairs, and an estimate of their computing time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import overload

import numpy as np

from audit import validate
from audit.constructions.base import Construction
from audit.constructions.explicit import ExplicitPair
from audit.constructions.process import Process, Step
from audit.constructions.updates import Affine, PiecewiseLinear, UpdateMap
from audit.exact.cell_curve import CellCurve
from audit.exact.explicit_curves import RepeatedCurve, explicit_curve
from audit.exact.law import UNIT, Law
from audit.exact.law_curve import LawCurve
from audit.exact.node_laws import computed_laws
from audit.exact.normal_laws import GaussianPairCurve, gaussian_pair, normal_law
from audit.exact.propagation import MAX_DENSE, Progress, check_domain, domain_ends
from audit.exact.staircases import is_staircase
from audit.exact.step_panels import step_panels

# Standard deviations kept of a line without walls: beyond, less than 1e-300 is lost a step.
TAIL = 38.0
# Seconds for a multiply-add of a banded operator, and blocks of nodes that one node reaches.
_BAND_COST, _BAND_WIDTH = 4e-10, 260
# Seconds for a normal after the last step, where many are written as few.
_NORMAL_COST = 5.5e-6
# Seconds between stairs: for each entry of a kernel, and of a step besides and for each entry.
_STAIRS_KERNEL, _STAIRS_STEP, _STAIRS_PRODUCT = 4.5e-7, 1.5e-4, 1.2e-9
# Steps of processes on a line, beyond which no exact law is tried.
_MAX_STEPS = 100_000


def law(process: Process, *, tail: float = TAIL, progress: Progress | None = None) -> Law:
    """Return the law of a process's last iterate.

    Parameters
    ----------
    process : Process
        Any one-dimensional process of `audit.constructions`.
    tail : float, optional
        Number of standard deviations kept of an unbounded side.
    progress : Progress, optional
        Called with (steps done, steps in total).

    Returns
    -------
    Law
        The law: a `NormalLaw`, in closed form, if the steps are affine and the domain is unbounded.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=4, dataset_size=2, batch_size=2, step_size=1.0, noise_std=0.5,
    ...                    lipschitz=1.0)
    >>> x, x_prime = audit.constructions.TwoSidedWalk(m).processes()
    >>> audit.exact.law(x).mean, audit.exact.law(x).std
    (2.0, 1.0)
    """
    validate.positive(tail=tail)
    validate.integer(1, steps=len(process))
    normal = normal_law(process)
    if normal is not None:
        return normal
    [[result]] = computed_laws([process], [len(process)], tail, 1, progress)
    return result


@overload
def curve(
    pair: Construction, *, tail: float = TAIL, threads: int = 1, progress: Progress | None = None
) -> LawCurve | GaussianPairCurve: ...
@overload
def curve(
    pair: Construction | ExplicitPair,
    *,
    tail: float = TAIL,
    threads: int = 1,
    progress: Progress | None = None,
) -> LawCurve | GaussianPairCurve | CellCurve | RepeatedCurve: ...
def curve(
    pair: Construction | ExplicitPair,
    *,
    tail: float = TAIL,
    threads: int = 1,
    progress: Progress | None = None,
) -> LawCurve | GaussianPairCurve | CellCurve | RepeatedCurve:
    """Return the exact privacy curve of a pair.

    Parameters
    ----------
    pair : Construction or ExplicitPair
        A construction whose processes share one domain, or explicit distributions, for which the
        other parameters have no effect.
    tail : float, optional
        Number of standard deviations kept of an unbounded side; the lost mass widens the bracket.
    threads : int, default: 1
        Number of laws, at most four, that are computed in parallel.
    progress : Progress, optional
        Called with (steps done, steps in total) over all laws.

    Returns
    -------
    LawCurve, GaussianPairCurve, CellCurve or RepeatedCurve
        The curve, with ``epsilon_bracket``, ``delta_bracket``, ``renyi_bracket``, ``power_bracket``
        and ``mu_bracket``. Curves of constructions hold the two laws as ``first`` and ``second``.
        Normal laws are in closed form.

    Raises
    ------
    ValueError
        If the processes have different domains.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=4, dataset_size=2, batch_size=2, step_size=1.0, noise_std=0.5,
    ...                    lipschitz=1.0)
    >>> exact = audit.exact.curve(audit.constructions.TwoSidedWalk(m))
    >>> low, high = exact.epsilon_bracket(1e-5)
    >>> round(low, 6), round(high, 6), round(exact.mu, 6)
    (24.381611, 24.381611, 4.0)
    """
    if isinstance(pair, ExplicitPair):
        return explicit_curve(pair)
    [found] = curves(pair, None, tail=tail, threads=threads, progress=progress)
    return found


def curves(
    pair: Construction,
    steps: Sequence[int] | None,
    *,
    tail: float = TAIL,
    threads: int = 1,
    progress: Progress | None = None,
) -> tuple[LawCurve | GaussianPairCurve, ...]:
    """Return the exact privacy curves after several numbers of steps, from one run.

    The datasets do not change during the run.

    Parameters
    ----------
    pair : Construction
        The construction.
    steps : sequence of int or None
        Increasing numbers of steps, at most that of the mechanism. None: every number.
    tail : float, optional
        As in `curve`.
    threads : int, default: 1
        As in `curve`.
    progress : Progress, optional
        As in `curve`.

    Returns
    -------
    tuple of LawCurve or GaussianPairCurve
        One curve per number of steps.

    Raises
    ------
    ValueError
        If the numbers of steps do not increase or are out of range, or the processes have different
        domains.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=4, dataset_size=2, batch_size=2, step_size=1.0, noise_std=0.5,
    ...                    lipschitz=1.0)
    >>> pair = audit.constructions.TwoSidedWalk(m)
    >>> [round(curve.mu, 6) for curve in audit.exact.curves(pair, (1, 4))]
    [2.0, 4.0]
    """
    validate.instance(Construction, pair=pair)
    validate.integer(1, threads=threads)
    validate.positive(tail=tail)
    processes = pair.processes()
    check_domain(processes)
    wanted = [len(processes[0])] if steps is None else [int(step) for step in steps]
    validate.integer(1, **{f"steps_{i}": step for i, step in enumerate(wanted)})
    if not wanted or sorted(set(wanted)) != wanted or wanted[-1] > len(processes[0]):
        raise ValueError(
            f"steps must rise and be at most the mechanism's {len(processes[0])}, got {steps!r}"
        )
    closed_forms = [_closed_form(processes, count) for count in wanted]
    if all(form is not None for form in closed_forms):
        return tuple(form for form in closed_forms if form is not None)
    first, second = computed_laws(processes, wanted, tail, threads, progress)
    rates = divergence_rates(*processes, wanted)
    return tuple(LawCurve(x, y, rate) for x, y, rate in zip(first, second, rates, strict=True))


def _closed_form(processes: tuple[Process, Process], steps: int) -> GaussianPairCurve | None:
    first, second = (normal_law(process.truncated(steps)) for process in processes)
    return None if first is None or second is None else gaussian_pair(first, second)


def exact_seconds(pair: Construction) -> float:
    """Estimate how long the exact laws of a pair take, in seconds; infinite where none is at hand.

    Two laws, by the band structure where the domain is long.
    """
    processes = pair.processes()
    if all(normal_law(process) is not None for process in processes):
        return 0.0
    if all(is_staircase(process) for process in processes):
        return _staircase_seconds(processes)
    endless = any(math.isinf(end) for p in processes for end in (p.lower, p.upper))
    if endless and sum(len(path) for p in processes for path in p.paths) > _MAX_STEPS:
        return math.inf  # even how far the line is needed would take long
    try:
        nodes = step_panels(processes, *domain_ends(processes, TAIL)).panels.nodes.size
    except (ValueError, MemoryError):
        return math.inf
    paths = sum(len(process.paths) for process in processes)
    steps = max(len(path) for process in processes for path in process.paths)
    maps = max(len(step.maps) for process in processes for step in process.distinct_steps())
    last = paths * maps * nodes * _NORMAL_COST if maps > 1 else 0.0
    if nodes <= MAX_DENSE:
        return last + paths * min(steps * nodes**2 * 4e-10, 40 * nodes**3 * 6e-11)
    return last + paths * steps * nodes * _BAND_WIDTH * _BAND_COST


def _staircase_seconds(processes: Sequence[Process]) -> float:
    steps = list(dict.fromkeys(step for p in processes for step in p.distinct_steps()))
    edges = np.array(max((phi.kinks for step in steps for phi in step.maps), key=len))
    reached = 2 * TAIL * max(step.noise_std for step in steps) / np.ptp(edges)
    entries = edges.size**2 * min(float(reached), 1.0)
    taken = sum(len(path) for p in processes for path in p.paths)
    maps = max(len(step.maps) for step in steps)
    each = _STAIRS_STEP + _STAIRS_PRODUCT * entries
    return _STAIRS_KERNEL * entries + taken * maps / 2 * each


def divergence_rates(first: Process, second: Process, wanted: Sequence[int]) -> list[float]:
    """Bound D_a / a of the laws after numbers of steps, for every order a, in both orders.

    A step whose updates differ by d at most, with noise of deviation s, has D_a <= a d^2 / 2 s^2,
    also if updates are drawn, by quasi-convexity; and divergences of steps add up (Mironov 2017,
    Propositions 1 and 7). It is infinite where steps do not correspond or no bound on d is known.
    """
    segments = [path.segments for process in (first, second) for path in process.paths]
    shapes = {tuple((len(s.steps), s.times) for s in part) for part in segments}
    if len(segments) == 2 and len(shapes) == 1:
        parts = zip(*segments, strict=True)
        pairs = {pair for one, other in parts for pair in zip(one.steps, other.steps, strict=True)}
    else:
        pairs = set(itertools.product(first.distinct_steps(), second.distinct_steps()))
    most = max(_rate(*pair, first) for pair in pairs)
    return [n * most for n in wanted]


def _rate(one: Step, other: Step, process: Process) -> float:
    if one.noise_std != other.noise_std:
        return math.inf
    ends = process.lower, process.upper
    distance = max(_distance(phi, psi, *ends) for phi in one.maps for psi in other.maps)
    return 0.5 * (distance / one.noise_std) ** 2 * (1 + 8 * UNIT)


def _distance(phi: UpdateMap, psi: UpdateMap, lower: float, upper: float) -> float:
    """Bound the distance of two maps on a domain; infinite unless they are piecewise linear."""
    if phi == psi:
        return 0.0
    slopes = []
    for update in (phi, psi):
        if isinstance(update, Affine):
            slopes.append((update.slope, update.slope))
        elif isinstance(update, PiecewiseLinear):
            slopes.append(update.slopes)
        else:
            return math.inf
    for end, one, other in zip((lower, upper), *slopes, strict=True):
        if math.isinf(end) and one != other:
            return math.inf
    places = np.array([p for p in (lower, upper, 0.0, *phi.kinks, *psi.kinks) if math.isfinite(p)])
    places = np.clip(places, lower, upper)
    one, other = phi(places), psi(places)
    # values of a piece are two products and two sums, of numbers as large as its ends
    size = float(np.max(np.abs(one) + np.abs(other))) + 2 * float(np.max(np.abs(places)))
    return float(np.max(np.abs(one - other))) + 8 * UNIT * size

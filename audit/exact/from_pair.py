"""Exact privacy curves of pairs, and an estimate of their computing time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import overload

import numpy as np

from audit import validate
from audit.constructions.base import Construction
from audit.constructions.explicit import ExplicitPair
from audit.constructions.process import Process
from audit.exact.cells import CellCurve
from audit.exact.explicit_curves import RepeatedCurve, explicit_curve
from audit.exact.law import Law
from audit.exact.law_curve import LawCurve
from audit.exact.noise_reach import LARGEST_REACH, needed, push_apart
from audit.exact.normal_laws import GaussianPairCurve, NormalLaw, gaussian_pair, normal_law
from audit.exact.propagation import (
    ECONOMICAL,
    LARGEST_DENSE,
    RESOLVED,
    STANDARD,
    Progress,
    Resolution,
    check_domain,
    domain_panels,
    laws_on,
    resolved_panels,
    steepest,
)
from audit.exact.staircases import is_staircase
from audit.numerics.panels import Panels

# Standard deviations kept of a line without walls: beyond, less than 1e-300 is lost a step.
TAIL = 38.0

# Steps times nodes above which the economical resolutions are taken: half a minute on one core.
_MOST_WORK = 2e7

# Below this log mass plain doubles have lost products that matter (they end at -708).
_DENSE_FLOOR = -640.0

# Seconds for a multiply-add of a banded operator, and blocks of nodes that one node reaches.
_BAND_COST, _BAND_WIDTH = 4e-10, 260

# Seconds between stairs: for each entry of a kernel, and of a step besides and for each entry.
_STAIRS_KERNEL, _STAIRS_STEP, _STAIRS_PRODUCT = 4.5e-7, 1.5e-4, 1.2e-9

# Steps of processes on a line, beyond which no exact law is tried.
_MOST_STEPS = 100_000


def law(
    process: Process,
    *,
    resolution: Resolution | None = None,
    tail: float = TAIL,
    progress: Progress | None = None,
) -> Law | NormalLaw:
    """Return the law of a process's last iterate.

    Parameters
    ----------
    process : Process
        Any one-dimensional process of `audit.constructions`.
    resolution : Resolution, optional
        Resolution of the panels; defaults to the finest that the length of the run allows.
    tail : float, optional
        Number of standard deviations kept of an unbounded side.
    progress : Progress, optional
        Called with (steps done, steps in total).

    Returns
    -------
    Law or NormalLaw
        The law: normal in closed form if the steps are affine and the domain is unbounded.

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
    chosen = resolution or _affordable([process], tail)[0]
    [[[result]]] = _converged([[process]], [chosen], tail, [len(process)], 1, progress)
    return result


@overload
def curve(
    pair: Construction,
    *,
    resolutions: tuple[Resolution, Resolution] | None = None,
    tail: float = TAIL,
    threads: int = 1,
    progress: Progress | None = None,
) -> LawCurve | GaussianPairCurve: ...
@overload
def curve(
    pair: Construction | ExplicitPair,
    *,
    resolutions: tuple[Resolution, Resolution] | None = None,
    tail: float = TAIL,
    threads: int = 1,
    progress: Progress | None = None,
) -> LawCurve | GaussianPairCurve | CellCurve | RepeatedCurve: ...
def curve(
    pair: Construction | ExplicitPair,
    *,
    resolutions: tuple[Resolution, Resolution] | None = None,
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
    resolutions : tuple of (Resolution, Resolution), optional
        A fine and a coarse resolution. Values come from the fine one, and the distance between the
        two bounds the discretisation error. Defaults to the finest that the length of the run
        allows.
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
    [found] = curves(
        pair, None, resolutions=resolutions, tail=tail, threads=threads, progress=progress
    )
    return found


def curves(
    pair: Construction,
    steps: Sequence[int] | None,
    *,
    resolutions: tuple[Resolution, Resolution] | None = None,
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
    resolutions : tuple of (Resolution, Resolution), optional
        As in `curve`.
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
    chosen = list(resolutions or _affordable(processes, tail))
    (x, y), (rough_x, rough_y) = _converged(
        [processes] * 2, chosen, tail, wanted, threads, progress
    )
    return tuple(
        LawCurve(first, second, (rough, rough_second))
        for first, second, rough, rough_second in zip(x, y, rough_x, rough_y, strict=True)
    )


def _closed_form(processes: tuple[Process, Process], steps: int) -> GaussianPairCurve | None:
    first, second = (normal_law(process.truncated(steps)) for process in processes)
    return None if first is None or second is None else gaussian_pair(first, second)


def _converged(
    groups: Sequence[Sequence[Process]],
    resolutions: Sequence[Resolution],
    tail: float,
    steps: Sequence[int],
    threads: int,
    progress: Progress | None,
) -> list[list[list[Law]]]:
    """Compute the laws of each group of processes after each number of steps, on shared panels.

    A group whose laws need more of the noise than its resolution follows is computed again with
    as much as they need.
    """
    panels = [domain_panels(g, r, tail) for g, r in zip(groups, resolutions, strict=True)]
    if list(steps) == [1]:
        panels = [resolved_panels(g, p) for g, p in zip(groups, panels, strict=True)]
    reaches = [
        r.reach + push_apart(g, p) for g, r, p in zip(groups, resolutions, panels, strict=True)
    ]
    reaches = [min(reach, LARGEST_REACH) for reach in reaches]
    results: dict[tuple[int, int], list[Law]] = {}
    jobs = [(k, i) for k, group in enumerate(groups) for i in range(len(group))]
    total = steps[-1] * sum(len(groups[k][i].paths) for k, i in jobs)
    done = dict.fromkeys(jobs, 0)

    def one(job: tuple[int, int]) -> list[Law]:
        k, i = job
        resolution = replace(resolutions[k], reach=reaches[k])

        def report(now: int, _: int) -> None:
            done[job] = now
            if progress is not None:
                progress(sum(done.values()), total)

        return laws_after(groups[k][i], panels[k], resolution, steps, report)

    pending = jobs
    with contextlib.ExitStack() as stack:
        # one thread needs no pool, and an interrupt then need not wait for its end
        mapped = stack.enter_context(ThreadPoolExecutor(threads)).map if threads > 1 else map
        while pending:
            results.update(zip(pending, mapped(one, pending), strict=True))
            short = set()
            for k in {k for k, _ in pending}:
                laws = [results[k, i] for i in range(len(groups[k]))]
                reach = _lacking(laws, groups[k], resolutions[k].reach)
                if reach is not None:
                    reaches[k] = reach
                    short.add(k)
            pending = [job for job in jobs if job[0] in short]
    if list(steps) == [1]:  # both resolutions are as good: their distance does not show the error
        results = {
            job: [replace(law, relative_error=law.relative_error + RESOLVED) for law in laws]
            for job, laws in results.items()
        }
    return [[results[k, i] for i in range(len(group))] for k, group in enumerate(groups)]


def _lacking(
    laws: Sequence[Sequence[Law]], processes: Sequence[Process], margin: float
) -> float | None:
    """Return the reach that laws need, with ``margin`` around, where they were not given it."""
    edges = laws[0][0].panels.edges
    slope: float | None = None
    lacking = None
    for group in zip(*laws, strict=True):
        given = min(law.reach for law in group)
        if math.isinf(given):
            continue
        slope = steepest(processes, edges[0], edges[-1]) if slope is None else slope
        need = needed(group, processes, slope)
        if need + margin - 1 > given:
            if given >= LARGEST_REACH:
                std = min(step.noise_std for p in processes for step in p.distinct_steps())
                raise ValueError(
                    "noise_std must be larger for computed laws: they are over "
                    f"{LARGEST_REACH - margin + 1:.3g} noise deviations apart after one step, "
                    f"got a step with {std:g}"
                )
            lacking = max(lacking or 0.0, min(need + margin, LARGEST_REACH))
    return lacking


def laws_after(
    process: Process,
    panels: Panels,
    resolution: Resolution,
    steps: Sequence[int],
    progress: Progress | None = None,
) -> list[Law]:
    """Compute laws after numbers of steps; with exponents for each panel where doubles underflow.

    The reach is taken as it is given.
    """
    laws = laws_on(process, panels, resolution, steps=steps, progress=progress)
    if is_staircase(process):
        return laws
    dense = [law for law, n in zip(laws, steps, strict=True) if n > 1 and math.isinf(law.reach)]
    if any(law.least < _DENSE_FLOOR for law in dense):
        laws = laws_on(process, panels, resolution, steps=steps, progress=progress, banded=True)
    return laws


def _affordable(processes: Sequence[Process], tail: float) -> tuple[Resolution, Resolution]:
    nodes = domain_panels(processes, STANDARD[0], tail).nodes.size
    work = nodes * sum(len(process) * len(process.paths) for process in processes)
    return STANDARD if nodes <= LARGEST_DENSE or work <= _MOST_WORK else ECONOMICAL


def exact_seconds(pair: Construction) -> float:
    """Estimate how long the exact laws of a pair take, in seconds; infinite where none is at hand.

    The four laws of a bracket, by the band structure where the domain is long.
    """
    processes = pair.processes()
    if all(normal_law(process) is not None for process in processes):
        return 0.0
    if all(is_staircase(process) for process in processes):
        return _staircase_seconds(processes)
    endless = any(math.isinf(end) for p in processes for end in (p.lower, p.upper))
    if endless and sum(len(path) for p in processes for path in p.paths) > _MOST_STEPS:
        return math.inf  # even how far the line is needed would take long
    try:
        nodes = domain_panels(processes, STANDARD[0], TAIL).nodes.size
    except (ValueError, MemoryError):
        return math.inf
    paths = sum(len(process.paths) for process in processes)
    steps = max(len(path) for process in processes for path in process.paths)
    if nodes <= LARGEST_DENSE:
        return 2 * paths * min(steps * nodes**2 * 4e-10, 40 * nodes**3 * 6e-11)
    return 2 * paths * steps * nodes * _BAND_WIDTH * _BAND_COST


def _staircase_seconds(processes: Sequence[Process]) -> float:
    steps = list(dict.fromkeys(step for p in processes for step in p.distinct_steps()))
    edges = np.array(max((phi.kinks for step in steps for phi in step.maps), key=len))
    reached = 2 * TAIL * max(step.noise_std for step in steps) / np.ptp(edges)
    entries = edges.size**2 * min(float(reached), 1.0)
    taken = sum(len(path) for p in processes for path in p.paths)
    maps = max(len(step.maps) for step in steps)
    each = _STAIRS_STEP + _STAIRS_PRODUCT * entries
    return _STAIRS_KERNEL * entries + taken * maps / 2 * each

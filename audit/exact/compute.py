"""From a construction to its exact privacy curve."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from audit import validate
from audit.constructions.base import Construction
from audit.constructions.process import Process
from audit.exact.curve import LawCurve
from audit.exact.gaussian import GaussianPairCurve, NormalLaw, gaussian_pair, normal_law
from audit.exact.law import Law
from audit.exact.transfer import (
    ECONOMICAL,
    LARGEST_DENSE,
    STANDARD,
    Progress,
    Resolution,
    domain_panels,
    law_on,
)
from audit.numerics.panels import Panels

# Standard deviations kept of a line without walls: beyond, less than 1e-300 is lost a step.
TAIL = 38.0


# Steps times nodes above which the economical resolutions are taken: half a minute on one core.
_MOST_WORK = 2e7


def law(
    process: Process,
    *,
    resolution: Resolution | None = None,
    tail: float = TAIL,
    progress: Progress | None = None,
) -> Law | NormalLaw:
    """Compute the law of a process's last iterate.

    Parameters
    ----------
    process
        Any one-dimensional process of `audit.constructions`.
    resolution
        How finely; by default as fine as the length of the run allows.
    tail
        Standard deviations that are kept of an unbounded side.
    progress
        Called with (steps done, steps in all).
    """
    validate.positive(tail=tail)
    normal = normal_law(process)
    if normal is not None:
        return normal
    chosen = resolution or _affordable([process], tail)[0]
    return _law(process, domain_panels([process], chosen, tail), chosen, progress)


def curve(
    pair: Construction,
    *,
    resolutions: tuple[Resolution, Resolution] | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> LawCurve | GaussianPairCurve:
    """Compute the exact privacy curve of a construction's last iterates.

    Parameters
    ----------
    pair
        The construction; both of its processes must live on one domain.
    resolutions
        The fine one, whose values are returned, and a coarser one, from whose distance the
        bracket takes the discretisation error; by default as fine as the run's length allows.
    threads
        How many of the four laws may be computed side by side.
    progress
        Called with (steps done, steps in all) over all laws.

    Returns
    -------
    LawCurve or GaussianPairCurve
        With ``epsilon_bracket``, ``delta_bracket``, ``renyi_bracket``, and the two laws as
        ``first`` and ``second``. The closed form is taken where the laws are normal.

    Raises
    ------
    ValueError
        If the processes have different domains.
    """
    validate.instance(Construction, pair=pair)
    validate.integer(1, threads=threads)
    processes = pair.processes()
    normal = [normal_law(process) for process in processes]
    if normal[0] is not None and normal[1] is not None:
        closed_form = gaussian_pair(normal[0], normal[1])
        if closed_form is not None:
            return closed_form
    jobs = []
    for resolution in resolutions or _affordable(processes, TAIL):
        panels = domain_panels(processes, resolution, TAIL)
        jobs += [(process, panels, resolution) for process in processes]
    total = sum(len(process) * len(process.paths) for process, _, _ in jobs)
    done = [0] * len(jobs)

    def one(index: int) -> Law:
        process, panels, resolution = jobs[index]

        def report(steps: int, _: int) -> None:
            done[index] = steps
            if progress is not None:
                progress(sum(done), total)

        return _law(process, panels, resolution, report)

    with ThreadPoolExecutor(threads) as pool:
        laws = list(pool.map(one, range(len(jobs))))
    return LawCurve(laws[0], laws[1], (laws[2], laws[3]))


def _law(
    process: Process, panels: Panels, resolution: Resolution, progress: Progress | None
) -> Law:
    """Compute a law; once more with exponents for each panel where plain doubles underflow."""
    result = law_on(process, panels, resolution, progress)
    if np.isneginf(result.state.log_values).any():
        result = law_on(process, panels, resolution, progress, banded=True)
    return result


def _affordable(processes: Sequence[Process], tail: float) -> tuple[Resolution, Resolution]:
    nodes = domain_panels(processes, STANDARD[0], tail).nodes.size
    work = nodes * sum(len(process) * len(process.paths) for process in processes)
    return STANDARD if nodes <= LARGEST_DENSE or work <= _MOST_WORK else ECONOMICAL

"""Laws of processes: densities on panels before the last step, normals after it.

Every error is a bound: that of quadrature by `audit.exact.step_panels`, that of rounding by
counting.

A computed kernel differs from the true one by factors 1 + e with |e| <= u (c + c' x^2/2 + g |x|),
x the noise in standard deviations, u the unit roundoff and g the rounding of positions. Along the
paths that lead to a place of density p, the mean of the sum of x^2/2 over T steps is at most
T log 2 + 2 log(1/p), by the inequality of Donsker and Varadhan (the mean of e^(x^2/4) is sqrt 2).
With the computed and the true kernels in either role, both ratios of densities are bounded by it.

Long intervals are computed by bands: noise beyond R deviations is left out. It has less than
2 Phi(-R) of the mass of each step, which is counted as lost. R is raised until what is lost is far
below the laws wherever one of them matters.

Laws of many normals are then written as laws of few: the same law but for a proven relative error.

Let s be the smallest deviation of a law's normals. Noise of variance v >= s^2 is noise of variance
v - s2^2 and then noise of variance s2^2 = 3/4 s^2. With g the density after the first part, the
density at z is the integral of F(u) = g(u) phi((z - u)/s2)/s2. Put 1/c^2 = 1/s1^2 + 1/s2^2, with
s1^2 = s^2 - s2^2 the least variance of a normal of g.

- |F(u + it)| <= e^(t^2/2c^2) F(u), so that F is at most e^(b^2/2c^2) F* on an ellipse with the
  half-axis b (`audit.numerics.panels.log_panel_error`), with F* the maximum of F: beyond all means
  and z, F falls outward.
- (log F)'' >= -1/c^2, so that the integral is at least F* c sqrt(2 pi) but for the cut.
- Given z and the normal that leads there, u is normal with a mean between theirs and a deviation of
  at most s1 sqrt(3)/2 for each s1 of a normal. Cut 10 s1 beyond all of them, the integral loses a
  share of at most 2 Phi(-11), below 1e-27.

Values z are those between two walls, and 12 deviations past a wall: less than e^-72 of an end's
mass is farther out. On a line they are within 39 deviations of all means; e^-760 is farther out,
and lost.

Errors of rounding depend on how far the noise went, and on log g. Given z, the mean of -log of a
node's mass is at most -log p(z) and the log of the number of nodes, the largest entropy; squared
distances are bounded as in the second paragraph.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from audit.constructions.process import Path, Process, split
from audit.constructions.updates import UpdateMap
from audit.exact.law import UNIT, WINDOW, Law, edge_table
from audit.exact.propagation import Count, Progress, Reached, Runner, domain_ends
from audit.exact.staircases import is_staircase, staircase_laws
from audit.exact.step_panels import REACH, StepPanels, step_panels
from audit.exact.transfer import MEMORY_ERROR
from audit.numerics.arrays import Array
from audit.numerics.log_sums import log_sum
from audit.numerics.panels import Panels, ellipse, log_panel_error

# Standard deviations of a step's noise that are followed at most: over two panels the noise's
# density then falls by e^680, and products within a block of the operator underflow.
MAX_REACH = 83.0
# Nodes times steps of long laws, with the reach at first and the log density from which on laws
# matter, times a deviation: all that doubles hold where it costs little, else 1e-130.
_LONG_RUN, _FIRST_REACH, _FIRST_LONG_REACH = 3e6, (40.0, -690.0), (27.0, -300.0)
# Margin of the lost mass below the laws where they matter, in logarithms.
_LOG_MARGIN = 40.0
Normals = dict[tuple[UpdateMap, float, bool], Array]  # log masses by map, noise, whether at start


def computed_laws(
    processes: Sequence[Process],
    wanted: Sequence[int],
    tail: float,
    threads: int,
    progress: Progress | None,
) -> list[list[Law]]:
    """Return the laws of each process after numbers of steps, which rise.

    Processes share their domain; ``tail`` is what is kept of an unbounded side.
    """
    if all(is_staircase(process) for process in processes):
        return [staircase_laws(process, wanted) for process in processes]
    lower, upper = domain_ends(processes, tail)
    panels = step_panels(processes, lower, upper)
    # the last step leads to normals
    total = (wanted[-1] - 1) * sum(len(process.paths) for process in processes)
    done = [0] * len(processes)
    long = panels.panels.nodes.size * wanted[-1] > _LONG_RUN
    (reach, relevant), banded = _FIRST_LONG_REACH if long else _FIRST_REACH, False
    # how far long laws must be followed shows with few nodes
    few = replace(panels, panels=Panels(panels.panels.edges, panels.panels.order * 3 // 8))
    levels = [few, panels] if long else [panels]

    def one(index: int) -> list[Law]:
        def count(steps: int) -> None:
            done[index] += steps
            if progress is not None:
                progress(sum(done), total)

        done[index] = 0
        return _ProcessLaws(processes[index], levels[0], reach, banded, count).after(wanted)

    with contextlib.ExitStack() as stack:
        # one thread needs no pool, and an interrupt then need not wait for its end
        mapped = stack.enter_context(ThreadPoolExecutor(threads)).map if threads > 1 else map
        before = math.inf
        while True:
            laws = list(mapped(one, range(len(processes))))
            need = max(_lacking(group, relevant) for group in zip(*laws, strict=True))
            lost = max(law.log_lost for group in laws for law in group)
            # what is lost beyond the cut of a line does not depend on the reach
            if need <= 0 or lost > before - 1 or (banded and reach >= MAX_REACH):
                if len(levels) == 1:
                    return laws  # what is lost shows in the brackets
                levels.pop(0)
                before = math.inf
                continue
            before = lost
            if banded:
                raised = math.sqrt(reach**2 + 2 * need) + 0.5
            else:  # noise to follow instead of doubles that underflow
                least = min(law.log_lost for group in laws for law in group)
                raised = math.sqrt(2 * max(need - least, 0.0)) + 1
            reach, banded = min(max(raised, reach + 1), MAX_REACH), True


def _lacking(laws: Sequence[Law], relevant: float) -> float:
    """Return by how much the log of lost mass must fall to be far below laws that matter."""
    lost = max(law.log_lost for law in laws)
    if lost == -math.inf or not all(law.means.size for law in laws):
        return 0.0
    std = min(law.narrowest for law in laws)
    low = min(float(law.means[0]) for law in laws)
    high = max(float(law.means[-1]) for law in laws)
    low, high = max(low, laws[0].lower), min(high, laws[0].upper)
    points = np.linspace(low, high, max(math.ceil((high - low) / std), 2))
    tables = [edge_table(law, points, tails=False) for law in laws]
    logs = np.stack([table.log_density for table in tables]) + math.log(std)
    matter = logs.max(axis=0) > relevant
    return float(np.max(lost + _LOG_MARGIN - logs[:, matter], initial=0.0))


class _ProcessLaws:
    """The laws of one process."""

    def __init__(
        self, process: Process, panels: StepPanels, reach: float, banded: bool, count: Count
    ) -> None:
        self.process, self.step_panels, self.panels = process, panels, panels.panels
        self.runner = Runner(process, self.panels, reach, banded, count)
        edges = self.panels.edges
        self.places = np.concatenate([edges[:1], self.panels.nodes.ravel(), edges[-1:]])

    def after(self, wanted: Sequence[int]) -> list[Law]:
        """Return the laws after numbers of steps."""
        runs = [self._run(path, wanted) for path in self.process.paths]
        return [self._law(n, [run[k] for run in runs]) for k, n in enumerate(wanted)]

    def _run(self, path: Path, wanted: Sequence[int]) -> list[Reached | None]:
        """Return the densities before the last step of each number of steps."""
        before = [min(n, len(path)) - 1 for n in wanted]
        counts = sorted({n for n in before if n > 0})
        found = dict(zip(counts, self.runner.run(path, counts), strict=True)) if counts else {}
        return [found.get(n) for n in before]

    def _law(self, steps: int, reached: list[Reached | None]) -> Law:
        normals: Normals = {}
        stuck = np.full(2, -np.inf)
        for path, before in zip(self.process.paths, reached, strict=True):
            if path.probability == 0:
                continue
            last = split(path.segments, min(steps, len(path)) - 1)[1][0].steps[0]
            share = math.log(path.probability)
            if any(self.runner.stuck):
                stuck = np.logaddexp(stuck, np.where(self.runner.stuck, share, -np.inf))
            else:
                masses = {0: np.zeros(1)} if before is None else self._masses(before, share, stuck)
                for memory, logs in masses.items():
                    for phi, weight, _ in last.transitions(memory):
                        if weight > 0:
                            key = phi, last.noise_std, before is None
                            added = logs + math.log(weight) + share
                            normals[key] = np.logaddexp(normals.get(key, -np.inf), added)
        none, start = np.zeros(0), np.array([self.process.start])
        images = [phi(start if first else self.places) for phi, _, first in normals]
        means = np.concatenate([none, *images])
        stds = np.repeat([std for _, std, _ in normals], [image.size for image in images])
        logs = np.concatenate([none, *normals.values()])
        counted = max([r.counted for r in reached if r is not None], default=0.0)
        cut = np.isinf([self.process.lower, self.process.upper])
        low, high = np.where(cut, -np.inf, stuck).tolist()
        law = Law.of(
            means,
            stds,
            logs,
            lower=self.process.lower,
            upper=self.process.upper,
            log_stuck=(low, high),
            quadrature=counted * self.step_panels.error,
            log_lost=self._log_lost(steps, stuck[cut]),
            estimated=counted > 0 and not self.step_panels.proven,
            **self._rounding(counted),
        )
        return condensed(law)

    def _masses(self, before: Reached, share: float, stuck: Array) -> dict[int, Array]:
        """Return log masses at the places by memory; those of absorbing ends go to ``stuck``."""
        masses = {}
        for memory, state in before.states.items():
            inner = (state.log_values + np.log(self.panels.weights)).ravel()
            logs = np.concatenate([state.log_atoms[:1], inner, state.log_atoms[1:]])
            for side, absorbing in zip((0, -1), self.runner.absorbing, strict=True):
                if absorbing:
                    stuck[side] = np.logaddexp(stuck[side], share + logs[side])
                    logs[side] = -np.inf
            masses[memory] = logs
        return masses

    def _rounding(self, counted: float) -> dict[str, float]:
        std = min(step.noise_std for step in self.process.distinct_steps())
        farthest = float(np.max(np.abs(self.panels.edges)))
        shared = not self.runner.dense  # blocks of one place stand for all
        position = (16 if shared else 4) * UNIT * (1 + farthest / std)
        square = 8 * UNIT + position
        each = UNIT * (self.runner.terms + 16 + 4 * len(self.process.paths)) + 0.5 * position
        total = counted * (each + square * math.log(2))
        if counted > 0 and self.runner.dense:
            total += 4 * MEMORY_ERROR
        return {"rounding": total, "depth_rounding": 2 * square if counted else 0.0}

    def _log_lost(self, steps: int, beyond: Array) -> float:
        """Log of a bound on all mass that was left out; ``beyond`` is past the ends of a line."""
        parts = beyond.tolist()
        if steps > 1 and not any(self.runner.stuck):
            parts.append(math.log(4 * steps) - 0.5 * REACH**2)
            if not self.runner.dense:
                reach = self.runner.reach
                parts.append(math.log(4 * steps) - 0.5 * reach**2 - math.log(reach))
            elif self.runner.underflows:
                tiny = math.log(np.finfo(np.float64).tiny)
                parts.append(tiny + math.log(self.places.size**2 * steps))
        return float(log_sum(np.array(parts))) if parts else -math.inf


# Variance of the second part, of the smallest; nodes of a panel, and its width over c.
_VARIANCE_SHARE, _NODES, _WIDTH = 0.75, 24, 6.0
_CUT_DEVIATIONS, _WALL_DEVIATIONS, _LOST_SHARE = 10.0, 12.0, 1e-27
_RHOS = np.geomspace(1.5, 30.0, 60)
# Laws with fewer normals for each node are left as they are.
_MIN_RATIO = 4


def condensed(law: Law) -> Law:
    """Return a law of as few normals as its density needs, or the law itself."""
    if law.means.size == 0 or law.exact:
        return law
    std, widest = law.narrowest, float(law.stds.max())
    second = math.sqrt(_VARIANCE_SHARE) * std
    firsts = np.sqrt(law.stds**2 - second**2)
    both = second * math.sqrt(1 - _VARIANCE_SHARE)  # c, with s1 = s/2
    reach = _CUT_DEVIATIONS * float(firsts.max())
    ends = float(law.means[0]), float(law.means[-1])
    low, high = ends[0] - WINDOW * widest - reach, ends[1] + WINDOW * widest + reach
    lost = law.log_lost
    if math.isfinite(law.lower):
        low = min(ends[0], law.lower) - _WALL_DEVIATIONS * widest - reach
    if math.isfinite(law.upper):
        high = max(ends[1], law.upper) + _WALL_DEVIATIONS * widest + reach
    if not (math.isfinite(law.lower) and math.isfinite(law.upper)):
        lost = float(np.logaddexp(lost, -0.5 * WINDOW**2))
    panels = Panels.covering(low, high, _WIDTH * both, _NODES)
    nodes = panels.nodes.ravel()
    if law.means.size < _MIN_RATIO * nodes.size:
        return law
    first = replace(law, stds=firsts)
    weights = panels.weights.ravel()
    logs = edge_table(first, nodes, tails=False).log_density + np.log(weights)
    width = float(np.diff(panels.edges).max())
    growth = ellipse(width, _RHOS)[1] ** 2 / (2 * both**2)
    panel = math.exp(float(log_panel_error(_NODES, width, _RHOS, growth).min())) / (2.5 * both)
    position = first.position_error
    size = 15 + abs(math.log(second)) + float(np.abs(np.log(weights)).max()) + math.log(nodes.size)
    return replace(
        law,
        means=nodes,
        stds=np.full(nodes.size, second),
        log_masses=logs,
        log_lost=lost,
        quadrature=law.quadrature + (len(panels) * panel + _LOST_SHARE),
        rounding=law.rounding + UNIT * (32 + 6 * math.log(2) + 2 * size) + 3 * position,
        depth_rounding=law.depth_rounding + 14 * UNIT + position,
    )

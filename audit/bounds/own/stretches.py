"""Stretches: consecutive steps that the coupling recursion treats as one.

A stretch has the parameters of one step, (c, v, s). From distance r, with shared noise and no
walls, the distance is c r + v at its end. Merging q steps of one kind gives c' = c^q,
v' = v (1 + c + ... + c^(q-1)) and s'^2 = s^2 (1 + c^2 + ... + c^(2(q-1))). Parallel moves and
shifted reflection remain ("Merged steps" of "Our own theorems" in the documentation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from audit.bounds.accounting.shift_allocation import geometric
from audit.bounds.own.landing import Landing, landing
from audit.bounds.own.parallel_moves import taut_string
from audit.bounds.own.run import WorstRun

_WEAK, _STRONG = 0.5, 1.5  # A = v D/s^2, v the mean push
_MOST_ALONE = 16  # sampled steps that are also taken one at a time
_FEWEST_MERGED = 4  # fewer gain little for moderate pushes, and are taken one at a time


@dataclass(frozen=True)
class Stretch:
    """Parameters of a stretch.

    count: Number q of steps.
    contraction, shift, noise: Parameters c', v' and s'.
    meetings, period: Number of uses of the record, and steps per use; period 1 for every step or
        none.
    rate: Probability that the record is in the batch; 1 for fixed batches. If it is below 1, the
        shift is that of one meeting, and ``meetings`` does not count.
    ratio: Parameter v/s of one step on sampled batches.
    """

    count: int
    contraction: float
    shift: float
    noise: float
    meetings: int = 1
    period: int = 1
    rate: float = 1.0
    ratio: float = 0.0

    @property
    def merged(self) -> bool:
        """True for a stretch of more than one step."""
        return self.count > 1

    @property
    def step_noise(self) -> float:
        """Noise s of one step."""
        log_c = math.log(self.contraction) / self.count if self.contraction > 0 else -700.0
        return self.noise / math.sqrt(float(geometric(2 * log_c, self.count)))

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
        if self.period == 1 or self.meetings == 0:
            return total / self.noise
        # the end of the stretch and what is just before each use, as shares of all the noise
        log_c = math.log(self.contraction) / self.count
        cycle, noise = log_c * self.period, float(geometric(2 * log_c, self.count))
        one = self.shift / float(geometric(cycle, self.meetings))
        points = []
        for j in range(1, self.meetings + 1):
            done = j * self.period - 1
            kept = math.exp(2 * log_c * (self.count - done)) * float(geometric(2 * log_c, done))
            pushed = math.exp(cycle * (self.meetings - j + 1)) * float(geometric(cycle, j - 1))
            points.append((kept / noise, self.contraction * start + one * pushed))
        return math.sqrt(taut_string([*points, (1.0, total)])) / self.noise


def _repeated(run: WorstRun, count: int, shift: float, meetings: int) -> Stretch:
    """Merge ``count`` steps, each with the same shift."""
    log_c = run.log_contraction
    return Stretch(
        count,
        run.contraction**count,
        shift * float(geometric(log_c, count)),
        run.noise * math.sqrt(float(geometric(2 * log_c, count))),
        meetings=meetings,
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
    length = run.period
    if run.rate < 1:
        several = replace(
            _repeated(run, merged, run.shift, 1),
            shift=run.shift,
            rate=run.rate,
            ratio=run.ratio,
        )
        single = Stretch(1, run.contraction, run.shift, run.noise, rate=run.rate, ratio=run.ratio)
        # for weak pushes single steps gain little and take most of the time
        strength = run.rate * run.shift * run.diameter / run.noise**2
        if merged == 1 or (merged < _FEWEST_MERGED and _WEAK < strength <= _STRONG):
            return ((single,),)
        alone = merged <= _MOST_ALONE and strength > _WEAK
        return ((several,), (single,) * merged) if alone else ((several,),)
    if length == 1:
        return ((_repeated(run, merged, run.shift, 1),),)
    whole = _cycles(run, max(merged // length, 1))
    if merged >= length:
        return ((whole,),)
    idle = length - 1
    parts = -(-idle // merged)
    counts = [(idle + k) // parts for k in range(parts)]
    divided = (
        _repeated(run, 1, run.shift, 1),
        *(_repeated(run, count, 0.0, 0) for count in counts),
    )
    small = whole.noise <= widest and run.gap * length < 1
    return (divided, (whole,)) if small else (divided,)


def _cycles(run: WorstRun, cycles: int) -> Stretch:
    """Merge whole cycles, each of which ends with the record."""
    once = _repeated(run, cycles * run.period, 0.0, cycles)
    log_c = run.log_contraction
    shift = run.shift * float(geometric(log_c * run.period, cycles))
    return replace(once, shift=shift, period=run.period)

"""Verdicts and series of studies that compare closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from audit import bounds, validate
from audit.mechanism import NoisySGD
from audit.results import Drawn, Series, Verdict

SAME = 1e-9  # relative error that two closed forms of one number may differ by


def checked_times(times: Sequence[int]) -> None:
    """Raise ``ValueError`` unless ``times`` are rising whole numbers of at least 1."""
    validate.integer(1, **{f"times[{i}]": time for i, time in enumerate(times)})
    if len(times) < 2 or list(times) != sorted(set(times)):
        raise validate.fail("times", "two or more rising whole numbers", tuple(times))


def renyi(id: str, mechanism: NoisySGD, order: float) -> float:
    """Return the bound of a catalogue entry at a Renyi order."""
    return float(bounds.evaluate(id, mechanism).renyi(order))


def over_times(
    id: str, mechanism: NoisySGD, order: float, times: Sequence[int]
) -> tuple[float, ...]:
    """Return the bound of a catalogue entry at a Renyi order after each number of steps."""
    return tuple(renyi(id, replace(mechanism, steps=time), order) for time in times)


def line(
    name: str, times: Sequence[float], values: Sequence[float], drawn: Drawn = Drawn.LINE
) -> Series:
    """Return a named series over times."""
    return Series(name=name, x=tuple(float(t) for t in times), y=tuple(values), drawn=drawn)


def knee(loss: Callable[[int], float], late: int) -> float:
    """Return where the straight line of the first steps meets the value at a late time.

    For a loss that grows linearly and then is constant it is the time where that changes.
    """
    first, second = loss(1), loss(2)
    if second == first:  # flat from the first step on
        return 1.0
    return 1 + (loss(late) - first) / (second - first)


def computed(true: bool) -> Verdict:
    """Return the verdict on what was computed in full: HOLDS, or REFUTED.

    Every case of the claim, or an identity up to rounding. What a few cases failed to refute is
    `Verdict.unless`.
    """
    return Verdict.HOLDS if true else Verdict.REFUTED


def shown(seen: bool) -> Verdict:
    """Return the verdict on a claim that something exists or occurs: HOLDS, or INCONCLUSIVE.

    A pair that does not show it, or a run that is too short, does not contradict it.
    """
    return Verdict.HOLDS if seen else Verdict.INCONCLUSIVE


def compared(refuted: bool, seen: bool) -> Verdict:
    """Return the verdict on a strict comparison in a few cases: CONSISTENT where it is seen."""
    if refuted:
        return Verdict.REFUTED
    return Verdict.CONSISTENT if seen else Verdict.INCONCLUSIVE


def close(found: float, expected: float) -> bool:
    """Whether two numbers agree up to rounding."""
    return math.isclose(found, expected, rel_tol=SAME)


def short(value: float, digits: int = 6) -> str:
    """Format a number with at most ``digits`` digits: ``1e-5``, not ``1e-05``."""
    mantissa, mark, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else mantissa

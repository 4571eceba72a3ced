"""Questions that tables, figures and sentences ask of a result: what is refuted, what stands."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from audit.results import (
    AtDelta,
    AtOrder,
    BoundRow,
    PairResult,
    PositionAtDelta,
    SettingResult,
    Statement,
    StudyResult,
    UserMechanismResult,
    Value,
    Verdict,
)

ComparedResult = PairResult | UserMechanismResult
"""A setting that compares lower and upper bounds on epsilon."""
_LARGEST = sys.float_info.max
_FIGURES = ("laws", "tradeoff", "steps", "renyi", "positions", "scores")  # of one of them


@dataclass(frozen=True)
class ClaimedBound:
    """A bound that applies at one delta of one setting."""

    setting: ComparedResult
    row: AtDelta
    bound: BoundRow
    epsilon: float


def title(setting: SettingResult) -> str:
    """Return the title of a setting, or its name where it has none."""
    return setting.title or setting.name


def with_stems(settings: Sequence[SettingResult]) -> list[tuple[SettingResult, str]]:
    """Return each setting with its stem, which begins its anchor and figures, no two alike."""
    taken: dict[str, SettingResult] = {}
    figures: set[str] = set()
    for setting in settings:
        names: Sequence[str] = _FIGURES
        if isinstance(setting, StudyResult):
            names = [chart.name for chart in setting.findings.charts]
        for stem in file_names(setting.name):
            own = {f"{stem}-{name}" for name in names}
            if stem not in taken and not own & figures:
                break
        taken[stem] = setting
        figures |= own
    return [(setting, stem) for stem, setting in taken.items()]


def file_names(name: str) -> Iterator[str]:
    """Yield a name without the letters that file names lack, then with numbers after it."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "setting"
    yield name
    yield from (f"{name}-{number}" for number in itertools.count(2))


def compared(settings: Sequence[SettingResult]) -> list[ComparedResult]:
    """Return the settings that compare epsilons; a study has none to compare."""
    return [setting for setting in settings if not isinstance(setting, StudyResult)]


def pair_results(settings: Sequence[SettingResult]) -> list[PairResult]:
    """Return the settings whose pair is known."""
    return [setting for setting in settings if isinstance(setting, PairResult)]


def studies(settings: Sequence[SettingResult]) -> list[StudyResult]:
    """Return the studies."""
    return [setting for setting in settings if isinstance(setting, StudyResult)]


def statements(settings: Sequence[SettingResult]) -> list[tuple[StudyResult, Statement]]:
    """Return the statements of all studies, in their order, each with its study."""
    return [(study, one) for study in studies(settings) for one in study.findings.statements]


def found(
    expected: Value | None, value: Value | None, verdict: Verdict, write: Callable[[Any], str]
) -> str:
    """Return what was found, written so that it differs from the value that it refutes.

    An audit that stops as soon as a claim is refuted finds barely more than the claim.
    """
    text, numbers = write(value), as_numbers(expected, value)
    if verdict is not Verdict.REFUTED or not numbers:
        return text
    sign, shown = (-1, "<") if numbers[1] < numbers[0] else (1, ">")
    told_apart = sign * float(text) > sign * float(write(expected))
    return text if told_apart else f"{shown} {text}"


def as_numbers(*values: Any) -> tuple[float, ...]:
    """Return values as doubles; nothing where one is infinite, too large, or no number."""
    numeric = all(type(value) in (int, float) and abs(value) <= _LARGEST for value in values)
    return tuple(map(float, values)) if numeric else ()


def judged(settings: Sequence[SettingResult]) -> list[ClaimedBound]:
    """Return every bound that applies, with its delta and setting."""
    return [
        ClaimedBound(setting, row, bound, epsilon)
        for setting in compared(settings)
        for row in setting.deltas
        for bound, epsilon in applied(row)
    ]


def applied(row: AtDelta) -> list[tuple[BoundRow, float]]:
    """Return the bounds that apply at one delta, with their values."""
    known = [(bound, bound.value) for bound in row.bounds if bound.value is not None]
    return [one for one in known if one[0].verdict is not Verdict.NOT_APPLICABLE]


def refuted(bounds: Sequence[BoundRow]) -> list[BoundRow]:
    """Return the refuted bounds."""
    return [bound for bound in bounds if bound.verdict is Verdict.REFUTED]


def refuted_ids(rows: Iterable[AtDelta | AtOrder | PositionAtDelta]) -> list[str]:
    """Return the ids of bounds that are refuted in some row, sorted."""
    return sorted({bound.id for row in rows for bound in refuted(row.bounds)})


def tightest(bounds: Sequence[BoundRow], best: str | None = None) -> BoundRow | None:
    """Return the tightest bound that stands and is finite.

    ``best`` names it where bounds are equal; a bound that does not stand is never returned.
    """
    standing = [
        bound
        for bound in bounds
        if bound.stands and bound.value is not None and math.isfinite(bound.value)
    ]
    named = [bound for bound in standing if bound.id == best]
    return min(named or standing, key=lambda bound: bound.value or 0.0, default=None)


def shown_claims(
    bounds: Sequence[BoundRow], best: str | None = None
) -> list[BoundRow] | list[None]:
    """Return the bounds of a table: refuted and inconclusive ones, and the tightest that stands.

    An infinite one stands for all where none is finite, as at delta = 0. The list holds None alone
    where no bound applies.
    """
    infinite = (bound for bound in bounds if bound.stands and bound.value == math.inf)
    standing = tightest(bounds, best) or next(infinite, None)
    open_ones = [bound for bound in bounds if bound.verdict is Verdict.INCONCLUSIVE]
    shown = [*refuted(bounds), *open_ones, *([standing] if standing else [])]
    return shown or [None]


def unsound(setting: ComparedResult) -> frozenset[str]:
    """Return the ids of bounds that are not proven, or refuted at some delta of the setting."""
    bounds = [bound for row in setting.deltas for bound in row.bounds]
    return frozenset(
        bound.id for bound in bounds if not bound.sound or bound.verdict is Verdict.REFUTED
    )


def refuted_orders(settings: Sequence[SettingResult]) -> list[str]:
    """Return the ids of bounds that are refuted as bounds on a Renyi divergence, sorted."""
    return refuted_ids(row for setting in pair_results(settings) for row in setting.renyi)


def refuted_positions(settings: Sequence[SettingResult]) -> list[str]:
    """Return the ids of bounds that are refuted for the records of some batch, sorted."""
    places = [place for setting in pair_results(settings) for place in setting.positions]
    return refuted_ids(row for place in places for row in place.deltas)


def strongest(row: AtDelta) -> tuple[float, str]:
    """Return the largest certain epsilon, which claims are held against, and its pair.

    The name is empty where the setting's own pair, or the user's samples, are the strongest.
    """
    certified = row.certified
    own = certified.epsilon if row.exact is None else row.exact.worst.low
    return (own, "") if certified.epsilon <= own else (certified.epsilon, certified.by)


def any_stronger(settings: Sequence[ComparedResult]) -> bool:
    """Return whether another pair than a setting's own is the strongest somewhere."""
    return any(strongest(row)[1] for setting in settings for row in setting.deltas)


def bound_ids(settings: Sequence[SettingResult]) -> list[str]:
    """Return the ids of all bounds that have a number somewhere, sorted."""
    found = {claim.bound.id for claim in judged(settings)}
    for setting in pair_results(settings):
        found |= {curve.id for curve in setting.tradeoff.bounds}
        found |= {curve.id for curve in setting.epsilon_against_steps.bounds}
        found |= {bound.id for row in setting.renyi for bound in row.bounds}
        for place in setting.positions:
            found |= {bound.id for row in place.deltas for bound in row.bounds}
    return sorted(found)

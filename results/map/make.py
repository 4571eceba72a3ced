"""Compute the tightness map: ``python results/map/make.py``; an interrupted run resumes.

Each point compares the best certified lower bound with the best sound upper bound.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from joblib import Parallel, delayed

from audit import bounds, exact, progress
from audit.bounds import own
from audit.codec import decode, encode
from audit.constructions import Construction, GradientPair, decode_pair, encode_pair
from audit.search import check_admissible, worst_case
from results.map import page
from results.map.grid import NOISES, Kind, Lower, Point, Row, Upper, points

Progress = Callable[[int, int], object]
Side = TypeVar("Side", Lower, Upper)
Bracket = tuple[float, float]
Encoded = Mapping[str, Any]  # a pair, by `audit.constructions.encode_pair`

DELTA = 1e-5
_EVALUATIONS = 150
_TIGHT = 1.005  # over the lower bound: nothing is left to close
_EQUAL = 1e-9  # relative
_LONGEST = (Kind.SAMPLED, Kind.CYCLIC, Kind.CONVEX, Kind.STRONGLY_CONVEX)
_OWN = "own."
_FORGETTING, _COUPLING = "own.forgetting", "own.coupling"


def main() -> None:
    """Compute the map, and write its table, heat maps and page."""
    parser = argparse.ArgumentParser(
        prog="python results/map/make.py",
        description="Compute the tightness map; a run that was stopped goes on.",
    )
    parser.add_argument("--runs", type=Path, default=Path("results/runs/map"))
    parser.add_argument("--output", type=Path, default=Path("results/map"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    with progress.on_terminal() as bars:
        known = page.known_pairs(given.output)
        shown = bars.stage("tightness map")
        rows = run(given.runs, jobs=given.jobs, progress=shown, known=known)
    page.write(rows, given.output)
    print(f"{len(rows)} points: {given.output / 'README.md'}")


def lower(point: Point, hint: Lower | None = None, known: Encoded | None = None) -> Lower:
    """Return the lower side of a point: what a search certifies.

    Parameters
    ----------
    point
        Where.
    hint
        The side at the same A and x with other noise. In units of s^2/D and D the walks tend to
        one limit as the noise falls, so its drift and start are a good beginning.
    known
        The pair of an earlier map. Its law is computed again, and it is kept if no search finds a
        better one, so that the map does not fall when it is renewed.
    """
    near = () if hint is None else [(-hint.drift * point.noise**2, hint.start, hint.lean)]
    many = (False, True) if point.kind is Kind.SAMPLED else (False,)
    searches = [
        worst_case(
            point.mechanism,
            delta=DELTA,
            seed=0,
            evaluations=_EVALUATIONS,
            hints=near,
            many_dimensions=many_dimensions,
        )
        for many_dimensions in many
    ]
    found = [(one.bracket, one.construction) for one in searches]
    if known is not None:
        found += _again(known, point)
    largest = max(low for (low, _), _ in found)
    finer = [(bracket(pair), pair) for (_, high), pair in found if high >= largest]
    (low, high), pair = max(finer, key=lambda one: one[0][0])
    one_dimension = max(bracket[0] for bracket, one in found if not _cancels(one))
    drift, start, curvature, lean = _shape(pair, point)
    return Lower(
        lower=low,
        lower_high=high,
        one_dimension=one_dimension if _cancels(pair) else low,
        pair=_name(pair),
        drift=drift,
        start=start,
        curvature=curvature,
        lean=lean,
        evaluations=sum(one.evaluations for one in searches),
        seconds=round(sum(one.seconds for one in searches), 2),
        construction=encode_pair(pair),
    )


def bracket(pair: Construction) -> Bracket:
    """Return the bracket of a pair's epsilon, as the map has it."""
    return exact.curve(pair).epsilon_bracket(DELTA)


def _again(known: Encoded, point: Point) -> list[tuple[Bracket, Construction]]:
    """Return a pair of an earlier map with its bracket; nothing if it is refused now."""
    try:
        pair = decode_pair(known, point.mechanism)
        check_admissible(pair)
        law = exact.curve(pair)
    except ValueError:
        return []
    return [(law.epsilon_bracket(DELTA), pair)]


def upper(group: Sequence[Point], lowers: Sequence[float]) -> list[Upper]:
    """Return the upper sides of points that differ in their steps alone: the tightest bounds.

    Couplings take seconds. They are left out where what is known without them is within half a
    percent of the lower bound, and one recursion serves the whole group.

    Parameters
    ----------
    group
        Points of one kind, strength and noise.
    lowers
        The certified lower bound at each.
    """
    compared = [dict(bounds.best(p.mechanism, delta=DELTA).compared) for p in group]
    loose = [
        place
        for place, (values, low) in enumerate(zip(compared, lowers, strict=True))
        if min(values.values()) > _TIGHT * low
    ]
    if loose:
        mechanism = group[0].mechanism
        steps = [group[place].mechanism.steps for place in loose]
        for place, curve in zip(loose, own.coupling.coupling_at(mechanism, steps), strict=True):
            compared[place][_COUPLING] = float(curve.epsilon(DELTA))
    return [_smallest(values) for values in compared]


def _smallest(compared: Mapping[str, float]) -> Upper:
    """Name the best of the published bounds and of all; of equal ones the published one."""
    published = {id: value for id, value in compared.items() if not id.startswith(_OWN)}
    closed = {id: value for id, value in compared.items() if id != _COUPLING}
    first, second, third = (
        min(some, key=lambda id: some[id]) for some in (published, closed, dict(compared))
    )
    best = first
    for other in (second, third):
        if compared[other] < compared[best] * (1 - _EQUAL):
            best = other
    return Upper(
        published=published[first],
        published_theorem=first,
        forgetting=compared.get(_FORGETTING),
        coupling=compared.get(_COUPLING),
        upper=compared[best],
        theorem=best,
    )


def _cancels(pair: Construction) -> bool:
    """Whether a domain in many dimensions cancels a gradient that all records share."""
    return bool(getattr(pair, "cancelled", 0.0))


def _name(pair: Construction) -> str:
    """Name of a pair's construction, and what is special about it."""
    by_batch = " by batch" * bool(getattr(pair, "others_by_batch", ()))
    many = " in many dimensions" * _cancels(pair)
    return f"{pair.name}{by_batch}{many}"


def _shape(pair: Construction, point: Point) -> tuple[float, float, float, float]:
    """Drift (in s^2/D a step, positive to the right), start, and the others' curvature and lean."""
    if not isinstance(pair, GradientPair):
        drift, start, curvature = (getattr(pair, n, 0.0) for n in ("drift", "start", "curvature"))
        return drift / point.noise**2, start, curvature, 0.0
    half = 0.5 if point.mechanism.diameter is None else point.mechanism.diameter / 2
    # of a cycle whose batches differ, the others of most batches
    others = max(pair.others_by_batch, default=(0, pair.others), key=lambda run: run[0])[1]
    slopes = others.slope_range(-half, half)
    gradient = float(others(np.array(pair.start)))
    towards = point.mechanism.sensitivity / 2 + math.copysign(gradient, -pair.cancelled * gradient)
    lean = min(max(-pair.cancelled / towards, -1.0), 1.0)
    return -gradient / point.noise**2, pair.start, slopes[1] + pair.shared.slopes[0], lean


def run(
    folder: Path,
    *,
    jobs: int,
    progress: Progress | None = None,
    known: Mapping[str, Encoded] | None = None,
) -> tuple[Row, ...]:
    """Compute all points that ``folder`` does not hold yet, and return all rows in order.

    ``known`` holds an earlier map's pairs, by the points' names.

    Each finished side of a point is a line of ``lower.jsonl`` or ``upper.jsonl``; a run that was
    stopped goes on. A torn last line is computed again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    every = points()
    lows = _Log(folder / "lower.jsonl", Lower)
    highs = _Log(folder / "upper.jsonl", Upper)

    def report() -> None:
        if progress is not None:
            progress(len(lows.rows) + len(highs.rows), 2 * len(every))

    *first, last = NOISES  # the hints of the last noise come from the first one
    for noises in (first, [last]):
        todo = [p for p in every if p.noise in noises and p.name not in lows.rows]
        hints = [lows.rows.get(_source(p).name) if p.noise == last else None for p in todo]
        before = [(known or {}).get(p.name) for p in todo]
        lows.fill(_lowers(todo, jobs, hints, before), report)
    highs.fill(_uppers(every, lows.rows, highs.rows, jobs), report)
    return tuple(Row.joined(p, lows.rows[p.name], highs.rows[p.name]) for p in every)


def _source(point: Point) -> Point:
    return dataclasses.replace(point, noise=NOISES[0])


def _lowers(
    todo: Sequence[Point],
    jobs: int,
    hints: Sequence[Lower | None],
    known: Sequence[Encoded | None],
) -> Iterable[tuple[str, Lower]]:
    """Yield (name, lower side) of each point as it is done."""
    tasks = (delayed(_named_lower)(*given) for given in zip(todo, hints, known, strict=True))
    done: Iterable[tuple[str, Lower]] = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        tasks
    )
    return done


def _named_lower(point: Point, hint: Lower | None, known: Encoded | None) -> tuple[str, Lower]:
    return point.name, lower(point, hint, known)


def _uppers(
    every: Sequence[Point], lows: Mapping[str, Lower], done: Mapping[str, Upper], jobs: int
) -> Iterable[tuple[str, Upper]]:
    """Yield (name, upper side) of the points that are not done; a group is computed as a whole."""
    groups: dict[Point, list[Point]] = {}
    for point in every:
        groups.setdefault(dataclasses.replace(point, time=0.0), []).append(point)
    todo = [group for group in groups.values() if any(p.name not in done for p in group)]
    # couplings of sampled batches take longest: one of them left for the end would keep one
    # process busy and the others waiting
    todo.sort(key=lambda group: _LONGEST.index(group[0].kind))
    tasks = (delayed(_named_uppers)(group, [lows[p.name].lower for p in group]) for group in todo)
    before = set(done)
    for sides in Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks):
        yield from ((name, side) for name, side in sides if name not in before)


def _named_uppers(group: Sequence[Point], lowers: Sequence[float]) -> list[tuple[str, Upper]]:
    return [(p.name, side) for p, side in zip(group, upper(group, lowers), strict=True)]


class _Log(Generic[Side]):
    """Sides of points by the points' names, each on disk before the next."""

    def __init__(self, path: Path, kind: type[Side]) -> None:
        self.path = path
        self.rows: dict[str, Side] = _read(path, kind)

    def fill(self, entries: Iterable[tuple[str, Side]], report: Callable[[], None]) -> None:
        with self.path.open("a", encoding="utf-8") as log:
            for name, side in entries:
                self.rows[name] = side
                log.write(json.dumps({"point": name, **encode(side)}, allow_nan=False) + "\n")
                log.flush()
                os.fsync(log.fileno())
                report()


def _read(path: Path, kind: type[Side]) -> dict[str, Side]:
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    names = {p.name for p in points()}
    stored = {}
    for line in whole.splitlines():
        side = json.loads(line)
        name = side.pop("point")
        if name in names:
            stored[name] = decode(kind, side, f"a line of {path.name}")
    return stored


if __name__ == "__main__":
    main()

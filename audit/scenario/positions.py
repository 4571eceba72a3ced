"""What the last iterate tells of each record, by the place that the record has in the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from audit import bounds, exact
from audit.claims import judge_upper_bound
from audit.constructions import Construction


def moved(pair: Construction, position: int) -> Construction:
    """Return the same construction with the differing record in another batch of the cycle.

    Raises
    ------
    ValueError
        If the construction's records have no places, or the cycle has no such batch.
    """
    if "position" not in {field.name for field in dataclasses.fields(pair)}:
        raise ValueError(f"positions must be empty for a {pair.name}, got {position}")
    values = {f.name: getattr(pair, f.name) for f in dataclasses.fields(pair)}
    return type(pair)(**{**values, "position": position})


def leak_by_position(
    pairs: Sequence[Construction],
    positions: Sequence[int],
    deltas: Sequence[float],
    names: Sequence[str],
    threads: int,
) -> list[dict[str, Any]]:
    """Return a row for each position: exact epsilons of the pairs moved there, and the bounds.

    A bound with an option ``index`` (the record's index, from 1; such bounds take one record a
    step) is evaluated for the record of that place, ``index`` of the row, the first of its batch;
    others speak about every record alike. The certified epsilon is the largest of all pairs.
    """
    return [_row(pairs, position, deltas, names, threads) for position in positions]


def _row(
    pairs: Sequence[Construction],
    position: int,
    deltas: Sequence[float],
    names: Sequence[str],
    threads: int,
) -> dict[str, Any]:
    mechanism = pairs[0].mechanism
    index = position * mechanism.batch_size + 1
    curves = [(pair.name, exact.curve(moved(pair, position), threads=threads)) for pair in pairs]
    brackets = {name: [curve.epsilon_bracket(d) for d in deltas] for name, curve in curves}
    certified = [max(ends[i][0] for ends in brackets.values()) for i in range(len(deltas))]
    rows = []
    for name in names:
        entry = bounds.entry(name)
        option = {"index": index} if "index" in entry.options else {}
        try:
            curve = entry.evaluate(mechanism, **option)
        except bounds.NotApplicable:
            continue
        if entry.status is bounds.Status.ASYMPTOTIC:
            continue
        values = [float(curve.epsilon(d)) for d in deltas]
        verdicts = [judge_upper_bound(*both).value for both in zip(values, certified, strict=True)]
        status = entry.status.value
        rows.append({"id": name, "status": status, "epsilon": values, "verdict": verdicts})
    return {
        "position": position,
        "index": index,
        "pairs": [{"name": name, "epsilon": ends} for name, ends in brackets.items()],
        "certified": certified,
        "bounds": rows,
    }

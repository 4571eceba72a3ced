"""The rows of a joined report as plain data: epsilons, Renyi divergences, statements, errors."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from audit.report import stored
from audit.report.runs import Run
from audit.report.stored import Node

Row = dict[str, Any]

EPSILON, RENYI, STATEMENT = "epsilon", "Renyi divergence", "statement"
COLUMNS = (
    "run",
    "scenario",
    "setting",
    "quantity",
    "delta",
    "order",
    "lower",
    "exact_low",
    "exact_high",
    "certified",
    "certified_by",
    "claimed",
    "claimed_by",
    "status",
    "ratio",
    "statement",
    "citation",
    "expected",
    "found",
    "allowed_error",
    "verdict",
    "error",
)


def comparisons(runs: Sequence[Run]) -> list[Row]:
    """Return the comparisons of epsilons, and the errors.

    One row for each run, setting and delta, one more for each refuted bound. A run with an error is
    one row whose verdict is ``error``. Infinite numbers are None.
    """
    found: list[Row] = []
    for run in runs:
        if run.result is None:
            found.append({**_empty(run), "verdict": "error", "error": run.error})
            continue
        for setting in run.result["settings"]:
            for row in setting["deltas"]:
                known = {**_of_setting(run, setting), **_known(setting, row)}
                best, refuted = stored.tightest(row), stored.refuted(row)
                found += [{**known, **_claimed(bound)} for bound in refuted]
                if best or not refuted:
                    found.append({**known, **_claimed(best)})
    return found


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return `comparisons`, then the rows of Renyi divergences, then the statements of studies.

    ``quantity`` says which a row is of. Of a divergence the tightest claim that stands and every
    refuted one have a row each, like those of an epsilon.
    """
    return [*comparisons(runs), *_renyi(runs), *_statements(runs)]


def _empty(run: Run) -> Row:
    return {**dict.fromkeys(COLUMNS), "run": run.name}


def _of_setting(run: Run, setting: Node) -> Row:
    assert run.result is not None  # it has settings
    scenario = run.result["scenario"]["name"]
    return {**_empty(run), "scenario": scenario, "setting": setting["name"]}


def _known(setting: Node, row: Node) -> Row:
    low, high = stored.worst(row) if stored.exact_known(row) else (None, None)
    value, by = stored.strongest(row)
    return {
        "quantity": EPSILON,
        "delta": row["delta"],
        "lower": stored.sampled_epsilon(row),
        "exact_low": low,
        "exact_high": high,
        "certified": value,
        "certified_by": by or _pair(setting),
    }


def _pair(setting: Node) -> str:
    return str((setting.get("construction") or {}).get("name", "samples"))


def _claimed(bound: Node | None) -> Row:
    if bound is None:
        return {"verdict": stored.NOT_APPLICABLE}
    return {
        "claimed": bound.get("epsilon"),
        "claimed_by": bound["id"],
        "status": bound.get("status"),
        "ratio": bound.get("ratio"),
        "verdict": bound.get("verdict"),
    }


def _settings(runs: Sequence[Run]) -> Iterator[tuple[Run, Node]]:
    for run in runs:
        for setting in (run.result or {}).get("settings", ()):
            yield run, setting


def _renyi(runs: Sequence[Run]) -> list[Row]:
    found = []
    for run, setting in _settings(runs):
        for row in setting.get("renyi") or ():
            low, high = _worse(row["forward"], row["reverse"])
            known = {
                **_of_setting(run, setting),
                "quantity": RENYI,
                "order": row["order"],
                "lower": row.get("sampled_lower"),
                "exact_low": low,
                "exact_high": high,
                "certified": low,
                "certified_by": _pair(setting),
            }
            claims = _claims_of(row.get("bounds", ()))
            found += [{**known, **_divergence(bound, low)} for bound in claims]
            if not claims:
                found.append({**known, "verdict": stored.NOT_APPLICABLE})
    return found


def _worse(forward: stored.Ends, reverse: stored.Ends) -> tuple[float | None, float | None]:
    """Return the bracket of the larger of two numbers; None is infinite."""
    low, high = (
        max(stored.infinite(first), stored.infinite(second))
        for first, second in zip(forward, reverse, strict=True)
    )
    return (None if math.isinf(low) else low), (None if math.isinf(high) else high)


def _claims_of(bounds: Sequence[Node]) -> list[Node]:
    """Return the refuted bounds on a divergence, and the tightest of those that stand."""
    standing = [
        bound
        for bound in bounds
        if stored.stands(bound, str(bound.get("verdict"))) and bound.get("value") is not None
    ]
    best = min(standing, key=lambda bound: float(bound["value"]), default=None)
    refuted = [bound for bound in bounds if bound.get("verdict") == stored.REFUTED]
    return refuted if best is None else [*refuted, best]


def _divergence(bound: Node, low: float | None) -> Row:
    value = bound.get("value")
    return {
        "claimed": value,
        "claimed_by": bound["id"],
        "status": bound.get("status"),
        "ratio": value / low if value is not None and low else None,
        "verdict": bound.get("verdict"),
    }


def _statements(runs: Sequence[Run]) -> list[Row]:
    return [
        {
            **_of_setting(run, setting),
            "quantity": STATEMENT,
            "statement": one.statement["claim"],
            "citation": one.statement["citation"],
            "expected": one.statement.get("expected"),
            "found": one.statement.get("found"),
            "allowed_error": one.statement.get("error"),
            "verdict": one.outcome,
        }
        for run, setting in _settings(runs)
        for one in stored.stated([setting])
    ]


def to_csv(found: Sequence[Row]) -> bytes:
    """Return the rows as CSV, numbers in full; what is absent or infinite is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue().encode("utf-8")


def to_json(runs: Sequence[Run], found: Sequence[Row]) -> bytes:
    """Return the rows and the counts as JSON."""
    errors = sum(run.error is not None for run in runs)
    content = {"results": len(runs) - errors, "errors": errors, "rows": list(found)}
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode("utf-8")

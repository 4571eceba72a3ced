"""What one cell shows, and in words what all of them do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .mechanisms import DELTAS

Row = dict[str, Any]

ONE_DELTA = 4  # 1e-2


def allowed(row: Row) -> float:
    """The stated error and three standard errors of so many repeats."""
    error = 1 - row["confidence"]
    return float(error + 3 * math.sqrt(error * (1 - error) / row["repeats"]))


def rate(row: Row) -> float:
    """How often an audit was wrong at some delta of the grid.

    What is shown beside claims one delta at a time, and is held to one.
    """
    wrong = row["wrong_at"][ONE_DELTA] if row["beside"] else row["wrong"]
    return float(wrong / row["repeats"])


def verdict(row: Row) -> str:
    """What the harness says about a cell."""
    if row["not_a_number"]:
        return "NOT A NUMBER"
    if rate(row) <= allowed(row):
        return "passes" if not row["planted"] else "passes, though planted"
    if row["planted"]:
        return "caught"
    return "errs too often" if row["beside"] else "FAILS"


def summary(rows: Sequence[Row], powers: Sequence[Row], missing: Mapping[str, str]) -> list[str]:
    """All results in words, as lines of Markdown."""
    sizes = rows[0]["sizes"] if rows else [0, 0]
    honest = [row for row in rows if not row["planted"] and not row["beside"]]
    return [
        f"Every audit draws {sizes[0]} and {sizes[1]} fresh scores. It is wrong if its lower bound "
        "exceeds the true epsilon at any delta of "
        f"{', '.join(f'{d:g}' for d in DELTAS)} (the smaller epsilon that threshold events reach, "
        "where the two differ). Allowed is the stated error and three standard errors.",
        "",
        *_coverage(honest),
        *_null([row for row in honest if row["null"]]),
        *_planted([row for row in rows if row["planted"]]),
        *_powers(powers),
        *_beside([row for row in rows if row["beside"]], missing),
        "",
    ]


def _coverage(rows: Sequence[Row]) -> list[str]:
    bad = sum(verdict(row) != "passes" for row in rows)
    lines = [
        f"- Coverage: {len(rows)} cells of this package, {len(rows) - bad} pass and {bad} fail."
    ]
    for confidence in sorted({row["confidence"] for row in rows}):
        worst = max((r for r in rows if r["confidence"] == confidence), key=rate)
        lines.append(
            f"  - At confidence {confidence:g} the largest rate of wrong audits is "
            f"{rate(worst):.4f} ({worst['estimator']}; {worst['mechanism']}), "
            f"allowed {allowed(worst):.4f}."
        )
    return lines


def _null(rows: Sequence[Row]) -> list[str]:
    above = sum(row["positive"] / row["repeats"] > allowed(row) for row in rows)
    return [
        f"- Identical laws: {len(rows) - above} of {len(rows)} cells give exactly 0 at least as "
        "often as stated, to three standard errors."
    ]


def _planted(rows: Sequence[Row]) -> list[str]:
    caught = {row["estimator"] for row in rows if verdict(row) == "caught"}
    every = {row["estimator"] for row in rows}
    return [
        f"- Planted mistakes: {len(caught)} of {len(every)} are caught in at least one cell. "
        "(A mistake need not show at every confidence and on every mechanism.)"
    ]


def _powers(rows: Sequence[Row]) -> list[str]:
    goals = [row for row in rows if row["promised"] is not None]
    met = sum(row["median"] >= row["promised"] for row in goals)
    lines = [f"- Power: {met} of {len(goals)} promised medians are met."]
    for row in goals:
        lines.append(
            f"  - {row['estimator']}; {row['mechanism']}, delta {row['delta']:g}, "
            f"{row['size']:,} scores a side: median {row['median']:.3f} of {row['truth']:.3f} "
            f"over {row['seeds']} seeds, at least {row['promised']:.3f} promised."
        )
    return lines


def _beside(rows: Sequence[Row], missing: Mapping[str, str]) -> list[str]:
    lines = ["- Beside, held to the stated error at one delta:"]
    for name in dict.fromkeys(row["estimator"] for row in rows):
        mine = [row for row in rows if row["estimator"] == name]
        wrong = list(dict.fromkeys(r["mechanism"] for r in mine if verdict(r) != "passes"))
        word = f"errs too often on {', '.join(wrong)}" if wrong else "passes in all of them"
        lines.append(f"  - {name}: {len(mine)} cells of {mine[0]['repeats']:,} audits, {word}.")
    found = {row["estimator"].partition(",")[0] for row in rows}
    return [*lines, *(f"  - {n}: not run: {why}." for n, why in missing.items() if n not in found)]

"""Tables of coverage and power, as CSV for machines and Markdown for readers."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .mechanisms import DELTAS

Row = dict[str, Any]

_ONE = 4  # delta 1e-2


def allowed(row: Row) -> float:
    """The stated error and three standard errors of so many repeats."""
    error = 1 - row["confidence"]
    return float(error + 3 * math.sqrt(error * (1 - error) / row["repeats"]))


def rate(row: Row) -> float:
    """How often an audit was wrong at some delta of the grid.

    What is shown beside claims one delta at a time, and is held to one.
    """
    wrong = row["wrong_at"][_ONE] if row["beside"] else row["wrong"]
    return float(wrong / row["repeats"])


def verdict(row: Row) -> str:
    """What the harness says about a cell."""
    if row["not_a_number"]:
        return "NOT A NUMBER"
    if rate(row) <= allowed(row):
        return "passes" if not row["planted"] else "passes, though planted"
    return "caught" if row["planted"] else "FAILS"


def power_rows(chunks: Iterable[Row]) -> list[Row]:
    """Put the chunks of each goal together."""
    goals: dict[tuple[str, float, int], list[Row]] = {}
    for chunk in chunks:
        goals.setdefault((chunk["mechanism"], chunk["delta"], chunk["size"]), []).append(chunk)
    rows = []
    for (mechanism, delta, size), parts in sorted(goals.items()):
        for name in parts[0]["values"]:
            values = np.concatenate([part["values"][name] for part in parts])
            rows.append(
                {
                    "mechanism": mechanism,
                    "delta": delta,
                    "size": size,
                    "estimator": name,
                    "seeds": values.size,
                    "median": float(np.median(values)),
                    "low": float(np.quantile(values, 0.1)),
                    "high": float(np.quantile(values, 0.9)),
                    "truth": parts[0]["truth"],
                    "promised": parts[0]["promised"].get(name),
                }
            )
    return rows


def write(coverage: Sequence[Row], power: Sequence[Row], out: Path) -> None:
    """Write ``coverage.csv``, ``power.csv`` and ``calibration.md``."""
    out.mkdir(parents=True, exist_ok=True)
    ordered = sorted(coverage, key=lambda row: (row["beside"], row["planted"]))
    _csv(out / "coverage.csv", [_flat(row) for row in ordered])
    powers = power_rows(power)
    _csv(out / "power.csv", powers)
    parts = ["# Calibration", "", *_summary(ordered), *_coverage(ordered), *_power(powers)]
    (out / "calibration.md").write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


def _flat(row: Row) -> Row:
    names = ("estimator", "mechanism", "confidence", "repeats", "wrong", "positive")
    flat: Row = {name: row[name] for name in names}
    flat |= {"rate": rate(row), "allowed": allowed(row), "verdict": verdict(row)}
    for delta, median, truth in zip(DELTAS, row["median"], row["truth"], strict=True):
        flat[f"median epsilon at {delta:g}"] = median
        flat[f"true epsilon at {delta:g}"] = "inf" if truth is None else truth
    return flat


def _csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: _short(v) for k, v in row.items()} for row in rows)


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _summary(rows: Sequence[Row]) -> list[str]:
    honest = [row for row in rows if not row["planted"] and not row["beside"]]
    planted = [row for row in rows if row["planted"]]
    null = [row for row in honest if row["null"]]
    bad = [row for row in honest if verdict(row) != "passes"]
    above = sum(row["positive"] / row["repeats"] > allowed(row) for row in null)
    caught = {row["estimator"] for row in planted if verdict(row) == "caught"}
    every = {row["estimator"] for row in planted}
    sizes = rows[0]["sizes"] if rows else [0, 0]
    return [
        f"Every audit draws {sizes[0]} and {sizes[1]} fresh scores. It is wrong if its lower bound "
        "exceeds the true epsilon at any delta of "
        f"{', '.join(f'{d:g}' for d in DELTAS)} (the smaller epsilon that threshold events reach, "
        "where the two differ). Allowed is the stated error and three standard errors.",
        "",
        f"- {len(honest)} cells of this package: {len(honest) - len(bad)} pass, {len(bad)} fail.",
        f"- {len(null)} of them on identical laws: {len(null) - above} give exactly 0 at least as "
        "often as stated.",
        f"- {len(every)} planted mistakes: {len(caught)} caught in at least one cell.",
        "",
    ]


def _coverage(rows: Sequence[Row]) -> list[str]:
    confidences = sorted({row["confidence"] for row in rows})
    lines = []
    for estimator in dict.fromkeys(row["estimator"] for row in rows):
        mine = [row for row in rows if row["estimator"] == estimator]
        repeats = mine[0]["repeats"]
        limits = {row["confidence"]: allowed(row) for row in mine}
        head = " | ".join(f"at {c:g}" for c in confidences)
        where = f"delta {DELTAS[_ONE]:g}" if mine[0]["beside"] else "any delta"
        shown = f"median at {DELTAS[_ONE]:g}, confidence .95"
        lines += [
            f"## {estimator}",
            "",
            f"Rate of audits wrong at {where} over {repeats} audits a cell; allowed: "
            + ", ".join(f"{limits[c]:.4f} at {c:g}" for c in confidences if c in limits)
            + ".",
            "",
            f"| mechanism | {head} | {shown} | truth | verdict |",
            "|---|" + "---|" * (len(confidences) + 3),
        ]
        for mechanism in dict.fromkeys(row["mechanism"] for row in mine):
            lines.append(
                _line(mechanism, [r for r in mine if r["mechanism"] == mechanism], confidences)
            )
        lines.append("")
    return lines


def _line(mechanism: str, rows: Sequence[Row], confidences: Sequence[float]) -> str:
    at = {row["confidence"]: row for row in rows}
    rates = " | ".join(f"{rate(at[c]):.4f}" if c in at else "" for c in confidences)
    shown = at.get(0.95, rows[0])
    truth = "infinite" if shown["truth"][_ONE] is None else f"{shown['truth'][4]:.3f}"
    verdicts = [verdict(row) for row in rows]
    worst = next((v for v in ("NOT A NUMBER", "FAILS", "caught") if v in verdicts), verdicts[0])
    return f"| {mechanism} | {rates} | {shown['median'][4]:.3f} | {truth} | {worst} |"


def _power(rows: Sequence[Row]) -> list[str]:
    lines = [
        "## Power",
        "",
        "Median certified epsilon at confidence .95, the 10% and 90% quantiles over seeds, and the "
        "least median that is promised.",
        "",
        "| mechanism | delta | scores a side | truth | estimator | seeds | median | 10% to 90% "
        "| promised | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        goal = row["promised"]
        word = "" if goal is None else ("met" if row["median"] >= goal else "MISSED")
        lines.append(
            f"| {row['mechanism']} | {row['delta']:g} | {row['size']:,} | {row['truth']:.3f} "
            f"| {row['estimator']} | {row['seeds']} | {row['median']:.3f} "
            f"| {row['low']:.3f} to {row['high']:.3f} "
            f"| {'' if goal is None else f'{goal:.3f}'} | {word} |"
        )
    return [*lines, ""]

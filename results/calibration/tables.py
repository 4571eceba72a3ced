"""Tables of coverage and power, as CSV for machines and Markdown for readers."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from results.calibration.cells import estimators
from results.calibration.mechanisms import DELTAS

Row = dict[str, Any]

ONE_DELTA = 4  # 1e-2


def allowed(row: Row) -> float:
    """Return the stated error and three standard errors of so many repeats."""
    error = 1 - row["confidence"]
    return float(error + 3 * math.sqrt(error * (1 - error) / row["repeats"]))


def rate(row: Row) -> float:
    """How often an audit was wrong at some delta of the grid.

    What is shown beside claims one delta at a time, and is held to one.
    """
    wrong = row["wrong_at"][ONE_DELTA] if row["beside"] else row["wrong"]
    return float(wrong / row["repeats"])


def verdict(row: Row) -> str:
    """Return the harness's verdict on a cell."""
    if row["not_a_number"]:
        return "NOT A NUMBER"
    if rate(row) <= allowed(row):
        return "passes" if not row["planted"] else "passes, though planted"
    if row["planted"]:
        return "caught"
    return "errs too often" if row["beside"] else "FAILS"


def summary(rows: Sequence[Row], powers: Sequence[Row], missing: Mapping[str, str]) -> list[str]:
    """Return a summary of all results, as lines of Markdown."""
    sizes = rows[0]["sizes"] if rows else [0, 0]
    honest = [row for row in rows if not row["planted"] and not row["beside"]]
    return [
        f"Every audit draws {sizes[0]} and {sizes[1]} fresh scores. It is wrong if its lower bound "
        "exceeds the true epsilon at any delta of "
        f"{', '.join(f'{d:g}' for d in DELTAS)} (the smaller epsilon that threshold events reach, "
        "where the two differ). Allowed is the stated error and three standard errors.",
        "",
        *_failures(honest),
        *_null([row for row in honest if row["null"]]),
        *_planted([row for row in rows if row["planted"]]),
        *_powers(powers),
        *_beside([row for row in rows if row["beside"]], missing),
        "",
    ]


def _failures(rows: Sequence[Row]) -> list[str]:
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


def write(
    coverage: Sequence[Row], power: Sequence[Row], out: Path, missing: Mapping[str, str]
) -> None:
    """Write ``coverage.csv``, ``power.csv`` and ``calibration.md``.

    ``missing`` tells which other packages cannot be run here, and why.
    """
    out.mkdir(parents=True, exist_ok=True)
    ordered = sorted(coverage, key=lambda row: (row["beside"], row["planted"]))
    _csv(out / "coverage.csv", [_flat(row) for row in ordered])
    powers = power_rows(power)
    _csv(out / "power.csv", powers)
    pages = [
        *summary(ordered, powers, missing),
        *_figures(ordered, powers),
        *_coverage(ordered),
        *_power(powers),
    ]
    pages += _software([*coverage, *power])
    text = "\n".join(["# Calibration", "", *pages]).rstrip() + "\n"
    (out / "calibration.md").write_text(text, encoding="utf-8")


def _figures(coverage: Sequence[Row], power: Sequence[Row]) -> list[str]:
    parts = figure_parts(coverage)
    names = [name for name in parts if parts[name]] + (["power"] if power else [])
    return [line for name in names for line in (f"![{name}]({name}.png)", "")]


def figure_parts(coverage: Sequence[Row]) -> dict[str, list[Row]]:
    """Which rows each figure of coverage shows; far fewer audits than the others' show no rate."""
    beside = [row for row in coverage if row["beside"]]
    most = max((row["repeats"] for row in beside), default=0)
    return {
        "coverage": [r for r in coverage if not r["beside"] and not r["planted"]],
        "mistakes": [r for r in coverage if r["planted"]],
        "others": [r for r in beside if 10 * r["repeats"] >= most],
    }


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


def _coverage(rows: Sequence[Row]) -> list[str]:
    confidences = sorted({row["confidence"] for row in rows})
    lines = []
    for estimator in dict.fromkeys(row["estimator"] for row in rows):
        mine = [row for row in rows if row["estimator"] == estimator]
        repeats = mine[0]["repeats"]
        limits = {row["confidence"]: allowed(row) for row in mine}
        head = " | ".join(f"at {c:g}" for c in confidences)
        where = f"delta {DELTAS[ONE_DELTA]:g}" if mine[0]["beside"] else "any delta"
        shown = f"median at {DELTAS[ONE_DELTA]:g}, confidence .95"
        lines += [
            f"## {estimator}",
            "",
            *_about(estimator),
            f"Rate of audits wrong at {where} over {repeats:,} audits a cell; allowed: "
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


def _about(estimator: str) -> list[str]:
    text = estimators()[estimator].bound.__doc__
    return [text, ""] if text else []


def _line(mechanism: str, rows: Sequence[Row], confidences: Sequence[float]) -> str:
    at = {row["confidence"]: row for row in rows}
    rates = " | ".join(f"{rate(at[c]):.4f}" if c in at else "" for c in confidences)
    shown = at.get(0.95, rows[0])
    truth = "infinite" if shown["truth"][ONE_DELTA] is None else f"{shown['truth'][4]:.3f}"
    verdicts = [verdict(row) for row in rows]
    bad = ("NOT A NUMBER", "FAILS", "errs too often", "caught")
    worst = next((v for v in bad if v in verdicts), verdicts[0])
    return f"| {mechanism} | {rates} | {shown['median'][4]:.3f} | {truth} | {worst} |"


def _power(rows: Sequence[Row]) -> list[str]:
    lines = [
        "## Power",
        "",
        "Median certified epsilon at confidence .95, the 10% and 90% quantiles over seeds, and the "
        "least median that is promised.",
        "",
        "| mechanism | delta | scores a side | truth | estimator | seeds | median | of the truth "
        "| 10% to 90% | promised | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        goal = row["promised"]
        word = "" if goal is None else ("met" if row["median"] >= goal else "MISSED")
        lines.append(
            f"| {row['mechanism']} | {row['delta']:g} | {row['size']:,} | {row['truth']:.3f} "
            f"| {row['estimator']} | {row['seeds']} | {row['median']:.3f} "
            f"| {row['median'] / row['truth']:.1%} | {row['low']:.3f} to {row['high']:.3f} "
            f"| {'' if goal is None else f'{goal:.3f}'} | {word} |"
        )
    return [*lines, ""]


def _software(rows: Sequence[Row]) -> list[str]:
    """Return what computed the cells, and for how long."""
    if not rows:
        return []
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, version in row["software"].items():
            found.setdefault(name, set()).add(version)
    listed = ", ".join(f"{name} {' and '.join(sorted(v))}" for name, v in sorted(found.items()))
    hours = sum(row["seconds"] for row in rows) / 3600
    return ["## Computed with", "", f"{listed}; {hours:.1f} hours of one process in all."]

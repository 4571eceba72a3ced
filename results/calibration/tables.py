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
from results.calibration.power import BAND, EITHER, ORACLE, OURS, RANK_ORACLE, RIVALS, cases

Row = dict[str, Any]

_LARGE, _OF_ORACLE = 100_000, 0.9
_SHOWN = (OURS, EITHER, BAND, *RIVALS, ORACLE, RANK_ORACLE)

ONE_DELTA = DELTAS.tolist().index(1e-2)


def allowed(row: Row) -> float:
    """Return the stated error and three standard errors of so many repeats."""
    error = 1 - row["confidence"]
    return float(error + 3 * math.sqrt(error * (1 - error) / row["repeats"]))


def rate(row: Row) -> float:
    """Return the share of audits that were wrong at some delta of the grid.

    Estimators beside ours claim one delta at a time, and are held to one.
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
        *_without_zero(rows),
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


def _without_zero(rows: Sequence[Row]) -> list[str]:
    """Count the cells that were run before delta = 0 was among the deltas."""
    old = [row for row in rows if row["median"][0] is None]
    if not old:
        return []
    return [
        f"  - {len(old)} cells (without a median at delta 0 in `coverage.csv`) were run before "
        "delta = 0 was asked for; their estimators have not changed since."
    ]


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


def _powers(chunks: Sequence[Row]) -> list[str]:
    rows = power_rows(chunks)
    ours = [row for row in rows if row["estimator"] == OURS]
    if not ours:
        return []
    best = sum(row["verdict"] == "best" for row in ours)
    near = sum(row["verdict"].startswith("within") for row in ours)
    large = [row for row in ours if row["size"] >= _LARGE]
    met = sum(row["of_oracle"] >= _OF_ORACLE for row in large)
    least = min(large, key=lambda row: row["of_oracle"], default=None)
    return [
        f"- Power: {len(ours)} cells of pair, delta and size: the default's median is the best of "
        f"all valid ones in {best}, within 3 % of the best in {near}, behind in "
        f"{len(ours) - best - near}.",
        f"  - From {_LARGE:,} scores a side it is at least {_OF_ORACLE:.0%} of the oracle's in "
        f"{met} of {len(large)} cells"
        + (f", {least['of_oracle']:.1%} at the least ({_where(least)})." if least else "."),
    ]


def _where(row: Row) -> str:
    return f"{row['mechanism']}, delta {row['delta']:g}, {row['size']:,}"


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
    """Put the chunks of each pair and size together, one row a delta and method."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for chunk in chunks:
        groups.setdefault((chunk["size"], chunk["mechanism"]), []).append(chunk)
    places = list(cases())
    rows: list[Row] = []
    for (size, mechanism), parts in sorted(
        groups.items(), key=lambda item: (places.index(item[0][1]), item[0][0])
    ):
        values = {
            name: np.concatenate([part["values"][name] for part in parts if name in part["values"]])
            for name in dict.fromkeys(name for part in parts for name in part["values"])
        }
        # the best event and test in hindsight, for each delta
        for name in dict.fromkeys(name for part in parts for name in part["oracles"]):
            every = np.concatenate([part["oracles"][name] for part in parts])
            best = np.argmax(np.median(every, axis=0), axis=1)
            values[name] = np.stack([every[:, k, one] for k, one in enumerate(best)], axis=1)
        for k, (delta, truth) in enumerate(zip(parts[0]["deltas"], parts[0]["truth"], strict=True)):
            medians = {name: float(np.median(found[:, k])) for name, found in values.items()}
            rows += [
                {
                    "mechanism": mechanism,
                    "delta": delta,
                    "size": size,
                    "estimator": name,
                    "seeds": len(found),
                    "median": medians[name],
                    "low": float(np.quantile(found[:, k], 0.1)),
                    "high": float(np.quantile(found[:, k], 0.9)),
                    "truth": math.inf if truth is None else truth,
                    "of_oracle": medians[name] / medians[ORACLE] if medians[ORACLE] else 1.0,
                    "verdict": _against(medians) if name == OURS else "",
                }
                for name, found in values.items()
            ]
    return rows


def _against(medians: Mapping[str, float]) -> str:
    """Return how the default stands beside the other valid bounds."""
    best = max((medians[name] for name in RIVALS if name in medians), default=0.0)
    if medians[OURS] >= best:
        return "best"
    return "within 3 %" if medians[OURS] >= 0.97 * best else "behind"


def write(
    coverage: Sequence[Row],
    power: Sequence[Row],
    out: Path,
    missing: Mapping[str, str],
    front: Sequence[Row] = (),
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
        *summary(ordered, power, missing),
        *_figures(ordered, powers),
        *_coverage(ordered),
        *_power(powers),
        *_front(front),
    ]
    pages += _software([*coverage, *power, *front])
    text = "\n".join(["# Calibration", "", *pages]).rstrip() + "\n"
    (out / "calibration.md").write_text(text, encoding="utf-8")


def _figures(coverage: Sequence[Row], power: Sequence[Row]) -> list[str]:
    parts = figure_parts(coverage)
    names = [name for name in parts if parts[name]] + (["power"] if power else [])
    return [line for name in names for line in (f"![{name}]({name}.png)", "")]


def figure_parts(coverage: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each figure of coverage, without those of far fewer audits than others."""
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
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else value


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
    truth = "infinite" if shown["truth"][ONE_DELTA] is None else f"{shown['truth'][ONE_DELTA]:.3f}"
    verdicts = [verdict(row) for row in rows]
    bad = ("NOT A NUMBER", "FAILS", "errs too often", "caught")
    worst = next((v for v in bad if v in verdicts), verdicts[0])
    return f"| {mechanism} | {rates} | {shown['median'][ONE_DELTA]:.3f} | {truth} | {worst} |"


def _power(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    names = [name for name in _SHOWN if any(row["estimator"] == name for row in rows)]
    lines = [
        "## Power",
        "",
        "Median certified epsilon at confidence .95. High scores are declared to favour the first "
        "law, as jax-privacy takes for granted, but for the column that says otherwise. Each delta "
        "is asked for by itself. The oracle knows the best event and the best of Clopper and "
        "Pearson's limits and joint regions, at the full error; the second one knows the best rank "
        "and tests it exactly (ties counted whole). Quantiles over seeds are in `power.csv`.",
        "",
        f"| pair | delta | scores a side | seeds | truth | {' | '.join(names)} "
        "| of the oracle | default beside the others |",
        "|---" * (len(names) + 7) + "|",
    ]
    for cell in dict.fromkeys((r["mechanism"], r["delta"], r["size"]) for r in rows):
        mine = {r["estimator"]: r for r in rows if (r["mechanism"], r["delta"], r["size"]) == cell}
        one = mine[OURS]
        medians = (f"{mine[name]['median']:.3f}" if name in mine else "" for name in names)
        truth = "infinite" if math.isinf(one["truth"]) else f"{one['truth']:.3f}"
        lines.append(
            f"| {cell[0]} | {cell[1]:g} | {cell[2]:,} | {one['seeds']} | {truth} "
            f"| {' | '.join(medians)} | {one['of_oracle']:.1%} | {one['verdict']} |"
        )
    return [*lines, ""]


def _front(rows: Sequence[Row]) -> list[str]:
    """Return what is known of the level of jax-privacy's Bonferroni correction."""
    if not rows:
        return []
    lines = [
        "## Does a correction for the Pareto front keep its level?",
        "",
        "No. jax-privacy's `Bonferroni` divides the error by the number of thresholds at vertices "
        "of the upper hull of the empirical ROC curve, a number known after looking, and near the "
        "logarithm of the number that was tried. The largest deviation of an empirical "
        "distribution function over all thresholds is not one of so few: its chance to exceed a "
        "limit of local level a is about a times log(n) times the squared normal score of a. Where "
        "both samples are of one size the two limits of Clopper and Pearson at half the error each "
        "hide this, as both must fail together; the cells above pass. Where the held-in scores "
        "are so many that their law is known, one limit is left. Identical laws, fresh held-out "
        "scores:",
        "",
        "| held-out scores | stated error | audits | thresholds counted | certify epsilon > 0 "
        "| standard error | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["held_out"], -row["error"])):
        wrong = row["wrong"] / row["repeats"]
        spread = math.sqrt(wrong * (1 - wrong) / row["repeats"])
        word = "errs too often" if wrong > row["error"] + 3 * spread else "passes"
        lines.append(
            f"| {row['held_out']:,} | {row['error']:g} | {row['repeats']:,} "
            f"| {row['thresholds']:.1f} | {wrong:.4f} | {spread:.4f} | {word} |"
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
    return ["## Computed with", "", f"{listed}; {hours:.1f} hours of one processor in all."]

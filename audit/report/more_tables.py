"""Tables that only some settings have: estimators side by side, and the leak of each record."""

from __future__ import annotations

from audit.report import stored
from audit.report.numbers import MISSING, count, plain
from audit.report.parts import Cell, Column, Table
from audit.report.stored import Node
from audit.report.tables import exact_cell, lower_cell, upper_cell


def estimators(setting: Node) -> Table | None:
    """Return what each estimator certifies, and when the sequential one refuted the claims."""
    rows = []
    for row in setting["deltas"]:
        for one in row.get("estimators") or ():
            after = one.get("refuted_after") or {}
            told = [
                f"{name}: {'not refuted' if pairs is None else f'after {count(pairs)} pairs'}"
                for name, pairs in after.items()
            ]
            rows.append(
                (
                    Cell(text=str(one["name"])),
                    Cell.number(plain(row["delta"]), row["delta"]),
                    lower_cell(one["epsilon"]),
                    Cell(text="; ".join(told) or MISSING),
                )
            )
    if not rows:
        return None
    return Table(
        caption="What each estimator certifies, all within one confidence",
        columns=(
            Column(label="Estimator"),
            Column(label="δ", numeric=True),
            Column(label="Certified lower bound", numeric=True),
            Column(label="Claim refuted"),
        ),
        rows=tuple(rows),
    )


def searched(setting: Node) -> Table | None:
    """Return the pair that a search found, by its parameters."""
    for pair in setting.get("other_pairs") or ():
        how = pair.get("found_by")
        if not how:
            continue
        rows: list[tuple[Cell, ...]] = [
            (Cell(text="pair"), Cell(text=str(pair["name"]))),
            (Cell(text="pairs tried"), Cell.number(count(how["evaluations"]), how["evaluations"])),
            (Cell(text="seed"), Cell.number(str(how["seed"]), how["seed"])),
        ]
        for name, value in (pair.get("parameters") or {}).items():
            rows += [
                (Cell(text=f"{name} {part}".strip()), Cell.number(plain(item), item))
                for part, item in _lines(value)
                if item is not None
            ]
        return Table(
            caption=f"A pair found by search, for the largest epsilon at δ = {plain(how['delta'])}",
            columns=(Column(label="Parameter"), Column(label="Value")),
            rows=tuple(rows),
            stacked=False,
        )
    return None


def _lines(value: object) -> list[tuple[str, object]]:
    """Return a parameter line by line: a gradient that is a constant is one number."""
    if not isinstance(value, dict):
        return [("", value)]
    if len(value["values"]) == 1 and not any(value["slopes"]):
        return [("", value["values"][0])]
    return list(value.items())


def positions(setting: Node) -> Table | None:
    """Return the exact epsilon of the strongest pair and the tightest claim, record by record."""
    rows = []
    for row in setting.get("positions") or ():
        for i, entry in enumerate(setting["deltas"]):
            pairs = row["pairs"]
            best = max(pairs, key=lambda pair: float(pair["epsilon"][i][0] or 0.0))
            wrong = [b for b in row["bounds"] if b["verdict"][i] == stored.REFUTED]
            standing = [b for b in row["bounds"] if stored.stands(b, b["verdict"][i])]
            tightest = min(standing, key=lambda b: stored.infinite(b["epsilon"][i]), default=None)
            for bound in [*wrong, *([tightest] if tightest or not wrong else [])]:
                claim = (
                    upper_cell(bound["epsilon"][i], str(bound["id"]))
                    if bound
                    else Cell(text="none applies")
                )
                verdict = str(bound["verdict"][i]) if bound else stored.NOT_APPLICABLE
                rows.append(
                    (
                        Cell.number(plain(row["index"]), row["index"]),
                        Cell.number(plain(entry["delta"]), entry["delta"]),
                        exact_cell(best["epsilon"][i]),
                        Cell(text=str(best["name"])),
                        claim,
                        Cell.verdict(verdict),
                    )
                )
    if not rows:
        return None
    return Table(
        caption="The leak of each record, by its index in the order of use",
        columns=(
            Column(label="Record", numeric=True),
            Column(label="δ", numeric=True),
            Column(label="Exact value of the strongest pair", numeric=True),
            Column(label="Pair"),
            Column(label="Tightest claimed upper bound", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )

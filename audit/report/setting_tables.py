"""The tables of one setting, and the table of the first screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from audit.report import stored
from audit.report.document import Cell, Column, Table
from audit.report.number_format import MISSING, Rounding, bracket, count, number, plain, ratio
from audit.report.stored import Ends, Node

_FULL_DIGITS = 12
_LABELS = {
    "noise_std": "noise deviation",
    "lipschitz": "Lipschitz constant",
    "step_std": "noise deviation of a step",
    "diameter_in_step_std": "diameter in noise of a step",
    "holder": "Hölder constant and order",
}
_SYMBOLS = {
    "steps": "T",
    "dataset_size": "n",
    "batch_size": "b",
    "step_size": "η",
    "noise_std": "σ",
    "lipschitz": "L",
    "gradient_sensitivity": "",
    "smoothness": "M",
    "strong_convexity": "m",
    "diameter": "D",
    "step_std": "ησ",
    "diameter_in_step_std": "D/ησ",
    "sampling_rate": "b/n",
}


def exact_cell(ends: Ends, digits: int = 6) -> Cell:
    """Return an exact value with the digits that are certain."""
    return Cell.number(bracket(ends, digits), list(ends))


def lower_cell(value: float | None) -> Cell:
    """Return a certified lower bound, rounded down."""
    if value is None:
        return Cell(text=MISSING, style=Cell.number("", None).style)
    return Cell.number(number(value, 5, Rounding.DOWN), value)


def upper_cell(value: float | None, note: str = "") -> Cell:
    """Return a claimed upper bound, rounded up."""
    return Cell.number(number(value, 5, Rounding.UP), value, note)


def ratio_cell(value: float | None) -> Cell:
    """Return claimed over exact."""
    return Cell.number(ratio(value), value)


def summary(settings: Sequence[Node]) -> Table:
    """Return a row for each setting and delta, and one more for each bound refuted there."""
    rows = []
    for setting in settings:
        for row in setting["deltas"]:
            best = stored.tightest(row)
            known = _known(setting, row)
            rows += [(*known, *_claim(bound)) for bound in stored.refuted(row)]
            if best or not stored.refuted(row):
                rows.append((*known, *_claim(best)))
    return Table(
        caption="Epsilon: what samples certify, what the pair has, and what is claimed"
        + _strongest_words(settings),
        columns=(
            Column(label="Setting"),
            Column(label="δ", numeric=True),
            Column(label="Certified lower bound", numeric=True),
            Column(label="Exact value of the pair", numeric=True),
            Column(label="Tightest claimed upper bound", numeric=True),
            Column(label="Claimed / exact", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def _strongest_words(settings: Sequence[Node]) -> str:
    named = any(stored.strongest(row)[1] for setting in settings for row in setting["deltas"])
    return "; where another pair is stronger, claims are compared with that" if named else ""


def _known(setting: Node, row: Node) -> tuple[Cell, ...]:
    return (
        Cell(text=stored.title(setting), target=f"setting-{stored.stem(setting)}"),
        Cell.number(plain(row["delta"]), row["delta"]),
        lower_cell(stored.sampled_epsilon(row)),
        _exact_with_strongest(row),
    )


def _exact_with_strongest(row: Node) -> Cell:
    if not stored.exact_known(row):
        return Cell(text="not computed")
    cell = exact_cell(stored.worst(row))
    value, name = stored.strongest(row)
    if not name:
        return cell
    return replace(cell, note=f"{name}: {number(value, 6, Rounding.DOWN)}")


def _claim(bound: Node | None) -> tuple[Cell, ...]:
    if bound is None:
        return (
            Cell(text="none applies"),
            Cell(text=MISSING),
            Cell.verdict(stored.NOT_APPLICABLE),
        )
    return (
        upper_cell(bound.get("epsilon"), str(bound["id"])),
        ratio_cell(bound.get("ratio")),
        Cell.verdict(str(bound.get("verdict", MISSING))),
    )


def parameters(setting: Node) -> Table:
    """Return the mechanism's parameters, what follows from them, and the pair."""
    rows = [_parameter(name, value) for name, value in setting["mechanism"].items()]
    if setting.get("source"):
        rows.append((Cell(text="scores of"), Cell(text=""), Cell(text=str(setting["source"]))))
    rows += [_parameter(name, value) for name, value in (setting.get("derived") or {}).items()]
    pair = setting.get("construction")
    if pair:
        rows.append((Cell(text="pair"), Cell(text=""), Cell(text=_called(pair))))
    if setting.get("trials") is not None:
        trials = setting["trials"]
        rows.append(
            (Cell(text="samples of each law"), Cell(text="N"), Cell.number(count(trials), trials))
        )
    return Table(
        caption="Parameters",
        columns=(Column(label="Parameter"), Column(label="Symbol"), Column(label="Value")),
        rows=tuple(row for row in rows if row[2].text != "none"),
        stacked=False,
    )


def _parameter(name: str, value: Any) -> tuple[Cell, ...]:
    label = Cell(text=_LABELS.get(name, name.replace("_", " ")))
    symbol = Cell(text=_SYMBOLS.get(name, ""))
    if isinstance(value, (list, tuple)) and len(value) > 4:
        return label, symbol, Cell(text=f"{plain(value[0])} to {plain(value[-1])}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return label, symbol, Cell.number(plain(value), value)
    return label, symbol, Cell(text=plain(value))


def _called(pair: Node) -> str:
    inside = ", ".join(
        f"{name}={plain(value)}"
        for name, value in (pair.get("parameters") or {}).items()
        if value is not None
    )
    return f"{pair['name']}({inside})"


def claims(setting: Node) -> Table | None:
    """Return every bound that applies, tightest first at each delta."""
    rows = []
    for row in setting["deltas"]:
        applied = [c for c in stored.judged([setting]) if c.row is row]
        for claim in sorted(applied, key=lambda c: (c.epsilon, c.bound["id"])):
            bound = claim.bound
            rows.append(
                (
                    Cell.code(str(bound["id"]), str(bound.get("citation", ""))),
                    Cell(text=str(bound.get("status", MISSING))),
                    Cell.number(plain(row["delta"]), row["delta"]),
                    *_claim({**bound, "id": ""}),
                )
            )
    if not rows:
        return None
    return Table(
        caption=(
            "Claimed upper bounds on epsilon, against the exact value"
            if all(stored.exact_known(row) for row in setting["deltas"])
            else "Claimed upper bounds on epsilon, against what samples certify"
        )
        + _strongest_words([setting]),
        columns=(
            Column(label="Bound"),
            Column(label="Status"),
            Column(label="δ", numeric=True),
            Column(label="Claimed epsilon", numeric=True),
            Column(label="Ratio", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def inapplicable(setting: Node) -> Table | None:
    """Return the bounds whose assumptions the mechanism does not meet, with the reason."""
    reasons = {
        str(bound["id"]): (str(bound.get("citation", "")), str(bound.get("reason") or MISSING))
        for row in setting["deltas"]
        for bound in row.get("bounds", ())
        if bound.get("verdict") == stored.NOT_APPLICABLE
    }
    if not reasons:
        return None
    return Table(
        caption="Bounds that do not apply to this mechanism",
        columns=(Column(label="Bound"), Column(label="Reason")),
        rows=tuple(
            (Cell.code(name, citation), Cell(text=reason))
            for name, (citation, reason) in sorted(reasons.items())
        ),
    )


def orders(setting: Node) -> Table | None:
    """Return the exact epsilon in both orders, in full, for this pair and the other ones."""
    if not all(stored.exact_known(row) for row in setting["deltas"]):
        return None
    pair = (setting.get("construction") or {}).get("name", "pair")
    rows = []
    for row in setting["deltas"]:
        ends = [row["exact"].get(order) for order in ("forward", "reverse")]
        cells = [exact_cell(e, _FULL_DIGITS) if e else Cell(text=MISSING) for e in ends]
        worst = exact_cell(stored.worst(row), _FULL_DIGITS)
        rows.append(
            (Cell(text=pair), Cell.number(plain(row["delta"]), row["delta"]), *cells, worst)
        )
    for other in setting.get("other_pairs") or ():
        for entry in other.get("epsilon", ()):
            delta = Cell.number(plain(entry["delta"]), entry["delta"])
            worst = exact_cell(entry["worst"], _FULL_DIGITS)
            searched = f"{other['name']}, found by search" if other.get("found_by") else ""
            name = Cell(text=searched or _called(other))
            rows.append((name, delta, *[Cell(text=MISSING)] * 2, worst))
    return Table(
        caption="Exact epsilon in both orders, to the digits that are certain",
        columns=(
            Column(label="Pair"),
            Column(label="δ", numeric=True),
            Column(label="X against X'", numeric=True),
            Column(label="X' against X", numeric=True),
            Column(label="Worse of the two", numeric=True),
        ),
        rows=tuple(rows),
    )


def renyi(setting: Node) -> Table | None:
    """Return Renyi divergences: sampled, exact in both orders, and the tightest claims."""
    rows = []
    for entry in setting.get("renyi") or ():
        known = (
            Cell.number(plain(entry["order"]), entry["order"]),
            lower_cell(entry.get("sampled_lower")),
            exact_cell(entry["forward"]),
            exact_cell(entry["reverse"]),
        )
        bounds = [b for b in entry.get("bounds", ()) if b.get("value") is not None]
        wrong = [b for b in bounds if b.get("verdict") == stored.REFUTED]
        standing = [b for b in bounds if stored.stands(b, str(b.get("verdict")))]
        best = min(standing, key=lambda b: float(b["value"]), default=None)
        for bound in [*wrong, *([best] if best or not wrong else [])]:
            claim = upper_cell(bound["value"], str(bound["id"])) if bound else Cell(text="none")
            verdict = Cell.verdict(str(bound.get("verdict", MISSING))) if bound else Cell(text="")
            rows.append((*known, claim, verdict))
    if not rows:
        return None
    return Table(
        caption="Renyi divergences",
        columns=(
            Column(label="Order", numeric=True),
            Column(label="Certified lower bound", numeric=True),
            Column(label="X from X'", numeric=True),
            Column(label="X' from X", numeric=True),
            Column(label="Tightest claimed upper bound", numeric=True),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


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

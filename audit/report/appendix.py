"""The tables at the end: what the certified numbers rest on, and where the run comes from."""

from __future__ import annotations

from collections.abc import Sequence

from audit.report import stored
from audit.report.document import Cell, Column, Table, Text
from audit.report.number_format import MISSING, Rounding, bracket, count, duration, number, plain
from audit.report.setting_tables import lower_cell
from audit.report.stored import Node

_SPACE = "\N{NO-BREAK SPACE}"
_ORDERS = {
    "forward": f"X{_SPACE}against{_SPACE}X'",
    "reverse": f"X'{_SPACE}against{_SPACE}X",
}


def counts(settings: Sequence[Node]) -> Table | None:
    """Return the event, the counts and the error spent behind each certified lower bound."""
    rows = [
        _counted(setting, row)
        for setting in settings
        for row in setting["deltas"]
        if row.get("sampled")
    ]
    if not rows:
        return None
    return Table(
        caption="What each certified lower bound rests on",
        columns=(
            Column(label="Setting"),
            Column(label="δ", numeric=True),
            Column(label="Certified lower bound", numeric=True),
            Column(label="Order"),
            Column(label="Event"),
            Column(label="X in it", numeric=True),
            Column(label="X' in it", numeric=True),
            Column(label="Error spent", numeric=True),
            Column(label="Most these samples could certify", numeric=True),
        ),
        rows=tuple(rows),
    )


def _counted(setting: Node, row: Node) -> tuple[Cell, ...]:
    sampled = row["sampled"]
    most = stored.certifiable(row)
    spent = sampled.get("confidence_spent", sampled.get("error_spent"))
    first, second = _frequencies(sampled)
    return (
        Cell(text=stored.title(setting)),
        Cell.number(plain(row["delta"]), row["delta"]),
        lower_cell(stored.sampled_epsilon(row)),
        Cell(text=_ORDERS.get(str(sampled.get("order")), MISSING)),
        Cell(text=event(sampled)),
        first,
        second,
        Cell.number(number(spent, 3), spent) if spent is not None else Cell(text=MISSING),
        Cell.number(number(most, 4, Rounding.UP), most),
    )


def event(sampled: Node) -> str:
    """Return the event, such as ``x ≥ 0.3125``."""
    relation = str(sampled.get("tail", sampled.get("event", "")))
    if sampled.get("threshold") is None:
        return relation or MISSING
    threshold = plain(sampled["threshold"])
    words = {"upper": "x ≥ t", "lower": "x ≤ t"}.get(relation, relation or "x ? t")
    words = words.replace(">=", "≥").replace("<=", "≤")
    told = words[:-1] + threshold if words.endswith("t") else f"{words} {threshold}"
    return told.replace(" ", _SPACE)


def _frequencies(sampled: Node) -> tuple[Cell, Cell]:
    """Return counts of X and of X'; those stored by order are put back."""
    if "first_count" in sampled:
        pairs = [(sampled[f"{w}_count"], sampled[f"{w}_total"]) for w in ("first", "second")]
        if sampled.get("order") == "reverse":
            pairs.reverse()
    else:
        pairs = [(sampled.get(f"count{p}"), sampled.get(f"total{p}")) for p in ("", "_prime")]
    cells = [
        Cell(text=MISSING)
        if k is None or n is None
        else Cell.number(f"{count(k)} of {count(n)}", k)
        for k, n in pairs
    ]
    return cells[0], cells[1]


def provenance(result: Node) -> Table:
    """Return where the run comes from: versions, commit, seed, time."""
    stored_rows = dict(result.get("provenance") or {})
    packages = stored_rows.pop("packages", None) or {}
    commit, dirty = stored_rows.pop("commit", None), stored_rows.pop("commit_dirty", False)
    seconds = stored_rows.pop("wall_seconds", None)
    rows = [("scenario", str(result["scenario"]["name"]))]
    rows += [(name.replace("_", " "), plain(value)) for name, value in stored_rows.items()]
    rows.append(
        ("commit", f"{commit}, with changes" if commit and dirty else str(commit or "none"))
    )
    if seconds is not None:
        rows.append(("wall time", duration(seconds)))
    rows += [
        (f"wall time of “{stored.title(setting)}”", duration(setting["wall_seconds"]))
        for setting in result["settings"]
        if setting.get("wall_seconds") is not None
    ]
    if packages:
        rows.append(("packages", ", ".join(f"{name} {v}" for name, v in packages.items())))
    return Table(
        caption="Where these numbers come from",
        columns=(Column(label="What"), Column(label="Value")),
        rows=tuple((Cell(text=name), Cell(text=value)) for name, value in rows),
        stacked=False,
    )


def methods(result: Node) -> tuple[Text, ...]:
    """Return how the numbers were found and what a verdict means."""
    settings = result["settings"]
    return (
        *(_of_comparisons(result) if stored.compared(settings) else ()),
        *(_of_studies(result) if stored.studied(settings) else ()),
    )


def _of_studies(result: Node) -> tuple[Text, ...]:
    return (
        Text(
            "Statements. A study checks statements one by one, each against a value that was "
            "computed or sampled; the error that is allowed for stands beside it. Where samples "
            "decide, the study's own words say which share of the error of "
            f"{number(100 * (1 - result['confidence']), 3).rstrip('0').rstrip('.')}% is spent on "
            "them. Refuted: what was found contradicts the statement even after every error is "
            "taken in its favour. Holds: it does not, and what was found agrees within the error. "
            "Inconclusive: the error is too large to tell."
        ),
    )


def _of_comparisons(result: Node) -> tuple[Text, ...]:
    confidence = number(100 * result["confidence"], 4).rstrip("0").rstrip(".")
    return (
        Text(
            "Exact value of the pair. The laws of the last iterate under the two neighbouring "
            "datasets are computed, not sampled, and every numerical error widens the bracket that "
            "is stored; only digits on which both ends of the bracket agree are printed. Epsilon "
            "is the worse of both orders of the pair: X against X', and X' against X."
        ),
        Text(
            "Certified lower bound. One part of the samples chooses the events, the rest counts "
            "them. Whatever was chosen from is paid for, so that all certified numbers of one "
            f"setting hold together with confidence {confidence}%. They are rounded down. Samples "
            "cannot certify more than their number allows, however far apart the two laws are."
        ),
        Text(
            "Claimed upper bound. Each theorem is evaluated at the mechanism's public parameters "
            "and rounded up. A pair gives a lower bound on the privacy loss of the mechanism, so a "
            "claim below it is refuted. Where a claim is far above, either the claim is loose or "
            "the pair is not the worst one."
        ),
        Text(
            "Verdicts. Refuted: the claim is contradicted even after every error is taken in its "
            "favour. Consistent: it is not, which is no proof of it. Inconclusive: the bracket is "
            "too wide to tell. Not applicable: the mechanism does not meet the assumptions."
        ),
    )


def spread(ends: stored.Ends | None, note: str = "") -> Cell:
    """Return an exact probability or divergence, with a remark."""
    if ends is None:
        return Cell(text=MISSING, note=note)
    return Cell.number(bracket(ends), list(ends), note)

"""Studies in a joined report, and an index of many different scenarios: a row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from audit.report import stored
from audit.report.document import Cell, Column, Table
from audit.report.joined_rows import comparisons
from audit.report.number_format import MISSING, count, ratio
from audit.report.runs import Run
from audit.report.stored import Node

_WORST_FIRST = (stored.REFUTED, stored.INCONCLUSIVE, stored.CONSISTENT, stored.HOLDS)
_COLUMNS = ("Hold", "Consistent", "Inconclusive", "Refuted")
_OWN = "claimed"  # the status of what a user claims of a mechanism of their own


def statements_in_words(settings: Sequence[Node]) -> list[str]:
    """Return what became of the statements of all studies, as a clause; nothing without any."""
    outcomes = [one.outcome for one in stored.stated(settings)]
    if not outcomes:
        return []
    plural = "" if len(outcomes) == 1 else "s"
    return [f"of {count(len(outcomes))} statement{plural} of studies {_counts(outcomes)}"]


def _counts(outcomes: Sequence[str], noun: str = "") -> str:
    """Return how many hold, are refuted and are open: ``3 hold, 1 is refuted``."""
    words = []
    for outcome in reversed(_WORST_FIRST):
        number = outcomes.count(outcome)
        if number:
            verb = "is" if number == 1 else "are"
            hold = "holds" if number == 1 else "hold"
            told = hold if outcome == stored.HOLDS else f"{verb} {outcome}"
            named = f" {noun}{'' if number == 1 else 's'}" if noun else ""
            words.append(f"{count(number)}{named} {told}")
    return ", ".join(words)


def _worst(outcomes: Sequence[str]) -> str:
    return next((word for word in _WORST_FIRST if word in outcomes), MISSING)


def studies(runs: Sequence[Run], links: Mapping[str, str]) -> Table | None:
    """Return a row for each study: how many of its statements hold; None if there is none."""
    rows = []
    for run in runs:
        for setting in stored.studied((run.result or {}).get("settings", ())):
            outcomes = [one.outcome for one in stored.stated([setting])]
            rows.append(
                (
                    Cell(text=stored.title(setting), note=run.name, link=links[run.name]),
                    *(_number(outcomes.count(word)) for word in reversed(_WORST_FIRST)),
                    Cell.verdict(_worst(outcomes)),
                )
            )
    if not rows:
        return None
    return Table(
        caption="Studies: how many of their statements hold",
        columns=(
            Column(label="Study"),
            *(Column(label=word, numeric=True) for word in _COLUMNS),
            Column(label="Verdict"),
        ),
        rows=tuple(rows),
    )


def _number(value: int) -> Cell:
    return Cell.number(count(value), value)


def different(runs: Sequence[Run]) -> bool:
    """Whether the runs are of several scenarios; else they are a sweep over one."""
    return len({run.result["scenario"]["name"] for run in runs if run.result}) > 1


def by_scenario(runs: Sequence[Run], links: Mapping[str, str]) -> Table:
    """Return a row for each run, those with errors first."""
    ordered = sorted(runs, key=lambda run: run.error is None)
    return Table(
        caption=(
            "Each scenario: the tightest claim that stands over what is certain (least and "
            "largest), what is refuted, and what studies found"
        ),
        columns=(
            Column(label="Scenario"),
            Column(label="Claimed / certain", numeric=True),
            Column(label="Found"),
            Column(label="Verdict"),
        ),
        rows=tuple(_scenario(run, links[run.name]) for run in ordered),
    )


def _scenario(run: Run, link: str) -> tuple[Cell, ...]:
    if run.result is None:
        missing = Cell(text=MISSING)
        name = Cell(text=run.name, note=str(run.error))
        return (name, missing, missing, Cell.verdict("error"))
    settings = run.result["settings"]
    found = comparisons([run])
    standing = [
        float(row["ratio"])
        for row in found
        if row["ratio"] is not None and row["verdict"] == stored.CONSISTENT
    ]
    refuted = sorted(
        set(refuted_ids(found))
        | set(stored.refuted_orders(settings))
        | set(stored.refuted_records(settings))
    )
    own = refuted_own(found)
    outcomes = [one.outcome for one in stored.stated(settings)]
    points = sum(len(setting["deltas"]) for setting in settings)
    return (
        Cell(text=str(run.result["scenario"].get("title") or run.name), note=run.name, link=link),
        _between(standing, points),
        _found(refuted, own, outcomes, bool(standing)),
        Cell.verdict(_verdict(found, bool(refuted or own), outcomes)),
    )


def refuted_ids(found: Sequence[Node]) -> list[str]:
    """Return the ids of refuted statements, sorted; users' own claims are not among them."""
    wrong = [row for row in found if row["verdict"] == stored.REFUTED]
    return sorted({str(row["claimed_by"]) for row in wrong if row["status"] != _OWN})


def refuted_own(found: Sequence[Node]) -> int:
    """Return how many claims about users' own mechanisms are refuted."""
    return sum(row["verdict"] == stored.REFUTED and row["status"] == _OWN for row in found)


def own_in_words(number: int) -> str:
    """Return how many claims about users' own mechanisms are refuted, as a clause."""
    if number == 1:
        return "1 claim about a mechanism of one's own is refuted"
    return f"{count(number)} claims about mechanisms of one's own are refuted"


def _found(refuted: Sequence[str], own: int, outcomes: Sequence[str], judged: bool) -> Cell:
    parts = []
    if refuted:
        parts.append(f"refuted: {', '.join(refuted)}")
    if own:
        parts.append(own_in_words(own))
    if judged and not parts and stored.REFUTED not in outcomes:
        parts.append("nothing is refuted")
    if outcomes:
        every = len(set(outcomes)) == 1
        total = "" if every else f"of {count(len(outcomes))} statements "
        parts.append(f"{total}{_counts(outcomes, 'statement' if every else '')}")
    return Cell(text="; ".join(parts) or MISSING)


def _between(ratios: Sequence[float], points: int) -> Cell:
    if not ratios:
        return Cell(text=MISSING)
    note = f"{count(points)} comparison{'' if points == 1 else 's'}"
    least, most = ratio(min(ratios)), ratio(max(ratios))
    text = least if least == most else f"{least} to {most}"
    return Cell.number(text, [min(ratios), max(ratios)], note)


def _verdict(found: Sequence[Node], refuted: bool, outcomes: Sequence[str]) -> str:
    """Return the word for a run: refuted if anything of it is, else what the rest comes to."""
    if refuted or stored.REFUTED in outcomes:
        return stored.REFUTED
    if stored.INCONCLUSIVE in outcomes:
        return stored.INCONCLUSIVE
    if any(row["verdict"] == stored.CONSISTENT for row in found):
        return stored.CONSISTENT
    return _worst(outcomes) if outcomes else stored.NOT_APPLICABLE

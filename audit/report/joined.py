"""The report of many runs: an index of their numbers, with failed runs in their places."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from audit import validate
from audit.numerics.number_format import count, ratio
from audit.report import joined_rows, queries
from audit.report.conclusion import refuted_elsewhere, sentences
from audit.report.document import (
    COUNT,
    RATIO,
    TEXT,
    VERDICT,
    Cell,
    Document,
    Gallery,
    Section,
    Table,
)
from audit.report.figures import sweep
from audit.report.joined_rows import JoinedRow, epsilon_rows, failed_runs
from audit.report.runs import Run
from audit.report.setting_section import claim_cells, epsilon_table, exact_cell, lower_cell
from audit.report.study_section import worst
from audit.results import Number, Result, Verdict
from audit.results.result import CLAIMED

_MAX_FIRST_ROWS = 40  # rows of the first screen's table; of more, only the telling ones
_OUTCOMES = {
    Verdict.HOLDS: "Hold",
    Verdict.CONSISTENT: "Consistent",
    Verdict.INCONCLUSIVE: "Inconclusive",
    Verdict.REFUTED: "Refuted",
}
_EVERY_ROW = "Each run, setting and delta"
_METHODS = (
    "Certified lower bounds hold each at the confidence of its own run; they are rounded down, "
    "claims are rounded up, and of exact values only the certain digits are written. Refuted: "
    "the claim is contradicted even after every error is taken in its favour. Consistent: it "
    "is not, which is no proof of it. Error: the run stored no result, for the reason given."
)


def index_rows(runs: Sequence[Run]) -> list[JoinedRow]:
    """Return the rows of the index, what is wrong first: errors, refuted claims, and the rest."""
    found = epsilon_rows(runs)
    return [*failed_runs(runs), *sorted(found, key=lambda one: one.verdict is not Verdict.REFUTED)]


def build(runs: Sequence[Run], folder: Path) -> Document:
    """Return the index; links are relative to ``folder``."""
    if not runs:
        raise validate.fail("runs", "one or more", runs)
    found = index_rows(runs)
    many = len(found) > _MAX_FIRST_ROWS
    first = _extremes(found) if many else found
    links = {run.name: _link(run, folder) for run in runs}
    # several scenarios; else the runs are a sweep over one
    by_scenario = many and len({run.result.scenario.name for run in runs if run.result}) > 1
    studies = _studies(runs, links)
    epsilons = _table(runs, first, links, _caption(first, found))
    tables = [epsilons, studies] if found else [studies]
    if by_scenario:
        tables = [_by_scenario(runs, links)]
    elif not studies.rows:
        tables = [epsilons]
    every = None
    if by_scenario or len(first) < len(found):
        every = _table(runs, [*failed_runs(runs), *epsilon_rows(runs)], links, _EVERY_ROW)
    sections = [
        ("maps", "Over the sweep", Gallery(sweep.maps(runs))),
        ("rows", "Every row", every),
        ("runs", "Runs", _runs(runs)),
        ("methods", "Methods", _METHODS),
    ]
    overview = sweep.draw(epsilon_rows(runs))
    return Document(
        title="Tightness of the claims: an index of stored runs",
        subtitle="Every number is read from the stored results; nothing was run again.",
        conclusion=conclusion(runs),
        tables=tuple(tables),
        overview=Gallery((overview,) if overview else ()),
        sections=tuple(
            Section(ident=ident, title=title, parts=(part,))
            for ident, title, part in sections
            if part is not None and part != Gallery(())
        ),
    )


def conclusion(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the sentences that the report begins with, refutations and errors first."""
    rows = epsilon_rows(runs)
    settings = [setting for run in runs if run.result for setting in run.result.settings]
    verdicts = [one.verdict for _, one in queries.statements(settings)]
    wrong, own = _refuted_ids(rows), _refuted_user_claims(rows)
    refuted = refuted_elsewhere(settings)
    if own:
        refuted.insert(0, own)
    if wrong:
        refuted.insert(0, f"refuted in at least one run: {', '.join(wrong)}")
    of_studies = f"of {_many(len(verdicts), 'statement')} of studies {_counts(verdicts)}"
    if Verdict.REFUTED in verdicts:
        refuted.append(of_studies)
    errors = len(failed_runs(runs))
    ended = f"{_many(len(runs) - errors, 'result')} and {_many(errors, 'error')}"
    clauses = [*refuted, *([ended] if errors else [])]
    standing = _tightness(rows)
    if standing:
        if not refuted:
            clauses.append("no claim is refuted")
        clauses.append(f"the tightest claim that stands is {_least_to_largest(standing)}")
    if verdicts and Verdict.REFUTED not in verdicts:
        clauses.append(of_studies)
    return sentences(clauses if errors else [*clauses, ended])


def table(runs: Sequence[Run]) -> Table:
    """Return every comparison of epsilons as one table, without links."""
    return _table(runs, index_rows(runs), {run.name: "" for run in runs}, _EVERY_ROW)


def shown(runs: Sequence[Run]) -> str:
    """Return a line for each refuted claim or statement and each error, for a terminal."""
    told = (Verdict.REFUTED, Verdict.ERROR)
    return "\n".join(row.line for row in joined_rows.rows(runs) if row.verdict in told)


def labels(runs: Sequence[Run]) -> dict[str, str]:
    """Return what tells the runs apart: the words of its command that not all of them share."""
    words = {run.name: [w.removesuffix("=null") for w in _words(run.command)] for run in runs}
    known = [set(one) for one in words.values() if one]
    shared = set.intersection(*known) if len(known) > 1 else set()
    found = {}
    for name, one in words.items():
        own = [w for w in one[1:] if w not in shared and not w.startswith(("output=", "sweep="))]
        found[name] = ", ".join(_last_name(word) for word in own) or name
    return found


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # written by a former version, which did not quote words
        return command.split()


def _last_name(word: str) -> str:
    """Return an override by its last name: ``settings.full.mechanism.steps=3`` is ``steps=3``."""
    key, mark, value = word.partition("=")
    return key.rpartition(".")[2] + mark + value


def _many(number_of: int, word: str) -> str:
    return f"{count(number_of)} {word}{'' if number_of == 1 else 's'}"


def _tightness(rows: Sequence[JoinedRow]) -> list[tuple[float, str]]:
    """Return the ratios of claims that stand and are finite, with the claims."""
    return [
        (row.ratio, str(row.claimed_by))
        for row in rows
        if row.verdict is Verdict.CONSISTENT and row.ratio is not None and math.isfinite(row.ratio)
    ]


def _least_to_largest(standing: Sequence[tuple[float, str]]) -> str:
    least, most = min(standing), max(standing)
    if ratio(least[0]) == ratio(most[0]):
        return f"{ratio(least[0])} times what is certain ({least[1]})"
    return (
        f"between {ratio(least[0])} ({least[1]}) and {ratio(most[0])} ({most[1]}) times what is "
        "certain"
    )


def _refuted_ids(rows: Sequence[JoinedRow]) -> list[str]:
    """Return the ids of refuted statements, sorted; users' own claims are not among them."""
    wrong = [row for row in rows if row.verdict is Verdict.REFUTED and row.status != CLAIMED]
    return sorted({str(row.claimed_by) for row in wrong})


def _refuted_user_claims(rows: Sequence[JoinedRow]) -> str:
    """Return how many claims about user-defined mechanisms are refuted; nothing for none."""
    number = sum(row.verdict is Verdict.REFUTED and row.status == CLAIMED for row in rows)
    if number == 1:
        return "1 claim about a user-defined mechanism is refuted"
    return f"{count(number)} claims about user-defined mechanisms are refuted" if number else ""


def _counts(verdicts: Sequence[Verdict], noun: str = "") -> str:
    """Return how many hold, are refuted and are open: ``3 hold, 1 is refuted``."""
    words = []
    for verdict in _OUTCOMES:
        number = verdicts.count(verdict)
        if number:
            predicate = f"{'is' if number == 1 else 'are'} {verdict.value}"
            if verdict is Verdict.HOLDS:
                predicate = "holds" if number == 1 else "hold"
            words.append(f"{_many(number, noun) if noun else count(number)} {predicate}")
    return ", ".join(words)


def _caption(first: Sequence[JoinedRow], rows: Sequence[JoinedRow]) -> str:
    caption = "Epsilon: what samples certify, what the strongest pair has, and what is claimed"
    if len(first) == len(rows):
        return caption
    return (
        f"{caption}; of {len(rows)} rows those with errors or refuted claims, and the tightest and "
        "the loosest claim of each setting"
    )


def _extremes(rows: Sequence[JoinedRow]) -> list[JoinedRow]:
    """Return what is wrong, and of each setting and delta the tightest and the loosest claim."""
    groups: dict[object, list[JoinedRow]] = {}
    for row in rows:
        if row.ratio is not None:
            groups.setdefault((row.scenario, row.setting, row.delta), []).append(row)
    ordered = [sorted(group, key=lambda row: row.ratio or 0.0) for group in groups.values()]
    extremes = [row for group in ordered for row in dict.fromkeys((group[0], group[-1]))]
    return [row for row in rows if row.verdict in (Verdict.ERROR, Verdict.REFUTED)] + extremes


def _table(
    runs: Sequence[Run], rows: Sequence[JoinedRow], links: Mapping[str, str], caption: str
) -> Table:
    notes = labels(runs)
    cells = (
        (Cell(text=notes[row.run], note=row.error), *[None] * 5, row.verdict)
        if row.error is not None
        else (
            Cell(text=row.title, note=notes[row.run], link=links[row.run]),
            row.delta,
            row.lower if row.lower is None else lower_cell(row.lower, row.claimed),
            _exact_of_strongest(row),
            *(
                (None, None, row.verdict)
                if row.claimed_by is None
                else claim_cells(
                    row.claimed, row.ratio, row.verdict, row.certified or 0.0, row.claimed_by
                )
            ),
        )
        for row in rows
    )
    return epsilon_table(caption, "Run", "Exact value", cells)


def _exact_of_strongest(row: JoinedRow) -> Cell:
    """Return the certain value of the strongest pair; of another pair only its lower end."""
    low, high = row.exact_low, row.exact_high
    if low is None or high is None or row.certified is None:
        return Cell.missing()
    if row.certified != low:
        low, high = row.certified, math.inf
    return replace(exact_cell(Number(low, low, high), row.claimed), note=str(row.certified_by))


def _link(run: Run, folder: Path) -> str:
    """Return where the run's own report is, from ``folder``; nothing if it has none."""
    page = run.folder / "report.html"
    if not page.is_file():
        return ""
    return quote(Path(os.path.relpath(page.resolve(), folder.resolve())).as_posix())


def _by_scenario(runs: Sequence[Run], links: Mapping[str, str]) -> Table:
    """Return a row for each run, those with errors first."""
    caption = (
        "Each scenario: the tightest claim that stands over what is certain (least and "
        "largest), what is refuted, and what studies found"
    )
    columns = {"Scenario": TEXT, "Claimed / certain": RATIO, "Found": TEXT, "Verdict": VERDICT}
    failed = [
        (Cell(text=row.run, note=row.error or ""), None, None, row.verdict)
        for row in failed_runs(runs)
    ]
    found = [_scenario(run, run.result, links[run.name]) for run in runs if run.result]
    return Table.of(caption, columns, [*failed, *found])


def _scenario(run: Run, result: Result, link: str) -> tuple[object, ...]:
    settings, rows = result.settings, epsilon_rows([run])
    ratios = [value for value, _ in _tightness(rows)]
    refuted = {
        *_refuted_ids(rows),
        *queries.refuted_orders(settings),
        *queries.refuted_positions(settings),
    }
    own = _refuted_user_claims(rows)
    verdicts = [one.verdict for _, one in queries.statements(settings)]
    parts = [f"refuted: {', '.join(sorted(refuted))}"] if refuted else []
    if own:
        parts.append(own)
    if ratios and not parts and Verdict.REFUTED not in verdicts:
        parts.append("nothing is refuted")
    if len(set(verdicts)) == 1:
        parts.append(_counts(verdicts, "statement"))
    elif verdicts:
        parts.append(f"of {count(len(verdicts))} statements {_counts(verdicts)}")
    tightness = Cell.missing()
    if ratios:
        deltas = sum(len(setting.deltas) for setting in queries.compared(settings))
        least, most = min(ratios), max(ratios)
        text = " to ".join(dict.fromkeys((ratio(least), ratio(most))))
        tightness = Cell.number(text, (least, most), _many(deltas, "comparison"))
    return (
        Cell(text=result.scenario.title or run.name, note=run.name, link=link),
        tightness,
        "; ".join(parts) or None,
        _overall(rows, bool(refuted or own), verdicts),
    )


def _overall(rows: Sequence[JoinedRow], refuted: bool, verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a run: refuted if anything of it is, else that on the rest."""
    if refuted or Verdict.REFUTED in verdicts:
        return Verdict.REFUTED
    if Verdict.INCONCLUSIVE in (*verdicts, *(row.verdict for row in rows)):
        return Verdict.INCONCLUSIVE
    if any(row.verdict is Verdict.CONSISTENT for row in rows):
        return Verdict.CONSISTENT
    return worst(verdicts) if verdicts else Verdict.NOT_APPLICABLE


def _studies(runs: Sequence[Run], links: Mapping[str, str]) -> Table:
    """Return a row for each study: how many of its statements hold."""
    rows = []
    for run in runs:
        for study in queries.studies(run.result.settings if run.result else ()):
            verdicts = [one.verdict for one in study.findings.statements]
            name = Cell(text=queries.title(study), note=run.name, link=links[run.name])
            counted = map(verdicts.count, _OUTCOMES)
            rows.append((name, *counted, worst(verdicts) if verdicts else None))
    columns = {"Study": TEXT, **dict.fromkeys(_OUTCOMES.values(), COUNT), "Verdict": VERDICT}
    return Table.of("Studies: how many of their statements hold", columns, rows)


def _runs(runs: Sequence[Run]) -> Table:
    return Table.of(
        "The runs and the commands that repeat them",
        dict.fromkeys(("Run", "Command", "What", "Status"), TEXT),
        (
            (
                run.name,
                run.command or None,
                (run.result.scenario.title if run.result else run.error) or None,
                "done" if run.result else Cell.verdict(Verdict.ERROR),
            )
            for run in runs
        ),
    )

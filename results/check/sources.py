"""The rows of every table and result that is stored, with what computes them again.

Laws are those of the stored pairs and bounds those of the stored mechanisms, through the public
functions of the package; tables come from the programs beside them, written to another folder.
Rows are listed without computing anything. Times, and rows that need packages of other
environments, are not listed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml

from audit import bounds, exact, report
from audit.claims import Budget, Claim, Judgement, Verdict, check
from audit.claims.claim import Asked, NumberSource
from audit.claims.claims_file import load
from audit.claims.judge import Shared, judge
from audit.claims.lock import entries, read
from audit.claims.witness import Witness
from audit.codec import encode
from audit.constructions import Construction, decode_pair
from audit.constructions.explicit import Repeated
from audit.curves import Order
from audit.estimation import audit_samples
from audit.mechanism import NoisySGD
from audit.results import PairResult, to_json
from audit.search import read_found
from audit_panel.mechanisms import drawn
from results.allocation import make as allocation
from results.calibration import cells
from results.calibration.mechanisms import DELTAS
from results.catalogue import make as catalogue
from results.catalogue import stored_witnesses
from results.catalogue.printed import printed
from results.check.rows import Row
from results.claims import false_alarms, mutations
from results.claims import make as claims
from results.last_iterate import make as last_iterate
from results.map import make as map_program
from results.map import page as map_page
from results.map.grid import Point, points
from results.panel import table as panel_table
from results.planner import make as planner
from results.zoo import page as zoo_page
from results.zoo.cases import Case, read_all
from results.zoo.judging import ERROR

RESULTS = Path(__file__).resolve().parents[1]
SCENARIOS = RESULTS.parent / "scenarios"

Table = Mapping[str, Any]

_OF_TRAININGS = 0.99  # confidence


def rows() -> tuple[Row, ...]:
    """Return all rows, in the order of the tables."""
    return tuple(row for source in SOURCES for row in source())


# results of scenarios


def _folders() -> Iterator[tuple[str, Path]]:
    """Yield the name of each scenario with results, and their folder."""
    for file in sorted(RESULTS.rglob("result.json")):
        if not file.is_relative_to(RESULTS / "runs"):
            folder = file.parent
            within = RESULTS / "scenarios"
            inside = folder.is_relative_to(within)
            yield str(folder.relative_to(within if inside else RESULTS)), folder


def pairs() -> Iterator[Row]:
    """Yield a row a setting with a pair: exact numbers of its pairs, and its bounds."""
    for _, folder in _folders():
        for setting in report.load(folder).settings:
            if isinstance(setting, PairResult):
                place = f"{folder.relative_to(RESULTS)}/result.json: {setting.name}"
                yield Row(place, _stored_numbers(setting), partial(_numbers, setting))


def _stored_numbers(setting: PairResult) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for row in setting.deltas:
        if row.exact is not None:
            known[f"epsilon at delta {row.delta:g}"] = _of_orders(encode(row.exact))
        known[f"bounds at delta {row.delta:g}"] = {one.id: one.value for one in row.bounds}
    for at in setting.renyi:
        known[f"divergence of order {at.order:g}"] = _of_orders(encode(at.exact))
        known[f"bounds of order {at.order:g}"] = {one.id: one.value for one in at.bounds}
    for number, other in enumerate(setting.other_pairs):
        known[f"other pair {number}"] = {
            f"{row.delta:g}": encode(row.epsilon) for row in other.epsilons
        }
    return known


def _of_orders(by_order: Mapping[str, Any]) -> dict[str, Any]:
    return {order.value: by_order[order.value] for order in Order}


def _numbers(setting: PairResult) -> dict[str, Any]:
    """Compute `_stored_numbers` again from the stored mechanism and pairs."""
    law = exact.curve(setting.pair)
    now: dict[str, Any] = {}
    for row in setting.deltas:
        if row.exact is not None:
            brackets = {o.value: law.epsilon_bracket(row.delta, order=o) for o in Order}
            now[f"epsilon at delta {row.delta:g}"] = _as_brackets(brackets)
        now[f"bounds at delta {row.delta:g}"] = {
            one.id: _bound(one.id, setting.mechanism, "epsilon", row.delta) for one in row.bounds
        }
    for at in setting.renyi:
        divergences = {o.value: law.renyi_bracket(at.order, order=o) for o in Order}
        now[f"divergence of order {at.order:g}"] = _as_brackets(divergences)
        now[f"bounds of order {at.order:g}"] = {
            one.id: _bound(one.id, setting.mechanism, "renyi", at.order) for one in at.bounds
        }
    for number, other in enumerate(setting.other_pairs):
        of_other = exact.curve(other.pair)
        deltas = {f"{one.delta:g}": of_other.epsilon_bracket(one.delta) for one in other.epsilons}
        now[f"other pair {number}"] = _as_brackets(deltas)
    return now


def _as_brackets(ends: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, float]]:
    return {name: {"low": low, "high": high} for name, (low, high) in ends.items()}


def _bound(id: str, mechanism: NoisySGD, quantity: str, at: float) -> float | None:
    try:
        curve = bounds.evaluate(id, mechanism)
    except bounds.NotApplicable:
        return None
    return float(getattr(curve, quantity)(at))


def runs() -> Iterator[Row]:
    """Yield a row a scenario: everything that is computed, samples and studies included.

    What a worst-case search finds is left out. The laws of the stored pair are in `pairs`.
    """
    for name, folder in _folders():
        place = f"{folder.relative_to(RESULTS)}/result.json: whole run"
        stored = _computed(json.loads(to_json(report.load(folder))))
        yield Row(place, stored, partial(_run, name))


def _run(name: str) -> Table:
    with TemporaryDirectory() as folder:
        words = [f"scenario={name}", f"output={folder}", "draw=false", "threads=1"]
        subprocess.run(
            [sys.executable, "-m", "audit.cli.audit", *words],
            check=True,
            capture_output=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        (file,) = Path(folder).rglob("result.json")
        found = to_json(report.load(file.parent).reproducible())
    return _computed(json.loads(found))


def _computed(result: dict[str, Any]) -> Table:
    """Return a result without its provenance, its parameters and what hangs on a search.

    A value of a study with an error becomes a bracket.
    """
    del result["provenance"]
    for setting in result["settings"]:
        setting.pop("parameters", None)
        if any(other["found_by"] for other in setting.get("other_pairs", ())):
            del setting["other_pairs"]
            for row in setting["deltas"]:
                del row["certified"], row["bounds"]  # values of bounds are in `pairs`
        for statement in setting.get("findings", {}).get("statements", ()):
            found, error = statement["found"], statement.pop("error")
            if error is not None:
                statement["found"] = {"low": found - error, "high": found + error}
    return result


# claims


def judged_claims() -> Iterator[Row]:
    """Yield a row a claim of the catalogue's files, and a row for its locked numbers."""
    stored = {
        row["claim"]: row for row in _csv("catalogue/catalogue.csv") if "bound" in row["kind"]
    }
    locked = read(RESULTS / "claims.json").claims
    for name in catalogue.FILES:
        content = yaml.safe_load((catalogue.CLAIMS / name).read_text(encoding="utf-8"))
        for id in (claim["id"] for claim in content["claims"]):
            judged = partial(_judged, name, id)
            yield Row(f"catalogue/catalogue.csv: {id}", _columns(stored[id], _CLAIM), judged)
            if id in locked:
                yield Row(
                    f"claims.json: {id}", dict(locked[id].numbers), partial(_locked, name, id)
                )


_CLAIM = "verdict", "quantity", "pair", "evidence", "certified", "claimed", "ratio"


@cache
def _claims(name: str) -> Mapping[str, Claim]:
    return {claim.id: claim for claim in load([catalogue.CLAIMS / name]).claims}


@cache
def _judgement(name: str, id: str) -> Judgement:
    """Judge one claim: all evidence is exact, so no error is shared with the others."""
    with Shared([catalogue.CLAIMS / name], exhaustive=True) as shared:
        return judge(_claims(name)[id], shared=shared)


def _judged(name: str, id: str) -> Table:
    return _claim(_judgement(name, id))


def _claim(judgement: Judgement) -> dict[str, Any]:
    """Return the columns of a claim in the catalogue's table."""
    lower, ratio = judgement.claim.statement.exceeded, judgement.tightness
    holds = lower and judgement.verdict is Verdict.CONSISTENT
    return {
        "verdict": "holds" if holds else judgement.verdict.value,
        "quantity": "" if judgement.quantity is None else judgement.quantity.name,
        "pair": judgement.pair,
        "evidence": "" if judgement.evidence is None else judgement.evidence.value,
        "certified": judgement.certified,
        "claimed": judgement.claimed,
        "ratio": None if lower or ratio is None or math.isinf(ratio) else ratio,
    }


def _locked(name: str, id: str) -> Table:
    return dict(entries([_judgement(name, id)])[id].numbers)


def printed_numbers() -> Iterator[Row]:
    """Yield one row: numbers that papers print, and those that are computed beside them."""
    rows = [row for row in _csv("catalogue/catalogue.csv") if row["kind"] == "printed number"]
    stored = {row["claim"]: _columns(row, _PRINTED) for row in rows}
    yield Row("catalogue/catalogue.csv: printed numbers", stored, _printed)


_PRINTED = "verdict", "certified", "claimed"


def _printed() -> Table:
    return {
        one.id: {"verdict": one.verdict, "certified": one.found, "claimed": one.expected}
        for one in printed()
    }


def witnesses() -> Iterator[Row]:
    """Yield a row a witness of the catalogue: verified again."""
    for row in _csv("catalogue/witnesses.csv"):
        name = f"catalogue/witnesses.csv: {row['claim']}"
        yield Row(name, row, partial(_witness, row["claim"]), digits=6)


def _witness(claim: str) -> Table:
    file = RESULTS / "catalogue" / stored_witnesses.FOLDER / f"{claim}.witness.json"
    found = Witness.from_json(file.read_text(encoding="utf-8"))
    with TemporaryDirectory() as folder:
        stored_witnesses.write({claim: found}, Path(folder))
        (row,) = _read_csv(Path(folder) / stored_witnesses.TABLE)
    return row


def claim_pages() -> Iterator[Row]:
    """Yield a row a page of judged claims, lines by the names of their claims."""
    for name in claims.FILES:
        page = (RESULTS / "claims" / f"{name}.md").read_text(encoding="utf-8")
        yield Row(f"claims/{name}.md", _lines(page), partial(_claim_page, name), digits=None)


def _claim_page(name: str) -> Table:
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        claims.main(["--out", folder, name])
        return _lines((Path(folder) / f"{name}.md").read_text(encoding="utf-8"))


def _lines(page: str) -> dict[str, list[str]]:
    """Return the lines of a Markdown table: the cells by the second one."""
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    return {line[1].strip(): [cell.strip() for cell in line] for line in lines}


def zoo() -> Iterator[Row]:
    """Yield a row a release of the zoo: its claims judged again from what its program wrote."""
    stored = _csv("zoo/zoo.csv")
    for case in read_all(SCENARIOS / "zoo"):
        for version in case.releases:
            own = [row for row in stored if (row["case"], row["version"]) == (case.name, version)]
            if any(row["verdict"] != zoo_page.SKIPPED for row in own):
                name = f"zoo/zoo.csv: {case.package} {version}, {case.name}"
                by_claim = {row["claim"]: row for row in own}
                yield Row(name, by_claim, partial(_release, case, version), digits=8)


def _release(case: Case, version: str) -> Table:
    file = RESULTS / "zoo" / case.name / f"{case.package}-{version}.claims.yaml"
    expected = case.releases[version].expected
    return {
        j.claim.id: asdict(zoo_page.row(case, version, j.claim.id, expected[j.claim.id], j))
        for j in check([file], error=ERROR).judgements
    }


def panel() -> Iterator[Row]:
    """Yield a row a statement on the panel: each stored number at its stored place."""
    by_id: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in _csv(f"panel/{panel_table.POINTS}"):
        if row["certified"]:
            name = f"{row['number']} {row['options']}".strip()
            by_id.setdefault(row["id"], {})[name] = row
    for id, table in by_id.items():
        if id in bounds.CATALOGUE:  # files of the community are judged by their own command
            stored = {name: _columns(row, _PANEL) for name, row in table.items()}
            yield Row(f"panel/points.csv: {id}", stored, partial(_panel, id, table), digits=8)


_PANEL = "verdict", "claimed", "certified", "competing"


def _panel(id: str, table: Mapping[str, Mapping[str, str]]) -> Table:
    return {name: _panel_point(id, row) for name, row in table.items()}


def _panel_point(id: str, row: Mapping[str, str]) -> Table:
    mechanism, at = drawn(int(row["number"])), float(row["at"])
    assert mechanism is not None
    given = (one.partition("=")[::2] for one in row["options"].split(", ") if one)
    options = {name: int(value) for name, value in given}
    runs = options.get(bounds.entry(id).runs_option or "", 1)
    deltas, orders = ((at,), ()) if row["quantity"] == "epsilon" else ((), (at,))
    claim = Claim(
        id=id,
        mechanism=mechanism,
        statement=Asked(NumberSource.BOUND, id, deltas=deltas, orders=orders, options=options),
        budget=Budget(seconds=1.0),
        pair=Repeated(mechanism, runs) if runs > 1 else None,
    )
    found = judge(claim)
    name = "epsilon" if deltas else "renyi"
    other = row["competitor"]
    return {
        "verdict": found.verdict.value,
        "claimed": found.claimed,
        "certified": found.certified,
        "competing": _bound(other, mechanism, name, at) if other else None,
    }


def mutated() -> Iterator[Row]:
    """Yield a row a true bound: the numbers with planted mistakes, and the judge's."""
    table = _csv("claims/mutations.csv")
    for base in mutations.bases():
        of_base = [row for row in table if (row["bound"], row["size"]) == (base.bound, base.size)]
        stored = {row["mutation"]: _columns(row, _MUTATED) for row in of_base}
        yield Row(
            f"claims/mutations.csv: {base.bound}, {base.size}", stored, partial(_mutated, base)
        )


_MUTATED = "true bound", "claimed", "certified", "caught"


def _mutated(base: mutations.Base) -> Table:
    return {
        row.mutation: {
            "true bound": row.true,
            "claimed": row.claimed,
            "certified": row.judgement.certified,
            "caught": "yes" if row.caught else "no",
        }
        for row in mutations.rows([base])
    }


# pairs and bounds


def found_pairs() -> Iterator[Row]:
    """Yield a row a shipped pair of a search."""
    for path in sorted((SCENARIOS / "found").glob("*.yaml")):
        low, high = read_found(path).bracket
        stored = {"low": low, "high": high}
        yield Row(f"scenarios/found/{path.name}", stored, partial(_found_pair, path))


def _found_pair(path: Path) -> Table:
    low, high = read_found(path).recomputed()
    return {"low": low, "high": high}


def tightness_map() -> Iterator[Row]:
    """Yield a row for points that differ in their steps alone: the stored pairs and all bounds."""
    known = map_page.known_pairs(RESULTS / "map")
    groups: dict[tuple[Any, ...], list[tuple[Point, Mapping[str, str]]]] = {}
    for point, row in zip(points(), _csv("map/points.csv"), strict=True):
        groups.setdefault((point.kind, point.strength, point.noise), []).append((point, row))
    for group in groups.values():
        stored = {point.name: _columns(row, _MAP) for point, row in group}
        lows = [float(row["lower"]) for _, row in group]
        laws = [decode_pair(known[point.name], point.mechanism) for point, _ in group]
        again = partial(_map_group, [point for point, _ in group], laws, lows)
        first = group[0][0]
        name = f"map/points.csv: {first.kind.value}, A={first.strength:g}, s={first.noise:g}"
        yield Row(name, stored, again)


_MAP = "lower", "published", "published_theorem", "forgetting", "coupling", "upper", "theorem"


def _map_group(
    group: Sequence[Point], laws: Sequence[Construction], lows: Sequence[float]
) -> Table:
    uppers = map_program.upper(group, lows)
    return {
        point.name: {
            "lower": map_program.bracket(pair)[0],
            **encode(upper),
        }
        for point, pair, upper in zip(group, laws, uppers, strict=True)
    }


def allocations() -> Iterator[Row]:
    """Yield a row a bracket of random allocation."""
    for row in _csv("allocation/allocation.csv"):
        settings = (
            float(row["noise_multiplier"]),
            *(int(row[name]) for name in ("steps_per_epoch", "participations", "epochs")),
        )
        name = ", ".join(f"{setting:g}" for setting in settings)
        stored = [float(row["low"]), float(row["high"])]
        again = partial(_allocated, *settings)
        yield Row(f"allocation/allocation.csv: {name}", stored, again, digits=5)


def _allocated(*settings: Any) -> list[float]:
    return list(allocation.bracket(*settings))


def leaks() -> Iterator[Row]:
    """Yield the rows of what the last iterate leaks, and of the runs beside exact laws."""
    leaked = _csv("last_iterate/leaked.csv")
    lines = {"first line": leaked[:1], "all lines": leaked}
    for name, stored in lines.items():
        again = partial(_leaked, len(stored))
        yield Row(f"last_iterate/leaked.csv: {name}", stored, again, digits=None)
    runs = _csv("last_iterate/sampled.csv")
    trials = int(runs[0]["runs"])
    yield Row("last_iterate/sampled.csv", runs, partial(_sampled, trials), digits=3)


def _leaked(count: int) -> Sequence[Table]:
    return list(islice(last_iterate.leaked(), count))


def _sampled(trials: int) -> Sequence[Table]:
    return list(last_iterate.sampled(trials))


# samples


def trainings() -> Iterator[Row]:
    """Yield a row a training: bounds from its recorded scores."""
    table = _csv("trainings/trainings.csv")
    for script, training in dict.fromkeys((row["script"], row["training"]) for row in table):
        own = [row for row in table if (row["script"], row["training"]) == (script, training)]
        stored = {row["delta"]: row["certified"] for row in own}
        name = f"trainings/trainings.csv: {script}, {training}"
        again = partial(_training, script, training, tuple(stored))
        yield Row(name, stored, again, digits=6)


def _training(script: str, training: str, deltas: Sequence[str]) -> Table:
    name = f"{script}/{'_'.join(training.lower().split())}"
    with np.load(RESULTS / "trainings" / "scores.npz") as scores:
        sides = scores[f"{name}/scores"], scores[f"{name}/scores_prime"]
    found = audit_samples(
        *sides,
        confidence=_OF_TRAININGS,
        deltas=tuple(map(float, deltas)),
        seed=1,  # no score is tied with a threshold
        favours=Order.FORWARD,
    )
    # the table has five decimals, rounded down
    return {delta: math.floor(1e5 * found.epsilon_lower(float(delta))) / 1e5 for delta in deltas}


def coverage() -> Iterator[Row]:
    """Yield a row a cell of the calibration: many audits where the truth is known."""
    known = {(one.estimator, one.mechanism, one.confidence): one for one in cells.cells(10_000)}
    for row in _csv("calibration/coverage.csv"):
        cell = known.get((row["estimator"], row["mechanism"], float(row["confidence"])))
        if cell is not None and not cell.package:
            name = f"calibration/coverage.csv: {cell.estimator}, {cell.mechanism}, "
            stored = {
                key: value
                for key, value in row.items()
                if key in ("wrong", "positive") or key.startswith("median")
            }
            yield Row(f"{name}{cell.confidence:g}", stored, partial(_cell, cell), digits=6)


def _cell(cell: cells.Cell) -> Table:
    found = cells.run(cell)
    medians = zip(DELTAS, found["median"], strict=True)
    return {
        "wrong": found["wrong"],
        "positive": found["positive"],
        **{f"median epsilon at {delta:g}": median for delta, median in medians},
    }


def planned() -> Iterator[Row]:
    """Yield a row a line of the planner's table: the plan, and audits at its size."""
    lines = (RESULTS / "planner" / "planner.md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("|")][2:]
    for number, (case, line) in enumerate(zip(planner.cases(), table, strict=True)):
        name = f"planner/planner.md: {case.name}, {case.epsilon:g} at {case.delta:g}"
        yield Row(f"{name}, {number}", line, partial(planner.row, case, 100 * number))


def alarms() -> Iterator[Row]:
    """Yield a row a kind of evidence: how often the judge refutes true claims."""
    table = _csv("claims/false_alarms.csv")
    for kind in dict.fromkeys(row["evidence"] for row in table):
        own = [row for row in table if row["evidence"] == kind]
        stored = {row["claim"]: row["refuted"] for row in own}
        again = partial(_alarms, kind, int(own[0]["runs"]), tuple(stored))
        yield Row(f"claims/false_alarms.csv: {kind}", stored, again)


def _alarms(kind: str, runs: int, names: Sequence[str]) -> Table:
    found = false_alarms.runs(kind, runs, processes=1)
    return {name: sum(name in one.refuted for one in found) for name in names}


# tables


def _csv(name: str) -> list[dict[str, str]]:
    return _read_csv(RESULTS / name)


def _read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _columns(row: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: row[name] for name in names}


SOURCES = (
    pairs, runs, judged_claims, printed_numbers, witnesses, claim_pages, zoo, panel, mutated,
    found_pairs, tightness_map, allocations, leaks, trainings, coverage, planned, alarms,
)  # fmt: skip

"""Stored runs in one report: every number, every error, links, and the same bytes."""

from __future__ import annotations

import csv
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit import report
from audit.bounds import Status
from audit.cli.report import run
from audit.report import joined, joined_rows
from audit.report.document import Table
from audit.report.figures import sweep
from audit.report.runs import status
from audit.results import AtOrder, ByOrder, PairResult, Result, Verdict, to_json

from .example import (
    around,
    at_least,
    bound,
    example,
    pair_settings,
    result,
    study,
    tightest_id,
    with_row,
    with_setting,
)

pytestmark = pytest.mark.usefixtures("_one_pixel")
QUANTITIES = ("epsilon", "Renyi divergence", "statement")


def store(folder: Path, result: Result | None, error: str | None = None) -> Path:
    """Store a run: its result, or the error that ended it."""
    folder.mkdir(parents=True)
    if result is not None:
        (folder / "result.json").write_text(to_json(result), encoding="utf-8")
    (folder / "status.json").write_text(status(error, f"audit {folder.name}"), encoding="utf-8")
    return folder


def swept(steps: int, noise: float, ratio: float, name: str = "at22_lower_bound") -> Result:
    """The example's first setting for other parameters, its best claim that many times exact."""
    setting = pair_settings()[0]
    mechanism = replace(setting.mechanism, steps=steps, noise_std=noise)
    rows = []
    for row in setting.deltas:
        assert row.exact is not None
        low = row.exact.worst.low
        claim = replace(bound("a", ratio * low, low), ratio=ratio)
        rows.append(replace(row, bounds=(claim,), best=tightest_id((claim,))))
    pair = replace(setting.pair, mechanism=mechanism)
    changes = {"mechanism": mechanism, "pair": pair, "other_pairs": (), "deltas": tuple(rows)}
    return result(replace(setting, **changes), name=name)


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """A run with a page, a sweep of four with one that failed, and a folder with nothing."""
    (store(tmp_path / "run", example()) / "report.html").write_text("<p>", encoding="utf-8")
    for name, point in (("a", (10, 0.5, 1.5)), ("b", (20, 0.5, 2.0)), ("c", (10, 1.0, 3.0))):
        store(tmp_path / "sweep" / name, swept(*point))
    store(tmp_path / "sweep" / "d", None, "noise_std must be a positive finite number, got -1.0")
    return [tmp_path / "run", tmp_path / "sweep", tmp_path / "nothing"]


def test_runs_are_found_once_and_broken_ones_have_a_reason(
    places: list[Path], tmp_path: Path
) -> None:
    for name, stored in (("broken", "{"), ("old", '{"format": 1}')):
        (store(tmp_path / name, example()) / "result.json").write_text(stored, encoding="utf-8")
    runs = report.gather([*places, tmp_path / "broken", tmp_path / "old", places[0]])
    assert [run.name for run in runs] == ["run", "a", "b", "c", "d", "nothing", "broken", "old"]
    errors = {run.name: run.error for run in runs if run.error is not None}
    assert errors["d"] == "noise_std must be a positive finite number, got -1.0"
    assert "must hold a readable result.json" in str(errors["nothing"])
    assert "must be JSON" in str(errors["broken"])
    assert "version must be 2, got 1; run the scenario again" in str(errors["old"])
    found = {row.run: row.verdict for row in joined_rows.rows(runs)}
    assert {name for name, verdict in found.items() if verdict is Verdict.ERROR} == set(errors)
    assert [run.command for run in runs][1] == "audit a"


def test_rows_hold_the_stored_numbers(places: list[Path]) -> None:
    rows = joined_rows.epsilon_rows(report.gather(places))
    (line,) = [row for row in rows if row.run == "b" and row.delta == 1e-5]
    setting = swept(20, 0.5, 2.0).settings[0]
    assert isinstance(setting, PairResult)
    stored = setting.deltas[-1]
    assert stored.exact is not None
    assert line.lower == stored.sampled.epsilon
    assert (line.exact_low, line.exact_high) == stored.exact.worst.bracket
    assert (line.claimed, line.ratio) == (stored.bounds[0].value, 2.0)
    # every refuted bound of the example has a row of its own, and no ratio
    wrong = [row for row in rows if row.run == "run" and row.verdict is Verdict.REFUTED]
    bounds = [bound for one in pair_settings() for row in one.deltas for bound in row.bounds]
    expected = [bound.id for bound in bounds if bound.verdict is Verdict.REFUTED]
    assert [row.claimed_by for row in wrong] == expected
    assert {row.ratio for row in wrong} == {None}


def test_the_command_writes_everything_and_tells(
    places: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run([*map(str, places), "--output", str(out)]) == 1
    told = capsys.readouterr().out
    assert "4 results and 2 errors" in told
    assert "error: d: noise_std must be a positive finite number" in told
    page = (out / "index.html").read_text(encoding="utf-8")
    assert 'href="../run/report.html"' in page
    assert 'class="verdict error"' in page
    assert "<script" not in page
    assert "map-" in (out / "index.md").read_text(encoding="utf-8")
    content = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert (content["results"], content["errors"]) == (4, 2)
    with (out / "results.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(content["rows"])
    assert {row["verdict"] for row in content["rows"]} >= {"error", "refuted", "consistent"}
    for line, row in zip(lines, content["rows"], strict=True):
        assert line["run"] == row["run"]
        assert line["ratio"] == ("" if row["ratio"] is None else repr(row["ratio"]))


def test_whole_runs_end_with_status_0_and_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path / "run", swept(10, 0.5, 1.5))
    for out in ("one", "two"):
        assert run([str(tmp_path / "run"), "--output", str(tmp_path / out)]) == 0
    assert run([str(tmp_path / "run"), "--output", str(tmp_path / "one" / "index.md")]) == 2
    assert "folder must be a folder that can be written to" in capsys.readouterr().err
    names = [p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*")]
    assert len(names) == 4 + 2  # no map of a single run
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def runs_of(tmp_path: Path, *points: tuple[int, float, float]) -> tuple[report.Run, ...]:
    for i, point in enumerate(points):
        store(tmp_path / f"{i:02}", swept(*point))
    return report.gather([tmp_path])


def test_maps_over_what_was_varied(tmp_path: Path) -> None:
    (two,) = sweep.maps(
        runs_of(tmp_path / "two", (10, 0.5, 1.5), (20, 0.5, 2.0), (10, 1.0, 0.9), (20, 1.0, 4.0))
    )
    assert "least, 1.500, at σ = 0.5, T = 10" in two.caption
    assert "largest, 4.000, at σ = 1, T = 20" in two.caption
    assert "Another claim is refuted where there is a star" in two.caption
    assert "no claim stands or no run has stored one" in two.caption
    (one,) = sweep.maps(runs_of(tmp_path / "one", (10, 0.5, 1.5), (20, 0.5, 2.0)))
    assert "largest, 2.000, at T = 20." in one.caption
    assert sweep.maps(runs_of(tmp_path / "none", (10, 0.5, 1.5), (10, 0.5, 1.5))) == ()


def test_a_map_is_never_of_runs_that_differ_in_what_it_does_not_say(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, *[(10 * i, 0.5, 1.0 + i) for i in (1, 2, 1, 2)])

    def changed(*changes: tuple[str, Any]) -> tuple[report.Run, ...]:
        """The last two runs with other deltas, pairs, ratios or names."""
        found = list(runs)
        for i, (field, value) in itertools.product((2, 3), changes):
            made: Any = found[i].result
            if field == "scenario":
                made = replace(made, scenario=replace(made.scenario, name=value))
            elif field == "convex":
                mechanism = replace(made.settings[0].mechanism, convex=value)
                pair = replace(made.settings[0].pair, mechanism=mechanism)
                made = with_setting(made, 0, mechanism=mechanism, pair=pair)
            else:
                made = with_setting(made, 0, **{field: value})
            found[i] = replace(found[i], result=made)
        return tuple(found)

    setting = pair_settings()[0]
    last = with_row(setting, -1, delta=1e-9).deltas
    name = "map-at22_lower_bound-full_batch"
    found = [(one.name, one.caption[:11]) for one in sweep.maps(changed(("deltas", last)))]
    assert found == [(name, "At δ = 1e-5"), (f"{name}-2", "At δ = 1e-9")]
    assert len(sweep.maps(runs)) == 1  # every cell twice, alike
    assert sweep.maps(changed(("deltas", setting.deltas))) == ()
    assert sweep.maps(changed(("convex", False))) == ()
    named = sweep.maps(changed(("scenario", "../a-b"), ("name", "c")))
    assert [one.name for one in named] == [name, "map-..-a-b-c"]


def test_the_conclusion_names_what_is_refuted(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, (10, 0.5, 1.5), (20, 0.5, 0.9))
    assert joined.conclusion(runs) == (
        "Refuted in at least one run: a.",
        "The tightest claim that stands is 1.500 times what is certain (a).",
        "2 results and 0 errors.",
    )
    with pytest.raises(ValueError, match="runs must be one or more, got"):
        joined.build((), tmp_path)


def test_of_many_rows_the_first_table_has_what_is_wrong_and_the_extremes(tmp_path: Path) -> None:
    points = [(10 + i, 0.5, 1.5 + i / 10) for i in range(30)]
    points[7] = (17, 0.5, 0.9)
    runs = runs_of(tmp_path, *points)
    document = joined.build(runs, tmp_path)
    kept = [(row[0].note, row[-1].text) for row in document.tables[0].rows]
    deltas = len(pair_settings()[0].deltas)
    assert kept[:deltas] == [("07", "refuted")] * deltas
    assert kept[deltas:] == [("00", "consistent"), ("29", "consistent")] * deltas
    (whole,) = [s for s in document.sections if s.ident == "rows"]
    assert isinstance(whole.parts[0], Table)
    assert len(whole.parts[0].rows) == 30 * deltas


def test_runs_are_told_apart_by_what_their_commands_do_not_share() -> None:
    commands = {
        "a": "audit scenario=q settings.x.mechanism.steps=1 output=o",
        "b": "audit scenario=q settings.x.mechanism.steps=2 output=p",
        "c": "",
    }
    runs = [report.Run(Path(name), told, None, "broken") for name, told in commands.items()]
    assert joined.labels(runs) == {"a": "steps=1", "b": "steps=2", "c": "c"}


def test_runs_in_folders_of_the_same_name_keep_their_reports(tmp_path: Path) -> None:
    """The row of a refuted run once led to the report of another one."""
    for day, wrong in (("mon", True), ("tue", False), ("w (d)", False)):
        place = store(tmp_path / day / "run", studied(wrong=wrong))
        (place / "report.html").write_text("<p>", encoding="utf-8")
    runs = report.gather([tmp_path])
    assert [run.name for run in runs] == ["mon/run", "tue/run", "w (d)/run"]
    rows = joined.build(runs, tmp_path / "index").tables[0].rows
    assert {row[0].note: row[0].link for row in rows} == {
        "mon/run": "../mon/run/report.html",
        "tue/run": "../tue/run/report.html",
        "w (d)/run": "../w%20%28d%29/run/report.html",
    }


def studied(*, wrong: bool = False) -> Result:
    """A result that holds one study and nothing else."""
    made = result(study("asked", wrong=wrong, unclear=True), name="questions")
    return replace(made, scenario=replace(made.scenario, title="questions"))


def test_rows_say_of_what_quantity_they_are(tmp_path: Path) -> None:
    store(tmp_path / "a", example())
    store(tmp_path / "b", studied(wrong=True))
    runs = report.gather([tmp_path])
    rows = joined_rows.rows(runs)
    assert {row.quantity for row in rows} == set(QUANTITIES)
    epsilons = [row for row in rows if row.quantity == "epsilon"]
    assert epsilons == joined_rows.epsilon_rows(runs)
    assert all(row.order is None and row.delta for row in epsilons)
    # order 2 of the first setting: one bound has a number, and it stands
    order = pair_settings()[0].renyi[0]
    (line,) = [row for row in rows if (row.setting, row.order) == ("full_batch", 2.0)]
    assert line.delta is None
    assert line.lower == order.sampled_lower
    assert (line.exact_low, line.exact_high) == order.exact.worst.bracket
    assert (line.claimed, line.claimed_by) == (order.bounds[0].value, "at22.b_1")
    assert line.ratio == order.bounds[0].ratio
    assert line.verdict is Verdict.CONSISTENT
    stored = study(wrong=True, unclear=True).findings.statements
    statements = [row for row in rows if row.quantity == "statement"]
    assert [(row.statement, row.expected, row.found, row.verdict) for row in statements] == [
        (one.claim, one.expected, one.found, one.verdict) for one in stored
    ]
    assert Verdict.REFUTED in {row.verdict for row in statements}


def test_lines_say_what_is_refuted_of_every_quantity(tmp_path: Path) -> None:
    wrong = bound("at22.b_1", 0.1, 0.2)
    order = replace(pair_settings()[0].renyi[0], bounds=(wrong,))
    made = with_setting(swept(10, 0.5, 0.9), 0, renyi=(order,))
    runs = [
        report.Run(tmp_path / "a", "", made, None),
        report.Run(tmp_path / "b", "", studied(wrong=True), None),
        report.Run(tmp_path / "c", "", None, "steps must be positive, got 0"),
    ]
    lines = joined.shown(runs).splitlines()
    assert lines == [
        "error: c: steps must be positive, got 0",
        "refuted: a claims epsilon 0.65400 at delta 0.01, BiasedWalk: at least 0.72666 "
        "(a, full_batch)",
        "refuted: a claims epsilon 0.81727 at delta 1e-5, BiasedWalk: at least 0.90807 "
        "(a, full_batch)",
        "refuted: at22.b_1 claims Renyi divergence 0.10000 at order 2, BiasedWalk: at least "
        "0.20558 (a, full_batch)",
        "refuted: The root of 2 is 1.41421356 (Euclid, Elements X): expected 1.41421, found 2 "
        "(b, asked)",
    ]


def test_the_larger_order_counts_and_infinity_is_written(tmp_path: Path) -> None:
    bounds = (
        bound("a", 3.0, 2.0),
        bound("b", 2.5, 2.0, status=Status.UNPROVEN),
        bound("c", 0.5, 2.0, status=Status.REFUTED),
    )
    infinite = at_least(math.inf)
    two = ByOrder(forward=around(1.0), reverse=at_least(2.0), worst=at_least(2.0))
    four = ByOrder(forward=infinite, reverse=around(2.0), worst=infinite)
    orders = (
        AtOrder(order=2.0, sampled_lower=0.5, exact=two, bounds=bounds),
        AtOrder(order=4.0, sampled_lower=0.5, exact=four, bounds=()),
    )
    store(tmp_path / "a", with_setting(swept(10, 0.5, 1.5), 0, renyi=orders))
    runs = report.gather([tmp_path])
    found = joined_rows.renyi_rows(runs)
    assert [(r.claimed_by, r.exact_low, r.exact_high, r.ratio) for r in found] == [
        ("c", 2.0, math.inf, None),
        ("a", 2.0, math.inf, 1.5),
        (None, math.inf, math.inf, None),
    ]
    assert [row.verdict.value for row in found] == ["refuted", "consistent", "not applicable"]
    content = json.loads(joined_rows.to_json(runs, joined_rows.rows(runs)))
    assert content["rows"][-1]["exact_high"] == "inf"


@pytest.mark.parametrize(("wrong", "word"), [(False, "holds"), (True, "refuted")])
def test_a_study_is_a_row_with_a_word(tmp_path: Path, wrong: bool, word: str) -> None:
    setting = study("asked", wrong=wrong)
    outcomes = [one.verdict.value for one in setting.findings.statements]
    store(tmp_path / "b", result(setting, name="questions"))
    alone = joined.build(report.gather([tmp_path]), tmp_path)
    (table,) = alone.tables
    (row,) = table.rows
    expected = next(
        (w for w in ("refuted", "inconclusive", "consistent") if w in outcomes), "holds"
    )
    assert row[-1].text == expected
    assert (word == "refuted") is (expected == "refuted")
    counts = [str(outcomes.count(w)) for w in ("holds", "consistent", "inconclusive", "refuted")]
    assert [cell.text for cell in row[1:-1]] == counts
    assert f"Of {len(outcomes)} statements of studies " in " ".join(alone.conclusion)
    store(tmp_path / "a", swept(10, 0.5, 1.5))
    beside = joined.build(report.gather([tmp_path]), tmp_path)
    epsilons, studies = beside.tables
    assert studies.rows == (row,)
    assert len(epsilons.rows) == len(joined_rows.epsilon_rows(report.gather([tmp_path])))


def test_many_different_scenarios_have_a_row_each(tmp_path: Path) -> None:
    for i in range(24):
        made = swept(10 + i, 0.5, 1.5 + i, name=f"scenario {i:02}")
        if i == 3:  # refuted, and one of a user's own claims
            made = swept(10 + i, 0.5, 0.5, name=f"scenario {i:02}")
            setting = made.settings[0]
            assert isinstance(setting, PairResult)
            for place, row in enumerate(setting.deltas):
                claims = (replace(row.bounds[0], status="claimed"),)
                setting = with_row(setting, place, bounds=claims)
            made = with_setting(made, 0, deltas=setting.deltas)
        store(tmp_path / f"{i:02}", made)
    store(tmp_path / "97", studied())
    store(tmp_path / "98", None, "steps must be ..., got 0")
    document = joined.build(report.gather([tmp_path]), tmp_path)
    rows = {row[0].note or row[0].text: row for row in document.tables[0].rows}
    assert len(document.tables[0].rows) == 24 + 2
    assert document.tables[0].rows[0][-1].text == "error"
    assert rows["00"][1].text == "1.500"
    assert rows["00"][2].text == "nothing is refuted"
    own = rows["03"]
    deltas = len(pair_settings()[0].deltas)
    assert own[2].text == f"{deltas} claims about user-defined mechanisms are refuted"
    assert own[-1].text == "refuted"
    assert rows["97"][1].text == "–"
    assert rows["97"][2].text == "of 2 statements 1 holds, 1 is inconclusive"
    assert len(document.tables) == 1
    assert "in at least one run" not in " ".join(document.conclusion)
    assert f"{deltas} claims about user-defined mechanisms are refuted." in document.conclusion
    (whole,) = [s for s in document.sections if s.ident == "rows"]
    assert isinstance(whole.parts[0], Table)
    assert len(whole.parts[0].rows) == 24 * deltas + 1


def test_a_refuted_statement_of_a_study_is_never_told_away(tmp_path: Path) -> None:
    for i in range(24):
        made = swept(10 + i, 0.5, 1.5, name=f"scenario {i:02}")
        if i == 5:  # a study beside a claim that stands
            made = replace(made, settings=(*made.settings, *studied(wrong=True).settings))
        store(tmp_path / f"{i:02}", made)
    document = joined.build(report.gather([tmp_path]), tmp_path)
    rows = {row[0].note: row for row in document.tables[0].rows}
    assert rows["05"][2].text == "of 2 statements 1 is inconclusive, 1 is refuted"
    assert rows["05"][-1].text == "refuted"
    assert "No claim is refuted." not in document.conclusion


def test_tables_for_latex(tmp_path: Path) -> None:
    store(tmp_path / "run", swept(10, 0.5, 0.9))
    assert run([str(tmp_path / "run"), "--latex", "--full", "--output", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "results.tex").read_text(encoding="utf-8")
    rows = joined_rows.epsilon_rows(report.gather([tmp_path / "run"]))
    assert text.count(r"\textbf{refuted}") == len(rows)
    assert r"\toprule" in (tmp_path / "run" / "report.tex").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_drawn_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = pair_settings()[0]
    torn = replace(setting, laws=replace(setting.laws, grid=setting.laws.grid[1:]))
    store(tmp_path / "a", result(torn))
    store(tmp_path / "b", result(study()))
    words = [str(tmp_path), "--full", "--output", str(tmp_path / "out")]
    assert run(words) == 1
    assert f"{tmp_path / 'a'}: no report was written: " in capsys.readouterr().err
    assert (tmp_path / "b" / "report.html").is_file()
    assert (tmp_path / "out" / "index.html").is_file()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "write_joined", interrupted)
    assert run(words) == 130
    assert capsys.readouterr().err.endswith("interrupted; run it again to write all files\n")


def test_a_path_that_is_not_there_replaces_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path / "runs" / "a", example())
    output = tmp_path / "joined"
    assert run([str(tmp_path / "runs"), "--output", str(output), "--latex"]) == 0
    assert (output / "results.tex").is_file()
    before = (output / "index.html").read_bytes()
    (tmp_path / "empty").mkdir()
    for place in ("nowhere", "empty"):
        assert run([str(tmp_path / place), "--output", str(output)]) == 2
        assert "RUN must be a folder of stored results, got" in capsys.readouterr().err
        assert (output / "index.html").read_bytes() == before
    assert run([str(tmp_path / "runs"), "--output", str(output)]) == 0
    assert not (output / "results.tex").exists()  # of the runs before

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit import report
from audit.codec import encode
from audit.curves import Order
from audit.estimation import Tail
from audit.report import joined, queries, render, run_report, setting_section, terminal
from audit.report.conclusion import conclusion
from audit.report.document import TEXT, Cell, Document, Gallery, Table
from audit.results import ByOrder, Certified, Number, SettingResult, StudyResult, Verdict

from .conftest import CONTENTS
from .example import (
    WRONG,
    at_least,
    bare,
    evidence,
    example,
    pair_settings,
    result,
    study,
    user_mechanism,
    with_bound,
    with_row,
    with_setting,
)
from .html_page import Page, numbers_in


def test_files_and_links_to_them(written: Path) -> None:
    names = {path.relative_to(written).as_posix() for path in written.rglob("*.*")}
    kinds = [
        "sandwich",
        *[f"{s}-{k}" for s in ("full_batch", "sampled", "paper") for k in ("laws", "steps")],
        *[f"{s}-tradeoff" for s in ("full_batch", "sampled", "paper")],
        *[f"{s}-renyi" for s in ("full_batch", "sampled")],  # one order is no curve
    ]
    figures = {f"figures/{kind}.{end}" for kind in kinds for end in ("svg", "png")}
    assert names == {"report.html", "report.md", *figures}
    text = (written / "report.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\((figures/[^)]*\.png)\)", text))
    assert linked == {name for name in figures if name.endswith(".png")}
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 50
    assert all(line.endswith("|") for line in rows)


@pytest.mark.parametrize(
    ("name", "figures"), [("studies", 4), pytest.param("mixed", 7, marks=pytest.mark.slow)]
)
def test_same_input_same_bytes(name: str, figures: int, tmp_path: Path) -> None:
    paths = report.write(CONTENTS[name](), tmp_path / "one")
    report.write(CONTENTS[name](), tmp_path / "two")
    assert len(paths) == len(set(paths)) == 2 + 2 * figures
    for path in paths:
        again = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == again.read_bytes(), path.name


def test_the_page_loads_nothing_and_its_figures_have_captions(written: Path) -> None:
    text = (written / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
            assert value.startswith("#"), (name, value)
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert text.count("<svg") == 12
    assert page.tags.count("figure") == page.tags.count("figcaption") == 12
    for caption in re.findall(r"<figcaption>(.*?)</figcaption>", text, flags=re.DOTALL):
        assert len(re.sub(r"<[^>]*>", "", caption)) > 60, caption


def must_be_shown(setting: SettingResult) -> Iterator[Any]:
    """The numbers and brackets of a setting that no page may leave out."""
    if isinstance(setting, StudyResult):
        values = [v for one in setting.findings.statements for v in (one.expected, one.found)]
        values += [v for table in setting.findings.tables for row in table.rows for v in row]
        yield from (value for value in values if not isinstance(value, str))
        return
    for row in setting.deltas:
        assert row.exact is not None
        yield row.sampled.epsilon
        yield from (v.bracket for v in (row.exact.forward, row.exact.reverse, row.exact.worst))
        yield from (b.value for b in row.bounds if b.verdict is not Verdict.NOT_APPLICABLE)


@pytest.mark.parametrize("name", CONTENTS)
def test_links_lead_somewhere_and_numbers_on_the_page_are_those_of_the_result(
    written_as: Callable[[str], Path], name: str
) -> None:
    page = Page((written_as(name) / "report.html").read_text(encoding="utf-8"))
    ids = [value for attribute, value in page.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))
    targets = {value[1:] for one, value in page.attributes if one in ("href", "xlink:href")}
    assert targets <= set(ids)
    content = CONTENTS[name]()
    known = set(numbers_in(encode(content)))
    for value, text in page.data:
        assert known.issuperset(numbers_in(value)), value
        first = text.replace(",", "").removeprefix("≥ ").split(" ")[0]
        low = value[0] if isinstance(value, list) else value
        if math.isinf(low):
            assert first == "inf"
        else:
            assert math.isclose(float(first), low, rel_tol=2e-3), (value, text)
    shown = {json.dumps(value) for value, _ in page.data}
    for setting in content.settings:
        assert {json.dumps(value) for value in must_be_shown(setting)} <= shown


def test_conclusion_and_verdicts(written: Path) -> None:
    for name in ("report.html", "report.md"):
        text = (written / name).read_text(encoding="utf-8")
        plain = text.replace("<wbr>", "").replace("\\", "")
        assert "1 of 20 claimed upper bounds is refuted." in plain
        assert "example.theorem_1 claims 0.8677" in plain
        assert "The tightest claim that stands is 1.265 (" in plain
        assert "to 2.491 (“" in plain
        assert "Samples certify between 5% and 98% of the exact values" in plain
        assert "bsa24.theorem_4_3 needs full batches" in plain.replace("&#39;", "'")
        assert "verified" not in text.lower()
        for word in ("consistent", "refuted", "not apply", "started", "with changes"):
            assert word in plain, word


@pytest.mark.usefixtures("_one_pixel")
def test_words_from_elsewhere_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script> | *b* $\\x$ & c"
    setting = with_bound(pair_settings()[1], 0, 2, reason=evil)
    setting = with_bound(setting, 0, 1, id=evil)
    found = study().findings
    series = replace(found.charts[0].series[0], name="_noise")
    of_study = replace(
        found,
        statements=(replace(found.statements[0], claim=evil),),
        notes=(evil, "\ud800"),
        charts=(replace(found.charts[0], title=evil, caption=evil, series=(series,)),),
    )
    made = result(
        replace(setting, title=evil, summary=evil, name="../a b/ç"),
        replace(study(), findings=of_study),
    )
    heading = replace(made.scenario, title=evil, summary=evil)
    # the figures draw every bound of the table: this one, too
    report.write(replace(made, scenario=heading), tmp_path)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert re.search(r"(?<!\\)(<script|\$)", markdown) is None
    assert r"\ud800" in html
    assert "_noise -->" in html  # in the legend
    assert r"\ud800" in markdown
    assert {path.name for path in tmp_path.iterdir()} == {"figures", "report.html", "report.md"}


@pytest.mark.usefixtures("_one_pixel")
def test_lists_may_be_empty(tmp_path: Path) -> None:
    made = result(bare(pair_settings()[0]))
    report.write(replace(made, provenance=replace(made.provenance, environment=None)), tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No claimed upper bound applies" in text
    assert "None" not in text
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {
        "sandwich",
        "full_batch-laws",
        "full_batch-tradeoff",
    }


@pytest.mark.usefixtures("_one_pixel")
def test_extreme_values_and_equal_names(tmp_path: Path) -> None:
    setting = pair_settings()[0]
    curves = setting.epsilon_against_steps
    exact = ByOrder(forward=at_least(2.0), reverse=Number(1.0, 1.0, 1.0), worst=at_least(2.0))
    setting = with_row(setting, 0, exact=exact)
    setting = with_row(setting, 1, sampled=replace(setting.deltas[1].sampled, epsilon=0.0))
    setting = replace(
        setting, other_pairs=(), renyi=(), epsilon_against_steps=replace(curves, burn_in=None)
    )
    report.write(result(setting, replace(setting, deltas=setting.deltas[:1])), tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "≥ 2.00000" in text
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_the_counts_behind_a_certified_number() -> None:
    setting = with_row(
        pair_settings()[1],
        0,
        sampled=replace(
            pair_settings()[1].deltas[0].sampled,
            epsilon=1.5,
            order=Order.REVERSE,
            tail=Tail.AT_MOST,
            threshold=-0.25,
            count=1,
            total=20,
            count_prime=7,
            total_prime=10,
            error_spent=0.01,
            largest_certifiable=math.inf,
        ),
    )
    table = run_report.counts([setting])
    words = [cell.text.replace("\N{NO-BREAK SPACE}", " ") for cell in table.rows[0]]
    assert words == [
        "Small batches, sampled without replacement", "0.01", "1.5000", "X' against X",
        "x ≤ -0.25", "1 of 20", "7 of 10", "0.0100", "inf",
    ]  # fmt: skip


def test_an_inconclusive_claim_is_shown_and_told_of() -> None:
    setting = with_bound(pair_settings()[1], 0, 3, verdict=Verdict.INCONCLUSIVE)
    cells = setting_section.summary([(setting, "sampled")]).rows[0]
    assert (cells[-3].note, cells[-1].text) == (setting.deltas[0].bounds[3].id, "inconclusive")
    assert re.match("1 of . claimed upper bounds is inconclusive", conclusion(result(setting))[0])


def test_of_equal_bounds_the_named_one_is_the_tightest_and_never_a_refuted_one() -> None:
    first, second, third = (bound.id for bound in pair_settings()[0].deltas[0].bounds[:3])
    equal = pair_settings()[0].deltas[0].bounds[1].value
    setting = with_bound(pair_settings()[0], 0, 0, value=equal)
    for row, named, found in ((0, first, first), (0, second, second), (1, WRONG, third)):
        best = queries.tightest(setting.deltas[row].bounds, named)
        assert best is not None
        assert best.id == found


def test_a_stronger_pair_is_named_and_compared_with() -> None:
    setting = pair_settings()[1]
    assert queries.strongest(setting.deltas[0])[1] == ""
    setting = with_row(setting, 0, certified=Certified(epsilon=23.4567, by="DriftedWalk"))
    setting = with_bound(setting, 0, 3, value=20.0, verdict=Verdict.REFUTED, ratio=20 / 23.4567)
    row = setting.deltas[0]
    assert queries.strongest(row) == (23.4567, "DriftedWalk")
    table = setting_section.summary([(setting, "sampled")])
    assert "where another pair is stronger" in table.caption
    # the ratio says how tight a claim is: a refuted one has none
    assert [cell.text for cell in table.rows[0]][4:] == ["20.000", "", "refuted"]
    assert table.rows[0][3].note == "DriftedWalk: 23.4567"
    words = " ".join(conclusion(result(setting)))
    assert "claims 20.00 where DriftedWalk has 23.45 at δ = 0.01" in words
    assert "times the exact value of the strongest pair" in words


def test_of_a_wide_bracket_the_lower_end_is_certain(capsys: pytest.CaptureFixture[str]) -> None:
    (setting, row), wide = (pair_settings()[1], pair_settings()[1].deltas[0]), Number(2.5, 2.0, 3.0)
    certified = Certified(epsilon=2.0, by="TwoSidedWalk")
    setting = with_row(
        setting,
        0,
        exact=replace(row.exact, worst=wide),
        certified=certified,
        errors={"cells": 2e-13, "quadrature": 0.0, "rounding": 3e-14},
    )
    assert queries.strongest(setting.deltas[0]) == (2.0, "")
    for known, table in (
        (setting.deltas[0].exact, setting_section.orders(setting)),
        (setting.renyi[0].exact, setting_section.renyi(setting)),
    ):
        brackets = [json.dumps(one.bracket) for one in (known.forward, known.reverse)]
        assert [cell.value for cell in table.rows[0][2:4]] == brackets
    widths = setting_section.orders(setting).rows[0][5].text
    assert widths == "cells 2.0e-13, rounding 3.0e-14"
    terminal.show(result(setting))
    assert re.search(r" 2 +│ +2 TwoSidedWalk", capsys.readouterr().out)


def test_the_ratio_of_refuted_bounds_is_blank() -> None:
    setting = pair_settings()[0]
    claims = setting_section.claims(setting)
    for table in (setting_section.summary([(setting, "full_batch")]), claims):
        ratios = {row[-2].text for row in table.rows if row[-1].text == "refuted"}
        assert ratios == {""}
        assert "" not in {row[-2].text for row in table.rows if row[-1].text == "consistent"}


def test_a_table_that_fits_a_phone_is_no_stack_of_cards() -> None:
    """Short cells without notes stay rows; a long word, a note or a verdict makes cards."""

    def table(*texts: str, note: str = "", verdict: bool = False) -> Table:
        cells = [Cell(text=text, note=note) for text in texts]
        cells += [Cell.verdict(Verdict.REFUTED)] if verdict else []
        columns = (("two words", TEXT),) * len(cells)
        return Table(caption="c", columns=columns, rows=(tuple(cells),))

    assert table("1e-5", "2.75338", "4.08923").fits
    assert not table("1e-5", "a word that is much too long for a phone").fits
    assert not table("1e-5", note="a note").fits
    assert not table("1e-5", verdict=True).fits
    for one, kind in ((table("1"), "scrolling"), (table("1", note="n"), "stacked")):
        document = Document(
            title="t",
            subtitle="s",
            conclusion=("c",),
            tables=(one,),
            overview=Gallery(()),
            sections=(),
        )
        assert f'<div class="{kind}"' in render.html(document).decode("utf-8")


def test_a_claim_named_in_words_has_quotes_in_the_sentence() -> None:
    setting = with_bound(pair_settings()[0], 1, 3, id="accountant, delta 1e-5")
    _, named, *_ = conclusion(with_setting(example(), 0, deltas=setting.deltas[1:]))
    assert named.startswith("Refuted: “accountant, delta 1e-5” claims 0.8677 where")


def test_no_sentence_calls_a_claim_the_tightest_that_is_refuted_at_another_delta() -> None:
    setting = pair_settings()[0]
    best = setting.deltas[0].best
    index = [one.id for one in setting.deltas[1].bounds].index(str(best))
    setting = with_bound(setting, 1, index, verdict=Verdict.REFUTED)
    tightest = conclusion(result(setting))[2]
    assert tightest.startswith("The tightest claim that stands")
    assert str(best) not in tightest


def test_a_claim_just_below_what_is_certain_is_written_apart() -> None:
    row = user_mechanism().deltas[0]
    bounds = (replace(row.bounds[0], value=1.99999), row.bounds[1])
    made = result(replace(user_mechanism(), deltas=(replace(row, bounds=bounds),)))
    assert "tight claims 1.99999 where samples certify 2.00000" in conclusion(made)[1]


@pytest.mark.parametrize(
    ("claimed", "low", "high", "shown"),
    [
        (1.00001, 1.00002, 1.2, ("≥ 1.00002", "1.00001")),
        (1.00001, 1.00002, 1.00012, ("≥ 1.00002", "1.00001")),
        (1.000002, 1.000004, 1.0000041, ("1.000004", "1.000002")),
        (0.0, 1e-300, 1e-300, ("1.00000e-300", "0")),
        (5.0, math.inf, math.inf, ("inf", "5.0000")),
    ],
)
def test_what_refutes_a_claim_is_written_above_it(
    claimed: float, low: float, high: float, shown: tuple[str, str]
) -> None:
    setting = pair_settings()[0]
    exact = setting.deltas[0].exact
    assert exact is not None
    exact = replace(exact, worst=Number(low, low, high))
    wrong = replace(setting.deltas[0].bounds[0], value=claimed, verdict=Verdict.REFUTED)
    certified = replace(setting.deltas[0].certified, epsilon=low)
    row = replace(setting.deltas[0], exact=exact, certified=certified, bounds=(wrong,), best=None)
    setting = replace(setting, deltas=(row,), renyi=())
    run = report.Run(Path("run"), "audit", result(setting), None)
    for table in (setting_section.summary([(setting, "full_batch")]), joined.table([run])):
        assert tuple(cell.text for cell in table.rows[0][3:5]) == shown
    for text in (conclusion(result(setting))[1], joined.shown([run])):
        first, last = re.findall(r"claims (?:epsilon )?(\S+).*?(\S+)(?: at δ| \(run)", text)[0]
        assert float(first) < float(last)


@pytest.mark.usefixtures("_one_pixel")
def test_a_claim_at_the_end_of_doubles_is_drawn() -> None:
    row = user_mechanism().deltas[0]
    bounds = (row.bounds[0], replace(row.bounds[1], value=1.7e308, ratio=8.5e307))
    made = result(replace(user_mechanism(), deltas=(replace(row, bounds=bounds),)))
    assert run_report.build(made).overview.pictures
    assert joined.build([report.Run(Path("run"), "audit", made, None)], Path()).overview.pictures


@pytest.mark.usefixtures("_one_pixel")
@pytest.mark.parametrize(
    ("confidence", "shown"),
    [(0.95, ("95%", "5%")), (1 - 1e-12, ("99.99%", "1e-10%"))],
)
def test_confidence_is_rounded_down_and_error_up(
    confidence: float, shown: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = replace(result(user_mechanism(), study()), confidence=confidence)
    methods, evidence, _ = run_report.build(made).sections[-3:]
    words = " ".join(map(str, methods.parts))
    assert f"confidence {shown[0]}. They" in words
    assert f"share of the error of {shown[1]} is spent" in words
    terminal.show(made)
    for text in (evidence.parts[0], capsys.readouterr().out):
        assert re.search(f"(numbers:|confidence) {min(confidence, 0.999999)}", str(text))


def test_bounds_are_rounded_outward_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    row = user_mechanism().deltas[0]
    bounds = (replace(row.bounds[1], value=5.12341, ratio=5.12341 / 1.23456),)
    certified = replace(row.certified, epsilon=1.23456)
    row = replace(row, sampled=evidence(1.23456), certified=certified, bounds=bounds)
    terminal.show(result(replace(user_mechanism(), deltas=(row,))))
    shown = capsys.readouterr().out
    assert shown.count("1.234 ") == 2
    assert "5.124 " in shown
    assert "4.150 " in shown

"""The table of the catalogue: every statement has a row, and its numbers are reproduced."""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
import re
import sys
from pathlib import Path

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from audit.bounds import CATALOGUE, Status
from audit.claims import Claim
from audit.claims.claims_file import load
from audit.claims.evidence import Judgement
from audit.claims.witness import Witness
from audit.dominating.matrix_mechanism import (
    MatrixMechanism,
    Participation,
    Pattern,
    square_root_strategy,
)
from audit.results import Verdict
from results.catalogue import make, page, rows, statements, stored_witnesses
from results.catalogue.printed import Printed, printed
from results.catalogue.rows import Kind, Row
from tests.bounds.reference import mixture_delta, one_step_delta
from tests.verifying import is_refuted

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "results" / "catalogue" / "catalogue.md"
CLAIMS_FOLDER = ROOT / "scenarios" / "claims"
SIDE = statements.load(CLAIMS_FOLDER / "statements.yaml")
# Pairs that reach the claimed number: the same closed form on both sides, or an exact law whose
# bracket is below 1e-9 wide. The judge takes every error off, so a ratio is 1 to six digits.
REACHED = (
    "fmtt18.theorem_22",
    "fmtt18.theorem_23.first_record",
    "fmtt18.lemma_27.renyi",
    "fmtt18.lemma_27_corrected",
    "fmtt18.theorem_29_corrected",
    "fmtt18.theorem_30_corrected",
    "fmtt18.corollary_34_corrected",
    "at22.proposition_2_17",
    "at22.sampled_gaussian",
    "cl25.theorem_3_12_both_orders",
    "survey.moments_accountant",
    "survey.rdp_composition",
    "bsa24.theorem_3_3",
    "bsa24.theorem_4_1",
    "bsa24.theorem_4_2",
    "bsa24.theorem_4_8",
    "bsa24.corollary_5_2",
    "accounting.full_batch",
    "accounting.full_batch.last_iterate",
)


@functools.cache
def claims() -> dict[str, Claim]:
    files = [CLAIMS_FOLDER / name for name in make.FILES]
    return {claim.id: claim for claim in load(files).claims}


@functools.cache
def recomputed() -> tuple[Printed, ...]:
    """Every printed number, computed again once."""
    return printed()


def committed() -> list[dict[str, str]]:
    with (ROOT / "results" / "catalogue" / "catalogue.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


COMMITTED = {row["claim"]: row for row in committed()}


# Columns that a judge fills; tests/test_stored_numbers.py computes them again.
JUDGED = {"mechanism", "quantity", "at", "pair", "evidence", "certified", "claimed", "ratio"}


def unjudged() -> list[Judgement]:
    return [Judgement(claim=claim, verdict=Verdict.NOT_APPLICABLE) for claim in claims().values()]


def test_every_entry_has_a_row_and_the_verdict_that_its_status_says() -> None:
    verdicts: dict[str, set[str]] = {}
    for row in COMMITTED.values():
        verdicts.setdefault(row["id"], set()).add(row["verdict"])
    assert set(CATALOGUE) <= set(verdicts)
    for id, entry in CATALOGUE.items():
        expected = {
            Status.REFUTED: "refuted",
            Status.ASYMPTOTIC: "not applicable",
        }.get(entry.status, "consistent")
        assert expected in verdicts[id], id
        assert ("refuted" in verdicts[id]) is (entry.status is Status.REFUTED), id
    # and every claim, printed number and side statement
    ids = {one.id for one in (*SIDE, *recomputed())}
    rows = set(COMMITTED) | {row["id"] for row in COMMITTED.values()}
    assert set(claims()) | ids <= rows


def stored_witness(claim: str) -> Witness:
    file = ROOT / "results" / "catalogue" / "witnesses" / f"{claim}.witness.json"
    return Witness.from_json(file.read_text(encoding="utf-8"))


def table_of_witnesses() -> dict[str, dict[str, str]]:
    file = ROOT / "results" / "catalogue" / stored_witnesses.TABLE
    with file.open(encoding="utf-8") as lines:
        return {row["claim"]: row for row in csv.DictReader(lines)}


def test_every_refuted_claim_has_a_witness_that_stands() -> None:
    table = table_of_witnesses()
    refuted = {id for id, row in COMMITTED.items() if row["verdict"] == "refuted" and row["pair"]}
    assert refuted == {id for id in table if COMMITTED[id]["kind"] == "upper bound"}
    assert {one.id for one in recomputed() if one.witness is not None} == set(table) - refuted
    files = (ROOT / "results" / "catalogue" / "witnesses").iterdir()
    assert {file.name.removesuffix(".witness.json") for file in files} == set(table)
    text = PAGE.read_text(encoding="utf-8")
    for id, row in table.items():
        assert row["verification"].startswith("verified: refuted"), id
        assert f"(witnesses/{id}.witness.json)" in text
        assert stored_witness(id).claim == id


@pytest.mark.parametrize(
    "id", ["dp_accounting.issue_428", "fs25.code.addition", "matrix.not_banded.two_epochs"]
)
def test_witnesses_of_correlated_steps_are_verified(id: str) -> None:
    found = stored_witness(id)
    assert is_refuted(found)
    # the planted error: a claim just above the number of the pair
    raised = dataclasses.replace(found, claimed=1.01 * found.bracket[0])
    assert not is_refuted(raised)


def test_the_claim_of_square_roots_is_that_of_its_matrix() -> None:
    witness = stored_witness("matrix.not_banded.two_epochs")
    strategy = square_root_strategy(4)
    assert witness.pair["strategy"] == strategy.tolist()
    once = MatrixMechanism(strategy, 1.0, Participation.single()).sensitivity()
    epochs = Participation(Pattern.FIXED_ORDER, separation=2)
    twice = MatrixMechanism(strategy, 1.0, epochs).sensitivity()
    # the claim is rounded up
    assert math.sqrt(2) * once.high <= witness.claimed < math.sqrt(2) * once.high + 1e-6
    assert witness.bracket[0] == pytest.approx(twice.low, rel=1e-9)


def test_the_site_links_the_witness_and_reads_the_scope_of_a_statement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs" / "_ext"), *sys.path])
    import catalogue_page

    table = table_of_witnesses()
    told = catalogue_page._witness(table.get("fs25.code.addition"), "../files")
    panel = catalogue_page._Panel({}, (), {}, set(), "")
    block = catalogue_page.block(COMMITTED["fs25.code.addition"], panel, first=True, witness=told)
    assert 'href="../files/fs25.code.addition.witness.json"' in block
    assert "claimed 29.3735; verified: refuted: sum of max(P - e^claimed Q, 0) = " in block
    assert catalogue_page._witness(table.get("bsa24.theorem_4_5"), "../files") == ""
    scope = (("strongly convex",), ("without replacement",))
    assert catalogue_page.scope("bsa24.theorem_4_9") == scope
    losses, samplers = catalogue_page.scope("accounting.actual_divisor")
    assert "clipped" in losses
    assert samplers == ("poisson",)
    assert catalogue_page.scope("unknown") == ((), ())


def test_a_witness_that_is_denied_fails_the_run(tmp_path: Path) -> None:
    pytest.importorskip("flint")
    found = stored_witness("matrix.not_banded.two_epochs")
    (tmp_path / "witnesses").mkdir()
    (tmp_path / "witnesses" / "gone.witness.json").write_text("{}")
    right, wrong = stored_witnesses.write(
        {"a": found, "b": dataclasses.replace(found, claimed=2.0)}, tmp_path
    )
    assert (right.verified, wrong.verified) == (True, False)
    assert wrong.verification.startswith("contradicted: not refuted by this witness")
    names = {file.name for file in (tmp_path / "witnesses").iterdir()}
    assert names == {"a.witness.json", "b.witness.json"}


def test_what_was_not_judged_says_why_and_where_it_is_tested() -> None:
    for row in COMMITTED.values():
        if row["claimed"] or row["kind"] == "printed number":
            continue
        assert row["tests"] or row["scenarios"] or row["why"], row["claim"]
        if row["kind"] == "upper bound":
            assert row["why"], row["claim"]
            assert row["tests"], row["claim"]


def test_named_tests_and_scenarios_exist() -> None:
    for one in SIDE:
        for test in one.tests:
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), test
            assert name.startswith("test_"), test
        for scenario in one.scenarios:
            assert (ROOT / "scenarios" / f"{scenario}.yaml").is_file(), scenario
        # what is said to hold or not is checked somewhere
        if one.found.startswith(("holds", "refuted", "run", "drawn, the")):
            assert one.tests or one.scenarios, one.id


def test_what_is_said_of_a_statement_is_what_is_committed() -> None:
    text = page.to_csv(rows.rows(unjudged(), SIDE, recomputed()))
    made = list(csv.DictReader(text.splitlines()))
    for row, stored in zip(made, committed(), strict=True):
        printed_number = row["kind"] == "printed number"
        left_out = JUDGED | {"verdict", "why"} if "bound" in row["kind"] else {"certified"}
        for name in row.keys() - left_out:
            assert row[name] == stored[name], (row["claim"], name)
        if printed_number:
            # stored with ten digits
            certified = float(stored["certified"])
            assert float(row["certified"]) == pytest.approx(certified, rel=1e-9), row["claim"]


def test_known_equality_is_a_ratio_of_one() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for id in REACHED:
        assert 0 <= float(COMMITTED[id]["ratio"]) - 1 < 1e-6, id
        (line,) = [line for line in lines if line.startswith(f"| `{id}` |")]
        assert "| 1.000 | consistent |" in line
    # pairs that are not equal have other ratios
    assert float(COMMITTED["bsa24.theorem_4_5"]["ratio"]) > 1.2
    assert float(COMMITTED["fmtt18.lemma_27"]["ratio"]) < 1


def test_the_committed_page_is_that_of_the_table_and_says_what_is_written_by_hand() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = {name.partition("::")[0] for name in re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)}
    assert named == {row["claim"] for row in COMMITTED.values()}
    bold = [line for line in text.splitlines() if "| **refuted** |" in line]
    assert len(bold) == sum(row["verdict"] == "refuted" for row in COMMITTED.values())
    words = " ".join(text.split())
    assert "The last two tables, including their column *found*, are written by hand" in words
    assert " ".join(page._INTRODUCTION.split()) in words


def test_an_entry_without_a_claim_is_refused() -> None:
    with pytest.raises(ValueError, match=r"every entry must have a claim, got none for fmtt18\.t"):
        rows.rows(unjudged()[:1], SIDE, ())


def test_printed_numbers_are_compared_to_their_last_digit() -> None:
    found = {one.id: one for one in recomputed()}
    assert found["bsa24.table_1.ours_50"].verdict == "holds"
    assert found["at22.appendix_a_4_tail"].verdict == "refuted"
    # 0.1/sqrt(0.001) is sqrt(10), and erfc gives the tail
    by_hand = 1 - math.erfc(math.sqrt(10) / math.sqrt(2)) / 2
    assert found["at22.appendix_a_4_tail"].found == pytest.approx(by_hand, rel=1e-14)
    one = found["bsa24.table_1.ours_50"]
    assert dataclasses.replace(one, expected=one.expected + 0.01).verdict == "refuted"


def test_the_printed_best_length_is_not_the_least() -> None:
    found = {one.id: one for one in recomputed()}["at22.b_3_best_length"]
    assert found.found > 1
    # the least by brute force: T q + cost (1 - c^2)/(c^(-2T) - 1) at c = .9, q = .01, cost = 100
    lengths = [1 + i / 1000 for i in range(200_000)]
    least = min(0.01 * t + 100 * 0.19 / math.expm1(-2 * t * math.log(0.9)) for t in lengths)
    beta = 200 * 0.1**2 * math.log(0.9) / 0.01
    root = (2 - beta + math.sqrt((2 - beta) ** 2 - 4)) / 2
    at = -math.log(root) / (2 * math.log(0.9))
    there = 0.01 * at + 100 * 0.19 / math.expm1(-2 * at * math.log(0.9))
    # the grid of lengths is 1e-3 wide, and the function is flat at its least value
    assert found.found == pytest.approx(there / least, rel=1e-6)


def test_statements_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "statements.yaml"
    whole = "{id: a, citation: b, statement: c, kind: remark, found: d, why: e}"
    file.write_text(f"- {whole}\n", encoding="utf-8")
    assert statements.load(file)[0].why == "e"
    for text, message in (
        ("a: b", "must be a list of statements, got 'dict'"),
        (f"- {whole}\n- {whole}", "id must be unique among the statements, got 'a'"),
        ("- {id: a, citation: b, statement: c, kind: rumour, found: d}", "kind of a must be one"),
        ("- {id: a, citation: b, statement: c, kind: remark, found: d}", "a must be tested, run"),
        ("- {id: a, kind: remark}", "a statement must be whole"),
        ("- {id: a, colour: red}", "a statement must be a mapping of citation, found, id"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=re.escape(message)):
            statements.load(file)


def test_upper_bounds_are_refuted_on_one_side_only() -> None:
    one = Printed(id="x.y", citation="c", statement="s", expected=1.0, found=0.5, tolerance=0)
    upper = dataclasses.replace(one, upper=True)
    assert upper.verdict == "consistent"
    assert dataclasses.replace(upper, found=1.5).verdict == one.verdict == "refuted"
    row = rows.rows(unjudged(), (), [one])[-1]
    assert (row.claimed, row.certified, row.verdict) == (1.0, 0.5, "refuted")


def test_slips_of_the_papers_come_out() -> None:
    found = {one.id: one for one in recomputed()}
    zeroed = found["bsa24.theorem_4_8.zeroed_record"]
    # batch means over b sigma: L - L and -L - L with the record at L, 0 - L and -L - L without it
    laws = (0.0, -2.0), (-1.0, -2.0)
    deltas = [one_step_delta(zeroed.found, *pair, 0.1) for pair in (laws, laws[::-1])]
    assert max(deltas) == pytest.approx(1e-5, rel=1e-5)  # of a grid, and of a bracket's lower end
    assert zeroed.found == pytest.approx(3.747, abs=5e-4)
    assert mixture_delta(zeroed.expected, 0.1, 1.0) == pytest.approx(1e-5, rel=1e-9)
    negative = found["bsa24.theorem_4_9.tau_zero"]
    assert negative.expected == pytest.approx(-(0.9**10), rel=1e-12)
    split = found["cl25.theorem_3_12.noise_split"]
    # D_2 of N(0, s^2) from the mixture .9 N(0, s^2) + .1 N(1, s^2), by quadrature
    for value, s in ((split.expected, 0.25), (split.found, 0.5)):
        moment, _ = quad(
            lambda x, s=s: norm.pdf(x) / (0.9 + 0.1 * math.exp((2 * x * s - 1) / (2 * s**2))),
            -12,
            12,
            epsabs=1e-12,
            limit=200,
        )
        assert value == pytest.approx(math.log(moment), abs=1e-9)
    assert found["survey.section_vi_a.shifts"].verdict == "refuted"
    assert found["survey.section_vi_a.last_epoch"].expected == -1 / 8
    verdicts = [one.verdict for one in (zeroed, negative, split)]
    assert verdicts == ["refuted", "refuted", "consistent"]


def test_only_an_exact_ratio_reads_as_one() -> None:
    words = dict.fromkeys(("id", "claim", "citation", "statement", "status"), "")
    for value, shown in (
        (1.0, "1.000"),
        (1 + 9e-7, "1.000"),
        (1 + 1.8e-6, "1.000002"),
        (1.0004, "1.0004"),
        (1.25, "1.250"),
        (0.9999, "0.9999"),
    ):
        assert page._ratio(Row(kind=Kind.UPPER, ratio=value, **words)) == shown

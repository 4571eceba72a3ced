"""Tables of some settings only: loss of each record, user-defined mechanisms, Renyi curves."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import numpy as np
import pytest

from audit import report
from audit.bounds import Status
from audit.constructions import DriftedWalk, GradientPair, PiecewiseLinear
from audit.estimation import (
    BestColumn,
    CombinedColumns,
    Histogram,
    LearnedColumns,
    LinearScore,
    WeightedColumns,
    audit_samples,
)
from audit.report import joined, queries, setting_section
from audit.report.conclusion import conclusion
from audit.report.document import EXACT, LOWER, PARAMETER, UPPER, Table
from audit.report.figures import curves, laws, sandwich, style
from audit.report.setting_section import columns_in_words, group_in_words, section
from audit.report.terminal import show
from audit.results import (
    AtPosition,
    ByOrder,
    Certified,
    FoundBy,
    NamedEpsilon,
    Number,
    OtherPair,
    PairResult,
    PositionAtDelta,
    Verdict,
    from_json,
    schema,
    to_json,
)

from .example import (
    around,
    bound,
    evidence,
    example,
    pair_settings,
    result,
    user_mechanism,
    with_row,
    with_setting,
)


def by_record(*claimed: float, status: Status = Status.AS_PRINTED) -> tuple[AtPosition, ...]:
    """Records 1, 2, ... of which two pairs have their index and half of it."""
    return tuple(
        AtPosition(
            position=index - 1,
            index=index,
            deltas=tuple(
                PositionAtDelta(
                    delta=delta,
                    pairs=(
                        NamedEpsilon(pair="ResetWalk", epsilon=around(index, 0.0)),
                        NamedEpsilon(pair="TwoSidedWalk", epsilon=around(index / 2, 0.0)),
                    ),
                    certified=float(index),
                    bounds=(bound("fmtt18.theorem_23", value, float(index), status=status),),
                )
                for delta in (1e-2, 1e-5)
            ),
        )
        for index, value in enumerate(claimed, 1)
    )


def test_the_leak_of_each_record_in_words_and_rows() -> None:
    text = curves.positions_caption(by_record(2.0, 6.0, 3.3))
    assert text == (
        "Record 3 leaks most, at least 3.000; record 1 least, 1.000. The tightest claim that "
        "stands is 1.100 times the strongest pair's exact value at record 3 and 3.000 times at "
        "record 2."
    )
    table = setting_section.positions(replace(pair_settings()[0], positions=by_record(2.0, 1.5)))
    verdicts = [row[-1].text for row in table.rows]
    assert verdicts == ["consistent", "consistent", "refuted", "refuted"]
    assert table.rows[0][3].text == "ResetWalk"


def test_a_claim_refuted_for_one_record_is_in_the_first_sentence() -> None:
    assert "for some records" not in conclusion(example())[0]
    refuted = conclusion(with_setting(example(), 0, positions=by_record(2.0, 1.5)))[0].lower()
    assert "for some records fmtt18.theorem_23 is refuted" in refuted
    assert "Refuted at some record: fmtt18.theorem_23." in curves.positions_caption(
        by_record(2.0, 1.5)
    )


def test_an_unproven_bound_is_never_the_tightest_of_a_record() -> None:
    records = by_record(2.0, status=Status.UNPROVEN)
    assert "tightest" not in curves.positions_caption(records)
    table = setting_section.positions(replace(pair_settings()[0], positions=records))
    assert table.rows[0][4].text == "none applies"


def test_renyi_curves_say_how_tight_and_what_is_refuted() -> None:
    rows = pair_settings()[0].renyi
    assert curves.draw_renyi(rows[:2], "s", {}) is None
    text = curves.renyi_caption(rows)
    assert "At order 2 the tightest claim that stands is 1.216 times the exact value" in text
    assert "refuted" not in text
    wrong = replace(rows[1], bounds=(*rows[1].bounds, bound("b", 0.1, 1.9)))
    assert "hence refuted: b." in curves.renyi_caption((rows[0], wrong, rows[2]))


def test_a_claim_refuted_at_one_order_is_in_the_first_sentence(tmp_path: Path) -> None:
    assert "Renyi" not in conclusion(example())[0]
    first, second, third = pair_settings()[0].renyi
    refuted = replace(second.bounds[0], verdict=Verdict.REFUTED)
    second = replace(second, bounds=(refuted, *second.bounds[1:]))
    made = with_setting(example(), 0, renyi=(first, second, third))
    clause = "as a bound on a Renyi divergence at22.b_1 is refuted"
    assert clause in conclusion(made)[0]
    joint = joined.conclusion([report.Run(tmp_path, "", made, None)])
    assert clause in " ".join(joint).replace("As", "as")


@pytest.mark.usefixtures("_one_pixel")
def test_no_exact_value_is_claimed_where_samples_are_all(tmp_path: Path) -> None:
    own = user_mechanism()
    made = result(own)
    names = {path.stem for path in report.write(made, tmp_path)}
    assert names == {"report", "sandwich", "own-scores"}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "not computed" in page
    assert "after 12,345 pairs" in page
    assert "loose: not refuted" in page
    assert "mine:run" in page
    assert "Exact epsilon in both orders" not in page
    first = " ".join(conclusion(made))
    assert "Refuted: tight claims 1.500 where samples certify 2.000 at δ = 0.01" in first
    assert "exact" not in first
    assert "exact" not in sandwich.caption([own])
    assert queries.tightest(own.deltas[0].bounds) == own.deltas[0].bounds[1]
    assert "75% of their area in common" in laws.scores_caption(own.scores, own.trials)
    # and nothing is said of several records
    parts = section(own, "own", {}).parts
    assert not [p for p in parts if isinstance(p, Table) and "several records" in p.caption]


def test_pairs_are_written_with_their_parameters() -> None:
    setting = pair_settings()[0]
    drifted = DriftedWalk(setting.mechanism, drift=-0.02)
    assert setting_section.in_words(drifted) == "DriftedWalk(drift=-0.02, start=0)"
    line = PiecewiseLinear(points=(-0.5, 0.5), values=(-0.25, 0.25), slopes=(0.0, 0.0))
    constant = PiecewiseLinear(points=(0.0,), values=(1.0,), slopes=(0.0, 0.0))
    pair = GradientPair(setting.mechanism, others=line, record=constant, record_prime=constant)
    text = setting_section.in_words(pair)
    assert "others.points=(-0.5, 0.5)" in text
    assert "record=1, record_prime=1" in text
    by = FoundBy(delta=1e-5, evaluations=1500, seed=3)
    other = OtherPair(pair=pair, epsilons=(), found_by=by)
    assert not setting_section.found_pair(setting).rows
    later = replace(other, found_by=FoundBy(delta=1e-3, evaluations=7, seed=1))
    table = setting_section.found_pair(replace(setting, other_pairs=(other, later)))
    rows = {row[0].text: row[1].text for row in table.rows}
    assert rows["pairs tried"] == "1,500"
    assert rows["others points"] == "-0.5, 0.5"
    assert rows["record"] == "1"


def test_numbers_are_rounded_to_the_side_of_their_format() -> None:
    value = 1.000049
    assert (LOWER.cell(value).text, UPPER.cell(value).text) == ("1.0000", "1.0001")
    assert EXACT.cell(Number(value, value - 1e-4, value + 1e-4)).text == "1.000"
    for form in (LOWER, UPPER, PARAMETER):
        assert form.cell(value).value == repr(value)
        assert form.cell(None).text == "–"


def combined(choice: object, *weights: float) -> CombinedColumns:
    return CombinedColumns(choice=choice, number=3, weights=weights or None, choosing=(1000, 900))


def test_how_columns_were_combined() -> None:
    assert columns_in_words(None) == ""
    chosen = "This was chosen on 1,000 runs of X and 900 of X', which certify nothing."
    for columns, how in (
        (combined(LinearScore(), 1, -0.25, 0.125), "by a sum with the weights 1.00, -0.250, 0.125"),
        (combined(BestColumn(), 0, 1, 0), "by taking number 2, which tells the laws apart best"),
        (combined(LearnedColumns(Histogram())), "by a score that was learned (Histogram)"),
    ):
        expected = f"Each run gives 3 numbers, made into one score {how}. {chosen}"
        assert columns_in_words(columns) == expected
    given = combined(WeightedColumns((1.0, 1.0, 1.0)), 1.0, 1.0, 1.0)
    assert columns_in_words(given).endswith("The weights were given beforehand.")
    many = replace(given, weights=(1.0,) * 9, number=9)
    assert "and 3 more" in columns_in_words(many)


def test_what_a_group_says_of_one_record() -> None:
    assert group_in_words(1) == ""
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(2, 4000))
    found = audit_samples(x + 2, y, confidence=0.95, deltas=(0.01,), seed=1, group_size=3)
    setting = replace(user_mechanism(), audit=found.record())
    parts = section(setting, "own", {}).parts
    words = " ".join(part for part in parts if isinstance(part, str))
    assert "The two datasets differ in 3 records. Claims are about one record" in words
    assert "mu-GDP about one record with mu below" in words
    mu = float(words.split("mu below ")[1].split(". This")[0])
    assert 0.99 * found.mu_lower() / 3 < mu <= found.mu_lower() / 3
    (table,) = [
        part for part in parts if isinstance(part, Table) and "several records" in part.caption
    ]
    (row,) = table.rows
    one = found.per_record_evidence(0.01)
    numbers = [0.01, one.epsilon, 3, one.pair_delta, one.evidence.value]
    assert [float(str(cell.value)) for cell in row] == numbers


def infinite(epsilon: float = math.inf) -> PairResult:
    """A setting at delta = 0 whose claims are infinite."""
    setting = pair_settings()[0]
    value = around(epsilon, 0.0)
    claims = tuple(
        replace(bound(name, math.inf, 1.0), ratio=None)
        for name in ("bsa24.theorem_4_1", "bsa24.theorem_4_3")
    )
    exact = ByOrder(forward=value, reverse=value, worst=value)
    certified = Certified(epsilon=value.low, by=setting.pair.name)
    row = replace(
        setting.deltas[0],
        delta=0.0,
        sampled=evidence(0.8, 7.0),
        exact=exact,
        certified=certified,
        bounds=claims,
        best=None,
    )
    against = setting.epsilon_against_steps
    endless = replace(
        against,
        delta=0.0,
        exact=(value,) * len(against.steps),
        bounds=tuple(
            replace(curve, values=(math.inf,) * len(against.steps)) for curve in against.bounds
        ),
    )
    return replace(setting, deltas=(row,), epsilon_against_steps=endless)


@pytest.mark.parametrize("exact", [2.0, math.inf])
def test_an_infinite_claim_is_shown_as_the_tightest_where_none_is_finite(exact: float) -> None:
    setting = infinite(exact)
    ((_, delta, _, cell, claimed, ratio, verdict),) = setting_section.summary([(setting, "s")]).rows
    assert (delta.text, claimed.text, verdict.text) == ("0", "inf", "consistent")
    assert cell.text == ("inf" if exact == math.inf else "2.00000")
    assert ratio.text != "1.000"
    (shown,) = queries.shown_claims(setting.deltas[0].bounds)
    assert shown is not None
    assert queries.tightest(setting.deltas[0].bounds) is None


def test_figures_mark_what_is_infinite_or_zero() -> None:
    row = infinite(2.0).deltas[0]
    bounds = (replace(row.bounds[0], value=0.0), *row.bounds[1:])
    sampled = replace(row.sampled, epsilon=0.0)
    zero = with_row(infinite(2.0), 0, sampled=sampled, bounds=bounds, best=None)
    for setting, infinities, zeros in ((infinite(2.0), 2, 0), (infinite(), 3, 0), (zero, 1, 2)):
        looks = style.looks(queries.bound_ids([setting]))
        svg = sandwich.draw([setting], looks).svg.decode()
        assert (svg.count("<!-- inf -->"), svg.count("<!-- 0 -->")) == (infinities, zeros)
    # what is infinite throughout is not drawn against steps
    assert curves.draw_steps(infinite().epsilon_against_steps, "s", {}, ()) is None
    assert curves.draw_steps(infinite(2.0).epsilon_against_steps, "s", {}, ()) is not None


def test_infinity_is_stored_read_again_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    stored = result(infinite())
    text = to_json(stored)
    jsonschema.Draft202012Validator(schema()).validate(json.loads(text))
    assert from_json(text) == stored
    show(stored)
    shown = capsys.readouterr().out
    assert "inf BiasedWalk" in shown
    assert "none is finite" in shown

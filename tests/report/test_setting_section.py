"""Tables of some settings only: loss of each record, user-defined mechanisms, Renyi curves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from audit import report
from audit.bounds import Status
from audit.constructions import DriftedWalk, GradientPair, PiecewiseLinear
from audit.report import joined, queries, setting_section
from audit.report.conclusion import conclusion
from audit.report.document import EXACT, LOWER, PARAMETER, UPPER
from audit.report.figures import curves, laws, sandwich
from audit.results import (
    AtPosition,
    FoundBy,
    NamedEpsilon,
    Number,
    OtherPair,
    PositionAtDelta,
    Verdict,
)

from .example import bound, example, pair_settings, result, user_mechanism, with_setting


def by_record(*claimed: float, status: Status = Status.AS_PRINTED) -> tuple[AtPosition, ...]:
    """Records 1, 2, ... of which two pairs have their index and half of it."""

    def exactly(value: float) -> Number:
        return Number(value, value, value)

    return tuple(
        AtPosition(
            position=index - 1,
            index=index,
            deltas=tuple(
                PositionAtDelta(
                    delta=delta,
                    pairs=(
                        NamedEpsilon(pair="ResetWalk", epsilon=exactly(float(index))),
                        NamedEpsilon(pair="TwoSidedWalk", epsilon=exactly(index / 2)),
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


def test_scores_in_common() -> None:
    own = user_mechanism()
    assert "75% of their area in common" in laws.scores_caption(own.scores, own.trials)


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

"""What only some settings have: the leak of each record, own scores, Renyi curves."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from audit import report
from audit.report import conclusion, joined, setting_tables, stored
from audit.report.figures import positions, renyi, sandwich, scores

from .example import example


def by_record(*claimed: float) -> list[dict[str, Any]]:
    """Records 1, 2, ... of which two pairs have their index and half of it."""
    return [
        {
            "position": index - 1,
            "index": index,
            "pairs": [
                {"name": "ResetWalk", "epsilon": [[float(index), float(index)]] * 2},
                {"name": "TwoSidedWalk", "epsilon": [[index / 2, index / 2]] * 2},
            ],
            "certified": [float(index)] * 2,
            "bounds": [
                {
                    "id": "fmtt18.theorem_23",
                    "status": "as printed",
                    "epsilon": [value, value],
                    "verdict": ["consistent" if value >= index else "refuted"] * 2,
                }
            ],
        }
        for index, value in enumerate(claimed, 1)
    ]


def test_the_leak_of_each_record_in_words_and_rows() -> None:
    text = positions.caption(by_record(2.0, 6.0, 3.3))
    assert text == (
        "Record 3 leaks most, at least 3.000; record 1 least, 1.000. The tightest claim that "
        "stands is 1.100 times the strongest pair's exact value at record 3 and 3.000 times at "
        "record 2."
    )
    setting = {**example()["settings"][0], "positions": by_record(2.0, 1.5)}
    table = setting_tables.positions(setting)
    assert table is not None
    verdicts = [row[-1].text for row in table.rows]
    assert verdicts == ["consistent", "consistent", "refuted", "refuted"]
    assert table.rows[0][3].text == "ResetWalk"


def test_a_claim_refuted_for_one_record_is_in_the_first_sentence() -> None:
    result = example()
    assert "for some records" not in conclusion.conclusion(result)
    result["settings"][0]["positions"] = by_record(2.0, 1.5)
    assert "for some records fmtt18.theorem_23 is refuted" in conclusion.conclusion(result)
    assert "Refuted at some record: fmtt18.theorem_23." in positions.caption(by_record(2.0, 1.5))


def test_an_unproven_bound_is_never_the_tightest_of_a_record() -> None:
    rows = by_record(2.0)
    rows[0]["bounds"][0]["status"] = "unproven"
    assert "tightest" not in positions.caption(rows)
    table = setting_tables.positions({**example()["settings"][0], "positions": rows})
    assert table is not None
    assert table.rows[0][4].text == "none applies"


def test_renyi_curves_say_how_tight_and_what_is_refuted() -> None:
    setting = copy.deepcopy(example()["settings"][0])
    assert renyi.has_curve(setting)
    assert not renyi.has_curve({**setting, "renyi": setting["renyi"][:2]})
    text = renyi.caption(setting["renyi"])
    assert "At order 2 the tightest claim that stands is 9.000 times the exact value" in text
    assert "refuted" not in text
    setting["renyi"][1]["bounds"].append({"id": "b", "value": 0.1, "verdict": "refuted"})
    assert "hence refuted: b." in renyi.caption(setting["renyi"])


def test_a_claim_refuted_at_one_order_is_in_the_first_sentence(tmp_path: Path) -> None:
    result = example()
    assert "Renyi" not in conclusion.conclusion(result)
    result["settings"][0]["renyi"][1]["bounds"][0]["verdict"] = "refuted"
    clause = "as a bound on a Renyi divergence bsa24.theorem_4_1 is refuted"
    assert clause in conclusion.conclusion(result)
    assert clause in joined.conclusion([report.Run(tmp_path, "", result, None)])


def own() -> dict[str, Any]:
    """A setting of samples only, one claim refuted and one not."""

    def claim(name: str, epsilon: float) -> dict[str, Any]:
        return {
            "id": name,
            "citation": "claimed by the mechanism's author",
            "status": "claimed",
            "epsilon": epsilon,
            "reason": None,
            "ratio": epsilon / 2.0,
            "verdict": "refuted" if epsilon < 2 else "consistent",
        }

    return {
        "name": "own",
        "title": "My training",
        "summary": "",
        "mechanism": {},
        "source": "mine:run",
        "trials": 1000,
        "deltas": [
            {
                "delta": 1e-2,
                "sampled": {"epsilon": 2.0, "order": "forward", "threshold": 0.5},
                "estimators": [
                    {"name": "pilot split", "epsilon": 2.0, "refuted_after": {}},
                    {
                        "name": "sequential",
                        "epsilon": 1.8,
                        "refuted_after": {"tight": 12345, "loose": None},
                    },
                ],
                "exact": {"worst": [2.0, None], "known": False},
                "certified": {"epsilon": 2.0, "by": "samples"},
                "bounds": [claim("tight", 1.5), claim("loose", 5.0)],
                "best": {"id": "loose", "epsilon": 5.0, "ratio": 2.5},
            }
        ],
        "scores": {"edges": [0.0, 1.0, 2.0], "share": [0.75, 0.25], "share_prime": [0.5, 0.5]},
    }


def test_no_exact_value_is_claimed_where_samples_are_all(tmp_path: Path) -> None:
    result = {**example(), "settings": [own()]}
    report.write(result, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "not computed" in page
    assert "after 12,345 pairs" in page
    assert "mine:run" in page
    assert setting_tables.orders(own()) is None
    first = conclusion.conclusion(result)
    assert "tight claims 1.500 where samples certify 2.000 at δ = 0.01" in first
    assert "exact" not in first
    assert "exact" not in sandwich.caption([own()])
    assert stored.tightest(own()["deltas"][0]) == own()["deltas"][0]["bounds"][1]


def test_scores_in_common() -> None:
    assert "75% of their area in common" in scores.caption(own())


@pytest.mark.parametrize("part", ["positions", "renyi", "scores"])
def test_a_setting_without_a_part_has_no_figure_of_it(part: str, tmp_path: Path) -> None:
    result = example()
    for setting in result["settings"]:
        setting.pop(part, None)
    result["settings"] = [
        {k: v for k, v in s.items() if k not in ("laws", "tradeoff", "diagnostics")}
        for s in result["settings"][:1]
    ]
    names = {path.stem for path in report.write(result, tmp_path)}
    assert f"full_batch-{part}" not in names

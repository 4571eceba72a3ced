"""Files of scores with a column of membership: every format, and one-line errors."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.adapters.scores import CanaryScores, read_scores, read_table
from audit.claims import formats
from audit.claims.evidence import Evidence, Verdict
from audit.claims.judge import check
from audit.curves import GaussianCurve
from audit.estimation import Canaries, audit_one_run, audit_samples
from audit.scenario.config import read_setting

# Scores N(1, 1) and N(0, 1) under the names of Privacy Meter's attack_result files.
RECORDED = Path(__file__).parent / "recorded" / "attack_result_0.npz"
EPSILON = GaussianCurve(1.0).epsilon(1e-2)


def drawn(count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    member = rng.random(count) < 0.5
    return rng.normal(member.astype(float), 1.0), member


def write(path: Path, scores: Any, member: Any) -> Path:
    """Write the columns ``loss`` and ``in``, or their numbers."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            rows.writerow(["id", "loss", "in"])
            rows.writerows(zip(range(len(scores)), scores, member, strict=True))
    elif path.suffix == ".npz":
        np.savez(path, **{"loss": scores, "in": member, "auc": np.float64(0.7)})
    else:
        table = np.empty(len(scores), dtype=[("loss", float), ("in", bool)])
        table["loss"], table["in"] = scores, member
        np.save(path, table)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npz", ".npy"])
def test_a_table_goes_round(tmp_path: Path, suffix: str):
    scores, member = drawn()
    for membership in (member, member.astype(int), member.astype(float)):
        file = write(tmp_path / f"scores{suffix}", scores.tolist(), membership.tolist())
        found = read_table(file, score="loss", member="in")
        assert np.array_equal(found.scores, scores)
        assert np.array_equal(found.member, member)
        assert np.array_equal(found.x, scores[member])
        assert np.array_equal(found.x_prime, scores[~member])


def test_columns_without_names(tmp_path: Path):
    scores, member = drawn()
    np.save(tmp_path / "two.npy", np.column_stack([member, scores]))
    found = read_table(tmp_path / "two.npy", score="1", member="0")
    assert np.array_equal(found.x, scores[member])
    np.save(tmp_path / "one.npy", scores)
    with pytest.raises(ValueError, match=r"has two columns, got \(60,\)"):
        read_table(tmp_path / "one.npy", score="1", member="0")


def test_a_recorded_file_of_privacy_meter_is_what_the_estimators_take():
    found = read_table(RECORDED, score="scores", member="memberships")
    assert found.scores.shape == (400,)
    # another way to the same: the file itself
    with np.load(RECORDED) as archive:
        assert np.array_equal(found.x, archive["scores"][archive["memberships"]])
    independent = audit_samples(found.x, found.x_prime, confidence=0.95, seed=1, deltas=(1e-2,))
    assert 0 < independent.epsilon_lower(1e-2) <= EPSILON
    asked = {"delta": 1e-2, "confidence": 0.95, "seed": 1, "canaries": Canaries.INDEPENDENT}
    one_run = audit_one_run(found.scores, found.member, **asked)
    assert 0 < one_run.epsilon_lower(1e-2) <= EPSILON


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss,who\n1,1\n", r"member must be one of the columns 'loss', 'who', got 'in'"),
        ("loss,in\n1,1\n2,yes\n", "column 'in' must hold .* got 'yes' at position 1"),
        ("loss,in\n1,1\n2,\n", "column 'in' must hold .* got '' at position 1"),
        ("loss,in\n1,1\ninf,0\n", "column 'loss' must hold finite numbers only, got inf at pos"),
        ("loss,in\n1,1\n2\n", "line 3 must have 2 entries, got 1"),
        ("loss,in,loss\n1,1,1\n", "names of columns must differ, got loss, in, loss"),
    ],
)
def test_slips_in_a_table(tmp_path: Path, text: str, message: str):
    """Others are in tests/test_mistakes.py."""
    file = tmp_path / "scores.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as raised:
        read_table(file, score="loss", member="in")
    assert "scores.csv" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_no_table(tmp_path: Path):
    with pytest.raises(ValueError, match=r"score must be a str, got \['a'\]"):
        read_table(tmp_path / "scores.csv", score=["a"], member="b")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"file must be readable, got .* \(No such file"):
        read_table(tmp_path / "scores.csv", score="a", member="b")
    (tmp_path / "broken.npz").write_bytes(b"PK no zip")
    with pytest.raises(ValueError, match="file must be readable, got"):
        read_table(tmp_path / "broken.npz", score="a", member="b")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        read_table(tmp_path / "pickled.npy", score="a", member="b")


@pytest.mark.parametrize("head", ["", "row,score\n"])
@pytest.mark.parametrize("step", [1, 3])  # 3: of some rows of a table
def test_row_numbers_are_no_scores(tmp_path: Path, head: str, step: int):
    file = tmp_path / "x.csv"
    file.write_text(head + "".join(f"{5 + step * i},0.{i}\n" for i in range(9)))
    message = "must hold scores in every column, got row numbers from 5 on in column 1"
    with pytest.raises(ValueError, match=message):
        read_scores(file)
    np.savetxt(file, [[1, 0.5], [3, 0.2], [4, 0.1]])  # so few may ascend by chance
    assert read_scores(file).shape == (3, 2)
    np.savetxt(file, [[0.3 * i, i // 2] for i in range(9)])  # numbers, and counts with ties
    assert read_scores(file).shape == (9, 2)
    np.savetxt(file, [[1, 0.5], [2, 0.2], [3, 0.1]])  # but not in steps of one
    with pytest.raises(ValueError, match="row numbers from 1 on in column 1"):
        read_scores(file)


FIRST = r"line 1 must name columns in words where it may be scores, got 0"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0,1\n0.5,1.0\n0.7,0.0\n", [[0.5, 1.0], [0.7, 0.0]]),  # as pandas writes numbered columns
        ("0,1\n0.5,0\n0.7,1\n", FIRST),
        ("0, 1\n0.5, 0\n0.7, 1\n", FIRST),
        ("0\n0.5\n0.7\n", FIRST),
        ("0\n1\n1\n", [0.0, 1.0, 1.0]),
        ("0\n-0\n2\n", [0.0, 0.0, 2.0]),  # as %g writes numbers
        ("0\n0.0\n0\n0.5\n", FIRST),
        ("a,b\n0,1\n0.5,0\n", [[0.0, 1.0], [0.5, 0.0]]),
        (
            ",score\n7,0.5\n3,0.7\n",
            "line 1 must fill every column, got nothing in column 1; pandas",
        ),
        ("1,,2\n1,2,\n", "line 1 must fill every column, got nothing in column 2"),
        ('""\n0.5\n', "line 1 must hold finite numbers only, got"),  # as pandas writes no number
        ("1,2,,\n", "got nothing in column 3.$"),
        ("1,2\n,3\n", "line 2 must fill every column, got nothing in column 1.$"),
        ("1,\n2,\n", [1.0, 2.0]),
        ("0,1\n1,0\n", FIRST),
        ("NA\n0.5\n0.7\n", "line 1 must hold finite numbers only, got 'NA' in column 1"),
        ("1.0\nup\n", "line 2 must hold finite numbers only, got 'up' in column 1"),
        ("1,2\n3,inf\n", "line 2 must hold finite numbers only, got 'inf' in column 2"),
    ],
)
def test_a_first_line_is_what_it_says_or_refused(tmp_path: Path, text: str, found: Any):
    file = tmp_path / "x.csv"
    file.write_text(text)
    if isinstance(found, list):
        assert read_scores(file).tolist() == found
        return
    with pytest.raises(ValueError, match=found):
        read_scores(file)
    if found is FIRST:  # a table lost that row
        with pytest.raises(ValueError, match=FIRST):
            read_table(file, score="0", member="1")


def test_row_numbers_in_parquet_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    columns = {"score": np.array([0.5, 0.1]), "__index_level_0__": np.array([7, 3])}
    monkeypatch.setattr("audit.adapters.scores._parquet", lambda path: columns)
    assert read_scores(tmp_path / "x.parquet").tolist() == [0.5, 0.1]


def test_memberships_that_do_not_fit(tmp_path: Path):
    # one column for both would tell the sides apart whatever was trained
    with pytest.raises(ValueError, match=r"^member must be another column than score, got 'in'"):
        read_table(tmp_path / "scores.csv", score="in", member="in")
    for side, kept, asked, called in (
        (True, "x", "x_prime", "others"),
        (False, "x_prime", "x", "members"),
    ):
        found = CanaryScores(np.arange(3.0), np.full(3, side))
        assert getattr(found, kept).size == 3
        with pytest.raises(ValueError, match=f"scores must hold {called}, got 3 without one"):
            getattr(found, asked)
    with pytest.raises(ValueError, match=r"booleans of shape \(3,\).* got int64 of shape \(3,\)"):
        CanaryScores(np.arange(3.0), np.array([1, 0, 1]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"booleans of shape \(3,\).* got bool of shape \(2,\)"):
        CanaryScores(np.arange(3.0), np.array([True, False]))
    with pytest.raises(ValueError, match="member must be an array without a mask"):
        CanaryScores(np.arange(3.0), np.ma.masked_array([True, False, True], [True, False, False]))


def test_the_extra_is_named_where_pyarrow_is_missing(tmp_path: Path, not_installed: None):
    named = r"pyarrow.parquet cannot be imported .*: pip install 'noisy-sgd-audit\[parquet\]'$"
    with pytest.raises(ImportError, match=named):
        read_table(tmp_path / "scores.parquet", score="a", member="b")


def test_a_claim_on_a_table(tmp_path: Path):
    scores, member = drawn(4000)
    write(tmp_path / "scores.csv", scores.tolist(), member.astype(int).tolist())
    file = tmp_path / "scores.claims.yaml"
    file.write_text(
        f"""
        defaults: {{samples: {{file: scores.csv, score: loss, member: in}}}}
        claims:
          - {{id: right, epsilon: {EPSILON}, delta: 1e-2}}
          - {{id: half, epsilon: {EPSILON / 2}, delta: 1e-2, expected: refuted}}
        """,
        encoding="utf-8",
    )
    found = check([file], error=0.01)
    assert found.complaints == ()
    assert [j.verdict for j in found.judgements] == [Verdict.CONSISTENT, Verdict.REFUTED]
    assert found.judgements[1].evidence is Evidence.SAMPLED
    assert '"member": "in"' in formats.write(found, formats.Format.JSON)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ("{file: scores.csv, score: loss}", "x and x_prime must be given, or file, score and m"),
        ("{file: a.csv, score: a, member: b, x: [1]}", "got x, file, score, member"),
        ("{file: none.csv, score: a, member: b}", "file must be readable, got"),
        ("{file: scores.csv, score: lost, member: in}", "score must be one of the columns"),
    ],
)
def test_slips_in_a_claim(tmp_path: Path, samples: str, message: str):
    write(tmp_path / "scores.csv", [1.0, 2.0], [1, 0])
    file = tmp_path / "x.claims.yaml"
    file.write_text(
        f"claims: [{{id: x, epsilon: 1, delta: .1, samples: {samples}}}]", encoding="utf-8"
    )
    (complaint,) = check([file], error=0.01).complaints
    assert message in complaint.message
    assert "\n" not in complaint.message


def test_settings_on_a_table(tmp_path: Path):
    scores, member = drawn(400)
    file = write(tmp_path / "scores.npz", scores, member)
    table = {"file": str(file), "score": "loss", "member": "in"}
    claims = [{"name": "a", "epsilon": 1.0, "delta": 1e-2}]
    one = read_setting("one", {"one_run": {**table, "claims": claims, "canaries": "independent"}})
    read, coins = one.one_run.draw(0)  # type: ignore[attr-defined]
    assert np.array_equal(read, scores)
    assert np.array_equal(coins, member)
    own = read_setting("own", {"own": table, "claims": claims})
    x, x_prime = own.own.draw(0)  # type: ignore[attr-defined]
    assert np.array_equal(x, scores[member])
    assert np.array_equal(x_prime, scores[~member])
    assert own.own.described == f"'loss' by 'in' of {file}"  # type: ignore[attr-defined]
    for setting in (one, own):
        assert read_setting(setting.name, setting.to_plain()) == setting
    with pytest.raises(ValueError, match="or file, score and member, got file, score"):
        read_setting("own", {"own": {"file": "a", "score": "b"}, "claims": claims})

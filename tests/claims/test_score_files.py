"""Claims about samples: recorded scores are the evidence, at the confidence of the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from audit.claims import formats
from audit.claims.claim import Claim, Samples, statement_of
from audit.claims.evidence import Evidence, Verdict
from audit.claims.judge import judge
from audit.curves import GaussianCurve, Order

from .written import checked

EPSILON = GaussianCurve(1.0).epsilon(1e-2)


def written(folder: Path, rng: np.random.Generator, count: int = 3000) -> None:
    np.save(folder / "with.npy", rng.normal(1.0, 1.0, count))
    lines = "\n".join(map(repr, rng.normal(0.0, 1.0, count).tolist()))
    (folder / "without.csv").write_text(f"score\n{lines}\n", encoding="utf-8")


def test_in_a_file(tmp_path: Path) -> None:
    written(tmp_path, np.random.default_rng(3))
    inline = [1] * 24
    found = checked(
        tmp_path,
        f"""
        defaults: {{samples: {{x: with.npy, x_prime: without.csv}}}}
        claims:
          - {{id: as_it_is, epsilon: {EPSILON}, delta: 1e-2}}
          - {{id: half, epsilon: {EPSILON / 2}, delta: 1e-2, expected: refuted}}
          - {{id: directed, epsilon: {EPSILON / 2}, delta: 1e-2, expected: refuted,
              samples: {{x: with.npy, x_prime: without.csv, favours: forward}}}}
          - {{id: reversed, epsilon: {EPSILON / 2}, delta: 1e-2, expected: inconclusive,
              samples: {{x: with.npy, x_prime: without.csv, favours: reverse}}}}
          - {{id: leaks, not_private: {{epsilon: {EPSILON / 2}, delta: 1e-2}}}}
          - {{id: leaks_more, not_private: {{epsilon: 9, delta: 1e-2}}, expected: inconclusive}}
          - {{id: mu, mu: 1.0}}
          - {{id: pure, epsilon: .1, delta: 0, expected: refuted}}
          - {{id: laws, laws: {{laplace: {{sensitivity: 1, scale: 1}}}}, epsilon: 1, delta: 0}}
          - {{id: inline, samples: {{x: {inline}, x_prime: {inline}}}, epsilon: 1, delta: 0,
              expected: inconclusive}}
        """,
    )
    assert found.complaints == ()
    assert [j.as_expected for j in found.judgements] == [True] * 10
    shares = [j.error for j in found.judgements]
    assert shares == pytest.approx([0.01 / 9] * 8 + [0.0, 0.01 / 9])
    assert found.judgements[9].message.startswith("all scores are equal")
    refuted = found.judgements[1]
    assert refuted.evidence is Evidence.SAMPLED
    assert refuted.witness is not None
    assert refuted.witness.samples is not None
    assert "the samples exceed it at confidence 0.99" in refuted.message
    entry = json.loads(formats.write(found, formats.Format.JSON))["claims"][1]
    assert entry["samples"]["x"].endswith("with.npy")
    assert entry["seed"] == 0
    for form in formats.Format:
        assert "directed" in formats.write(found, form)


def test_bad_samples_are_one_line(tmp_path: Path) -> None:
    """Files that cannot be read have tests of their own, in `tests/adapters`."""
    written(tmp_path, np.random.default_rng(1), 30)
    (tmp_path / "uneven.csv").write_text("a,b\n1,2\n3\n")
    for name, message in (
        ("none.npy", "samples: x must be readable, got"),
        ("uneven.csv", "line 3 must hold as many numbers as those"),
    ):
        samples = f"{{x: {name}, x_prime: without.csv}}"
        text = f"claims: [{{id: x, epsilon: 1, delta: .1, samples: {samples}}}]"
        (complaint,) = checked(tmp_path, text).complaints
        assert message in complaint.message
        assert "\n" not in complaint.message


def test_scores_that_repeat_are_named(tmp_path: Path) -> None:
    """Files with each row twice refute true claims: 19 of 40 with each four times."""
    rng = np.random.default_rng(1)
    once, labels = rng.normal(size=400), rng.integers(0, 2, 400)
    for name, scores in (("once", once), ("twice", np.tile(once, 2)), ("labels", labels)):
        np.save(tmp_path / f"{name}.npy", scores)
    claim = "epsilon: 1, delta: 0.01, samples: {x: %s.npy, x_prime: once.npy}"
    text = "".join(f"- {{id: {name}, {claim % name}}}\n" for name in ("once", "twice", "labels"))
    told = ["of a side distinct" in j.pair
            for j in checked(tmp_path, f"claims:\n{text}").judgements]  # fmt: skip
    assert told == [False, True, False]


@pytest.mark.slow  # tests/estimation/test_coverage.py repeats each estimator
def test_true_claims_are_refuted_no_more_often_than_allowed() -> None:
    """At error .2, 60 audits of the true epsilon: more than 24 have probability 1e-4 at most."""
    rng = np.random.default_rng(7)
    statement = statement_of(epsilon=EPSILON, delta=1e-2)
    refuted = 0
    for _ in range(60):
        samples = Samples(x=tuple(rng.normal(1, 1, 200)), x_prime=tuple(rng.normal(0, 1, 200)),
                          favours=Order.FORWARD)  # fmt: skip
        claim = Claim(id="x", mechanism=None, statement=statement, samples=samples)
        refuted += judge(claim, error=0.2).verdict is Verdict.REFUTED
    assert refuted <= 24


def test_a_pair_that_differs_in_two_records_refutes_a_claim_about_one(tmp_path: Path) -> None:
    """One record is 1-GDP and two are 2-GDP: claims below the record's epsilon are refuted."""
    rng = np.random.default_rng(11)
    np.save(tmp_path / "with.npy", rng.normal(2.0, 1.0, 50_000))
    np.save(tmp_path / "without.npy", rng.normal(0.0, 1.0, 50_000))
    files = "x: with.npy, x_prime: without.npy, favours: forward"
    laplace = rng.laplace(2.0, 1.0, 50_000), rng.laplace(0.0, 1.0, 50_000)
    for name, values in zip(("pure.npy", "pure0.npy"), laplace, strict=True):
        np.save(tmp_path / name, values)
    pure = "x: pure.npy, x_prime: pure0.npy, group_size: 2"
    found = checked(
        tmp_path,
        f"""
        defaults: {{samples: {{{files}, group_size: 2}}}}
        claims:
          - {{id: sound, epsilon: {EPSILON}, delta: 1e-2}}
          - {{id: lie, epsilon: {0.6 * EPSILON}, delta: 1e-2, expected: refuted}}
          - {{id: planted, epsilon: {EPSILON}, delta: 1e-2, expected: refuted,
              samples: {{{files}}}}}
          - {{id: mu, mu: 1.0}}
          - {{id: less, mu: 0.9, expected: refuted}}
          - {{id: pure, epsilon: 1.0, delta: 0, samples: {{{pure}}}}}
          - {{id: half, epsilon: 0.8, delta: 0, samples: {{{pure}}}, expected: refuted}}
        """,
    )
    assert found.complaints == ()
    assert [j.as_expected for j in found.judgements] == [True] * 7
    lie = found.judgements[1]
    assert lie.pair == "samples of 50000 and 50000 scores that differ in 2 records"
    assert "epsilon of one record at least" in lie.message
    assert "from a pair that differs in 2 records" in lie.message
    (_, entry, *_) = json.loads(formats.write(found, formats.Format.JSON))["claims"]
    assert entry["samples"]["group_size"] == 2


def test_divergences_of_groups_are_refused(tmp_path: Path) -> None:
    written(tmp_path, np.random.default_rng(1), 100)
    found = checked(
        tmp_path,
        """
        defaults: {samples: {x: with.npy, x_prime: without.csv, group_size: 2}}
        claims:
          - {id: renyi, renyi: {2: 0.1}}
          - {id: tradeoff, tradeoff: {0.1: 0.5}}
        """,
    )
    assert [j.verdict for j in found.judgements] == [Verdict.ERROR] * 2
    for judgement, name in zip(found.judgements, ("Renyi divergence", "1 - beta"), strict=True):
        told = f"samples: group_size must be 1 for a claim about the {name}, got 2"
        assert judgement.message == told


def test_columns_of_two_files(tmp_path: Path) -> None:
    """Only the second column tells the laws apart; the wrong one refutes nothing."""
    rng = np.random.default_rng(5)
    rows, others = (rng.normal((0.0, shift, 0.0), 1.0, (4000, 3)) for shift in (1.0, 0.0))
    np.save(tmp_path / "rows.npy", rows)
    lines = [",".join(map(repr, row)) for row in others.tolist()]
    (tmp_path / "others.csv").write_text("\n".join(["a,b,c", *lines]))
    files = "x: rows.npy, x_prime: others.csv"
    given = "kind: WeightedColumns, weights"
    found = checked(
        tmp_path,
        f"""
        claims:
          - {{id: sound, epsilon: {EPSILON}, delta: 1e-2, samples: {{{files}}}}}
          - {{id: linear, epsilon: {EPSILON / 2}, delta: 1e-2, expected: refuted,
              samples: {{{files}}}}}
          - {{id: best, epsilon: {EPSILON / 2}, delta: 1e-2, expected: refuted,
              samples: {{{files}, columns: {{kind: BestColumn, fraction: 0.1}}}}}}
          - {{id: known, epsilon: {EPSILON / 2}, delta: 1e-2, expected: refuted,
              samples: {{{files}, columns: {{{given}: [0, 1, 0]}}}}}}
          - {{id: wrong, epsilon: {EPSILON / 2}, delta: 1e-2, expected: inconclusive,
              samples: {{{files}, columns: {{{given}: [1, 0, 0]}}}}}}
        """,
    )
    assert found.complaints == ()
    assert [j.as_expected for j in found.judgements] == [True] * 5
    best, known = found.judgements[2:4]
    assert (
        "3 columns by BestColumn (chosen with 400 and 400 rows, which certify nothing)"
        in best.message
    )
    assert "3 columns by WeightedColumns;" in known.message
    assert known.pair == "samples of 4000 and 4000 rows"

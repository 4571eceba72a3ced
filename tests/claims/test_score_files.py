"""Claims about samples: recorded scores are the evidence, at the confidence of the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from audit.claims import formats
from audit.claims.checking import Checked, check
from audit.claims.claim import Claim, EpsilonDelta, Samples
from audit.claims.judge import error_shares, judge
from audit.claims.judgement import Evidence, Verdict
from audit.curves import GaussianCurve, Order

EPSILON = GaussianCurve(1.0).epsilon(1e-2)


def written(folder: Path, rng: np.random.Generator, count: int = 3000) -> None:
    np.save(folder / "with.npy", rng.normal(1.0, 1.0, count))
    lines = "\n".join(map(repr, rng.normal(0.0, 1.0, count).tolist()))
    (folder / "without.csv").write_text(f"score\n{lines}\n", encoding="utf-8")


def checked(folder: Path, text: str, **options: object) -> Checked:
    file = folder / "samples.claims.yaml"
    file.write_text(text, encoding="utf-8")
    return check([file], error=0.01, **options)  # type: ignore[arg-type]


def test_in_a_file(tmp_path: Path) -> None:
    written(tmp_path, np.random.default_rng(3))
    inline = list(range(24))
    found = checked(
        tmp_path,
        f"""
        defaults: {{samples: {{x: with.npy, x_prime: without.csv}}}}
        claims:
          - {{id: as_it_is, epsilon: {EPSILON}, delta: 1e-2}}
          - {{id: half, epsilon: {EPSILON / 2}, delta: 1e-2, expected: refuted}}
          - {{id: directed, epsilon: {EPSILON / 2}, delta: 1e-2, expected: refuted,
              samples: {{x: with.npy, x_prime: without.csv, favours: forward}}}}
          - {{id: mu, mu: 1.0}}
          - {{id: pure, epsilon: .1, delta: 0, expected: refuted}}
          - {{id: laws, laws: {{laplace: {{sensitivity: 1, scale: 1}}}}, epsilon: 1, delta: 0}}
          - {{id: inline, samples: {{x: {inline}, x_prime: {inline}}}, epsilon: 1, delta: 0}}
        """,
    )
    assert found.complaints == ()
    assert [j.as_expected for j in found.judgements] == [True] * 7
    shares = [j.error for j in found.judgements]
    assert shares == pytest.approx([0.01 / 6] * 5 + [0.0, 0.01 / 6])
    refuted = found.judgements[1]
    assert refuted.evidence is Evidence.SAMPLED
    assert refuted.witness is None
    assert "the samples exceed it at confidence 0.99" in refuted.message
    entry = json.loads(formats.write(found, formats.Format.JSON))["claims"][1]
    assert entry["samples"]["x"].endswith("with.npy")
    assert entry["seed"] == 0
    for form in formats.Format:
        assert "directed" in formats.write(found, form)


def test_scores_that_cannot_refute_make_nothing_consistent(tmp_path: Path) -> None:
    apart = "{x: [1, 1, 1, 1, 1, 1], x_prime: [0, 0, 0, 0, 0, 0]%s}"
    found = checked(
        tmp_path,
        f"""
        claims:
          - {{id: few, samples: {apart % ""}, epsilon: 2, delta: 1e-2}}
          - {{id: reverse, samples: {apart % ", favours: reverse"}, epsilon: 2, delta: 1e-2}}
          - {{id: equal, samples: {{x: {[1] * 50}, x_prime: {[1] * 50}}}, epsilon: 1, delta: 1e-2}}
        """,
    )
    assert [j.verdict for j in found.judgements] == [Verdict.INCONCLUSIVE] * 3
    for judgement in found.judgements[:2]:
        assert judgement.message.startswith("so few scores cannot exceed it, whatever they are")
    assert found.judgements[2].message.startswith("all scores are equal")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{x: none.npy, x_prime: without.csv}", "samples.x must be a file that exists, got"),
        ("{x: [1, .nan, 2, 3], x_prime: [1, 2, 3, 4]}", "x must hold finite numbers only, got nan"),
        ("{x: words.csv, x_prime: without.csv}", "line 3 must be one number, got 'two'"),
        ("{x: pickle.npy, x_prime: without.csv}", "Object arrays cannot be loaded"),
        ("{x: two.npy, x_prime: without.csv}", "must be a non-empty one-dimensional array"),
        ("{x: with.npy}", "samples.x and x_prime must be given, or file, score"),
        ("{x: with.npy, x_prime: 3}", "samples.x_prime must be"),
        ("{x: [1], x_prime: [2]}, pair: TwoSidedWalk", "'samples' do not go with 'pair'"),
    ],
)
def test_bad_samples_are_one_line(tmp_path: Path, given: str, message: str) -> None:
    written(tmp_path, np.random.default_rng(1), 30)
    (tmp_path / "words.csv").write_text("score\n1\ntwo\n")
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "two.npy", np.zeros((2, 2)))
    found = checked(tmp_path, f"claims: [{{id: x, epsilon: 1, delta: .1, samples: {given}}}]")
    (complaint,) = found.complaints
    assert message in complaint.message
    assert "\n" not in complaint.message


def test_true_claims_are_refuted_no_more_often_than_allowed() -> None:
    """At error .2, 120 audits of the true epsilon: more than 40 have probability 1e-4 at most."""
    rng = np.random.default_rng(7)
    statement = EpsilonDelta(((EPSILON, 1e-2),))
    refuted = 0
    for _ in range(120):
        samples = Samples(x=tuple(rng.normal(1, 1, 200)), x_prime=tuple(rng.normal(0, 1, 200)),
                          favours=Order.FORWARD)  # fmt: skip
        claim = Claim(id="x", mechanism=None, statement=statement, samples=samples)
        refuted += judge(claim, error=0.2).verdict is Verdict.REFUTED
    assert refuted <= 40


def test_shares_count_claims_with_samples() -> None:
    statement = EpsilonDelta(((1.0, 1e-2),))
    scores = Samples(x=(1.0, 2.0), x_prime=(0.0, 1.0))
    sampled = Claim(id="x", mechanism=None, statement=statement, samples=scores)
    other = Claim(id="y", mechanism=None, statement=statement)
    assert error_shares([sampled, other, sampled], 0.1) == (0.05,) * 3

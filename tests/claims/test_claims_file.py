"""Claims files: what every form becomes, and one line with file and line number for what is bad."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path
from typing import Any

import pytest

from audit import Batching, Relation
from audit.claims import claim as c
from audit.claims.claim import Asked, Numbers, NumberSource, Statement, statement_of
from audit.claims.claims_file import load
from audit.constructions import ResetWalk
from audit.curves.quantities import (
    ClaimedNumber,
    EpsilonAtDelta,
    Mu,
    PowerAtAlpha,
    RenyiAtOrder,
    TotalVariation,
)
from tests.mechanisms import noisy_sgd

from .written import HEAD_LINES, ONE_STEP, STEP, write

EXAMPLE = Path(__file__).parents[2] / "scenarios" / "claims" / "example.claims.yaml"


def only(folder: Path, body: str) -> c.Claim:
    loaded = load([write(folder, "- id: x\n" + textwrap.indent(textwrap.dedent(body), "  "))])
    assert loaded.complaints == ()
    (claim,) = loaded.claims
    return claim


def numbers(*claimed: ClaimedNumber, exceeded: bool = False) -> Numbers:
    return Numbers(claimed, exceeded)


def asked(source: str, name: str, **given: Any) -> Asked:
    return Asked(NumberSource(source), name, **given)


AT, ALSO = EpsilonAtDelta(1e-5), EpsilonAtDelta(1e-3)
BOUND = "bound: at22.b_2\ndeltas: [1e-5]\norders: [4]"
OPTIONS = "bound: fmtt18.theorem_23\noptions: {index: 3}\ndeltas: [1e-5]"
INDEX = {"deltas": (1e-5,), "options": {"index": 3}}
POINTS = "points: [{epsilon: 1, delta: 1e-5}, {delta: 1.0E-3, epsilon: .5}]"
RENYI = ClaimedNumber(RenyiAtOrder(1.5), 0.25), ClaimedNumber(RenyiAtOrder(8.0), 1.0)
HUNDREDTH = ClaimedNumber(RenyiAtOrder(100.0), 0.0056)


@pytest.mark.parametrize(
    ("body", "statement"),
    [
        ("epsilon: 1\ndelta: 1e-5", numbers(ClaimedNumber(AT, 1.0))),
        (POINTS, numbers(ClaimedNumber(AT, 1.0), ClaimedNumber(ALSO, 0.5))),
        ("renyi: {8: 1.0, 1.5: .25}", numbers(*RENYI)),
        ("mu: 0.5", numbers(ClaimedNumber(Mu(), 0.5))),
        ("total_variation: .3", numbers(ClaimedNumber(TotalVariation(), 0.3))),
        ("tradeoff: {0.05: 0.8}", numbers(ClaimedNumber(PowerAtAlpha(0.05), 1 - 0.8))),
        (BOUND, asked("bound", "at22.b_2", deltas=(1e-5,), orders=(4.0,))),
        (OPTIONS, asked("bound", "fmtt18.theorem_23", **INDEX)),
        ("callable: a.b:f\ndeltas: [1e-5, 1e-6]", asked("callable", "a.b:f", deltas=(1e-5, 1e-6))),
        ("callable: a.b:f\norders: [2, 8]", asked("callable", "a.b:f", orders=(2.0, 8.0))),
        ("not_renyi: {order: 100, value: .0056}", numbers(HUNDREDTH, exceeded=True)),
        ("not_private: {epsilon: 1, delta: 1e-5}", numbers(ClaimedNumber(AT, 1.0), exceeded=True)),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else None,
)
def test_every_form(body: str, statement: Statement, tmp_path: Path) -> None:
    claim = only(tmp_path, body)
    assert claim.statement == statement
    assert repr(claim.statement) == repr(statement)  # whole options stay whole
    assert claim.location == c.Location(tmp_path / "my.claims.yaml", HEAD_LINES + 1)
    assert claim.mechanism == STEP


def test_what_goes_beside_the_statement(tmp_path: Path) -> None:
    claim = only(
        tmp_path,
        """\
        citation: Somebody (2024)
        mechanism:
          base: one_step
          steps: 2.0
          dataset_size: 4
          batch_size: 2
          step_size: [1, 0.5]
          batching: without replacement
          relation: ZERO_OUT
          smoothness: 1
          holder: null
        mu: 1
        expected: {loose_by: 1.5}
        severity: warn
        budget: {trials: 1e6, seconds: 2.5, seed: 7}
        pair: {kind: ResetWalk, curvature: 0.5, cap: 0.25}
        """,
    )
    assert claim == c.Claim(
        id="x",
        citation="Somebody (2024)",
        mechanism=noisy_sgd(
            steps=2,
            dataset_size=4,
            batch_size=2,
            step_size=(1.0, 0.5),
            noise_std=2.0,
            diameter=None,
            batching=Batching.WITHOUT_REPLACEMENT,
            relation=Relation.ZERO_OUT,
        ),
        statement=statement_of(mu=1.0),
        expected=c.LooseBy(1.5),
        severity=c.Severity.WARN,
        budget=c.Budget(trials=10**6, seconds=2.5, seed=7),
        pair=ResetWalk(claim.mechanism, curvature=0.5, cap=0.25),
        location=claim.location,
    )


def test_defaults_are_of_the_file_and_budgets_merge(tmp_path: Path) -> None:
    head = f"""\
defaults: {{mechanism: m, severity: warn, expected: not applicable, budget: {{seed: 5, trials: 9}}}}
mechanisms: {{m: {ONE_STEP}}}
claims:
"""
    claims = "- {id: x, mu: 1, budget: {trials: 3}}\n- {id: y, mu: 1, severity: error}"
    x, y = load([write(tmp_path, claims, head=head)]).claims
    assert x.budget == c.Budget(trials=3, seed=5)
    assert (x.severity, x.expected) == (c.Severity.WARN, c.Expected.NOT_APPLICABLE)
    assert (y.severity, y.budget.trials) == (c.Severity.ERROR, 9)


def test_aliases_of_aliases_in_a_pair_are_read_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    bomb = f"- {{id: x, mu: 1, pair: {{kind: Finite, first: {{{', '.join(lines)}}}, second: 1}}}}"
    (complaint,) = load([write(tmp_path, bomb)]).complaints
    assert "aliases must leave at most 1000000 values" in complaint.message


GOOD = "- {id: good, mu: 2}\n"
# each complaint beside its line
BAD = """\
- {id: x1, mu: 1,
   severty: warn}  # unknown key 'severty' in a claim; did you mean
- {id: x2, mu: many}  # mu must be a number, got 'many'
- {id: x3, mu: true}  # mu must be a number, got True
- {id: x4, mu: .nan}  # mu must be a finite number of at least 0, got nan
- {id: x5, mu: -1}  # mu must be a finite number of at least 0, got -1
- {id: x6, mu: [1]}  # mu must be a number, got [1]
- {id: x7, epsilon: 1}  # delta must be given for an epsilon, got nothing
- {id: x8, epsilon: 1,
   delta: 1}  # delta must be in [0, 1), got 1
- {id: x9, renyi: {1: 2}}  # renyi.1 must be a finite number above 1, got 1
- {id: x10, renyi: {}}  # renyi must be a mapping with at least one entry, got {}
- {id: x11, tradeoff: {.5: 2}}  # tradeoff.0.5 must be in [0, 1], got 2
- {id: x12}  # a claim needs one of epsilon, points, renyi, mu, tradeoff,
- {id: x13, mu: 1, renyi: {2: 1}}  # a claim must make one statement, got 'mu'
- {id: x14, mu: 1, deltas: [.1]}  # 'deltas' cannot be combined with 'mu'
- {id: good, mu: 1}  # duplicate id 'good', first used at
- {id: 'a b', mu: 1}  # id must be letters, digits, '.', '_' and '-', got 'a b'
- {mu: 1}  # a claim needs 'id'
- 3  # a claim must be a mapping, got 3
- {id: x19, mu: 1, expected: refutd}  # got 'refutd'; did you mean 'refuted'?
- {id: x20, mu: 1, expected: {loose_by: .5}}  # loose_by must be a number of at least 1
- {id: x21, mu: 1, severity: fatal}  # severity must be one of error, warn, got 'fatal'
- {id: x22, mu: 1, budget: {trials: -1}}  # trials must be a whole number of at least 0
- {id: x23, mu: 1, budget: {trials: 1.5}}  # trials must be a whole number, got 1.5
- {id: x24, mu: 1, budget: {time: 1}}  # budget.time must be left out of a Budget, got 1
- {id: x25, mu: 1, pair: {drift: 1}}  # pair.kind must be one of AllIterates, BiasedWalk
- {id: x26, mu: 1, pair: {kind: DriftedWalk,
   drift: far}}  # pair.drift must be a number, got 'far'
- {id: x27, mu: 1, pair: {kind: DriftedWalk,
   drift: 5, begin: 1}}  # pair.begin must be left out of a DriftedWalk, got 1
- {id: x28, mu: 1, pair: TwoSidedWlk}  # did you mean 'TwoSidedWalk'?
- {id: x29, mu: 1, pair: {kind: DriftedWalk, drift: 5}}  # needs another record
- {id: x30, mu: 1, pair: {kind: AuxiliaryWalk}}  # pair.kind must be one of
- {id: x31,
   mu: 1, pair: {kind: Mixtures,
   first: {weights: [1], means: [0], stds: [1]},
   second: {weights: [1], means: [0, 1], stds: [1]}}}  # must be one for each normal
- {id: x32, renyi: {2: 1,
   3: -1}}  # renyi.3 must be a finite number
- {id: x33, points: [{epsilon: 1, delta: .1},
   {epsilon: 1}]}  # points[1].delta
- {id: x34, mu: 1, mechanism: one_stp}  # unknown mechanism 'one_stp'; did you mean
- {id: x35, mu: 1, mechanism: {base: one_step,
   noise_std: 0}}  # noise_std must be a positive finite number, got 0.0
- {id: x36,
   mu: 1, mechanism: {base: one_step, dataset_size: 3}}  # for full batches, got 1
- {id: x37,
   mu: 1, mechanism: {steps: 1}}  # noise_std must be given for a NoisySGD
- {id: x38, mu: 1, mechanism: {base: one_step, steps: 1.5}}  # steps must be a whole
- {id: x39, mu: 1, mechanism: {base: one_step, step: 1}}  # did you mean 'steps'?
- {id: key, mu: 1, 3: 4}  # a key of a claim must be a word, got 3
- {id: base, mu: 1, mechanism: {base: 3}}  # base must be the name of a mechanism, got 3
- {id: x40,
   mu: 1, mechanism: {base: one_step, batching: half}}  # batching must be one of full, cyclic
- {id: x41, bound: at22.b_22, deltas: [.1]}  # unknown bound 'at22.b_22'; did you mean
- {id: x42, bound: at22.b_2,
   deltas: [2]}  # deltas[0] must be in [0, 1), got 2.0
- {id: x43, bound: at22.b_2, orders: [1]}  # orders[0] must be a finite number above 1
- {id: x44, bound: at22.b_2, orders: 2}  # orders must be a list, got 2
- {id: x45, callable: 'a:f', deltas: [1]}  # deltas[0] must be in [0, 1), got 1.0
- {id: x46, bound: at22.b_2}  # deltas or orders must be given for a bound, got neither
- {id: x47, bound: at22.b_2, deltas: [.1], options: {tau: 1}}  # unknown key 'tau' in options
- {id: x48, callable: os.system, deltas: [.1]}  # callable must be package.module:func
- {id: x49, callable: 'a:f'}  # deltas or orders must be given for a callable, got nei
- {id: x50,  # deltas or orders must be given for a callable, got both: it
   callable: 'a:f', deltas: [.1], orders: [2]}
- {id: x51, callable: 'a:f', orders: [1]}  # orders[0] must be a finite number above 1
- {id: x52, callable: 'a:f', deltas: []}  # deltas must be a list with at least one entry
- {id: x53, total_variation: 1.1}  # total_variation must be in [0, 1], got 1.1
- {id: search1, mu: 1, search: {evaluations: -1}}  # evaluations must be a whole number of at least
- {id: search2, mu: 1, search: {evaluations: many}}  # search.evaluations must be a whole number
- {id: search3, mu: 1, search: {}}  # search.evaluations must be given
- {id: search4, mu: 1, search: 5}  # search must be
- {id: law1, mu: 1, laws: {laplace: {sensitivity: 1, scale: 0}}}  # scale must be a positive finite
- {id: law2, mu: 1, laws: {laplace: {scale: 1}}}  # laws.sensitivity must be given for a Laplace
- {id: law3, mu: 1, laws: {laplce: {scale: 1}}}  # got 'laplce'; did you mean 'laplace'?
- {id: law4, mu: 1, laws: {laplace: {sensitivity: 1, scale: 1, time: 2}}}  # did you mean 'times'?
- {id: law5, mu: 1, laws: {laplace: 1}}  # laws.laplace must be a mapping of its fields, got 1
- {id: law6, mu: 1, laws: laplace}  # must be a mapping of one kind of laws to its fields, got 'lapl
- {id: law7, mu: 1, laws: {discrete gaussian: {sensitivity: 50, noise_std: 1}}}  # must be at least
- {id: law8, mu: 1, laws: {repeated: {times: 2}}}  # must be one of densities, discrete gaussian
- {id: law9, mu: 1, laws: {laplace: {scale: 1}}, pair: {kind: Finite}}  # cannot be combined with 'p
- {id: scores1, mu: 1, samples: {x: [1], x_prime: [2], group_size: 0}}  # samples.group_size must be
- {id: scores2, mu: 1, samples: {x: [1], x_prime: [2], columns: {kind: Best}}}  # samples.columns
- {id: scores3, mu: 1, samples: {x: a.npy}}  # samples.x and x_prime must be given, or file, score
- {id: scores4, mu: 1, samples: {x: a.npy, x_prime: 3}}  # samples.x_prime must be
- {id: scores5, mu: 1, samples: {x: a, x_prime: b}, pair: TwoSidedWalk}  # cannot be combined with '
- {id: scores6, mu: 1, samples: {}}  # samples.x and x_prime must be given
- {id: scores7, mu: 1, samples: {x: [1], x_prime: [2], score: a}}  # must be given
- {id: scores8, mu: 1, samples: {file: a.csv, score: a}}  # must be given
- {id: scores9, mu: 1, samples: {x: [a], x_prime: [1]}}  # must be
- {id: event1, mu: 1, mechanism: {event: a.f, dataset_size: 1, relation: add remove}}  # event must
- {id: event2, mu: 1, mechanism: {event: 'a:f', relation: add remove}}  # dataset_size must be given
- {id: event3, mu: 1, mechanism: {event: 'a:f', dataset_size: 1}}  # relation must be given
- {id: event4, mu: 1, mechanism: {event: 'a:f',
   dataset_size: 0, relation: add remove}}  # dataset_size must be a whole number of at least 1, got
- {id: event5, mu: 1, mechanism: {event: 'a:f', dataset_size: 1, relation: add remove,
   steps: 3}}  # unknown key 'steps' in a mechanism with 'event'
- {id: history, mu: 1,
   mechanism: {history: [], relation: add remove}}  # history must be a list with at least one entry
- {id: training1, mu: 1, mechanism: {training: t}}  # training must be package.module:function
- {id: training2, mu: 1, mechanism: {training: 'a:b',
   relation: zero out}}  # unknown key 'relation' in a mechanism with 'training'
- {id: accountant1, accountant: dp_accounting.pdl,  # or package.module:function, got 'dp_accounting
   deltas: [1e-5]}
- {id: accountant2, accountant: opacus.rdp}  # must be given for an accountant, got neither
"""
NOT_YAML = [
    ("- {id: x, mu: 1, mu: 2}", "key 'mu' is repeated"),
    ("- {id: x, mu: !!python/name:os.system 1}", "tags must be left out"),
    ("- {id: x, mu: 1", "not YAML:"),
    ("- &a {id: x, mu: *a}", "an alias must not be inside the value that it names"),
]


def test_what_is_bad_is_one_line_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + BAD)
    loaded = load([path])
    assert [claim.id for claim in loaded.claims] == ["good"]
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    expected = {n: line.partition("  # ")[2] for n, line in lines if "  # " in line}
    assert [wrong.line for wrong in loaded.complaints] == list(expected)
    for complaint in loaded.complaints:
        assert expected[complaint.line or 0] in complaint.message
        assert str(complaint) == f"{path}:{complaint.line}: {complaint.message}"
        assert "\n" not in complaint.message


@pytest.mark.parametrize(("claims", "message"), NOT_YAML)
def test_what_is_not_yaml_is_one_line(claims: str, message: str, tmp_path: Path) -> None:
    loaded = load([write(tmp_path, GOOD + claims)])
    (complaint,) = loaded.complaints
    assert (loaded.claims, complaint.line) == ((), HEAD_LINES + 2)
    assert message in complaint.message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file must be a mapping, got nothing"),
        ("- 1", 1, "the file must be a mapping, got a list"),
        ("defaults: {}", 1, "the file needs 'claims'"),
        ("claims: []", 1, "claims must be a list with at least one entry, got an empty list"),
        ("claims:\n  x: 1", 2, "claims must be a list with at least one entry, got a mapping"),
        ("include: none.yaml", 1, "include must be a file that exists, got 'none.yaml'"),
        ("include: [3]", 1, "include must be a text, got 3"),
        ("include: me.claims.yaml", 1, "include must not be circular, got me.claims.yaml ->"),
        ("a: 1\n--- \nb: 2", 2, "not YAML: expected a single document in the stream"),
        ("mechanisms: {a: {base: b}, b: {base: a}}", 1, "base must not be circular, got a -> b"),
        ("mechanisms: {a: {base: a}}", 1, "base must not be circular, got a -> a"),
        ("mechanisms: {a: {base: nobody}}", 1, "unknown mechanism 'nobody'"),
        (
            "mechanisms:\n  a: {steps: 1}",
            2,
            "dataset_size, batch_size, step_size, noise_std must be given for a NoisySGD",
        ),
        ("x: \x07", 1, "not YAML: "),
        ("[" * 1000, 1, "nested too deeply"),
        (f"mechanisms: {{a: {ONE_STEP}}}\nclaims:\n - id: 1", 3, "id must be letters, digits"),
    ],
)
def test_a_bad_file(text: str, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "me.claims.yaml"
    path.write_text(text)
    loaded = load([path])
    assert loaded.claims == ()
    (complaint,) = map(str, loaded.complaints)
    assert complaint.startswith(f"{path}:{line}: ")
    assert message in complaint


def test_all_complaints_are_told_in_the_order_of_the_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "- {id: x, my: 1, mi: 2}\n- {id: y, mu: z}\n" + GOOD)
    with path.open("a") as file:
        file.write("mechanism: 1\n")
    loaded = load([path])
    lines = [wrong.line for wrong in loaded.complaints]
    assert lines == [HEAD_LINES + 1, HEAD_LINES + 1, HEAD_LINES + 2, HEAD_LINES + 4]
    assert "did you mean 'mechanisms'?" in str(loaded.complaints[-1])
    assert [claim.id for claim in loaded.claims] == ["good"]


def test_all_that_is_wrong_with_a_claim_is_told_at_once(tmp_path: Path) -> None:
    """A misspelt key is told once: its claim is not said to lack a statement or a subject."""
    claims = """\
- id: x
  expected: {loose_by: .5}
  mechanism: {base: one_step,
              steps: 1.5,
              noise_std: much}
  budget: {trials: many,
           seed: -1}
  epsilon: 1
- {id: y, mechansim: one_step, epsilom: 1, severity: fatal}
- {id: z, mu: 1, pair: {kind: DriftedWalk,
                        drift: far, begin: 1}}
"""
    loaded = load([write(tmp_path, claims)])
    told = [(wrong.line or 0) - HEAD_LINES for wrong in loaded.complaints]
    assert loaded.claims == ()
    assert list(zip(told, (wrong.message for wrong in loaded.complaints), strict=True)) == [
        (1, "delta must be given for an epsilon, got nothing"),
        (2, "expected.loose_by must be a number of at least 1, got 0.5"),
        (4, "steps must be a whole number, got 1.5"),
        (5, "noise_std must be a number, got 'much'"),
        (6, "budget.trials must be a whole number, got 'many'"),
        (9, "unknown key 'mechansim' in a claim; did you mean 'mechanism'?"),
        (9, "unknown key 'epsilom' in a claim; did you mean 'epsilon'?"),
        (9, "severity must be one of error, warn, got 'fatal'"),
        (
            11,
            "pair.begin must be left out of a DriftedWalk, got 1; known are drift, start, position",
        ),
        (11, "pair.drift must be a number, got 'far'"),
    ]


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    common = f"mechanisms: {{m: {ONE_STEP}}}\n"
    (tmp_path / "parts" / "common.yaml").write_text(common)
    one = f"include: common.yaml\ndefaults: {{severity: warn}}\n{A}"
    (tmp_path / "parts" / "one.yaml").write_text(one)
    main = tmp_path / "main.claims.yaml"
    main.write_text(
        "include: [parts/one.yaml, parts/common.yaml]\n"
        "claims:\n  - {id: b, mechanism: m, mu: 1}\n  - {id: a, mechanism: m, mu: 1}\n"
    )
    loaded = load([main, tmp_path / "parts" / ".." / "parts" / "one.yaml"])
    assert [claim.id for claim in loaded.claims] == ["a", "b"]  # each file once
    first, second = loaded.claims
    assert first.location == c.Location(tmp_path / "parts" / "one.yaml", 3)
    assert (first.severity, second.severity) == (c.Severity.WARN, c.Severity.ERROR)
    assert len(loaded.files) == 3
    (complaint,) = loaded.complaints
    assert str(complaint) == f"{main}:4: duplicate id 'a', first used at {first.location}"


M = f"mechanisms:\n  m: {ONE_STEP}\n"
A = "claims: [{id: a, mechanism: m, mu: 1}]\n"
FINITE = "pair: {kind: Finite, first: [0.5, 0.5], second: [0.25, 0.75]}"
CIRCLE = "include must not be circular, got a.yaml -> b.yaml -> c.yaml -> a.yaml"
HIDES = f"include: b.yaml  # include must be a claims file, got 'b.yaml'\n{M}"
# the claims that a.yaml gives, and the texts of a.yaml, b.yaml, ...: each complaint at its line
FILES = {
    "no text": ("", "a: 1\nb: \xff  # must be UTF-8 text\n"),
    "numbers": (
        "x",
        f"claims:\n- {{id: x, mu: 1, {FINITE}}}\n"
        "- {id: y, mu: 1}  # a claim needs 'mechanism', 'laws' or 'samples'\n",
    ),
    "a pair of the defaults is wrong where it is used": (
        "x",
        f"{M}  n: {{base: m, dataset_size: 4, batch_size: 4}}\n"
        "defaults: {mechanism: m, pair: {kind: DriftedWalk, drift: 0.5}}\n"
        "claims:\n- {id: x, mechanism: n, mu: 1}\n- {id: y, mu: 1}  # pair: DriftedWalk needs\n",
    ),
    "a broken mechanism is told once": (
        "a",
        f"{M}  b: {{base: m, noise_std: -1}}  # noise_std must be a positive\n  c: {{base: b}}\n"
        "claims:\n- {id: a, mechanism: m, mu: 1}\n- {id: b, mechanism: b, mu: 1}\n"
        "- {id: c, mechanism: c, mu: 1}\n",
    ),
    "a circle and broken files": (
        "a",
        f"include: [b.yaml, d.yaml, e.yaml]\n{A}",
        "include: c.yaml\n",
        f"include: a.yaml  # {CIRCLE}\n{M}",
        "claims: {\nmu: 1]}  # not YAML\n",
        "\xff  # must be UTF-8 text\n",
    ),
    "a name that an include takes": (
        "",
        f"include: b.yaml\n{M[:-1]}  # mechanism 'm' is already defined in an included file\n"
        "claims: [{id: a, mu: 1}]  # a claim needs 'mechanism'\n",
        M,
    ),
    # nothing is quoted of a file that is no claims file
    "users": ("", HIDES, "root:x:0:0:root:/root:/bin\nhidden:x:1:1\n"),
    "secret": ("", HIDES, "kind: Secret\ndata: {hidden: aGlkZGVu}\n"),
    "key": ("", HIDES, "---BEGIN hidden---\n\thidden: [\n"),
    "word": ("", HIDES, "hidden"),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    ids, *texts = FILES[name]
    expected = {}
    for letter, text in zip("abcde", texts, strict=False):
        file = tmp_path / f"{letter}.yaml"
        file.write_bytes(text.encode("latin-1"))
        for number, line in enumerate(text.splitlines(), 1):
            if "  # " in line:
                expected[f"{file}:{number}"] = line.partition("  # ")[2]
    loaded = load([tmp_path / "a.yaml"])
    assert [claim.id for claim in loaded.claims] == list(ids)
    told = {f"{wrong.file}:{wrong.line}": wrong.message for wrong in loaded.complaints}
    assert told.keys() == expected.keys()
    assert len(told) == len(loaded.complaints)
    for place, message in told.items():
        assert message.startswith(expected[place])
        assert "hidden" not in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    loaded = load([tmp_path / "none", tmp_path])
    assert [str(wrong) for wrong in loaded.complaints] == [
        f"{tmp_path / 'none'}: cannot be read: No such file or directory",
        f"{tmp_path}: cannot be read: Is a directory",
    ]


def test_long_values_are_cut(tmp_path: Path) -> None:
    claims = f"""\
- {{id: digits, mu: -{"7" * 400}}}
- {{id: word, mechanism: {"x" * 400}, mu: 1}}
- {{id: key, {"y" * 400}: 1, mu: 1}}
"""
    for complaint in map(str, load([write(tmp_path, claims)]).complaints):
        assert "..." in complaint
        assert len(complaint.partition(":")[2]) < 400


SIGNS = ["", "[", "}", ":", "\n", "- ", "*a ", "&a ", "!x ", "'", "null", "é"]


def test_no_text_makes_the_reader_fall(tmp_path: Path) -> None:
    """Damaged copies of the example give claims or complaints, never anything else."""
    text, damage = EXAMPLE.read_text(encoding="utf-8"), random.Random(0)
    path = tmp_path / "damaged.claims.yaml"
    whole, broken = len(load([EXAMPLE]).claims), 0
    for _ in range(60):
        start = damage.randrange(len(text))
        middle = damage.choice(SIGNS)
        end = start + damage.randrange(12)
        path.write_text(text[:start] + middle + text[end:], encoding="utf-8")
        loaded = load([path])
        broken += bool(loaded.complaints)
        assert loaded.complaints or len(loaded.claims) == whole
    assert broken > 20

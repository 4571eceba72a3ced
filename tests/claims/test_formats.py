"""Every output format and the value lock, from judgements that are made up."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from audit import Order
from audit.claims import claim as c
from audit.claims import formats, lock
from audit.claims.claim import Asked, NumberSource, statement_of
from audit.claims.claims_file import InputError
from audit.claims.evidence import Evidence, Judgement
from audit.claims.formats import Format
from audit.claims.judge import Checked, complaint
from audit.claims.sources import claimed_numbers
from audit.curves.quantities import EpsilonAtDelta, Mu, PowerAtAlpha, RenyiAtOrder
from audit.isolation import Workers
from audit.results import Verdict

from .written import STEP as ONE_STEP

FILE = Path("some folder/a.claims.yaml")
TRUE = c.Claim(
    id="true",
    mechanism=ONE_STEP,
    statement=statement_of(epsilon=5.0, delta=1e-5),
    citation="Somebody (2024)",
    location=c.Location(FILE, 3),
)


def judged(verdict: Verdict = Verdict.CONSISTENT, **changes: object) -> Judgement:
    """A judgement of the claim above; keywords change it or the claim."""
    of_claim = {f.name for f in dataclasses.fields(c.Claim)}
    claim = dataclasses.replace(TRUE, **{k: v for k, v in changes.items() if k in of_claim})  # type: ignore[arg-type]
    shown: dict[str, object] = {
        "claimed": 5.0,
        "certified": 4.377,
        "quantity": EpsilonAtDelta(1e-5),
        "order": Order.FORWARD,
        "pair": "TwoSidedWalk",
        "evidence": Evidence.EXACT,
        "numbers": claimed_numbers(claim, Workers()),
        "message": "as it is",
        "seconds": 0.25,
        **{k: v for k, v in changes.items() if k not in of_claim},
    }
    return Judgement(claim=claim, verdict=verdict, **shown)  # type: ignore[arg-type]


HELD = judged()
REFUTED = judged(Verdict.REFUTED, id="x", claimed=1.0, certified=1.3103)
WARNED = judged(id="loose", expected=c.LooseBy(1.1), severity=c.Severity.WARN, error=0.004)
RAISED = judged(Verdict.ERROR, id="bad", message="f raised\nZeroDivisionError", claimed=None)
CHECKED = Checked(
    (HELD, REFUTED, WARNED, RAISED),
    (InputError(FILE, 9, "100%: a|b, c:\x07"), complaint(RAISED)),
    0.01,
    17,
)


EPSILON = "certified epsilon 4.37 <= claimed 5.00 at delta 1e-5"
CLOSE = judged(Verdict.REFUTED, claimed=1.0, certified=1.0000001)
NEAR = "certified epsilon 1.00 <= claimed 5.00 at delta 1e-5"
LEAKS = statement_of(not_private={"epsilon": 1.0, "delta": 1e-5})
LIE = "'true' refuted: certified"
ONE = {"statement": statement_of(mu=1.0), "quantity": Mu(), "claimed": 1.0, "certified": 2.0}
POWER = {"quantity": PowerAtAlpha(0.05), "claimed": 0.1}
UNKNOWN = judged(Verdict.INCONCLUSIVE, certified=None)
NOTHING = judged(Verdict.NOT_APPLICABLE, expected=c.LooseBy(2.0))
FOURTH = {"quantity": RenyiAtOrder(4.0), "claimed": 100.0, "certified": 200.0}


@pytest.mark.parametrize(
    ("judgement", "line"),
    [
        (REFUTED, "'x' refuted: certified epsilon 1.31 > claimed 1.00 at delta 1e-5"),
        (HELD, f"'true' consistent: {EPSILON}"),
        (WARNED, f"'loose' consistent but loose by 1.142, expected at most 1.1: {EPSILON}"),
        (judged(expected=c.Expected.REFUTED), f"'true' consistent, expected refuted: {EPSILON}"),
        (CLOSE, f"{LIE} epsilon 1.0000001 > claimed 1.0000000 at delta 1e-5"),
        (judged(Verdict.REFUTED, **ONE), f"{LIE} mu 2.00 > claimed 1.00"),
        (judged(Verdict.REFUTED, **FOURTH), f"{LIE} Renyi divergence 200 > claimed 100 at order 4"),
        (judged(Verdict.REFUTED, **POWER), f"{LIE} 1 - beta 4.37 > claimed 0.100 at alpha 0.05"),
        (UNKNOWN, "'true' inconclusive, expected consistent: as it is"),
        (NOTHING, "'true' not applicable, expected loose by at most 2: as it is"),
        (judged(Verdict.REFUTED, statement=LEAKS), "'true' refuted: as it is"),
        (
            judged(expected=c.LooseBy(4.999999), certified=1.0),
            f"'true' consistent but loose by 5.000000, expected at most 4.999999: {NEAR}",
        ),
    ],
)
def test_one_line_a_judgement(judgement: Judgement, line: str) -> None:
    assert str(judgement) == f"claim {line}"


def test_exit_status() -> None:
    for judgements, complaints, status in (
        ((HELD,), (), 0),
        ((HELD, WARNED), (), 0),
        ((HELD, REFUTED), (), 1),
        ((HELD, REFUTED), CHECKED.complaints, 2),
    ):
        assert Checked(judgements, complaints, 0.01).status == status


def test_text_states_everything() -> None:
    text = formats.write(CHECKED, Format.TEXT)
    table, _, below = text.partition("\n\n")
    head, *rows = table.splitlines()
    assert len(rows) == 4
    starts = [head.index(name) for name in ("claim ", "verdict")]
    assert [row[starts[0] : starts[1]].strip() for row in rows] == ["true", "x", "loose", "bad"]
    assert [row.split()[0] for row in rows] == ["ok", "FAIL", "warn", "broken"]
    assert "refuted (expected consistent)" in rows[1]
    shown = " ".join(rows[0].split())
    assert shown == "ok true consistent 5.00 4.37 1.142 delta 1e-5 TwoSidedWalk, exact"
    lines = below.splitlines()
    assert lines[0] == str(REFUTED)
    assert lines[1] == str(WARNED)
    assert lines[-1] == (
        "4 claims: 2 consistent, 1 refuted, 1 error; 1 as expected, 1 not, 1 warning, 2 complaints"
    )
    assert lines[2].startswith("error budget 0.01: ")
    assert "0.004 of it is spent" in lines[2]
    assert lines[3] == "all samples from seed 17"


@pytest.mark.parametrize(
    ("claimed", "certified", "shown"),
    [
        (5.0, 4.377, ("5.00", "4.37", "1.142")),
        (1.0, 1.0000001, ("1.0000000", "1.0000001", "0.9999999")),
        (1.000004, 1.000006, ("1.000004", "1.000006", "0.999998")),
        (2.00000001, 1.99999999, ("2.00001", "1.99999", "1.000")),
        (1.0, 1.0, ("1.00", "1.00", "1.000")),
        (0.0, 1e-300, ("0", "1.00e-300", "0.000")),
    ],
)
def test_rounding_does_not_contradict_a_verdict(
    claimed: float, certified: float, shown: tuple[str, ...]
) -> None:
    """What is certified is rounded down, and a claim up, as far as the verdict can be seen."""
    judgement = judged(Verdict.unless(certified > claimed), claimed=claimed, certified=certified)
    assert formats.cells(judgement)[3:6] == shown


def test_json_holds_the_numbers() -> None:
    read = json.loads(formats.write(CHECKED, Format.JSON))
    assert (read["status"], read["error"], read["seed"]) == (2, 0.01, 17)
    assert read["error_spent"] == 0.004
    assert [entry["id"] for entry in read["claims"]] == ["true", "x", "loose", "bad"]
    first = read["claims"][0]
    assert first["claimed"] == 5.0
    assert first["certified"] == 4.377
    assert first["tightness"] == 5.0 / 4.377
    assert (first["file"], first["line"]) == (str(FILE), 3)
    assert first["as_expected"] is True
    assert first["mechanism"]["noise_std"] == 2.0
    assert "convex" not in first["mechanism"]  # the default
    assert first["statement"] == {"epsilon": 5.0, "delta": 1e-5}
    assert read["complaints"][0] == {"file": str(FILE), "line": 9, "message": "100%: a|b, c:\x07"}
    nothing = Checked((judged(certified=0.0),), (), 0.01)
    (entry,) = json.loads(formats.write(nothing, Format.JSON))["claims"]
    assert entry["pairs_tried"] is entry["pairs_left"] is None
    tried = formats.write(Checked((judged(pairs_tried=3, pairs_left=2),), (), 0.01), Format.JSON)
    (shown,) = json.loads(tried)["claims"]
    assert (shown["pairs_tried"], shown["pairs_left"]) == (3, 2)
    assert entry["tightness"] is None  # JSON knows no infinity


def test_refutations_say_whether_they_are_verified() -> None:
    for verdict, shown in (
        (Verdict.REFUTED, "refuted, verified"),
        (Verdict.CONSISTENT, "consistent"),
    ):
        row = formats.cells(judged(verdict, verification="verified"))
        assert any(cell.startswith(shown) for cell in row)
        assert any("verified" in cell for cell in row) == (verdict is Verdict.REFUTED)


def test_junit() -> None:
    root = ElementTree.fromstring(formats.write(CHECKED, Format.JUNIT))
    (suite,) = root
    assert suite.attrib == {"name": str(FILE), "failures": "1", "errors": "2", "tests": "5"}
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == ["true", "x", "loose", "bad", "line 9"]
    assert [child.tag for child in cases["true"]] == ["properties"]
    facts = {p.get("name"): p.get("value") for p in cases["true"].iter("property")}
    assert facts["verdict"] == "consistent"
    assert facts["certified"] == "4.377"
    assert cases["true"].get("time") == "0.250"
    failure = cases["x"].find("failure")
    assert failure is not None
    assert failure.get("message") == str(REFUTED)
    assert "loose by" in str(cases["loose"].findtext("system-out"))
    wrong = cases["bad"].find("error")
    assert wrong is not None
    assert wrong.get("message") == f"{FILE}:3: claim 'bad': f raised ZeroDivisionError"
    unread = cases["line 9"].find("error")
    assert unread is not None
    assert unread.get("message") == f"{FILE}:9: 100%: a|b, c:?"  # XML has no bell


def test_github_marks_lines() -> None:
    lines = formats.write(CHECKED, Format.GITHUB).splitlines()
    marks = [line for line in lines if line.startswith("::")]
    assert marks[0] == (
        "::error file=some folder/a.claims.yaml,line=9,title=claims file::100%25: a|b, c:\x07"
    )
    assert marks[2] == (
        "::error file=some folder/a.claims.yaml,line=3,title=audit-check::"
        "claim 'x' refuted: certified epsilon 1.31 > claimed 1.00 at delta 1e-5"
    )
    assert marks[3].startswith("::warning file=")
    assert len(marks) == 4
    assert "error budget 0.01" in "\n".join(lines)


def test_github_encodes_what_would_end_a_command() -> None:
    place = c.Location(Path("a,b:c%.yaml"), 1)
    judgement = judged(Verdict.INCONCLUSIVE, location=place, message="two\nlines", certified=None)
    text = formats.write(Checked((judgement,), (), 0.01), Format.GITHUB)
    assert text.startswith("::error file=a%2Cb%3Ac%25.yaml,line=1,")
    assert "two%0Alines\n" in text


def test_markdown_is_a_table() -> None:
    lines = formats.write(CHECKED, Format.MARKDOWN).splitlines()
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in lines[:6]]
    assert bars == [len(formats.COLUMNS) + 1] * 6
    assert "a\\|b" in "\n".join(lines)
    odd = judged(Verdict.INCONCLUSIVE, message="$x$ __y__\n::z &lt; ~a~", certified=None)
    *_, told, _, _ = formats.write(Checked((odd,), (), 0.01), Format.MARKDOWN).splitlines()
    assert told.endswith(r": \$x\$ \_\_y\_\_ ::z \&lt; \~a\~")


@pytest.mark.parametrize("name", ["a\x01.claims.yaml", "a\udcff.claims.yaml"])
def test_junit_of_files_with_odd_names(name: str) -> None:
    odd = judged(location=c.Location(Path(name), 1))
    (suite,) = ElementTree.fromstring(formats.write(Checked((odd,), (), 0.01), Format.JUNIT))
    assert suite.get("name") == "a?.claims.yaml"


def test_what_a_claim_exceeds_is_no_upper_bound() -> None:
    page = judged(Verdict.INCONCLUSIVE, statement=LEAKS, claimed=9.0)._repr_html_()
    assert "≥ 4.3770" in page
    assert "9.0000" not in page


@pytest.mark.parametrize(
    ("claimed", "certified", "tightness"),
    [(3.0, 2.0, 1.5), (3.0, 0.0, float("inf")), (0.0, 0.0, None), (3.0, None, None)],
)
def test_tightness(claimed: float, certified: float | None, tightness: float | None) -> None:
    assert judged(claimed=claimed, certified=certified).tightness == tightness


def locked() -> lock.Lock:
    return lock.accept(lock.Lock(), lock.entries([HELD, REFUTED]), reason="new", date="2024-01-02")


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "claims.json"
    assert lock.read(path) == lock.Lock()
    for kept in (locked(), lock.Lock()):
        lock.write(path, kept)
        assert lock.read(path) == kept
    assert list(path.parent.iterdir()) == [path]


def test_a_bound_is_locked_at_each_of_its_places() -> None:
    statement = Asked(NumberSource.BOUND, "bsa24.theorem_4_1", deltas=(1e-5, 1e-3), orders=(4.0,))
    mechanism = dataclasses.replace(ONE_STEP, smoothness=1.0, diameter=1.0)
    judgement = judged(statement=statement, mechanism=mechanism)
    numbers = lock.entries([judgement])["true"].numbers
    assert list(numbers) == [
        "claimed epsilon at delta 1e-5",
        "claimed epsilon at delta 0.001",
        "claimed Renyi divergence at order 4",
        "certified epsilon at delta 1e-5",
    ]
    # one step, mu = 1: the divergence of order 4 is 4/2
    assert numbers["claimed Renyi divergence at order 4"] == pytest.approx(2.0, rel=1e-9)


CERTIFIED = "claim 'true': numbers, certified epsilon at delta"
LESS = statement_of(epsilon=5.1, delta=1e-5)
NOISIER = dataclasses.replace(ONE_STEP, noise_std=3.0)


@pytest.mark.parametrize(
    ("now", "lines"),
    [
        (HELD, ()),
        (judged(certified=4.377 * (1 + 1e-7)), ()),  # rounding
        (judged(certified=4.3771), (f"{CERTIFIED} 1e-5 was 4.377, now 4.3771",)),
        (
            judged(statement=LESS, claimed=5.1),
            (
                "claim 'true': statement, epsilon was 5.0, now 5.1",
                "claim 'true': numbers, claimed epsilon at delta 1e-5 was 5.0, now 5.1",
            ),
        ),
        (
            judged(quantity=EpsilonAtDelta(1e-3)),
            (
                f"{CERTIFIED} 1e-5 was 4.377, now nothing",
                f"{CERTIFIED} 0.001 was nothing, now 4.377",
            ),
        ),
        (judged(Verdict.ERROR), ("claim 'true': verdict was consistent, now error",)),
        (judged(mechanism=NOISIER), ("claim 'true': mechanism, noise_std was 2.0, now 3.0",)),
        (judged(id="other"), ("claim 'other' is new", "claim 'true' is gone")),
        (  # no rounding: it is written
            judged(statement=statement_of(epsilon=5.0 * (1 + 1e-9), delta=1e-5)),
            ("claim 'true': statement, epsilon was 5.0, now 5.000000005",),
        ),
    ],
)
def test_every_change_is_told(now: Judgement, lines: tuple[str, ...]) -> None:
    assert lock.changes(locked(), lock.entries([now, REFUTED])) == lines


@pytest.mark.parametrize(
    ("path", "was", "now"),
    [("mechanism, steps", 10**13, 10**13 + 1), ("statement, total_variation", 1e-14, 5e-14)],
)
def test_what_a_claim_is_about_changes_on_purpose(path: str, was: float, now: float) -> None:
    assert not lock._same(path, was, now)
    assert lock._same(path, was, was)
    assert lock._same("numbers, certified mu", float(was), float(now))


def test_reasons_are_kept() -> None:
    now = lock.entries([judged(certified=4.4), REFUTED])
    later = lock.accept(locked(), now, reason=" a sharper pair ", date="2024-02-03")
    assert lock.changes(later, now) == ()
    first, second = later.accepted
    assert first.reason == "new"
    assert first.changes == ("claim 'true' is new", "claim 'x' is new")
    assert (second.reason, second.date) == ("a sharper pair", "2024-02-03")
    assert len(second.changes) == 1
    with pytest.raises(ValueError, match="the reason to accept must be given, got '  '"):
        lock.accept(locked(), now, reason="  ", date="2024-02-03")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a lock file"),
        ("[]", "not a lock file"),
        ("{}", "format must be 2, got None"),
        ('{"format": 1}', "format must be 2, got 1"),
        ('{"format": 2, "claims": 3, "accepted": []}', "claims must be a mapping, got 3"),
        (
            '{"format": 2, "claims": {"x": {"verdict": "luck"}}, "accepted": []}',
            "claims.x.mechanism, statement, pair, numbers must be given for a LockedClaim, got no",
        ),
    ],
)
def test_a_file_that_is_no_lock(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        lock.read(path)


def test_a_folder_is_no_lock(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^.*: cannot be read: Is a directory$"):
        lock.read(tmp_path)
    with pytest.raises(ValueError, match=r"^.*: cannot be written: "):
        lock.write(tmp_path, lock.Lock())


def test_infinity_is_kept(tmp_path: Path) -> None:
    endless = judged(statement=statement_of(mu=1.0), quantity=Mu(), certified=float("inf"))
    kept = lock.Lock(lock.entries([endless]))
    lock.write(tmp_path / "claims.json", kept)
    text = (tmp_path / "claims.json").read_text()
    assert json.loads(text)["claims"]["true"]["numbers"]["certified mu"] == "inf"
    assert lock.changes(lock.read(tmp_path / "claims.json"), lock.entries([endless])) == ()


def test_what_nothing_certifies_has_no_certified_number() -> None:
    assert list(lock.entries([UNKNOWN])["true"].numbers) == ["claimed epsilon at delta 1e-5"]

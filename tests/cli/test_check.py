"""The ``audit-check`` command, in this process unless a test needs a separate one."""

from __future__ import annotations

import functools
import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from audit.claims import Expected, Verdict, check_file
from audit.cli import check as check_command
from tests.claims.written import EPSILON, HEAD_LINES, environment, write
from tests.ended import Command, Ended

GOOD = "- {id: good, epsilon: 4.4, delta: 1e-5}\n"
FALSE = "- {id: lie, epsilon: 4.3, delta: 1e-5}\n"


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def test_the_number_of_these_tests() -> None:
    def excess(epsilon: float) -> float:
        lost = norm.cdf(0.5 - epsilon) - math.exp(epsilon) * norm.cdf(-0.5 - epsilon)
        return float(lost) - 1e-5

    assert brentq(excess, 1, 10) == pytest.approx(EPSILON, abs=1e-6)


@pytest.fixture
def checked(ended: Command) -> Command:
    """Run the command in this process."""
    return functools.partial(ended, check_command.run)


def test_all_as_expected(tmp_path: Path, checked: Command) -> None:
    expected = GOOD + FALSE.replace("}", ", expected: refuted}")
    doubtful = FALSE.replace("lie", "doubtful").replace("}", ", severity: warn}")  # does not fail
    shown = checked(write(tmp_path, expected + doubtful))
    assert shown.status == 0
    assert "3 claims: 1 consistent, 2 refuted; 2 as expected, 0 not, 1 warning" in shown.out
    assert "claim 'doubtful' refuted" in shown.out
    assert "error budget 0.01: " in shown.out
    assert shown.err == ""  # no progress bars where there is no terminal


CALLABLES = """\
import math
import re

def right(mechanism, delta):
    return 4.5 * mechanism.lipschitz

def raises(mechanism, delta):
    return 1 / 0

def nothing_known(mechanism, delta):
    return math.nan

def words(mechanism, delta):
    return "four"

def talks(mechanism, delta):
    print("looking it up")
    return 4.5

def ends(mechanism, delta):
    raise SystemExit(0)

def hangs(mechanism, delta):
    while True:
        pass

def eats(mechanism, delta):
    taken = []
    while True:
        taken.append(b"x" * 10**7)
"""


BROKEN = {
    "{id: i, mu: 1, sevrity: warn}": "unknown key 'sevrity'",
    "{id: j, mu: one}": "mu must be a number, got 'one'",
    "{id: good, mu: 1}": "duplicate id 'good', first used at",
    "{id: a, mechanism: {base: one_step, noise_std: -1}, mu: 1}": "noise_std must be a",
    "{id: b, callable: 'my_calls:raises', deltas: [1e-5]}": "ZeroDivisionError",
    "{id: c, callable: 'my_calls:nothing_known', deltas: [1e-5]}": "nan",
    "{id: d, callable: 'my_calls:words', deltas: [1e-5]}": "four",
    "{id: e, callable: 'my_calls:absent', deltas: [1e-5]}": "absent",
    "{id: f, callable: 'not_there:f', deltas: [1e-5]}": "not_there",
    "{id: g, callable: 'my_calls:ends', deltas: [1e-5]}": "SystemExit",
    "{id: h, mu: 1, pair: SideWalk}": "SideWalk",
    "{id: k, callable: 'my_calls:hangs', deltas: [1e-5], budget: {callable_seconds: 0.7}}": (
        "my_calls:hangs took longer than its limit of 0.7 s"
    ),
    "{id: l, callable: 'my_calls:eats', deltas: [1e-5], budget: {callable_gigabytes: 0.3}}": (
        "of memory, more than its limit of 0.3 GB"
    ),
}


def test_a_broken_claim_is_one_line_and_the_others_are_judged(
    tmp_path: Path, checked: Command
) -> None:
    (tmp_path / "my_calls.py").write_text(CALLABLES)
    right = "- {id: right, callable: 'my_calls:right', deltas: [1e-5]}\n"
    path = write(tmp_path, GOOD + right + "".join(f"- {bad}\n" for bad in BROKEN))
    shown = checked(path)
    assert shown.status == 2
    told = {
        line.removeprefix(f"{path}:").partition(": ")[0]: line for line in shown.err.splitlines()
    }
    assert len(told) == len(shown.err.splitlines()) == len(BROKEN)
    for number, message in enumerate(BROKEN.values(), HEAD_LINES + 3):
        assert message in told[str(number)]
    rows = [row.split() for row in shown.out.splitlines()]
    assert ["ok", "good", "consistent"] in [row[:3] for row in rows]
    assert ["ok", "right", "consistent"] in [row[:3] for row in rows]


def test_what_a_callable_prints_is_no_outcome(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_calls.py").write_text(CALLABLES)
    path = write(tmp_path, "- {id: x, callable: 'my_calls:talks', deltas: [1e-5]}\n")
    assert check_command.run([str(path), "--format", "json"]) == 0
    shown = capfd.readouterr()
    assert json.loads(shown.out)["status"] == 0
    assert shown.err == ("looking it up\n1 claim: 1 consistent; 1 as expected, 0 not, 0 warnings\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--error", "1"], "error must be in (0, 1), got 1.0"),
        (["--jobs", "0"], "jobs must be a whole number of at least 1, got 0"),
        (["--output", "folder"], "--output must be a file that can be written, got"),
        (["--witnesses", "my.claims.yaml"], "my.claims.yaml: cannot be written: File exists"),
        (["--lock", "my.claims.yaml"], "my.claims.yaml: not a lock file"),
    ],
)
def test_bad_values(words: list[str], message: str, tmp_path: Path, checked: Command) -> None:
    (tmp_path / "folder").mkdir()
    shown = checked(write(tmp_path, GOOD), *words)
    (line,) = shown.err.splitlines()
    assert shown.status == 2
    assert message in line


def test_formats_go_to_files(tmp_path: Path, checked: Command) -> None:
    path = write(tmp_path, GOOD + FALSE)
    shown = checked(path, "--format", "json", "--output", tmp_path / "o.json", "--jobs", 2)
    assert (shown.status, shown.out) == (1, "")
    good, false = json.loads((tmp_path / "o.json").read_text())["claims"]
    assert [good["verdict"], false["verdict"]] == ["consistent", "refuted"]
    assert good["certified"] == pytest.approx(EPSILON, abs=1e-6)


@pytest.mark.parametrize("width", [120, 50])
def test_a_terminal_gets_lines_that_fit(
    width: int, tmp_path: Path, checked: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    done = checked(write(tmp_path, GOOD + FALSE))
    assert done.status == 1
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.out)  # without colours
    assert max(map(len, shown.splitlines())) <= width
    assert bool(re.search(r"^ +claim +verdict +claimed", shown)) == (width == 120)
    assert re.search(r"FAIL  lie:? +refuted", shown)
    told = "claim 'lie' refuted: certified epsilon 4.37 > claimed 4.30 at delta 1e-5"
    assert told in " ".join(shown.split())


def test_github_appends_to_the_summary(
    tmp_path: Path, checked: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    for place, status in ((page, 1), (page / "none", 2)):  # where it cannot be, all is told anyway
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place))
        shown = checked(write(tmp_path, FALSE), "--format", "github")
        assert shown.status == status
        assert shown.out.startswith("::error file=")
    assert page.read_text().startswith("before\n|  | claim |")


def test_no_output_replaces_what_is_read(tmp_path: Path, checked: Command) -> None:
    path, lock = write(tmp_path, GOOD), tmp_path / "lock.json"
    before = path.read_text()
    for words in ((path, "--output", path), ("lock", lock, path, "--output", lock)):
        shown = checked(*words)
        assert shown.status == 2
        assert "--output must be no file that is read, got" in shown.err
    assert path.read_text() == before
    assert not lock.exists()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("a.claims.yaml 2>&-", 0),
        ("a.claims.yaml >/dev/full", 2),
    ],
)
def test_closed_and_full_outputs(words: str, status: int, tmp_path: Path) -> None:
    write(tmp_path, GOOD).rename("a.claims.yaml")
    command = f"{sys.executable} -m audit.cli.check --format json {words}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment())
    assert done.returncode == status
    assert status or json.loads(done.stdout)["status"] == 0
    assert "Traceback" not in done.stderr
    assert ("No space left on device" in done.stderr) == ("full" in words)


def test_seeds(tmp_path: Path, checked: Command) -> None:
    path = write(tmp_path, GOOD)
    seeds = []
    for words in (["--fresh-seed"], ["--fresh-seed"], ["--seed", "5"], []):
        done = checked(path, "--format", "json", *words)
        assert done.status == 0
        read = json.loads(done.out)
        seeds.append((read["seed"], read["claims"][0]["seed"]))
    assert seeds[0][0] == seeds[0][1] != seeds[1][0]
    assert seeds[2:] == [(5, 5), (None, 0)]


def test_a_file_without_claims_is_refused(tmp_path: Path, checked: Command) -> None:
    path = write(tmp_path, "")
    path.write_text(path.read_text().replace("claims:\n", ""))
    assert checked(path) == Ended(2, "", f"{path}: claims must be given, got none\n")


def test_witnesses_are_those_of_the_last_check(tmp_path: Path, checked: Command) -> None:
    """That of a mended claim goes; one that cannot be written keeps no other from being so."""
    words = ("--witnesses", "w", "--no-verify")
    long = FALSE.replace("lie", "l" * 260)
    shown = checked(write(tmp_path, long + FALSE), *words)
    assert shown.status == 2
    assert "w: cannot be written: File name too long" in shown.err
    assert [file.name for file in (tmp_path / "w").iterdir()] == ["lie.witness.json"]
    assert checked(write(tmp_path, FALSE.replace("4.3", "4.5")), *words).status == 0
    assert not list((tmp_path / "w").iterdir())


def test_witnesses(tmp_path: Path, checked: Command) -> None:
    folder = tmp_path / "found"
    false = "- {id: lie, epsilon: 1, delta: 1e-2}\n"
    assert checked(write(tmp_path, GOOD + false), "--witnesses", folder).status == 1
    (file,) = folder.iterdir()
    assert file.name == "lie.witness.json"
    pytest.importorskip("flint")
    absent = "absent: not a witness file (file must be readable: No such file or directory)\n"
    for words, status in (
        (("--witness", file), 0),
        (("verify", file), 0),
        (("verify", tmp_path / "absent", file), 2),  # the others are verified anyway
    ):
        shown = checked(*words)
        assert (shown.status, shown.err.endswith(absent)) == (status, status == 2)
        assert shown.out.startswith(f"{file}: refuted: ")
    witness = json.loads(file.read_text())
    # a planted error: not refuted
    file.write_text(json.dumps({**witness, "claimed": 4.5, "bracket": [0, None]}))
    assert checked("--witness", file).status == 1
    file.write_text("{}")
    broken = checked("--witness", file)
    assert broken.status == 2
    assert broken.error.startswith(f"{file}: not a witness file (")


def test_the_lock(tmp_path: Path, checked: Command) -> None:
    path, kept = write(tmp_path, GOOD), tmp_path / "results" / "claims.json"

    def locked(*words: str) -> tuple[int, str]:
        done = checked("lock", kept, path, *words)
        return done.status, done.err

    status, told = locked()
    assert status == 1
    assert told.splitlines()[0] == f"{kept}: claim 'good' is new"
    assert "--accept REASON" in told
    assert not kept.exists()
    assert locked("--accept", "first numbers")[0] == 0
    assert locked() == (0, "")
    write(tmp_path, GOOD.replace("4.4", "4.5"))
    status, told = locked()
    assert status == 1
    assert "claimed epsilon at delta 1e-5 was 4.4, now 4.5" in told
    write(tmp_path, GOOD.replace("4.4", "4.5") + "- {id: bad}\n")
    before = kept.read_text()
    status, told = locked("--accept", "hurry")
    assert status == 2
    assert "nothing was accepted, because a claim or a file is broken" in told
    assert kept.read_text() == before
    write(tmp_path, GOOD.replace("4.4", "4.5"))
    assert locked("--accept", " ")[0] == 2
    assert kept.read_text() == before
    assert locked("--accept", "a looser theorem")[0] == 0
    accepted = json.loads(kept.read_text())["accepted"]
    assert [entry["reason"] for entry in accepted] == ["first numbers", "a looser theorem"]


def test_check_file(tmp_path: Path) -> None:
    path, imported_from = write(tmp_path, GOOD + FALSE), list(sys.path)
    good, false = check_file(path)
    assert sys.path == imported_from
    assert (good.verdict, false.verdict) == (Verdict.CONSISTENT, Verdict.REFUTED)
    assert good.claim.expected is Expected.CONSISTENT
    assert (good.as_expected, false.as_expected) == (True, False)
    write(tmp_path, GOOD + "- {id: a}\n- {id: b, mu: x}\n")
    with pytest.raises(ValueError) as raised:
        check_file(str(path))
    lines = str(raised.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        f"{path}:{HEAD_LINES + 2}",
        f"{path}:{HEAD_LINES + 3}",
    ]


# all of these claims hang or take long
SLOW = {
    "callable": "{id: a, callable: 'my_calls:hangs', deltas: [1e-5]}",
    "law": "{id: a, mu: 9, pair: null, budget: {seconds: 1000}, mechanism: {steps: 7500, "
    "dataset_size: 10, batch_size: 10, step_size: 0.001, noise_std: 0.3651, lipschitz: 1.0, "
    "smoothness: 1.0, diameter: 1.0, batching: full}}",
}


@pytest.mark.parametrize("kind", [pytest.param("callable", marks=pytest.mark.slow), "law"])
def test_an_interrupt_ends_it_soon(kind: str, tmp_path: Path) -> None:
    (tmp_path / "my_calls.py").write_text("print('begun', flush=True)\n" + CALLABLES)
    path = write(tmp_path, f"- {SLOW[kind]}\n")
    begun = (
        "import sys, audit.exact\n"
        "from audit.cli import check\n"
        "true_curve = audit.exact.curve\n"
        "def curve(*given, **named):\n"
        "    print('begun', file=sys.stderr, flush=True)\n"
        "    return true_curve(*given, **named)\n"
        "audit.exact.curve = curve\n"
        f"check.main([{str(path)!r}])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", begun], stderr=subprocess.PIPE, text=True, env=environment()
    ) as command:
        assert command.stderr is not None
        assert command.stderr.readline() == "begun\n"
        time.sleep(0.3)
        command.send_signal(signal.SIGINT)
        assert command.wait(10) == 130
        assert command.stderr.read().splitlines()[-1] == "interrupted"


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("a.yaml --jobs 2", "check a.yaml --jobs 2"),
        ("a.yaml --lock l.json --accept why", "lock l.json a.yaml --accept why"),
        ("--lock=l.json a.yaml", "lock l.json a.yaml"),
        ("--witness w.json", "verify w.json"),
        ("--panel b.py --mechanisms 3", "panel b.py --mechanisms 3"),
        ("b.py --panel", "panel b.py"),
        ("--schema", "schema"),
    ],
)
def test_former_flags_name_commands(former: str, now: str) -> None:
    assert check_command._with_command(former.split()) == now.split()
    assert check_command._with_command(now.split()) == now.split()

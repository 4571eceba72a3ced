"""The exit status of ``audit-check`` when user code exits, hangs or kills its process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from audit.cli import check
from tests.claims.written import environment, write

# its first use does no harm
PAIR = """\
import os, re, sys
from dataclasses import dataclass
from pathlib import Path

from audit.constructions import Construction, TwoSidedWalk, construction

USED = Path(__file__).with_suffix(".used")

@construction
@dataclass(frozen=True)
class Harmful(Construction):
    start: float = 0.0

    citation = "nobody 2030"

    def processes(self):
        if USED.exists():
            {harm}
        USED.touch()
        return TwoSidedWalk(self.mechanism).processes()
"""
CLAIM = "- {id: good, epsilon: 4.4, delta: 1e-5, pair: {kind: 'harmful:Harmful'}}\n"
# hears no interrupt
DEAF = (
    "signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "print(os.getpid(), file=sys.stderr, flush=True); time.sleep(60)"
)


def started(*words: str) -> subprocess.Popen[str]:
    """Start Python with these words."""
    pipe = subprocess.PIPE
    command = [sys.executable, *words]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment())


def checking(folder: Path, harm: str) -> subprocess.Popen[str]:
    """Start a check of a claim whose pair does harm at its second use."""
    (folder / "harmful.py").write_text(PAIR.format(harm=harm))
    return started("-m", "audit.cli.check", str(write(folder, CLAIM)))


FORGE = """\
def forge():  # without the nonce
    content = bytes(32) + b'{"expected": [], "status": 0, "good": []}'
    for number in range(3, 30):
        with contextlib.suppress(OSError):
            os.write(number, struct.pack("!i", len(content)) + content)
"""


def apart(folder: Path, body: str) -> subprocess.Popen[str]:
    """Start a command with these lines in a child process."""
    script = folder / "script.py"
    script.write_text(
        "import argparse, contextlib, os, signal, struct, sys, time\n"
        f"from audit.cli.child_process import status_apart\n{FORGE}"
        f"def command(options, begin):\n    {body}\n"
        "if __name__ == '__main__':\n"
        "    sys.exit(status_apart(command, argparse.Namespace()))\n"
    )
    return started(str(script))


def run_apart(folder: Path, body: str) -> tuple[int, str, str]:
    """Run such a command; return its status and what it printed."""
    with apart(folder, body) as done:
        out, err = done.communicate(timeout=100)
    return done.returncode, out, err


@pytest.mark.parametrize(
    ("harm", "how"),
    [
        ("os._exit(0)", "its process ended with status 0"),
        ("sys.exit(0)", "its process ended with status 0"),
        ("os.kill(os.getpid(), 9)", "its process was ended by SIGKILL"),
        ("forge(); os._exit(0)", "its process ended with status 0"),
    ],
)
def test_a_command_whose_process_ends_is_no_success(harm: str, how: str, tmp_path: Path) -> None:
    ended = run_apart(tmp_path, f"begin(['a']); {harm}; return 0, ['a']")
    assert ended == (2, "", f"ended before the work was done: {how}\n")


@pytest.mark.parametrize(
    ("expected", "good", "status"), [(["a"], ["a"], 0), (["a", "b"], ["a"], 2), ([], ["a"], 2)]
)
def test_a_table_that_lacks_a_claim_is_no_success(
    expected: list[str], good: list[str], status: int, tmp_path: Path
) -> None:
    told = "ended without a verdict for everything\n" if status else ""
    assert run_apart(tmp_path, f"begin({expected}); return 0, {good}") == (status, "", told)


def test_a_pair_that_does_no_harm_is_judged(tmp_path: Path) -> None:
    with checking(tmp_path, "pass") as done:
        out, err = done.communicate(timeout=100)
    assert (done.returncode, err) == (0, "")
    assert out.endswith("1 claim: 1 consistent; 1 as expected, 0 not, 0 warnings\n")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_a_signal_ends_a_child_that_hears_nothing(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    with apart(tmp_path, f"begin(['a']); {DEAF}; return 0, ['a']") as parent:
        assert parent.stderr is not None
        child = int(parent.stderr.readline())
        assert child != parent.pid
        time.sleep(0.3)
        parent.send_signal(number)
        assert parent.wait(10) == status
        told = parent.stderr.read()  # to its end: nobody holds it any more
        assert told == ("interrupted\n" if number is signal.SIGINT else "")
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, 0)
        pytest.fail("the child is still there")


@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), ([], 2), (["--jobs", "x"], 2)])
def test_no_process_is_started_for_words_alone(
    words: list[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiprocessing.get_context", None)
    with pytest.raises(SystemExit) as ended:
        check.main(words)
    assert ended.value.code == status


# writes to all that it can open of its relatives, kills the judge, and ends
MODULE = """\
import glob, json, os, signal, struct

def parents():
    process = os.getpid()
    while process > 1:
        with open(f"/proc/{process}/stat") as stat:
            process = int(stat.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{process}/cmdline") as line:
            words = line.read()
        if "audit.cli" not in words and "audit/isolation" not in words:
            return  # the tests
        yield process

def attack(messages, number):
    relatives = list(parents())
    for relative in relatives:
        for path in glob.glob(f"/proc/{relative}/fd/*"):
            try:
                if not os.readlink(path).startswith("pipe:"):
                    continue
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                for content in messages:
                    os.write(pipe, struct.pack("!i", len(content)) + content)
            except OSError:
                continue
    for relative in relatives[:-1]:  # all but the process that waits
        os.kill(relative, number)
"""


NONCE = b"\0" * 32  # a wrong one
FORGED = (
    NONCE + b'{"expected": [], "status": 0, "good": []}',
    NONCE + b'{"status": 0, "good": ["good"]}',
)
JUNK = (b"\0", NONCE + b"\0", *(message[len(NONCE) :] for message in FORGED))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_no_attack_ends_with_status_0_and_no_table(number: signal.Signals, tmp_path: Path) -> None:
    """Not even one that may open the pipes, as it runs as the same user."""
    (tmp_path / "attack.py").write_text(MODULE)
    harm = f"__import__('attack').attack({JUNK + FORGED!r}, {int(number)})"
    with checking(tmp_path, harm) as done:
        out, err = done.communicate(timeout=60)
    assert done.returncode != 0
    assert "consistent" not in out
    assert len(err.strip().splitlines()) >= 1

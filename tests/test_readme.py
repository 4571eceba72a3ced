"""Every code block of the README runs, and says what it promises."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from audit import bounds
from audit.constructions import registry

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
BIN = Path(sys.executable).parent

SHORT = "settings.full_batch.trials=2000 settings.full_batch.steps_shown=[]"
# What is too long for a test is run with less work, or its steps are only listed (make -n).
QUICK = {
    "make ": "make -n ",
    "budget=20": "budget=2 evaluations=20",
    "scenario=drifted_walk parallel": f"scenario=drifted_walk draw=false {SHORT} parallel",
    "-m scenario=drifted_walk": f"-m scenario=drifted_walk {SHORT}",
    "audit scenario=drifted_walk settings": (  # the only one that draws every figure
        "audit scenario=drifted_walk 'settings.full_batch.steps_shown=[30]' settings"
    ),
    "glob(*,exclude=at22_lower_bound)": "glob(sk*p)",
}
# These lines run together in a test of their own.
DASK = ("dask ", "parallel=dask")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its text."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that it is to be written to: named by a comment in its first two lines."""
        for line in self.text.splitlines()[:2]:
            if found := re.fullmatch(r"# ([\w./-]+\.(?:py|yaml|yml))", line):
                return found[1]
        return None


BLOCKS = [
    Block(language, text)
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
]


@dataclass(frozen=True)
class Command:
    """A line after ``$``, and the lines that it is said to print."""

    line: str
    printed: tuple[str, ...]


def commands() -> list[Command]:
    """All commands of the console blocks, without comments; broken lines are joined.

    A line that stands in several blocks is one command, which prints what each of them says.
    """
    found: dict[str, tuple[str, ...]] = {}
    for block in BLOCKS:
        if block.language != "console":
            continue
        for part in re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            line, *printed = part.splitlines()
            line = " ".join(re.sub(r"\s{2,}# .*", "", line).split())
            said = tuple(p for p in printed if p not in ("...", ""))
            found[line] = found.get(line, ()) + said
    return [Command(line, said) for line, said in found.items()]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the checkout's scenarios and results, and every file that the README shows."""
    place = tmp_path_factory.mktemp("readme")
    for name in ("scenarios", "Makefile", "pyproject.toml"):
        (place / name).symlink_to(ROOT / name)
    (place / "results").mkdir()  # what is written there must not land in the checkout
    for stored in (ROOT / "results").iterdir():
        if stored.name != "runs":
            (place / "results" / stored.name).symlink_to(stored)
    for block in BLOCKS:
        if block.file is not None:
            file = place / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
    accountant = ROOT / "scenarios" / "claims" / "example_accountant.py"
    (place / "claims").mkdir()
    for folder in (place, place / "claims"):
        shutil.copy(accountant, folder)
    shutil.copy(place / "accountant.claims.yaml", place / "claims")
    return place


def shell(line: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a user would, with the virtual environment's commands first."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", line],
        cwd=place,
        env={**os.environ, "PATH": path, "COLUMNS": "160", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_there_is_something_to_run() -> None:
    known = {"python", "console", "yaml", "bibtex"}
    assert {block.language for block in BLOCKS} == known
    assert len(commands()) > 8
    assert Block("python", "# a/b.py\nx = 1\n").file == "a/b.py"


@pytest.fixture
def registries() -> Iterator[None]:
    """Take the bounds and constructions that a test registers out of their registries again."""
    registered: tuple[dict[str, Any], ...] = (bounds.REGISTRY._entries, registry._KINDS)
    before = [dict(entries) for entries in registered]
    yield
    for entries, kept in zip(registered, before, strict=True):
        entries.clear()
        entries.update(kept)


@pytest.mark.usefixtures("registries")
def test_the_python_runs(
    capsys: pytest.CaptureFixture[str], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.syspath_prepend(str(workplace))
    names: dict[str, object] = {}
    first, *others = [b.text for b in BLOCKS if b.language == "python" and b.file is None]
    exec(compile(first, str(README), "exec"), names)
    low, high = names["low"], names["high"]
    assert isinstance(low, float)
    assert low <= 1.842379526623 <= high
    printed = capsys.readouterr().out
    assert printed.startswith("1.993")
    lower, exact, claimed = (float(word) for word in printed.splitlines()[-1].split(" <= "))
    assert 0 < lower <= exact <= claimed
    for block in others:  # they go on where the first one ended
        exec(compile(block, str(README), "exec"), names)
        promised = re.findall(r"^print\(.*# (-?[\d.]+\d)", block, flags=re.MULTILINE)
        printed = capsys.readouterr().out
        for number in promised:
            assert number in printed
    found = names["found"]
    # searched for, and at least as good as the walk that was written down
    assert 1.84 < found.bracket[0] <= claimed  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "command",
    [c for c in commands() if not any(word in c.line for word in DASK)],
    ids=lambda c: c.line[:60],
)
def test_the_commands_run(command: Command, workplace: Path) -> None:
    line = command.line
    for long, quick in QUICK.items():
        line = line.replace(long, quick)
    done = shell(line, workplace)
    # example.claims.yaml and accountant.claims.yaml are as expected, so all end well
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    printed = " ".join(done.stdout.split())
    for expected in command.printed:
        assert " ".join(expected.split()) in printed


def test_the_lines_for_dask_run(workplace: Path) -> None:
    started, audited = (c.line for c in commands() if any(word in c.line for word in DASK))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])

    def here(line: str) -> str:
        line = line.replace("HOST", "127.0.0.1").replace("8786", port)
        line = line.replace("dask scheduler", f"dask scheduler --no-dashboard --port {port}")
        return line.replace("--nworkers 8", "--nworkers 2 --no-dashboard")

    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    cluster = subprocess.Popen(
        ["bash", "-c", here(started)],
        cwd=workplace,
        env={**os.environ, "PATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        line = f"{here(audited)} draw=false {SHORT}"
        for _ in range(30):  # until the scheduler and its workers are there
            done = shell(line, workplace)
            if done.returncode == 0:
                break
            time.sleep(1)
        assert done.returncode == 0, done.stderr
    finally:
        os.killpg(cluster.pid, signal.SIGTERM)
        cluster.wait(timeout=30)


def test_the_claims_files_run(workplace: Path) -> None:
    done = shell("audit-check accountant.claims.yaml", workplace)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ok ") == 2


def test_the_workflow_runs(workplace: Path) -> None:
    (workflow,) = (b for b in BLOCKS if (b.file or "").startswith(".github"))
    steps = yaml.safe_load(workflow.text)["jobs"]["claims"]["steps"]
    lines = [step["run"] for step in steps if "audit-check" in step.get("run", "")]
    assert len(lines) == 2
    for line in lines:
        done = shell(line, workplace)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_the_citation_is_of_this_version() -> None:
    (entry,) = (b.text for b in BLOCKS if b.language == "bibtex")
    version = importlib.metadata.version("noisy-sgd-audit")
    assert f"version = {{{version}}}" in entry
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == version
    assert cited["title"] in entry


def test_named_files_exist() -> None:
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", TEXT):
        assert (README.parent / link).exists(), link


def test_links_inside_the_page_lead_somewhere() -> None:
    heads = re.findall(r"^#+ (.*)$", TEXT, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
    for link in re.findall(r"\]\(#([^)]+)\)", TEXT):
        assert link in anchors, link

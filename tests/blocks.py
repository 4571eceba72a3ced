"""Code blocks of Markdown pages: what they hold, and how they are run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit import bounds
from audit.cli import check
from audit.constructions import registry
from tests.ended import Ended

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

SHORT = "settings.full_batch.trials=2000 settings.full_batch.steps_shown=[]"
# What is too long for a test is run with less work, or its steps are only listed (make -n).
QUICK = {
    "make ": "make -n ",
    "budget=20": "budget=2 evaluations=20",
    "-m scenario=drifted_walk": f"-m scenario=drifted_walk draw=false {SHORT}",
    "seed=1,2 hydra/launcher": "seed=1 hydra/launcher",
    "audit scenario=drifted_walk settings": (  # the only one that draws every figure
        "audit scenario=drifted_walk 'settings.full_batch.steps_shown=[30]' settings"
    ),
    "'scenario=glob(*,exclude=at22_lower_bound)'": "draw=false 'scenario=glob(last*h)'",
    "scenario=mine": "scenario=mine draw=false",
    "scenario=model": "scenario=model draw=false",
    "audit-check panel": "audit-check panel --mechanisms 1",
    "mechanism.steps=30,100,300": "mechanism.steps=30,100",
    "sampling_rate=.01 steps=5000": "sampling_rate=1 steps=50",
    # Read, and not run: processes have tests in tests/simulation/runs.
    "parallel=loky": "parallel=loky --cfg job",
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


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that name a language; directives are left out."""
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^```([^\n`]*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [Block(info, inside) for info, inside in fences if not info.startswith("{")]


@dataclass(frozen=True)
class Command:
    """A line after ``$``, and the lines that it is said to print."""

    line: str
    printed: tuple[str, ...]

    @property
    def needs_a_cluster(self) -> bool:
        """Whether it starts a Dask cluster, or runs on one."""
        return any(word in self.line for word in DASK)


def commands_of(blocks: Iterable[Block]) -> list[Command]:
    """Return all commands of the console blocks, without comments; broken lines are joined.

    A line that stands in several blocks is one command, which prints what each of them says.
    """
    found: dict[str, tuple[str, ...]] = {}
    for block in blocks:
        if block.language != "console":
            continue
        for part in re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            line, *printed = part.splitlines()
            line = " ".join(re.sub(r"\s{2,}# .*", "", line).split())
            said = tuple(p for p in printed if p not in ("...", ""))
            found[line] = found.get(line, ()) + said
    return [Command(line, said) for line, said in found.items()]


def make_workplace(place: Path, blocks: Iterable[Block]) -> Path:
    """Fill a folder with the checkout's scenarios and results, and every file that blocks show."""
    for name in ("scenarios", "Makefile", "pyproject.toml"):
        (place / name).symlink_to(ROOT / name)
    (place / "results").mkdir()  # what is written there must not land in the checkout
    for stored in (ROOT / "results").iterdir():
        if stored.name != "runs":
            (place / "results" / stored.name).symlink_to(stored)
    for block in blocks:
        if block.file is not None:
            file = place / block.file
            assert not file.exists() or file.read_text(encoding="utf-8") == block.text, block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
    accountant = place / "example_accountant.py"
    if not accountant.exists():
        shutil.copy(ROOT / "scenarios" / "claims" / accountant.name, accountant)
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


def run_command(command: Command, place: Path) -> None:
    """Run a command with less work; it must end well and print what is promised."""
    line = quick(command)
    done = shell(line, place)
    ended_well(command, Ended(done.returncode, done.stdout, done.stderr))


def quick(command: Command) -> str:
    """Return the line with less work."""
    line = command.line
    for long, less in QUICK.items():
        line = line.replace(long, less)
    return line


def main_of(line: str) -> Callable[[], None] | None:
    """Return the function of a line that is one command of ours in one process, or None.

    ``audit-check``, which judges in a child process, judges in this one.
    """
    if line.startswith("audit-check "):
        return lambda: sys.exit(check.run())
    scripts = importlib.metadata.entry_points(group="console_scripts", name=line.split()[0])
    return next(
        (script.load() for script in scripts if script.value.startswith("noisy_sgd_audit.")), None
    )


def ended_well(command: Command, done: Ended) -> None:
    """Check that a command ended well and printed what is promised."""
    assert done.status == 0, f"{command.line}\n{done.out}\n{done.err}"
    printed = " ".join(done.out.split())
    for expected in command.printed:
        assert " ".join(expected.split()) in printed, done.out


def promises(block: str) -> list[str]:
    """Return what comments beside ``print`` promise, and the lines below it that are comments.

    A promise is the numbers with which a comment begins, one word, or a text that ends in " ...".
    """
    below = re.findall(r"^print\(.*\)\n((?:# .*\n)+)", block, flags=re.MULTILINE)
    found = [" ".join(lines.replace("# ", "").split()) for lines in below]
    for comment in re.findall(r"^\s*print\(.*\)  # (.*)$", block, flags=re.MULTILINE):
        numbers = re.match(r"-?\d[\d.]*(?:, -?\d[\d.]*)*", comment)
        if numbers:
            found += [number.rstrip(".") for number in numbers[0].split(", ")]
        elif comment.endswith(" ..."):
            found.append(comment.removesuffix(" ..."))
        elif re.fullmatch(r"\w+", comment):
            found.append(comment)
    return found


def run_python(blocks: Sequence[Block], page: Path) -> None:
    """Run the Python of a page, each block where the last one ended, and check its promises."""
    names: dict[str, Any] = {"__name__": "page"}
    for block, after in itertools.zip_longest(blocks, blocks[1:]):
        if block.language != "python" or block.file is not None:
            continue
        captured = io.StringIO()
        with contextlib.redirect_stdout(captured):
            exec(compile(block.text, str(page), "exec"), names)
        printed = " ".join(captured.getvalue().split())
        for promise in promises(block.text):
            assert promise in printed, f"{promise!r} not in {printed!r}"
        if after is not None and after.language == "text":  # what it prints, wrapped
            assert " ".join(after.text.split()) in printed


@contextlib.contextmanager
def registries_kept() -> Iterator[None]:
    """Take the bounds and constructions that a page registers out of their registries again."""
    try:
        yield
    finally:
        entries, kinds = bounds.REGISTRY._entries, registry._KINDS
        for id in [id for id, e in entries.items() if not _is_ours(e.function)]:
            del entries[id]
        for kind in [kind for kind, cls in kinds.items() if not _is_ours(cls)]:
            del kinds[kind]


def _is_ours(thing: Any) -> bool:
    return str(thing.__module__).startswith("audit.")


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file or to no heading."""
    found = []
    for link in re.findall(r"\]\(<?((?!https?:|mailto:)[^)>\s]+)>?\)", prose_of(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            found.append(link)
    return found


def prose_of(page: Path) -> str:
    """Return the text of a page without its code."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^(```+|:::+).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub names them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}

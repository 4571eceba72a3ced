"""Every code block of the README and the documentation site runs; links lead somewhere."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import pkgutil
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import audit.claims
from audit import bounds, search
from audit.constructions import DriftedWalk, TwoSidedWalk
from tests import blocks
from tests.blocks import BIN, ROOT, SHORT, Command, shell
from tests.docstrings import code, named, public_names
from tests.ended import Ended

DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for page in DOCS.rglob("*.md")
        if not {"_site", "generated"} & set(page.relative_to(DOCS).parts)
    ),
]
BLOCKS = {page: blocks.blocks_of(page) for page in PAGES}
ALL = [block for found in BLOCKS.values() for block in found]
LANGUAGES = {"python", "console", "yaml", "json", "text", "toml", "bibtex"}
WITH_PYTHON = [
    page for page in PAGES if any(b.language == "python" and b.file is None for b in BLOCKS[page])
]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all pages, with every file that they show."""
    place = blocks.make_workplace(tmp_path_factory.mktemp("docs"), ALL)
    draws = np.random.default_rng(1)
    x, x_prime = draws.laplace(1.0, 1.0, 1000), draws.laplace(0.0, 1.0, 1000)  # epsilon is 1
    np.save(place / "with_record.npy", x)
    np.savetxt(place / "without.csv", x_prime)
    rows = [f"{score},1" for score in x] + [f"{score},0" for score in x_prime]
    (place / "scores.csv").write_text("\n".join(["loss,in", *rows]), encoding="utf-8")
    return place


def forget_modules() -> None:
    """Forget the modules that pages show: another test may have imported one of the same name."""
    shown = {Path(b.file).stem for b in ALL if b.file is not None and b.file.endswith(".py")}
    for module in (*shown, "example_accountant"):
        sys.modules.pop(module, None)


def test_the_languages_are_known() -> None:
    assert {block.language for block in ALL} <= LANGUAGES


def once(question: Callable[..., Any]) -> Callable[..., Any]:
    """Return a question that remembers its answers, in whichever order its words come."""
    answered = functools.cache(lambda given, named: question(*given, **dict(named)))
    return lambda *given, **named: answered(given, frozenset(named.items()))


EPSILON, NOISE_MULTIPLIER = once(bounds.epsilon), once(bounds.noise_multiplier)
WORST_CASE = once(search.worst_case)


@pytest.fixture
def _asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions of several pages, which take a second each, are answered once."""
    for room in (audit, bounds):
        monkeypatch.setattr(room, "epsilon", EPSILON)
        monkeypatch.setattr(room, "noise_multiplier", NOISE_MULTIPLIER)
    monkeypatch.setattr(search, "worst_case", WORST_CASE)


# pages and commands that take seconds, beside quicker ones of their kind
SLOW = (
    "docs/how-to/bounds.md",
    "docs/how-to/epsilon.md",
    "docs/how-to/scale.md",
    "docs/tutorials/theorem.md",
    "docs/tutorials/training.md",
    "audit --config-dir my_scenarios scenario=mine",
    "audit --config-dir my_scenarios scenario=model",
    "audit scenario=drifted_walk settings",
    "audit -m",
    "audit-check accountants.claims.yaml",
    "audit-check panel",
    "audit-check training.claims.yaml",
)


def paced(one: Any, word: str) -> Any:
    """A case of a page or command, which is slow if its first words are."""
    return pytest.param(one, marks=[pytest.mark.slow] * word.startswith(SLOW), id=word[:60])


def test_slow_pages_and_commands_are_there() -> None:
    words = [*map(name, WITH_PYTHON), *(command.line for command in blocks.commands_of(ALL))]
    assert [slow for slow in SLOW if not any(word.startswith(slow) for word in words)] == []


@pytest.mark.usefixtures("_asked_once")
@pytest.mark.parametrize("page", [paced(page, name(page)) for page in WITH_PYTHON])
def test_the_python_runs(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.syspath_prepend(str(workplace))
    forget_modules()
    with blocks.registries_kept():
        blocks.run_python(BLOCKS[page], page)


@pytest.fixture
def here(
    workplace: Path, ended: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Command], None]:
    """Run a command in this process where that is possible."""
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("COLUMNS", "160")

    def run(command: Command) -> None:
        line, _, file = blocks.quick(command).partition(" > ")
        main = blocks.main_of(line)
        if main is None:
            blocks.run_command(command, workplace)
            return
        monkeypatch.setattr(sys, "path", [*sys.path])
        forget_modules()
        with blocks.registries_kept():
            done = ended(main, *shlex.split(line)[1:])
        blocks.ended_well(command, done)
        if file:
            Path(file).write_text(done.out, encoding="utf-8")

    return run


@pytest.mark.usefixtures("_asked_once")
@pytest.mark.parametrize(
    "command",
    [paced(one, one.line) for one in blocks.commands_of(ALL) if not one.needs_a_cluster],
)
def test_the_commands_run(command: Command, here: Callable[[Command], None]) -> None:
    here(command)


@pytest.mark.slow  # tests/simulation/runs has a test of such a cluster
def test_the_lines_for_dask_run(workplace: Path) -> None:
    started, audited = (c.line for c in blocks.commands_of(ALL) if c.needs_a_cluster)
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
        for _ in range(300):  # until the scheduler is there; clients wait for workers
            with socket.socket() as asking:
                if asking.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            time.sleep(0.1)
        done = shell(f"{here(audited)} draw=false {SHORT}", workplace)
        assert done.returncode == 0, done.stderr
    finally:
        os.killpg(cluster.pid, signal.SIGTERM)
        cluster.wait(timeout=30)


@pytest.mark.slow  # its claims are judged by other commands
def test_the_workflow_runs(here: Callable[[Command], None]) -> None:
    (workflow,) = (b for b in ALL if (b.file or "").startswith(".github"))
    steps = yaml.safe_load(workflow.text)["jobs"]["claims"]["steps"]
    lines = [step["run"] for step in steps if "audit-check" in step.get("run", "")]
    first, weekly = lines
    assert weekly == f"{first} --fresh-seed"
    here(Command(weekly, ()))


def test_the_other_yaml_is_valid(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims files without a name are judged; what lacks claims gets a true one."""
    monkeypatch.chdir(workplace)
    true = "claims: [{id: x, mu: 1, laws: {gaussian: {sensitivity: 1, noise_std: 1}}}]\n"
    judged = 0
    for block in ALL:
        if block.language != "yaml" or block.file is not None or not yaml.safe_load(block.text):
            continue
        text = block.text if "claims:" in block.text else block.text + true
        (workplace / "unnamed.claims.yaml").write_text(text, encoding="utf-8")
        verdicts = audit.claims.check_file("unnamed.claims.yaml")
        assert all(verdict.as_expected for verdict in verdicts), verdicts
        judged += len(verdicts)
    assert judged > 3


def test_the_json_is_valid() -> None:
    for block in ALL:
        if block.language == "json":
            json.loads(block.text)


def test_the_links_lead_somewhere() -> None:
    assert {page: broken for page in PAGES if (broken := blocks.broken_links(page))} == {}


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# Some head, here\n", encoding="utf-8")
    page = tmp_path / "a.md"
    page.write_text("[](b.md) [x](b.md#some-head-here) [y](b.md#no) [z](c.md)", encoding="utf-8")
    assert blocks.broken_links(page) == ["b.md#no", "c.md"]


def test_a_promise_that_is_not_kept_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("```python\nprint(1.25)  # 1.2\n```\n", encoding="utf-8")
    blocks.run_python(blocks.blocks_of(page), page)
    for wrong in ("print(1.25)  # 1.3, about\n", "print(1.25)\n# 1.3\n"):
        page.write_text(f"```python\n{wrong}```\n", encoding="utf-8")
        with pytest.raises(AssertionError, match=r"'1\.3' not in '1\.25"):
            blocks.run_python(blocks.blocks_of(page), page)
    assert blocks.promises("print(x)  # True\nprint(y)  # of all\nprint(z)  # a b ...\n") == [
        "True",
        "a b",
    ]


def test_the_names_in_code_quotes_exist() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for found in set(re.findall(r"`(audit(?:\.\w+)+)(?:\([^`]*\))?`", text)):
            try:
                pkgutil.resolve_name(found)
            except (ImportError, AttributeError) as error:
                raise AssertionError(f"{found} is named in {name(page)}: {error}") from None


MAX_NAMES = 180
IMPORTED = re.compile(r"from (audit[\w.]*) import ([\w, ]+|\([^)]*\))")
DOTTED = re.compile(r"\b(audit(?:\.[a-z_]+)*)\.([A-Za-z_]\w*)")


def test_the_reference_lists_few_names_and_all_of_them_exist() -> None:
    names = public_names()
    assert len(names) == len(set(names))
    assert len([each for each in names if each.startswith("audit.")]) <= MAX_NAMES
    for each in names:
        named(each)  # fails where one is gone
    # what ``import audit`` gives, without an import of the room itself
    for package in (audit, audit.adapters):
        root = f"{package.__name__}."
        inside = {each.removeprefix(root).split(".")[0] for each in names if each.startswith(root)}
        assert inside <= {*dir(package)}


def test_what_the_pages_use_is_public() -> None:
    """Each class and function of a room that README, tutorials and how-to pages show."""
    objects = [code(named(each)) for each in public_names()]
    pages = [ROOT / "README.md", *DOCS.glob("how-to/*.md"), *DOCS.glob("tutorials/*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    used = set(DOTTED.findall(text))
    for room, names in IMPORTED.findall(text):
        used |= {(room, each) for each in re.findall(r"\w+", names)}
    for room, each in sorted(used):
        try:
            value = getattr(importlib.import_module(room), each)
        except (ImportError, AttributeError):
            continue  # a command, a file, or a module that a page makes up
        if inspect.isclass(value) or inspect.isfunction(value):
            assert any(code(value) is one for one in objects), f"{room}.{each} is not public"


def test_pages_of_classes_list_the_parameters_that_bases_describe() -> None:
    complete = runpy.run_path(str(DOCS / "_ext/parameters.py"))["complete"]
    shared = ["start : float, default: 0.0", "position : int, optional"]
    for cls, own in ((TwoSidedWalk, []), (DriftedWalk, ["drift : float, default: 0.0"])):
        lines = inspect.getdoc(cls).split("\n")
        complete(None, "class", "", cls, None, lines)
        names = [line for line in lines if line in ("Parameters", *own, *shared, "Examples")]
        assert names == ["Parameters", *own, *shared, *(["Examples"] if not own else [])]

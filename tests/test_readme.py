"""Every code block of the README runs, and says what it promises."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests import blocks
from tests.blocks import BIN, ROOT, SHORT, Block, Command, shell

README = ROOT / "README.md"
BLOCKS = blocks.blocks_of(README)
COMMANDS = blocks.commands_of(BLOCKS)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the checkout's scenarios and results, and every file that the README shows."""
    return blocks.make_workplace(tmp_path_factory.mktemp("readme"), BLOCKS)


def test_there_is_something_to_run() -> None:
    known = {"python", "console", "yaml", "bibtex"}
    assert {block.language for block in BLOCKS} == known
    assert len(COMMANDS) > 8
    assert Block("python", "# a/b.py\nx = 1\n").file == "a/b.py"


def test_the_python_runs(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.syspath_prepend(str(workplace))
    with blocks.registries_kept():
        names, printed = blocks.run_python(BLOCKS, README)
    assert names["low"] > 1.84
    assert printed


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if not c.needs_a_cluster], ids=lambda c: c.line[:60]
)
def test_the_commands_run(command: Command, workplace: Path) -> None:
    # example.claims.yaml and accountant.claims.yaml are as expected, so all end well
    blocks.run_command(command, workplace)


def test_the_lines_for_dask_run(workplace: Path) -> None:
    started, audited = (c.line for c in COMMANDS if c.needs_a_cluster)
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


def test_links_lead_somewhere() -> None:
    assert blocks.broken_links(README) == []

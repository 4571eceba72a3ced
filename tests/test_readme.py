"""Every code block of the README runs and prints what it promises."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
import yaml

from tests import blocks
from tests.blocks import ROOT, Command

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = blocks.blocks_of(README)
COMMANDS = blocks.commands_of(BLOCKS)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the checkout's scenarios and results, and every file that the README shows."""
    return blocks.make_workplace(tmp_path_factory.mktemp("readme"), BLOCKS)


def test_there_is_something_to_run() -> None:
    assert {block.language for block in BLOCKS} == {"python", "console", "yaml", "bibtex"}
    assert len(COMMANDS) == 3
    assert len(TEXT.splitlines()) < 150  # a page to start from; the rest is in docs/


def test_the_python_runs(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    names, printed = blocks.run_python(BLOCKS, README)
    low, claimed = names["low"], names["claimed"]
    assert 1.886 < low <= claimed.epsilon < 1.9931
    # comments below a print are what it prints
    promised = re.findall(r"^print\(.*\)\n((?:# .*\n)+)", TEXT, flags=re.MULTILINE)
    assert promised
    for comment in promised:
        assert " ".join(comment.replace("# ", "").split()) in printed


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.line[:60])
def test_the_commands_run(command: Command, workplace: Path) -> None:
    blocks.run_command(command, workplace)


def test_the_citation_is_of_this_version() -> None:
    (entry,) = (b.text for b in BLOCKS if b.language == "bibtex")
    version = importlib.metadata.version("noisy-sgd-audit")
    assert f"version = {{{version}}}" in entry
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == version
    assert cited["title"] in entry


def test_links_lead_somewhere() -> None:
    assert blocks.broken_links(README) == []

"""Run commands in the test process, which is faster than one process each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hydra._internal.hydra import Hydra
from hydra.core.config_store import ConfigStore


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that it printed to standard error, and nothing else."""
        assert self.out == ""
        (line,) = self.err.splitlines()
        return line


Command = Callable[..., Ended]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command's ``main`` with the words of a command line."""

    def run(main: Callable[[], int | None], *words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["command", *map(str, words)])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # which the command sets: it is undone
        # Hydra copies all that is registered, and a command registers scenarios
        store = ConfigStore.instance()
        kept = {name: node for name, node in store.repo.items() if name != "scenario"}
        monkeypatch.setattr(store, "repo", kept)
        # Hydra would compose all twice, first to read a mode that nobody sets
        monkeypatch.setattr(Hydra, "get_mode", lambda *_, **__: None)
        capsys.readouterr()
        try:
            status = main() or 0
        except SystemExit as end:
            status = int(end.code or 0)
        shown = capsys.readouterr()
        return Ended(status, shown.out, shown.err)

    return run

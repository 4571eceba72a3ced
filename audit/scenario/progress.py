"""How long work says how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

Report = Callable[[int, int], None]


class Progress(Protocol):
    """Shows named stages of work."""

    def stage(self, name: str) -> Report:
        """Begin a stage; the returned function takes (done, total)."""
        ...


class Silent:
    """Shows nothing."""

    def stage(self, name: str) -> Report:
        """Begin a stage of which nothing is shown."""
        return lambda done, total: None


class _Terminal:
    def __init__(self, bars: object) -> None:
        self._bars = bars

    def stage(self, name: str) -> Report:
        task = self._bars.add_task(name, total=None)  # type: ignore[attr-defined]

        def report(done: int, total: int) -> None:
            self._bars.update(task, completed=done, total=total)  # type: ignore[attr-defined]

        return report


@contextmanager
def on_terminal() -> Iterator[Progress]:
    """Progress bars on standard error if it is a terminal, else nothing."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Silent()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield _Terminal(bars)

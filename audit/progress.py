"""Progress reporting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

Report = Callable[[int, int], None]


class StageProgress(Protocol):
    """Reporter of the progress of named stages."""

    def stage(self, name: str, unit: str | None = None) -> Report:
        """Begin a stage; return a function that takes (done, total).

        If ``unit`` is given, the rate is reported, too.
        """
        ...

    def hidden(self) -> AbstractContextManager[None]:
        """Return a context in which the terminal is free for other output."""
        ...


class Silent:
    """Reporter that shows nothing."""

    def stage(self, name: str, unit: str | None = None) -> Report:
        """Begin a stage; return a function that does nothing."""
        return lambda done, total: None

    def hidden(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()


class _Terminal:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars

    def stage(self, name: str, unit: str | None = None) -> Report:
        task = self._bars.add_task(name, total=None, unit=unit)

        def report(done: int, total: int) -> None:
            self._bars.update(task, completed=done, total=total)

        return report

    @contextmanager
    def hidden(self) -> Iterator[None]:
        self._bars.stop()  # they vanish
        try:
            yield
        finally:
            self._bars.start()


@contextmanager
def on_terminal() -> Iterator[StageProgress]:
    """Yield progress bars on standard error if it is a terminal, else a silent reporter."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Silent()
        return
    with _bars(console) as bars:
        yield _Terminal(bars)


def _bars(console: Console) -> Bars:
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Rate of a stage that has a unit."""

        def render(self, task: Task) -> Text:
            unit, speed = task.fields["unit"], task.finished_speed or task.speed
            return Text("" if unit is None or speed is None else rate(speed, unit))

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)


def rate(speed: float, unit: str) -> str:
    """Return a rate with three digits, such as ``1.24 M steps/s``."""
    for size, prefix in ((1e9, "G "), (1e6, "M "), (1e3, "k ")):
        if speed >= 0.9995 * size:  # 999,500 would be 1e+03 k
            return f"{speed / size:.3g} {prefix}{unit}/s"
    return f"{speed:.3g} {unit}/s"

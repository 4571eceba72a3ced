"""Progress bars: the rate is shown where a stage has a unit."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from audit import progress


@pytest.mark.parametrize(
    ("speed", "told"),
    [
        (0.25, "0.25 steps/s"),
        (999.4, "999 steps/s"),
        (999.6, "1 k steps/s"),
        (1_240_000, "1.24 M steps/s"),
        (999_600_000, "1 G steps/s"),
        (2.2e9, "2.2 G steps/s"),
    ],
)
def test_rates_have_three_digits(speed: float, told: str) -> None:
    assert progress.rate(speed, "steps") == told


def test_bars_show_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, now = io.StringIO(), 0.0
    console = Console(file=screen, force_terminal=True, width=160, stderr=True)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    monkeypatch.setattr(console, "get_time", lambda: now)
    with progress.on_terminal() as bars:
        samples, laws = bars.stage("samples", "steps"), bars.stage("exact laws")
        for done in (500_000_000, 520_000_000, 540_000_000):  # half was there before
            samples(done, 1_000_000_000)
            laws(1, 2)
            now += 10.0
    shown = screen.getvalue()
    assert "2 M steps/s" in shown
    assert "0:03:50" in shown  # 460 million steps at 2 million a second
    laws_line = next(line for line in reversed(shown.splitlines()) if "exact laws" in line)
    assert "/s" not in laws_line


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.on_terminal() as bars:
        bars.stage("samples", "steps")(1, 2)
    assert capsys.readouterr().err == ""


def test_bars_leave_the_terminal_for_other_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=160, stderr=True)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with progress.on_terminal() as bars:
        bars.stage("samples")(1, 2)
        with bars.hidden():
            print("a row")
            held = screen.getvalue()
        bars.stage("exact [laws] [/x]")(1, 2)
    assert capsys.readouterr().out == "a row\n"
    assert "a row" not in screen.getvalue()
    assert "exact [laws] [/x]" in screen.getvalue()[len(held) :]

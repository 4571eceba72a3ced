"""User functions in worker processes: limits, failures and clean-up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.isolation import Limits, UserCodeError, Workers, process

NASTY = f"{__package__}.nasty"
LIMITS = Limits(seconds=20, gigabytes=2)
SHORT = Limits(seconds=0.4, gigabytes=2)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers() as made:
        yield made


def called(
    workers: Workers, name: str, *arguments: Any, limits: Limits = LIMITS, keep: bool = False
) -> Any:
    reference, task = f"{NASTY}:{name}", f"{NASTY}:task"
    with workers.function(reference, task=task, limits=limits, keep=keep) as function:
        return function(*arguments)


def gone(process: int) -> bool:
    """Whether a process ends within two seconds."""
    for _ in range(200):
        if state_of(process) in ("Z", ""):
            return True
        time.sleep(0.01)
    return False


def state_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_values_come_back_and_prints_do_not(
    workers: Workers, capfd: pytest.CaptureFixture[str]
) -> None:
    with Workers() as own:  # started under capfd
        assert called(own, "doubled", 21) == 42
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "on standard output" in shown.err
    assert "on standard error" in shown.err


def test_every_context_has_a_process_of_its_own(workers: Workers) -> None:
    first, again = (called(workers, "counted", 1) for _ in range(2))
    assert first[0] != again[0]
    assert first[1] == again[1] == 1
    assert gone(first[0])


def test_a_module_may_keep_its_process(workers: Workers) -> None:
    first, again = (called(workers, "counted", 1, keep=True) for _ in range(2))
    assert first[0] == again[0] != os.getpid()
    assert again[1] == first[1] + 1


def test_two_calls_at_a_time_get_two_processes(workers: Workers) -> None:
    names = {"task": f"{NASTY}:task", "limits": LIMITS}
    with (
        workers.function(f"{NASTY}:counted", **names) as first,
        workers.function(f"{NASTY}:counted", **names) as second,
    ):
        assert first(1)[0] != second(1)[0]


@pytest.mark.parametrize(
    ("name", "limits", "message"),
    [
        ("hanging", SHORT, "took longer than its limit of 0.4 s"),
        ("stopping_itself", SHORT, "took longer than its limit of 0.4 s"),
        ("leaving", LIMITS, "ended its process with status 0"),
        ("crashing", LIMITS, r"crashed its process: SIGSEGV \(Segmentation fault\)"),
        ("killing_its_keeper", LIMITS, r"crashed its process: SIGKILL \(Killed\)"),
        ("killing_its_group", LIMITS, r"crashed its process: SIGKILL \(Killed\)"),
        ("closing_files", LIMITS, "ended its process with status 1"),
        ("interrupting", LIMITS, r"raised KeyboardInterrupt \(nasty.py, line \d+\)"),
        ("exiting", LIMITS, r"raised SystemExit: 0 \(nasty.py, line \d+\)"),
        ("speechless", LIMITS, r"raised Unspeakable: \(its message cannot be shown\) \(nasty.py"),
        ("wordy", LIMITS, r"raised ValueError: (many words ?)+\S*\.\.\. \(nasty.py, line \d+\)"),
        ("recursive", LIMITS, "raised RecursionError: maximum recursion depth exceeded"),
        ("asking", LIMITS, "raised EOFError: EOF when reading a line"),
        ("returning_an_object", LIMITS, "returned a value that is not plain data: TypeError"),
        ("nowhere", LIMITS, None),
    ],
)
def test_harm_is_one_line_and_the_next_call_goes_on(
    workers: Workers, name: str, limits: Limits, message: str | None
) -> None:
    told = f"^{NASTY}:{name} {message}"
    if message is None:
        told = f"function must name a function or class of {NASTY}, got 'nowhere'$"
    with pytest.raises(UserCodeError, match=told) as refused:
        called(workers, name, 1, limits=limits)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
    assert called(workers, "doubled", 4) == 8


@pytest.mark.parametrize("name", ["eating", "eating_in_a_child"])
def test_memory_has_a_limit(workers: Workers, name: str) -> None:
    limits = Limits(seconds=100, gigabytes=0.25)
    with pytest.raises(
        UserCodeError, match=r"needed 0\.\d+ GB of memory, more than its limit of 0\.25 GB"
    ):
        called(workers, name, 1, limits=limits)


def test_a_process_that_forged_an_answer_is_not_asked_again(workers: Workers) -> None:
    before, _ = called(workers, "counted", 1, keep=True)
    for forged in ('{"value": 0}', '{"number": 99, "value": 0}'):  # of no request, or of another
        with pytest.raises(UserCodeError, match="sent an invalid answer"):
            called(workers, "writing_everywhere", forged, keep=True)
    with pytest.raises(UserCodeError, match="doubled sent an answer of more than 1 MiB"):
        called(workers, "doubled", "x" * 2**20)
    assert called(workers, "counted", 1, keep=True)[0] != before
    assert called(workers, "doubled", 4) == 8


@pytest.mark.parametrize("name", ["forking", "leaving_a_thread"])
def test_what_is_left_behind_does_not_matter(workers: Workers, name: str) -> None:
    assert called(workers, name, 3) == 3
    assert called(workers, "doubled", 4) == 8


@pytest.mark.parametrize("name", ["leaving_a_bomb", "patching"])
def test_the_next_call_does_not_pay_for_what_was_left(name: str) -> None:
    with Workers() as own:
        assert called(own, name, 3, keep=True) == 3
        assert called(own, "patient", 4, keep=True) == 4


def test_megabytes_of_output_are_no_outcome(capfd: pytest.CaptureFixture[str]) -> None:
    with Workers() as own:
        assert called(own, "shouting", 3) == 3
    assert capfd.readouterr().out == ""


def test_the_limit_is_for_all_calls_together(workers: Workers) -> None:
    names = {"task": f"{NASTY}:task", "limits": Limits(seconds=1.0, gigabytes=2)}
    with workers.function(f"{NASTY}:pausing", **names) as function:
        assert function(0) == 0  # each call takes 0.4 s, three of them too long
        with pytest.raises(UserCodeError, match="took longer than its limit of 1 s"):
            list(map(function, (1, 2)))


def test_a_call_may_be_slow_after_quick_ones(workers: Workers) -> None:
    names = {"task": f"{NASTY}:task", "limits": SHORT}
    with workers.function(f"{NASTY}:slow_at_two", **names) as function:
        assert [function(x) for x in range(2)] == [0, 1]
        with pytest.raises(UserCodeError, match=r"took longer than its limit of 0\.4 s"):
            function(2)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("import_hanging", "cannot be imported: it took longer than its limit of 4 s"),
        ("import_leaving", "cannot be imported: it ended its process with status 0"),
        ("import_raising", r"cannot be imported: BaseException: no module of yours \(import_rai"),
        ("import_nothing", "function must name a module that is installed, .*did you mean"),
    ],
)
def test_importing_has_a_limit_and_is_tried_once(module: str, message: str) -> None:
    limits = Limits(seconds=20, gigabytes=2, import_seconds=4)
    name = f"{__package__}.{module}:f"
    began = time.monotonic()
    with Workers([Path.cwd()]) as own:
        for _ in range(4):
            with (
                pytest.raises(UserCodeError, match=message) as refused,
                own.function(name, task=f"{NASTY}:task", limits=limits),
            ):
                pass
            assert "\n" not in str(refused.value)
    assert time.monotonic() - began < 14  # four times 4 s would be 16


def test_nothing_outlives_the_workers() -> None:
    with Workers() as own:
        left = called(own, "leaving_a_daemon", 1)
        assert gone(left)  # with its context
        daemon = called(own, "leaving_a_daemon", 1, keep=True)
        process, _ = called(own, "counted", 1, keep=True)
        assert not any(state_of(one) in ("Z", "") for one in (daemon, process))
    assert gone(daemon)
    assert gone(process)


PARENT = f"""\
import time
from audit.isolation import Limits, Workers

limits = Limits(seconds=100, gigabytes=2)
names = {{"task": "{NASTY}:task", "limits": limits}}
workers = Workers()
for name in ("leaving_a_daemon", "counted"):
    with workers.function("{NASTY}:" + name, **names) as function:
        print(function(1), flush=True)
with workers.function("{NASTY}:hanging", **names) as function:
    function(1)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_process_that_asked(end: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        daemon = int(parent.stdout.readline())
        process = int(parent.stdout.readline().strip("[]\n").split(",")[0])
        time.sleep(0.1)  # it hangs by now
        parent.send_signal(end)
        parent.wait(10)
    assert gone(daemon)
    assert gone(process)


def test_a_parent_that_left_a_report_unread_ends_its_keeper() -> None:
    """Its end of the socket is reset then, instead of closed."""
    parent, keeper = socket.socketpair()
    with keeper:
        keeper.sendall(b"report")
        parent.close()
        assert process._request(keeper, lambda: True) == {}


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match=r"^seconds must be a positive finite number, got 0$"):
        Limits(seconds=0, gigabytes=1)

"""Functions that harm the process they run in: what `tests.isolation.test_workers` calls."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
from typing import Any

CALLS: list[Any] = []


class Unspeakable(BaseException):
    """Its message raises."""

    def __str__(self) -> str:
        raise RuntimeError("no message")


def task(function: Any, *arguments: Any) -> Any:
    """What the package would do with a function of a user."""
    return function(*arguments)


def doubled(x: float) -> float:
    print("on standard output")
    print("on standard error", file=sys.stderr)
    return 2 * x


def counted(x: float) -> list[int]:
    CALLS.append(x)
    return [os.getpid(), len(CALLS)]


def hanging(x: float) -> None:
    while True:
        pass


def pausing(x: int) -> int:
    time.sleep(0.4)
    return x


def slow_at_two(x: float) -> float:
    if x == 2:
        time.sleep(100)
    return x


def leaving(x: float) -> None:
    os._exit(0)


def crashing(x: float) -> None:
    ctypes.string_at(0)


def eating(x: float) -> None:
    taken = []
    while True:
        taken.append(b"x" * 10**7)


def eating_in_a_child(x: float) -> None:
    if os.fork() == 0:
        eating(x)
    time.sleep(100)


def closing_files(x: float) -> float:
    os.closerange(3, 300)
    return x


def forking(x: float) -> float:
    os.fork()
    return x


def leaving_a_daemon(x: float) -> int:
    """Return the id of a process that outlives its parents, in a session of its own."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setsid()
        child = os.fork()
        if child == 0:
            time.sleep(100)
        os.write(theirs, str(child).encode())
        os._exit(0)
    return int(os.read(ours, 20))


def killing_its_keeper(x: float) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(100)


def stopping_itself(x: float) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def killing_its_group(x: float) -> None:
    os.killpg(0, signal.SIGKILL)


def writing_everywhere(x: str) -> str:
    for number in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(number, f"{x}\n[\n".encode())
    return x


def shouting(x: float) -> float:
    print("x" * 3_000_000)
    return x


def interrupting(x: float) -> None:
    raise KeyboardInterrupt


def exiting(x: float) -> None:
    raise SystemExit(0)


def speechless(x: float) -> None:
    raise Unspeakable


def wordy(x: float) -> None:
    raise ValueError("many\nwords " * 100_000)


def recursive(x: float) -> Any:
    return recursive(x)


def asking(x: float) -> Any:
    return input()


def returning_an_object(x: float) -> object:
    return object()


def leaving_a_thread(x: float) -> float:
    threading.Thread(target=time.sleep, args=(100,)).start()
    return x


def leaving_a_bomb(x: float) -> float:
    threading.Timer(0.2, os._exit, (0,)).start()
    return x


def patient(x: float) -> float:
    time.sleep(0.5)
    return x


def patching(x: float) -> float:
    json.dumps = lambda *given, **named: '{"value": 0}'
    return x

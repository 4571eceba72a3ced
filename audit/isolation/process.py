"""What runs in a worker: a keeper, and below it the process that calls functions of users.

This file is run by its path and starts with the standard library alone: `main` forks while the
process is small, has one thread and has imported nothing of a user.

The keeper never runs a user's code. It watches the memory of the process and of all that the
process started, ends them all when the process that asked for the worker is gone, and says how
the process ended. On Linux it adopts what the process leaves behind; elsewhere only the process
group is ended, and memory has no limit.

The socket carries one line of JSON a message. The process answers requests:

- ``{"path": [...], "module": ..., "reference": ..., "task": ...}``, once: find both functions;
- ``{"arguments": [...]}``: return ``task(function, *arguments)``;

with ``{"value": ...}`` or ``{"error": text}``. The keeper's last word is ``{"ended": ...}``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from json import dumps, loads  # before a user's code can put others in their place
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_EACH = 0.02  # seconds between two looks of the keeper
_WATCHED = 0.05  # ... at the memory
_PATIENCE = 2.0  # seconds for what is killed to be gone
_PDEATHSIG, _CHILD_SUBREAPER = 1, 36  # of prctl(2)


def main(arguments: list[str]) -> None:
    """Fork into keeper and process; ``arguments`` are the socket, the parent's id, the bytes."""
    descriptor, parent, memory = (int(word) for word in arguments)
    connection = socket.socket(fileno=descriptor)
    _prctl(_CHILD_SUBREAPER)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        end_with_parent(keeper)
        _serve(connection)
        os._exit(0)
    ended = _keep(child, parent, memory)
    _end_all()
    with contextlib.suppress(OSError):
        connection.settimeout(1.0)
        connection.sendall(b"\n" + _line({"ended": ended}))
    # itself, and where descendants are not listed what is left of the group
    os.killpg(0, signal.SIGKILL)


def end_with_parent(parent: int) -> None:
    """Let this process, a child of ``parent``, be killed when that ends; on Linux only."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before it could be watched
        os._exit(1)


def _line(message: Any) -> bytes:
    return dumps(message).encode() + b"\n"


def _prctl(option: int, value: int = 1) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# the keeper


def _keep(child: int, parent: int, memory: int) -> dict[str, int]:
    """Return how the process ended: its status, a signal, or the memory that it took."""
    stopped = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)

    signal.signal(signal.SIGTERM, stop)
    looked = 0.0
    while not stopped and os.getppid() == parent:
        # others that it left behind are reaped too
        with contextlib.suppress(ChildProcessError):
            found, status = os.waitpid(-1, os.WNOHANG)
            if found == child:
                code = os.waitstatus_to_exitcode(status)
                return {"signal": -code} if code < 0 else {"status": code}
        if time.monotonic() - looked > _WATCHED:
            looked = time.monotonic()
            taken = _memory(memory)
            if taken > memory:
                return {"memory": taken}
        time.sleep(_EACH)
    return {"status": 0}


def _memory(limit: int) -> int:
    """Return the bytes of memory that all descendants hold."""
    everyone = list(_descendants(os.getpid()))
    resident = sum(_resident(process) for process in everyone)
    # pages that forked processes share are counted once, where it matters
    if resident <= limit or len(everyone) == 1:
        return resident
    return sum(_proportional(process) for process in everyone)


def _resident(process: int) -> int:
    words = _read(f"/proc/{process}/statm").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if words else 0


def _proportional(process: int) -> int:
    for line in _read(f"/proc/{process}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(file: str) -> str:
    """Return the text of a file about a process; nothing where the process is gone."""
    try:
        with open(file, encoding="ascii") as opened:
            return opened.read()
    except OSError:
        return ""


def _descendants(process: int) -> Iterator[int]:
    """Yield the ids of all processes below one; none where the system does not list them."""
    threads: list[str] = []
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{process}/task")
    for thread in threads:
        for word in _read(f"/proc/{process}/task/{thread}/children").split():
            yield int(word)
            yield from _descendants(int(word))


def _end_all() -> None:
    """Kill whatever is left below the keeper, also what is started meanwhile."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        for process in _descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        time.sleep(0.001)


# the process that calls functions of users


def _serve(connection: socket.socket) -> None:
    os.dup2(2, 1)  # what users print is no outcome
    sys.argv = [""]
    own = os.getpid()
    answer: Callable[[dict[str, Any]], Any] | None = None
    for line in connection.makefile("rb"):
        request = loads(line)
        if answer is None:
            sys.path[:] = request["path"]
            from audit.isolation.answers import Answers  # below the path that was asked for

            answer = Answers().answer
        reply = answer(request)
        if os.getpid() != own:  # a fork that came back from the user's function
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        try:
            connection.sendall(_line(reply))
        except OSError:  # the function closed the socket
            os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])

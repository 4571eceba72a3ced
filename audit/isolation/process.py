"""The program of a worker: a keeper, and its forks that call user code.

This file is run by its path. The keeper imports the package and no user code. For each socket that
it receives it forks a process that answers there, and waits until that has ended, so that every
user of a worker meets a new process, at the cost of a fork. Meanwhile it watches the memory of all
its descendants. It kills what a fork left behind and reports how the fork ended, and it ends with
all descendants when the process that requested the worker is gone. On Linux orphaned descendants
are adopted; elsewhere the keeper kills only the process group, and memory is not limited.

A socket carries one line of JSON per message. The fork answers requests:

- ``{"number": n, "module": ..., "task": ...}``, first: import these modules;
- ``{"number": n, "reference": ...}``: find the user's function;
- ``{"number": n, "arguments": [...]}``: return ``task(function, *arguments)``;

with ``{"number": n, "value": ...}`` or ``{"number": n, "error": text}``. The keeper writes
``{"ended": ...}``, to the socket that it was started with.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from json import dumps, loads  # bound here, before user code can replace them
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_CHECK_S = 0.01  # seconds between two checks by the keeper
_MEMORY_CHECK_S = 0.05  # seconds between two checks of the memory
_KILL_WAIT_S = 2.0  # seconds to wait for killed processes to disappear
_PDEATHSIG, _DUMPABLE, _CHILD_SUBREAPER = 1, 4, 36  # options of prctl(2)


def main(arguments: list[str]) -> None:
    """Serve until asked to stop; ``arguments`` are the socket, the parent's id and bytes of memory.

    The socket brings requests ``{"path": [...], "modules": [...]}``, each with a socket for a fork.
    The modules are the package's: the one that answers, then the one of the task.
    """
    descriptor, parent, memory = (int(word) for word in arguments)
    control = socket.socket(fileno=descriptor)
    _prctl(_CHILD_SUBREAPER)
    os.dup2(2, 1)  # standard output carries no results
    sys.argv = [""]
    stopped = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))

    def going() -> bool:
        return not stopped and os.getppid() == parent

    own = os.getpid()
    while request := _request(control, going):
        sys.path[:] = request["path"]
        # the package's name is not audit where another module has that name
        answers, *_ = (import_module(module) for module in request["modules"])
        child = os.fork()
        if child == 0:
            end_with_parent(own)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            control.close()
            _serve(socket.socket(fileno=request["socket"]), answers.Answers().answer)
            os._exit(0)
        os.close(request["socket"])
        ended = _ended(child, memory, going)
        _end_all()
        with contextlib.suppress(OSError):
            control.sendall(_line({"ended": ended}))
        if "memory" in ended:
            break
    _end_all()
    # kills the keeper too, and the rest of the group where descendants are not listed
    os.killpg(0, signal.SIGKILL)


def _request(control: socket.socket, going: Callable[[], bool]) -> dict[str, Any]:
    """Return the next request, with its socket; an empty one if there is none any more."""
    line = b""
    descriptors: list[int] = []
    while not line.endswith(b"\n"):
        while not select.select([control], [], [], _CHECK_S)[0]:
            if not going():
                return {}
        try:
            received, found, _, _ = socket.recv_fds(control, 1 << 16, 1)
        except ConnectionResetError:  # the parent ended and left a report unread
            return {}
        if not received:
            return {}
        line, descriptors = line + received, [*descriptors, *found]
    (descriptor,) = descriptors
    return {**loads(line), "socket": descriptor}


def end_with_parent(parent: int) -> None:
    """Kill this process when ``parent`` ends (Linux only)."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call above
        os._exit(1)


def refuse_readers() -> None:
    """Keep this process's memory and files from unprivileged processes (Linux only)."""
    _prctl(_DUMPABLE, 0)


def _line(message: Any) -> bytes:
    return dumps(message).encode() + b"\n"


def _prctl(option: int, value: int = 1) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# the keeper


def _ended(child: int, memory: int, going: Callable[[], bool]) -> dict[str, int]:
    """Return how the child ended: its exit status, a signal, or the memory that was used."""
    looked = 0.0
    while going():
        # orphaned descendants are reaped too
        with contextlib.suppress(ChildProcessError):
            found, status = os.waitpid(-1, os.WNOHANG)
            if found == child:
                return _how(status)
        if time.monotonic() - looked > _MEMORY_CHECK_S:
            looked = time.monotonic()
            taken = _memory(memory)
            if taken > memory:
                return {"memory": taken}
        time.sleep(_CHECK_S)
    return {"status": 0}


def _how(status: int) -> dict[str, int]:
    code = os.waitstatus_to_exitcode(status)
    return {"signal": -code} if code < 0 else {"status": code}


def _memory(limit: int) -> int:
    """Return the resident memory of all descendants, in bytes."""
    everyone = list(_descendants(os.getpid()))
    resident = sum(_resident(process) for process in everyone)
    # count shared pages once, but only where the sum is over the limit
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
    """Return the text of a file of /proc; an empty string if the process is gone."""
    try:
        with open(file, encoding="ascii") as opened:
            return opened.read()
    except OSError:
        return ""


def _descendants(process: int) -> Iterator[int]:
    """Yield the ids of all descendants of a process; none if the system does not list them."""
    threads: list[str] = []
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{process}/task")
    for thread in threads:
        for word in _read(f"/proc/{process}/task/{thread}/children").split():
            yield int(word)
            yield from _descendants(int(word))


def _end_all() -> None:
    """Kill all descendants of this process, including those started in the meantime."""
    until = time.monotonic() + _KILL_WAIT_S
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


# its forks, which call user functions


def _serve(connection: socket.socket, answer: Callable[[dict[str, Any]], Any]) -> None:
    own = os.getpid()
    for line in connection.makefile("rb"):
        request = loads(line)
        number = request.pop("number")
        reply = answer(request)
        if os.getpid() != own:  # a fork made by the user function has returned
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        try:
            connection.sendall(_line({"number": number, **reply}))
        except OSError:  # the function closed the socket
            os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Worker processes that run user functions, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from audit import validate
from audit.isolation import process
from audit.isolation.user_code import UserCodeError

_GIGABYTE = 1e9
_MAX_REPLY = 2**20  # bytes of a reply
_KILL_AFTER_S = 3.0  # for a keeper to kill its processes


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on the time and memory of user functions.

    ``seconds`` is the total time (s) of all calls within one `Workers.function` context, without
    the import of the module, which has a limit of its own. ``gigabytes`` (1e9 bytes) is the
    resident memory of the process and all its descendants. It is monitored rather than enforced by
    the system, because a limit on the address space (RLIMIT_AS) would refuse memory that PyTorch,
    JAX and CUDA reserve but do not use.
    """

    seconds: float
    gigabytes: float
    import_seconds: float = 60.0

    def __post_init__(self) -> None:
        validate.positive(
            seconds=self.seconds, gigabytes=self.gigabytes, import_seconds=self.import_seconds
        )


@dataclass(frozen=True)
class _Place:
    """Folders that a worker imports from, and its limit on memory."""

    path: tuple[str, ...]
    folder: str
    gigabytes: float


@dataclass(frozen=True)
class _Kind:
    """The properties that two interchangeable workers have in common."""

    module: str
    task: str
    place: _Place


class _Ended(Exception):
    """The worker has ended; the message says how."""


class Workers:
    """Worker processes for user functions; a context manager.

    Every context of `function` has a process of its own, which ends with it, so that no function
    meets what another one has left behind; with ``keep`` a module keeps its process. Arguments and
    results cross the process boundary as JSON. Nothing that a user function does affects the
    calling process: neither its output (standard output is redirected to standard error), nor its
    patches, exceptions, memory leaks or crashes. Workers end with `close`, and also when the
    calling process ends for any reason.

    This keeps accidents away, not attackers: code that runs as the same user can do much. Run
    strangers' code in a container.

    ``folders`` are searched for modules after ``sys.path``; ``environment`` are variables beside
    those of this process, such as ``OMP_NUM_THREADS``, which libraries read when they are imported;
    so many ``idle`` workers are kept for later calls.
    """

    def __init__(
        self,
        folders: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        *,
        idle: int = 8,
    ) -> None:
        self._most_idle = idle
        self._folders = [str(folder.resolve()) for folder in folders]
        self._environment = {**(environment or {})}
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []  # with a process of some module, or without any
        self._all: set[_Worker] = set()
        self._failed: dict[_Kind, str] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Terminate all workers, including busy ones."""
        with self._lock:
            self._closed = True
            self._idle.clear()
        self.end_busy()

    def end_busy(self) -> None:
        """Terminate the workers that a function was taken from; calls that wait for them fail."""
        with self._lock:
            ending = self._all.difference(self._idle)
            self._all -= ending
        for worker in ending:
            worker.signal()
        for worker in ending:
            worker.end()

    @contextlib.contextmanager
    def function(
        self,
        reference: str,
        *,
        task: str,
        limits: Limits,
        name: str = "function",
        keep: bool = False,
    ) -> Iterator[Callable[..., Any]]:
        """Provide a function that runs a user function in a worker; a context manager.

        ``reference`` is the user function, ``package.module:name``, which messages call ``name``.
        ``task`` is a function of this package, ``package.module:name``, that also runs in the
        worker as ``task(function, *arguments)`` and returns plain data. With ``keep`` the process
        stays for later contexts of the same module, which find the state that its functions leave:
        for modules that are slow to import.

        Raises `UserCodeError` on entry if the module cannot be imported, and from the provided
        function if the user function raises, hangs, exits, crashes its process or needs more memory
        than its limit.
        """
        place = _Place(tuple(sys.path), os.getcwd(), limits.gigabytes)
        kind = _Kind(reference.partition(":")[0], task, place)
        worker = self._taken(kind, reference, limits, name, new=not keep)
        left = limits.seconds

        def call(*arguments: Any) -> Any:
            nonlocal left, worker
            began = time.monotonic()
            try:
                return worker.answer({"arguments": arguments}, left)
            except TimeoutError:
                raise UserCodeError(
                    f"{reference} took longer than its limit of {limits.seconds:g} s"
                ) from None
            except _Ended as reason:
                if not worker.used or worker not in self._all:
                    raise UserCodeError(f"{reference} {reason}") from None
            finally:
                left -= time.monotonic() - began
            # state left by an earlier call may have ended it: retry in a new process
            self._discarded(worker)
            worker = self._taken(kind, reference, limits, name, new=True)
            return call(*arguments)

        try:
            yield call
        finally:
            self._returned(worker, keep=keep)

    def _taken(
        self, kind: _Kind, reference: str, limits: Limits, name: str, *, new: bool = False
    ) -> _Worker:
        """Return a worker that has imported the module and found the function."""
        with self._lock:
            if kind in self._failed:
                raise UserCodeError(self._failed[kind])
            same = [w for w in self._idle if w.kind == kind and w.idle and not new]
            free = [w for w in self._idle if w.kind is None and w.place == kind.place and w.idle]
            found = [*free[-1:], *same[-1:]]
            worker = found[-1] if found else None
            if worker is not None:
                self._idle.remove(worker)
        worker = worker or self._started(kind.place)
        begun = worker.kind is not None
        seconds = limits.import_seconds
        try:
            if not begun:
                worker.begin(kind)
                asked = {"folders": self._folders, "module": kind.module, "task": kind.task}
                worker.answer({**asked, "name": name}, seconds)
                begun = True
            worker.answer({"reference": reference, "name": name}, seconds)
        except (TimeoutError, _Ended, UserCodeError) as error:
            text = str(error)
            if not isinstance(error, UserCodeError):
                slow = f"took longer than its limit of {seconds:g} s"
                reason = slow if isinstance(error, TimeoutError) else text
                text = f"{kind.module} cannot be imported: it {reason}"
            if not begun:
                self._failed[kind] = text  # later calls fail at once
            self._returned(worker, keep=begun and not new)
            raise UserCodeError(text) from None
        except BaseException:
            self._discarded(worker)
            raise
        return worker

    def _started(self, place: _Place) -> _Worker:
        worker = _Worker(place, self._environment)
        with self._lock:
            self._all.add(worker)
            closed = self._closed
        if closed:
            self._discarded(worker)
            raise RuntimeError("workers are closed")
        return worker

    def _returned(self, worker: _Worker, *, keep: bool) -> None:
        """Keep a worker for the next context if it is still usable."""
        if not (worker.idle if keep else worker.finish()):
            self._discarded(worker)
            return
        worker.used = True
        with self._lock:
            if worker in self._all:  # else it was ended
                self._idle.append(worker)
            extra = self._idle[: -self._most_idle]
        for each in extra:
            self._discarded(each)

    def _discarded(self, worker: _Worker) -> None:
        with self._lock:
            self._all.discard(worker)
            if worker in self._idle:
                self._idle.remove(worker)
        worker.signal()
        worker.end()


class _Worker:
    """One worker: its keeper, and the socket of the process that calls user functions."""

    def __init__(self, place: _Place, environment: Mapping[str, str]) -> None:
        self.place = place
        self.kind: _Kind | None = None  # kind of the running process, if any
        self.used = False
        self._busy = False
        self._number = 0
        self._received: dict[socket.socket, bytes] = {}
        self._control, theirs = socket.socketpair()
        self._socket: socket.socket | None = None
        words = [str(theirs.fileno()), str(os.getpid()), str(int(place.gigabytes * _GIGABYTE))]
        try:
            self._keeper = subprocess.Popen(
                # -P: do not search the folder of this file for modules
                [sys.executable, "-P", str(Path(process.__file__)), *words],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is handled by this process only
            )
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()

    def begin(self, kind: _Kind) -> None:
        """Have a new process for functions of a module."""
        self.kind, self.used = kind, False
        self._socket, theirs = socket.socketpair()
        modules = [f"{__package__}.user_code", kind.task.partition(":")[0]]
        request = {"path": kind.place.path, "modules": modules}
        try:
            line = json.dumps(request).encode() + b"\n"
            socket.send_fds(self._control, [line], [theirs.fileno()])
        except OSError:
            raise _Ended("ended its process") from None
        finally:
            theirs.close()

    def finish(self) -> bool:
        """End the process that calls user functions, and return whether there can be another."""
        if self._socket is not None:
            self._socket.close()
            self._received.pop(self._socket, None)
        self._socket = self.kind = None
        if self._busy or self._keeper.poll() is not None:
            return False
        try:
            ended = json.loads(self._line(self._control, time.monotonic() + _KILL_AFTER_S))
        except (_Ended, OSError):
            return False
        return "memory" not in ended["ended"]

    @property
    def idle(self) -> bool:
        """True if the worker can take a request and has sent nothing unrequested."""
        if self._keeper.poll() is not None or self._control.fileno() < 0 or self._busy:
            return False
        sockets = [one for one in (self._control, self._socket) if one is not None]
        return not select.select(sockets, [], [], 0)[0] and not any(self._received.values())

    def answer(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Send a request and return the answer.

        Raises `TimeoutError` without one in time, `_Ended` if the process ended before it answered
        or sent something else, and `UserCodeError` if the answer is an error.
        """
        assert self._socket is not None
        until = time.monotonic() + seconds
        self._busy = True  # until it has answered
        self._number += 1
        try:
            self._socket.settimeout(max(seconds, 1e-3))
            numbered = {"number": self._number, **request}
            self._socket.sendall(json.dumps(numbered).encode() + b"\n")
            reply = self._reply(until)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise _Ended("ended its process") from None
        self._busy = False
        if "error" in reply:
            raise UserCodeError(str(reply["error"]))
        return reply.get("value")

    def _reply(self, until: float) -> dict[str, Any]:
        """Return the answer to the last request; anything else on the socket is refused."""
        assert self._socket is not None
        try:
            reply = json.loads(self._line(self._socket, until))
            if reply["number"] != self._number or isinstance(reply["number"], bool):
                raise ValueError
        except (ValueError, TypeError, LookupError, RecursionError):
            raise _Ended("sent an invalid answer") from None
        found: dict[str, Any] = reply
        return found

    def _line(self, connection: socket.socket, until: float) -> bytes:
        """Return the next line on a socket."""
        received = self._received.get(connection, b"")
        while b"\n" not in received:
            if len(received) > _MAX_REPLY:
                raise _Ended(f"sent an answer of more than {_MAX_REPLY >> 20} MiB")
            left = max(0.0, until - time.monotonic())
            ready = select.select([connection, self._control], [], [], left)[0]
            if not ready:
                raise TimeoutError
            more = connection.recv(1 << 16) if connection in ready else b""
            if not more:
                raise _Ended(self._gone() if connection is self._control else self._ended())
            received += more
            self._received[connection] = received
        line, _, self._received[connection] = received.partition(b"\n")
        return line

    def _ended(self) -> str:
        """Describe how the process that calls user functions ended, as the others report."""
        until = time.monotonic() + _KILL_AFTER_S
        try:
            return self._how(json.loads(self._line(self._control, until))["ended"])
        except _Ended as error:
            return str(error)
        except OSError:
            return self._gone()

    def _gone(self) -> str:
        try:
            return self._how({"signal": max(-self._keeper.wait(_KILL_AFTER_S), 0)})
        except subprocess.TimeoutExpired:
            return "ended its process"

    def signal(self) -> None:
        """Ask the keeper to end."""
        with contextlib.suppress(OSError):
            self._keeper.terminate()

    def end(self) -> None:
        """Wait until the keeper has ended; kill its process group if it does not."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(_KILL_AFTER_S)
        with contextlib.suppress(OSError):
            os.killpg(self._keeper.pid, signal.SIGKILL)
        self._keeper.wait()
        for one in (self._control, self._socket):
            if one is not None:
                one.close()

    def _how(self, ended: dict[str, int]) -> str:
        """Describe how the process ended."""
        if "memory" in ended:
            taken = ended["memory"] / _GIGABYTE
            limit = self.place.gigabytes
            return f"needed {taken:.3g} GB of memory, more than its limit of {limit:g} GB"
        number = ended.get("signal", 0)
        if number:
            name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
            return f"crashed its process: {name} ({signal.strsignal(number)})"
        return f"ended its process with status {ended.get('status', 0)}"

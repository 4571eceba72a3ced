"""Run commands in a child process, so that nothing ends them early with exit status 0.

User functions and pairs run in workers (`audit.isolation`). Other reasons for an early end, such as
a fault in a library or too little memory, must not look like success either: the whole command runs
in a child. Before any user code runs it sends what it will judge, and at its end the verdicts; this
process returns 0 only if there is a good one for everything. Messages carry a nonce that workers do
not hold, and on Linux they may not read the memory of either process unless they are privileged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from audit.cli.errors import BROKEN_INPUT, INTERRUPTED
from audit.isolation.process import end_with_parent, refuse_readers

_KILL_AFTER_S = 0.7  # from an interrupt until the child is killed
_WAIT_S = 0.05  # for a message, until the child is looked at again
_MAX_MESSAGE = 2**28  # bytes of a message
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


Command = Callable[[argparse.Namespace, Callable[[Sequence[str]], None]], tuple[int, Sequence[str]]]


def status_apart(command: Command, options: argparse.Namespace) -> int:
    """Run a command in a child process and return its exit status.

    An interrupt is passed on, and the child is killed if it does not end soon. SIGTERM ends this
    process and the child; on Linux the child ends with this process in any case.
    """
    if sys.platform == "linux":
        context = multiprocessing.get_context("fork")
    else:  # a process that has loaded Accelerate must not be forked
        context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    nonce = secrets.token_bytes(32)
    refuse_readers()
    child = context.Process(target=_child, args=(command, options, sender, nonce, os.getpid()))
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid or 0, signal.SIGINT)
        signal.setitimer(signal.ITIMER_REAL, _KILL_AFTER_S)

    def kill(number: int, frame: FrameType | None) -> None:
        child.kill()

    def terminate(number: int, frame: FrameType | None) -> None:
        child.kill()
        child.join()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until both can handle them
    child.start()
    sender.close()
    for number, handler in ((signal.SIGINT, interrupt), (signal.SIGTERM, terminate)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
    signal.signal(signal.SIGALRM, kill)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    messages: list[dict[str, Any]] = []
    # not until the end of the pipe: processes that the child started may keep it open
    while child.is_alive():
        messages += _received(receiver, nonce)
    child.join()
    while found := _received(receiver, nonce):
        messages += found
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    ends = [message for message in messages if "status" in message]
    if ends:
        return _checked(ends[-1], messages)
    if interrupted:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    print(f"ended before the work was done: {_how(child.exitcode)}", file=sys.stderr)
    return BROKEN_INPUT


def _checked(end: dict[str, Any], messages: Sequence[dict[str, Any]]) -> int:
    """Return the status of a command, 0 only if all that was to be judged has a good verdict."""
    status = int(end["status"])
    expected = [name for message in messages for name in message.get("expected", ())]
    if status == 0 and ("expected" not in messages[0] or sorted(expected) != sorted(end["good"])):
        print("ended without a verdict for everything", file=sys.stderr)
        return BROKEN_INPUT
    return status


def _child(
    command: Command, options: argparse.Namespace, sender: Connection, nonce: bytes, parent: int
) -> None:
    """Run the command, and send its verdicts as the last action of this process."""
    end_with_parent(parent)

    def interrupt(number: int, frame: FrameType | None) -> None:
        # a terminal sends it too, and a second one would interrupt the clean-up
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    own = os.getpid()

    def send(**content: object) -> None:
        sender.send_bytes(nonce + json.dumps(content).encode())

    status, good = command(options, lambda names: send(expected=list(names)))
    if os.getpid() != own:  # a fork made by user code has returned
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    send(status=status, good=list(good))
    os._exit(status)  # skips threads that compute laws, and exit handlers of user code


def _received(receiver: Connection, nonce: bytes) -> list[dict[str, Any]]:
    """Return the next message as a list; nothing if it is not from the child."""
    try:
        message = receiver.recv_bytes(_MAX_MESSAGE) if receiver.poll(_WAIT_S) else b""
    except (EOFError, OSError):  # broken by somebody else: what follows cannot be read
        time.sleep(_WAIT_S)
        return []
    if not secrets.compare_digest(message[: len(nonce)], nonce):
        return []
    content: dict[str, Any] = json.loads(message[len(nonce) :])
    return [content]


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with status {code}"

"""Run commands in a child process, so that nothing ends them early with exit status 0.

User functions and pairs run in workers (`audit.isolation`). Other reasons for an early end, such as
a fault in a library or too little memory, must not look like success either: the whole command runs
in a child, and this process trusts only a child that sends its status after its work is done.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import FrameType

from audit.cli.errors import BROKEN_INPUT, INTERRUPTED
from audit.isolation.process import end_with_parent

_PATIENCE = 0.7  # seconds from an interrupt until the child is killed
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Command = Callable[[argparse.Namespace], int]


def status_apart(command: Command, options: argparse.Namespace) -> int:
    """Run a command in a child process and return its exit status.

    An interrupt is passed on, and the child is killed if it does not end soon. SIGTERM ends this
    process and the child; on Linux the child ends with this process in any case.

    Parameters
    ----------
    command
        A function of a module, called with the options; it returns the exit status.
    options
        The options.

    Returns
    -------
    int
        The status that the command returned. 2, and one line on standard error, if the child ended
        before the command did, with any status; 130 if an interrupt ended it.
    """
    if sys.platform == "linux":
        context = multiprocessing.get_context("fork")
    else:  # a process that has loaded Accelerate must not be forked
        context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(command, options, sender, os.getpid()))
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        _kill(child.pid, signal.SIGINT)
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)

    def kill(number: int, frame: FrameType | None) -> None:
        _kill(child.pid, signal.SIGKILL)

    def terminate(number: int, frame: FrameType | None) -> None:
        _kill(child.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child.pid or 0, 0)
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
    # not the end of the pipe: processes that the child started may keep it open
    child.join()
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    status = _received(receiver)
    if status is not None:
        return status
    if interrupted:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    print(f"ended before the work was done: {_how(child.exitcode)}", file=sys.stderr)
    return BROKEN_INPUT


def _child(command: Command, options: argparse.Namespace, sender: Connection, parent: int) -> None:
    """Run the command, and send its status as the last action of this process."""
    end_with_parent(parent)

    def interrupt(number: int, frame: FrameType | None) -> None:
        # a terminal sends it too, and a second one would interrupt the clean-up
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    own = os.getpid()
    status = command(options)
    if os.getpid() != own:  # a fork made by user code has returned
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    sender.send_bytes(bytes([status]))
    os._exit(status)  # skips threads that compute laws, and exit handlers of user code


def _received(receiver: Connection) -> int | None:
    try:
        message = receiver.recv_bytes(1) if receiver.poll(0) else b""
    except (EOFError, OSError):
        return None
    return message[0] if message else None


def _kill(process: int | None, number: int) -> None:
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with status {code}"

"""Ends of commands: one-line errors, exit statuses, closed output pipes.

Hydra is imported only if a command that uses it has failed.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import audit
from audit.codec.hints import did_you_mean

if TYPE_CHECKING:
    from hydra.errors import MissingConfigException
    from omegaconf.errors import OmegaConfBaseException

VERSION = f"noisy-sgd-audit {audit.__version__}"
BROKEN_RUNS, BROKEN_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143
_ADVICE_OF_HYDRA = re.compile(
    r"\s*(See https://hydra\.cc|To append to your config use).*", re.DOTALL
)
_SEVERAL_VALUES = re.compile(r"Ambiguous value for argument '([^=']+)=([^']*)'")


class OneLineParser(argparse.ArgumentParser):
    """Parser with ``--version`` whose errors are one line, without the usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_argument("--version", action="version", version=VERSION, help="print the version")

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with the status of bad input."""
        print(f"{self.prog}: error: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(BROKEN_INPUT)


def guarded(command: Callable[[], None], name: str = "audit") -> None:
    """Run a command; bad input ends with one line and exit status 2, an interrupt with 130.

    SIGTERM, with which batch systems end a job, is an interrupt with status 143.

    If the reader of standard output goes away (``| head``), the command ends quietly. With
    HYDRA_FULL_ERROR=1 in the environment the traceback is shown instead of the line.
    """
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        command()
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra raise instead of printing several lines
    try:
        with _flushed_output(), _termination_as_interrupt():
            command()
    except _Terminated as error:
        print(f"{name}: terminated; {_left_behind(error)}", file=sys.stderr)
        sys.exit(TERMINATED)
    except KeyboardInterrupt as error:
        let_the_status_stand()
        print(f"{name}: interrupted; {_left_behind(error)}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except MemoryError as error:
        line = f"too little memory: {_message(error)}; {_left_behind(error)}"
        print(f"{name}: error: {line}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError as error:
        if not reader_is_gone():
            _end_with(name, error)
    except Exception as error:
        of_yaml = type(error).__module__.startswith("yaml.")
        if isinstance(error, ValueError) or of_yaml or _is_of_hydra(error):
            print(f"{name}: error: {one_line(error)}", file=sys.stderr)
            sys.exit(BROKEN_INPUT)
        if isinstance(error, OSError):
            _end_with(name, error)
        if isinstance(error, ArithmeticError):
            wanted = f"must not be too large or too small, got {type(error).__name__}"
            print(f"{name}: error: numbers {wanted}", file=sys.stderr)
            sys.exit(BROKEN_INPUT)
        raise


@contextmanager
def _flushed_output() -> Iterator[None]:
    """Escape characters that standard output cannot encode, and flush it at the end."""
    if sys.stdout is None:  # closed by who started the command: ``>&-``
        sys.stdout = io.StringIO()
    if sys.stderr is None:  # what is printed to it would be on standard output
        sys.stderr = io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        sys.stdout.flush()


def let_the_status_stand() -> None:
    """Let the exit status stand after an interrupt.

    Python ends by SIGINT, with ``python -m``, if the last evaluation of a string was interrupted,
    as when a dataclass is made.
    """
    exec("")


class _Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM."""


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Raise `_Terminated` in the main thread at SIGTERM, so that open files are closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: object) -> None:
        raise _Terminated

    former = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _end_with(name: str, error: OSError) -> NoReturn:
    print(f"{name}: error: {_message(error)}; {_left_behind(error)}", file=sys.stderr)
    sys.exit(1)


def exit_status(command: Callable[[], int]) -> int:
    """Run a command that returns its exit status, and return it.

    If the reader of standard output goes away, the command ends quietly.
    """
    try:
        with _flushed_output():
            return command()
    except OSError as error:
        if not (isinstance(error, BrokenPipeError) and reader_is_gone()):
            print(f"error: {_message(error)}", file=sys.stderr)
        return BROKEN_INPUT


def reader_is_gone() -> bool:
    """Return whether nobody reads standard output any more; later output is then discarded."""
    output = sys.stdout.fileno()
    watched = select.poll()
    watched.register(output, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True


def print_if_read(line: str) -> None:
    """Print a line; do nothing if there is no reader."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        reader_is_gone()


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, with the notes on it."""
    return "; ".join([_message(error), *getattr(error, "__notes__", ())])


def _left_behind(error: BaseException) -> str:
    """Return the notes of an error, which say what an interrupted run has left on disk."""
    return "; ".join(getattr(error, "__notes__", ())) or "nothing was written"


def _is_of_hydra(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("hydra", "omegaconf")


def _message(error: BaseException) -> str:
    if _is_of_hydra(error):
        return _message_of_hydra(error)
    return " ".join(str(error).split()) or type(error).__name__


def _message_of_hydra(error: BaseException) -> str:
    """Return the error of a configuration in the package's wording."""
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _no_such_choice(error)
    problem = " ".join(_ADVICE_OF_HYDRA.sub("", str(error)).split()) or type(error).__name__
    if isinstance(error, OverrideParseException):
        requirement = "KEY=VALUE in Hydra's grammar, with quotes around other letters"
        return f"{error.override!r} must be {requirement} ({problem})"
    for one in (error.__cause__, error):
        if isinstance(one, OmegaConfBaseException):
            return _wrong_key(one)
    several = _SEVERAL_VALUES.match(str(error))
    if several is not None:
        key, value = several.groups()
        return f"{key} must be one value ([a,b] is a list, and -m sweeps over a,b), got {value!r}"
    return problem


def _no_such_choice(error: MissingConfigException) -> str:
    """Describe a missing choice of a group, such as a launcher or a backend."""
    group, _, choice = str(error.missing_cfg_file).rpartition("/")
    choices = list(error.options or ())
    known = f"one of {', '.join(choices)}" if choices else "a file that Hydra finds"
    return (
        f"{group or 'config-name'} must be {known}, got {choice!r}{did_you_mean(choice, choices)}"
    )


def _wrong_key(error: OmegaConfBaseException) -> str:
    """Describe the error of a key of the configuration."""
    first, *more = [line.strip() for line in str(error).splitlines() if line.strip()]
    if " not in " in first and isinstance(error.key, str) and error.parent_node is not None:
        known = [str(key) for key in error.parent_node if key != "hydra"]
        where, _, key = (error.full_key or error.key).rpartition(".")
        close = did_you_mean(key, known)
        requirement = "a known one" if close else f"one of {', '.join(known)}"
        return f"a key{' of ' * bool(where)}{where} must be {requirement}, got {key!r}{close}"
    keys = [line.removeprefix("full_key: ") for line in more if line.startswith("full_key:")]
    return first + (f" (at {keys[0]})" if keys and keys[0] not in first else "")

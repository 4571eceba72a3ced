"""The order of the files, compiled kernels that the processes of tests share, and their memory."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from tests import kernels
from tests.ended import ended

__all__ = ["ended"]  # a fixture of all rooms

# A shell starts background jobs with interrupts ignored; children of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

with contextlib.suppress(ImportError):  # the tests of adapters do without Hypothesis
    from hypothesis import HealthCheck, settings

    # a loaded machine is slow
    settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any")

RUN = "AUDIT_TESTS_KERNELS"  # names the folder of a run's kernels

# Files whose tests take a sixth of a minute or more begin first: one of them left for the end
# would keep one core busy and the other one waiting.
LONG = (
    "test_docs.py",
    "test_stored_numbers.py",
    "claims/test_witness.py",
    "training/test_run.py",
    "panel/test_judging.py",
    "claims/test_judge.py",
    "claims/test_library_objects.py",
    "report/test_run_report.py",
    "bounds/own/test_soundness.py",
    "scenario/test_shipped.py",
    "estimation/test_coverage.py",
    "claims/test_user_code.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of long files first, the longest on top, and the others by turns of folders.

    Files of one folder that ran side by side would compile the same kernels.
    """
    tests = Path(__file__).parent
    places = {tests / name: place for place, name in enumerate(LONG)}
    if gone := [str(file) for file in places if not file.is_file()]:
        raise pytest.UsageError(f"LONG must name files of tests, got {gone}")
    turns, seen = {}, Counter[Path]()
    for file in dict.fromkeys(item.path for item in items):
        seen[file.parent] += 1
        turns[file] = seen[file.parent]
    items.sort(key=lambda item: (places.get(item.path, len(LONG)), turns[item.path]))


def pytest_collection(session: pytest.Session) -> None:
    """Import the files of tests, each worker of several from another one on.

    Who is the first to import a file rewrites its assertions, and others read what it wrote.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    chosen = [Path(word.partition("::")[0]).resolve() for word in session.config.args]
    tests = Path(__file__).parent
    files = [f for f in sorted(tests.rglob("test_*.py")) if any(map(f.is_relative_to, chosen))]
    first = len(files) * int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) // workers
    for file in files[first:] + files[:first]:
        name = ".".join(file.relative_to(tests.parent).with_suffix("").parts)
        with contextlib.suppress(Exception, pytest.skip.Exception):  # told where it is collected
            importlib.import_module(name)


def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: many tests wait for processes that they start."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Let this process, and those that tests start, keep the kernels that they compile.

    The folder goes with the run: nothing stale can be found there.
    """
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="kernels-")
        config.add_cleanup(folder.cleanup)
        os.environ[RUN] = folder.name
    os.environ["AUDIT_SHARE_KERNELS"] = "1"
    os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="worker-", dir=os.environ[RUN])


_EVERY = 2.0  # seconds
_exchanged = 0.0


@pytest.hookimpl(tryfirst=True)  # before fixtures, which compile too
def pytest_runtest_setup() -> None:
    """Publish what this worker has compiled, and take over what others have, every few tests.

    Between tests nothing compiles, so functions are whole.
    """
    global _exchanged
    if time.monotonic() - _exchanged < _EVERY:
        return
    own, shared = Path(os.environ["NUMBA_CACHE_DIR"]), Path(os.environ[RUN], "shared")
    kernels.publish(own, shared)
    kernels.take_over(shared, own)
    _exchanged = time.monotonic()


def pytest_collection_finish() -> None:
    """Take what collection made out of the garbage collector, which would look at it at each run.

    Test modules, and the packages that they import, live as long as the process.
    """
    gc.collect()
    gc.freeze()

"""What the backends of clusters share: reaching a cluster, and saying that it is lost.

Dask and Ray clusters are asked directly, not through joblib. Through joblib's Dask backend a run
waits for ever once a worker or the scheduler is lost, and Ray's joblib backend cannot return
results as they come, nor go on without a worker that is lost.
"""

from __future__ import annotations

import contextlib
import importlib
import socket
from collections.abc import Iterator
from typing import Any

from audit.simulation.backends.base import first_line

PATIENCE = 5.0  # seconds until a cluster that does not answer is taken as not there
AHEAD = 2  # tasks under way for each core: one that runs and one that waits


def check_listening(name: str, address: str) -> None:
    """Check that something listens, if the address says where.

    Without this, Dask tries again until its patience ends, and Ray for two minutes, after which
    it ends the process.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise not_there(name, address, error) from error


def import_optional(name: str, *, extra: str) -> Any:
    """Return a package, or raise the ``ValueError`` that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(
            f"parallel={extra} needs {name}, which is not installed: "
            f"pip install 'noisy-sgd-audit[{extra}]'"
        ) from None


def not_there(name: str, address: str, reason: object) -> ConnectionError:
    """Return the error that says that no cluster is at the address."""
    return ConnectionError(f"no {name} cluster at {address}: {first_line(reason)}")


@contextlib.contextmanager
def lost_as_connection_error(
    name: str, address: str, errors: tuple[type[BaseException], ...]
) -> Iterator[None]:
    """Turn errors that mean that the cluster is lost into a ``ConnectionError``."""
    try:
        yield
    except errors as error:
        raise ConnectionError(
            f"the {name} cluster at {address} did not finish the work: {first_line(error)}"
        ) from error

"""Where the blocks of a job run: threads, processes, or a cluster; one file a backend."""

from audit.simulation.backends import dask, loky, ray, threads
from audit.simulation.backends.base import BACKENDS, Kind, Parallel, Pool, backend, pool

__all__ = [
    "BACKENDS",
    "Kind",
    "Parallel",
    "Pool",
    "backend",
    "dask",
    "loky",
    "pool",
    "ray",
    "threads",
]

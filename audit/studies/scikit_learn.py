"""Data that come with scikit-learn, and linear algebra in one thread; both only where asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any


def data_set(name: str) -> Any:
    """Return what ``sklearn.datasets.load_<name>()`` returns; nothing is downloaded.

    Raises
    ------
    ImportError
        If scikit-learn is absent.
    """
    try:
        datasets = import_module("sklearn.datasets")
    except ImportError:
        raise ImportError(
            "these data come with scikit-learn: pip install 'noisy-sgd-audit[learn]'"
        ) from None
    return getattr(datasets, f"load_{name}")()


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra to one thread, which gives the same bits on every number of cores.

    The tool for it comes with scikit-learn; without it nothing is changed.
    """
    try:
        limits = import_module("threadpoolctl").threadpool_limits
    except ImportError:
        return nullcontext()
    return limits(limits=1)  # type: ignore[no-any-return]

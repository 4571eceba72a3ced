"""Answer the requests that a worker receives. Runs in the worker."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Any

from audit.isolation.user_code import UserCodeError, import_module, in_one_line, load


class Answers:
    """The requested user function and the task that calls it."""

    def __init__(self) -> None:
        self._function: Any = None
        self._task: Callable[..., Any] | None = None
        self._reference = ""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``{"value": ...}`` or ``{"error": text}``; never raise."""
        try:
            if "module" in request:
                self._begin(**request)
                return {"value": None}
            if "reference" in request:
                self._find(**request)
                return {"value": None}
            assert self._task is not None
            value = self._task(self._function, *request["arguments"])
        except UserCodeError as error:
            return {"error": str(error)}
        except BaseException as error:  # user code may raise anything
            text = in_one_line(error, self._function)
            if "module" in request:
                return {"error": f"{request['module']} cannot be imported: {text}"}
            return {"error": f"{self._reference} raised {text}"}
        try:
            dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            kind = type(error).__name__
            return {"error": f"{self._reference} returned a value that is not plain data: {kind}"}
        return {"value": value}

    def _begin(self, module: str, task: str, name: str, folders: Sequence[str]) -> None:
        where, _, function = task.partition(":")
        self._task = getattr(importlib.import_module(where), function)
        import_module(module, name=name, folders=[Path(folder) for folder in folders])

    def _find(self, reference: str, name: str) -> None:
        self._reference = reference
        self._function = load(reference, name=name)

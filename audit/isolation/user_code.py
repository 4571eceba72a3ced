"""Find, import and call code that a file names as ``package.module:name``."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from json import dumps
from pathlib import Path
from types import ModuleType
from typing import Any

from audit import validate
from audit.codec.hints import did_you_mean

_MAX_SHOWN = 300  # characters of an exception message


class UserCodeError(ValueError):
    """User code cannot be imported, raised or exceeded a limit; the message is one line."""


def load(reference: str, *, name: str = "function", folders: Sequence[Path] = ()) -> Any:
    """Import and return the object that ``package.module:name`` names.

    Installed modules take precedence over modules in ``folders``. The folders that were searched
    stay on ``sys.path``, so that later imports of the module succeed.
    """
    try:
        validate.reference(**{name: reference})
    except ValueError as error:
        raise UserCodeError(str(error)) from None
    module, _, attribute = reference.partition(":")
    found: Any = import_module(module, name=name, folders=folders)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            public = [each for each in vars(found) if not each.startswith("_")]
            raise UserCodeError(
                f"{name} must name a function or class of {module}, got {attribute!r}"
                f"{did_you_mean(attribute, public)}"
            ) from None
    return found


def call(function: Callable[..., Any], *arguments: Any, message: str, **named: Any) -> Any:
    """Call a user function and turn any exception into a one-line `UserCodeError`."""
    try:
        return function(*arguments, **named)
    except (Exception, SystemExit) as error:
        raise UserCodeError(f"{message} {in_one_line(error, function)}") from error


# no example, which would change sys.path
def search_in(*folders: Path) -> list[str]:  # numpydoc ignore=EX01
    """Append folders to ``sys.path``, after all installed packages."""
    places = list(dict.fromkeys(str(folder.resolve()) for folder in folders))
    sys.path.extend(place for place in places if place not in sys.path)
    return places


def import_module(module: str, *, name: str, folders: Iterable[Path]) -> ModuleType:
    """Import a module from an installed package or from ``folders``; see `load`."""
    places = search_in(*folders)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module == missing or module.startswith(f"{missing}."):
            raise UserCodeError(
                f"{name} must name a module that is installed, beside the file or in the "
                f"current folder, got {module!r}{did_you_mean(module, _near(module, places))}"
            ) from None
        raise UserCodeError(f"{module} cannot be imported: {in_one_line(error)}") from error
    except KeyboardInterrupt:  # pressed on the terminal
        raise
    except BaseException as error:
        raise UserCodeError(f"{module} cannot be imported: {in_one_line(error)}") from error


def _near(module: str, places: Sequence[str]) -> list[str]:
    """Return the names of the modules of the same package in any of the folders."""
    package, dot, _ = module.rpartition(".")
    inside = Path(*package.split(".")) if package else Path()
    files = [file for place in places for file in Path(place, inside).glob("*.py")]
    return sorted({f"{package}{dot}{file.stem}" for file in files})


def in_one_line(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    r"""Format an exception as one line, with the line of user code that raised it."""
    frames = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ][1:]
    function = getattr(function, "func", function)  # unwrap a partial
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    own = [at for at in frames if code is not None and at[0] == code.co_filename]
    place = (own or [at for at in frames if "importlib" not in at[0]])[-1:]
    where = "".join(f" ({Path(file).name}, line {line})" for file, line in place)
    text = _text(error)
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"


def _text(error: BaseException) -> str:
    """Return the message of an exception in one line, truncated if it is long."""
    try:
        words = " ".join(str(error).split())
        text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in words)
    except BaseException:  # its __str__ is user code
        return "(its message cannot be shown)"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


class Answers:
    """The requested user function and the task that calls it. Lives in a worker."""

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

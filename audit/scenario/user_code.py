"""Code that a scenario names as ``package.module:function``: found, imported, called."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from audit import validate
from audit.codec import did_you_mean
from audit.scenario.shipped import scenarios_folder


def load(reference: str, *, name: str = "function", folders: Sequence[Path] = ()) -> Any:
    """Return what ``package.module:function`` names.

    Installed modules come first, then those in ``folders``, in the current folder, and in the
    folder of shipped scenarios. Folders where a module was looked for stay on ``sys.path``, so that
    what the module imports later is found too.

    Parameters
    ----------
    reference
        The module and the name in it.
    name
        What messages call the reference.
    folders
        Folders to look in, such as the one that holds the scenario file.

    Raises
    ------
    ValueError
        If there is no such module or nothing of that name in it, or the module cannot be imported.
    """
    module, mark, attribute = reference.partition(":")
    if not (mark and module and attribute):
        raise validate.fail(name, "package.module:function", reference)
    found = _imported(module, name, [*folders, Path.cwd(), scenarios_folder()])
    try:
        return getattr(found, attribute)
    except AttributeError:
        public = [each for each in vars(found) if not each.startswith("_")]
        raise ValueError(
            f"{name} must name a function or class of {module}, got {attribute!r}"
            f"{did_you_mean(attribute, public)}"
        ) from None


def reference(found: Any) -> str | None:
    """Return the ``package.module:name`` of a user's function or class, None for the package's."""
    module = str(found.__module__)
    return None if module.partition(".")[0] == "audit" else f"{module}:{found.__qualname__}"


def call(function: Callable[..., Any], *arguments: Any, message: str, **named: Any) -> Any:
    """Return what a function of the user's returns; whatever it raises becomes one line.

    Raises
    ------
    ValueError
        If the function raises an exception or ends the process: ``message``, and what and where.
    """
    try:
        return function(*arguments, **named)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{message} {in_one_line(error, function)}") from error


def search_in(*folders: Path) -> list[str]:
    """Make the modules of these folders importable, after all that is installed."""
    places = list(dict.fromkeys(str(folder.resolve()) for folder in folders))
    sys.path.extend(place for place in places if place not in sys.path)
    return places


def _imported(module: str, name: str, folders: Iterable[Path]) -> ModuleType:
    places = search_in(*folders)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module == missing or module.startswith(f"{missing}."):
            raise ValueError(
                f"{name} must name a module that is installed, beside the scenario or in the "
                f"current folder, got {module!r}{did_you_mean(module, _near(module, places))}"
            ) from None
        raise ValueError(f"{module} cannot be imported: {in_one_line(error)}") from error
    except (Exception, SystemExit) as error:
        raise ValueError(f"{module} cannot be imported: {in_one_line(error)}") from error


def _near(module: str, places: Sequence[str]) -> list[str]:
    """Return the modules that lie in the same package in any of the folders."""
    package, dot, _ = module.rpartition(".")
    inside = Path(*package.split(".")) if package else Path()
    files = [file for place in places for file in Path(place, inside).glob("*.py")]
    return sorted({f"{package}{dot}{file.stem}" for file in files})


def in_one_line(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """Return the exception and the line of the user's code that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    function = getattr(function, "func", function)  # of a partial
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    at = (own or [frame for frame in frames if "importlib" not in frame.filename])[-1:]
    place = "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in at)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"

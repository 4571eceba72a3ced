"""Code that a file names as ``package.module:name``: found, imported, called."""

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

_MOST_SHOWN = 300  # characters of a message that a user's code raised


class UserCodeError(ValueError):
    """A user's code cannot be imported, raised, or broke a limit; the message is one line."""


def load(reference: str, *, name: str = "function", folders: Sequence[Path] = ()) -> Any:
    """Return what ``package.module:name`` names; the name may have dots.

    Installed modules come first, then those in ``folders``. Folders where a module was looked for
    stay on ``sys.path``, so that what the module imports later is found too.

    Parameters
    ----------
    reference
        The module and the name in it.
    name
        What messages call the reference.
    folders
        Folders to look in, such as the one that holds the file that names it.

    Raises
    ------
    UserCodeError
        If there is no such module or nothing of that name in it, or the module cannot be imported:
        importing runs a user's code, which may raise anything.
    """
    module, mark, attribute = reference.partition(":")
    if not (mark and module and attribute):
        raise UserCodeError(str(validate.fail(name, "package.module:function", reference)))
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
    """Return what a function of the user's returns; whatever it raises becomes one line.

    Raises
    ------
    UserCodeError
        If the function raises an exception or ends the process: ``message``, and what and where.
    """
    try:
        return function(*arguments, **named)
    except (Exception, SystemExit) as error:
        raise UserCodeError(f"{message} {in_one_line(error, function)}") from error


def search_in(*folders: Path) -> list[str]:
    """Make the modules of these folders importable, after all that is installed."""
    places = list(dict.fromkeys(str(folder.resolve()) for folder in folders))
    sys.path.extend(place for place in places if place not in sys.path)
    return places


def import_module(module: str, *, name: str, folders: Iterable[Path]) -> ModuleType:
    """Import a module from where `load` looks; see there."""
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
    except KeyboardInterrupt:  # of the terminal
        raise
    except BaseException as error:
        raise UserCodeError(f"{module} cannot be imported: {in_one_line(error)}") from error


def _near(module: str, places: Sequence[str]) -> list[str]:
    """Return the modules that lie in the same package in any of the folders."""
    package, dot, _ = module.rpartition(".")
    inside = Path(*package.split(".")) if package else Path()
    files = [file for place in places for file in Path(place, inside).glob("*.py")]
    return sorted({f"{package}{dot}{file.stem}" for file in files})


def in_one_line(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """Return the exception and the line of the user's code that it comes from."""
    frames = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ][1:]
    function = getattr(function, "func", function)  # of a partial
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    own = [at for at in frames if code is not None and at[0] == code.co_filename]
    place = (own or [at for at in frames if "importlib" not in at[0]])[-1:]
    where = "".join(f" ({Path(file).name}, line {line})" for file, line in place)
    text = _text(error)
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"


def _text(error: BaseException) -> str:
    """Return the message of an exception in one line, cut where it is long."""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # its own code makes the text
        return "(its message cannot be shown)"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."

"""Deterministic fingerprint of a job: the same text in every process, for the same job."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import json
import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

import audit

STREAM = 2  # version of the random numbers: it changes when a seed comes to mean other numbers
Known = dict[type, dict[str, Any]]
_MEMBERS = (bool, int, float, str, tuple, list, np.ndarray, types.FunctionType)


def software() -> dict[str, str]:
    """Return the versions of what random numbers and counts depend on."""
    return {
        "noisy-sgd-audit": audit.__version__,
        "numpy": np.__version__,
        "numba": _numba_version(),
        "random numbers": f"stream {STREAM}",
    }


@functools.cache
def _numba_version() -> str:
    from importlib import metadata  # half of the time that importing this module would take

    return metadata.version("numba")  # without the second that its import takes


def digest_of(value: Any) -> str:
    """Return the SHA-256 of what `described` returns, as hexadecimal digits."""
    return hashlib.sha256(canonical({"described": described(value)}).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Return the canonical JSON text of plain data: sorted keys, no spaces.

    Floats keep every digit. Tuples become lists and keys become strings.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def described(value: Any, outer: tuple[int, ...] = (), known: Known | None = None) -> Any:
    """Return plain data that identify a value, the same in every process.

    Numbers, strings, None and lists are kept. A dataclass becomes its type and its fields, and if
    it can be called, its methods and constants, inherited ones too; an enum its name, an array a
    digest of its bytes. A function becomes its module, its name, a digest of its compiled code (two
    lambdas on one line share a source text), its defaults and its closure.
    Globals that a function reads are not included: after a change to them, use a new folder.
    Another version of Python compiles functions differently, and so describes them differently.
    ``outer`` are the ids of the values that hold this one, ``known`` the classes described already.
    """
    known = {} if known is None else known
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if id(value) in outer:
        raise _indescribable(value, "it holds itself")
    inner = functools.partial(described, outer=(*outer, id(value)), known=known)
    if isinstance(value, type):
        return {"type": "class", "name": _name(value)}
    if dataclasses.is_dataclass(value):
        fields = {f.name: inner(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": _name(type(value)), **fields, **_called(type(value), inner, known)}
    if isinstance(value, Mapping):
        return {str(key): inner(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [inner(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _array(np.asarray(value))
    if isinstance(value, np.ufunc) and _is_shipped(value):
        return {"type": "numpy.ufunc", "name": value.__name__}
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        return {"type": "functools.partial", "parts": inner(parts)}
    if isinstance(value, types.MethodType):
        return {"type": "method", "parts": inner((value.__func__, value.__self__))}
    function = getattr(value, "py_func", value)  # what Numba compiles
    if isinstance(function, types.FunctionType):
        return _function(function, inner)
    raise _indescribable(value, "it is no plain data")


def _is_shipped(ufunc: np.ufunc) -> bool:
    """Return whether NumPy or SciPy has it, whose versions fix what it does."""
    shelves = np, sys.modules.get("scipy.special")
    return any(getattr(each, ufunc.__name__, None) is ufunc for each in shelves)


def _called(kind: type, inner: Any, known: Known) -> dict[str, Any]:
    """Describe what a class whose objects are called, such as an update map, computes with."""
    if kind not in known:
        known[kind] = {}  # for objects of the class among its members
        classes = kind.__mro__[:-1]
        is_called = any("__call__" in vars(each) for each in classes)
        members = {
            f"{_name(each)}.{name}": _unwrapped(member)
            for each in classes
            for name, member in vars(each).items()
            if is_called and (name == "__call__" or not name.startswith("__"))
        }
        known[kind] = {
            name: inner(one) for name, one in members.items() if isinstance(one, _MEMBERS)
        }
    return known[kind]


def _unwrapped(member: Any) -> Any:
    """Return the function of a property or a bound method."""
    for function in ("fget", "func", "__func__"):
        member = getattr(member, function, member)
    return member


def _function(function: types.FunctionType, inner: Any) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    try:
        closed = {name: cell.cell_contents for name, cell in cells}
    except ValueError:  # a cell that is empty yet
        raise _indescribable(function, "what it closes over is not there yet") from None
    return {
        "type": "function",
        "name": _name(function),
        "code": hashlib.sha256(repr(_code(function.__code__)).encode()).hexdigest(),
        "defaults": inner((function.__defaults__ or (), function.__kwdefaults__ or {})),
        "closure": inner(closed),
    }


def _code(code: types.CodeType) -> tuple[Any, ...]:
    constants = tuple(_constant(constant) for constant in code.co_consts)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, code.co_exceptiontable, code.co_flags, names, constants


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return tuple(_constant(item) for item in value)
    if isinstance(value, frozenset):  # its order differs from process to process
        return "frozenset", sorted(repr(_constant(item)) for item in value)
    return value


def _array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    if array.dtype.hasobject:
        raise _indescribable(array, "it holds objects")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "type": str(array.dtype),
        "shape": list(array.shape),
        "sha256": hashlib.sha256(little.tobytes()).hexdigest(),
    }


def _name(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def _indescribable(value: object, reason: str) -> ValueError:
    return ValueError(
        f"a recorded job must be described the same way in every process, got {value!r}: {reason}"
    )

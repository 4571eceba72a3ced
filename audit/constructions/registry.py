"""The registry of constructions, and neighbouring pairs as plain data.

A construction is a frozen dataclass that registers itself in the file that defines it::

    @construction
    @dataclass(frozen=True)
    class MyPair(Construction):
        drift: float            # must be given
        start: float = 0.0      # is not written at its default

        citation: ClassVar[str] = "Author 2030, section 4"

        def processes(self) -> tuple[Process, Process]: ...

Scenarios, claims files, search files, results and the command line read and write it as
``{"kind": "MyPair", "drift": 0.1}``. A file in this folder needs no other mention.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, TypeVar

from audit import codec, validate
from audit.constructions.base import Construction
from audit.mechanism import NoisySGD

_Class = TypeVar("_Class", bound=type[Construction])
_KINDS: dict[str, type[Construction]] = {}


def construction(cls: _Class) -> _Class:
    """Register a construction under its class name; a class decorator above ``@dataclass``.

    Raises
    ------
    ValueError
        If the class is no dataclass, is no pair of neighbouring datasets, or has the name of
        another construction.
    """
    if not dataclasses.is_dataclass(cls) or cls.__name__ != cls.kind:
        raise validate.fail("construction", "a dataclass derived from Construction", cls)
    if not cls.is_neighbouring:
        raise validate.fail("construction", "a pair of neighbouring datasets", cls)
    known = _KINDS.get(cls.kind, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(
            f"construction must have a name of its own, got {cls.kind!r}, "
            f"which {known.__module__} has already"
        )
    _KINDS[cls.kind] = cls
    return cls


def kinds() -> Mapping[str, type[Construction]]:
    """Return every registered construction by its class name, in alphabetical order."""
    _import_all()
    return dict(sorted(_KINDS.items()))


def encode_pair(pair: Construction) -> dict[str, Any]:
    """Return a pair as plain data: its kind and its own fields, without those at their default.

    The mechanism is left out; see `audit.mechanism.encode_mechanism`.

    Examples
    --------
    >>> import audit
    >>> m = audit.NoisySGD(steps=5, dataset_size=4, batch_size=4, step_size=1.0, noise_std=1.0,
    ...                    lipschitz=1.0)
    >>> encode_pair(audit.constructions.DriftedWalk(m, drift=0.1))
    {'kind': 'DriftedWalk', 'drift': 0.1}
    """
    encoded: dict[str, Any] = codec.encode(pair, defaults=False)
    del encoded["mechanism"]
    return encoded


def decode_pair(plain: Any, mechanism: NoisySGD, name: str = "pair") -> Construction:
    """Return the pair that plain data stands for.

    Parameters
    ----------
    plain
        A mapping of ``kind`` and the fields of that kind, or the kind alone. A piecewise linear
        gradient is a number (a constant) or a mapping of ``points``, ``values`` and ``slopes``.
    mechanism
        The mechanism of the pair.
    name
        What messages call the pair: ``"pair.drift must be ..."``.

    Raises
    ------
    ValueError
        If the kind is unknown, a field is not one of the kind's or is missing, or the losses
        break an assumption of the mechanism.
    """
    if isinstance(plain, str):
        plain = {"kind": plain}
    if not isinstance(plain, Mapping):
        raise validate.fail(name or "pair", "a mapping with a kind", plain)
    pair: Construction = codec.decode(
        _find(plain.get("kind"), name), plain, name, given={"mechanism": mechanism}
    )
    return pair


def _find(kind: object, name: str) -> type[Construction]:
    """Return a construction by name; files that nobody has imported yet are looked through."""
    if kind not in tuple(_KINDS):
        _import_all()
    if not isinstance(kind, str) or kind not in _KINDS:
        known = ", ".join(kinds())
        got = "nothing" if kind is None else f"{kind!r}{codec.did_you_mean(kind, _KINDS)}"
        raise codec.DecodeError(name, ("kind",), f"must be one of {known}, got {got}")
    return _KINDS[kind]


def _import_all() -> None:
    """Import every module of this folder, so that its constructions are registered."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")

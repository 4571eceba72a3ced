"""The registry of constructions, and neighbouring pairs as plain data.

A construction is a frozen dataclass that registers itself in the file that defines it::

    @construction
    @dataclass(frozen=True)
    class MyPair(Construction):
        drift: float            # required
        start: float = 0.0      # omitted from files at its default

        citation: ClassVar[str] = "Author 2030, section 4"

        def processes(self) -> tuple[Process, Process]: ...

Scenarios, claims files, search files, results and the command line read and write it as
``{"kind": "MyPair", "drift": 0.1}``. Files in this folder are imported automatically.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from audit import codec, validate
from audit.codec.hints import did_you_mean, kind_of
from audit.constructions.base import Construction
from audit.mechanism import Composition, NoisySGD

if TYPE_CHECKING:
    from audit.constructions.explicit import ExplicitPair

_T = TypeVar("_T")
_Class = TypeVar("_Class", bound=type)
_KINDS: dict[str, type[Any]] = {}
_NOWHERE: tuple[str, ...] = ()


def construction(cls: _Class) -> _Class:
    """Register a construction or an explicit pair under its class name, as a decorator.

    Goes above ``@dataclass``.

    Parameters
    ----------
    cls : type
        A frozen dataclass derived from `Construction` or `ExplicitPair`.

    Returns
    -------
    type
        The class, unchanged.

    Raises
    ------
    ValueError
        If the class is not such a dataclass, is not a pair of neighbouring datasets, or has the
        name of another construction.

    Examples
    --------
    >>> import audit
    >>> sorted(audit.constructions.kinds())[:2]
    ['BiasedWalk', 'ChangingPair']
    """
    if not dataclasses.is_dataclass(cls) or kind_of(cls) != cls.__name__:
        raise validate.fail("construction", "a dataclass derived from Construction", cls)
    if not getattr(cls, "is_neighbouring", True):
        raise validate.fail("construction", "a pair of neighbouring datasets", cls)
    known = _KINDS.get(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(
            f"construction must have a unique name, got {cls.__name__!r}, "
            f"which {known.__module__} already defines"
        )
    _KINDS[cls.__name__] = cls
    return cls


def kinds() -> Mapping[str, type[Construction]]:
    """Return the registered constructions by class name.

    Returns
    -------
    mapping of str to type
        Classes by name, in alphabetical order.

    Examples
    --------
    >>> kinds()["DriftedWalk"].__name__
    'DriftedWalk'
    """
    return {kind: cls for kind, cls in all_kinds().items() if issubclass(cls, Construction)}


def all_kinds() -> Mapping[str, type[Construction] | type[ExplicitPair]]:
    """Return the registered pairs by class name: constructions and explicit distributions."""
    _import_all()
    return dict(sorted(_KINDS.items()))


@functools.cache
def _import_all() -> None:
    """Import the modules of this package, which register their pairs."""
    for module in pkgutil.iter_modules(importlib.import_module(__package__).__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def suggested_members(
    mechanism: NoisySGD | Composition,
) -> Iterator[Construction | ExplicitPair]:
    """Yield the members that the registered pairs suggest for a mechanism.

    The kinds take turns, the simplest first, each with its strongest member first.
    """
    kinds = sorted(all_kinds().values(), key=lambda cls: len(dataclasses.fields(cls)))
    turns: Iterator[tuple[Construction | ExplicitPair | None, ...]]
    turns = itertools.zip_longest(*(cls.suggested(mechanism) for cls in kinds))
    for pair in itertools.chain.from_iterable(turns):
        if pair is not None:
            yield pair


def encode_pair(pair: Construction | ExplicitPair) -> dict[str, Any]:
    """Return a pair as plain data: its kind and its own fields that differ from their default.

    The mechanism is omitted; see `audit.mechanism.encode_mechanism`.
    """
    encoded: dict[str, Any] = codec.encode(pair, defaults=False)
    encoded.pop("mechanism", None)
    return encoded


def decode_pair(plain: Any, mechanism: NoisySGD, name: str = "pair") -> Construction:
    """Return the construction described by plain data."""
    known, fields = _known(plain, kinds(), name)
    pair: Construction = codec.decode(known, fields, name, given={"mechanism": mechanism})
    return pair


def decode_any_pair(
    plain: Any, mechanism: NoisySGD | None, name: str = "pair"
) -> Construction | ExplicitPair:
    """Return the construction or the explicit pair described by plain data.

    Fields with a default may be omitted, as in claims files.
    """
    known, fields = _known(plain, all_kinds(), name)
    given: dict[str, Any] = {}
    if "mechanism" in known.__dataclass_fields__:
        if mechanism is None:
            problem = f"must be given for {validate.with_article(known.__name__)}, got nothing"
            raise codec.DecodeError.at("mechanism", (), problem)
        given["mechanism"] = mechanism
    required = {
        field.name: field.default
        for field in dataclasses.fields(known)
        if field.metadata.get("required") and field.default is not dataclasses.MISSING
    }
    filled = {**required, **fields}
    pair: Construction | ExplicitPair = codec.decode(known, filled, name, given=given)
    return pair


def decode_laws(plain: Any, name: str = "laws") -> ExplicitPair:
    """Return the explicit laws described by plain data, with their kind in words.

    ``{"randomised response": {"epsilon": 1}}`` is equivalent to ``{"kind": "RandomisedResponse",
    "epsilon": 1}``, which is accepted as well.
    """
    from audit.constructions.explicit import ExplicitPair

    known = {
        kind_in_words(kind): kind
        for kind, cls in all_kinds().items()
        if issubclass(cls, ExplicitPair) and "mechanism" not in cls.__dataclass_fields__
    }
    if not isinstance(plain, Mapping) or ("kind" not in plain and len(plain) != 1):
        raise validate.fail(name, "a mapping of one kind of laws to its fields", plain)
    if "kind" in plain:
        word, fields, prefix = str(plain["kind"]), plain, _NOWHERE
    else:
        ((word, fields),) = plain.items()
        prefix = (str(word),)
    kinds = {_bare(words): kind for words, kind in known.items()}
    if _bare(str(word)) not in kinds:
        close = did_you_mean(word, known)
        problem = f"must be one of {', '.join(known)}, got {validate.shown(word)}{close}"
        raise codec.DecodeError.at(f"{name}.kind", prefix, problem, " ")
    if not isinstance(fields, Mapping):
        raise codec.DecodeError.at(
            name, prefix, f"must be a mapping of its fields, got {validate.shown(fields)}"
        )
    try:
        pair = decode_any_pair({**fields, "kind": kinds[_bare(str(word))]}, None, name)
    except codec.DecodeError as error:
        raise codec.DecodeError(str(error), (*prefix, *error.path), error.problem) from None
    assert isinstance(pair, ExplicitPair)
    return pair


def kind_in_words(kind: str) -> str:
    """Return the name of a class in lower-case words, such as ``"randomised response"``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()


def _bare(word: str) -> str:
    return re.sub(r"[\s_-]", "", word).lower()


def _known(
    plain: Any, known: Mapping[str, type[_T]], name: str
) -> tuple[type[_T], Mapping[str, Any]]:
    """Return the class that plain data name, and the data as a mapping."""
    fields = {"kind": plain} if isinstance(plain, str) else plain
    if not isinstance(fields, Mapping):
        raise validate.fail(name or "pair", "a mapping with a kind", plain)
    kind = fields.get("kind", "")
    kind = kind if isinstance(kind, str) else repr(kind)
    if kind in known:
        return known[kind], fields
    got = f"{kind!r}{did_you_mean(kind, known)}" if kind else "nothing"
    raise codec.DecodeError.at(name, ("kind",), f"must be one of {', '.join(known)}, got {got}")

"""Dataclasses to plain data and back, driven by their type hints.

`encode` and `decode` convert everything that the package writes to or reads from YAML and JSON:
mechanisms, neighbouring pairs, claims, found pairs, witnesses and results. The fields of a
dataclass are its schema; `audit.codec.schemas` writes them as a JSON Schema.

=========================================  =====================================================
Python                                     plain data
=========================================  =====================================================
dataclass                                  mapping of its fields, in their order
dataclass with ``kind: ClassVar[str]``     the same, with ``kind`` first
enum member                                its value, in lower-case words
tuple, list, NumPy array                   list
mapping                                    mapping with text keys
path                                       text
infinite or undefined float                ``"inf"``, ``"-inf"`` or ``"nan"``
None, bool, int, float, str                itself
=========================================  =====================================================

``kind`` distinguishes the dataclasses of a union, one of which may have none; that of a `Tagged`
class is its name. A class may accept
shorthands: its class method ``expand_shorthand(plain)`` returns the full mapping, or its argument
unchanged. Its attribute ``shorthands`` holds their hints for schemas, by field ("" for the whole
mapping). An attribute ``alternatives`` lists groups of fields, exactly one of which must be given;
the class itself checks this.

Choices are read in any spelling: value or name, upper or lower case, with spaces, hyphens or
underscores. A union of ``float`` and ``str`` reads ``inf``, ``-inf`` and ``nan`` as numbers; hints
``Any`` convert nothing, and ``Annotated[X, check]`` reads an X that ``check(value)`` accepts, or
refuses by a ``ValueError``.

>>> from audit.mechanism import Batching
>>> encode({"batching": Batching.WITHOUT_REPLACEMENT, "bracket": (1.5, float("inf"))})
{'batching': 'without replacement', 'bracket': [1.5, 'inf']}
>>> decode(tuple[Batching, ...], ["poisson", "WITHOUT_REPLACEMENT"])
(<Batching.POISSON: 'poisson'>, <Batching.WITHOUT_REPLACEMENT: 'without replacement'>)
"""

from audit.codec.hints import DecodeError, Tagged, decode, encode

__all__ = ["DecodeError", "Tagged", "decode", "encode"]

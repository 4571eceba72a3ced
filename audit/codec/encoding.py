"""Encoding: values to plain data."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.codec.hints import MISSING, default_of, init_fields, kind_of


def encode(value: Any, *, defaults: bool = True) -> Any:
    """Return a value as plain data: mappings, lists, text, numbers, booleans and None.

    The table in `audit.codec` says how. Without ``defaults`` fields that have their default are
    left out. Raises ``TypeError`` if the value, or one inside it, has no plain form.
    """
    if isinstance(value, enum.Enum):
        return encode(value.value)
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))  # inf, -inf or nan
    if isinstance(value, np.generic | np.ndarray):
        return encode(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_fields(value, defaults)
    if isinstance(value, Mapping):
        return {_encode_key(key): encode(item, defaults=defaults) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [encode(item, defaults=defaults) for item in value]
    raise TypeError(f"value must be made of dataclasses and plain data, got {value!r}")


def _encode_key(key: object) -> str:
    plain = encode(key)
    if isinstance(plain, str):
        return plain
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        return repr(plain)
    raise TypeError(f"keys must be text or numbers, got {key!r}")


def _encode_fields(value: Any, defaults: bool) -> dict[str, Any]:
    cls: type = type(value)
    kind = kind_of(cls)
    encoded: dict[str, Any] = {} if kind is None else {"kind": kind}
    for name, field in init_fields(cls).items():
        item = getattr(value, name)
        if defaults or not _is_default(item, field):
            encoded[name] = encode(item, defaults=defaults)
    return encoded


def _is_default(item: Any, field: dataclasses.Field[Any]) -> bool:
    default = default_of(field)
    if isinstance(item, np.ndarray) or isinstance(default, np.ndarray):
        return np.array_equal(item, default)
    return default is not MISSING and bool(item == default)

"""Parameters of a construction from plain values, as files have them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, get_type_hints

from audit import validate
from audit.constructions.base import Construction
from audit.constructions.process import PiecewiseLinear

_LINE_KEYS = ("points", "values", "slopes")


def read_parameters(kind: type[Construction], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a construction from plain values.

    Parameters
    ----------
    kind
        The construction.
    values
        Its fields by name. A piecewise linear gradient is a number (a constant) or a mapping of
        ``points``, ``values`` and ``slopes``; a choice is the name of the member. Names that the
        construction does not have stay as they are: its own signature refuses them.

    Raises
    ------
    ValueError
        If a gradient is no broken line, or a choice is none of its enum.
    """
    hints = get_type_hints(kind)
    return {name: _read(name, hints.get(name), value) for name, value in values.items()}


def _read(name: str, hint: Any, value: Any) -> Any:
    if hint in (PiecewiseLinear, PiecewiseLinear | None) and value is not None:
        return _line(name, value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum) and not isinstance(value, hint):
        validate.one_of(tuple(hint.__members__), **{name: value})
        return hint[value]
    return value


def _line(name: str, value: Any) -> PiecewiseLinear:
    if isinstance(value, PiecewiseLinear):
        return value
    if not isinstance(value, Mapping):
        validate.finite(**{name: value})
        return PiecewiseLinear.constant(float(value))
    if set(value) != set(_LINE_KEYS):
        raise ValueError(
            f"{name} must be a number or hold {', '.join(_LINE_KEYS)}, got {', '.join(value)}"
        )
    try:
        points, values, slopes = (tuple(value[key]) for key in _LINE_KEYS)
        return PiecewiseLinear(points, values, slopes)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a broken line: {error}") from None

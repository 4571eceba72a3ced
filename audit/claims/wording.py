"""Numbers and pairs in messages."""

from __future__ import annotations

import dataclasses
import math
import re

from audit.claims.claim import Pair

_MIN_DIGITS, _MAX_DIGITS = 3, 17


def tidy(text: str) -> str:
    """Return the text with short exponents: ``1e-5`` for ``1e-05``."""
    return re.sub(r"e([+-])0+(?=\d)", lambda found: f"e{found[1].replace('+', '')}", text)


def apart(first: float, second: float, most: int = _MAX_DIGITS) -> tuple[str, str]:
    """Format two numbers with three digits, or as many (up to ``most``) as distinguish them."""
    shown = "", ""
    for digits in range(_MIN_DIGITS, most + 1):
        shown = _digits(first, digits), _digits(second, digits)
        if shown[0] != shown[1] or first == second:
            break
    return shown


def _digits(number: float, digits: int) -> str:
    return f"{number:#.{digits}g}".rstrip(".") if math.isfinite(number) else f"{number:g}"


def described(pair: Pair) -> str:
    """Return a pair's name with its non-default numbers."""
    numbers = [
        f"{field.name}={getattr(pair, field.name):.6g}"
        for field in dataclasses.fields(pair)
        if isinstance(getattr(pair, field.name), int | float)
        and getattr(pair, field.name) != field.default
    ]
    return f"{pair.name}({', '.join(numbers)})" if numbers else pair.name

"""One-line descriptions of judgements and pairs."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING

from audit.claims.claim import Expected, LooseBy
from audit.claims.judgement import Judgement
from audit.results import Verdict

if TYPE_CHECKING:
    from audit.claims.claim import Pair

_FEWEST_DIGITS, _MOST_DIGITS = 3, 17


def line(judgement: Judgement) -> str:
    """Return the verdict of a judgement, and the expected one if it differs.

    ``claim 'x' refuted: certified epsilon 1.31 > claimed 1.00 at delta 1e-5``
    """
    expected = judgement.claim.expected
    head = f"claim {judgement.claim.id!r} {judgement.verdict.value}"
    if not judgement.as_expected:
        ratio = judgement.tightness
        if judgement.verdict is Verdict.REFUTED:
            pass  # an unexpected refutation needs no more words
        elif isinstance(expected, Expected):
            head += f", expected {expected.value}"
        elif judgement.verdict is Verdict.CONSISTENT and ratio is not None:
            head += f" but loose by {ratio:.4g}, expected at most {expected.factor:g}"
        else:
            head += f", expected {expectation(expected)}"
    return f"{head}: {_numbers(judgement) or judgement.message}"


def _numbers(judgement: Judgement) -> str:
    """Return the comparison that decides; empty if the verdict has another reason."""
    claimed, certified, quantity = judgement.claimed, judgement.certified, judgement.quantity
    decided = judgement.verdict in (Verdict.CONSISTENT, Verdict.REFUTED)
    if claimed is None or certified is None or quantity is None or not decided:
        return ""
    if judgement.claim.statement.exceeded:
        return ""
    left, right = apart(certified, claimed)
    sign = ">" if certified > claimed else "<="
    place = f" at {where(judgement)}" if judgement.where else ""
    return f"certified {quantity.name} {left} {sign} claimed {right}{place}"


def where(judgement: Judgement) -> str:
    """Return the place where the claim is tightest."""
    return tidy(judgement.where)


def tidy(text: str) -> str:
    """Return the text with short exponents: ``1e-5`` for ``1e-05``."""
    return re.sub(r"e([+-])0+(?=\d)", lambda found: f"e{found[1].replace('+', '')}", text)


def apart(first: float, second: float, most: int = _MOST_DIGITS) -> tuple[str, str]:
    """Format two numbers with three digits, or as many (up to ``most``) as distinguish them."""
    shown = "", ""
    for digits in range(_FEWEST_DIGITS, most + 1):
        shown = _digits(first, digits), _digits(second, digits)
        if shown[0] != shown[1] or first == second:
            break
    return shown


def _digits(number: float, digits: int) -> str:
    return f"{number:#.{digits}g}".rstrip(".") if math.isfinite(number) else f"{number:g}"


def expectation(expected: Expected | LooseBy) -> str:
    """Return the expected outcome of a claim in a word or two."""
    if isinstance(expected, LooseBy):
        return f"loose by at most {expected.factor:g}"
    return expected.value


def described(pair: Pair) -> str:
    """Return a pair's name with its non-default numbers."""
    numbers = [
        f"{field.name}={getattr(pair, field.name):.6g}"
        for field in dataclasses.fields(pair)
        if isinstance(getattr(pair, field.name), int | float)
        and getattr(pair, field.name) != field.default
    ]
    return f"{pair.name}({', '.join(numbers)})" if numbers else pair.name

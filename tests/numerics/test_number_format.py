from __future__ import annotations

import math

import pytest

from audit.numerics.number_format import (
    Rounding,
    bracket,
    count,
    duration,
    number,
    plain,
    ratio,
    share,
)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (3.14159265, 5, "3.1416"),
        (1762.31, 5, "1762.3"),
        (0.01, 3, "0.0100"),
        (1.6049e-53, 2, "1.6e-53"),
        (123456789.0, 3, "1.23e8"),
        (0.0, 4, "0"),
        (-2.5, 3, "-2.50"),
        (math.inf, 4, "inf"),
        (-math.inf, 4, "-inf"),
        (math.nan, 4, "nan"),
        (99999.7, 4, "1.000e5"),
        (0.99999999, 6, "1.00000"),
        (9.9999e-6, 3, "1.00e-5"),
    ],
)
def test_number(value: float, digits: int, expected: str) -> None:
    got = number(value, digits)
    assert got == expected


def test_bounds_are_rounded_to_the_safe_side() -> None:
    for value in (2.99999, 0.123456, 17.0911011, 1e-12 / 3, 987654.321, 5e7 / 3):
        down, up = (float(number(value, 4, r)) for r in (Rounding.DOWN, Rounding.UP))
        assert down <= value <= up
        assert up - down <= 2e-3 * value


@pytest.mark.parametrize(
    ("ends", "digits", "expected"),
    [
        ((3.08728040760, 3.08728040762), 6, "3.08728"),
        ((3.08728040760, 3.08728040762), 12, "3.0872804076"),
        ((210.16410831, 210.16410891), 12, "210.16411"),
        ((1.2341, 1.2349), 6, "1.23"),
        ((1.4, 1.6), 6, "1.400 to 1.600"),
        ((0.0, 1e-13), 6, "0 to 1.000e-13"),
        ((0.0, 0.0), 6, "0"),
        ((128.7312, math.inf), 6, "≥ 128.731"),
        ((math.inf, math.inf), 6, "inf"),
        ((0.99999999, 1.0), 6, "1.00000"),
        ((1e-180, 1.0000000001e-180), 4, "1.000e-180"),
    ],
)
def test_bracket(ends: tuple[float, float], digits: int, expected: str) -> None:
    assert bracket(ends, digits) == expected


def test_bracket_never_claims_a_digit_on_which_its_ends_differ() -> None:
    for middle in (0.49999, 1.0, 3.0872804, 9.99995, 210.164, 7e-9, 12345.678):
        for width in (1e-12, 1e-7, 1e-4, 1e-2, 0.3):
            low, high = middle * (1 - width), middle * (1 + width)
            text = bracket((low, high), 12)
            if " to " in text:
                shown = [float(word) for word in text.split(" to ")]
                assert shown[0] <= low <= high <= shown[1]
            else:
                digits = text.split("e")[0].replace(".", "").lstrip("0")
                step = 10.0 ** (math.floor(math.log10(abs(float(text)))) - len(digits) + 1)
                assert abs(float(text) - low) <= step * 0.5000001
                assert abs(float(text) - high) <= step * 0.5000001


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.1042, "2.104"),
        (1.0, "1.000"),
        (1.0000004, "1.000"),
        (0.9999996, "0.9999996"),
        (0.95554, "0.956"),
        (47.318, "47.32"),
        (None, "–"),
        (math.inf, "inf"),
    ],
)
def test_ratio(value: float | None, expected: str) -> None:
    assert ratio(value) == expected


def test_plain() -> None:
    values = (1e-5, 0.01, 1000, 1000.0, 0.3651483716701107, None, True, "full", [0.5, 1e-7])
    shown = ["1e-5", "0.01", "1000", "1000", "0.365148", "none", "yes", "full", "0.5, 1e-7"]
    assert [plain(value) for value in values] == shown


def test_small_words() -> None:
    assert count(1_000_000) == "1,000,000"
    assert share(0.9299, 1.0) == "92%"
    assert duration(98.24) == "98.2 s"
    assert duration(605.0) == "10 min 5 s"

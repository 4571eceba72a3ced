"""One wording for every bad input."""

from __future__ import annotations

import enum
import math
from fractions import Fraction

import numpy as np
import pytest

from audit import validate

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("check", "good", "bad", "requirement"),
    [
        (validate.finite, [0, -1.5, np.float64(2), np.uint8(2)], [INF, NAN], "a finite number"),
        (validate.positive, [1, 5e-324], [0, -1, INF], "a positive finite number"),
        (validate.nonnegative, [0, 2.5], [-1e-300, NAN], "a finite number of at least 0"),
        (validate.open_unit, [5e-324, 1 - 1e-16], [0, 1, NAN, -INF], r"in \(0, 1\)"),
        (validate.closed_unit, [0, 1, 0.5], [-1e-9, 1.0000001, NAN], r"in \[0, 1\]"),
        (validate.above_one, [1 + 1e-15, 1e9], [1, INF, NAN], "a finite number above 1"),
    ],
)
def test_numbers(check, good, bad, requirement: str) -> None:  # type: ignore[no-untyped-def]
    for value in good:
        check(eta=value)
    for value in [*bad, "1", None, True, np.True_, [1.0], np.array([0.5]), 1j, 10**400]:
        with pytest.raises(ValueError, match=f"^eta must be {requirement}, got "):
            check(eta=value)
    for value in (np.float32(0.5), np.longdouble(0.5), Fraction(1, 2)):  # of another precision
        with pytest.raises(
            ValueError, match=r"^eta must be a float, got .*; write float\(\.\.\.\)$"
        ):
            check(eta=value)


def test_the_name_is_the_callers() -> None:
    with pytest.raises(
        ValueError, match=r"^noise_std must be a positive finite number, got -1\.0$"
    ):
        validate.positive(step_size=1.0, noise_std=-1.0)


def test_integers() -> None:
    validate.integer(1, steps=1, size=np.int64(5), other=np.uint8(2), large=10**400)
    for value in (0, 1.0, True, "1", None, NAN, np.float64(2)):
        with pytest.raises(ValueError, match=r"^steps must be a whole number of at least 1, got "):
            validate.integer(1, steps=value)


def test_arrays() -> None:
    np.testing.assert_array_equal(
        validate.array_in(0, 1, open_ends=False, alpha=[0, 1]), [0.0, 1.0]
    )
    assert validate.array_in(0, 1, open_ends=True, alpha=0.5).shape == ()
    assert validate.array_in(0, 1, open_ends=True, alpha=[]).size == 0
    for value, shown in (([0.5, 2], "2.0"), (NAN, "nan"), ([[0.0]], "0.0"), ("a", "'a'")):
        with pytest.raises(ValueError, match=rf"^alpha must be in \(0, 1\), got {shown}$"):
            validate.array_in(0, 1, open_ends=True, alpha=value)


def test_samples() -> None:
    np.testing.assert_array_equal(validate.sample(x=(1, 2)), [1.0, 2.0])
    for value, message in (
        ([], r"x must be a non-empty one-dimensional array, got shape \(0,\)"),
        (1.0, r"x must be a non-empty one-dimensional array, got shape \(\)"),
        ([[1.0]], r"got shape \(1, 1\)"),
        ([1.0, NAN], "x must hold finite numbers only, got nan at position 1"),
        ([INF], "got inf at position 0"),
        (["a"], "x must be a one-dimensional array of numbers, got"),
    ):
        with pytest.raises(ValueError, match=message):
            validate.sample(x=value)


@pytest.mark.parametrize(
    "value", [[0.5 + 0j], np.array([0.5j]), 0.5 + 1j, np.complex64(0.5), [10**400], [[0.5], [1, 2]]]
)
def test_arrays_that_are_no_floats(value) -> None:  # type: ignore[no-untyped-def]
    """Complex numbers would lose their imaginary part, with a warning, which is an error here."""
    with pytest.raises(ValueError, match=r"^alpha must be in \[0, 1\], got "):
        validate.array_in(0, 1, open_ends=False, alpha=value)
    with pytest.raises(ValueError, match=r"^x must be a one-dimensional array of numbers, got "):
        validate.sample(x=value)


def test_arrays_are_not_copied() -> None:
    given = np.array([0.25, 0.5])
    assert validate.sample(x=given) is given


def test_choices_and_kinds() -> None:
    validate.one_of(("a", "b"), kind="a")
    with pytest.raises(ValueError, match=r"^kind must be one of a, b, got 'c'$"):
        validate.one_of(("a", "b"), kind="c")
    validate.instance(bool, convex=False)
    with pytest.raises(ValueError, match=r"^convex must be a bool, got 1$"):
        validate.instance(bool, convex=1)


@pytest.mark.parametrize("value", [len, None, b"a:b", "a", ":b", "a:", ""])
def test_names_of_functions(value: object) -> None:
    validate.reference(train="package.module:function")
    with pytest.raises(ValueError, match=r"train must be package\.module:function, got "):
        validate.reference(train=value)


def test_a_string_that_spells_a_member_is_told_its_name() -> None:
    class Colour(enum.Enum):
        DARK_RED = "dark red"
        BLUE = "blue"

    for given, hint in (
        ("dark red", "Colour.DARK_RED"),
        ("dark_red", "Colour.DARK_RED"),
        ("BLUE", "Colour.BLUE"),
        ("green", "Colour.DARK_RED or Colour.BLUE"),
    ):
        message = f"paint must be a Colour, got '{given}'; write {hint}"
        with pytest.raises(ValueError, match=f"^{message}$"):
            validate.instance(Colour, paint=given)
    with pytest.raises(ValueError, match=r"^paint must be a Colour, got 3$"):
        validate.instance(Colour, paint=3)


def test_articles() -> None:
    for shown in ("a Path", "an Order", "a UserPair", "an Update"):
        assert validate.with_article(shown.split()[1]) == shown


class Tensor:
    """What NumPy cannot take, and why, as PyTorch says it."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise self.error


GRAD = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Tensor(RuntimeError(GRAD)), f"a one-dimensional array of numbers, got a Tensor ({GRAD})"),
        (
            Tensor(TypeError("Got unsupported ScalarType\nBFloat16")),
            "a one-dimensional array of numbers, got a Tensor "
            "(Got unsupported ScalarType BFloat16)",
        ),
        ({1.5}, "a one-dimensional array of numbers, got {1.5}"),
        ({"a": 1.5}, "a one-dimensional array of numbers, got {'a': 1.5}"),
        (
            np.array([1.5, "2.5"], dtype=object),
            "a one-dimensional array of numbers, got '2.5' at position 1",
        ),
        (["1.5"], "a one-dimensional array of numbers, got ['1.5']"),
        (np.array(["1.5"] * 99), "a one-dimensional array of numbers, got array(["),
        ([[1.0], 2.0], "a one-dimensional array of numbers, got [[1.0], 2.0]"),
    ],
)
def test_what_is_no_sample_is_one_line(value: object, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        validate.sample(scores=value)
    text = str(refused.value)
    assert text.startswith(f"scores must be {message}")
    assert "\n" not in text
    assert len(text) < 250


class Wordless:
    """It cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


def test_long_values_are_cut() -> None:
    assert validate.shown(10**200) == f"1{'0' * 99}..."
    assert validate.shown(10**6000) == "an int that cannot be shown"
    assert validate.shown(Wordless()) == "a Wordless that cannot be shown"
    assert "\n" not in validate.shown(np.zeros((30, 30)))
    with pytest.raises(ValueError, match=r"^eta must be in \(0, 1\), got 10{99}\.\.\.$"):
        validate.open_unit(eta=10**400)

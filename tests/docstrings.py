"""Check the docstrings of the public API with numpydoc's own validation: ``make lint`` runs it.

The public API is what the reference lists (``docs/reference``), with the public methods and
properties of its classes. Beyond numpydoc's checks, an exception that a function raises itself must
be in its Raises section. A line ``# numpydoc ignore=EX01`` inside a definition silences a check
there.

    python tests/docstrings.py [ROOM ...]
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

from audit.codec.schemas import about_fields

ROOT = Path(__file__).resolve().parents[1]

FORM = {"GL03", "GL05", "GL06", "GL07", "GL08"}
SUMMARY = {"SS01", "SS02", "SS03", "SS04", "SS05", "SS06"}
PARAMETERS = {f"PR{number:02}" for number in range(1, 11)}
RETURNS = {"RT01", "RT02", "RT03", "RT04", "RT05", "YD01"}
EXAMPLE = {"EX01"}


@dataclasses.dataclass(frozen=True)
class Public:
    """One public object: its name, the object with the docstring, and the checks it must pass."""

    name: str
    target: Any
    checks: frozenset[str]

    @property
    def room(self) -> str:
        return str(code(self.target).__module__).split(".")[1]


def code(target: Any) -> Any:
    """Return the class or the function that an object is made of."""
    if isinstance(target, property):
        return target.fget
    if isinstance(target, functools.cached_property):
        return target.func
    target = getattr(target, "py_func", target)  # compiled by Numba
    return inspect.unwrap(getattr(target, "__func__", target))


def public_names() -> list[str]:
    """Return the names in the lists of the reference."""
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    return re.findall(r"^   ~(audit(?:_dimensions)?\.[\w.]+)$", text, flags=re.MULTILINE)


def public_api() -> Iterator[Public]:
    """Yield every object of the public API once."""
    seen: set[int] = set()
    found = {name: code(named(name)) for name in public_names()}
    # A method of a registry that is exported as a function is a function.
    for name, target in sorted(found.items(), key=lambda each: inspect.isclass(each[1])):
        if id(target) in seen or not str(getattr(target, "__module__", "")).startswith("audit"):
            continue
        seen.add(id(target))
        if inspect.isclass(target):
            yield Public(name, target, checks_of_class(target))
            yield from members(name, target, seen)
        elif inspect.isfunction(target):
            checks = FORM | SUMMARY | PARAMETERS | RETURNS | EXAMPLE
            yield Public(name, target, frozenset(checks))


def named(name: str) -> Any:
    """Return the object of a dotted name, of a module or of a class."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def checks_of_class(cls: type) -> frozenset[str]:
    """Return the checks of a class.

    Enums, exceptions and protocols have no parameters to document.
    """
    parameters = fields_of(cls) or "__init__" in vars(cls)
    plain = issubclass(cls, enum.Enum | BaseException) or getattr(cls, "_is_protocol", False)
    return frozenset(FORM | SUMMARY | (PARAMETERS if parameters and not plain else set()))


def members(name: str, cls: type, seen: set[int]) -> Iterator[Public]:
    """Yield the public methods and properties, also those of bases that are not exported."""
    found: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("audit"):
            continue
        for key, value in vars(base).items():
            function = code(value)
            if key.startswith("_") or not inspect.isfunction(function) or key in found:
                continue
            found.add(key)
            if id(function) in seen:
                continue
            seen.add(id(function))
            checks = FORM | SUMMARY
            prop = isinstance(value, (property, functools.cached_property))
            if prop:
                checks = checks - {"SS05"}
            elif not any(code(vars(c)[key]).__doc__ for c in base.__mro__[1:] if key in vars(c)):
                checks = checks | PARAMETERS | RETURNS
            elif not function.__doc__:
                continue  # the base's docstring is shown
            yield Public(f"{name}.{key}", value if prop else function, frozenset(checks))


def fields_of(cls: type) -> tuple[str, ...]:
    """Return the fields that a dataclass adds and nothing describes."""
    if "__dataclass_fields__" not in vars(cls):
        return ()
    described = {name for base in cls.__mro__ for name in about_fields(base)}
    own = vars(cls).get("__annotations__", {}).keys() - described
    return tuple(f.name for f in dataclasses.fields(cls) if f.name in own and f.init)


class DocumentedFields(Validator):
    """numpydoc's validator, which counts the fields of dataclasses as parameters.

    They stand under Parameters, under Attributes, in the docstring of a base class, or in a comment
    ``#:`` beside the field.
    """

    def __init__(self, obj_name: Any) -> None:
        super().__init__(get_doc_object(obj_name, config={"show_class_members": False}))
        self.code_obj = code(obj_name)

    @property
    def doc_parameters(self) -> Any:
        if dataclasses.is_dataclass(self.code_obj):
            return self._doc_parameters(["Parameters", "Attributes"])
        return super().doc_parameters

    @property
    def doc_all_parameters(self) -> Any:
        return {**self.doc_parameters, **self.doc_other_parameters}

    @property
    def signature_parameters(self) -> tuple[str, ...]:
        if not dataclasses.is_dataclass(self.code_obj):
            given = tuple(super().signature_parameters)
            if inspect.isfunction(self.code_obj) and "." not in self.code_obj.__qualname__:
                # numpydoc takes any first parameter of this name for that of a class method
                first = next(iter(inspect.signature(self.code_obj).parameters), "")
                return ("cls", *given) if first == "cls" else given
            return given
        every = {field.name for field in dataclasses.fields(self.code_obj)}
        own = fields_of(self.code_obj)
        again = [name for name in self.doc_parameters if name in every and name not in own]
        return (*again, *own)

    @property
    def parameter_mismatches(self) -> Any:
        found = super().parameter_mismatches
        # Fields may be described in another order than that in which they are given.
        dataclass = dataclasses.is_dataclass(self.code_obj)
        return [(c, text) for c, text in found if not (dataclass and c == "PR03")]


def raised(target: Any) -> set[str]:
    """Return the names of the exceptions that a function, or a class's constructor, raises itself.

    A call of `audit.validate` raises ``ValueError``; so does what `validate.fail` returns.
    """
    target = code(target)
    if inspect.isclass(target):
        makers = (vars(target).get(name) for name in ("__init__", "__post_init__"))
        written = (m for m in makers if m is not None and "__create_fn__" not in m.__qualname__)
        found = (raised(maker) for maker in written if maker.__code__.co_filename != "<string>")
        return set().union(*found)
    tree = ast.parse(textwrap.dedent(inspect.getsource(target))).body[0]
    names: set[str] = set()
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            continue  # raised when the inner function is called
        if isinstance(node, ast.Raise) and node.exc is not None:
            named = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            text = ast.unparse(named)
            names.add("ValueError" if text == "validate.fail" else text.rpartition(".")[2])
        elif isinstance(node, ast.Expr) and ast.unparse(node).startswith("validate."):
            names.add("ValueError")
        pending += ast.iter_child_nodes(node)
    return {name for name in names if name[:1].isupper()} - {"NotImplementedError"}


def errors(public: Public) -> list[tuple[str, str]]:
    """Return the code and the message of every check that an object fails."""
    found = validate(public.target, validator_cls=DocumentedFields)
    failed = [(name, text) for name, text in found["errors"] if name in public.checks]
    if "PR01" in public.checks and not any(name == "GL08" for name, _ in failed):
        documented = {entry.type or entry.name for entry in document(public)["Raises"]}
        failed += [
            ("RA01", f"Exception {name} is not in the section Raises")
            for name in sorted(raised(public.target) - documented)
        ]
    return failed


def document(public: Public) -> Any:
    """Return the sections of a docstring as numpydoc reads them."""
    return get_doc_object(public.target, config={"show_class_members": False})


def place(public: Public) -> str:
    """Return file and line of a definition, as editors open them."""
    target = code(public.target)
    file = Path(inspect.getsourcefile(target) or "").resolve()
    shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    return f"{shown}:{inspect.getsourcelines(target)[1]}"


def main(arguments: list[str]) -> int:
    """Print what fails, one line each; return the exit status."""
    parser = argparse.ArgumentParser(description="Check the docstrings of the public API.")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help="rooms to check; all by default")
    options = parser.parse_args(arguments)
    objects = list(public_api())
    if options.rooms:
        objects = [public for public in objects if public.room in options.rooms]
    failed = 0
    for public in objects:
        for name, text in errors(public):
            print(f"{place(public)}: {public.name}: {name} {text}")
            failed += 1
    print(f"{len(objects)} docstrings checked, {failed} errors", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Studies: computations other than the comparison at one delta, by code that a scenario names.

In a scenario file a study is ``study: {function: "module:function", <parameters>}``. The function
is one of two things:

- a frozen dataclass whose fields are the parameters, with a method ``find(...) -> Findings``;
- a function of keyword parameters, each with a type hint, that returns `Findings`.

Parameters are decoded by their type hints. ``find``, or the function, may also take any of ``seed``
(the setting's seed), ``threads``, ``confidence`` (of the scenario) and ``progress`` (a callable of
``done, total``); these come from the run and cannot be parameters.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, get_type_hints

from audit import results, validate
from audit.codec import decode, encode
from audit.isolation import call, in_one_line
from audit.results import Findings
from audit.scenario.definition import Plain, RunContext, Setting, load, setting_kind

if TYPE_CHECKING:
    from audit.results.result import Parameter

Target = TypeVar("Target", bound=Callable[..., Any])

# Arguments that a run passes to a study that asks for them.
FROM_THE_RUN = ("seed", "threads", "confidence", "progress")
# Every decorated study, by "module:name".
STUDIES: dict[str, Callable[..., Any]] = {}


class Progress(Protocol):
    """Callable that takes (done, total) while a study runs."""

    def __call__(self, done: int, total: int, /) -> None:
        """Report the progress."""
        ...


def study(target: Target) -> Target:
    """Register a class or function as a study, and check its signature.

    A scenario may also name a class or function that is not decorated; its signature is then
    checked when the scenario is read.

    Parameters
    ----------
    target : type or callable
        A frozen dataclass with a method ``find``, or a function of keyword parameters with type
        hints.

    Returns
    -------
    type or callable
        The same object.

    Raises
    ------
    TypeError
        If it is neither a frozen dataclass with a method ``find``, nor a function whose parameters
        are keywords with type hints.

    Examples
    --------
    >>> from audit.results import Findings
    >>> @study  # doctest: +SKIP
    ... def noise_of_steps(steps: int = 10) -> Findings: ...
    """
    parameters_of(target)
    STUDIES[f"{target.__module__}:{target.__qualname__}"] = target
    return target


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study with its parameters, as a scenario names it."""

    function: str  #: ``module:function``.
    parameters: Any  #: An instance of the class, or of a dataclass of the function's parameters.

    def find(self, *, seed: int, threads: int, confidence: float, progress: Progress) -> Findings:
        """Return the findings; the same parameters and seed give the same findings."""
        given = dict(zip(FROM_THE_RUN, (seed, threads, confidence, progress), strict=True))
        find = self.parameters.find
        wanted = inspect.signature(find).parameters
        every = any(one.kind is one.VAR_KEYWORD for one in wanted.values())
        asked = {key: value for key, value in given.items() if every or key in wanted}
        found = call(find, message=f"{self.function} failed:", **asked)
        if not isinstance(found, Findings):
            raise validate.fail(f"what {self.function} returns", "of type Findings", found)
        return found


def read_study(plain: object, *, folders: Sequence[Path] = ()) -> Study:
    """Return the study that ``{function: "module:function", <parameters>}`` names."""
    if not (isinstance(plain, Mapping) and isinstance(plain.get("function"), str)):
        raise validate.fail("study", "a mapping with a function, module:function", plain)
    function = plain["function"]
    target = load(function, name="study.function", folders=folders)
    try:
        schema = parameters_of(target)
    except TypeError as error:
        raise ValueError(f"study.function must name a study, got {function!r}: {error}") from None
    parameters = {str(key): value for key, value in plain.items() if key != "function"}
    if not isinstance(target, type):
        for name in set(FROM_THE_RUN) & set(parameters):
            value = parameters[name]
            raise ValueError(f"study.{name} must be left out: the run sets it, got {value!r}")
    try:
        made = decode(schema, parameters, "study")
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{function} cannot be made: {in_one_line(error)}") from error
    return Study(function=function, parameters=made)


@cache
def parameters_of(target: Any) -> type:
    """Return the dataclass of a study's parameters; TypeError if it cannot be a study."""
    if not (isinstance(target, type) or inspect.isfunction(target)):
        raise TypeError(f"it must be a frozen dataclass or a function, got {target!r}")
    name = target.__name__
    try:
        hints = get_type_hints(target)
    except Exception as error:
        raise TypeError(f"type hints of {name} must be importable names, got {error}") from None
    if inspect.isfunction(target):
        return _fields_of(target, name, hints)
    made: Any = target
    if not (dataclasses.is_dataclass(target) and made.__dataclass_params__.frozen):
        raise TypeError(f"{name} must be a frozen dataclass")
    find = getattr(target, "find", None)
    if not callable(find):
        raise TypeError(f"{name} must have a method find")
    for one in list(inspect.signature(find).parameters.values())[1:]:
        rest = one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        if one.name not in FROM_THE_RUN and one.default is one.empty and not rest:
            raise TypeError(f"find must take {', '.join(FROM_THE_RUN)} only, got {one.name}")
    return target


def _fields_of(function: Callable[..., Any], name: str, hints: Mapping[str, Any]) -> type:
    """Return a dataclass with the parameters of a function as its fields, and ``find``."""
    fields: list[Any] = []
    for one in inspect.signature(function).parameters.values():
        if one.name in FROM_THE_RUN or one.kind is one.VAR_KEYWORD:
            continue
        if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
            raise TypeError(f"{one.name} must be a keyword parameter of {name}")
        if one.name not in hints or one.name == "find":
            wanted = "another name" if one.name == "find" else "a type hint"
            raise TypeError(f"{one.name} must have {wanted} in {name}")
        field: Any = dataclasses.field()
        if one.default is not one.empty:  # a factory, as the default may be a list
            field = dataclasses.field(default_factory=partial(copy, one.default))
        fields.append((one.name, hints[one.name], field))
    find = property(lambda made: partial(function, **vars(made)))
    own = {"find": find, "__doc__": function.__doc__}
    return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True, namespace=own)


@setting_kind
@dataclass(frozen=True, kw_only=True)
class StudySetting(Setting):
    """Study with a name."""

    key: ClassVar[str] = "study"

    study: Study  #: The study, with its parameters.

    @classmethod
    def read_fields(cls, values: Plain, where: str, folders: Sequence[Path]) -> Plain:
        """Return the study, whose parameters are those of its function."""
        try:
            return {"study": read_study(values["study"], folders=folders)}
        except ValueError as error:
            separator = "." if str(error).startswith("study") else ": "
            raise ValueError(f"{where}{separator}{error}") from error

    def own_plain(self) -> Plain:
        """Return the function and its parameters under one key."""
        return {"study": {"function": self.study.function, **encode(self.study.parameters)}}

    def run(self, context: RunContext) -> results.StudyResult:
        """Run the study."""
        findings = self.study.find(
            seed=context.seed,
            threads=context.threads,
            confidence=context.confidence,
            progress=context.progress.stage(f"{self.name}: {self.study.function}"),
        )
        return results.StudyResult(
            **self._heading(context.seed),
            function=self.study.function,
            parameters=flat_parameters(encode(self.study.parameters)),
            findings=findings,
        )


def flat_parameters(plain: Any, name: str = "") -> dict[str, Parameter]:
    """Return nested parameters under dotted names; lists of plain values stay together."""
    if isinstance(plain, Mapping):
        inner = {f"{name}.{key}" if name else str(key): item for key, item in plain.items()}
    elif isinstance(plain, list) and any(isinstance(item, Mapping | list) for item in plain):
        inner = {f"{name}[{i}]": item for i, item in enumerate(plain)}
    else:
        return {name: tuple(plain) if isinstance(plain, list) else plain}
    parts = [flat_parameters(item, place) for place, item in inner.items()]
    return {place: value for part in parts for place, value in part.items()}

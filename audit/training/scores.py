"""Scores of trainings: white-box scores of canaries with known gradients, and one training's.

`answer` runs in a worker process. One task answers all questions, so that the same process serves
them: the digest of the training's source files, and the scores of one training.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import hashlib
import importlib.util
import inspect
import itertools
import math
import pickle
import random
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from audit import validate
from audit.isolation import UserCodeError
from audit.numerics.arrays import Array

_MAX_SCORES = 40_000  # scores of one training; a reply is at most a megabyte


def gradient_score(
    noisy_gradient: Any,
    canary_gradient: Any,
    *,
    noise_std: float | None = None,
    sampling_rate: float = 1.0,
) -> float:
    """Return the score of one step: its noisy gradient against the canary's clipped gradient.

    Without ``noise_std`` the score is the inner product <g_t, c_t>. If the noise is Gaussian with
    the same standard deviation at every step, and the gradients of the other records are the same
    or are subtracted from g_t, the sum of these scores over the steps is a monotone function of the
    likelihood ratio of "canary in every batch" against "canary in no batch", hence the optimal
    statistic. With ``noise_std`` the score is the log-likelihood ratio of the step, log(1 - q + q
    exp((<g, c> - |c|^2 / 2) / noise_std^2)), which is optimal for Poisson batches too.

    Parameters
    ----------
    noisy_gradient : array_like, or nested sequence or mapping of arrays
        The released sum of clipped gradients and noise.
    canary_gradient : array_like, or nested sequence or mapping of arrays
        The canary's clipped gradient at the same parameters, with the same shape and scale: if
        ``noisy_gradient`` is divided by a batch size, divide this one too.
    noise_std : float, optional
        Standard deviation of the noise in each coordinate of ``noisy_gradient``.
    sampling_rate : float, optional
        Probability q in (0, 1] that the canary is in the batch; a value below 1 requires
        ``noise_std``.

    Returns
    -------
    float
        The score; high values indicate the canary.

    Raises
    ------
    ValueError
        If the shapes differ, or a value is out of its range.

    References
    ----------
    Nasr, M., et al. (2023). Tight auditing of differentially private machine learning. USENIX
    Security. The gradient canary of their white-box audit.

    Examples
    --------
    >>> gradient_score([3.0, 1.0], [1.0, 0.0])
    3.0
    >>> round(gradient_score([3.0, 1.0], [1.0, 0.0], noise_std=2.0, sampling_rate=0.5), 4)
    0.3606
    """
    inner, square = _products(noisy_gradient, canary_gradient)
    if not (0 < sampling_rate <= 1):
        raise validate.fail("sampling_rate", "in (0, 1]", sampling_rate)
    if noise_std is None:
        if sampling_rate < 1:
            raise validate.fail("noise_std", "given for a sampling_rate below 1", noise_std)
        return inner
    validate.positive(noise_std=noise_std)
    ratio = (inner - square / 2) / noise_std**2
    if sampling_rate == 1:
        return ratio
    return float(np.logaddexp(math.log1p(-sampling_rate), math.log(sampling_rate) + ratio))


def iterate_score(iterate: Any, start: Any, canary_gradient: Any) -> float:
    """Return the displacement of the last iterate against the canary's gradient.

    Parameters
    ----------
    iterate, start : array_like, or nested sequence or mapping of arrays
        Parameters after and before the training.
    canary_gradient : array_like, or nested sequence or mapping of arrays
        A gradient of the canary, of the same shape, chosen in advance; for example at the start.

    Returns
    -------
    float
        The inner product <start - iterate, canary_gradient>; high values indicate the canary.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> iterate_score([0.0, -2.0], [0.0, 0.0], [0.0, 1.0])
    2.0
    """
    return _products(start, canary_gradient)[0] - _products(iterate, canary_gradient)[0]


def _products(first: Any, second: Any) -> tuple[float, float]:
    """Return <first, second> and |second|^2 over all arrays of both."""
    parts = list(_arrays(first)), list(_arrays(second))
    shapes = [[part.shape for part in side] for side in parts]
    if shapes[0] != shapes[1]:
        raise ValueError(f"gradients must have the same shape, got {shapes[0]} and {shapes[1]}")
    inner = math.fsum(float(np.vdot(a, b)) for a, b in zip(*parts, strict=True))
    return inner, math.fsum(float(np.vdot(b, b)) for b in parts[1])


def _arrays(value: Any) -> Iterator[Array]:
    """Yield the arrays of a nested structure; those of a mapping in the order of its keys."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _arrays(value[key])
        return
    if isinstance(value, list | tuple) and any(
        isinstance(one, Mapping | list | tuple) or getattr(one, "ndim", 0) > 0 for one in value
    ):
        for one in value:
            yield from _arrays(one)
        return
    yield np.asarray(detached(value), dtype=np.float64)


def detached(value: Any) -> Any:
    """Return a PyTorch tensor detached and on the CPU; return anything else unchanged."""
    detach = getattr(value, "detach", None)
    return detach().cpu() if callable(detach) else value


def answer(function: Any, question: str, *arguments: Any) -> Any:
    """Answer a question: ``source``, ``first`` or ``trial``."""
    answers: dict[str, Any] = {"source": source, "first": first_trial, "trial": trial}
    return answers[question](function, *arguments)


def source(function: Any, reference: str) -> str:
    """Return a digest of the files of the user's modules that ``module:function`` is made of."""
    if not callable(function):
        raise UserCodeError(str(validate.fail("train", f"a function ({reference})", function)))
    digest = hashlib.sha256()
    for name, file in sorted(_files_of(function, reference).items()):
        digest.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _files_of(function: Any, reference: str) -> dict[str, Path]:
    """Return the files of a function's module, and of modules of the user that it imports."""
    found: dict[str, Path] = {}
    own = reference.partition(":")[0], str(getattr(inspect.unwrap(function), "__module__", ""))
    left = list(own)
    while left:
        name = left.pop()
        file = _file_of(name)
        if name in found or file is None or not (name in own or _is_of_user(name, file)):
            continue
        found[name] = file
        if file.suffix == ".py":
            left += _imports(name, file)
    return found


def _file_of(name: str) -> Path | None:
    """Return the file of a module without importing it; None where there is none."""
    parent, file = name.rpartition(".")[0], getattr(sys.modules.get(name), "__file__", None)
    if name not in sys.modules and (not parent or parent in sys.modules):
        with contextlib.suppress(ImportError, ValueError):
            file = getattr(importlib.util.find_spec(name), "origin", None)
    return Path(file).resolve() if file and Path(file).is_file() else None


def _imports(name: str, file: Path) -> list[str]:
    """Return the names of all that may be a module in the import statements of a module."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            found += (f"{base}.{alias.name}" for alias in node.names)
    return [one for name in found for one in itertools.accumulate(name.split("."), "{}.{}".format)]


def _is_of_user(name: str, file: Path) -> bool:
    """Return whether a module belongs neither to Python nor to an installed library."""
    libraries = {"site-packages", "dist-packages"} & set(file.parts)
    ours = name.partition(".")[0] == __name__.partition(".")[0]
    return not (libraries or ours or file.is_relative_to(sysconfig.get_path("stdlib")))


def first_trial(function: Callable[..., Any], reference: str, *arguments: Any) -> list[float]:
    """Train once as `trial`; refuse a training that draws from a generator that outlives it.

    Every process has an equal one, which goes on where the training before left it. One that is
    seeded for each training is allowed: its state then does not depend on what was before.
    """
    before = _generators(function, reference)
    scores = trial(function, reference, *arguments)
    after = _generators(function, reference)
    if before != after:
        trial(function, reference, *arguments)
        again = _generators(function, reference)
        for one, (state, name) in after.items():
            moved = one not in before or before[one][0] != state
            if moved and one in again and again[one][0] != state:
                raise UserCodeError(
                    f"{reference} must draw all randomness from its seed, got draws from {name}, "
                    "which outlives a training: processes would repeat each other's noise"
                )
    return scores


def _generators(function: Any, reference: str) -> dict[Any, tuple[bytes, str]]:
    """Return the states of all generators that the variables of a training's modules lead to.

    They may be in objects, collections, closures and defaults; other modules are not entered.
    """
    kinds: tuple[type, ...] = np.random.BitGenerator, np.random.SeedSequence, np.random.RandomState
    kinds = *kinds, random.Random
    if "torch" in sys.modules:
        kinds = *kinds, sys.modules["torch"].Generator
    modules = _files_of(function, reference).keys() & sys.modules.keys()
    roots = [
        (f"{module}.{name}", value)
        for module in sorted(modules)
        for name, value in vars(sys.modules[module]).items()
        if not (name.startswith("__") and name.endswith("__"))
    ]
    states: dict[Any, tuple[bytes, str]] = {}
    seen: set[int] = set()
    for name, value in [*roots, (reference, function)]:
        left = [value]
        while left:
            one = left.pop()
            kind = type(one)  # what a proxy says of its class may raise
            if id(one) in seen or issubclass(kind, ModuleType):
                continue
            seen.add(id(one))
            inside: list[Any] = []
            if issubclass(kind, kinds) and not issubclass(kind, random.SystemRandom):
                get = getattr(one, "get_state", getattr(one, "getstate", None))
                states[one] = pickle.dumps(one.state if get is None else get()), name
            if kind is FunctionType:  # its globals are those of a module
                inside = [one.__closure__, one.__defaults__, one.__kwdefaults__, vars(one)]
            elif not issubclass(kind, type) or one.__module__ in modules:
                inside = gc.get_referents(one)
            left += [x for x in inside if gc.is_tracked(x) or type(x) in kinds]
    return states


def trial(
    function: Callable[..., Any],
    reference: str,
    included: list[bool],
    seed: int,
    arguments: Mapping[str, Any],
) -> list[float]:
    """Train once; return a score for each canary, or for each column if there is one canary."""
    one = len(included) == 1
    first: Any = included[0] if one else np.array(included)
    known = "torch" in sys.modules
    by_step, steps = _trained(function, first, seed, arguments)
    if not known and "torch" in sys.modules:  # imported by the training: not seeded before it
        by_step, steps = _trained(function, first, seed, arguments)
    try:
        rows = _rows(reference, steps, by_step)
        if not one and (wrong := [row.size for row in rows if row.size != len(included)]):
            raise ValueError(
                f"{reference} must return one score for each of the {len(included)} canaries, "
                f"got {wrong[0]}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.concatenate(rows) if one else np.sum(rows, axis=0)
        scores = validate.sample(**{f"what {reference} returns": scores})
        if scores.size > _MAX_SCORES:
            raise ValueError(
                f"what {reference} returns must be at most {_MAX_SCORES} numbers, "
                f"got {scores.size}; sum some of them"
            )
    except ValueError as error:
        raise UserCodeError(str(error)) from None
    return list(scores.tolist())


def _trained(
    function: Callable[..., Any], included: Any, seed: int, arguments: Mapping[str, Any]
) -> tuple[bool, list[Any]]:
    """Return whether a training yields its scores by step, and the scores of each step."""
    seed_generators(seed)
    returned = function(included, seed, **arguments)
    by_step = isinstance(returned, Iterator)
    # copied, as a training may reuse one array for all steps; exceptions of the training propagate
    return by_step, [_copied(scores) for scores in (returned if by_step else [returned])]


def seed_generators(seed: int) -> None:
    """Seed the generators that are global to a process.

    Processes start with equal states, so trainings that draw from them would repeat each other.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 the global one is meant
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


def _rows(reference: str, steps: list[Any], by_step: bool) -> list[Array]:
    """Return the scores of each step, shape (scores,)."""
    if not steps:
        raise ValueError(f"{reference} must yield one score per step, got none")
    rows = []
    for step, scores in enumerate(steps, start=1):
        place = f"what {reference} {f'yields at step {step}' if by_step else 'returns'}"
        if not isinstance(scores, np.ndarray):
            raise validate.fail(place, "a number or an array of numbers", scores)
        rows.append(validate.real_sample(**{place: np.atleast_1d(scores)}))
    return rows


def _copied(scores: Any) -> Any:
    try:
        refused = scores is None or isinstance(scores, str)
        return scores if refused else np.array(detached(scores), subok=True)  # a mask stays
    except Exception:  # not an array of numbers: `_rows` reports it
        return scores

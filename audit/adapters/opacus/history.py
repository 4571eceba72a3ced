"""Histories of Opacus' accountants, as mechanisms and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit import validate
from audit.adapters.steps import any_dataset_size, composed, noise_over_clip_norm, runs_of, step
from audit.mechanism import Batching, Composition, Divisor, NoisySGD, Relation, Release

History = tuple[tuple[float, float, int], ...]
"""Noise multiplier, sample rate and number of steps of each entry, in order."""


def read_history(source: Any) -> History:
    """Return the entries of a history."""
    found = source
    if isinstance(found, Mapping):
        if "history" not in found:
            keys = ", ".join(map(str, found)) or "none"
            raise ValueError(f"history must be a state_dict with 'history', got the keys {keys}")
        found = found["history"]
    else:
        found = getattr(found, "accountant", found)  # a PrivacyEngine has one
        found = getattr(found, "history", found)
    if isinstance(found, str) or not isinstance(found, Sequence):
        kinds = "entries (noise multiplier, sample rate, steps), an accountant or its state_dict"
        raise validate.fail("history", kinds, found)
    if not found:
        raise ValueError("history must hold one entry or more, got none")
    return tuple(_entry(f"history[{place}]", entry) for place, entry in enumerate(found))


def _entry(name: str, entry: Any) -> tuple[float, float, int]:
    try:
        noise_multiplier, sample_rate, steps = entry
    except (TypeError, ValueError):
        raise validate.fail(name, "(noise multiplier, sample rate, steps)", entry) from None
    validate.positive(**{f"{name} noise multiplier": noise_multiplier})
    validate.positive(**{f"{name} sample rate": sample_rate})
    validate.closed_unit(**{f"{name} sample rate": sample_rate})
    validate.integer(1, **{f"{name} steps": steps})
    return float(noise_multiplier), float(sample_rate), int(steps)


def from_history(
    history: Any, *, dataset_size: int | None = None, relation: Relation, clip_norm: float = 1.0
) -> NoisySGD | Composition:
    """Return the mechanism that Opacus' accountants assume for a history.

    It has Poisson batches (full batches at rate 1) and releases all iterates. Consecutive entries
    of equal noise multiplier and rate become one run; several runs become a `Composition`. The step
    size is 1, which has no effect if all iterates are released.

    Parameters
    ----------
    history : object
        Anything that `read_history` reads.
    dataset_size : int, optional
        Number of records n. The rate is kept exactly even if rate times n is not a whole number.
        Privacy depends on the rate only: None takes a size that suits the rates.
    relation : Relation
        Opacus assumes ``Relation.ADD_REMOVE``. The noise multiplier is relative to the clipping
        norm in every relation.
    clip_norm : float, default: 1.0
        Norm to which gradients are clipped.

    Returns
    -------
    NoisySGD or Composition
        The mechanism.

    Raises
    ------
    ValueError
        If the history or a number is out of range.

    Examples
    --------
    >>> m = from_history([(1.1, 0.01, 600), (1.1, 0.01, 400)], relation=Relation.ADD_REMOVE)
    >>> m.steps, m.sampling_rate, m.batching.value, round(m.noise_multiplier, 12)
    (1000, 0.01, 'poisson', 1.1)
    """
    entries = read_history(history)
    if dataset_size is None:
        dataset_size = any_dataset_size(*(rate for _, rate, _ in entries))
    validate.integer(1, dataset_size=dataset_size)
    return composed(
        (
            poisson_step(noise_multiplier, rate, dataset_size, relation, clip_norm),
            steps,
        )
        for noise_multiplier, rate, steps in entries
    )


def poisson_step(
    noise_multiplier: float, rate: float, dataset_size: int, relation: Relation, clip_norm: float
) -> NoisySGD:
    """Return one step on Poisson batches, or on all records at rate 1."""
    return step(
        noise_multiplier,
        rate,
        dataset_size=dataset_size,
        relation=relation,
        clip_norm=clip_norm,
        batching=Batching.FULL if rate == 1 else Batching.POISSON,
        batch_size=max(int(dataset_size * rate), 1),  # Opacus' expected_batch_size
    )


def to_history(mechanism: NoisySGD | Composition) -> History:
    """Return a mechanism as the history of an Opacus accountant.

    Parameters
    ----------
    mechanism : NoisySGD or Composition
        Has Poisson or full batches, all iterates released, the nominal divisor, and add/remove or
        zero-out neighbours, whose pairs of laws are the same.

    Returns
    -------
    tuple of (float, float, int)
        Noise multiplier, sample rate and number of steps of each run.

    Raises
    ------
    ValueError
        If Opacus' accountants do not cover the mechanism.

    Examples
    --------
    >>> m = from_history([(1.1, 0.01, 9)], dataset_size=500, relation=Relation.ADD_REMOVE)
    >>> to_history(m)
    ((1.1, 0.01, 9),)
    """
    if not isinstance(mechanism, NoisySGD | Composition):
        raise validate.fail("mechanism", "a NoisySGD or a Composition", mechanism)
    return tuple(_told(run) for run in runs_of(mechanism))


def _told(run: NoisySGD) -> tuple[float, float, int]:
    spoken_of = {
        "batching": (Batching.POISSON, Batching.FULL),
        "release": (Release.ALL_ITERATES,),
        "relation": (Relation.ADD_REMOVE, Relation.ZERO_OUT),
        "divisor": (Divisor.NOMINAL,),
    }
    for name, choices in spoken_of.items():
        choice = getattr(run, name)
        if choice not in choices:
            known = " or ".join(repr(known.value) for known in choices)
            raise validate.fail(f"{name} for a history of Opacus", known, choice.value)
    return noise_over_clip_norm(run), run.sampling_rate, run.steps

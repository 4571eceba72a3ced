"""Mechanisms as plain data: the one spelling of scenarios, claims, found pairs and results."""

from __future__ import annotations

from typing import Any

from audit import codec
from audit.mechanism.noisy_sgd import NoisySGD


def encode_mechanism(mechanism: NoisySGD, *, defaults: bool = True) -> dict[str, Any]:
    """Return the fields of a mechanism as plain data, choices in lower-case words.

    Parameters
    ----------
    mechanism
        Any mechanism.
    defaults
        Whether fields at their default are written.
    """
    encoded: dict[str, Any] = codec.encode(mechanism, defaults=defaults)
    return encoded


def decode_mechanism(plain: Any, name: str = "") -> NoisySGD:
    """Return the mechanism that plain data stands for.

    Parameters
    ----------
    plain
        Fields of `NoisySGD` by name. Choices are read in any spelling
        (``without replacement``, ``WITHOUT_REPLACEMENT``), and ``step_size`` is a number, a list
        with one number a step, or ``{first: a, power: p}`` for the schedule a t^p, t from 1.
    name
        What messages call the mechanism: ``"mechanism.steps must be ..."``.

    Raises
    ------
    ValueError
        If a field is unknown, missing or out of its range.

    Examples
    --------
    >>> m = decode_mechanism({
    ...     "steps": 2, "dataset_size": 8, "batch_size": 2, "noise_std": 1.0, "lipschitz": 1.0,
    ...     "step_size": {"first": 0.5, "power": -1}, "batching": "WITHOUT_REPLACEMENT",
    ... })
    >>> m.step_size, m.batching.value
    ((0.5, 0.25), 'without replacement')
    """
    mechanism: NoisySGD = codec.decode(NoisySGD, plain, name)
    return mechanism

"""A mechanism on one line, in the symbols of the literature."""

from __future__ import annotations

from typing import Any

from audit.mechanism import NoisySGD, encode_mechanism
from audit.numerics.number_format import plain

SYMBOLS = {
    "steps": "T",
    "dataset_size": "n",
    "batch_size": "b",
    "step_size": "η",
    "noise_std": "σ",
    "lipschitz": "L",
    "smoothness": "M",
    "strong_convexity": "m",
    "diameter": "D",
}
_IN_LINES = {
    **SYMBOLS,
    "step_size": "eta",
    "noise_std": "sigma",
    "gradient_sensitivity": "S",
    "holder": "Hoelder",
    "max_batch_size": "B",
    "participations": "k",
}
_MAX_SIZES = 6  # step sizes of a schedule that are written out


def mechanism_line(mechanism: NoisySGD) -> str:
    """Return the parameters of a mechanism: ``T=40, n=100, b=100, eta=0.1, ...``."""
    numbers, words = [], []
    for name, value in encode_mechanism(mechanism, defaults=False).items():
        spelt = name.replace("_", " ")
        if isinstance(value, str):
            words.append(f"{spelt}: {value}")
        elif not isinstance(value, bool):
            numbers.append(f"{_IN_LINES.get(name, spelt)}={_value(value)}")
    return ", ".join([*numbers, *words, *([] if mechanism.convex else ["not convex"])])


def _value(value: Any) -> str:
    if not isinstance(value, list):
        return plain(value)
    if len(value) > _MAX_SIZES:
        return f"{plain(value[0])} to {plain(value[-1])}"
    return "/".join(plain(item) for item in value)

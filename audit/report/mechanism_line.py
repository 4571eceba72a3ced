"""A mechanism on one line, in the symbols of the literature."""

from __future__ import annotations

from typing import Any

from audit.mechanism import NoisySGD, encode_mechanism
from audit.numerics.number_format import plain

_SYMBOLS = {
    "steps": "T",
    "dataset_size": "n",
    "batch_size": "b",
    "step_size": "eta",
    "noise_std": "sigma",
    "lipschitz": "L",
    "gradient_sensitivity": "S",
    "smoothness": "M",
    "strong_convexity": "m",
    "diameter": "D",
    "holder": "Hoelder",
    "clip_norm": "clip norm",
    "max_batch_size": "B",
    "participations": "k",
}
_MOST_SIZES = 6  # step sizes of a schedule that are written out


def mechanism_line(mechanism: NoisySGD) -> str:
    """Return the parameters of a mechanism: ``T=40, n=100, b=100, eta=0.1, ...``."""
    fields = encode_mechanism(mechanism, defaults=False)
    found = [f"{_SYMBOLS[name]}={_value(fields[name])}" for name in _SYMBOLS if name in fields]
    found += [
        f"{name.replace('_', ' ')}: {fields[name]}"
        for name in ("batching", "relation", "release", "divisor", "losses")
        if name in fields
    ]
    return ", ".join([*found, *([] if fields.get("convex", True) else ["not convex"])])


def _value(value: Any) -> str:
    if not isinstance(value, list):
        return plain(value)
    if len(value) > _MOST_SIZES:
        return f"{plain(value[0])} to {plain(value[-1])}"
    return "/".join(plain(item) for item in value)

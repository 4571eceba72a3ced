"""Made-up checks of a proof, with numbers like those of paper 000's constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from .example_laws import TRIALS


def around(value: float, error: float = 4e-12) -> list[float]:
    return [value - error, value + error]


_CDF_X = np.linspace(-0.5, 0.5, 201)
_AUXILIARY = ndtr((_CDF_X - 0.25) / 0.06)

DIAGNOSTICS: dict[str, Any] = {
    "conditions": [
        {"condition": "D >= 1000 eta L", "value": 1.0, "limit": 1.0, "holds": True},
    ],
    "events": [
        {
            "name": "P[omega_T >= 0]",
            "claim": "= 1/2",
            "exact": [0.49999999999, 0.50000000001],
            "note": "",
            "sampled": {"count": 499_787, "trials": TRIALS, "low": 0.49815, "high": 0.50143},
            "verdict": "consistent",
        },
        {
            "name": "P[omega'_T >= 0]",
            "claim": "> 0.56",
            "exact": [0.99999999999, 1.0],
            "note": "1 - e^-180.1",
            "sampled": {"count": TRIALS, "trials": TRIALS, "low": 0.9999924, "high": 1.0},
            "verdict": "consistent",
        },
        {
            "name": "P[E]: (i) and (ii)",
            "claim": ">= 0.9 (A.1)",
            "exact": [0.9999843, 0.9999845],
            "note": "1 - 1.570e-5 or more",
            "sampled": None,
            "verdict": "consistent",
        },
    ],
    "domination": {
        "x": _CDF_X.tolist(),
        "cdf_biased": np.minimum(_AUXILIARY, np.exp(-200 * (0.5 - _CDF_X))).tolist(),
        "cdf_auxiliary": _AUXILIARY.tolist(),
        "smallest_margin": 2.1e-4,
        "verdict": "consistent",
    },
    "renyi_claim": {
        "order": 100.0,
        "claimed": 0.005625,
        "forward": around(380.418, 4e-4),
        "reverse": around(128.731, 4e-4),
        "verdict": "consistent",
    },
    "below_threshold": [
        {
            "ratio": ratio,
            "noise_std": 0.3651483716701107 / math.sqrt(ratio),
            "claimed": 0.005625 * ratio,
            "forward": forward,
            "forward_from": "exact law" if ratio == 1 else "no jump at all",
            "forward_verdict": verdict,
            "reverse": [128.7 * ratio, None],
            "reverse_from": "exact law" if ratio == 1 else "event {omega >= c}, the best c",
            "reverse_verdict": "consistent",
            "verdict": "consistent",
        }
        for ratio, forward, verdict in (
            (1.0, around(380.418, 4e-4), "consistent"),
            (100.0, [702.1, 790.21], "consistent"),
            (1e5, [744.4, 790.21], "consistent"),
            (140625.0, [744.4, 790.21], "refuted"),
        )
    ],
}

"""A made-up result of three settings, with numbers like those of real runs.

The epsilons are typed in. One setting has a refuted bound, one an inapplicable one, and the last
is as extreme as paper 000's.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from .example_laws import TRIALS, full_batch_laws, normal_laws, paper_laws
from .example_proof import DIAGNOSTICS, around


def example() -> dict[str, Any]:
    return copy.deepcopy(_RESULT)


_ALPHA = ndtr(np.linspace(-6.0, 3.5, 77))


def _gaussian_beta(mu: float) -> list[float]:
    return [float(v) for v in ndtr(-ndtri(_ALPHA) - mu)]


def _tradeoff(exact: float, sampled: float, bounds: dict[str, float]) -> dict[str, Any]:
    ceiling = np.maximum(np.asarray(_gaussian_beta(sampled)), 9e-6 * (1 - _ALPHA))
    return {
        "alpha": _ALPHA.tolist(),
        "exact": _gaussian_beta(exact),
        "sampled_upper": np.minimum(ceiling, 1 - _ALPHA).tolist(),
        "bounds": [{"id": name, "beta": _gaussian_beta(mu)} for name, mu in bounds.items()],
    }


def _bound(
    name: str, citation: str, epsilon: float | None, low: float, reason: str | None = None
) -> dict[str, Any]:
    verdict = "consistent" if epsilon is None or epsilon >= low else "refuted"
    return {
        "id": name,
        "citation": citation,
        "status": "as printed",
        "epsilon": epsilon,
        "reason": reason,
        "ratio": None if epsilon is None else epsilon / low,
        "verdict": "not applicable" if reason else verdict,
    }


def _row(
    delta: float,
    sampled: float,
    forward: list[float],
    reverse: list[float],
    bounds: list[dict[str, Any]],
    limit: float,
) -> dict[str, Any]:
    finite = [b for b in bounds if b["epsilon"] is not None and b["verdict"] == "consistent"]
    best = min(finite, key=lambda b: float(b["epsilon"]), default=None)
    return {
        "delta": delta,
        "sampled": {
            "epsilon": sampled,
            "order": "reverse",
            "tail": "x >= t",
            "threshold": 0.3125,
            "count": 41,
            "total": 500_000,
            "count_prime": 183_211,
            "total_prime": 500_000,
            "confidence_spent": 0.0071,
            "largest_certifiable": limit,
        },
        "exact": {
            "forward": forward,
            "reverse": reverse,
            "worst": max(forward, reverse),
        },
        "bounds": bounds,
        "best": best and {key: best[key] for key in ("id", "epsilon", "ratio")},
    }


_COMPOSITION = "Bok, Su and Altschuler 2024, Theorem 4.1"
_FULL = "Bok, Su and Altschuler 2024, Theorem 4.3"
_STOCHASTIC = "Bok, Su and Altschuler 2024, Theorem 4.8"
_STEPS = [1, 3, 10, 30, 60, 100, 150, 200, 300, 500, 700, 1000]
_MECHANISM = {
    "steps": 1000,
    "dataset_size": 20,
    "batch_size": 20,
    "step_size": 0.1,
    "noise_std": 0.5,
    "lipschitz": 1.0,
    "gradient_sensitivity": None,
    "smoothness": 1.0,
    "strong_convexity": 0.0,
    "convex": True,
    "diameter": 1.0,
    "batching": "full",
    "relation": "replace one",
    "release": "last iterate",
    "holder": None,
}
_NEEDS_FULL = "bsa24.theorem_4_3 needs batching = full, got batching='without replacement'"

_FULL_BATCH = {
    "name": "full_batch",
    "title": "Full batches, a domain of 20 step deviations",
    "summary": "Every step uses every record & the two walks drift apart, a little at each step.",
    "mechanism": _MECHANISM,
    "derived": {
        "step_std": 0.05,
        "sensitivity": 2.0,
        "diameter_in_step_std": 20.0,
        "sampling_rate": 1.0,
        "epochs": 1000.0,
    },
    "construction": {
        "name": "TwoSidedWalk",
        "citation": "this package",
        "parameters": {"start": 0.0, "position": None},
    },
    "trials": TRIALS,
    "wall_seconds": 12.4,
    "deltas": [
        _row(
            delta,
            sampled,
            around(exact),
            around(exact),
            [
                _bound("bsa24.theorem_4_1", _COMPOSITION, composed, exact),
                _bound("bsa24.theorem_4_3", _FULL, full, exact),
                _bound("bsa24.theorem_4_8", _STOCHASTIC, stochastic, exact),
                _bound("at22.b_1", "Altschuler and Talwar 2022, Appendix B.1", renyi, exact),
                _bound("example.theorem_1", "A made-up claim", wrong, exact),
                _bound("example.theorem_2", "Another claim", None, exact),
            ],
            11.9,
        )
        for delta, sampled, exact, composed, full, stochastic, renyi, wrong in (
            (1e-2, 2.2931, 2.48093112345, 13.81, 5.417, 13.81, 6.98, 3.01),
            (1e-5, 2.6107, 3.08728040761, 22.91, 9.6614, 22.91, 11.32, 2.95),
        )
    ],
    "other_pairs": [
        {
            "name": "DriftedWalk",
            "parameters": {"start": 0.0, "drift": -0.02},
            "epsilon": [
                {"delta": 1e-2, "worst": around(2.2190714)},
                {"delta": 1e-5, "worst": around(3.0112345678)},
            ],
        }
    ],
    "renyi": [
        {
            "order": order,
            "forward": around(value),
            "reverse": around(value),
            "sampled_lower": value * 0.93,
            "bounds": [
                {"id": "bsa24.theorem_4_1", "value": 9 * value, "verdict": "consistent"},
                {"id": "at22.b_1", "value": None},
            ],
        }
        for order, value in ((2.0, 0.8123456789), (8.0, 1.93123456), (32.0, 2.71123))
    ],
    "mu_lower": 1.0423,
    "laws": full_batch_laws(3.0),
    "tradeoff": _tradeoff(
        1.1, 1.04, {"bsa24.theorem_4_1": 6.3, "bsa24.theorem_4_3": 2.1, "example.theorem_1": 1.0}
    ),
    "epsilon_against_steps": {
        "delta": 1e-5,
        "steps": _STEPS,
        "exact": [around(3.08728040761 * (1 - math.exp(-t / 70))) for t in _STEPS],
        "bounds": [
            {"id": "bsa24.theorem_4_1", "epsilon": [0.72 * math.sqrt(t) for t in _STEPS]},
            {"id": "bsa24.theorem_4_8", "epsilon": [0.72 * math.sqrt(t) for t in _STEPS]},
            {
                "id": "bsa24.theorem_4_3",
                "epsilon": [None if t < 150 else 9.6614 for t in _STEPS],
            },
            {"id": "at22.b_1", "epsilon": [min(0.8 * math.sqrt(t), 11.32) for t in _STEPS]},
            {"id": "example.theorem_1", "epsilon": [2.95] * len(_STEPS)},
        ],
        "burn_in": 150.0,
    },
    "diagnostics": None,
}

_SAMPLED = {
    **copy.deepcopy(_FULL_BATCH),
    "name": "sampled",
    "title": "Small batches, sampled without replacement",
    "summary": "The second walk jumps by 2.5 step deviations whenever the record is in the batch.",
    "mechanism": {
        **_MECHANISM,
        "steps": 150,
        "dataset_size": 10,
        "batch_size": 2,
        "noise_std": 0.2,
        "batching": "without replacement",
    },
    "derived": {
        "step_std": 0.02,
        "sensitivity": 2.0,
        "diameter_in_step_std": 50.0,
        "sampling_rate": 0.2,
        "epochs": 30.0,
    },
    "construction": {
        "name": "BiasedWalk",
        "citation": "Altschuler and Talwar 2022, section 4",
        "parameters": {"start": 0.0, "position": None},
    },
    "deltas": [
        _row(
            1e-3,
            9.4415,
            around(17.0911011604),
            around(4.30194685093),
            [
                _bound("bsa24.theorem_4_8", _STOCHASTIC, 131.2, 17.0911011604),
                _bound("bsa24.theorem_4_10", _STOCHASTIC, 118.04, 17.0911011604),
                _bound("bsa24.theorem_4_3", _FULL, None, 17.0911011604, _NEEDS_FULL),
            ],
            11.4,
        )
    ],
    "other_pairs": [],
    "laws": normal_laws(),
    "tradeoff": _tradeoff(3.2, 3.0, {"bsa24.theorem_4_8": 14.0, "bsa24.theorem_4_10": 11.5}),
    "epsilon_against_steps": {
        "delta": 1e-3,
        "steps": [1, 10, 40, 80, 150],
        "exact": [around(v) for v in (1.02, 4.81, 10.42, 14.2, 17.0911011604)],
        "bounds": [
            {"id": "bsa24.theorem_4_8", "epsilon": [8.1, 30.2, 66.1, 95.2, 131.2]},
            {"id": "bsa24.theorem_4_10", "epsilon": [8.1, 30.2, 66.1, 91.5, 118.04]},
        ],
        "burn_in": 75.0,
    },
}

_PAPER = {
    **copy.deepcopy(_SAMPLED),
    "name": "paper",
    "title": "The constants of the paper's footnote 9",
    "summary": "The two laws hardly overlap: no number of samples comes near the exact value.",
    "mechanism": {
        **_MECHANISM,
        "steps": 7500,
        "dataset_size": 10,
        "batch_size": 1,
        "step_size": 0.001,
        "noise_std": 0.3651483716701107,
        "batching": "without replacement",
    },
    "derived": {
        "step_std": 0.000365,
        "sensitivity": 2.0,
        "diameter_in_step_std": 2738.6,
        "sampling_rate": 0.1,
        "epochs": 750.0,
    },
    "deltas": [
        _row(
            delta,
            sampled,
            around(forward, 3e-7),
            around(reverse, 3e-7),
            [
                _bound("bsa24.theorem_4_8", _STOCHASTIC, claimed, forward),
                _bound("bsa24.theorem_4_3", _FULL, None, forward, _NEEDS_FULL),
            ],
            limit,
        )
        for delta, sampled, forward, reverse, claimed, limit in (
            (1e-2, 11.302, 210.16410861, 128.70383492, 1762.31, 11.31),
            (1e-5, 11.311, 237.80228292, 128.74498012, 2218.4, 11.32),
        )
    ],
    "renyi": [
        {
            "order": 100.0,
            "forward": around(380.418, 4e-4),
            "reverse": [128.7312, None],
            "sampled_lower": 10.2,
            "bounds": [{"id": "bsa24.theorem_4_8", "value": 4417.2, "verdict": "consistent"}],
        }
    ],
    "laws": paper_laws(),
    "tradeoff": _tradeoff(14.6, 4.4, {"bsa24.theorem_4_8": 61.0}),
    "epsilon_against_steps": {
        "delta": 1e-5,
        "steps": [100, 300, 1000, 2000, 3000, 4000, 5000, 6000, 7500],
        "exact": [
            around(v, 1e-6) for v in (9.1, 21.2, 52.0, 88.1, 120.6, 152.0, 181.9, 208.2, 237.80228)
        ],
        "bounds": [
            {
                "id": "bsa24.theorem_4_8",
                "epsilon": [211.0, 388.0, 744.0, 1080.0, 1341.0, 1570.0, 1777.0, 1960.0, 2218.4],
            }
        ],
        "burn_in": 7500.0,
    },
    "diagnostics": DIAGNOSTICS,
}

_RESULT: dict[str, Any] = {
    "format": 1,
    "scenario": {
        "name": "at22_lower_bound",
        "title": "Clamped symmetric against biased random walks",
        "summary": "The pair with which the privacy loss of Noisy-SGD is shown to stop growing.",
        "reference": "Altschuler and Talwar 2022, section 4 and appendix A.4",
    },
    "provenance": {
        "version": "0.1.0",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "commit_dirty": True,
        "python": "3.11.9",
        "packages": {"numpy": "2.1.0", "scipy": "1.15.0"},
        "started": "2025-01-02T03:04:05+00:00",
        "wall_seconds": 98.2,
        "seed": 7,
        "threads": 2,
        "command": "audit scenario=at22_lower_bound",
    },
    "confidence": 0.95,
    "settings": [_FULL_BATCH, _SAMPLED, _PAPER],
}

"""Adapters to other auditing packages; imported only if they are installed.

Install them with ``pip install -e ".[others]"``. Each is used as its own documentation shows, at
the same confidence and on the same samples.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .estimators import Estimator
from .mechanisms import DELTAS, Mechanism

Array = NDArray[np.float64]

_ONLY = ("identical normal", "Laplace", "Gaussian mu=1", "randomised response")


@cache
def _jax_privacy() -> Any:
    from jax_privacy import auditing

    return auditing


def _jax(strategy: Callable[[Any, int], Any], one_sided: bool) -> Callable[..., Array]:
    def bound(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
        auditing = _jax_privacy()
        auditor = auditing.CanaryScoreAuditor(x, y)
        chosen = strategy(auditing, seed)
        values = [
            auditor.epsilon_clopper_pearson(
                1 - confidence, float(delta), one_sided, threshold_strategy=chosen
            )
            for delta in DELTAS
        ]
        return np.maximum(np.asarray(values, dtype=np.float64), 0.0)

    return bound


def _counts_at(method: str) -> Callable[..., Array]:
    def bound(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
        import privacy_estimates
        from privacy_estimates.utils import AttackResults

        threshold = mechanism.fixed[len(mechanism.fixed) // 2]
        hits, false = int(np.sum(x >= threshold)), int(np.sum(y >= threshold))
        counts = AttackResults(FN=x.size - hits, FP=false, TN=y.size - false, TP=hits)
        values = [
            privacy_estimates.compute_eps_lo(counts, float(delta), 1 - confidence, method)
            for delta in DELTAS
        ]
        return np.maximum(np.asarray(values, dtype=np.float64), 0.0)

    return bound


def available() -> tuple[Estimator, ...]:
    """The estimators of the packages that are installed."""
    found: list[Estimator] = []
    if importlib.util.find_spec("jax_privacy") is not None:
        strategies: dict[str, Callable[[Any, int], Any]] = {
            "Bonferroni": lambda auditing, seed: auditing.Bonferroni(),
            "split": lambda auditing, seed: auditing.Split(seed=seed),
        }
        found += [
            Estimator(
                f"jax-privacy, {name}, {'one direction' if one_sided else 'both directions'}",
                _jax(strategy, one_sided),
                beside=True,
                only=_ONLY,
                share=0.1,
            )
            for name, strategy in strategies.items()
            for one_sided in (True, False)
        ]
    if importlib.util.find_spec("privacy_estimates") is not None:
        found += [
            Estimator(
                f"privacy-estimates, {method}",
                _counts_at(method),
                beside=True,
                only=_ONLY,
                share=0.1,
            )
            for method in ("beta", "jeffreys")
        ]
    return tuple(found)

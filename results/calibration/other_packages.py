"""Adapters to other auditing packages, run where they are installed.

Install them with ``pip install -e ".[others]"``. Each is used as its documentation shows, at the
same confidence and on the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.estimation.rate_limits import lower_limit, upper_limit
from results.calibration.estimators import Estimator
from results.calibration.mechanisms import DELTAS, Mechanism

Array = NDArray[np.float64]

# Distributions by the modules that they install.
PACKAGES = {"jax-privacy": "jax_privacy.auditing", "privacy-estimates": "privacy_estimates"}

_ONLY = ("identical normal", "Laplace", "Gaussian mu=1", "randomised response")
_STRATEGIES: dict[str, Callable[[Any, int], Any]] = {
    "Bonferroni": lambda auditing, seed: auditing.Bonferroni(),
    "split": lambda auditing, seed: auditing.Split(seed=seed),
}


def reason_not_run(package: str) -> str | None:
    """Why the package cannot be run here; None where it can."""
    try:
        import_module(PACKAGES[package])
    except ModuleNotFoundError as error:
        name = PACKAGES[package].partition(".")[0]
        return "not installed" if error.name == name else f"{error.name} is not installed"
    except Exception as error:  # whatever a foreign package may raise when imported
        return f"{type(error).__name__}: {error}"
    return None


def _auditor(x: Array, y: Array) -> tuple[Any, Any]:
    auditing = import_module(PACKAGES["jax-privacy"])
    return auditing, auditing.CanaryScoreAuditor(x, y)


def _jax(strategy: Callable[[Any, int], Any], one_sided: bool) -> Callable[..., Array]:
    def bound(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
        """`CanaryScoreAuditor.epsilon_clopper_pearson`, asked at each delta by itself."""
        auditing, auditor = _auditor(x, y)
        chosen = strategy(auditing, seed)
        values = [
            auditor.epsilon_clopper_pearson(
                1 - confidence, float(delta), one_sided, threshold_strategy=chosen
            )
            for delta in DELTAS
        ]
        return np.maximum(np.asarray(values, dtype=np.float64), 0.0)

    return bound


def jax_epsilons(
    x: Array, y: Array, confidence: float, deltas: Sequence[float], strategy: str, seed: int
) -> list[float]:
    """`CanaryScoreAuditor.epsilon_clopper_pearson`, both directions, at each delta by itself."""
    auditing, auditor = _auditor(x, y)
    chosen = _STRATEGIES[strategy](auditing, seed)
    bounds = (
        auditor.epsilon_clopper_pearson(1 - confidence, delta, False, threshold_strategy=chosen)
        for delta in deltas
    )
    return [float(max(bound, 0.0)) for bound in bounds]


def beta_of_half(x: Array, y: Array, confidence: float, delta: float, seed: int) -> float:
    """`compute_eps_lo` on half of the scores, at the threshold that is best on the other half.

    The package leaves the threshold to its user; this is how one can be had without an oracle.
    """
    package = import_module(PACKAGES["privacy-estimates"])
    generator = np.random.default_rng([seed, 7])
    (x, rest), (y, rest_prime) = (np.array_split(generator.permutation(part), 2) for part in (x, y))
    t = np.unique(np.quantile(np.concatenate([x, y]), np.linspace(0, 1, 1025), method="lower"))
    hits = x.size - np.searchsorted(np.sort(x), t)
    false = y.size - np.searchsorted(np.sort(y), t)
    half = (1 - confidence) / 2
    tpr, fpr = lower_limit(hits, x.size, half), upper_limit(false, y.size, half)
    with np.errstate(divide="ignore"):
        gains = [
            np.log(np.maximum(a - delta, 1e-300)) - np.log(b)
            for a, b in ((tpr, fpr), (1 - fpr, 1 - tpr))
        ]
    threshold = t[np.argmax(np.maximum(*gains))]
    tp, fp = int(np.sum(rest >= threshold)), int(np.sum(rest_prime >= threshold))
    counts = package.AttackResults(FN=rest.size - tp, FP=fp, TN=rest_prime.size - fp, TP=tp)
    return max(float(package.compute_eps_lo(counts, delta, 1 - confidence, "beta")), 0.0)


def _jax_gaussian(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
    """`CanaryScoreAuditor.epsilon_from_gdp`, which assumes a Gaussian mechanism."""
    _, auditor = _auditor(x, y)
    named = [float(delta) for delta in DELTAS if delta > 0]
    return np.array([0.0, *(auditor.epsilon_from_gdp(1 - confidence, delta) for delta in named)])


def _counts_at(method: str, deltas: Array = DELTAS) -> Callable[..., Array]:
    def bound(x: Array, y: Array, confidence: float, seed: int, mechanism: Mechanism) -> Array:
        """`compute_eps_lo` at one threshold fixed beforehand, asked at each delta by itself."""
        package = import_module(PACKAGES["privacy-estimates"])
        threshold = mechanism.fixed[len(mechanism.fixed) // 2]
        hits, false = int(np.sum(x >= threshold)), int(np.sum(y >= threshold))
        counts = package.AttackResults(FN=x.size - hits, FP=false, TN=y.size - false, TP=hits)
        values = np.zeros(DELTAS.size)
        for k in np.flatnonzero(np.isin(DELTAS, deltas)):
            values[k] = package.compute_eps_lo(counts, float(DELTAS[k]), 1 - confidence, method)
        return np.maximum(values, 0.0)

    return bound


def _listed() -> tuple[Estimator, ...]:
    jax: dict[str, Callable[..., Array]] = {
        f"{name}, {'one direction' if one_sided else 'both directions'}": _jax(chosen, one_sided)
        for name, chosen in _STRATEGIES.items()
        for one_sided in (True, False)
    }
    jax["epsilon from a Gaussian mu"] = _jax_gaussian
    counts = {method: _counts_at(method) for method in ("beta", "jeffreys")}
    tools = [("jax-privacy", jax), ("privacy-estimates", counts)]
    found = [
        Estimator(f"{package}, {name}", bound, beside=True, only=_ONLY, share=0.1, package=package)
        for package, methods in tools
        for name, bound in methods.items()
    ]
    # One integral over two rates for each step of a search: seconds an audit, so few of them.
    joint = _counts_at("joint-beta", DELTAS[DELTAS == 1e-2])
    slow = Estimator(
        "privacy-estimates, joint beta",
        joint,
        beside=True,
        only=("Laplace",),
        share=0.0005,
        package="privacy-estimates",
    )
    return (*found, slow)


LISTED = _listed()

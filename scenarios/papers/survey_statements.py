"""Boninsegna (2023): Theorem IV.1 and Tables I and II."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.curves import PrivacyCurve


def tail_bound(curve: PrivacyCurve, epsilon: float) -> float:
    """Return the delta of Theorem IV.1: the least exp(lambda (D_(lambda+1) - epsilon)).

    The minimum is over 601 values of lambda, spaced evenly in the logarithm from 1e-4 to 1e4.
    """
    moments = np.geomspace(1e-4, 1e4, 601)
    logs = moments * (np.asarray(curve.renyi(moments + 1)) - epsilon)
    return float(np.exp(np.minimum(np.min(logs), 0.0)))


@dataclass(frozen=True)
class Technique:
    """Row of Table I.

    Attributes
    ----------
    article : str
        The article.
    noise : str
        Order of the noise required for (epsilon, delta)-DP.
    technique, losses, deficiencies : str
        Entries as printed.
    entries : tuple of str
        Ids of the catalogue that hold the statements.
    """

    article: str
    noise: str
    technique: str
    losses: str
    deficiencies: str
    entries: tuple[str, ...]


_OF_STEPS = "sqrt(T ln(1/delta))/(n eps)"

TABLE_I = (
    Technique(
        "Abadi et al. 2016",
        _OF_STEPS,
        "moments accountant, amplification by sub-sampling",
        "none; sensitivity by clipping",
        "Poisson sampling for the batches, high privacy regime",
        ("survey.moments_accountant",),
    ),
    Technique(
        "Mironov 2017",
        _OF_STEPS,
        "composition in Renyi DP, amplification by sub-sampling",
        "none; sensitivity by clipping",
        "Poisson sampling for the batches, high privacy regime",
        ("survey.rdp_composition", "survey.sampled_gaussian_mtz19", "survey.subsampled_rdp_wbk19"),
    ),
    Technique(
        "Feldman et al. 2018",
        _OF_STEPS,
        "amplification by iteration",
        "convex, L-Lipschitz, beta-smooth",
        "the update step has to be a contraction",
        ("survey.section_vi_a", "survey.section_vi_a_last", "survey.section_vi_a_corrected"),
    ),
    Technique(
        "Chourasia et al. 2021",
        "sqrt(ln(1/delta))/eps",
        "coupled Langevin diffusion",
        "beta-smooth, L-Lipschitz, lambda-strongly convex",
        "strong convexity",
        ("survey.section_vii_a", "survey.theorem_vii_1", "survey.theorem_vii_2"),
    ),
)

TABLE_II = {
    "D, D'": "a database and an adjacent one (datasets X and X' here)",
    "B, b": "a batch, and its size (batch_size)",
    "S_f": "l2 sensitivity of a function (sensitivity)",
    "theta, d": "parameters of a model, and their number (the iterate)",
    "eta": "learning rate (step_size)",
    "L, beta, lambda": (
        "Lipschitz, smoothness and strong convexity constants of the loss "
        "(lipschitz, smoothness, strong_convexity)"
    ),
    "C": "clipping constant (clip_norm)",
    "T": "number of iterations (steps); in VI.A and VII.2 epochs",
    "sigma": "noise in units of the sensitivity: noise_std b/S",
    "eps, delta, alpha": "privacy budget, probability of a breach, Renyi order",
}
"""Symbols of the paper that bounds use, with the names of this package."""

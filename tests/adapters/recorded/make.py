"""Records what other packages say, for tests where they are not installed.

``make test-adapters`` checks that the packages still say so; this file writes anew what they say:
``.venv-adapters/bin/python tests/adapters/recorded/make.py``.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OPACUS = FOLDER / "opacus.json"
JAX_PRIVACY = FOLDER / "jax_privacy.json"
PRIVACY_METER = FOLDER / "attack_result_0.npz"

# Noise multiplier, sample rate, steps, of one entry and of several.
HISTORIES: tuple[list[tuple[float, float, int]], ...] = (
    [(1.1, 0.01, 1000)],
    [(0.6, 0.01, 100)],
    [(4.0, 1 / 235, 2350)],
    [(2.0, 1.0, 5)],
    [(1.0, 1 / 47, 94), (1.5, 1 / 47, 94)],
)
DELTAS = (1e-5, 1e-3)
ORDERS = (2.0, 3.5, 16.0)


def opacus() -> dict[str, Any]:
    """Return what Opacus' own accountants, told step by step, say of the histories."""
    import warnings

    from opacus.accountants import create_accountant
    from opacus.accountants.analysis.rdp import compute_rdp

    warnings.simplefilter("ignore")
    found = []
    for history in HISTORIES:
        claims: dict[str, Any] = {}
        for name in ("rdp", "prv", "gdp"):
            if name == "gdp" and len(history) > 1:
                continue
            accountant = create_accountant(name)
            for noise_multiplier, rate, steps in history:
                for _ in range(steps):
                    accountant.step(noise_multiplier=noise_multiplier, sample_rate=rate)
            claims[name] = [float(accountant.get_epsilon(delta)) for delta in DELTAS]
            claims["state_dict"] = accountant.state_dict()
        claims["renyi"] = [
            float(
                sum(
                    compute_rdp(q=q, noise_multiplier=z, steps=t, orders=order)
                    for z, q, t in history
                )
            )
            for order in ORDERS
        ]
        found.append(claims)
    return {
        "versions": {name: version(name) for name in ("opacus", "torch")},
        "deltas": DELTAS,
        "orders": ORDERS,
        "histories": found,
    }


def attack_result() -> dict[str, Any]:
    """Return arrays as `get_audit_results` of Privacy Meter (2025, audit.py) writes them.

    Scores are N(1, 1) for members and N(0, 1) for others.
    """
    import numpy as np
    from sklearn.metrics import auc, roc_curve

    rng = np.random.default_rng(17)
    memberships = rng.random(400) < 0.5
    scores = rng.normal(memberships.astype(float), 1.0)
    fpr, tpr, _ = roc_curve(memberships, scores)
    return {
        "fpr": fpr,
        "tpr": tpr,
        "auc": auc(fpr, tpr),
        "one_tenth_fpr": tpr[np.where(fpr <= 0.001)[0][-1]],
        "zero_fpr": tpr[np.where(fpr <= 0.0)[0][-1]],
        "scores": scores,
        "memberships": memberships,
    }


def save_attack_result() -> None:
    """Write them."""
    import numpy as np

    np.savez(PRIVACY_METER, **attack_result())


def auditor() -> dict[str, Any]:
    """Return what jax-privacy's auditor says of these scores."""
    from jax_privacy.auditing import CanaryScoreAuditor

    made = attack_result()
    scores, member = made["scores"], made["memberships"]
    found = CanaryScoreAuditor(scores[member], scores[~member])
    return {
        "versions": {"jax-privacy": version("jax-privacy")},
        "confidence": 0.95,
        "delta": 1e-2,
        "epsilon_clopper_pearson": float(found.epsilon_clopper_pearson(0.05, 1e-2)),
    }


if __name__ == "__main__":
    save_attack_result()
    for file, said in ((OPACUS, opacus()), (JAX_PRIVACY, auditor())):
        file.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")

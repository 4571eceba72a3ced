"""Ask jax-privacy's auditor for lower bounds on epsilon where the true value is known."""

import json
from pathlib import Path

import jax_privacy
import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor

SIGNIFICANCE = 0.05
DELTA = 1e-5
AUDITS = 20  # a valid bound exceeds the true epsilon in one of them, on average
SCORES = 10_000
NORMAL = {"weights": [1.0], "means": [0.0], "stds": [1.0]}
SAME = {"mixtures": {"first": NORMAL, "second": NORMAL}}
LAPLACE = {"laplace": {"sensitivity": 1, "scale": 1}}


def bounds(method, shift, laplace):
    """Return the smallest bound of all audits; scores of held-in canaries are ``shift`` higher."""
    found = []
    for seed in range(AUDITS):
        rng = np.random.default_rng(seed)
        draw = rng.laplace if laplace else rng.normal
        scores = draw(size=(2, SCORES))
        auditor = CanaryScoreAuditor(scores[0] + shift, scores[1])
        found.append(float(getattr(auditor, method)(SIGNIFICANCE, delta=DELTA)))
    print(method, shift, found)
    return min(found)


def claim(name, laws, epsilon):
    """Return the claim that the laws are not (epsilon, DELTA)-indistinguishable."""
    return {"id": name, "laws": laws, "not_private": {"epsilon": epsilon, "delta": DELTA}}


claims = [
    claim("gdp.same_law", SAME, bounds("epsilon_from_gdp", 0, laplace=False)),
    claim("gdp.laplace", LAPLACE, bounds("epsilon_from_gdp", 1, laplace=True)),
    claim("clopper_pearson.laplace", LAPLACE, bounds("epsilon_clopper_pearson", 1, laplace=True)),
]
Path("claims.json").write_text(json.dumps({"version": jax_privacy.__version__, "claims": claims}))

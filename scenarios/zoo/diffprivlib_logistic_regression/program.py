"""Fit diffprivlib's LogisticRegression on two neighbouring datasets, many times."""

import json
import warnings
from pathlib import Path

import diffprivlib
import numpy as np
from diffprivlib.models import LogisticRegression

EPSILON = 1.0
RUNS = 4000
LABELS = np.array([1, 0])


def coefficients(feature, norm, strength, seed):
    """Return the coefficient of each run; the first record has this feature, the other 0."""
    features = np.array([[feature], [0.0]])
    found = []
    for run in range(RUNS):
        model = LogisticRegression(
            epsilon=EPSILON,
            data_norm=norm,
            C=1 / strength,
            fit_intercept=False,
            tol=1e-10,
            max_iter=1000,
            random_state=seed * RUNS + run,
        )
        found.append(model.fit(features, LABELS).coef_[0, 0])
    return np.array(found)


def claim(norm, strength, seed):
    """Return the claim for a feature at the norm in X and 0 in X'.

    ``strength`` is that of the penalty on the sum of the losses. The score of a run is 1 if the
    coefficient lies within 2 / norm of 0, where the loss of a record at the norm bends most.
    """
    name = f"norm_{norm}"
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for number, (file, feature) in enumerate(((files["x"], norm), (files["x_prime"], 0))):
        scores = abs(coefficients(feature, norm, strength, seed + number)) * norm <= 2
        print(name, feature, scores.mean())
        np.save(file, scores.astype(float))
    return {"id": name, "samples": {**files, "favours": "forward"}, "epsilon": EPSILON, "delta": 0}


warnings.filterwarnings("ignore", category=UserWarning)
# function_sensitivity * data_sensitivity / penalty is 1 / 4 in both
claims = [claim(100, 100.0, 0), claim(1, 1.0, 2)]
Path("claims.json").write_text(json.dumps({"version": diffprivlib.__version__, "claims": claims}))

"""Fit diffprivlib's LinearRegression on two neighbouring datasets, many times."""

import json
import warnings
from pathlib import Path

import diffprivlib
import numpy as np
from diffprivlib.models import LinearRegression

EPSILON = 1.0
RUNS = 2000
# Two records (x, y); only x of the second record differs. All y are 0.
X, X_PRIME = np.array([[10.0], [0.0]]), np.array([[10.0], [100.0]])
Y = np.zeros(2)


def coefficients(x, lower, seed):
    """Return |coefficient| of each run; features are declared to lie in [lower, 100]."""
    found = []
    for run in range(RUNS):
        model = LinearRegression(
            epsilon=EPSILON,
            bounds_X=(lower, 100.0),
            bounds_y=(0.0, 1.0),
            fit_intercept=False,
            random_state=seed * RUNS + run,
        )
        found.append(abs(model.fit(x, Y).coef_[0]))
    return np.array(found)


def claim(name, lower, seed):
    """Return the claim that ``epsilon`` is kept, with scores of both datasets."""
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    np.save(files["x"], coefficients(X, lower, seed))
    np.save(files["x_prime"], coefficients(X_PRIME, lower, seed + 1))
    return {"id": name, "samples": {**files, "favours": "forward"}, "epsilon": EPSILON, "delta": 0}


warnings.filterwarnings("ignore", category=UserWarning)
claims = [claim("from_0_to_100", 0.0, 0), claim("from_-100_to_100", -100.0, 2)]
Path("claims.json").write_text(json.dumps({"version": diffprivlib.__version__, "claims": claims}))

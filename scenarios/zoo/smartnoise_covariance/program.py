"""Release a covariance matrix with SmartNoise's DPcovariance, many times on neighbouring data."""

import importlib.util
import json
import warnings
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pandas as pd

EPSILON = 1.0
RUNS = 1000
RECORDS = 10

# The package's __init__ imports a module that scikit-learn removed in 0.24; this file needs none.
package = distribution("smartnoise-synth")
file = package.locate_file("snsynth/models/dp_covariance.py")
spec = importlib.util.spec_from_file_location("dp_covariance", file)
dp_covariance = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dp_covariance)


def entries(data, bounds, entry):
    """Return one entry of the released lower triangle, for each run."""
    columns = list(range(data.shape[1]))
    limits = pd.DataFrame({column: list(pair) for column, pair in enumerate(bounds)}, dtype=float)
    mechanism = dp_covariance.DPcovariance(RECORDS, columns, limits, EPSILON)
    frame = pd.DataFrame(data, columns=columns)
    return np.array([mechanism.release(frame.copy())[entry] for _ in range(RUNS)])


def claim(name, record, bounds, entry, seed):
    """Return the claim for data of zeros, of which one record is ``record`` in X."""
    np.random.seed(seed)  # noqa: NPY002  (the library draws from the global generator)
    data = np.zeros((RECORDS, len(bounds)))
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    np.save(files["x_prime"], entries(data, bounds, entry))
    data[0] = record
    np.save(files["x"], entries(data, bounds, entry))
    return {"id": name, "samples": {**files, "favours": "forward"}, "epsilon": EPSILON, "delta": 0}


warnings.simplefilter("ignore")
UNIT, WIDE = (0, 1), (0, 100)
claims = [
    claim("outlier", [100, 0], [UNIT, UNIT], 0, seed=1),
    claim("in_range", [1, 1], [UNIT, UNIT], 0, seed=2),
    # the entries of the lower triangle are 00, 10, 11, 20, 21, 22
    claim("wide_second_column", [0, 100, 0], [UNIT, WIDE, UNIT], 2, seed=3),
]
Path("claims.json").write_text(json.dumps({"version": package.version, "claims": claims}))

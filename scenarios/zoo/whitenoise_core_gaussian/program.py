"""Release a mean through mechanisms of WhiteNoise Core, many times on neighbouring data."""

import inspect
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import opendp.whitenoise.core as whitenoise

EPSILON, DELTA = 0.9, 1e-5  # epsilon must be below 1
AT_ONCE, ANALYSES = 100, 40
BOUNDS = {"lower": 0.0, "upper": 1.0}
# the argument of resize is n in 0.1.3 and number_rows in 0.2.0
(NUMBER,) = {"n", "number_rows"} & set(inspect.signature(whitenoise.resize).parameters)


def means(record, records, mechanism, usage):
    """Return released means of ``record`` and zeros; values are declared to lie in [0, 1]."""
    Path("data.csv").write_text("\n".join(["value", str(record)] + ["0"] * (records - 1)) + "\n")
    found = []
    for _ in range(ANALYSES):
        with whitenoise.Analysis() as analysis:  # its noise cannot be seeded
            data = whitenoise.Dataset(path=str(Path("data.csv").absolute()), column_names=["value"])
            column = whitenoise.impute(whitenoise.to_float(data["value"]), **BOUNDS)
            column = whitenoise.clamp(column, **BOUNDS)
            column = whitenoise.resize(column, **BOUNDS, **{NUMBER: records})
            mean = whitenoise.mean(column)
            released = [mechanism(mean, privacy_usage=usage) for _ in range(AT_ONCE)]
        analysis.release()
        found += [float(np.ravel(one.value)[0]) for one in released]
    return np.array(found)


def claim(name, records, delta):
    """Return the claim of one mechanism, with scores of both datasets."""
    mechanism = getattr(whitenoise, f"{name}_mechanism")
    usage = {"epsilon": EPSILON} | ({"delta": delta} if delta else {})
    name = f"{name}_{records}"
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for file, record in ((files["x"], 1.0), (files["x_prime"], 0.0)):
        scores = means(record, records, mechanism, usage) * records
        print(name, record, "mean", scores.mean(), "standard deviation", scores.std())
        np.save(file, scores)
    samples = {**files, "favours": "forward"}
    return {"id": name, "samples": samples, "epsilon": EPSILON, "delta": delta}


claims = [claim("gaussian", 5, DELTA), claim("gaussian", 100, DELTA), claim("laplace", 5, 0)]
told = {"version": version("opendp-whitenoise-core"), "claims": claims}
Path("claims.json").write_text(json.dumps(told))

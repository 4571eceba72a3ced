"""Release a sum through SmartNoise Core's Gaussian mechanism, many times on neighbouring data."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import opendp.smartnoise.core as smartnoise

EPSILON, DELTA = 1.0, 1e-5
RECORDS, AT_ONCE, ANALYSES = 4, 100, 40


def sums(record, upper, analytic):
    """Return released sums of ``record`` and zeros; values are declared to lie in [0, upper]."""
    Path("data.csv").write_text("\n".join(["value", str(record)] + ["0"] * (RECORDS - 1)) + "\n")
    found = []
    for _ in range(ANALYSES):
        # Gaussian noise in floating point is allowed by name since 0.1.1; neither release seeds it
        with smartnoise.Analysis(protect_floating_point=False) as analysis:
            data = smartnoise.Dataset(path=str(Path("data.csv").absolute()), column_names=["value"])
            bounds = {"lower": 0.0, "upper": upper}
            column = smartnoise.impute(smartnoise.to_float(data["value"]), **bounds)
            column = smartnoise.clamp(column, **bounds)
            column = smartnoise.resize(column, number_rows=RECORDS, **bounds)
            total = smartnoise.sum(column)
            usage = {"epsilon": EPSILON, "delta": DELTA}
            released = [
                smartnoise.gaussian_mechanism(total, privacy_usage=usage, analytic=analytic)
                for _ in range(AT_ONCE)
            ]
        analysis.release()
        found += [float(one.value) for one in released]
    return np.array(found)


def claim(name, upper, analytic):
    """Return the claim of one setting, with scores of both datasets."""
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for file, record in ((files["x"], upper), (files["x_prime"], 0.0)):
        scores = sums(record, upper, analytic) / upper
        print(name, record, "mean", scores.mean(), "standard deviation", scores.std())
        np.save(file, scores)
    samples = {**files, "favours": "forward"}
    return {"id": name, "samples": samples, "epsilon": EPSILON, "delta": DELTA}


claims = [claim("analytic", 1.0, True), claim("classic", 0.01, False)]
told = {"version": version("opendp-smartnoise-core"), "claims": claims}
Path("claims.json").write_text(json.dumps(told))

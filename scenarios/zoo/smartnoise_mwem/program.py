"""Fit SmartNoise's MWEM synthesizer on neighbouring datasets, many times."""

import json
import random
from importlib.metadata import version
from pathlib import Path

import numpy as np
from opendp.smartnoise.synthesizers.mwem import MWEMSynthesizer

EPSILON = 1.0
RUNS = 2000


class OneMeasurement(MWEMSynthesizer):
    """One iteration with one query: the number of records that are 1 in every column.

    The library draws its queries from slices of this kind, whatever the data are.
    """

    scales = ()

    def __init__(self):
        super().__init__(EPSILON, q_count=1, iterations=1)

    def _compose_arbitrary_slices(self, num_s, dimensions):
        return [[np.s_[1:2]] * len(dimensions)]

    def _laplace(self, sigma):
        self.scales = (*self.scales, sigma)
        return super()._laplace(sigma)


def fitted(columns, value):
    """Return a model of two records, 0 and 1 in every column, and one of this value."""
    model = OneMeasurement()
    model.fit(np.array([[0] * columns, [1] * columns, [value] * columns]))
    return model


def law(name, columns):
    """Return the claim for the law of the one measurement: a record changes it by at most 1."""
    (scale,) = fitted(columns, 1).scales
    laws = {"laplace": {"sensitivity": 1, "scale": scale}}
    return {"id": f"{name}.law", "laws": laws, "epsilon": EPSILON, "delta": 0}


def fits(name, columns):
    """Return the claim for the released histogram: the weight of records of ones."""
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for file, value in ((files["x"], 1), (files["x_prime"], 0)):
        scores = []
        for _ in range(RUNS):
            ((histogram, _, _),) = fitted(columns, value).synthetic_histograms
            scores.append(np.log(histogram[(1,) * columns]))
        print(name, value, np.mean(scores), np.std(scores))
        np.save(file, scores)
    samples = {**files, "favours": "forward"}
    return {"id": f"{name}.fits", "samples": samples, "epsilon": EPSILON, "delta": 0}


random.seed(1)
np.random.seed(1)  # noqa: NPY002 -- what the library draws from
claims = [law("10_columns", 10), fits("10_columns", 10), law("1_column", 1)]
told = {"version": version("opendp-smartnoise"), "claims": claims}
Path("claims.json").write_text(json.dumps(told))

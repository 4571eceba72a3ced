"""Cluster neighbouring datasets with diffprivlib's KMeans."""

import json
import math
import warnings
from pathlib import Path

import diffprivlib
import numpy as np
from diffprivlib.mechanisms import GeometricFolded, LaplaceBoundedDomain
from diffprivlib.models import KMeans, k_means

RUNS = 1000
FEW, MANY = 4, 1000  # records


def records(number, columns, value):
    """Return records of zeros in [0, 1], of which one has this value in every column."""
    data = np.zeros((number, columns))
    data[0] = value
    return data


def fitted(data, epsilon, seed):
    """Return a model of one cluster."""
    return KMeans(1, epsilon=epsilon, bounds=(0, 1), random_state=seed).fit(data)


def sampled(name, score, seed):
    """Return the claim for scores of fitted models; one record is 0 in X and 1 in X'."""
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for value, file in enumerate(files.values()):
        data = records(FEW, 1, value)
        models = [fitted(data, 1.0, (seed + value) * RUNS + run) for run in range(RUNS)]
        np.save(file, [float(score(model)) for model in models])
        print(name, value, np.load(file).mean())
    return {"id": name, "samples": {**files, "favours": "forward"}, "epsilon": 1.0, "delta": 0}


def inertia_of_zeros(model):
    """Return whether the released inertia is that of records that are all 0."""
    return math.isclose(model.inertia_, FEW * model.cluster_centers_[0, 0] ** 2)


def centre(model):
    """Return the released centre."""
    return model.cluster_centers_[0, 0]


def noise(columns, epsilon):
    """Return the mechanisms of the last update: the first for the count, then one a column."""
    made = []

    def recording(mechanism):
        def make(**settings):
            made.append(mechanism(**settings))
            return made[-1]

        return make

    k_means.GeometricFolded = recording(GeometricFolded)
    k_means.LaplaceBoundedDomain = recording(LaplaceBoundedDomain)
    try:
        model = fitted(records(MANY, columns, 0), epsilon, 1)
    finally:
        k_means.GeometricFolded = GeometricFolded
        k_means.LaplaceBoundedDomain = LaplaceBoundedDomain
    spent = sum(one.epsilon for one in made)
    print(columns, "columns:", model.n_iter_, "updates spend", spent, "of", epsilon)
    return made[-columns - 1 :]


def probability(mechanisms, value, threshold):
    """Return P(all coordinates of the centre <= threshold); the record has this value."""
    count, *columns = mechanisms
    (each,) = {one.epsilon for one in columns}
    decay = math.exp(-count.epsilon)
    total = 0.0
    for number in range(1, 3 * MANY):  # what the noisy count can be, up to exp(-2000 epsilon)
        # values below 1/2 are folded to 1 - value
        weights = (decay ** abs(number - MANY) + decay ** (MANY + number - 1)) * (1 - decay)
        domain = LaplaceBoundedDomain(epsilon=each, sensitivity=1, lower=0, upper=number)
        scale = domain._find_scale()

        def cdf(x, scale=scale):
            below = math.exp(-abs(x - value) / scale) / 2
            return below if x < value else 1 - below

        inside = (cdf(threshold * number) - cdf(0)) / (cdf(number) - cdf(0))
        total += weights / (1 + decay) * inside ** len(columns)
    return total


def budget(columns, epsilon=10.0):
    """Return the claim for the law of an event: all sums are below a tenth of a record."""
    mechanisms = noise(columns, epsilon)
    shares = [probability(mechanisms, value, 0.1 / MANY) for value in (0, 1)]
    print(columns, "columns: probabilities", shares, "log ratio", math.log(shares[0] / shares[1]))
    first, second = ([share, 1 - share] for share in shares)
    laws = {"finite": {"first": first, "second": second}}
    return {"id": f"{columns}_columns", "laws": laws, "epsilon": epsilon, "delta": 0}


def check_law():
    """Compare the law of one coordinate with the shares of fitted models."""
    for value in (0, 1):
        law = probability(noise(1, 10.0), value, 0.25 / MANY)
        data = records(MANY, 1, value)
        hits = sum(centre(fitted(data, 10.0, run)) <= 0.25 / MANY for run in range(RUNS))
        print("value", value, "law", law, "share", hits / RUNS)
        assert abs(hits - RUNS * law) <= 5 * math.sqrt(RUNS * law * (1 - law)) + 1


warnings.simplefilter("ignore")
check_law()
claims = [
    sampled("inertia", inertia_of_zeros, 0),
    sampled("centre", lambda model: -centre(model), 2),
    budget(100),
    budget(2),
]
Path("claims.json").write_text(json.dumps({"version": diffprivlib.__version__, "claims": claims}))

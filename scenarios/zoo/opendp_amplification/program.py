"""Measure a sample of a population with OpenDP's amplified measurements, many times."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import opendp.prelude as dp

dp.enable_features("contrib", "honest-but-curious")

# twenty small leaks need many runs to be seen at all
RUNS = {"one_sample": 6000, "fresh_samples": 60_000, "one_measurement": 6000}
POPULATION, SAMPLE, MEASUREMENTS = 100, 2, 20

space = dp.vector_domain(dp.atom_domain(bounds=(0, 1)), size=SAMPLE), dp.symmetric_distance()
noisy_sum = space >> dp.t.then_sum() >> dp.m.then_laplace(1.0)
amplified = dp.c.make_population_amplification(noisy_sum, population_size=POPULATION)
composed = dp.c.make_composition([amplified] * MEASUREMENTS)
CHANGE = 2  # replacing a record is a removal and an addition
rng = np.random.default_rng(1)


def sample(record):
    """Return a simple random sample; all records of the population but one are 0."""
    chosen = rng.choice(POPULATION, SAMPLE, replace=False)
    return [record if index == 0 else 0 for index in chosen.tolist()]


def score(sums):
    """Return the log-likelihood ratio between a sample with a 1 and one without."""
    return sum(abs(value) - abs(value - 1) for value in sums)


RELEASES = {
    "one_sample": lambda record: composed(sample(record)),
    "fresh_samples": lambda record: [amplified(sample(record)) for _ in range(MEASUREMENTS)],
    "one_measurement": lambda record: [amplified(sample(record))],
}
epsilons = {name: composed.map(CHANGE) for name in RELEASES}
epsilons["one_measurement"] = amplified.map(CHANGE)
claims = []
for name, release in RELEASES.items():
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for file, record in zip(files.values(), (1, 0), strict=True):
        scores = [score(release(record)) for _ in range(RUNS[name])]
        np.save(file, np.array(scores, dtype=np.int8))
    claims.append(
        {
            "id": name,
            "samples": {**files, "favours": "forward"},
            "epsilon": epsilons[name],
            "delta": 0,
        }
    )
Path("claims.json").write_text(json.dumps({"version": version("opendp"), "claims": claims}))

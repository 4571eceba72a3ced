"""Select the larger of two scores with OpenDP's noisy max, many times on neighbouring datasets."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import opendp.prelude as dp

dp.enable_features("contrib")

RUNS = 20_000
ORDER, DELTA = 2, 0.15
# The scores of neighbouring datasets differ by at most 1 each.
SCORES, SCORES_PRIME = [1, -1], [0, 0]
SPACE = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)

concentrated = dp.m.make_noisy_max(*SPACE, dp.zero_concentrated_divergence(), scale=1.0)
pure = dp.m.make_noisy_max(*SPACE, dp.max_divergence(), scale=1.0)
rho = concentrated.map(1)
epsilon = dp.c.make_zCDP_to_approxDP(concentrated).map(1).epsilon(DELTA)
print(f"rho {rho}, epsilon {epsilon} at delta {DELTA}, pure epsilon {pure.map(1)}")


def record(name, mechanism):
    """Store the selected index of each run on both datasets."""
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for file, scores in zip(files.values(), (SCORES, SCORES_PRIME), strict=True):
        np.save(file, np.array([mechanism(scores) for _ in range(RUNS)], dtype=np.int8))
    return files


selected, selected_pure = record("concentrated", concentrated), record("pure", pure)
claims = [
    {"id": "rho", "samples": selected, "renyi": {ORDER: ORDER * rho}},
    {"id": "rho.in_epsilon", "samples": selected, "epsilon": epsilon, "delta": DELTA},
    {"id": "pure_epsilon", "samples": selected_pure, "epsilon": pure.map(1), "delta": 0},
]
Path("claims.json").write_text(json.dumps({"version": version("opendp"), "claims": claims}))

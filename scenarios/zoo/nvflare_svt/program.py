"""Pass two neighbouring updates through NVFlare's SVTPrivacy, many times."""

import json
import logging
from importlib.metadata import version
from pathlib import Path

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.filters.svt_privacy import SVTPrivacy

RUNS = 4000
SHARE = 0.1  # epsilon of the threshold, and of each answer
UPDATES = {"x.npy": [0.5, 0.5], "x_prime.npy": [-0.25, 0.5]}  # the first coordinate differs

logging.disable(logging.CRITICAL)
np.random.seed(1)  # noqa: NPY002 -- what the library draws from
svt = SVTPrivacy(fraction=1.0, epsilon=SHARE, noise_var=SHARE, gamma=1.0, tau=0.0)
for file, update in UPDATES.items():
    scores = []
    for _ in range(RUNS):
        sent = DXO(DataKind.WEIGHT_DIFF, data={"w": np.array(update)}).to_shareable()
        released = from_shareable(svt.process(sent, FLContext())).data["w"]
        scores.append(float(released[0] == UPDATES["x.npy"][0]))
    np.save(file, scores)
# all shares that the filter knows: threshold, queries, and both answers
epsilon = svt.eps_1 + float(svt.eps_2) + len(UPDATES["x.npy"]) * svt.eps_3
claim = {
    "id": "first_coordinate",
    "samples": {"x": "x.npy", "x_prime": "x_prime.npy", "favours": "forward"},
    "epsilon": epsilon,
    "delta": 0,
}
Path("claims.json").write_text(json.dumps({"version": version("nvflare"), "claims": [claim]}))

"""Repeat the computation of the report with TensorFlow Privacy's accountant."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

sys.skip_tf_privacy_import = True  # the accountant needs no TensorFlow
from tensorflow_privacy.privacy.analysis.rdp_accountant import (  # noqa: E402
    compute_rdp,
    get_privacy_spent,
)

RECORDS, BATCH, NOISE_MULTIPLIER = 100_000, 105, 1
ORDERS = [1 + 1e-8] + [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))

step = {
    "steps": 1,
    "dataset_size": RECORDS,
    "batch_size": BATCH,
    "step_size": 1,
    "noise_std": NOISE_MULTIPLIER / BATCH,
    "clip_norm": 1,
    "convex": False,
    "batching": "poisson",
    "relation": "add remove",
    "release": "all iterates",
}
rdp = compute_rdp(BATCH / RECORDS, NOISE_MULTIPLIER, 1, ORDERS)
claims = [
    {
        "id": name,
        "mechanism": "step",
        "epsilon": float(get_privacy_spent(ORDERS, rdp, target_delta=delta)[0]),
        "delta": delta,
    }
    for name, delta in (("reported", 1e-3), ("smaller_delta", 1e-4))
]
told = {"version": version("tensorflow-privacy"), "mechanisms": {"step": step}, "claims": claims}
Path("claims.json").write_text(json.dumps(told))

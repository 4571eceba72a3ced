"""Print the epsilons of mnist_lr_tutorial.py with its default options."""

import json
import math
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

sys.skip_tf_privacy_import = True  # the accountant needs no TensorFlow
from tensorflow_privacy.privacy.analysis.rdp_accountant import (  # noqa: E402
    compute_rdp,
    get_privacy_spent,
)

# The options' defaults, and the size of MNIST.
LEARNING_RATE, NOISE_MULTIPLIER, BATCH, EPOCHS, DATA_NORM = 0.001, 0.05, 5, 5, 8
RECORDS, DELTA = 60_000, 1e-5
CLIP = math.sqrt(2 * (DATA_NORM**2 + 1))
PER_EPOCH = RECORDS // BATCH
ORDERS = np.concatenate([np.linspace(2, 20, num=181), np.linspace(20, 100, num=81)])
SHARES = {"half": 0.5, "nine_tenths": 0.9, "ninety_nine_percent": 0.99}

# The optimizer adds noise of standard deviation NOISE_MULTIPLIER * CLIP to the mean gradient
# (num_microbatches=1). Batches follow each other in a fixed order.
training = {
    "steps": EPOCHS * PER_EPOCH,
    "dataset_size": RECORDS,
    "batch_size": BATCH,
    "step_size": LEARNING_RATE,
    "noise_std": NOISE_MULTIPLIER * CLIP,
    "lipschitz": CLIP,
    "smoothness": (DATA_NORM**2 + 1) / 2,
    "convex": True,
    "batching": "cyclic",
    "relation": "replace one",
}
# The other line compares with clipped DP-SGD on sampled batches, all iterates released.
sampled = {
    "steps": EPOCHS * PER_EPOCH,
    "dataset_size": RECORDS,
    "batch_size": BATCH,
    "step_size": 1,
    "noise_std": NOISE_MULTIPLIER,
    "clip_norm": 1,
    "convex": False,
    "batching": "poisson",
    "relation": "add remove",
    "release": "all iterates",
}


def epsilon(rdp):
    """Convert as the tutorial does."""
    return float(get_privacy_spent(ORDERS, rdp, target_delta=DELTA)[0])


claims = []
for name, share in SHARES.items():
    steps = math.ceil(PER_EPOCH * share)  # the batch of the record, counted from 1
    inverse = (EPOCHS - 1) / PER_EPOCH + 1 / (PER_EPOCH - steps + 1)
    rdp = 2 * (NOISE_MULTIPLIER * BATCH) ** -2 * inverse * ORDERS
    pair = {"kind": "TwoSidedWalk", "position": steps - 1}
    claim = {"id": name, "mechanism": "training", "pair": pair}
    claims.append({**claim, "epsilon": epsilon(rdp), "delta": DELTA})
# as the tutorial: the noise multiplier is not scaled by the batch size
unscaled = compute_rdp(BATCH / RECORDS, NOISE_MULTIPLIER, EPOCHS * PER_EPOCH, ORDERS)
scaled = compute_rdp(BATCH / RECORDS, NOISE_MULTIPLIER * BATCH, EPOCHS * PER_EPOCH, ORDERS)
print("DP-SGD with the scaled noise multiplier:", epsilon(scaled))
claims.append(
    {"id": "dp_sgd", "mechanism": "sampled", "epsilon": epsilon(unscaled), "delta": DELTA}
)
mechanisms = {"training": training, "sampled": sampled}
told = {"version": version("tensorflow-privacy"), "mechanisms": mechanisms, "claims": claims}
Path("claims.json").write_text(json.dumps(told))

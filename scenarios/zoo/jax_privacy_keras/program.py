"""Ask jax-privacy's Keras configuration whether a noise multiplier keeps a privacy budget."""

import json
import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
import jax_privacy
from jax_privacy.keras_api import DPKerasConfig

EPSILON, DELTA = 1.1, 1e-5
STEPS, RECORDS = 100, 1000

mechanisms, claims = {}, []


def claim(name, micro_batches, noise_multiplier):
    """Claim the epsilon of a configuration, which raises an error if it finds a larger one."""
    config = DPKerasConfig(
        epsilon=EPSILON,
        delta=DELTA,
        clipping_norm=1.0,
        batch_size=10,
        gradient_accumulation_steps=micro_batches,
        train_steps=STEPS,
        train_size=RECORDS,
        noise_multiplier=noise_multiplier,
    )
    if noise_multiplier is None:
        config = config.update_with_calibrated_noise_multiplier()
    # the documented noise on the average of the gradients of a batch
    batch = config.effective_batch_size
    mechanisms[name] = {
        "steps": config.train_steps,
        "dataset_size": config.train_size,
        "batch_size": batch,
        "step_size": 1,
        "noise_std": float(config.noise_multiplier) * config.clipping_norm / batch,
        "clip_norm": config.clipping_norm,
        "convex": False,
        "batching": "poisson",
        "relation": "add remove",
        "release": "all iterates",
    }
    claims.append({"id": name, "mechanism": name, "epsilon": config.epsilon, "delta": config.delta})


claim("eight_micro_batches", 8, 1.0)
claim("calibrated", 8, None)
claim("one_batch", 1, 1.0)
told = {"version": jax_privacy.__version__, "mechanisms": mechanisms, "claims": claims}
Path("claims.json").write_text(json.dumps(told))

"""Run one step of jax-privacy's example many times, on neighbouring batches."""

import json
from pathlib import Path

import dp_accounting
import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
from dp_accounting.pld import PLDAccountant
from jax_privacy import noise_addition

BATCH, CLIP, NOISE_MULTIPLIER, DELTA = 16, 1.0, 0.5, 1e-2
RUNS = 20_000

# One parameter; the gradient of a record is the record.
gradient = jax_privacy.clipped_grad(
    lambda weight, records: jnp.sum(weight * records), l2_clip_norm=CLIP, batch_argnums=1
)
sensitivity = gradient.sensitivity(dp_accounting.NeighboringRelation.REPLACE_ONE)


def steps(batch, divide_first, seed):
    """Return the noisy mean gradient of each run."""

    def step(key):
        privatizer = noise_addition.gaussian_privatizer(
            stddev=NOISE_MULTIPLIER * sensitivity, prng_key=key
        )
        total = gradient(jnp.array(0.0), batch)
        if divide_first:
            return privatizer.update(total / BATCH, privatizer.init(jnp.array(0.0)))[0]
        return privatizer.update(total, privatizer.init(jnp.array(0.0)))[0] / BATCH

    return np.array(jax.jit(jax.vmap(step))(jax.random.split(jax.random.key(seed), RUNS)))


accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
accountant.compose(dp_accounting.GaussianDpEvent(NOISE_MULTIPLIER))
epsilon = float(accountant.get_epsilon(DELTA))
claims = []
for seed, name in enumerate(("noise_on_mean", "noise_on_sum")):
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for place, (file, record) in enumerate(zip(files.values(), (5.0, -5.0), strict=True)):
        batch = jnp.zeros(BATCH).at[0].set(record)
        np.save(file, steps(batch, name == "noise_on_mean", 2 * seed + place))
    claims.append({"id": name, "samples": files, "epsilon": epsilon, "delta": DELTA})
Path("claims.json").write_text(json.dumps({"version": jax_privacy.__version__, "claims": claims}))

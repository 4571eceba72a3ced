"""Train a LayerNormalization for one step with TensorFlow Privacy's fast clipping, many times."""

import json
import os
from importlib.metadata import version
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow_privacy import DPSequential
from tensorflow_privacy.privacy.fast_gradient_clipping import layer_registry
from tensorflow_privacy.privacy.fast_gradient_clipping.registry_functions import (
    layer_normalization,
)

CLIP, NOISE_MULTIPLIER = 1.0, 2.0
RUNS = 1000
# The second feature is the mean of the three, so only its shift (beta) gets a gradient.
FEATURES = tf.constant([[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])


def shifts(target, microbatches, seed):
    """Return the trained shift of each run; the first record has this target, the other has 0."""
    tf.random.set_seed(seed)
    registry = layer_registry.LayerRegistry()
    registry.insert(
        tf.keras.layers.LayerNormalization, layer_normalization.layer_normalization_computation
    )
    take_second = tf.keras.layers.Dense(
        1,
        use_bias=False,
        trainable=False,
        kernel_initializer=tf.constant_initializer([[0.0], [1.0], [0.0]]),
    )
    model = DPSequential(
        l2_norm_clip=CLIP,
        noise_multiplier=NOISE_MULTIPLIER,
        num_microbatches=microbatches,
        layer_registry=registry,
        layers=[tf.keras.Input((3,)), tf.keras.layers.LayerNormalization(), take_second],
    )
    model.compile(optimizer=tf.keras.optimizers.SGD(1.0), loss=tf.keras.losses.MeanSquaredError())
    start = model.get_weights()
    targets = tf.constant([[target], [0.0]])
    found = []
    for _ in range(RUNS):
        model.set_weights(start)
        model.train_on_batch(FEATURES, targets)
        found.append(float(model.layers[0].beta[1]))
    return np.array(found)


def claim(name, microbatches, sensitivity, seed):
    """Return the claim that one step is a Gaussian mechanism."""
    files = {"x": f"{name}.x.npy", "x_prime": f"{name}.x_prime.npy"}
    for place, (file, target) in enumerate(zip(files.values(), (50.0, 0.0), strict=True)):
        np.save(file, shifts(target, microbatches, seed + place))
    return {"id": name, "samples": files, "mu": sensitivity / NOISE_MULTIPLIER}


claims = [
    claim("two_microbatches", 2, 2 * CLIP, seed=1),  # a record changes its micro-batch by 2 CLIP
    claim("per_example", None, CLIP, seed=3),
]
told = {"version": version("tensorflow-privacy"), "claims": claims}
Path("claims.json").write_text(json.dumps(told))

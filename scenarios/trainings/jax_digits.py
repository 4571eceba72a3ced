"""JAX on scikit-learn's digits: DP-SGD with jax-privacy, as it should be and with four mistakes.

``python scenarios/trainings/jax_digits.py`` audits all five in about a minute on two cores, and
writes a report. It needs jax-privacy and scikit-learn.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax_privacy import batch_selection, clipped_grad, noise_addition
from numpy.typing import NDArray

import digits_canary as digits

Array = NDArray[np.float64]

_STEPS = digits.EPOCHS * digits.STEPS_PER_EPOCH


class Variant(enum.Enum):
    """A training, right or broken, and what is wrong with it."""

    RIGHT = "As it should be."
    SAME_KEY = (
        "The privatizer's new state, which holds the next key, is dropped. Every step adds the "
        "same noise, and the difference of two steps has none."
    )
    NO_CLIP_NORM = (
        "The noise multiplier is given as the noise's standard deviation, which is that times the "
        "clipping norm."
    )
    BATCH_CLIPPED = "The gradient of the batch is clipped (by optax), not that of each record."
    NO_MASK = (
        "Batches are padded with index -1 to one size, and the mask of the padding is not passed "
        "on. In NumPy and JAX index -1 is the last record, which fills up each batch."
    )


def train(canary: bool, seed: int, variant: str = "RIGHT") -> Array:
    """Train once and return its scores; see `digits_canary.scores`."""
    sampler = batch_selection.CyclicPoissonSampling(
        sampling_prob=digits.SAMPLING_RATE,
        iterations=_STEPS,
        partition_type=batch_selection.PartitionType.INDEPENDENT,
    )
    batches = [
        batch_selection.split_and_pad_global_batch(batch, digits.PICTURES)[0]
        for batch in sampler.batch_iterator(digits.PICTURES, rng=seed)
    ]
    gradients = _gradients(
        jax.random.key(seed), np.stack(batches), *_dataset(canary), Variant[variant]
    )
    return digits.scores(np.asarray(gradients, dtype=np.float64))


def claims(variant: str = "RIGHT") -> list[tuple[float, float]]:
    """Return (epsilon, delta) of dp-accounting's accountant; no mistake changes what it is told."""
    step = dp_accounting.PoissonSampledDpEvent(
        digits.SAMPLING_RATE, dp_accounting.GaussianDpEvent(digits.NOISE_MULTIPLIER)
    )
    accountant = dp_accounting.pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    accountant.compose(step, _STEPS)
    return [(float(accountant.get_epsilon(delta)), delta) for delta in digits.DELTAS]


@functools.cache
def _dataset(canary: bool) -> tuple[jax.Array, jax.Array]:
    pictures, zeros = digits.records(canary)
    return jnp.asarray(pictures), jnp.asarray(zeros)


def _losses(weights: jax.Array, pictures: jax.Array, zeros: jax.Array) -> jax.Array:
    return optax.sigmoid_binary_cross_entropy(pictures @ weights, zeros)


def _mean_loss(weights: jax.Array, pictures: jax.Array, zeros: jax.Array) -> jax.Array:
    return jnp.mean(_losses(weights, pictures, zeros))


def _clipped_as_one(
    weights: jax.Array, pictures: jax.Array, zeros: jax.Array, is_padding_example: jax.Array
) -> jax.Array:
    """Return the clipped gradient of a batch, in the scale of a sum of gradients."""

    def loss(weights: jax.Array) -> jax.Array:
        losses = jnp.where(is_padding_example, 0, _losses(weights, pictures, zeros))
        return jnp.sum(losses) / digits.BATCH_SIZE

    clip = optax.clip_by_global_norm(digits.CLIP_NORM)
    clipped, _ = clip.update(jax.grad(loss)(weights), clip.init(weights))
    return clipped * digits.BATCH_SIZE


@functools.partial(jax.jit, static_argnames="variant")
def _gradients(
    key: jax.Array, batches: jax.Array, pictures: jax.Array, zeros: jax.Array, variant: Variant
) -> jax.Array:
    """Train, and return the noisy sum of gradients of each step, shape (steps, 64)."""
    gradient = clipped_grad(_mean_loss, l2_clip_norm=digits.CLIP_NORM, batch_argnums=(1, 2))
    sensitivity = gradient.sensitivity(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    noise_std = digits.NOISE_MULTIPLIER * sensitivity
    if variant is Variant.NO_CLIP_NORM:
        noise_std = digits.NOISE_MULTIPLIER
    privatizer = noise_addition.gaussian_privatizer(stddev=noise_std, prng_key=key)
    sgd = optax.sgd(digits.LEARNING_RATE)
    summed = _clipped_as_one if variant is Variant.BATCH_CLIPPED else gradient

    def step(state: Any, batch: jax.Array) -> tuple[Any, jax.Array]:
        weights, noise_state, sgd_state = state
        padding = jnp.zeros(batch.shape, bool) if variant is Variant.NO_MASK else batch < 0
        clean = summed(weights, pictures[batch], zeros[batch], is_padding_example=padding)
        noisy, next_noise_state = privatizer.update(clean, noise_state)
        if variant is not Variant.SAME_KEY:
            noise_state = next_noise_state
        update, sgd_state = sgd.update(noisy / digits.BATCH_SIZE, sgd_state)
        return (optax.apply_updates(weights, update), noise_state, sgd_state), noisy

    weights = jnp.zeros(pictures.shape[1])
    start = weights, privatizer.init(weights), sgd.init(weights)
    return jax.lax.scan(step, start, batches)[1]


if __name__ == "__main__":
    digits.main(
        train, claims, Variant, library="jax-privacy", accountant="dp-accounting's PLD accountant"
    )

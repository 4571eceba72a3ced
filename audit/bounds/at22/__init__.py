"""Altschuler and Talwar (2022), "Privacy of Noisy Stochastic Gradient Descent"."""

from audit.bounds.at22 import fixed_batches, rates, small_batches

__all__ = ["fixed_batches", "rates", "small_batches"]

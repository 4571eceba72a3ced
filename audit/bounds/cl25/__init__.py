"""Chien and Li (2025), "Convergent Privacy Loss of Noisy-SGD ..."."""

from audit.bounds.cl25 import cyclic_batches, full_batches, sampled_batches

__all__ = ["cyclic_batches", "full_batches", "sampled_batches"]

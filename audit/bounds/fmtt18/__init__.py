"""Feldman, Mironov, Talwar and Thakurta (2018), "Privacy Amplification by Iteration"."""

from audit.bounds.fmtt18 import epsilon_delta, renyi

__all__ = ["epsilon_delta", "renyi"]

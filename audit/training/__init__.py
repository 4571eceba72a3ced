"""Audits of trainings in any framework: canaries, scores and trials.

The user gives a function that trains once and returns scores. It runs many times in processes of
its own, with a canary and without it, and what the scores certify is held against the claims.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

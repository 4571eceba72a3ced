"""Audit trainings written in any framework.

The user gives a function that trains once and returns scores. It runs many times in separate
processes, with and without a canary. Certified lower bounds from the scores are compared with the
claims.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

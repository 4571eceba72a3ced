"""Worst-case search: find the admissible pair that is easiest to distinguish."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

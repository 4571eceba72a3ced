"""Noisy-SGD Audit: lower bounds on the privacy loss of Noisy-SGD's last iterate.

Rooms are loaded when they are first used, so that ``import audit`` is quick: the pytest plugin is
loaded by every test run of its users, with or without claims.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]

"""Lower bounds on privacy loss from samples.

Every bound holds at a stated confidence level. Names are imported on first use; only sequential
audits import Numba.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

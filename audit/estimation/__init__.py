"""Lower bounds on privacy loss from samples, with honest confidence.

Names are imported when they are used: sequential audits alone import Numba.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

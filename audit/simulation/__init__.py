"""Monte Carlo: the independent witness for every exact law.

Names are imported when they are used, so that reading a configuration imports no Numba.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Adapters: objects of other libraries as mechanisms, claims and scores of this package.

There is one module per library; `audit.adapters.dp_accounting`, for example, reads `DpEvent`
objects and accountants. The library is imported only when one of its objects is read or made; if it
is missing, the error names the extra that installs it. Information that an object lacks must be
given as arguments. Objects without a counterpart in this package are refused by name.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

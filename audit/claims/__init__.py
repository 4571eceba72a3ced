"""Claims about mechanisms, and the verdicts on them.

    check_file("claims.yaml")  # judges every claim of a file

Claims are read from files (`audit.claims.claims_file`) or constructed (`Claim`), and judged by
`audit.claims.judge`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

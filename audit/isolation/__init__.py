"""Run user code in worker processes that cannot harm the caller.

    with Workers(folders) as workers, workers.function(
        "module:function", task="package.module:task", limits=limits
    ) as function:
        function(*arguments)  # runs in a separate process

If a worker hangs, crashes, exits or exceeds its memory limit, the caller gets a one-line
`UserCodeError`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

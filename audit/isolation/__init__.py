"""Functions of users, at arm's length: one importer, one wording, and worker processes.

    with Workers(folders) as workers, workers.function(
        "module:function", task="package.module:task", limits=limits
    ) as function:
        function(*arguments)  # runs in a process of its own

A worker that hangs, crashes, eats memory or ends itself is a `UserCodeError` in one line.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Typed results of scenario runs, and their JSON form.

`audit.scenario.run` returns a `Result`; reports take only `Result` objects. A result holds one
value per setting: a `PairResult`, a `UserMechanismResult` or a `StudyResult`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Typed results: what a run of a scenario produces, and its form as JSON.

`audit.scenario.run` returns a `Result`; reports take `Result`s and nothing else. A result holds
one value for each setting: a `PairResult`, a `UserMechanismResult` or a `StudyResult`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

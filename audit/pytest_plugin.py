"""The pytest plugin: collect files named ``*.claims.yaml``, one test per claim.

The hooks are defined in `_noisy_sgd_audit_pytest`, the only module that runs without such files
load. They are imported here for ``-p audit.pytest_plugin``, beside ``-p no:noisy_sgd_audit``.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from _noisy_sgd_audit_pytest import pytest_addoption, pytest_collect_file

if TYPE_CHECKING:
    from audit.claims.claim import Claim
    from audit.claims.judge import Shared

__all__ = [
    "ClaimItem",
    "ClaimWarning",
    "ClaimsFile",
    "InputErrorItem",
    "pytest_addoption",
    "pytest_collect_file",
]


class ClaimWarning(pytest.PytestWarning):
    """A claim of severity ``warn`` has an unexpected verdict."""


class ClaimsFile(pytest.File):
    """A claims file with all files that it includes; an unreadable entry is a failing test."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return one test for each claim and one for each complaint."""
        from audit.claims.claims_file import load
        from audit.claims.judge import Shared, equal_share, with_seed

        root = self.config.rootpath  # messages show paths relative to it, if that is possible
        inside = Path.cwd() == root and self.path.is_relative_to(root)
        loaded = load([self.path.relative_to(root) if inside else self.path])
        error = _error(str(self.config.getini("claims_error")))
        seed = self.config.getoption("--claims-seed")
        if seed is not None and seed < 0:
            raise pytest.UsageError(f"--claims-seed must be at least 0, got {seed}")
        claims = [c if seed is None else with_seed(c, seed) for c in loaded.claims]
        # equal shares, so that -k and the order of tests change nothing
        shared = Shared(loaded.files)
        shared.pairs.expect(claims)
        self.config.add_cleanup(shared.workers.close)
        error = equal_share(claims, error).spent
        for claim in claims:
            yield ClaimItem.from_parent(
                self, name=claim.id, claim=claim, error=error, shared=shared
            )
        names = Counter[str]()
        for complaint in loaded.complaints:
            name = f"line-{complaint.line or 1}"
            if complaint.file.name != self.path.name:
                name = f"{complaint.file.name}-{name}"
            names[name] += 1
            name += f"-{names[name]}" if names[name] > 1 else ""
            yield InputErrorItem.from_parent(self, name=name, text=str(complaint))


class ClaimItem(pytest.Item):
    """The test of one claim: passes if the verdict is as expected.

    Samples may refute a true claim with probability ``error``; exact laws and workers are
    ``shared`` with the other claims of the file.
    """

    def __init__(self, *, claim: Claim, error: float, shared: Shared, **others: Any) -> None:
        super().__init__(**others)
        self._claim, self._error, self._shared = claim, error, shared

    def runtest(self) -> None:
        """Judge the claim."""
        from audit.claims.formats import properties
        from audit.claims.judge import complaint, judge

        judgement = judge(self._claim, error=self._error, shared=self._shared)
        facts = properties(judgement).items()
        self.user_properties.extend(fact for fact in facts if fact[1] not in (None, ""))
        match judgement.mark:
            case "broken":
                pytest.fail(str(complaint(judgement)), pytrace=False)
            case "FAIL":
                pytest.fail(str(judgement), pytrace=False)
            case "warn":
                self.warn(ClaimWarning(str(judgement)))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the place of the claim."""
        place = self._claim.location
        if place is None:
            return self.path, None, self.name
        return place.file, place.line - 1, f"claim {self.name}"


class InputErrorItem(pytest.Item):
    """A failing test for an entry of a claims file that cannot be read."""

    def __init__(self, *, text: str, **others: Any) -> None:
        super().__init__(**others)
        self._text = text

    def runtest(self) -> None:
        """Fail with the message."""
        pytest.fail(self._text, pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file."""
        return self.path, None, self.name


def _error(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1:
            return float(text)
    raise pytest.UsageError(f"claims_error must be in (0, 1), got {text!r}")

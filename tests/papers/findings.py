"""Findings of studies in tests."""

from __future__ import annotations

from typing import Any

from audit.results import Findings


def found(study: Any, *, seed: int = 7, threads: int = 1, confidence: float = 0.999) -> Findings:
    """Run a study without a progress bar."""
    return study.find(  # type: ignore[no-any-return]
        seed=seed, threads=threads, confidence=confidence, progress=lambda done, total: None
    )


def caption(findings: Findings, name: str) -> str:
    """Return the words below a chart."""
    (one,) = [chart.caption for chart in findings.charts if chart.name == name]
    return one

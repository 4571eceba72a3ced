"""Reports from stored results: HTML, Markdown and figures, drawn without running anything."""

from audit.report.files import load, write, write_joined
from audit.report.runs import Run, gather

__all__ = ["Run", "gather", "load", "write", "write_joined"]

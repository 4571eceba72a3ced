"""Reports from stored results: HTML, Markdown and figures, drawn without running anything."""

from audit.report.files import load, write

__all__ = ["load", "write"]

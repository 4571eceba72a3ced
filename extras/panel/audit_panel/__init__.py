"""The standard panel: statements judged on mechanisms of all regimes, and their pages."""

from audit_panel.files import write
from audit_panel.judging import SIZE, judge_entries, judge_file, lines
from audit_panel.verdicts import TIGHT, PanelPoint, PanelVerdict

__all__ = [
    "SIZE",
    "TIGHT",
    "PanelPoint",
    "PanelVerdict",
    "judge_entries",
    "judge_file",
    "lines",
    "write",
]

"""Exact laws of the last iterate and their privacy curves, with error brackets."""

from audit.curves.bracketed import BracketedCurve, MuBracket
from audit.dominating import DominatingCurve, dominating_curve
from audit.exact.cell_curve import CellCurve
from audit.exact.explicit_curves import RepeatedCurve
from audit.exact.from_pair import curve, curves, law
from audit.exact.law import Law
from audit.exact.law_curve import LawCurve
from audit.exact.normal_laws import GaussianPairCurve, NormalLaw

__all__ = [
    "BracketedCurve",
    "CellCurve",
    "DominatingCurve",
    "GaussianPairCurve",
    "Law",
    "LawCurve",
    "MuBracket",
    "NormalLaw",
    "RepeatedCurve",
    "curve",
    "curves",
    "dominating_curve",
    "law",
]

"""Laws of the last iterate, computed and not sampled."""

from audit.exact.bracketed import BracketedCurve, MuBracket
from audit.exact.cells import CellCurve
from audit.exact.compute import curve, curves, law
from audit.exact.curve import LawCurve
from audit.exact.gaussian import GaussianPairCurve, NormalLaw
from audit.exact.law import Law

__all__ = [
    "BracketedCurve",
    "CellCurve",
    "GaussianPairCurve",
    "Law",
    "LawCurve",
    "MuBracket",
    "NormalLaw",
    "curve",
    "curves",
    "law",
]

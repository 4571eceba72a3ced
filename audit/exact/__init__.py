"""Laws of the last iterate, computed and not sampled."""

from audit.exact.compute import curve, curves, law
from audit.exact.curve import LawCurve
from audit.exact.gaussian import GaussianPairCurve, NormalLaw
from audit.exact.law import Law

__all__ = ["GaussianPairCurve", "Law", "LawCurve", "NormalLaw", "curve", "curves", "law"]

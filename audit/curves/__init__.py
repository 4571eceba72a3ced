"""Privacy curves: epsilon(delta), delta(epsilon), tradeoff function and Renyi divergence."""

from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.minimum import MinimumCurve
from audit.curves.pld import LossDistribution, PLDCurve
from audit.curves.pure import PureCurve
from audit.curves.renyi import RenyiCurve

__all__ = [
    "GaussianCurve",
    "LossDistribution",
    "MinimumCurve",
    "PLDCurve",
    "PrivacyCurve",
    "PureCurve",
    "RenyiCurve",
]

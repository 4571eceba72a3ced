"""Privacy curves: epsilon(delta), delta(epsilon), tradeoff function and Renyi divergence."""

from audit.curves.base import Order, PrivacyCurve
from audit.curves.gaussian import GaussianCurve
from audit.curves.minimum import MinimumCurve
from audit.curves.pld import LossDistribution, PLDCurve
from audit.curves.pure import PureCurve
from audit.curves.renyi import CostlyRenyiCurve, RenyiCurve
from audit.curves.tails import TailCurve

__all__ = [
    "CostlyRenyiCurve",
    "GaussianCurve",
    "LossDistribution",
    "MinimumCurve",
    "Order",
    "PLDCurve",
    "PrivacyCurve",
    "PureCurve",
    "RenyiCurve",
    "TailCurve",
]

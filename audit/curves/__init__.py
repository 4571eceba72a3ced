"""Privacy curves: epsilon(delta), delta(epsilon), tradeoff function and Renyi divergence."""

from audit.curves.base import PrivacyCurve
from audit.curves.gaussian import GaussianCurve

__all__ = ["GaussianCurve", "PrivacyCurve"]

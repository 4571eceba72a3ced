"""Families of losses in d dimensions, one file each."""

from audit_dimensions.losses.base import Loss
from audit_dimensions.losses.clipped import Clipped
from audit_dimensions.losses.huber import Huber
from audit_dimensions.losses.linear import Linear
from audit_dimensions.losses.logistic import Logistic
from audit_dimensions.losses.quadratic import Quadratic

__all__ = ["Clipped", "Huber", "Linear", "Logistic", "Loss", "Quadratic"]

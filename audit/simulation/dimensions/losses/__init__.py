"""Families of losses in d dimensions, one file each."""

from audit.simulation.dimensions.losses.base import Loss
from audit.simulation.dimensions.losses.clipped import Clipped
from audit.simulation.dimensions.losses.huber import Huber
from audit.simulation.dimensions.losses.linear import Linear
from audit.simulation.dimensions.losses.logistic import Logistic
from audit.simulation.dimensions.losses.quadratic import Quadratic

__all__ = ["Clipped", "Huber", "Linear", "Logistic", "Loss", "Quadratic"]

"""Former name of the package ``audit_dimensions``; it leaves with the next release."""

from audit_dimensions import *  # noqa: F403
from audit_dimensions import __all__ as __all__

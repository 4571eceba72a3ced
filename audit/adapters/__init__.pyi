from . import dp_accounting as dp_accounting
from . import jax_privacy as jax_privacy
from . import opacus as opacus
from . import scores as scores

__version__: str

from . import adapters as adapters
from . import bounds as bounds
from . import claims as claims
from . import constructions as constructions
from . import curves as curves
from . import dominating as dominating
from . import estimation as estimation
from . import exact as exact
from . import report as report
from . import results as results
from . import scenario as scenario
from . import search as search
from . import simulation as simulation
from . import testing as testing
from . import training as training
from .bounds import NotApplicable as NotApplicable
from .bounds import epsilon as epsilon
from .bounds import noise_multiplier as noise_multiplier
from .curves import Order as Order
from .mechanism import Batching as Batching
from .mechanism import Composition as Composition
from .mechanism import Divisor as Divisor
from .mechanism import Losses as Losses
from .mechanism import NoisySGD as NoisySGD
from .mechanism import Relation as Relation
from .mechanism import Release as Release

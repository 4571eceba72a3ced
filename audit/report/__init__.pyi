from .files import write as write
from .files import write_joined as write_joined
from .runs import Run as Run
from .runs import gather as gather
from .runs import load as load

from audit.adapters.scores import *

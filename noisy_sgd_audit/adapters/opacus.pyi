from audit.adapters.opacus import *

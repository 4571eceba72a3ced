from audit.simulation import *

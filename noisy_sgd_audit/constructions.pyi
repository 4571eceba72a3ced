from audit.constructions import *

from audit.scenario import *

from audit.estimation import *

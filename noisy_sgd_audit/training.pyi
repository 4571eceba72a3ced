from audit.training import *

from audit.bounds.assumptions import *

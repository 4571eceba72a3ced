from audit.results import *

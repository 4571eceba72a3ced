from audit.adapters import *

from audit.bounds import *

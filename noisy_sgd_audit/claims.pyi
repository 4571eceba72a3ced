from audit.claims import *

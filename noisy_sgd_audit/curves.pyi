from audit.curves import *

from audit.mechanism import *

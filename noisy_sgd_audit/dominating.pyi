from audit.dominating import *
